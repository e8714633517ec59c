#include "import/load.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include <fmt/format.h>

#include "base/text_file.h"
#include "graph/text/text.h"
#include "import/hlo.h"
#include "import/lapack.h"
#include "import/onnx/onnx.h"
#include "import/ragged_exchange.h"
#include "import/vhlo.h"

namespace opentrn::import {

namespace {

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// MLIR text is printable from its first byte on; the tag 0x0A of a protocol buffer's first field and the
// length behind it are not what a program starts with.
bool looks_like_text(std::string_view text) {
  const std::string_view head = text.substr(0, 4096);
  const size_t first = head.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return !head.empty();
  const bool printable = std::all_of(head.begin(), head.end(), [](char c) {
    return static_cast<unsigned char>(c) >= ' ' || c == '\n' || c == '\t' || c == '\r';
  });
  const char c = head[first];
  return printable && (c == '/' || c == '#' || c == '!' || c == '"' || c == '{' || (c >= 'a' && c <= 'z'));
}

}  // namespace

std::string_view name(Format format) {
  switch (format) {
    case Format::kStablehloText: return "StableHLO text";
    case Format::kVhloBytecode: return "VHLO bytecode";
    case Format::kHloProto: return "HLO protocol buffer";
    case Format::kOnnx: return "ONNX";
  }
  return "?";
}

Format sniff(std::span<const std::byte> bytes, std::string_view filename) {
  if (is_vhlo(bytes)) return Format::kVhloBytecode;
  if (looks_like_text(as_text(bytes))) return Format::kStablehloText;
  if (!bytes.empty() && bytes[0] == std::byte{0x0A}) return Format::kHloProto;
  if (!bytes.empty() && bytes[0] == std::byte{0x08}) return Format::kOnnx;
  throw Fault(FaultKind::kInput, "import.format",
              fmt::format("{} is in none of the formats that are read", filename),
              "give StableHLO text (.mlir), VHLO bytecode (.mlirbc), an HLO module (.pb) or ONNX (.onnx)");
}

namespace {

graph::Module read(std::span<const std::byte> bytes, std::string_view filename,
                   std::shared_ptr<const void> owner) {
  switch (sniff(bytes, filename)) {
    case Format::kVhloBytecode: return read_vhlo(bytes, std::move(owner));
    case Format::kHloProto: return read_hlo(bytes);
    case Format::kOnnx: {
      if (owner) return onnx::import_bytes(bytes, std::move(owner), {});
      const auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
      return onnx::import_bytes(*copy, copy, {});
    }
    case Format::kStablehloText: break;
  }
  return graph::parse_module(as_text(bytes), filename);
}

}  // namespace

graph::Module load(std::span<const std::byte> bytes, std::string_view filename,
                   std::shared_ptr<const void> owner) {
  graph::Module module = read(bytes, filename, std::move(owner));
  replace_lapack_calls(module);
  replace_ragged_exchanges(module);
  return module;
}

graph::Module load_text(std::string_view text, std::string_view filename) {
  graph::Module module = graph::parse_module(text, filename);
  replace_lapack_calls(module);
  replace_ragged_exchanges(module);
  return module;
}

graph::Module load_file(const std::string& path, const std::map<std::string, int64_t>& dimensions) {
  expect_text_file(path, "import.file");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw Fault(FaultKind::kInput, "import.file", fmt::format("{} cannot be opened", path));
  auto bytes = std::make_shared<std::vector<std::byte>>(
      static_cast<size_t>(std::max<std::streamoff>(file.tellg(), 0)));
  file.seekg(0);
  file.read(reinterpret_cast<char*>(bytes->data()), static_cast<std::streamsize>(bytes->size()));
  if (!file) throw Fault(FaultKind::kInput, "import.file", fmt::format("{} cannot be read", path));
  const std::span<const std::byte> view = *bytes;
  if (sniff(view, path) == Format::kOnnx) return onnx::import_file(path, {.dimensions = dimensions});
  if (!dimensions.empty())
    throw Fault(FaultKind::kInput, "onnx.dimension",
                fmt::format("{} states the size of every dimension; only ONNX models leave some open", path),
                "leave the sizes out");
  return load(view, path, std::move(bytes));
}

}  // namespace opentrn::import
