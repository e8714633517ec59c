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

bool same_mesh(const Mesh& a, const Mesh& b) {
  if (a.axes.size() != b.axes.size() || a.devices != b.devices) return false;
  for (size_t i = 0; i < a.axes.size(); ++i)
    if (a.axes[i].name != b.axes[i].name || a.axes[i].size != b.axes[i].size) return false;
  return true;
}

// Of a value inside of a program, whose sums are made where they are wanted.
Sharding closed(Sharding sharding) {
  if (!sharding.unreduced.empty())
    throw Fault(FaultKind::kNotModelled, "sdy.unreduced", "a sum that stays open between devices");
  return sharding;
}

// The mesh of all shardings that cut anything, and the parts of axes that they name; or all of them, where
// they are of several meshes.
class MeshOfAll {
 public:
  void add(const Sharding& sharding) {
    if (sharding.replicated()) return;
    if (!mesh_) mesh_ = sharding.mesh;
    has_several_ |= !same_mesh(*mesh_, sharding.mesh);
    shardings_.push_back(sharding);
    for (const auto& dim : sharding.dims) parts_.insert(parts_.end(), dim.begin(), dim.end());
  }

  AxisGrid grid(int64_t devices) const {
    if (!mesh_) return AxisGrid(Mesh{{{"devices", devices}}, {}});
    AxisGrid grid = has_several_ ? AxisGrid(*mesh_, shardings_) : AxisGrid(*mesh_, parts_);
    if (grid.devices() != devices)
      throw Fault(FaultKind::kNotModelled, "sdy.mesh",
                  fmt::format("a mesh of {} devices in a program on {}", grid.devices(), devices));
    return grid;
  }

 private:
  std::optional<Mesh> mesh_;
  std::vector<AxisPart> parts_;
  std::vector<Sharding> shardings_;
  bool has_several_ = false;
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
  MeshOfAll mesh;
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (is_sharding_constraint(op)) stated[op.results[0]] = closed(constraint_of(op, meshes));
    if (!is_manual_computation(op)) return;
    const ManualShardings shardings = manual_shardings(op, meshes);
    for (const Sharding& sharding : shardings.in) mesh.add(closed(sharding));
    for (size_t i = 0; i < op.results.size(); ++i) stated[op.results[i]] = closed(shardings.out[i]);
  });
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i]) {
      mesh.add(*outputs[i]);
      stated.try_emplace(function.returned()[i], *outputs[i]);
    }
  for (size_t i = 0; i < inputs.size(); ++i) stated[function.arguments()[i]] = inputs[i];
  for (const auto& [value, sharding] : stated) mesh.add(sharding);
  ProgramShardings made{mesh.grid(devices), {}, {}};
  const auto axes_of = [&](const Sharding& sharding) {
    Sharding one{sharding.mesh, {{}}, {}};
    for (const std::string& axis : sharding.unreduced) one.dims[0].push_back({axis, 1, 0});
    return made.grid.cuts_of(one, 1)[0];
  };
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i].unreduced.empty()) made.open.arguments[function.arguments()[i]] = axes_of(inputs[i]);
  for (size_t i = 0; i < outputs.size(); ++i)
    if (outputs[i] && !outputs[i]->unreduced.empty()) made.open.results[i] = axes_of(*outputs[i]);
  for (const auto& [value, sharding] : stated)
    if (const graph::Type& type = function.type(value); type.is_tensor())
      made.values[value] = made.grid.cuts_of(sharding, type.rank());
  return made;
}

}  // namespace opentrn::spmd
