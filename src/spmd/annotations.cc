#include "spmd/annotations.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include <fnmatch.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "arch/closest.h"
#include "base/fault.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Function;
using graph::Module;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

constexpr int64_t kDevicesMax = 1 << 20;

std::vector<std::string> split(std::string_view text, char by) {
  std::vector<std::string> words;
  for (;;) {
    const size_t end = std::min(text.find(by), text.size());
    std::string word(text.substr(0, end));
    word.erase(0, word.find_first_not_of(' '));
    word.erase(word.find_last_not_of(' ') + 1);
    words.push_back(std::move(word));
    if (end == text.size()) return words;
    text.remove_prefix(end + 1);
  }
}

std::string name_in(const std::vector<graph::Dictionary>& attributes, size_t i, std::string_view otherwise) {
  if (i < attributes.size())
    if (const auto found = attributes[i].find("onnx.name"); found != attributes[i].end())
      if (const auto* name = found->second.get<std::string>()) return *name;
  return fmt::format("{}{}", otherwise, i);
}

Sharding sharding_of(const Annotation& annotation, const Mesh& mesh) {
  Sharding sharding{mesh, {}, {}};
  for (const auto& axes : annotation.dims) {
    std::vector<AxisPart>& parts = sharding.dims.emplace_back();
    for (const std::string& axis : axes) {
      std::vector<std::string> known;
      for (const Mesh::Axis& each : mesh.axes) known.push_back(each.name);
      if (std::ranges::find(known, axis) == known.end())
        throw Fault(FaultKind::kInput, "spmd.axis",
                    fmt::format("{}: the mesh has no axis '{}'", annotation.pattern, axis),
                    arch::did_you_mean(axis, known, fmt::format("its axes are {}", fmt::join(known, ", "))));
      parts.push_back({axis, 1, 0});
    }
  }
  return sharding;
}

bool matches(const std::string& pattern, const std::string& name) {
  return pattern == name || ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

class Reader {
 public:
  Reader(const Module& module, const Function& function, const AxisGrid& grid)
      : function_(function), grid_(grid), names_(names_of(module, function)) {
    made_.results.resize(names_.results.size());
  }

  void read(const Annotation& annotation) {
    const Sharding sharding = sharding_of(annotation, grid_.mesh());
    bool found = false;
    const auto cuts = [&](const std::string& name, ValueId value) {
      found = true;
      const int rank = function_.type(value).is_tensor() ? function_.type(value).rank() : 0;
      if (static_cast<int>(sharding.dims.size()) > rank)
        throw Fault(FaultKind::kInput, "spmd.rank",
                    fmt::format("{} is {}: its sharding names {} dimensions", name,
                                function_.type(value).to_string(), sharding.dims.size()),
                    "name as many or fewer; '-' for a dimension that is whole");
      return grid_.cuts_of(sharding, rank);
    };
    for (size_t i = 0; i < names_.arguments.size(); ++i)
      if (matches(annotation.pattern, names_.arguments[i]))
        made_.values[function_.arguments()[i]] = cuts(names_.arguments[i], function_.arguments()[i]);
    for (const auto& [name, value] : names_.constants)
      if (matches(annotation.pattern, name)) made_.values[value] = cuts(name, value);
    for (size_t i = 0; i < names_.results.size(); ++i)
      if (matches(annotation.pattern, names_.results[i]))
        made_.results[i] = cuts(names_.results[i], function_.returned()[i]);
    if (!found) refuse(annotation.pattern);
  }

  // What a result is to be is known before it: of the value, unless that has cuts of its own.
  Stated stated() {
    for (size_t i = 0; i < made_.results.size(); ++i)
      if (made_.results[i]) made_.values.try_emplace(function_.returned()[i], *made_.results[i]);
    return std::move(made_);
  }

 private:
  [[noreturn]] void refuse(const std::string& pattern) const {
    std::vector<std::string> all;
    for (const auto* names : {&names_.arguments, &names_.results})
      all.insert(all.end(), names->begin(), names->end());
    for (const auto& [name, value] : names_.constants) all.push_back(name);
    constexpr size_t kShown = 12;
    const size_t shown = std::min(all.size(), kShown);
    const std::string list =
        fmt::format("{}{}", fmt::join(all.begin(), all.begin() + static_cast<ptrdiff_t>(shown), ", "),
                    shown < all.size() ? fmt::format(" and {} more", all.size() - shown) : "");
    throw Fault(
        FaultKind::kInput, "spmd.tensor", fmt::format("no tensor of the model is called '{}'", pattern),
        arch::did_you_mean(pattern, all, fmt::format("its inputs, results and weights are {}", list)));
  }

  const Function& function_;
  const AxisGrid& grid_;
  const TensorNames names_;
  Stated made_;
};

}  // namespace

