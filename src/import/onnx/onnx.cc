#include "import/onnx/onnx.h"

#include <algorithm>
#include <set>

#include "graph/verify.h"
#include "import/onnx/importer.h"
#include "import/onnx/location.h"

namespace opentrn::import::onnx {

using graph::Function;
using graph::Module;

Module import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                    const std::filesystem::path& folder, const Options& options) {
  Source source(bytes, std::move(owner), folder, options);
  Module module;
  Function& main = module.add_function("main");
  Importer importer(source, module, main, {}, false);
  importer.start();
  importer.run();
  importer.finish();
  return module;
}

namespace {

void collect_files(const Tensor& tensor, const std::filesystem::path& folder,
                   std::set<std::filesystem::path>& files) {
  if (!tensor.external) return;
  const auto found = tensor.external_data.find("location");
  if (found != tensor.external_data.end()) files.insert(folder / found->second);
}

void collect_files(const Graph& graph, const std::filesystem::path& folder,
                   std::set<std::filesystem::path>& files);

void collect_files(std::span<const NodeProto> nodes, const std::filesystem::path& folder,
                   std::set<std::filesystem::path>& files) {
  for (const NodeProto& node : nodes) {
    for (const AttributeValue& attribute : node.attributes) {
      if (attribute.t) collect_files(*attribute.t, folder, files);
      if (attribute.g) collect_files(*attribute.g, folder, files);
    }
  }
}

void collect_files(const Graph& graph, const std::filesystem::path& folder,
                   std::set<std::filesystem::path>& files) {
  for (const Tensor& tensor : graph.initializers) collect_files(tensor, folder, files);
  collect_files(graph.nodes, folder, files);
}

}  // namespace

std::vector<std::filesystem::path> external_files(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const Model model = read_model(file->bytes());
  std::set<std::filesystem::path> files;
  collect_files(model.graph, path.parent_path(), files);
  for (const FunctionProto& function : model.functions)
    collect_files(function.nodes, path.parent_path(), files);
  return {files.begin(), files.end()};
}

std::vector<OperatorRow> operators() {
  std::vector<OperatorRow> rows;
  for (const OpRow& row : op_table())
    rows.push_back({std::string(row.domain), std::string(row.op_type), row.since, std::string(row.refusal)});
  return rows;
}

Module import_file(const std::filesystem::path& path, const Options& options) {
  const auto file = MappedFile::open(path);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  return import_bytes(file->bytes(), file, folder, options);
}

}  // namespace opentrn::import::onnx
