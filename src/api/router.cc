#include "api/router.h"

#include <algorithm>
#include <fmt/format.h>
#include <openssl/crypto.h>

#include "core/strings.h"

namespace exo::api {
namespace {

struct Path {
  Route route;
  std::string_view pattern;  // a prefix if it ends with "/", and then followed by a parameter
  std::string_view method;
};

constexpr std::string_view kGet = "GET", kPost = "POST";
constexpr Path kPaths[] = {
    {Route::kRoot, "/", kGet},
    {Route::kHealth, "/health", kGet},
    {Route::kHealth, "/v1/health", kGet},
    {Route::kModels, "/models", kGet},
    {Route::kModels, "/v1/models", kGet},
    {Route::kModel, "/v1/models/", kGet},
    {Route::kChatCompletions, "/v1/chat/completions", kPost},
    {Route::kChatCompletions, "/chat/completions", kPost},
    {Route::kChatCompletions, "/ollama/v1/chat/completions", kPost},
    {Route::kCancel, "/v1/cancel/", kPost},
};

std::optional<std::string> percent_decoded(std::string_view text) {
  const auto digit = [](char c) -> int {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
  };
  std::string decoded;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded += text[i];
      continue;
    }
    if (i + 2 >= text.size()) return std::nullopt;
    const int high = digit(text[i + 1]), low = digit(text[i + 2]);
    if (high < 0 || low < 0) return std::nullopt;
    decoded += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return decoded;
}

// The path without query and without a trailing slash.
std::string_view path_of(std::string_view target) {
  std::string_view path = target.substr(0, target.find_first_of("?#"));
  while (path.size() > 1 && path.ends_with('/')) path.remove_suffix(1);
  return path;
}

// The first value of `name` in the query, not decoded; empty: absent.
std::string_view query_value(std::string_view target, std::string_view name) {
  target = target.substr(0, target.find('#'));
  const std::size_t begin = target.find('?');
  if (begin == std::string_view::npos) return {};
  for (const std::string_view item : split(target.substr(begin + 1), '&')) {
    const std::size_t equals = item.find('=');
    if (equals != std::string_view::npos && item.substr(0, equals) == name)
      return item.substr(equals + 1);
  }
  return {};
}

const Path* find_path(std::string_view path) {
  for (const Path& candidate : kPaths) {
    const bool prefix = candidate.pattern.size() > 1 && candidate.pattern.ends_with('/');
    if (prefix ? path.size() > candidate.pattern.size() && path.starts_with(candidate.pattern)
               : path == candidate.pattern)
      return &candidate;
  }
  return nullptr;
}

bool equal_in_constant_time(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

HttpError problem(int status, std::string type, std::string message, std::string code = {}) {
  return {.status = status,
          .type = std::move(type),
          .message = std::move(message),
          .code = std::move(code)};
}

}  // namespace

void read_origin(std::string_view raw, RequestHead& head) {
  for (const std::string_view line : split(raw.substr(0, raw.find("\r\n\r\n")), '\n')) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string name = to_lower_ascii(line.substr(0, colon));
    const std::string_view value = trim(line.substr(colon + 1));
    if (name == "host" && head.host.empty()) head.host = value;
    if (name == "origin" && head.origin.empty()) head.origin = value;
  }
}

std::string Router::allowed_methods(std::string_view target) {
  const Path* path = find_path(path_of(target));
  if (path == nullptr) return {};
  return path->method == kGet ? "GET, HEAD, OPTIONS" : "POST, OPTIONS";
}

bool Router::is_allowed_origin(const RequestHead& head) const {
  if (std::ranges::find(options_.cors, head.origin) != options_.cors.end()) return true;
  if (head.origin != "http://" + head.host) return false;
  // A name that somebody else's DNS points at this machine is not the node's own.
  const std::string lower = to_lower_ascii(head.host);
  std::string_view host = lower;
  const std::size_t colon = host.rfind(':');
  if (colon != std::string_view::npos && host.find(']', colon) == std::string_view::npos)
    host = host.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host == "localhost" || (!host.empty() && host == head.local_address) ||
         std::ranges::find(options_.hosts, host) != options_.hosts.end();
}

bool Router::has_key(const RequestHead& head) const {
  constexpr std::string_view kBearer = "bearer ";  // the scheme's name in any case: RFC 9110, 11.1
  const std::string scheme = to_lower_ascii(head.authorization.substr(0, kBearer.size()));
  const std::string_view bearer = scheme == kBearer
                                      ? std::string_view(head.authorization).substr(kBearer.size())
                                      : std::string_view();
  return std::ranges::any_of(options_.api_keys, [&](const std::string& key) {
    return equal_in_constant_time(key, bearer) || equal_in_constant_time(key, head.api_key);
  });
}

Headers Router::cors_headers(const RequestHead& head) const {
  if (head.origin.empty() || !is_allowed_origin(head)) return {};
  Headers headers = {
      {"Access-Control-Allow-Origin", head.origin},
      {"Vary", "Origin"},
      {"Access-Control-Allow-Credentials", "true"},
      {"Access-Control-Expose-Headers", "x-request-id, request-id, x-exo-command-id"}};
  if (head.method == "OPTIONS" && !head.requested_method.empty()) {
    headers.emplace_back("Access-Control-Allow-Methods",
                         "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT");
    headers.emplace_back("Access-Control-Max-Age", "600");
    if (!head.requested_headers.empty())
      headers.emplace_back("Access-Control-Allow-Headers", head.requested_headers);
  }
  return headers;
}

std::expected<Routed, HttpError> Router::route(const RequestHead& head) const {
  const bool preflight = head.method == "OPTIONS" && !head.requested_method.empty();
  const bool safe = head.method == "GET" || head.method == "HEAD" || head.method == "OPTIONS";
  if (!head.origin.empty() && (!safe || preflight) && !is_allowed_origin(head)) {
    return std::unexpected(problem(403, "invalid_request_error",
                                   "this origin may not use the node: allow it with --cors ORIGIN",
                                   "origin_not_allowed"));
  }
  if (preflight) return Routed{.route = Route::kPreflight};
  const std::string_view path = path_of(head.target);
  const Path* found = find_path(path);
  if (found == nullptr)
    return std::unexpected(problem(404, "invalid_request_error",
                                   fmt::format("no such path: {}", path.substr(0, 200))));
  if (head.method == "OPTIONS")
    return Routed{.route = Route::kOptions, .allow = allowed_methods(head.target)};
  if (head.method != found->method && !(head.method == "HEAD" && found->method == kGet)) {
    return std::unexpected(problem(405, "invalid_request_error",
                                   fmt::format("{} takes {}", path.substr(0, 200), found->method)));
  }
  if (!options_.api_keys.empty() && found->route != Route::kRoot && !has_key(head)) {
    return std::unexpected(problem(401, "authentication_error",
                                   "a valid API key is wanted: Authorization: Bearer KEY",
                                   "invalid_api_key"));
  }
  const bool has_id = found->pattern.size() > 1 && found->pattern.ends_with('/');
  const auto parameter =
      percent_decoded(has_id                           ? path.substr(found->pattern.size())
                      : found->route == Route::kModels ? query_value(head.target, "status")
                                                       : std::string_view());
  if (!parameter)
    return std::unexpected(
        problem(400, "invalid_request_error", "the path is not percent-encoded correctly"));
  return Routed{.route = found->route,
                .parameter = *parameter,
                .for_claude = !head.anthropic_version.empty()};
}

}  // namespace exo::api
