// Faults: a run that cannot go on, and whose fault that is.
//
// Three channels carry bad news in OpenTrn. A Fault (this file) ends the current run; it is thrown
// inside the library, caught only at an API edge, and becomes a Python exception or an exit code.
// OPENTRN_CHECK is for our own bugs. A warning is for what ran and may not be what the user meant.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace opentrn {

enum class FaultKind : uint8_t {
  kProgram,      // the guest program breaks a rule of the ISA or of NKI
  kInput,        // a file, a table or an argument handed to us is malformed
  kCapacity,     // the program is legal but does not fit (SBUF, PSUM, HBM, registers)
  kNotModelled,  // the hardware can do this, OpenTrn cannot yet
  kUnspecified,  // the public specification does not say what happens
  kInternal,     // our bug
};

std::string_view to_string(FaultKind kind);

// file:line of the user's code; line 0 means unknown.
struct SourceLocation {
  std::string file;
  int line = 0;
  std::string function;

  bool known() const { return line > 0; }
};

class Fault : public std::exception {
 public:
  // `label` names the broken rule ("nc_matmul.C3") and may be empty; `message` says what was found
  // and what the limit is; `hint` says what to try.
  Fault(FaultKind kind, std::string label, std::string message, std::string hint = {});

  FaultKind kind() const { return kind_; }
  const std::string& label() const { return label_; }
  const std::string& message() const { return message_; }
  const std::string& hint() const { return hint_; }
  // Lines of detail, each after a line break and indented.
  const std::string& notes() const { return notes_; }
  const SourceLocation& location() const { return location_; }
  const char* what() const noexcept override { return text_.c_str(); }

  // Set once, by the first layer that knows the user's line; later calls are ignored.
  void set_location(SourceLocation location);
  // Adds a line of detail, for example an operand's shape.
  void add_note(std::string note);

 private:
  void rebuild();

  FaultKind kind_;
  std::string label_;
  std::string message_;
  std::string hint_;
  std::string notes_;
  SourceLocation location_;
  std::string text_;
};

namespace detail {
[[noreturn]] void check_failed(const char* expression, const char* file, int line, std::string message);
}

// Our own invariants. Throws Fault{kInternal}: a Python host must survive our bugs.
#define OPENTRN_CHECK(condition, ...)                                                              \
  do {                                                                                             \
    if (!(condition)) [[unlikely]]                                                                 \
      ::opentrn::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format(__VA_ARGS__)); \
  } while (false)

}  // namespace opentrn
