#include "import/onnx/external_data.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <map>
#include <system_error>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "import/onnx/tensor.h"

namespace opentrn::import::onnx {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kLabel = "onnx.external_data";

[[noreturn]] void refuse(const std::string& model, const std::string& tensor, const std::string& location,
                         const std::string& why, std::string hint) {
  throw Fault(FaultKind::kInput, std::string(kLabel),
              fmt::format("{}tensor '{}' has its data in '{}', {}", model.empty() ? "" : model + ": ", tensor,
                          location, why),
              std::move(hint));
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  const auto [rest, _] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return rest == folder.end();
}

fs::path real(const fs::path& path) {
  std::error_code error;
  fs::path found = fs::canonical(path, error);
  return error ? fs::absolute(path).lexically_normal() : found;
}

int64_t parsed_integer(const Tensor& tensor, const std::string& key, int64_t absent) {
  const auto found = tensor.external_data.find(key);
  if (found == tensor.external_data.end()) return absent;
  const std::string& text = found->second;
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    throw Fault(FaultKind::kInput, std::string(kLabel),
                fmt::format("tensor '{}': external data has {} = '{}'", tensor.name, key, text));
  return value;
}

// The bytes that a tensor's data takes in a file.
int64_t stored_bytes(const Tensor& tensor) {
  const graph::Type type = tensor_type(tensor);
  const int bits = graph::bit_width(type.element());
  if (bits >= 8 || type.element() == graph::ElementType::kI1) return type.byte_count();
  const int64_t count = type.element_count(), per_byte = 8 / bits;
  return count / per_byte + (count % per_byte != 0);
}

// Calls `visit` with every tensor that importing the model reads, once or more often.
class ReadTensors {
 public:
  ReadTensors(const Model& model, std::function<void(const Tensor&)> visit)
      : model_(model), names_(names_used(model)), visit_(std::move(visit)) {
    for (const FunctionProto& function : model.functions)
      uncalled_.emplace(std::pair(domain(function.domain), function.name), &function);
  }

  void all() {
    of(model_.graph);
    // One after the other: a chain of functions may be as long as the file.
    while (!called_.empty()) {
      const FunctionProto& function = *called_.back();
      called_.pop_back();
      of(function.default_attributes);
      for (const NodeProto& node : function.nodes) of(node);
    }
  }

 private:
  static std::string domain(const std::string& name) { return name == "ai.onnx" ? "" : name; }

  void of(const Graph& graph) {
    for (const Tensor& tensor : graph.initializers)
      if (names_.contains(tensor.name)) visit_(tensor);
    for (const NodeProto& node : graph.nodes) of(node);
  }
  void of(std::span<const AttributeValue> attributes) {
    for (const AttributeValue& attribute : attributes) {
      if (attribute.t) visit_(*attribute.t);
      if (attribute.g) of(*attribute.g);
    }
  }
  void of(const NodeProto& node) {
    of(node.attributes);
    const auto [first, last] = uncalled_.equal_range(std::pair(domain(node.domain), node.op_type));
    for (auto each = first; each != last; ++each) called_.push_back(each->second);
    uncalled_.erase(first, last);
  }

  const Model& model_;
  const std::set<std::string> names_;
  std::function<void(const Tensor&)> visit_;
  std::multimap<std::pair<std::string, std::string>, const FunctionProto*> uncalled_;  // by domain and name
  std::vector<const FunctionProto*> called_;
};

void add_names(std::span<const NodeProto> nodes, std::set<std::string>& names);

void add_names(const Graph& graph, std::set<std::string>& names) {
  for (const ValueInfo& input : graph.inputs) names.insert(input.name);
  for (const ValueInfo& output : graph.outputs) names.insert(output.name);
  add_names(graph.nodes, names);
}

void add_names(std::span<const NodeProto> nodes, std::set<std::string>& names) {
  for (const NodeProto& node : nodes) {
    names.insert(node.inputs.begin(), node.inputs.end());
    for (const AttributeValue& attribute : node.attributes)
      if (attribute.g) add_names(*attribute.g, names);
  }
}

}  // namespace

