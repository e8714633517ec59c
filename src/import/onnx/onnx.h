// ONNX models (opset 7 to current) to graph::Module.
//
// Every shape is static: symbolic dimensions of inputs get their sizes from Options::dimensions, and shape
// arithmetic inside the model (Shape, Gather, Concat, Reshape) is folded while importing. The entry function
// is "main"; its argument and result attributes hold the ONNX names under "onnx.name"; the location of an op
// is its node's name.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"

namespace opentrn::import::onnx {

// The last argument of a model that draws random numbers and not all by seeds of its own: ui32 [2]. Other
// values give other numbers.
inline constexpr std::string_view kRandomKey = "opentrn.random_key";

struct Options {
  std::map<std::string, int64_t> dimensions;  // of symbolic dimensions, by name
  // Inputs that are constants: shapes and axes that a model takes as input. They are no arguments.
  std::map<std::string, graph::Literal> constants;
  // Files of external data by their paths beside the model, in place of those of a folder.
  struct File {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
  };
  std::map<std::string, File> files = {};
};

// Weights are not copied: literals keep the mapping of the file and of external data beside it.
// Faults: kInput for a malformed or wrong model (with offset or node), kNotModelled for an operator or form
// that is not imported (by name, with the node).
graph::Module import_file(const std::filesystem::path& path, const Options& options = {});
// `owner` keeps the bytes; `folder` is where external data is looked for, refused when empty.
graph::Module import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                           const std::filesystem::path& folder, const Options& options = {});

// Files beside the model that its tensors' data lies in, by path; what a content hash of the model needs.
std::vector<std::filesystem::path> external_files(const std::filesystem::path& path);

// Where in a mapped file a byte of a literal lies; nothing for bytes in memory.
struct FilePlace {
  std::filesystem::path path;  // absolute
  size_t offset = 0;
};
std::optional<FilePlace> file_place(const std::byte* byte);

// A row of the table of operators.
struct OperatorRow {
  std::string domain;
  std::string op_type;
  int64_t since;
  std::string refusal;  // why it is never imported; "" when it is
};
std::vector<OperatorRow> operators();

}  // namespace opentrn::import::onnx
