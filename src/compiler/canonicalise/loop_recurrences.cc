// Loops whose iterations hang together by recurrences alone, as ops on all iterations at once:
//
//   while (i, c, ys) { c = a(x[i]) * c + b(x[i]); dynamic_update_slice(ys, f(c, x[i]), i) }
//   becomes
//   c = recurrence(a(x), b(x)); ys = f(c, x)
//
// Returns and advantages, exponential means, filters, gated linear units and the steps of a state space are
// scans of this kind, and so is every loop that carries nothing (lax.map). An iteration of the loop takes a
// few microseconds, whatever it computes; a recurrence is one instruction of the Vector engine for as many
// steps as a partition holds (analysis/recurrence_call.h). Instead of products and sums it may be of sums and
// extremes, as of paths (edit distances). Values are those of the loop, with a product and a sum rounded
// each.
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/counted_loop.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/canonicalise/unfolded_ops.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kTripsMin = 8;

// What a value is of a carried one: (factor first it) second term, of all iterations. Without a factor or a
// term that part is not there.
struct Affine {
  bool has_it = false;
  std::optional<ValueId> factor, term;
};

class Unfolding {
 public:
  Unfolding(Function& function, OpId loop)
      : function_(function), loop_(function.op(loop)), loop_id_(loop), body_(loop_.regions[1]) {}

  // False, and the function is what it was, where the loop is of another kind.
  bool unfold() {
    const auto trips = constant_trips(function_, loop_);
    const auto counted = counted_loop(function_, loop_);
    if (!trips || *trips < kTripsMin || counted->step != 1) return false;
    const auto start = splat_of(function_, loop_.operands[counted->slot]);
    if (!start || *start != 0 || !has_known_ops()) return false;
    auto& ops = function_.block(loop_.block).ops;
    const size_t before = ops.size();
    UnfoldedOps unfolded(function_, loop_id_, *trips, counted->slot);
    unfolded_ = &unfolded;
    const bool done = results_of(*counted);
    auto& now = function_.block(loop_.block).ops;
    if (!done) {
      now.resize(before);
      return false;
    }
    const auto at = std::ranges::find(now, loop_id_);
    std::rotate(at, now.begin() + static_cast<std::ptrdiff_t>(before), now.end());
    for (size_t i = 0; i < results_.size(); ++i) function_.replace_uses(loop_.results[i], *results_[i]);
    return true;
  }

 private:
  const Type& type(ValueId value) const { return function_.type(value); }
  ValueId argument(size_t slot) const { return function_.block(body_).arguments[slot]; }
  ValueId returned(size_t slot) const {
    return function_.op(function_.block(body_).ops.back()).operands[slot];
  }

  bool has_known_ops() const {
    const auto& ops = function_.block(body_).ops;
    return std::all_of(ops.begin(), ops.end() - 1,
                       [&](OpId id) { return UnfoldedOps::takes(function_, function_.op(id)); });
  }

  bool results_of(const CountedLoop& counted) {
    results_.assign(loop_.results.size(), std::nullopt);
    std::vector<size_t> recurrences, stacks;
    for (size_t slot = 0; slot < results_.size(); ++slot) {
      if (returned(slot) == argument(slot)) {
        results_[slot] = loop_.operands[slot];
        unfolded_->set_same(argument(slot), loop_.operands[slot]);
      } else if (slot == counted.slot) {
        results_[slot] = unfolded_->builder().splat(type(argument(slot)), double(unfolded_->trips()));
      } else if (const Op* op = maker(function_, returned(slot)); op->kind == OpKind::dynamic_update_slice_) {
        stacks.push_back(slot);
      } else {
        recurrences.push_back(slot);
      }
    }
    // One may read another.
    for (bool more = true; more && !recurrences.empty();) {
      more = std::erase_if(recurrences, [&](size_t slot) { return solve(slot); }) > 0;
    }
    if (!recurrences.empty()) return false;
    return std::ranges::all_of(stacks, [&](size_t slot) {
      results_[slot] = unfolded_->stack(function_.op(function_.value(returned(slot)).op), argument(slot));
      return results_[slot].has_value();
    });
  }

  // -- recurrences

  // A whole number that grows by the same in every iteration.
  bool count(size_t slot) {
    const Type given = type(argument(slot));
    const Op* add = maker(function_, returned(slot));
    if (!given.is_tensor() || !given.is_static() || given.quantization() || !add ||
        add->kind != OpKind::add_ || add->operands[0] != argument(slot) ||
        (given.element() != ElementType::kI32 && given.element() != ElementType::kUI32))
      return false;
    const auto step = splat_of(function_, add->operands[1]);
    if (!step) return false;
    Builder& builder = unfolded_->builder();
    const auto sum = [&](ValueId number, const Type& whole, ValueId start) {
      const ValueId by = builder.splat(builder.type(number), *step);
      return builder.add(OpKind::add_, {start, spread(builder.add(OpKind::multiply_, {number, by}), whole)});
    };
    const ValueId before = sum(builder.convert(unfolded_->counted(), given.element()),
                               unfolded_->all_of(given), unfolded_->same(loop_.operands[slot]));
    unfolded_->set_all(argument(slot), before);
    const ValueId trips = builder.splat(given.with_dims({}), static_cast<double>(unfolded_->trips()));
    results_[slot] = sum(trips, given, loop_.operands[slot]);
    return true;
  }
  // Of each iteration, or of all.
  ValueId spread(ValueId number, const Type& whole) {
    Builder& builder = unfolded_->builder();
    const bool is_list = builder.type(number).rank() > 0;
    return builder.broadcast_in_dim(number, whole.dims_vector(), is_list ? Dims{0} : Dims{});
  }

