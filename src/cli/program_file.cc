#include "cli/program_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>

#include <fmt/format.h>

#include "base/fault.h"
#include "import/load.h"

namespace opentrn::cli {
namespace {

constexpr std::array<std::string_view, 6> kOwn = {".mlir", ".mlirbc", ".stablehlo", ".hlo", ".pb", ".onnx"};
constexpr std::array<std::string_view, 3> kPython = {".pt2", ".jax", ".jaxexport"};

PythonReader& python_reader() {
  static PythonReader reader;
  return reader;
}

std::string suffix_of(const std::string& name) { return std::filesystem::path(name).extension().string(); }

graph::Module read_by_python(const std::string& path) {
  if (!python_reader())
    throw Fault(FaultKind::kInput, "plan.program",
                fmt::format("'{}' is an exported program, which Python reads", path),
                "the program `opentrn`; or StableHLO of it");
  const auto bytes = std::make_shared<const std::string>(python_reader()(path));
  return import::load(std::as_bytes(std::span(*bytes)), path, bytes);
}

}  // namespace

bool is_program_file(const std::string& name) {
  const std::string suffix = suffix_of(name);
  return std::ranges::find(kOwn, suffix) != kOwn.end() || std::ranges::find(kPython, suffix) != kPython.end();
}

graph::Module read_program(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored))
    throw Fault(FaultKind::kInput, "import.file", fmt::format("'{}' is not a file that can be read", path),
                "StableHLO, HLO, ONNX, or an exported program of PyTorch or JAX");
  if (std::ranges::find(kPython, suffix_of(path)) != kPython.end()) return read_by_python(path);
  return import::load_file(path);
}

void set_python_reader(PythonReader reader) { python_reader() = std::move(reader); }

}  // namespace opentrn::cli
