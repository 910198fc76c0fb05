// Errors as values: Error, Result<T>, and the macros that pass an error on.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace exo {

// What kind of thing went wrong; adapters map it to a status, the command line to a sentence.
enum class ErrorCode {
  kInvalidInput,   // a request, file or flag is malformed or out of range
  kNotFound,       // the named thing does not exist
  kAlreadyExists,  // the name is taken
  kUnsupported,    // well-formed, but not something this build can do
  kContextLength,  // the prompt does not fit into the model's context
  kNoSpace,        // disk or memory is exhausted, or a budget is
  kPermission,     // the system refuses access
  kBusy,           // a queue is full, a lock is held, a port is in use
  kUnavailable,    // the other side is gone or not ready
  kTimedOut,       // a time limit passed
  kCancelled,      // somebody asked for it to stop
  kIo,             // reading or writing failed
  kInternal,       // nothing the user did
};

// The name of a code as it crosses process borders ("invalid_input", …), and back (kInternal for an
// unknown one).
std::string_view name(ErrorCode code);
ErrorCode error_code_from(std::string_view name);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message = {};  // one sentence without a full stop: what, and how to mend it
  std::string subject = {};  // the field, file, tensor or id that it is about; may be empty

  friend bool operator==(const Error&, const Error&) = default;
};

// "message (subject)" for people; the subject is left out where the message already names it.
std::string to_string(const Error& error);

template <typename T>
using Result = std::expected<T, Error>;

[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message,
                                                 std::string subject = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(subject)});
}

// The error of a system call: maps errno to a code and appends its text to `message`.
[[nodiscard]] std::unexpected<Error> fail_errno(int error_number, std::string message,
                                                std::string subject = {});

}  // namespace exo

#define EXO_CONCAT_INNER(a, b) a##b
#define EXO_CONCAT(a, b) EXO_CONCAT_INNER(a, b)

// EXO_TRY(auto x, f()) binds the value of f() or returns its error; EXO_TRY(f()) only checks.
#define EXO_TRY(...) EXO_TRY_CHOOSE(__VA_ARGS__)(return, __VA_ARGS__)
// The same inside a coroutine.
#define EXO_CO_TRY(...) EXO_TRY_CHOOSE(__VA_ARGS__)(co_return, __VA_ARGS__)

// One argument: only check. More: the first is the target, the rest an expression whose commas the
// preprocessor split.
#define EXO_TRY_CHOOSE(...)                                                            \
  EXO_TRY_SEVENTH(__VA_ARGS__, EXO_TRY_BIND, EXO_TRY_BIND, EXO_TRY_BIND, EXO_TRY_BIND, \
                  EXO_TRY_BIND, EXO_TRY_ONLY, )
#define EXO_TRY_SEVENTH(a, b, c, d, e, f, chosen, ...) chosen
#define EXO_TRY_BIND(leave, target, ...) \
  EXO_TRY_BIND_TO(leave, EXO_CONCAT(exo_result_, __COUNTER__), target, __VA_ARGS__)
#define EXO_TRY_BIND_TO(leave, temporary, target, ...)                                 \
  auto temporary = (__VA_ARGS__);                                                      \
  if (!temporary.has_value()) leave ::std::unexpected(::std::move(temporary).error()); \
  target = *::std::move(temporary)
#define EXO_TRY_ONLY(leave, ...) \
  EXO_TRY_ONLY_TO(leave, EXO_CONCAT(exo_result_, __COUNTER__), __VA_ARGS__)
#define EXO_TRY_ONLY_TO(leave, temporary, ...)                \
  if (auto temporary = (__VA_ARGS__); !temporary.has_value()) \
  leave ::std::unexpected(::std::move(temporary).error())
