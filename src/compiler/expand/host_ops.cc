#include "compiler/expand/host_ops.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <optional>

#include "compiler/analysis/cost.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/host_call.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/takes.h"
#include "graph/copy.h"
#include "graph/text/text.h"

namespace opentrn::compiler {

using graph::Module;

namespace {

// Constants of up to so many elements go into the host's module instead of to it.
constexpr int64_t kConstantElements = 64;

bool lies_on_device(const graph::Type& type) {
  return type.is_tensor() && type.is_static() && !type.quantization() &&
         device_dtype(graph::real_part(type.element())).has_value();
}

// Ops whose values are wrong when half of the bits of 64-bit operands are gone, as they are in a device's
// memory.
bool needs_every_bit(const Function& function, const Op& op) {
  switch (op.kind) {
    case OpKind::bitcast_convert_:
    case OpKind::rng_bit_generator_:
    case OpKind::shift_left_:
    case OpKind::shift_right_arithmetic_:
    case OpKind::shift_right_logical_:
    case OpKind::popcnt_:
    case OpKind::count_leading_zeros_: break;
    default: return false;
  }
  const auto narrowed = [&](ValueId value) {
    return function.type(value).is_tensor() && is_narrowed(function.type(value).element());
  };
  return std::any_of(op.operands.begin(), op.operands.end(), narrowed) ||
         std::any_of(op.results.begin(), op.results.end(), narrowed);
}

// What the evaluator does by itself, and without leaving the program.
bool host_can(const Function& function, const Op& op) {
  switch (op.kind) {
    case OpKind::custom_call_:
    case OpKind::infeed_:
    case OpKind::outfeed_:
    case OpKind::send_:
    case OpKind::recv_:
    case OpKind::create_token_:
    case OpKind::after_all_: return false;
    default: break;
  }
  if (needs_every_bit(function, op)) return false;
  const auto is_static = [&](ValueId value) {
    return function.type(value).is_tensor() && function.type(value).is_static();
  };
  if (!std::all_of(op.operands.begin(), op.operands.end(), is_static) ||
      !std::all_of(op.results.begin(), op.results.end(), is_static))
    return false;
  for (const BlockId region : op.regions)
    for (const OpId inner : function.block(region).ops)
      if (!host_can(function, function.op(inner))) return false;
  return true;
}

bool looked_through(OpKind kind) {
  return kind == OpKind::while_ || kind == OpKind::if_ || kind == OpKind::case_;
}

class Mover {
 public:
  Mover(const Module& module, Function& function, const std::set<OpId>& also)
      : module_(module), function_(function), also_(also) {
    for (uint32_t b = 0; b < function.block_count(); ++b)
      for (const OpId id : function.block(BlockId{b}).ops) block_of_[id] = BlockId{b};
  }

  int64_t run(BlockId block) {
    const std::vector<OpId> ops = function_.block(block).ops;  // calls are added meanwhile
    for (const OpId id : ops)
      if (!wants_host(id) && looked_through(function_.op(id).kind))
        for (const BlockId region : std::vector(function_.op(id).regions)) run(region);
    for (const std::vector<OpId>& cluster : clusters(block)) move(block, cluster);
    return calls_;
  }

 private:
  bool wants_host(OpId id) const {
    const Op& op = function_.op(id);
    if (op.kind == OpKind::return_ || op.kind == OpKind::constant_) return false;
    return (also_.contains(id) || !has_lowering(function_, op)) && host_can(function_, op);
  }

  // Ops of the block that go together, each in program order: they share a value that no device holds.
  std::vector<std::vector<OpId>> clusters(BlockId block) const {
    std::vector<OpId> moved;
    for (const OpId id : function_.block(block).ops)
      if (wants_host(id)) moved.push_back(id);
    std::vector<size_t> group(moved.size());
    std::iota(group.begin(), group.end(), size_t{0});
    std::map<ValueId, size_t> seen;
    for (size_t i = 0; i < moved.size(); ++i) {
      const auto join = [&](ValueId value) {
        if (lies_on_device(function_.type(value))) return;
        const auto [found, fresh] = seen.try_emplace(value, group[i]);
        if (!fresh) std::replace(group.begin(), group.end(), group[i], group[found->second]);
      };
      const Op& op = function_.op(moved[i]);
      std::for_each(op.operands.begin(), op.operands.end(), join);
      std::for_each(op.results.begin(), op.results.end(), join);
      for (const ValueId value : captured_by(function_, op)) join(value);
    }
    std::map<size_t, std::vector<OpId>> by_group;
    for (size_t i = 0; i < moved.size(); ++i) by_group[group[i]].push_back(moved[i]);
    std::vector<std::vector<OpId>> result;
    for (auto& [number, ops] : by_group) result.push_back(std::move(ops));
    return result;
  }

  const graph::Literal* constant_of(ValueId value) const {
    const OpId maker = function_.value(value).op;
    if (maker == graph::kNoOp || function_.op(maker).kind != OpKind::constant_) return nullptr;
    return &function_.op(maker).literal(Attr::value);
  }

  // The cluster as a function of what it takes from outside.
  struct Part {
    Module module;
    std::vector<ValueId> inputs, outputs;  // of the function around
  };

