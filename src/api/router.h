// Paths, methods, origins and keys: what a request asks for, decided without any I/O. Source:
// api.md 1.3–1.5, 2.
#pragma once

#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/http_error.h"

namespace exo::api {

struct RequestHead {
  std::string method = {}, target = {};
  std::string host = {}, origin = {};            // empty: absent
  std::string authorization = {}, api_key = {};  // the headers Authorization and x-api-key
  std::string requested_method = {}, requested_headers = {};  // of a preflight
  std::string anthropic_version = {};
  std::string local_address = {};  // of the node, as the client reached it
};

// Fills in the host and the origin that `head` lacks from the lines of a request whose headers were
// not read to their end, so that its refusal can have CORS headers. `raw` may be anything; an
// origin that comes behind too long a header is not in it.
void read_origin(std::string_view raw, RequestHead& head);

enum class Route {
  kRoot,
  kHealth,
  kModels,
  kModel,
  kChatCompletions,
  kCancel,
  kPreflight,
  kOptions
};

struct Routed {
  Route route = Route::kRoot;
  std::string parameter = {};  // decoded: the id of kModel and kCancel, the `status` of kModels
  std::string allow = {};      // of kOptions
  bool for_claude = false;     // errors of kModel as Anthropic's clients read them
};

using Headers = std::vector<std::pair<std::string, std::string>>;

struct RouterOptions {
  std::vector<std::string> cors = {};      // allowed foreign origins
  std::vector<std::string> hosts = {};     // the node's own addresses and names
  std::vector<std::string> api_keys = {};  // empty: no key is asked for
};

class Router {
 public:
  explicit Router(RouterOptions options) : options_(std::move(options)) {}

  // What to do, or the error to answer with (401, 403, 404, 405).
  std::expected<Routed, HttpError> route(const RequestHead& head) const;
  // The CORS headers of any reply to this request.
  Headers cors_headers(const RequestHead& head) const;
  // The methods of the path, for the Allow header; empty: no such path.
  static std::string allowed_methods(std::string_view target);

 private:
  bool is_allowed_origin(const RequestHead& head) const;
  bool has_key(const RequestHead& head) const;
  RouterOptions options_;
};

}  // namespace exo::api
