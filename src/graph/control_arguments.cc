#include "graph/control_arguments.h"

#include <set>

namespace opentrn::graph {

namespace {

// Walks from values back to arguments of the function.
class Slice {
 public:
  explicit Slice(const Function& function) : function_(function), seen_(function.value_count(), false) {}

  void add(ValueId value) {
    std::vector<ValueId> left{value};
    while (!left.empty()) {
      const ValueId id = left.back();
      left.pop_back();
      if (seen_[index_of(id)]) continue;
      seen_[index_of(id)] = true;
      const Value& v = function_.value(id);
      if (v.op != kNoOp)
        follow(v.op, left);
      else
        follow_argument(v, left);
    }
  }

  std::vector<size_t> arguments() const { return {found_.begin(), found_.end()}; }

 private:
  // Regions see values of the blocks around them.
  void follow(OpId id, std::vector<ValueId>& left) const {
    const Op& op = function_.op(id);
    left.insert(left.end(), op.operands.begin(), op.operands.end());
    for (const BlockId region : op.regions)
      walk(function_, region, [&](OpId inner) {
        const Op& each = function_.op(inner);
        left.insert(left.end(), each.operands.begin(), each.operands.end());
      });
  }

  // What a loop carries begins as the operand of the same number.
  void follow_argument(const Value& v, std::vector<ValueId>& left) {
    const OpId parent = function_.block(v.block).parent;
    if (parent == kNoOp) {
      found_.insert(v.index);
      return;
    }
    const Op& op = function_.op(parent);
    if (op.kind == OpKind::while_) {
      left.push_back(op.operands[v.index]);
      return;
    }
    left.insert(left.end(), op.operands.begin(), op.operands.end());
  }

  const Function& function_;
  std::vector<bool> seen_;
  std::set<size_t> found_;
};

// A function's argument with one element, through ops that keep its value.
bool is_one_number(const Function& function, ValueId value) {
  while (true) {
    const Value& v = function.value(value);
    if (v.op == kNoOp)
      return function.block(v.block).parent == kNoOp && v.type.is_tensor() && v.type.element_count() == 1;
    const Op& op = function.op(v.op);
    const bool keeps = op.kind == OpKind::convert_ || op.kind == OpKind::reshape_ ||
                       op.kind == OpKind::broadcast_in_dim_ || op.kind == OpKind::transpose_;
    if (!keeps) return false;
    value = op.operands[0];
  }
}

bool is_constant(const Function& function, ValueId value) {
  const Value& v = function.value(value);
  if (v.op == kNoOp) return false;
  const Op& op = function.op(v.op);
  if (op.kind == OpKind::broadcast_in_dim_ || op.kind == OpKind::convert_ || op.kind == OpKind::reshape_)
    return is_constant(function, op.operands[0]);
  return op.kind == OpKind::constant_;
}

// Comparisons that only count a place from the end: x < 0 ? x + size : x.
std::set<ValueId> wraps_of(const Function& function) {
  std::set<ValueId> found;
  walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (op.kind != OpKind::select_) return;
    const OpId made = function.value(op.operands[0]).op, sum = function.value(op.operands[1]).op;
    if (made == kNoOp || sum == kNoOp || function.op(sum).kind != OpKind::add_) return;
    const ValueId place = op.operands[2];
    if (function.op(made).kind == OpKind::compare_ && function.op(made).operands[0] == place &&
        function.op(sum).operands[0] == place)
      found.insert(op.operands[0]);
  });
  return found;
}

}  // namespace

std::vector<size_t> arguments_behind(const Function& function, ValueId value) {
  Slice slice(function);
  slice.add(value);
  return slice.arguments();
}

std::vector<size_t> control_arguments(const Function& function) {
  Slice slice(function);
  const std::set<ValueId> wraps = wraps_of(function);
  walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    if (op.kind == OpKind::if_ || op.kind == OpKind::case_) slice.add(op.operands[0]);
    if (op.kind == OpKind::while_) {
      const Block& condition = function.block(op.regions[0]);
      for (const ValueId value : function.op(condition.ops.back()).operands) slice.add(value);
    }
    if (op.kind != OpKind::compare_ || wraps.contains(op.results[0])) return;
    for (const size_t side : {0U, 1U})
      if (is_constant(function, op.operands[1 - side]) && is_one_number(function, op.operands[side]))
        slice.add(op.operands[side]);
  });
  return slice.arguments();
}

}  // namespace opentrn::graph
