#include "base/fault.h"

#include <utility>

#include "base/utf8.h"

namespace opentrn {

std::string_view to_string(FaultKind kind) {
  switch (kind) {
    case FaultKind::kProgram: return "program error";
    case FaultKind::kInput: return "input error";
    case FaultKind::kCapacity: return "capacity exceeded";
    case FaultKind::kNotModelled: return "not modelled";
    case FaultKind::kUnspecified: return "unspecified behaviour";
    case FaultKind::kInternal: return "internal error";
  }
  return "unknown fault";
}

namespace {

// Messages quote what they are about, which may be a damaged file; what() ends at a zero byte.
std::string readable(std::string text) {
  if (!is_utf8(text)) text = printable(text);
  if (text.find('\0') == std::string::npos) return text;
  std::string shown;
  for (const char each : text)
    if (each == '\0')
      shown += "\\x00";
    else
      shown += each;
  return shown;
}

}  // namespace

Fault::Fault(FaultKind kind, std::string label, std::string message, std::string hint)
    : kind_(kind),
      label_(readable(std::move(label))),
      message_(readable(std::move(message))),
      hint_(readable(std::move(hint))) {
  rebuild();
}

void Fault::set_location(SourceLocation location) {
  if (location_.known()) return;
  location_ = std::move(location);
  location_.file = readable(std::move(location_.file));
  location_.function = readable(std::move(location_.function));
  rebuild();
}

void Fault::add_note(std::string note) {
  notes_ += "\n    " + readable(std::move(note));
  rebuild();
}

void Fault::rebuild() {
  text_ =
      fmt::format("{}{}: {}", to_string(kind_), label_.empty() ? "" : fmt::format(" [{}]", label_), message_);
  if (location_.known()) {
    text_ += fmt::format("\n    at {}:{}", location_.file, location_.line);
    if (!location_.function.empty()) text_ += fmt::format(" in {}", location_.function);
  }
  text_ += notes_;
  if (!hint_.empty()) text_ += "\n    try: " + hint_;
}

namespace detail {
void check_failed(const char* expression, const char* file, int line, std::string message) {
  throw Fault(FaultKind::kInternal, "", fmt::format("{} ({} at {}:{})", message, expression, file, line),
              "this is a bug in OpenTrn; please report it with the program that caused it");
}
}  // namespace detail

}  // namespace opentrn
