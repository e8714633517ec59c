#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "graph/copy.h"

namespace opentrn::compiler {

using graph::Module;
using graph::SymbolRef;

namespace {

constexpr int kDepthMax = 256;
// Ops that the calls of a program may become, beyond those it has. Functions that call each other twice
// double with each of them.
constexpr size_t kOpsMax = 1'000'000;

// Composites that kernels take whole, by the name JAX gives them.
std::optional<OpKind> kernel_op(const Function& source, const Op& composite) {
  static const std::map<std::string, OpKind, std::less<>> kKnown{
      {"chlo.erf", OpKind::chlo_erf_},
      {"chlo.square", OpKind::chlo_square_},
      {"chlo.erfc", OpKind::chlo_erfc_},
      {"chlo.erf_inv", OpKind::chlo_erf_inv_},
      {"chlo.acos", OpKind::chlo_acos_},
      {"chlo.acosh", OpKind::chlo_acosh_},
      {"chlo.asin", OpKind::chlo_asin_},
      {"chlo.asinh", OpKind::chlo_asinh_},
      {"chlo.atan", OpKind::chlo_atan_},
      {"chlo.atanh", OpKind::chlo_atanh_},
      {"chlo.bessel_i1e", OpKind::chlo_bessel_i1e_},
      {"chlo.cosh", OpKind::chlo_cosh_},
      {"chlo.digamma", OpKind::chlo_digamma_},
      {"chlo.lgamma", OpKind::chlo_lgamma_},
      {"chlo.sinh", OpKind::chlo_sinh_},
      {"chlo.tan", OpKind::chlo_tan_},
  };
  const auto found = kKnown.find(composite.string(Attr::name));
  if (found == kKnown.end() || composite.operands.size() != 1 ||
      graph::is_complex(source.type(composite.operands[0]).element()))
    return std::nullopt;
  return found->second;
}

// Ops that only say how a value is spread over devices: on one device they are their operand.
bool is_sharding_note(const Op& op) {
  if (op.kind != OpKind::custom_call_ || op.operands.size() != 1 || op.results.size() != 1) return false;
  const std::string& target = op.string(Attr::call_target_name);
  return target == "sdy.sharding_constraint" || target == "sdy.reshard" || target == "Sharding" ||
         target == "annotate_device_placement";
}

// The dimensions of a layout, fastest first; nullopt where the attribute says it in a form that nobody
// writes.
std::optional<std::vector<int64_t>> layout_of(const graph::Attribute& attribute) {
  if (const auto* dims = attribute.get<std::vector<int64_t>>()) return *dims;
  const auto* literal = attribute.get<graph::Literal>();
  if (!literal || graph::storage_bytes(literal->type().element()) != sizeof(int64_t)) return std::nullopt;
  std::vector<int64_t> dims(static_cast<size_t>(literal->type().element_count()));
  const std::vector<std::byte> bytes = literal->dense();
  std::memcpy(dims.data(), bytes.data(), bytes.size());
  return dims;
}

// JAX's with_layout_constraint is its operand where it asks for what is: row-major.
bool is_layout_note(const Op& op) {
  if (op.kind != OpKind::custom_call_ || op.string(Attr::call_target_name) != "LayoutConstraint")
    return false;
  const graph::Attribute* layouts = op.find(Attr::result_layouts);
  const graph::AttributeList* list = layouts ? layouts->as_list() : nullptr;
  const auto dims = list && list->size() == 1 ? layout_of(list->front()) : std::nullopt;
  return dims && std::ranges::is_sorted(*dims, std::greater<>());
}

class Inliner {
 public:
  Inliner(const Module& module, Function& target, ShardingNotes notes)
      : module_(module), target_(target), notes_(notes), ops_max_(kOpsMax) {
    for (const Function& function : module.functions) ops_max_ += function.op_count();
  }

  using Values = std::vector<ValueId>;

  // Clones the ops of `block` but its return; gives what it returns.
  Values clone(const Function& source, BlockId block, BlockId into, std::vector<ValueId>& map, int depth) {
    if (depth > kDepthMax)
      throw Fault(FaultKind::kInput, "graph.recursion",
                  fmt::format("calls are {} deep, or @{} calls itself", depth, source.name));
    for (const OpId id : source.block(block).ops) {
      interrupt::poll();
      const Op& op = source.op(id);
      if (++ops_ > ops_max_) too_many(op);
      Values operands;
      for (const ValueId value : op.operands) operands.push_back(map[index_of(value)]);
      if (op.kind == OpKind::return_) return operands;
      const Values results = clone_op(source, op, std::move(operands), into, map, depth);
      for (size_t i = 0; i < results.size(); ++i) map[index_of(op.results[i])] = results[i];
    }
    return {};
  }

