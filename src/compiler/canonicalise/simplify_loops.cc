// What a while does again in every iteration though nothing changes: values that it carries along as they
// are, and ops of its body that read only what lies outside.
#include <algorithm>
#include <set>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/rewrite/replacements.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

bool always_gives_the_same(const Op& op) {
  const graph::OpDefinition& definition = graph::definition(op.kind);
  if (definition.has_side_effect || definition.op_class == OpClass::kCollective) return false;
  switch (op.kind) {
    case OpKind::return_:
    case OpKind::rng_:
    case OpKind::custom_call_:
    case OpKind::while_:
    case OpKind::if_:
    case OpKind::case_: return false;
    default: return true;
  }
}

template <typename T>
void erase_at(std::vector<T>& list, const std::set<size_t>& places) {
  std::vector<T> kept;
  for (size_t i = 0; i < list.size(); ++i)
    if (!places.contains(i)) kept.push_back(list[i]);
  list = std::move(kept);
}

class LoopSimplifier {
 public:
  explicit LoopSimplifier(Function& function) : function_(function), replacements_(function) {}

  int64_t run() {
    block(function_.body());
    if (replaced_)
      graph::walk(function_, function_.body(), [&](OpId id) { replacements_.apply(function_.op(id)); });
    return changed_;
  }

 private:
  // Inner loops first: what leaves them may leave the outer one too.
  void block(BlockId id) {
    for (const OpId op_id : std::vector(function_.block(id).ops)) {
      for (const BlockId region : std::vector(function_.op(op_id).regions)) block(region);
      if (function_.op(op_id).kind != OpKind::while_) continue;
      drop_what_stays(op_id);
      for (const BlockId region : std::vector(function_.op(op_id).regions)) hoist(region, op_id);
    }
  }

  void drop_what_stays(OpId id) {
    Op& loop = function_.op(id);
    const auto& body = function_.block(loop.regions[1]);
    const auto& returned = function_.op(body.ops.back()).operands;
    std::set<size_t> same;
    for (size_t i = 0; i < returned.size(); ++i)
      if (replacements_.of(returned[i]) == body.arguments[i]) same.insert(i);
    if (same.size() == returned.size()) same.erase(0);  // a loop that carries nothing has no form
    if (same.empty()) return;
    for (const size_t i : same) {
      replacements_.replace(loop.results[i], loop.operands[i]);
      for (const BlockId region : loop.regions)
        replacements_.replace(function_.block(region).arguments[i], loop.operands[i]);
    }
    replaced_ = true;
    changed_ += static_cast<int64_t>(same.size());
    erase_at(loop.operands, same);
    erase_at(loop.results, same);
    number(loop.results);
    erase_at(function_.op(body.ops.back()).operands, same);
    for (const BlockId region : loop.regions) {
      erase_at(function_.block(region).arguments, same);
      number(function_.block(region).arguments);
    }
  }

  void number(const std::vector<ValueId>& values) {
    for (size_t i = 0; i < values.size(); ++i) function_.value(values[i]).index = static_cast<uint32_t>(i);
  }

  void hoist(BlockId from, OpId loop) {
    const BlockId into = function_.op(loop).block;
    std::vector<OpId> kept, moved;
    for (const OpId id : function_.block(from).ops) {
      Op& op = function_.op(id);
      replacements_.apply(op);
      std::vector<ValueId> reads = captured_by(function_, op);
      reads.insert(reads.end(), op.operands.begin(), op.operands.end());
      const bool stays = !always_gives_the_same(op) ||
                         std::any_of(reads.begin(), reads.end(), [&](ValueId v) { return is_of(v, from); });
      if (!stays) op.block = into;
      (stays ? kept : moved).push_back(id);
    }
    if (moved.empty()) return;
    changed_ += static_cast<int64_t>(moved.size());
    function_.block(from).ops = std::move(kept);
    auto& ops = function_.block(into).ops;
    ops.insert(std::find(ops.begin(), ops.end(), loop), moved.begin(), moved.end());
  }

  bool is_of(ValueId value, BlockId block) const {
    const graph::Value& v = function_.value(replacements_.of(value));
    return v.op == graph::kNoOp ? v.block == block : function_.op(v.op).block == block;
  }

  Function& function_;
  Replacements replacements_;
  bool replaced_ = false;
  int64_t changed_ = 0;
};

}  // namespace

int64_t simplify_loops(Function& function) { return LoopSimplifier(function).run(); }

}  // namespace opentrn::compiler