  bool solve(size_t slot) {
    if (count(slot)) return true;
    const Type given = type(argument(slot));
    if (!given.is_tensor() || !given.is_static() || given.quantization() ||
        given.element() != ElementType::kF32 || given.element_count() == 0)
      return false;
    for (const RecurrenceCall call : RecurrenceCall::kinds()) {
      if (call.first == OpKind::minimum_ || call.first == OpKind::maximum_) continue;
      call_ = call;
      carried_ = argument(slot);
      depends_.clear();
      const auto found = affine(returned(slot));
      if (!found || !found->has_it) continue;
      const ValueId after =
          unfolded_->recurrence(call, given, found->factor, found->term, loop_.operands[slot]);
      results_[slot] = unfolded_->last(after, given);
      unfolded_->set_all(carried_, unfolded_->moved_on(after, given, loop_.operands[slot]));
      unfolded_->set_all(returned(slot), after);
      return true;
    }
    return false;
  }

  bool depends(ValueId value) {
    if (value == carried_) return true;
    const graph::Value made = function_.value(value);
    if (made.op == graph::kNoOp || function_.op(made.op).block != body_) return false;
    if (const auto found = depends_.find(value); found != depends_.end()) return found->second;
    bool any = false;
    for (const ValueId operand : function_.op(made.op).operands) any = any || depends(operand);
    return depends_[value] = any;
  }

  std::optional<ValueId> either(const std::optional<ValueId>& a, const std::optional<ValueId>& b) {
    return a && b ? unfolded_->builder().add(call_.second, {*a, *b}) : a ? a : b;
  }

  std::optional<Affine> affine(ValueId value) {
    if (value == carried_) return Affine{.has_it = true};
    if (!depends(value)) {
      const auto all = unfolded_->all(value);
      return all ? std::optional(Affine{.has_it = false, .factor = {}, .term = *all}) : std::nullopt;
    }
    const Op op = function_.op(function_.value(value).op);
    const bool is_linear = call_.second == OpKind::add_;
    if (op.kind == OpKind::reshape_) return reshaped(op);
    if (op.kind == call_.second && op.operands.size() == 2) return sum(op, false);
    if (op.kind == OpKind::subtract_ && is_linear) return sum(op, true);
    if (op.kind == call_.first || (op.kind == OpKind::subtract_ && !is_linear)) return scaled(op);
    if (op.kind == OpKind::negate_ && is_linear) {
      const auto of = affine(op.operands[0]);
      if (!of) return std::nullopt;
      return scaled_by(*of, OpKind::multiply_, number(type(value), -1.0));
    }
    return std::nullopt;
  }

  ValueId number(const Type& row, double value) {
    return unfolded_->builder().splat(unfolded_->all_of(row), value);
  }

  std::optional<Affine> reshaped(const Op& op) {
    auto of = affine(op.operands[0]);
    if (!of) return std::nullopt;
    const Type row = type(op.results[0]);
    for (auto* part : {&of->factor, &of->term})
      if (*part) *part = unfolded_->builder().reshape(**part, unfolded_->all_of(row).dims_vector());
    return of;
  }

  // Of both operands; at most one has the carried value.
  std::optional<Affine> sum(const Op& op, bool is_difference) {
    auto a = affine(op.operands[0]), b = affine(op.operands[1]);
    if (!a || !b || (a->has_it && b->has_it)) return std::nullopt;
    const Type row = type(op.results[0]);
    if (is_difference) b = scaled_by(*b, OpKind::multiply_, number(row, -1.0));
    return Affine{
        .has_it = true, .factor = a->has_it ? a->factor : b->factor, .term = either(a->term, b->term)};
  }

  std::optional<Affine> scaled(const Op& op) {
    const bool at_second = depends(op.operands[1]);
    if (at_second && (depends(op.operands[0]) || op.kind == OpKind::subtract_)) return std::nullopt;
    const auto of = affine(op.operands[at_second ? 1 : 0]);
    const auto by = unfolded_->all(op.operands[at_second ? 0 : 1]);
    if (!of || !by) return std::nullopt;
    return scaled_by(*of, op.kind, *by);
  }

  // A missing factor is what changes nothing.
  Affine scaled_by(const Affine& of, OpKind kind, ValueId by) {
    Affine result = of;
    if (of.has_it) {
      const bool negates = kind == OpKind::subtract_ && !of.factor;
      result.factor = of.factor ? unfolded_->builder().add(kind, {*of.factor, by})
                      : negates ? unfolded_->builder().add(OpKind::negate_, {by})
                                : by;
    }
    if (of.term) result.term = unfolded_->builder().add(kind, {*of.term, by});
    return result;
  }

  Function& function_;
  const Op loop_;  // a copy, as ops are added
  OpId loop_id_;
  BlockId body_;
  UnfoldedOps* unfolded_ = nullptr;
  RecurrenceCall call_;
  ValueId carried_{};
  std::map<ValueId, bool> depends_;
  std::vector<std::optional<ValueId>> results_;
};

}  // namespace

int64_t unfold_recurrences(Function& function) {
  std::vector<OpId> loops = loops_of(function);
  std::ranges::reverse(loops);  // inner ones first
  int64_t unfolded = 0;
  for (const OpId loop : loops) unfolded += Unfolding(function, loop).unfold() ? 1 : 0;
  return unfolded;
}

}  // namespace opentrn::compiler