Mesh parse_mesh(std::string_view text) {
  const auto fail = [&](std::string_view what) {
    throw Fault(FaultKind::kInput, "spmd.mesh", fmt::format("'{}' is not a mesh: {}", text, what),
                "write axes with their numbers of devices: tp=4,dp=2");
  };
  Mesh mesh;
  std::set<std::string> names;
  int64_t devices = 1;
  for (const std::string& word : split(text, ',')) {
    const size_t equals = word.find('=');
    if (equals == std::string::npos || equals == 0) fail(fmt::format("'{}' is not NAME=NUMBER", word));
    const std::string name = word.substr(0, equals), number = word.substr(equals + 1);
    if (name.find_first_of("-+*? \"") != std::string::npos)
      fail(fmt::format("'{}' is not a name of an axis", name));
    int64_t size = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), size);
    if (error != std::errc{} || end != number.data() + number.size() || size < 1 || size > kDevicesMax)
      fail(fmt::format("'{}' is not a number of devices", number));
    if (!names.insert(name).second) fail(fmt::format("the axis '{}' stands twice", name));
    devices *= size;
    if (devices > kDevicesMax) fail(fmt::format("more than {} devices", kDevicesMax));
    mesh.axes.push_back({name, size});
  }
  return mesh;
}

Annotation parse_annotation(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0)
    throw Fault(FaultKind::kInput, "spmd.annotation", fmt::format("'{}' is not a sharding of a tensor", text),
                "write NAME=AXES,AXES: layers.*.wq=-,tp; or auto alone, for OpenTrn to choose");
  Annotation made{split(text.substr(0, equals), '\n')[0], {}};
  const std::string_view dims = text.substr(equals + 1);
  if (dims.find_first_not_of(' ') == std::string_view::npos) return made;
  for (const std::string& word : split(dims, ',')) {
    std::vector<std::string>& axes = made.dims.emplace_back();
    if (word == "-") continue;
    for (std::string& axis : split(word, '+')) {
      if (axis.empty())
        throw Fault(FaultKind::kInput, "spmd.annotation", fmt::format("'{}': a dimension without axes", text),
                    "write '-' for a dimension that is whole");
      axes.push_back(std::move(axis));
    }
  }
  return made;
}

std::string to_text(const Sharding& sharding, int rank) {
  std::vector<std::string> dims;
  for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
    std::string& word = dims.emplace_back();
    if (d < sharding.dims.size())
      for (const AxisPart& part : sharding.dims[d]) {
        if (!word.empty()) word += '+';
        word += part.size > 0 ? fmt::format("{}:({}){}", part.axis, part.before, part.size) : part.axis;
      }
    if (word.empty()) word = "-";
  }
  return fmt::format("{}", fmt::join(dims, ","));
}

TensorNames names_of(const Module& module, const Function& function) {
  TensorNames names;
  for (size_t i = 0; i < function.arguments().size(); ++i)
    names.arguments.push_back(name_in(function.argument_attributes, i, "input"));
  for (size_t i = 0; i < function.returned().size(); ++i)
    names.results.push_back(name_in(function.result_attributes, i, "output"));
  for (const OpId id : function.block(function.body()).ops) {
    const Op& op = function.op(id);
    if (op.kind != OpKind::constant_ || function.type(op.results[0]).rank() == 0) continue;
    if (const std::string& name = module.location(op.location).name; !name.empty())
      names.constants.emplace_back(name, op.results[0]);
  }
  return names;
}

Stated stated_by(std::span<const Annotation> annotations, const Module& module, const Function& function,
                 const AxisGrid& grid) {
  Reader reader(module, function, grid);
  for (const Annotation& annotation : annotations) reader.read(annotation);
  return reader.stated();
}

}  // namespace opentrn::spmd
