#include "core/result.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <system_error>

namespace exo {
namespace {

struct Named {
  ErrorCode code;
  std::string_view name;
};

constexpr std::array kNames = {
    Named{ErrorCode::kInvalidInput, "invalid_input"},
    Named{ErrorCode::kNotFound, "not_found"},
    Named{ErrorCode::kAlreadyExists, "already_exists"},
    Named{ErrorCode::kUnsupported, "unsupported"},
    Named{ErrorCode::kContextLength, "context_length"},
    Named{ErrorCode::kNoSpace, "no_space"},
    Named{ErrorCode::kPermission, "permission"},
    Named{ErrorCode::kBusy, "busy"},
    Named{ErrorCode::kUnavailable, "unavailable"},
    Named{ErrorCode::kTimedOut, "timed_out"},
    Named{ErrorCode::kCancelled, "cancelled"},
    Named{ErrorCode::kIo, "io"},
    Named{ErrorCode::kInternal, "internal"},
};

ErrorCode code_of_errno(int error_number) {
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermission;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
      return ErrorCode::kNoSpace;
    case EADDRINUSE:
    case EBUSY:
      return ErrorCode::kBusy;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
      return ErrorCode::kUnavailable;
    case ETIMEDOUT:
      return ErrorCode::kTimedOut;
    default:
      return ErrorCode::kIo;
  }
}

}  // namespace

std::string_view name(ErrorCode code) {
  for (const Named& entry : kNames) {
    if (entry.code == code) return entry.name;
  }
  return "internal";
}

ErrorCode error_code_from(std::string_view text) {
  for (const Named& entry : kNames) {
    if (entry.name == text) return entry.code;
  }
  return ErrorCode::kInternal;
}

std::string to_string(const Error& error) {
  if (error.subject.empty() || error.message.contains(error.subject)) return error.message;
  return error.message + " (" + error.subject + ")";
}

std::unexpected<Error> fail_errno(int error_number, std::string message, std::string subject) {
  message += ": " + std::generic_category().message(error_number);
  return fail(code_of_errno(error_number), std::move(message), std::move(subject));
}

}  // namespace exo
