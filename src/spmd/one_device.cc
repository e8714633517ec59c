#include "spmd/one_device.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "graph/op_definitions.h"
#include "spmd/sdy_ops.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Function;
using graph::Module;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

bool synchronises_devices(OpKind kind) {
  switch (kind) {
    case OpKind::all_gather_:
    case OpKind::all_reduce_:
    case OpKind::all_to_all_:
    case OpKind::collective_broadcast_:
    case OpKind::collective_permute_:
    case OpKind::reduce_scatter_:
    case OpKind::partition_id_:
    case OpKind::replica_id_: return true;
    default: return false;
  }
}

void check_groups(const Op& op, int64_t devices) {
  const Attr key = op.has(Attr::source_target_pairs) ? Attr::source_target_pairs : Attr::replica_groups;
  if (!op.has(key)) return;
  for (const int64_t id : op.matrix(key).values)
    if (id >= devices)
      throw Fault(FaultKind::kInput, "spmd.mesh",
                  fmt::format("{} is of device {}, and the mesh has {}", graph::name(op.kind), id, devices),
                  "a mesh of as many devices as the program was written for");
}

// Values of a function that annotations may cut: what comes in and what goes out.
std::set<ValueId> ports_of(const Function& function) {
  std::set<ValueId> ports;
  for (const ValueId value : function.arguments()) ports.insert(value);
  for (const ValueId value : function.returned()) ports.insert(value);
  return ports;
}

}  // namespace

bool is_of_one_device(const Function& function) {
  bool found = false;
  graph::walk(function, function.body(), [&](OpId id) {
    found |= synchronises_devices(function.op(id).kind) && !is_inside_manual_computation(function, id);
  });
  return found;
}

SpmdModule of_one_device(const Module& module, const Function& function, const AxisGrid& grid,
                         const Stated& stated) {
  graph::walk(function, function.body(), [&](OpId id) {
    if (synchronises_devices(function.op(id).kind)) check_groups(function.op(id), grid.devices());
  });
  const std::set<ValueId> ports = ports_of(function);
  for (const auto& [value, cuts] : stated.values)
    if (!ports.contains(value))
      throw Fault(FaultKind::kInput, "spmd.one_device",
                  "the program is one device's, with collectives of its own: its weights are that device's",
                  "state how inputs and results lie; or give the program of the whole model, without "
                  "collectives, and state how its weights do");
  SpmdModule made;
  made.module = module.without_functions();
  made.module.functions.push_back(function);
  made.module.functions.back().name = "main";
  for (const ValueId argument : function.arguments()) {
    const auto found = stated.values.find(argument);
    made.inputs.push_back(grid.sharding_of(found == stated.values.end() ? Cuts{} : found->second));
  }
  for (const auto& cuts : stated.results) made.outputs.push_back(grid.sharding_of(cuts.value_or(Cuts{})));
  return made;
}

Type whole_of(const Type& local, const Sharding& sharding) {
  if (!local.is_tensor()) return local;
  std::vector<int64_t> dims(local.dims().begin(), local.dims().end());
  for (size_t d = 0; d < dims.size() && d < sharding.dims.size(); ++d) dims[d] *= sharding.shards(d);
  return Type::tensor(local.element(), std::move(dims));
}

std::vector<std::vector<int64_t>> groups_with(const Mesh& mesh, std::span<const int64_t> devices) {
  const AxisGrid grid(mesh);
  const auto differ = [&](int axis) {
    const auto place = [&](int64_t device) { return grid.index({axis}, device); };
    return std::ranges::any_of(devices, [&](int64_t each) { return place(each) != place(devices[0]); });
  };
  Axes axes;
  int64_t known = 1;
  for (int axis = 0; known < grid.devices(); ++axis) {
    known *= grid.size(axis);
    if (!devices.empty() && differ(axis)) axes.push_back(axis);
  }
  std::vector<std::vector<int64_t>> groups = grid.groups(axes);
  if (std::ranges::none_of(groups, [&](const auto& group) { return std::ranges::equal(group, devices); })) {
    std::vector<std::string> words;
    for (const Mesh::Axis& axis : mesh.axes) words.push_back(fmt::format("{}={}", axis.name, axis.size));
    throw Fault(FaultKind::kInput, "spmd.group",
                fmt::format("ranks {} are no group of the mesh {}: no axes of it join them", devices,
                            fmt::join(words, ",")),
                "a mesh whose axes are those of the program's groups, the last axis nearest");
  }
  return groups;
}

}  // namespace opentrn::spmd
