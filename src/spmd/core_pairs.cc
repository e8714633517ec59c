#include "spmd/core_pairs.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/fault.h"
#include "graph/eval/process_groups.h"
#include "spmd/dimension_rule.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Attribute;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

constexpr std::string_view kBytes = "opentrn.bytes_of_logical_core";
constexpr std::string_view kOnce = "opentrn.once_of_logical_core";
constexpr std::string_view kInside = "opentrn.inside_logical_core";

bool has_groups(const Op& op) { return op.has(Attr::replica_groups) || op.has(Attr::source_target_pairs); }

// Of the devices' cores: each group once for the first cores and once for the second ones.
graph::IntMatrix groups_of_cores(const std::vector<graph::eval::ProcessGroup>& groups) {
  graph::IntMatrix matrix;
  for (const auto& group : groups)
    matrix.columns = std::max(matrix.columns, static_cast<int64_t>(group.size()));
  for (const auto& group : groups)
    for (int64_t core = 0; core < kCoresOfPair; ++core) {
      for (const int64_t device : group) matrix.values.push_back(device * kCoresOfPair + core);
      matrix.values.resize(static_cast<size_t>(++matrix.rows * matrix.columns), -1);
    }
  return matrix;
}

void note(Op& op, std::string_view key, Attribute value) {
  graph::Dictionary extra = op.extra ? *op.extra : graph::Dictionary{};
  extra.insert_or_assign(std::string(key), std::move(value));
  op.extra = std::make_shared<const graph::Dictionary>(std::move(extra));
}

template <typename T>
const T* noted(const Op& op, std::string_view key) {
  if (!op.extra) return nullptr;
  const auto found = op.extra->find(std::string(key));
  return found == op.extra->end() ? nullptr : found->second.get<T>();
}

void spread_collective(Function& function, OpId id, int64_t devices) {
  const auto fail = [](const std::string& what) { throw Fault(FaultKind::kInput, "graph.collective", what); };
  const auto groups = graph::eval::process_groups(function.op(id), 1, devices, fail);
  int64_t bytes = 0;
  for (const ValueId value : function.op(id).operands)
    bytes += static_cast<int64_t>(function.type(value).byte_count());
  Op& op = function.op(id);
  const bool has_channel = op.integer_or(Attr::channel_id, 0) > 0;
  if (!has_channel) return;  // of replicas, of which there is one: each device has what it brings
  const bool reduces =
      op.kind == OpKind::all_gather_ || op.kind == OpKind::all_reduce_ || op.kind == OpKind::reduce_scatter_;
  const Attr key = op.has(Attr::source_target_pairs) ? Attr::source_target_pairs : Attr::replica_groups;
  op.set(key, Attribute(groups_of_cores(groups)));
  if (reduces) op.set(Attr::use_global_device_ids, Attribute(true));
  note(op, kBytes, Attribute(bytes));
}

// What the program takes for its device's number is that of the logical core.
void spread_number(Function& function, OpId id) {
  const graph::BlockId block = function.op(id).block;
  const ValueId number = function.op(id).results[0];
  const graph::Type type = function.type(number);
  const auto& ops = function.block(block).ops;
  const auto at = static_cast<size_t>(std::ranges::find(ops, id) - ops.begin());
  const OpId two = function.insert(block, at, OpKind::constant_, {}, {type});
  const auto count = static_cast<uint32_t>(kCoresOfPair);
  std::vector<std::byte> bytes(sizeof(count));
  std::memcpy(bytes.data(), &count, sizeof(count));
  function.op(two).set(Attr::value, Attribute(graph::Literal(type, std::move(bytes))));
  const OpId half = function.insert(block, at + 2, OpKind::divide_, {}, {type});
  function.replace_uses(number, function.op(half).results[0]);
  function.op(half).operands = {number, function.op(two).results[0]};
}

}  // namespace

AxisGrid core_grid(int64_t devices) {
  return AxisGrid(Mesh{{{"device", devices}, {"core", kCoresOfPair}}, {}});
}

Axes core_axes(const AxisGrid& grid) {
  return grid.cuts_of(Sharding{grid.mesh(), {{{"core", 1, 0}}}, {}}, 1)[0];
}

void on_core_pairs(Function& function, int64_t devices) {
  std::vector<OpId> collectives, numbers, calls;
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (has_groups(op)) collectives.push_back(id);
    if (op.kind == OpKind::partition_id_) numbers.push_back(id);
    if (op.kind == OpKind::custom_call_ && !dimension_rule(function, op)) calls.push_back(id);
  });
  for (const OpId id : calls) note(function.op(id), kOnce, Attribute(true));
  for (const OpId id : collectives) spread_collective(function, id, devices);
  for (const OpId id : numbers) spread_number(function, id);
}

void mark_exchanges_inside(Function& function, int64_t cores) {
  const auto fail = [](const std::string& what) { throw Fault(FaultKind::kInput, "graph.collective", what); };
  std::vector<OpId> found;
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (!has_groups(op) || bytes_of_logical_core(op)) return;
    const auto groups = graph::eval::process_groups(op, 1, cores, fail);
    const auto is_pair = [](const auto& group) {
      return group.size() == 2 && group[0] / kCoresOfPair == group[1] / kCoresOfPair;
    };
    if (!groups.empty() && std::ranges::all_of(groups, is_pair)) found.push_back(id);
  });
  for (const OpId id : found) note(function.op(id), kInside, Attribute(true));
}

bool is_inside_logical_core(const Op& op) { return noted<bool>(op, kInside) != nullptr; }

bool is_once_of_logical_core(const Op& op) { return noted<bool>(op, kOnce) != nullptr; }

std::optional<int64_t> bytes_of_logical_core(const Op& op) {
  const auto* bytes = noted<int64_t>(op, kBytes);
  return bytes ? std::optional(*bytes) : std::nullopt;
}

}  // namespace opentrn::spmd
