// Errors as values.
//
// `Status` is OK or an error of the table in errors.inc with a message for people: what was wrong,
// where, and, where it is known, the next step. `Result<T>` is a T or such an error. Neither
// throws; asking a failed Result for its value is a programming error and aborts. Values; may be
// used on any thread.
#pragma once

#include <cassert>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace geminga {

enum class ErrorCode : std::uint8_t {
  Ok = 0,
#define GEMINGA_ERROR(name, wire, http, text) name,
#include "base/errors.inc"
#undef GEMINGA_ERROR
};

// The row of errors.inc: its name, the number in pulsar.proto.ServerError, the HTTP status, the
// text.
struct ErrorInfo {
  std::string_view name;
  int wire_code;
  int http_status;
  std::string_view text;
};
const ErrorInfo& error_info(ErrorCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status ok() { return {}; }
#define GEMINGA_ERROR(name, wire, http, text) \
  static Status name(std::string message) { return {ErrorCode::name, std::move(message)}; }
#include "base/errors.inc"
#undef GEMINGA_ERROR

  bool is_ok() const { return code_ == ErrorCode::Ok; }
  explicit operator bool() const { return is_ok(); }
  ErrorCode code() const { return code_; }
  bool is(ErrorCode code) const { return code_ == code; }
  const std::string& message() const { return message_; }
  // "TopicNotFound: persistent://public/default/x does not exist", for logs.
  std::string to_string() const;
  // The same error with `where` and a colon put before its message.
  Status with_context(std::string_view where) const;

 private:
  ErrorCode code_ = ErrorCode::Ok;
  std::string message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  // An error; asio's co_spawn needs it for tasks that end by an exception.
  Result() : Result(Status(ErrorCode::Unknown, "no result")) {}
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    assert(!std::get<1>(state_).is_ok());
  }

  bool is_ok() const { return state_.index() == 0; }
  explicit operator bool() const { return is_ok(); }
  Status status() const { return is_ok() ? Status::ok() : std::get<1>(state_); }
  ErrorCode code() const { return is_ok() ? ErrorCode::Ok : std::get<1>(state_).code(); }
  bool is(ErrorCode code) const { return this->code() == code; }

  T& value() & { return *checked(); }
  const T& value() const& { return *const_cast<Result*>(this)->checked(); }
  T&& value() && { return std::move(*checked()); }
  T& operator*() & { return *checked(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*checked()); }
  T* operator->() { return checked(); }
  const T* operator->() const { return &value(); }
  T value_or(T other) && { return is_ok() ? std::move(*checked()) : std::move(other); }

 private:
  T* checked() {
    T* value = std::get_if<0>(&state_);
    if (value == nullptr) std::abort();
    return value;
  }
  std::variant<T, Status> state_;
};

#define GEMINGA_CONCAT_2(a, b) a##b
#define GEMINGA_CONCAT(a, b) GEMINGA_CONCAT_2(a, b)

// Leave the function with the error of `expr` (a Status), if it is one.
#define GM_RETURN_IF_ERROR(expr)                                       \
  do {                                                                 \
    if (auto gm_status = (expr); !gm_status.is_ok()) return gm_status; \
  } while (false)
#define GM_CO_RETURN_IF_ERROR(expr)                                       \
  do {                                                                    \
    if (auto gm_status = (expr); !gm_status.is_ok()) co_return gm_status; \
  } while (false)

// `lhs` = value of `expr` (a Result), or leave the function with its error.
#define GM_ASSIGN_IMPL(tmp, ret, lhs, expr) \
  auto tmp = (expr);                        \
  if (!tmp.is_ok()) ret tmp.status();       \
  lhs = std::move(tmp).value()
#define GM_ASSIGN_OR_RETURN(lhs, expr) \
  GM_ASSIGN_IMPL(GEMINGA_CONCAT(gm_result_, __LINE__), return, lhs, expr)
#define GM_CO_ASSIGN_OR_RETURN(lhs, expr) \
  GM_ASSIGN_IMPL(GEMINGA_CONCAT(gm_result_, __LINE__), co_return, lhs, expr)

}  // namespace geminga
