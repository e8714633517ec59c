// What of a model can be said without importing it: its operators, and the dimensions that it leaves open.
#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "arch/closest.h"
#include "base/fault.h"
#include "import/onnx/importer.h"

namespace opentrn::import::onnx {

namespace {

// Nodes of graphs and functions, each once however often a function is called.
class Survey {
 public:
  explicit Survey(const Model& model) : model_(model) {}

  void look_at(std::span<const NodeProto> nodes, const OpsetVersions& opsets) {
    for (const NodeProto& node : nodes) {
      look_at(node, opsets);
      for (const AttributeValue& attribute : node.attributes)
        if (attribute.g) look_at(attribute.g->nodes, opsets);
    }
  }

  std::vector<SurveyRow> rows() && {
    std::vector<SurveyRow> rows;
    for (auto& [name, row] : rows_) rows.push_back(std::move(row));
    return rows;
  }

 private:
  void look_at(const NodeProto& node, const OpsetVersions& opsets) {
    const auto is_function = [&](const FunctionProto& f) {
      return f.name == node.op_type && f.domain == node.domain && f.overload == node.overload;
    };
    if (std::ranges::any_of(model_.functions, is_function)) return;
    const std::string name = node.domain.empty() ? node.op_type : node.domain + "." + node.op_type;
    SurveyRow& row = rows_[name];
    row.op = name;
    ++row.count;
    if (!row.refusal.empty()) return;
    row.refusal = refusal_of(node, opsets);
    if (row.place.empty() || !row.refusal.empty())
      row.place = node.name.empty() ? (node.outputs.empty() ? "" : node.outputs[0]) : node.name;
  }

  static std::string refusal_of(const NodeProto& node, const OpsetVersions& opsets) {
    const auto version = opsets.find(node.domain);
    if (version == opsets.end())
      return fmt::format("the model imports no operators of domain '{}'", node.domain);
    const OpRow* row = find_op(node.domain, node.op_type, version->second);
    if (row) return row->import ? "" : std::string(row->refusal);
    return is_custom(node.domain) ? "" : fmt::format("opset {} is not imported", version->second);
  }

  const Model& model_;
  std::map<std::string, SurveyRow> rows_;
};

// "?" is what exporters write for sizes that they do not know, and no name of one.
std::string name_of(const ValueInfo& input, size_t axis) {
  const std::string& stated = input.shape[axis].parameter;
  return stated.empty() || stated == "?" ? fmt::format("{}.{}", input.name, axis) : stated;
}

std::vector<OpenDimension> open_dimensions_of(const Model& model) {
  std::set<std::string, std::less<>> constants;
  for (const Tensor& tensor : model.graph.initializers) constants.insert(tensor.name);
  std::vector<OpenDimension> open;
  for (const ValueInfo& input : model.graph.inputs) {
    if (constants.contains(input.name)) continue;
    for (size_t i = 0; i < input.shape.size(); ++i)
      if (!input.shape[i].value) open.push_back({name_of(input, i), input.name, i});
  }
  return open;
}

}  // namespace

std::vector<SurveyRow> survey(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  const Model model = read_model(file->bytes());
  Survey survey(model);
  survey.look_at(model.graph.nodes, model.opsets);
  for (const FunctionProto& function : model.functions) survey.look_at(function.nodes, function.opsets);
  return std::move(survey).rows();
}

std::vector<OpenDimension> open_dimensions(const std::filesystem::path& path) {
  const auto file = MappedFile::open(path);
  return open_dimensions_of(read_model(file->bytes()));
}

int64_t Importer::size_of(const ValueInfo& input, size_t i) const {
  const Dimension& dimension = input.shape[i];
  if (dimension.value) return *dimension.value;
  const std::string name = name_of(input, i);
  const auto given = source_.options.dimensions.find(name);
  if (given == source_.options.dimensions.end())
    throw Fault(FaultKind::kInput, "onnx.dimension",
                fmt::format("dimension '{}' of '{}' has no size", name, input.name),
                fmt::format("dimensions={{'{}': 1}}", name));
  return given->second;
}

void Importer::check_known_dimensions() const {
  std::vector<std::string> names;
  for (const OpenDimension& open : open_dimensions_of(source_.model))
    if (!source_.options.constants.contains(open.input) && std::ranges::find(names, open.name) == names.end())
      names.push_back(open.name);
  for (const auto& [name, size] : source_.options.dimensions) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw Fault(FaultKind::kInput, "onnx.dimension",
                fmt::format("'{}' is not a dimension of the model's inputs; those without a size are {}",
                            name, names.empty() ? "none" : fmt::format("'{}'", fmt::join(names, "', '"))),
                arch::did_you_mean(name, names, "leave it out"));
  }
}

// All at once: each that has no size, and each size that is of none.
void Importer::check_dimensions() const {
  std::vector<std::string> names, missing;
  std::vector<std::string> examples;
  for (const OpenDimension& open : open_dimensions_of(source_.model)) {
    if (source_.options.constants.contains(open.input)) continue;
    const bool is_new = std::ranges::find(names, open.name) == names.end();
    if (is_new) names.push_back(open.name);
    if (!is_new || source_.options.dimensions.contains(open.name)) continue;
    missing.push_back(fmt::format("'{}' (dimension {} of input '{}')", open.name, open.axis, open.input));
    // The first is a batch as a rule, and the others are lengths.
    examples.push_back(fmt::format("'{}': {}", open.name, open.axis == 0 ? 1 : 128));
  }
  if (!in_stages_) check_known_dimensions();
  if (missing.empty()) return;
  throw Fault(FaultKind::kInput, "onnx.dimension",
              fmt::format("{} of the model's inputs {} no size: {}",
                          missing.size() == 1 ? "a dimension" : fmt::format("{} dimensions", missing.size()),
                          missing.size() == 1 ? "has" : "have", fmt::join(missing, ", ")),
              fmt::format("say how large, for example dimensions={{{}}}", fmt::join(examples, ", ")));
}

}  // namespace opentrn::import::onnx
