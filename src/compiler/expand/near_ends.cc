// The ends of the 64-bit range as the ends of the 32-bit one, where nothing is computed with them.
//
// Programs start a search for the smallest number with the largest i64, fill what a mask leaves out with the
// smallest, and slice up to the largest. A device's i64 has 32 bits (analysis/device_type.h), and the low
// ones of these two numbers are 0 and -1, which win or lose against the numbers that they should bound. An
// end that is added, multiplied or taken apart bit by bit keeps its low bits, which are then those of the
// result.
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"
#include "compiler/rewrite/rewrite.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

int64_t near(int64_t number) {
  if (number == std::numeric_limits<int64_t>::max()) return std::numeric_limits<int32_t>::max();
  if (number == std::numeric_limits<int64_t>::min()) return std::numeric_limits<int32_t>::min();
  return number;
}

// What a use of a value does with it.
enum class Use { kComputes, kOrders, kKeeps };

// Comparisons and bounds alone have an expansion that knows that the end is not reached (bounds.cc): they
// follow where the same end is kept as a value that they may meet.
Use use_of(OpKind kind) {
  switch (kind) {
    case OpKind::compare_:
    case OpKind::minimum_:
    case OpKind::maximum_:
    case OpKind::clamp_: return Use::kOrders;
    case OpKind::select_:
    case OpKind::reduce_:
    case OpKind::reduce_window_:
    case OpKind::select_and_scatter_:
    case OpKind::scatter_:
    case OpKind::sort_:
    case OpKind::pad_:
    case OpKind::concatenate_:
    case OpKind::gather_:
    case OpKind::dynamic_slice_:
    case OpKind::dynamic_update_slice_:
    case OpKind::while_:
    case OpKind::return_: return Use::kKeeps;
    default: return Use::kComputes;
  }
}

class Ends {
 public:
  explicit Ends(const Function& function) : function_(function), uses_(function.value_count()) {
    graph::walk(function, function.body(), [&](OpId id) {
      for (const ValueId operand : function.op(id).operands) uses_[index_of(operand)].push_back(id);
    });
    graph::walk(function, function.body(), [&](OpId id) {
      const Op& op = function.op(id);
      if (holds_end(op) && use_of_value(op.results[0]) == Use::kKeeps) kept_.insert(ends_of(op));
    });
  }

  // Whether the constant's ends come near.
  bool moves(const Op& op) const {
    if (!holds_end(op)) return false;
    const Use use = use_of_value(op.results[0]);
    return use == Use::kKeeps || (use == Use::kOrders && kept_.contains(ends_of(op)));
  }

 private:
  static bool holds_end(const Op& op) {
    if (op.kind != OpKind::constant_) return false;
    const graph::Literal& literal = op.literal(Attr::value);
    if (literal.type().element() != ElementType::kI64) return false;
    const int64_t count = literal.is_splat() ? 1 : literal.type().element_count();
    for (int64_t i = 0; i < count; ++i)
      if (const int64_t number = graph::load_integer(ElementType::kI64, literal.element(i));
          near(number) != number)
        return true;
    return false;
  }

  // Which of the two ends: {lowest, largest}.
  static std::pair<bool, bool> ends_of(const Op& op) {
    const graph::Literal& literal = op.literal(Attr::value);
    std::pair<bool, bool> found{false, false};
    for (int64_t i = 0; i < literal.type().element_count(); ++i) {
      const int64_t number = graph::load_integer(ElementType::kI64, literal.element(i));
      found.first |= number == std::numeric_limits<int64_t>::min();
      found.second |= number == std::numeric_limits<int64_t>::max();
    }
    return found;
  }

  // Of all uses, through ops that only give the value another shape: one that computes decides.
  Use use_of_value(ValueId value) const {
    Use all = Use::kOrders;
    for (const OpId id : uses_[index_of(value)]) {
      const Op& op = function_.op(id);
      const bool is_shape = op.kind == OpKind::broadcast_in_dim_ || op.kind == OpKind::reshape_ ||
                            op.kind == OpKind::transpose_;
      const Use use = is_shape ? use_of_value(op.results[0]) : use_of(op.kind);
      if (use == Use::kComputes) return use;
      if (use == Use::kKeeps) all = use;
    }
    return all;
  }

  const Function& function_;
  std::vector<std::vector<OpId>> uses_;
  std::set<std::pair<bool, bool>> kept_;  // {lowest, largest}
};

graph::Literal nearer(const graph::Literal& literal) {
  const int64_t count = literal.type().element_count();
  if (count > 0 && literal.is_splat()) {
    const int64_t number = near(graph::load_integer(ElementType::kI64, literal.element(0)));
    return graph::splat_literal(literal.type(), static_cast<double>(number));  // of 32 bits
  }
  std::vector<std::byte> bytes(static_cast<size_t>(count) * sizeof(int64_t));
  for (int64_t i = 0; i < count; ++i)
    graph::store_integer(ElementType::kI64, near(graph::load_integer(ElementType::kI64, literal.element(i))),
                         bytes.data() + i * static_cast<int64_t>(sizeof(int64_t)));
  return {literal.type(), std::move(bytes)};
}

}  // namespace

int64_t bring_ends_near(Function& function) {
  const Ends ends(function);
  int64_t brought = 0;
  graph::walk(function, function.body(), [&](OpId id) { brought += ends.moves(function.op(id)) ? 1 : 0; });
  if (brought == 0) return 0;
  function = rewritten(
      function,
      [&](Builder& builder, const Op& op, std::span<const ValueId>) -> std::optional<std::vector<ValueId>> {
        if (!ends.moves(op)) return std::nullopt;
        return std::vector{builder.constant(nearer(op.literal(Attr::value)))};
      });
  return brought;
}

}  // namespace opentrn::compiler
