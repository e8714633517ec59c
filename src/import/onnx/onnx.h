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
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "graph/module.h"
#include "import/onnx/external_data.h"

namespace opentrn::import::onnx {

// The last argument of a model that draws random numbers and not all by seeds of its own: ui32 [2]. Other
// values give other numbers.
inline constexpr std::string_view kRandomKey = "opentrn.random_key";

struct Options {
  std::map<std::string, int64_t> dimensions;  // of symbolic dimensions, by name
  // Inputs that are constants: shapes and axes that a model takes as input. They are no arguments.
  std::map<std::string, graph::Literal> constants;
  // Parts of files of external data by their paths beside the model, in place of the files of a folder.
  struct File {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
    size_t begin = 0;  // of the part, in its file
  };
  using Files = std::map<std::string, std::vector<File>>;
  Files files = {};
};

// Weights are not copied: literals keep the mapping of the file and of external data beside it.
// Faults: kInput for a malformed or wrong model (with offset or node), kNotModelled for an operator or form
// that is not imported (by name, with the node).
graph::Module import_file(const std::filesystem::path& path, const Options& options = {});
// `owner` keeps the bytes; `folder` is where external data is looked for, refused when empty.
graph::Module import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                           const ExternalFolder& folder, const Options& options = {});

// What of the files beside a model its tensors take their data from (external_data.h): what goes along with
// the model, and what a content hash of it needs.
struct ExternalPart {
  std::string location;        // relative to the model
  std::filesystem::path path;  // of the file, without links
  size_t begin = 0;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};
std::vector<ExternalPart> external_parts(const std::filesystem::path& model);

// A dimension of an input to which the model gives no size: a symbolic one, one without a value, or one that
// it states as negative. One name may stand at several places.
struct OpenDimension {
  std::string name;  // the model's, or "x.0" where it has none
  std::string input;
  size_t axis = 0;
};
std::vector<OpenDimension> open_dimensions(const std::filesystem::path& path);

// An operator of a model: how many nodes have it, in graphs, subgraphs and functions.
struct SurveyRow {
  std::string op;  // "Conv", "com.microsoft.Attention"
  size_t count = 0;
  std::string refusal;  // why it is not imported; "" when it is
  std::string place;    // the first such node's name, else that of its result
};
std::vector<SurveyRow> survey(const std::filesystem::path& path);

// A row of the table of operators.
struct OperatorRow {
  std::string domain;
  std::string op_type;
  int64_t since;
  std::string refusal;  // why it is never imported; "" when it is
};
std::vector<OperatorRow> operators();

}  // namespace opentrn::import::onnx
