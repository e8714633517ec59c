// Loops that count alike and read nothing of each other, as one loop: the two directions of a bidirectional
// recurrence.
//
// A step of a small recurrence is a chain of short instructions, each of which waits for another engine. Two
// chains in one loop wait at the same time.
#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "compiler/analysis/counted_loop.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

// Beyond these an iteration is long enough to keep an engine busy, and two of them do not lie in SBUF
// together.
constexpr int64_t kJoinedElementsMax = int64_t{1} << 16;  // of a value that the body makes or carries
constexpr size_t kJoinedOpsMax = 256;                     // of both bodies
// Of the right operands of both loops' products: 48 KiB of each partition in fp32, of the 64 that a loop
// keeps (lowering/control_flow.cc).
constexpr int64_t kFactorElementsMax = int64_t{128} * 12 * 1024;

struct LoopCount {
  int64_t first, bound, step;
  graph::Type type;
  bool operator==(const LoopCount&) const = default;
};

class LoopJoiner {
 public:
  explicit LoopJoiner(Function& function) : function_(function) {}

  int64_t run() {
    int64_t joined = 0;
    for (size_t block = 0; block < function_.block_count(); ++block)
      while (join_two(BlockId{static_cast<uint32_t>(block)})) ++joined;
    return joined;
  }

 private:
  bool join_two(BlockId block) {
    std::vector<OpId> loops;
    for (const OpId id : function_.block(block).ops)
      if (function_.op(id).kind == OpKind::while_) loops.push_back(id);
    for (size_t i = 0; i < loops.size(); ++i)
      for (size_t j = i + 1; j < loops.size(); ++j)
        if (may_join(block, loops[i], loops[j])) {
          join(block, loops[i], loops[j]);
          return true;
        }
    return false;
  }

  std::optional<LoopCount> count_of(const Op& loop) const {
    const auto counted = counted_loop(function_, loop);
    if (!counted) return std::nullopt;
    const ValueId counter = loop.operands[counted->slot];
    const auto first = splat_of(function_, counter), bound = splat_of(function_, counted->bound);
    if (!first || !bound) return std::nullopt;
    return LoopCount{static_cast<int64_t>(*first), static_cast<int64_t>(*bound), counted->step,
                     function_.type(counter)};
  }

  bool may_join(BlockId block, OpId first, OpId second) const {
    const auto count = count_of(function_.op(first));
    return count && count_of(function_.op(second)) == count && are_small(first, second) &&
           !made_of(block, first).contains(second);
  }

  bool are_small(OpId first, OpId second) const {
    size_t ops = 0;
    int64_t factors = 0;
    for (const OpId loop : {first, second}) {
      const BlockId body = function_.op(loop).regions[1];
      ops += function_.block(body).ops.size();
      for (const ValueId argument : function_.block(body).arguments)
        if (!is_small(argument, kJoinedElementsMax * 16)) return false;
      for (const OpId id : function_.block(body).ops) {
        if (!is_plain(function_.op(id))) return false;
        factors += factor_elements(function_.op(id), body);
      }
    }
    return ops <= kJoinedOpsMax && factors <= kFactorElementsMax;
  }

  bool is_small(ValueId value, int64_t elements) const {
    const graph::Type& type = function_.type(value);
    return type.is_tensor() && type.is_static() && type.element_count() <= elements;
  }

  // Its time is the device's own, and it may come before or after others.
  bool is_plain(const Op& op) const {
    const graph::OpDefinition& definition = graph::definition(op.kind);
    if (definition.has_side_effect || definition.op_class == OpClass::kCollective) return false;
    switch (op.kind) {
      case OpKind::return_: return true;
      case OpKind::rng_:
      case OpKind::custom_call_:
      case OpKind::while_:  // the sequencer runs one of two inner loops at a time
      case OpKind::if_:
      case OpKind::case_: return false;
      default: break;
    }
    // An update in place has the size of what is carried, not that of what it writes.
    const bool updates = op.kind == OpKind::dynamic_update_slice_;
    return is_small(updates ? op.operands[1] : op.results[0], kJoinedElementsMax);
  }

