#include "python/program_files.h"

#include <fstream>
#include <iterator>
#include <optional>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/text_file.h"
#include "isa/executable.h"
#include "isa/file.h"
#include "isa/text.h"

namespace opentrn::python {

namespace {

constexpr std::string_view kTextBegin = "opentrn ";  // as isa::to_text() begins

// The file's content where it is text.
std::optional<std::string> text_in(const std::string& path) {
  expect_text_file(path, "file.open");
  std::ifstream stream(path, std::ios::binary);
  if (!stream)
    throw Fault(FaultKind::kInput, "file.open", fmt::format("cannot read '{}'", path), "check the path");
  std::string begin(kTextBegin.size(), '\0');
  if (!stream.read(begin.data(), static_cast<std::streamsize>(begin.size())) || begin != kTextBegin)
    return {};
  return begin + std::string{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// An executable's text is its program's, and goes on with a line that says so.
bool is_executable(std::string_view text) { return text.find("\nexecutable ") != std::string_view::npos; }

}  // namespace

isa::Program program_in(const std::string& path) {
  if (const auto text = text_in(path))
    return is_executable(*text) ? *isa::parse_executable(*text, path).program
                                : isa::parse_program(*text, path);
  return isa::file_kind(path) == isa::FileKind::kExecutable ? *isa::load_executable(path).program
                                                            : isa::load_program(path);
}

std::string listing_of(const std::string& path) {
  if (const auto text = text_in(path))
    return is_executable(*text) ? isa::to_text(isa::parse_executable(*text, path))
                                : isa::to_text(isa::parse_program(*text, path));
  return isa::file_kind(path) == isa::FileKind::kExecutable ? isa::to_text(isa::load_executable(path))
                                                            : isa::to_text(isa::load_program(path));
}

}  // namespace opentrn::python