  bool is_used_outside(ValueId value, const std::set<OpId>& inside) const {
    for (uint32_t b = 0; b < function_.block_count(); ++b) {
      for (const OpId id : function_.block(BlockId{b}).ops) {
        const Op& op = function_.op(id);
        if (std::find(op.operands.begin(), op.operands.end(), value) != op.operands.end() &&
            !inside.contains(id) && !is_within(BlockId{b}, inside))
          return true;
      }
    }
    return false;
  }

  // An op of the block, or one around it, is one of them.
  bool is_within(BlockId block, const std::set<OpId>& inside) const {
    for (OpId parent = function_.block(block).parent; parent != graph::kNoOp;
         parent = function_.block(block_of_.at(parent)).parent) {
      if (inside.contains(parent)) return true;
      block = block_of_.at(parent);
    }
    return false;
  }

  Part part_of(const std::vector<OpId>& cluster) const {
    Part part;
    part.module = module_.without_functions();
    part.module.attributes.clear();  // the host is one device, whatever the program runs on
    Function& made = part.module.add_function("main");
    graph::Copier copier(function_, made);
    const std::set<OpId> inside(cluster.begin(), cluster.end());
    const auto take = [&](ValueId value) {
      if (copier.has(value) || inside.contains(function_.value(value).op)) return;
      const graph::Type& type = function_.type(value);
      const graph::Literal* constant = constant_of(value);
      if (constant && (!lies_on_device(type) || type.element_count() <= kConstantElements)) {
        copier.copy(function_.op(function_.value(value).op), made.body());
        return;
      }
      copier.argument(value, made.body());
      part.inputs.push_back(value);
    };
    for (const OpId id : cluster) {
      std::for_each(function_.op(id).operands.begin(), function_.op(id).operands.end(), take);
      for (const ValueId value : captured_by(function_, function_.op(id))) take(value);
    }
    for (const OpId id : cluster) copier.copy(function_.op(id), made.body());
    std::vector<ValueId> returned;
    for (const OpId id : cluster)
      for (const ValueId value : function_.op(id).results)
        if (is_used_outside(value, inside)) {
          part.outputs.push_back(value);
          returned.push_back(copier.at(value));
          made.result_types.push_back(function_.type(value));
          made.result_attributes.emplace_back();
        }
    made.append(made.body(), OpKind::return_, std::move(returned), {});
    return part;
  }

  // The call stands where the last of them stood; who reads the others must come after.
  bool reads_come_after(BlockId block, const std::vector<OpId>& cluster, const Part& part) const {
    const std::vector<OpId>& ops = function_.block(block).ops;
    const std::set<OpId> inside(cluster.begin(), cluster.end());
    for (auto at = ops.begin(); *at != cluster.back(); ++at) {
      if (inside.contains(*at)) continue;
      std::vector<ValueId> read = captured_by(function_, function_.op(*at));
      read.insert(read.end(), function_.op(*at).operands.begin(), function_.op(*at).operands.end());
      for (const ValueId value : part.outputs)
        if (std::find(read.begin(), read.end(), value) != read.end()) return false;
    }
    return true;
  }

  void move(BlockId block, const std::vector<OpId>& cluster) {
    Part part = part_of(cluster);
    const auto on_device = [&](ValueId value) { return lies_on_device(function_.type(value)); };
    // What goes in or comes out must lie in the device's memory; lowering says so otherwise.
    if (part.outputs.empty() || !std::all_of(part.inputs.begin(), part.inputs.end(), on_device) ||
        !std::all_of(part.outputs.begin(), part.outputs.end(), on_device) ||
        !reads_come_after(block, cluster, part))
      return;
    std::vector<graph::Type> types;
    for (const ValueId value : part.outputs) types.push_back(function_.type(value));
    std::vector<OpId>& ops = function_.block(block).ops;
    const auto last = std::find(ops.begin(), ops.end(), cluster.back());
    const OpId call =
        function_.insert(block, static_cast<size_t>(last - ops.begin()) + 1, OpKind::custom_call_,
                         part.inputs, std::move(types), function_.op(cluster.front()).location);
    function_.op(call).set(Attr::call_target_name, graph::Attribute(std::string(kHostTarget)));
    function_.op(call).set(Attr::backend_config,
                           graph::Attribute(graph::print_module(part.module, {.locations = true})));
    std::string title;
    for (const OpId id : cluster) {
      const std::string_view kind = graph::name(function_.op(id).kind);
      title += (title.empty() ? "" : ", ") + std::string(kind.substr(kind.rfind('.') + 1));
    }
    double work = 0;
    for (const OpId id : cluster) work += flops(function_, function_.op(id));
    function_.op(call).extra = std::make_shared<const graph::Dictionary>(graph::Dictionary{
        {"opentrn.title", graph::Attribute(std::move(title))}, {"opentrn.flops", graph::Attribute(work)}});
    for (size_t i = 0; i < part.outputs.size(); ++i)
      function_.replace_uses(part.outputs[i], function_.op(call).results[i]);
    std::vector<OpId>& after = function_.block(block).ops;
    std::erase_if(after,
                  [&](OpId id) { return std::find(cluster.begin(), cluster.end(), id) != cluster.end(); });
    block_of_[call] = block;
    ++calls_;
  }

  const Module& module_;
  Function& function_;
  const std::set<OpId>& also_;
  std::map<OpId, BlockId> block_of_;
  int64_t calls_ = 0;
};

}  // namespace

int64_t move_to_host(const Module& module, Function& function, const std::set<OpId>& also) {
  return Mover(module, function, also).run(function.body());
}

}  // namespace opentrn::compiler
