#include "spmd/sdy_ops.h"

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;

namespace {

const std::string* find_text(const Op& op, const char* key) {
  if (!op.extra) return nullptr;
  const auto found = op.extra->find(key);
  if (found == op.extra->end()) return nullptr;
  const auto* opaque = found->second.get<graph::Opaque>();
  return opaque ? &opaque->text : nullptr;
}

const std::string& text_of(const Op& op, const char* key) {
  if (const std::string* text = find_text(op, key)) return *text;
  throw Fault(FaultKind::kInput, "sdy.manual_computation", fmt::format("it has no {}", key));
}

bool is_call_of(const Op& op, std::string_view target) {
  return op.kind == OpKind::custom_call_ && op.string(Attr::call_target_name) == target;
}

// The mesh of the first sharding that cuts anything, with axes as all that go together with it cut them.
class MeshOfAll {
 public:
  explicit MeshOfAll(int64_t devices) : devices_(devices) {}
  void add(const Sharding& sharding) {
    if (sharding.replicated()) return;
    int64_t devices = 1;
    for (const Mesh::Axis& axis : sharding.mesh.axes) devices *= axis.size;
    if (devices != devices_)
      throw Fault(FaultKind::kNotModelled, "sdy.mesh",
                  fmt::format("a mesh of {} devices in a program on {}", devices, devices_));
    shardings_.push_back(sharding);
  }

  AxisGrid grid() const {
    if (shardings_.empty()) return AxisGrid(Mesh{{{"devices", devices_}}, {}});
    return AxisGrid(shardings_[0].mesh, shardings_);
  }

 private:
  int64_t devices_;
  std::vector<Sharding> shardings_;
};

}  // namespace

bool is_manual_computation(const Op& op) { return is_call_of(op, "sdy.manual_computation"); }

bool is_inside_manual_computation(const Function& function, OpId op) {
  for (;;) {
    op = function.block(function.op(op).block).parent;
    if (op == graph::kNoOp) return false;
    if (is_manual_computation(function.op(op))) return true;
  }
}

bool is_sharding_constraint(const Op& op) {
  return (is_call_of(op, "sdy.sharding_constraint") || is_call_of(op, "sdy.reshard")) &&
         find_text(op, "sharding");
}

Sharding constraint_of(const Op& op, const Meshes& meshes) {
  return parse_sharding(text_of(op, "sharding"), meshes);
}

ManualShardings manual_shardings(const Op& op, const Meshes& meshes) {
  const std::vector<std::string> axes = parse_manual_axes(text_of(op, "manual_axes"));
  ManualShardings made;
  for (const Sharding& sharding : parse_shardings(text_of(op, "in_shardings"), meshes))
    made.in.push_back(sharding.restricted_to(axes));
  for (const Sharding& sharding : parse_shardings(text_of(op, "out_shardings"), meshes))
    made.out.push_back(sharding.restricted_to(axes));
  if (made.in.size() != op.operands.size() || made.out.size() != op.results.size())
    throw Fault(FaultKind::kInput, "sdy.manual_computation",
                fmt::format("{} shardings for {} operands, {} for {} results", made.in.size(),
                            op.operands.size(), made.out.size(), op.results.size()));
  return made;
}

ProgramShardings program_shardings(const graph::Module& module, const Function& function,
                                   std::span<const Sharding> inputs,
                                   std::span<const std::optional<Sharding>> outputs, int64_t devices) {
  const Meshes meshes = meshes_of(module);
  std::map<graph::ValueId, Sharding> stated;
  std::map<graph::ValueId, Sharding> open;
  MeshOfAll mesh(devices);
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (is_sharding_constraint(op)) {
      const Sharding sharding = constraint_of(op, meshes);
      stated[op.results[0]] = sharding;
      if (!sharding.unreduced.empty()) open[op.results[0]] = sharding;
    }
    if (!is_manual_computation(op)) return;
    const ManualShardings shardings = manual_shardings(op, meshes);
    for (const Sharding& sharding : shardings.in) mesh.add(sharding);
    for (size_t i = 0; i < op.results.size(); ++i) stated[op.results[i]] = shardings.out[i];
  });
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) {
      mesh.add(*outputs[i]);
      stated.try_emplace(function.returned()[i], *outputs[i]);
    }
  for (size_t i = 0; i < inputs.size(); ++i) stated[function.arguments()[i]] = inputs[i];
  for (const auto& [value, sharding] : stated) mesh.add(sharding);
  ProgramShardings made{mesh.grid(), {}, {}, {}};
  for (const auto& [value, sharding] : open) made.open.values[value] = made.grid.open_axes_of(sharding);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].unreduced.empty())
      made.open.arguments[function.arguments()[i]] = made.grid.open_axes_of(inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] && !outputs[i]->unreduced.empty())
      made.open.results[i] = made.grid.open_axes_of(*outputs[i]);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!made.grid.expresses(inputs[i])) made.other.arguments[function.arguments()[i]] = inputs[i];
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] && !made.grid.expresses(*outputs[i])) made.other.results[i] = *outputs[i];
  for (const auto& [value, sharding] : stated)
    if (const graph::Type& type = function.type(value); type.is_tensor() && made.grid.expresses(sharding))
      made.values[value] = made.grid.cuts_of(sharding, type.rank());
  return made;
}

}  // namespace opentrn::spmd
