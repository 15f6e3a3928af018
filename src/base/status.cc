#include "base/status.h"

#include <array>

namespace geminga {

const ErrorInfo& error_info(ErrorCode code) {
  static constexpr std::array kTable = {
      ErrorInfo{"Ok", -1, 200, "ok"},
#define GEMINGA_ERROR(name, wire, http, text) ErrorInfo{#name, wire, http, text},
#include "base/errors.inc"
#undef GEMINGA_ERROR
  };
  return kTable[static_cast<std::size_t>(code)];
}

std::string Status::to_string() const {
  const ErrorInfo& info = error_info(code_);
  if (is_ok()) return "ok";
  std::string text(info.name);
  text += ": ";
  text += message_.empty() ? std::string(info.text) : message_;
  return text;
}

Status Status::with_context(std::string_view where) const {
  if (is_ok()) return *this;
  std::string text(where);
  text += ": ";
  text += message_.empty() ? std::string(error_info(code_).text) : message_;
  return {code_, std::move(text)};
}

}  // namespace geminga
