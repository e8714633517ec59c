// Values that are made of nothing but constants, counters and a few numbers, by long chains of ops, as masks
// of random bits are, in front of the product that makes the operand of the product beside which they are
// read:
//
//   p = product(x); q = product(p); mask = ...; select(mask, q, 0)
//   becomes
//   mask = ...; p = product(x); q = product(p); select(mask, q, 0)
//
// A kernel's tiles flow into the next kernel's as they are made, so that engines take turns. Where a mask
// stands between two products, the engines that draw it stop that flow, and wait themselves for products
// afterwards.
#include <algorithm>
#include <map>
#include <vector>

#include "compiler/analysis/activation_op.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kFewNumbers = 1024;      // elements that may come from anywhere
constexpr int64_t kElementsMin = 1 << 14;  // of a mask whose place matters
constexpr int64_t kChainMin = 32;          // ops over all of them
constexpr int64_t kNone = -1;

// Attention is one, too; functions of one element are not.
bool is_product(const Op& op) {
  if (op.kind == OpKind::composite_) return !activation_of_composite(op);
  return op.kind == OpKind::dot_general_ || op.kind == OpKind::convolution_;
}

// Ops of no class of their own that give what they compute of their operands, whenever they run.
bool is_simple(OpKind kind) {
  switch (kind) {
    case OpKind::constant_:
    case OpKind::iota_:
    case OpKind::select_:
    case OpKind::compare_:
    case OpKind::concatenate_:
    case OpKind::convert_:
    case OpKind::bitcast_convert_: return true;
    default: return false;
  }
}

bool is_small(const Type& type) {
  return type.is_tensor() && type.is_static() && type.element_count() <= kFewNumbers;
}

class Block {
 public:
  Block(Function& function, BlockId id) : function_(function), id_(id), ops_(function.block(id).ops) {
    for (size_t place = 0; place < ops_.size(); ++place) look_at(static_cast<int64_t>(place));
  }

  int64_t run() {
    std::map<int64_t, std::vector<int64_t>> moved;  // by the place that they go to
    for (const auto& [mask, target] : targets_)
      if (target < mask) moved[target].push_back(mask);
    if (moved.empty()) return 0;
    std::vector<bool> gone(ops_.size());
    std::map<int64_t, std::vector<int64_t>> before;
    for (const auto& [target, masks] : moved)  // the earliest first: chains may share ops
      for (const int64_t mask : masks)
        for (const int64_t place : chain_of(mask))
          if (place >= target && !gone[static_cast<size_t>(place)]) {
            gone[static_cast<size_t>(place)] = true;
            before[target].push_back(place);
          }
    std::vector<OpId> order;
    for (size_t place = 0; place < ops_.size(); ++place) {
      if (const auto found = before.find(static_cast<int64_t>(place)); found != before.end()) {
        std::ranges::sort(found->second);
        for (const int64_t other : found->second) order.push_back(ops_[static_cast<size_t>(other)]);
      }
      if (!gone[place]) order.push_back(ops_[place]);
    }
    function_.block(id_).ops = order;
    return std::ssize(moved);
  }

 private:
  const Op& op(int64_t place) const { return function_.op(ops_[static_cast<size_t>(place)]); }

  // The place of the op of this block that makes the value.
  int64_t place_of(ValueId value) const {
    const auto found = places_.find(value);
    return found == places_.end() ? kNone : found->second;
  }

  bool may_be_of_nothing(const Op& op) const {
    if (op.results.size() != 1 || !op.regions.empty()) return false;
    const OpClass op_class = graph::definition(op.kind).op_class;
    if (op_class != OpClass::kUnaryElementwise && op_class != OpClass::kBinaryElementwise &&
        !is_view_op(op.kind) && !is_simple(op.kind))
      return false;
    return std::ranges::all_of(op.operands, [&](ValueId value) {
      const int64_t place = place_of(value);
      return place == kNone ? is_small(function_.type(value)) : of_nothing_[static_cast<size_t>(place)];
    });
  }

  // Products are known by their places; what comes from outside the block is made before all of them.
  int64_t latest(const Op& op, const std::vector<int64_t>& products) const {
    int64_t latest = kNone;
    for (const ValueId value : op.operands)
      if (const int64_t place = place_of(value); place != kNone)
        latest = std::max(latest, products[static_cast<size_t>(place)]);
    return latest;
  }

  void look_at(int64_t place) {
    const Op& here = op(place);
    const bool of_nothing = may_be_of_nothing(here);
    of_nothing_.push_back(of_nothing);
    const int64_t last = latest(here, product_), flowing = latest(here, flow_);
    product_.push_back(is_product(here) ? place : last);
    flow_.push_back(is_product(here) ? place : here.kind == OpKind::reduce_ ? kNone : flowing);
    first_.push_back(flowing == kNone ? place : first_[static_cast<size_t>(flowing)]);
    for (const ValueId result : here.results) places_.emplace(result, place);
    if (of_nothing || last == kNone) return;
    for (const ValueId value : here.operands)
      if (const int64_t mask = place_of(value); mask != kNone && is_long(mask))
        targets_.emplace(mask, first_[static_cast<size_t>(last)]);  // of its first reader
  }

  bool is_long(int64_t place) {
    if (!of_nothing_[static_cast<size_t>(place)]) return false;
    const int64_t elements = function_.type(op(place).results[0]).element_count();
    if (elements < kElementsMin) return false;
    int64_t full = 0;
    for (const int64_t other : chain_of(place)) {
      const Op& maker = op(other);
      full += !is_view_op(maker.kind) && function_.type(maker.results[0]).element_count() == elements ? 1 : 0;
    }
    return full >= kChainMin;
  }

  // The places of all ops that it is made of, its own too.
  std::vector<int64_t> chain_of(int64_t place) const {
    std::vector<int64_t> chain{place}, stack{place};
    std::vector<bool> seen(ops_.size());
    seen[static_cast<size_t>(place)] = true;
    while (!stack.empty()) {
      const int64_t at = stack.back();
      stack.pop_back();
      for (const ValueId value : op(at).operands) {
        const int64_t made = place_of(value);
        if (made == kNone || seen[static_cast<size_t>(made)]) continue;
        seen[static_cast<size_t>(made)] = true;
        chain.push_back(made);
        stack.push_back(made);
      }
    }
    return chain;
  }

  Function& function_;
  BlockId id_;
  std::vector<OpId> ops_;
  std::map<ValueId, int64_t> places_;
  std::vector<bool> of_nothing_;
  // By place: the latest product that the op is or depends on; the same without a reduction between; and the
  // product with which the run of products without one begins.
  std::vector<int64_t> product_, flow_, first_;
  std::map<int64_t, int64_t> targets_;
};

}  // namespace

int64_t make_masks_early(Function& function) {
  std::vector<BlockId> blocks{function.body()};
  graph::walk(function, function.body(), [&](OpId id) {
    for (const BlockId region : function.op(id).regions) blocks.push_back(region);
  });
  int64_t moved = 0;
  for (const BlockId block : blocks) moved += Block(function, block).run();
  return moved;
}

}  // namespace opentrn::compiler
