#include "import/onnx/onnx.h"

#include <map>

#include <fmt/format.h>

#include "base/mapped_file.h"
#include "graph/verify.h"
#include "import/onnx/importer.h"
#include "import/onnx/location.h"

namespace opentrn::import::onnx {

using graph::Function;
using graph::Module;

Module import_bytes(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                    const ExternalFolder& folder, const Options& options) {
  Source source(bytes, std::move(owner), folder, options);
  Module module;
  Function& main = module.add_function("main");
  Importer importer(source, module, main, {}, false);
  importer.start();
  importer.run();
  importer.finish();
  return module;
}

std::vector<ExternalPart> external_parts(const std::filesystem::path& model) {
  const auto file = MappedFile::open(model, "onnx.file");
  const ExternalFolder folder = ExternalFolder::of_model(model);
  std::map<std::string, std::shared_ptr<const MappedFile>> open;
  std::vector<ExternalPart> parts;
  for (const DataRange& range : declared_ranges(read_model(file->bytes()))) {
    auto& data = open[range.location];
    if (!data) data = folder.open(range.location, range.tensor);
    const auto begin = static_cast<size_t>(range.offset), bytes = static_cast<size_t>(range.bytes);
    const size_t size = data->bytes().size();
    if (begin > size || bytes > size - begin)
      throw Fault(FaultKind::kInput, "onnx.external_data",
                  fmt::format("{}: {} bytes at {} pass the {} bytes of '{}'", model.string(), bytes, begin,
                              size, range.location),
                  "the file is of another model, or was not copied to its end");
    parts.push_back({range.location, data->path(), begin, data->bytes().subspan(begin, bytes), data});
  }
  return parts;
}

std::vector<OperatorRow> operators() {
  std::vector<OperatorRow> rows;
  for (const OpRow& row : op_table())
    rows.push_back({std::string(row.domain), std::string(row.op_type), row.since, std::string(row.refusal)});
  return rows;
}

Module import_file(const std::filesystem::path& path, const Options& options) {
  const auto file = MappedFile::open(path, "onnx.file");
  return import_bytes(file->bytes(), file, ExternalFolder::of_model(path), options);
}

}  // namespace opentrn::import::onnx
