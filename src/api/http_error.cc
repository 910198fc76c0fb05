#include "api/http_error.h"

#include <nlohmann/json.hpp>

namespace exo::api {

HttpError http_error(const Error& error) {
  HttpError result{.message = error.message};
  switch (error.code) {
    case ErrorCode::kInvalidInput:
    case ErrorCode::kUnsupported:
    case ErrorCode::kAlreadyExists:
      result.status = 400;
      result.type = "invalid_request_error";
      result.param = error.subject;
      break;
    case ErrorCode::kContextLength:
      result.status = 400;
      result.type = "invalid_request_error";
      result.param = "messages";
      result.code = "context_length_exceeded";
      break;
    case ErrorCode::kNotFound:
      result.status = 404;
      result.type = "invalid_request_error";
      result.param = "model";
      result.code = "model_not_found";
      break;
    case ErrorCode::kBusy:
      result.status = 429;
      result.type = result.code = "rate_limit_exceeded";
      break;
    case ErrorCode::kUnavailable:
      result.status = 503;
      break;
    default:
      result.message = to_string(error);
      break;
  }
  return result;
}

HttpError unknown_model(const Error& error) {
  if (error.code != ErrorCode::kInvalidInput) return http_error(error);
  return http_error({.code = ErrorCode::kNotFound, .message = error.message});
}

Json error_body(const HttpError& error) {
  const auto text_or_null = [](const std::string& text) {
    return text.empty() ? Json(nullptr) : Json(text);
  };
  return {{"error",
           {{"message", error.message},
            {"type", error.type},
            {"param", text_or_null(error.param)},
            {"code", text_or_null(error.code)}}}};
}

Json claude_error_body(const HttpError& error, std::string_view request_id) {
  return {{"type", "error"},
          {"error",
           {{"type", error.status == 404 ? "not_found_error" : "api_error"},
            {"message", error.message}}},
          {"request_id", request_id}};
}

}  // namespace exo::api
