#include "model/buckets.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"

namespace opentrn::model {

namespace {

using compiler::PortAxis;

std::string text_of_sizes(const Sizes& sizes) {
  std::string text;
  for (const auto& [name, size] : sizes) text += fmt::format("{}{}={}", text.empty() ? "" : ", ", name, size);
  return text;
}

int64_t input_elements(const Bucket& bucket) {
  int64_t elements = 0;
  for (const Shape& shape : bucket.inputs)
    elements += std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  return elements;
}

[[noreturn]] void refuse_table(const std::string& why) {
  throw Fault(FaultKind::kInput, "model_file",
              fmt::format("the programs do not fit their table of open dimensions: {}", why),
              "write the file again with `opentrn compile`");
}

// The axes whose sizes are not those of `others`.
std::vector<PortAxis> changed(const std::vector<Shape>& ports, const std::vector<Shape>& others) {
  std::vector<PortAxis> axes;
  for (size_t port = 0; port < std::min(ports.size(), others.size()); ++port)
    for (size_t axis = 0; axis < std::min(ports[port].size(), others[port].size()); ++axis)
      if (ports[port][axis] != others[port][axis]) axes.push_back({port, static_cast<int64_t>(axis)});
  return axes;
}

int64_t size_at(const std::vector<Shape>& ports, PortAxis at) {
  return ports[at.port][static_cast<size_t>(at.axis)];
}

// Why a smaller `name` may not run in the program of `sizes`; empty when it may. That the graph of a smaller
// size is the leading part of this one's is seen on the next larger size: 1 has simplifications of its own.
std::string mixing_of(const Sizes& sizes, const std::string& name, const std::vector<PortAxis>& axes,
                      const std::function<graph::Module(const Sizes&)>& prepared) {
  const graph::Module graph = prepared(sizes);
  const compiler::PaddingProof proof = compiler::prove_padding(graph, axes);
  if (!proof.holds()) return proof.mixing;
  Sizes larger = sizes;
  ++larger[name];
  return compiler::difference_but_for_size(graph, prepared(larger));
}

OpenDimension open_dimension(const std::string& name, const std::vector<int64_t>& sizes, const Sizes& largest,
                             const Bucket& big, const Bucket& small,
                             const std::function<graph::Module(const Sizes&)>& prepared) {
  OpenDimension found{name, changed(big.inputs, small.inputs), {}, ""};
  if (found.inputs.empty())
    throw Fault(FaultKind::kInput, "onnx.dimension",
                fmt::format("{} is not a dimension of the model's inputs", name));
  const int64_t whole = largest.at(name);
  for (const PortAxis at : found.inputs)
    if (size_at(big.inputs, at) != whole)
      throw Fault(FaultKind::kInput, "onnx.dimension",
                  fmt::format("{} is only part of the size of an input's dimension", name));
  for (const int64_t size : sizes) {
    if (size == 1 || !found.mixing.empty()) continue;  // a program for 1 has no room for padding
    Sizes padded = largest;
    padded[name] = size;
    found.mixing = mixing_of(padded, name, found.inputs, prepared);
  }
  for (const PortAxis at : changed(big.outputs, small.outputs))
    if (size_at(big.outputs, at) == whole) found.results.push_back(at);
  return found;
}

const Bucket& program_of(const std::vector<Bucket>& programs, const Sizes& sizes) {
  const auto found = std::ranges::find(programs, sizes, &Bucket::sizes);
  OPENTRN_CHECK(found != programs.end(), "no program was compiled for {}", text_of_sizes(sizes));
  return *found;
}

std::vector<PortAxis> axes_from(const nlohmann::json& rows) {
  std::vector<PortAxis> axes;
  for (const auto& row : rows) axes.push_back({row.at(0).get<size_t>(), row.at(1).get<int64_t>()});
  return axes;
}

nlohmann::json json_of(const std::vector<PortAxis>& axes) {
  nlohmann::json rows = nlohmann::json::array();
  for (const PortAxis at : axes) rows.push_back({at.port, at.axis});
  return rows;
}

}  // namespace

Buckets::Buckets(std::vector<Bucket> programs, std::vector<OpenDimension> dimensions,
                 std::vector<std::string> input_names)
    : programs_(std::move(programs)),
      dimensions_(std::move(dimensions)),
      input_names_(std::move(input_names)) {
  OPENTRN_CHECK(!programs_.empty(), "a model has a program");
  require_fitting();
}

void Buckets::require_fitting() const {
  const auto require = [](const std::vector<Shape>& ports, PortAxis at, const std::string& name) {
    if (at.port >= ports.size() || at.axis < 0 || at.axis >= static_cast<int64_t>(ports[at.port].size()))
      refuse_table(fmt::format("'{}' has no axis {} of port {}", name, at.axis, at.port));
  };
  for (const Bucket& bucket : programs_)
    for (const OpenDimension& row : dimensions_) {
      const auto stated = bucket.sizes.find(row.name);
      if (stated == bucket.sizes.end() || row.inputs.empty()) refuse_table(fmt::format("'{}'", row.name));
      for (const PortAxis at : row.inputs) {
        require(bucket.inputs, at, row.name);
        if (size_at(bucket.inputs, at) != stated->second) refuse_table(fmt::format("'{}'", row.name));
      }
      for (const PortAxis at : row.results) require(bucket.outputs, at, row.name);
    }
}

size_t Buckets::pick(const Sizes& sizes) const {
  const auto holds = [&](const Bucket& bucket) {
    return std::ranges::all_of(sizes, [&](const auto& wanted) {
      const auto found = bucket.sizes.find(wanted.first);
      return found != bucket.sizes.end() && found->second >= wanted.second;
    });
  };
  std::optional<size_t> best;
  for (size_t i = 0; i < programs_.size(); ++i)
    if (holds(programs_[i]) && (!best || input_elements(programs_[i]) < input_elements(programs_[*best])))
      best = i;
  if (best) return *best;
  std::vector<std::string> held;
  for (const Bucket& bucket : programs_) held.push_back(text_of_sizes(bucket.sizes));
  throw Fault(FaultKind::kInput, "model.size",
              fmt::format("no program for {}; compiled for {}", text_of_sizes(sizes), fmt::join(held, "; ")),
              "compile for these sizes too");
}

Sizes Buckets::sizes_of(const std::vector<Shape>& inputs) const {
  const Bucket& first = programs_[0];
  if (inputs.size() != first.inputs.size())
    throw Fault(FaultKind::kInput, "model.inputs",
                fmt::format("the model takes {} inputs, {} were given", first.inputs.size(), inputs.size()));
  Sizes sizes;
  for (const OpenDimension& row : dimensions_)
    for (const PortAxis at : row.inputs) {
      if (inputs[at.port].size() != first.inputs[at.port].size())
        throw Fault(FaultKind::kInput, "model.shape",
                    fmt::format("{} has {} dimensions, got {}", input_names_[at.port],
                                first.inputs[at.port].size(), inputs[at.port].size()));
      const int64_t size = size_at(inputs, at);
      const int64_t known = sizes.emplace(row.name, size).first->second;
      if (known != size)
        throw Fault(FaultKind::kInput, "model.size",
                    fmt::format("{} is {} and, in {}, {}", row.name, known, input_names_[at.port], size));
    }
  return sizes;
}

Fit Buckets::fit(const std::vector<Shape>& inputs, const std::set<std::string>& masked) const {
  const Sizes sizes = sizes_of(inputs);
  Fit fit{pick(sizes), {}, {}};
  const Sizes& held = programs_[fit.program].sizes;
  for (const OpenDimension& row : dimensions_) {
    const int64_t size = sizes.at(row.name), whole = held.at(row.name);
    if (size == whole) continue;
    if (!row.mixing.empty() && !masked.contains(row.name))
      throw Fault(FaultKind::kInput, "model.padding",
                  fmt::format("{0}={1} would be padded to {2}, and the padding may change results: {3}",
                              row.name, size, whole, row.mixing),
                  fmt::format("compile for {0}={1} too; or, if the model masks what is padded, --pad {0} "
                              "(allow_padding=['{0}'] in Python)",
                              row.name, size));
    for (const PortAxis at : row.inputs) fit.padded.push_back({at.port, at.axis, whole});
    for (const PortAxis at : row.results) fit.cut.push_back({at.port, at.axis, size});
  }
  return fit;
}

std::vector<Sizes> combinations(const std::map<std::string, std::vector<int64_t>>& sizes) {
  std::vector<Sizes> found{{}};
  for (const auto& [name, values] : sizes) {
    std::vector<Sizes> longer;
    for (const Sizes& one : found)
      for (const int64_t value : values) {
        longer.push_back(one);
        longer.back()[name] = value;
      }
    found = std::move(longer);
  }
  return found;
}

std::vector<OpenDimension> open_dimensions(const std::map<std::string, std::vector<int64_t>>& sizes,
                                           const std::vector<Bucket>& programs,
                                           const std::function<graph::Module(const Sizes&)>& prepared) {
  Sizes largest;
  for (const auto& [name, values] : sizes) largest[name] = *std::ranges::max_element(values);
  std::vector<OpenDimension> rows;
  for (const auto& [name, values] : sizes) {
    if (values.size() < 2) continue;
    Sizes least = largest;
    least[name] = *std::ranges::min_element(values);
    rows.push_back(open_dimension(name, values, largest, program_of(programs, largest),
                                  program_of(programs, least), prepared));
  }
  return rows;
}

std::string text_of(const std::vector<OpenDimension>& dimensions) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const OpenDimension& row : dimensions)
    rows.push_back({{"name", row.name},
                    {"inputs", json_of(row.inputs)},
                    {"results", json_of(row.results)},
                    {"mixing", row.mixing}});
  return rows.dump();
}

std::vector<OpenDimension> dimensions_from_text(std::string_view text) {
  std::vector<OpenDimension> rows;
  try {
    for (const auto& row : nlohmann::json::parse(text))
      rows.push_back({row.at("name").get<std::string>(), axes_from(row.at("inputs")),
                      axes_from(row.at("results")), row.at("mixing").get<std::string>()});
  } catch (const nlohmann::json::exception& error) {
    refuse_table(error.what());
  }
  return rows;
}

}  // namespace opentrn::model