 private:
  [[noreturn]] void too_many(const Op& op) const {
    Fault fault(
        FaultKind::kCapacity, "graph.inline",
        fmt::format("the program's calls become more than {} ops where they are written out", ops_max_),
        "call functions in a loop (stablehlo.while) in place of calls of calls");
    fault.set_location(module_.source(op.location));
    throw fault;
  }

  const Function& callee(const Op& op, Attr attr) {
    const graph::Attribute* found = op.find(attr);
    const auto* symbol = found ? found->get<SymbolRef>() : nullptr;
    const Function* function = symbol ? module_.find(symbol->name) : nullptr;
    if (function && function->arguments().size() == op.operands.size()) return *function;
    Fault fault(FaultKind::kInput, "graph.callee",
                fmt::format("{} of @{}, which is not a function of {} arguments", graph::name(op.kind),
                            symbol ? symbol->name : "", op.operands.size()));
    fault.set_location(module_.source(op.location));
    throw fault;
  }

  Values clone_op(const Function& source, const Op& op, Values operands, BlockId into,
                  std::vector<ValueId>& map, int depth) {
    if (op.kind == OpKind::call_) return inlined(op, Attr::callee, operands, into, depth);
    const bool drops_note = notes_ == ShardingNotes::kDropped && is_sharding_note(op);
    if (drops_note || is_layout_note(op)) return operands;
    if (op.kind == OpKind::custom_call_ && op.string(Attr::call_target_name) == "LayoutConstraint") {
      Fault fault(FaultKind::kNotModelled, "layout",
                  "a value is wanted in another layout than row-major, which is how the device holds arrays",
                  "transpose the array instead");
      fault.set_location(module_.source(op.location));
      throw fault;
    }
    const bool composite = op.kind == OpKind::composite_;
    const auto direct = composite ? kernel_op(source, op) : std::nullopt;
    if (composite && !direct) return inlined(op, Attr::decomposition, operands, into, depth);
    const OpId made = graph::copy_op(source, op, std::move(operands), target_, into);
    target_.op(made).location = place_of(op);
    if (direct) {  // the attributes are the composite's
      target_.op(made).kind = *direct;
      target_.op(made).attributes.clear();
      target_.op(made).extra = nullptr;
    }
    for (const BlockId region : op.regions) clone_region(source, region, made, map, depth);
    return target_.op(made).results;
  }

  void clone_region(const Function& source, BlockId region, OpId parent, std::vector<ValueId>& map,
                    int depth) {
    const BlockId block = target_.add_block(parent);
    for (const ValueId value : source.block(region).arguments)
      map[index_of(value)] = target_.add_argument(block, source.type(value));
    Values returned = clone(source, region, block, map, depth);
    target_.append(block, OpKind::return_, std::move(returned), {});
  }

  Values inlined(const Op& call, Attr attr, const Values& operands, BlockId into, int depth) {
    const Function& function = callee(call, attr);
    std::vector<ValueId> map(function.value_count());
    for (size_t i = 0; i < operands.size(); ++i) map[index_of(function.arguments()[i])] = operands[i];
    const graph::LocationId outer = std::exchange(call_, place_of(call));
    Values results = clone(function, function.body(), into, map, depth + 1);
    call_ = outer;
    return results;
  }

  // Where the user's program has the op: a function of JAX's own (jit(sort)) states the line of its call
  // only.
  graph::LocationId place_of(const Op& op) const {
    const bool stays = call_ == graph::kNoLocation || module_.source(op.location).known();
    return stays ? op.location : call_;
  }

  const Module& module_;
  Function& target_;
  ShardingNotes notes_;
  size_t ops_ = 0, ops_max_;  // visited so far: calls count as well, of functions without ops too
  graph::LocationId call_ = graph::kNoLocation;
};

}  // namespace

Function inline_calls(const Module& module, const Function& entry, ShardingNotes notes) {
  Function flat(entry.name);
  flat.result_types = entry.result_types;
  flat.result_attributes = entry.result_attributes;
  std::vector<ValueId> map(entry.value_count());
  for (const ValueId value : entry.arguments())
    map[index_of(value)] = flat.add_argument(flat.body(), entry.type(value));
  flat.argument_attributes = entry.argument_attributes;
  Inliner inliner(module, flat, notes);
  std::vector<ValueId> returned = inliner.clone(entry, entry.body(), flat.body(), map, 0);
  flat.append(flat.body(), OpKind::return_, std::move(returned), {});
  return flat;
}

}  // namespace opentrn::compiler