  int64_t factor_elements(const Op& op, BlockId body) const {
    if (op.kind != OpKind::dot_general_) return 0;
    const graph::Value& right = function_.value(op.operands[1]);
    const BlockId made_in = right.op == graph::kNoOp ? right.block : function_.op(right.op).block;
    return made_in == body ? 0 : right.type.element_count();
  }

  // The ops of the block behind `loop` that need what it gives.
  std::set<OpId> made_of(BlockId block, OpId loop) const {
    std::set<ValueId> values(function_.op(loop).results.begin(), function_.op(loop).results.end());
    std::set<OpId> ops;
    const auto& all = function_.block(block).ops;
    for (auto at = std::find(all.begin(), all.end(), loop) + 1; at != all.end(); ++at) {
      const Op& op = function_.op(*at);
      const auto reads = [&](ValueId value) { return values.contains(value); };
      if (!std::ranges::any_of(op.operands, reads) && !std::ranges::any_of(captured_by(function_, op), reads))
        continue;
      ops.insert(*at);
      values.insert(op.results.begin(), op.results.end());
    }
    return ops;
  }

  // `first` takes what `second` carries and does, and stands where `second` stood; what needs `first` comes
  // after.
  void join(BlockId block, OpId first, OpId second) {
    const std::set<OpId> later = made_of(block, first);
    move_carried(first, second);
    std::vector<OpId> before, behind;
    bool passed = false;
    for (const OpId id : function_.block(block).ops) {
      if (id == second) {
        before.push_back(first);
        before.insert(before.end(), behind.begin(), behind.end());
        behind.clear();
        passed = true;
      } else if (id != first) {
        (!passed && later.contains(id) ? behind : before).push_back(id);
      }
    }
    function_.block(block).ops = std::move(before);
  }

  void move_carried(OpId first, OpId second) {
    const size_t slot = counted_loop(function_, function_.op(first))->slot,
                 other_slot = counted_loop(function_, function_.op(second))->slot;
    const Op gone = function_.op(second);
    const std::vector<BlockId> regions = function_.op(first).regions;
    const std::vector<ValueId> arguments = function_.block(gone.regions[1]).arguments;
    std::vector<size_t> carried;
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (i == other_slot) {
        function_.replace_uses(arguments[i], function_.block(regions[1]).arguments[slot]);
        function_.replace_uses(gone.results[i], function_.op(first).results[slot]);
        continue;
      }
      const graph::Type type = function_.type(arguments[i]);
      function_.op(first).operands.push_back(gone.operands[i]);
      function_.add_argument(regions[0], type);
      function_.replace_uses(arguments[i], function_.add_argument(regions[1], type));
      function_.replace_uses(gone.results[i], function_.add_result(first, type));
      carried.push_back(i);
    }
    move_ops(gone.regions[1], regions[1], carried);
    for (const BlockId region : gone.regions) function_.block(region).ops.clear();
  }

  // Everything but the return, of which `to` takes the values at `carried`.
  void move_ops(BlockId from, BlockId to, const std::vector<size_t>& carried) {
    std::vector<OpId> ops = std::move(function_.block(from).ops);
    const std::vector<ValueId> returned = function_.op(ops.back()).operands;
    ops.pop_back();
    for (const OpId id : ops) function_.op(id).block = to;
    auto& all = function_.block(to).ops;
    all.insert(all.end() - 1, ops.begin(), ops.end());
    for (const size_t i : carried) function_.op(all.back()).operands.push_back(returned[i]);
  }

  Function& function_;
};

}  // namespace

int64_t join_loops(Function& function) { return LoopJoiner(function).run(); }

}  // namespace opentrn::compiler