std::set<std::string> names_used(const Model& model) {
  std::set<std::string> names;
  add_names(model.graph, names);
  for (const FunctionProto& function : model.functions) add_names(function.nodes, names);
  return names;
}

ExternalFolder::ExternalFolder(const fs::path& folder) : folder_(folder) {
  if (!folder_.empty()) real_.push_back(real(folder_));
}

ExternalFolder ExternalFolder::of_model(const fs::path& model) {
  ExternalFolder folder(model.has_parent_path() ? model.parent_path() : fs::path("."));
  folder.real_.push_back(real(model).parent_path());
  folder.model_ = model.string();
  return folder;
}

fs::path ExternalFolder::resolved(const std::string& location, const std::string& tensor) const {
  if (empty())
    refuse(model_, tensor, location, "a file beside the model, and the model did not come from a file",
           "give the model as a path");
  const fs::path file = folder_ / location;
  std::error_code error;
  const fs::path found = fs::canonical(file, error);
  if (error)
    refuse(model_, tensor, location,
           fmt::format("which cannot be found at {}: {}", file.string(), error.message()),
           "put the file beside the model: what was exported is both of them");
  if (std::ranges::none_of(real_, [&](const fs::path& folder) { return is_inside(found, folder); }))
    refuse(model_, tensor, location,
           fmt::format("which is refused: its real path {} is outside the model's folder {}", found.string(),
                       real_.front().string()),
           "put the file itself, not a link to it, into the model's folder, if you trust the model");
  return found;
}

std::shared_ptr<const MappedFile> ExternalFolder::open(const std::string& location,
                                                       const std::string& tensor) const {
  const fs::path file = resolved(location, tensor);
  try {
    return MappedFile::open(file, std::string(kLabel));
  } catch (Fault& fault) {
    fault.add_note(fmt::format("tensor '{}'{} has its data in '{}'", tensor,
                               model_.empty() ? "" : " of " + model_, location));
    throw;
  }
}

DataRange declared_range(const Tensor& tensor) {
  const auto found = tensor.external_data.find("location");
  if (found == tensor.external_data.end())
    throw Fault(FaultKind::kInput, std::string(kLabel),
                fmt::format("tensor '{}': external data has no location", tensor.name));
  // The ONNX specification: a path relative to the model, not outside its folder.
  const fs::path location = found->second, normal = location.lexically_normal();
  if (location.is_absolute() || normal.empty() || *normal.begin() == "..")
    refuse("", tensor.name, found->second, "which is outside the model's folder",
           "have the exporter name a file beside the model");
  const DataRange range{normal.string(), tensor.name, parsed_integer(tensor, "offset", 0),
                        stored_bytes(tensor)};
  const int64_t length = parsed_integer(tensor, "length", range.bytes);
  int64_t end = 0;
  if (length != range.bytes || __builtin_add_overflow(range.offset, range.bytes, &end))
    throw Fault(FaultKind::kInput, std::string(kLabel),
                fmt::format("tensor '{}' declares {} bytes of external data at {}; its type {} takes {}",
                            tensor.name, length, range.offset, tensor_type(tensor).to_string(), range.bytes));
  return range;
}

std::vector<DataRange> declared_ranges(const Model& model) {
  std::vector<DataRange> all;
  ReadTensors(model, [&](const Tensor& tensor) {
    if (tensor.external) all.push_back(declared_range(tensor));
  }).all();
  std::ranges::sort(all, {}, [](const DataRange& r) { return std::tie(r.location, r.offset, r.bytes); });
  std::vector<DataRange> ranges;
  for (DataRange& range : all) {
    const bool touches = !ranges.empty() && ranges.back().location == range.location &&
                         range.offset <= ranges.back().offset + ranges.back().bytes;
    if (!touches) {
      ranges.push_back(std::move(range));
      continue;
    }
    DataRange& last = ranges.back();
    last.bytes = std::max(last.bytes, range.offset + range.bytes - last.offset);
  }
  return ranges;
}

}  // namespace opentrn::import::onnx
