// Identities that hold bit for bit, so that they need no permission. Not among them, though often seen: x + 0
// (it makes +0 of -0), x * 0, x - x (NaN), reassociation but of integers, whose sums wrap.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/activity.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/number_sets.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/rewrite/replacements.h"
#include "graph/builder.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

bool is_identity(std::span<const int64_t> permutation) {
  for (size_t i = 0; i < permutation.size(); ++i)
    if (permutation[i] != static_cast<int64_t>(i)) return false;
  return true;
}

// How many times as many elements a broadcast has at least, so that converting them first pays for an op
// more.
constexpr int64_t kSpreadLeast = 2;

class Simplifier {
 public:
  explicit Simplifier(Function& function) : function_(function), replacements_(function) {}

  int64_t run() {
    block(function_.body());
    return changed_;
  }

 private:
  void block(BlockId id) {
    for (const OpId op_id : std::vector(function_.block(id).ops)) {
      replacements_.apply(function_.op(op_id));
      for (const BlockId region : std::vector(function_.op(op_id).regions)) block(region);
      if (!is_static(function_.op(op_id))) continue;
      while (rewrite(op_id)) ++changed_;
      const Op& op = function_.op(op_id);
      if (const auto same = same_as(op)) {
        replacements_.replace(op.results[0], *same);
        ++changed_;
      }
    }
  }

  bool is_static(const Op& op) const {
    if (op.results.size() != 1) return false;
    return is_fixed(op.results[0]) &&
           std::ranges::all_of(op.operands, [&](ValueId value) { return is_fixed(value); });
  }
  bool is_fixed(ValueId value) const { return type(value).is_tensor() && type(value).is_static(); }

  const Op* maker(ValueId value, OpKind kind) const {
    const OpId id = function_.value(value).op;
    return id != graph::kNoOp && function_.op(id).kind == kind ? &function_.op(id) : nullptr;
  }
  const graph::Type& type(ValueId value) const { return function_.type(value); }
  bool same_type(const Op& op) const { return type(op.operands[0]) == type(op.results[0]); }

  // The operand that the result equals.
  std::optional<ValueId> same_as(const Op& op) const {
    switch (op.kind) {
      case OpKind::convert_:
      case OpKind::reshape_:
      case OpKind::broadcast_in_dim_:
        if (!same_type(op)) return std::nullopt;
        if (op.kind == OpKind::broadcast_in_dim_ && !is_identity(op.integers(Attr::broadcast_dimensions)))
          return std::nullopt;
        return op.operands[0];
      case OpKind::transpose_:
        if (is_identity(op.integers(Attr::permutation)) && same_type(op)) return op.operands[0];
        return std::nullopt;
      case OpKind::slice_: return same_type(op) ? std::optional(op.operands[0]) : std::nullopt;
      case OpKind::concatenate_:
        return op.operands.size() == 1 ? std::optional(op.operands[0]) : std::nullopt;
      case OpKind::negate_:
        if (const Op* inner = maker(op.operands[0], OpKind::negate_)) return inner->operands[0];
        return std::nullopt;
      case OpKind::not_:
        if (const Op* inner = maker(op.operands[0], OpKind::not_)) return inner->operands[0];
        return std::nullopt;
      case OpKind::select_: return chosen(op);
      default: return op.operands.size() == 2 ? without_neutral(op) : std::nullopt;
    }
  }

  std::optional<ValueId> chosen(const Op& op) const {
    if (op.operands[1] == op.operands[2]) return op.operands[1];
    const auto predicate = splat_of(function_, op.operands[0]);
    if (!predicate) {
      // Of truth values: where it holds, true.
      const bool same =
          graph::is_bool(type(op.results[0]).element()) && type(op.operands[0]) == type(op.results[0]) &&
          splat_of(function_, op.operands[1]) == 1.0 && splat_of(function_, op.operands[2]) == 0.0;
      return same ? std::optional(op.operands[0]) : std::nullopt;
    }
    return op.operands[*predicate != 0 ? 1 : 2];
  }

  std::optional<ValueId> without_neutral(const Op& op) const {
    const ElementType element = type(op.results[0]).element();
    if (graph::is_complex(element) || !(type(op.operands[0]) == type(op.operands[1]))) return std::nullopt;
    const auto right = splat_of(function_, op.operands[1]), left = splat_of(function_, op.operands[0]);
    if (right && is_neutral(op.kind, element, *right, /*on_the_right=*/true)) return op.operands[0];
    if (left && is_neutral(op.kind, element, *left, /*on_the_right=*/false)) return op.operands[1];
    return std::nullopt;
  }

  static bool is_neutral(OpKind kind, ElementType element, double number, bool on_the_right) {
    const bool is_float = graph::is_float(element), is_bool = graph::is_bool(element);
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    switch (kind) {
      case OpKind::multiply_: return !is_bool && number == 1.0;
      case OpKind::divide_: return !is_bool && number == 1.0 && on_the_right;
      case OpKind::power_: return is_float && number == 1.0 && on_the_right;
      // -0 keeps the sign of a zero; so does taking +0 away.
      case OpKind::add_: return number == 0.0 && (!is_float || std::signbit(number));
      case OpKind::subtract_: return number == 0.0 && on_the_right && (!is_float || !std::signbit(number));
      case OpKind::maximum_: return is_float && number == -kInfinity;
      case OpKind::minimum_: return is_float && number == kInfinity;
      case OpKind::and_: return is_bool && number != 0;
      case OpKind::or_: return number == 0;
      default: return false;
    }
  }

  // One step that makes the op read something earlier, or cost less.
  bool rewrite(OpId id) {
    Op& op = function_.op(id);
    switch (op.kind) {
      case OpKind::convert_:
        return merge_converts(op) || convert_before_view(id) || convert_before_choice(id);
      case OpKind::reshape_:
        if (const Op* inner = maker(op.operands[0], OpKind::reshape_)) {
          op.operands[0] = inner->operands[0];
          return true;
        }
        return false;
      case OpKind::transpose_: return merge_transposes(op);
      case OpKind::slice_: return slice_of_part(op);
      case OpKind::concatenate_: return merge_concatenates(op);
      case OpKind::broadcast_in_dim_: return merge_broadcasts(op);
      case OpKind::add_: return add_numbers_first(id);
      case OpKind::divide_: return divide_by_power_of_two(id);
      case OpKind::power_: return square(op);
      case OpKind::select_: return choose_without_not(op);
      case OpKind::dot_general_:
        return read_untransposed(op, 0, Attr::lhs_batching_dimensions, Attr::lhs_contracting_dimensions) ||
               read_untransposed(op, 1, Attr::rhs_batching_dimensions, Attr::rhs_contracting_dimensions) ||
               multiply_all_by_one(op);
      default: return false;
    }
  }

  // Where the first conversion loses nothing, only the second one counts.
  bool merge_converts(Op& op) {
    const Op* inner = maker(op.operands[0], OpKind::convert_);
    if (!inner || type(inner->operands[0]).quantization()) return false;
    if (!holds_all(type(inner->operands[0]).element(), type(op.operands[0]).element())) return false;
    op.operands[0] = inner->operands[0];
    return true;
  }

  // A narrowing conversion of what is only rearranged is done where the value is made, by the kernel that
  // makes it; one of what is spread, of what few elements it has.
  bool convert_before_view(OpId id) {
    const Op op = function_.op(id);
    const OpId view_id = function_.value(op.operands[0]).op;
    if (view_id == graph::kNoOp || type(op.operands[0]).quantization()) return false;
    const Op view = function_.op(view_id);
    const bool spreads =
        view.kind == OpKind::broadcast_in_dim_ &&
        type(view.operands[0]).element_count() * kSpreadLeast <= type(op.operands[0]).element_count();
    if (view.kind != OpKind::reshape_ && view.kind != OpKind::transpose_ && !spreads) return false;
    const OpId maker_id = function_.value(view.operands[0]).op;
    const ElementType to = type(op.results[0]).element();
    if (graph::bit_width(to) >= graph::bit_width(type(op.operands[0]).element())) return false;
    if (!spreads && (maker_id == graph::kNoOp || function_.op(maker_id).kind == OpKind::constant_))
      return false;
    const auto& ops = function_.block(op.block).ops;
    const auto at = static_cast<size_t>(std::find(ops.begin(), ops.end(), id) - ops.begin());
    const OpId made = function_.insert(op.block, at, OpKind::convert_, {view.operands[0]},
                                       {type(view.operands[0]).with_element(to)}, op.location);
    while (rewrite(made)) ++changed_;
    Op& moved = function_.op(id);
    moved.kind = view.kind;
    moved.operands = {function_.op(made).results[0]};
    for (const Attr attr : {Attr::permutation, Attr::broadcast_dimensions})
      if (view.has(attr)) {
        const auto dims = view.integers(attr);
        moved.set(attr, std::vector<int64_t>(dims.begin(), dims.end()));
      }
    return true;
  }

  // Numbers that an op only places or chooses among: parts of a concatenation, the largest of a window.
  bool only_chooses(const Op& op) const {
    if (op.kind == OpKind::concatenate_) return true;
    if (op.kind != OpKind::reduce_window_) return false;
    const auto combiner = combiner_of(function_, op);
    return combiner == OpKind::maximum_ || combiner == OpKind::minimum_;
  }

  // Rounding keeps the order of numbers: what is chosen and then rounded is what is rounded and then chosen,
  // and half of it moves.
  bool convert_before_choice(OpId id) {
    const Op op = function_.op(id);
    const OpId choice_id = function_.value(op.operands[0]).op;
    const ElementType to = type(op.results[0]).element();
    if (choice_id == graph::kNoOp || type(op.operands[0]).element() != ElementType::kF32 ||
        (to != ElementType::kBF16 && to != ElementType::kF16))
      return false;
    const Op choice = function_.op(choice_id);
    if (!only_chooses(choice) || choice.results.size() != 1 || reads_of(op.operands[0]) != 1) return false;
    const auto is_made = [&](ValueId value) {
      const OpId maker_id = function_.value(value).op;
      return maker_id != graph::kNoOp && function_.op(maker_id).kind != OpKind::constant_;
    };
    const size_t data = choice.kind == OpKind::concatenate_ ? choice.operands.size() : 1;
    if (!std::ranges::all_of(std::span(choice.operands).first(data), is_made)) return false;
    for (size_t i = 0; i < choice.operands.size(); ++i) {
      const ValueId wide = choice.operands[i];
      const ValueId narrow = insert_before(choice_id, OpKind::convert_, {wide}, type(wide).with_element(to));
      while (rewrite(function_.value(narrow).op)) ++changed_;
      function_.op(choice_id).operands[i] = narrow;
    }
    const auto become_narrow = [&](ValueId value) {
      function_.value(value).type = type(value).with_element(to);
    };
    become_narrow(choice.results[0]);
    for (const BlockId region : choice.regions) {
      for (const ValueId argument : function_.block(region).arguments) become_narrow(argument);
      for (const OpId inside : function_.block(region).ops)
        for (const ValueId result : function_.op(inside).results) become_narrow(result);
    }
    return true;  // the conversion is one of a type to itself now
  }

  bool merge_transposes(Op& op) {
    const Op* inner = maker(op.operands[0], OpKind::transpose_);
    if (!inner) return false;
    std::vector<int64_t> merged;
    const auto first = inner->integers(Attr::permutation);
    for (const int64_t d : op.integers(Attr::permutation)) merged.push_back(first[static_cast<size_t>(d)]);
    op.operands[0] = inner->operands[0];
    op.set(Attr::permutation, std::move(merged));
    return true;
  }

  // A product names the dimensions that it takes: it can name those before the transpose, if its free ones
  // stay in order, which the result has them in.
  bool read_untransposed(Op& op, size_t operand, Attr batching, Attr contracting) {
    const Op* inner = maker(op.operands[operand], OpKind::transpose_);
    if (!inner) return false;
    const auto permutation = inner->integers(Attr::permutation);
    std::vector<bool> named(permutation.size());
    const auto before = [&](Attr attr) {
      std::vector<int64_t> dims;
      if (op.has(attr))
        for (const int64_t d : op.integers(attr)) {
          named[static_cast<size_t>(d)] = true;
          dims.push_back(permutation[static_cast<size_t>(d)]);
        }
      return dims;
    };
    std::vector<int64_t> batch = before(batching), contracted = before(contracting);
    int64_t last = -1;
    for (size_t d = 0; d < permutation.size(); ++d) {
      if (named[d]) continue;
      if (permutation[d] < last) return false;
      last = permutation[d];
    }
    op.operands[operand] = inner->operands[0];
    if (!batch.empty()) op.set(batching, std::move(batch));
    if (!contracted.empty()) op.set(contracting, std::move(contracted));
    return true;
  }

  // Of a batch whose matrices are multiplied by one and the same, which PyTorch spreads over the batch first,
  // the batch is rows of one product.
  bool multiply_all_by_one(Op& op) {
    const Op* spread = maker(op.operands[1], OpKind::broadcast_in_dim_);
    if (!spread || !op.has(Attr::rhs_batching_dimensions) || !op.has(Attr::rhs_contracting_dimensions))
      return false;
    const auto kept = spread->integers(Attr::broadcast_dimensions),
               r = op.integers(Attr::rhs_batching_dimensions), l = op.integers(Attr::lhs_batching_dimensions),
               c = op.integers(Attr::rhs_contracting_dimensions);
    const graph::Type& wide = type(op.operands[1]);
    const auto has = [](std::span<const int64_t> dims, int64_t d) { return std::ranges::count(dims, d) > 0; };
    // Exactly the batch is new, and rows of the left operand stay in their order.
    if (r.empty() || kept.size() + r.size() != static_cast<size_t>(wide.rank()) ||
        !std::ranges::is_sorted(kept) || !std::ranges::is_sorted(l) ||
        std::ranges::any_of(r, [&](int64_t d) { return has(kept, d); }))
      return false;
    for (size_t i = 0; i < kept.size(); ++i)
      if (type(spread->operands[0]).dim(static_cast<int>(i)) != wide.dim(static_cast<int>(kept[i])))
        return false;
    for (int64_t d = 0; d < l.back(); ++d)
      if (!has(l, d) && !has(op.integers(Attr::lhs_contracting_dimensions), d)) return false;
    std::vector<int64_t> contracted;
    for (const int64_t d : c) contracted.push_back(std::ranges::find(kept, d) - kept.begin());
    op.operands[1] = spread->operands[0];
    op.remove(Attr::lhs_batching_dimensions);
    op.remove(Attr::rhs_batching_dimensions);
    op.set(Attr::rhs_contracting_dimensions, std::move(contracted));
    return true;
  }

  // What lies in one part of a concatenation is read there.
  bool slice_of_part(Op& op) {
    const Op* whole = maker(op.operands[0], OpKind::concatenate_);
    if (!whole) return false;
    const auto d = static_cast<size_t>(whole->integer(Attr::dimension));
    const auto starts = op.integers(Attr::start_indices), limits = op.integers(Attr::limit_indices);
    int64_t begin = 0;
    for (const ValueId part : whole->operands) {
      if (!is_fixed(part)) return false;
      const int64_t end = begin + type(part).dim(static_cast<int>(d));
      if (starts[d] >= begin && limits[d] <= end && starts[d] < limits[d]) {
        std::vector<int64_t> from(starts.begin(), starts.end()), to(limits.begin(), limits.end());
        from[d] -= begin;
        to[d] -= begin;
        op.operands[0] = part;
        op.set(Attr::start_indices, std::move(from));
        op.set(Attr::limit_indices, std::move(to));
        return true;
      }
      begin = end;
    }
    return false;
  }

  // Parts of a concatenation along the same dimension that nobody else reads are parts of this one.
  bool merge_concatenates(Op& op) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Op* inner = maker(op.operands[i], OpKind::concatenate_);
      if (!inner || inner->integer(Attr::dimension) != op.integer(Attr::dimension) ||
          reads_of(op.operands[i]) != 1)
        continue;
      std::vector<ValueId> parts(op.operands.begin(), op.operands.begin() + static_cast<int64_t>(i));
      parts.insert(parts.end(), inner->operands.begin(), inner->operands.end());
      parts.insert(parts.end(), op.operands.begin() + static_cast<int64_t>(i) + 1, op.operands.end());
      op.operands = std::move(parts);
      return true;
    }
    return false;
  }

  int64_t reads_of(ValueId value) const {
    int64_t reads = 0;
    graph::walk(function_, function_.body(), [&](OpId id) {
      for (const ValueId operand : function_.op(id).operands) reads += replacements_.of(operand) == value;
    });
    return reads;
  }

  bool merge_broadcasts(Op& op) {
    const Op* inner = maker(op.operands[0], OpKind::broadcast_in_dim_);
    if (!inner) return false;
    std::vector<int64_t> merged;
    const auto outer = op.integers(Attr::broadcast_dimensions);
    for (const int64_t d : inner->integers(Attr::broadcast_dimensions))
      merged.push_back(outer[static_cast<size_t>(d)]);
    op.operands[0] = inner->operands[0];
    op.set(Attr::broadcast_dimensions, std::move(merged));
    return true;
  }

  // Whether every element is a copy of one scalar.
  bool is_scalar(ValueId value) const {
    const Op* wide = maker(value, OpKind::broadcast_in_dim_);
    return wide ? type(wide->operands[0]).rank() == 0 : splat_of(function_, value).has_value();
  }
  // That scalar; a number is made one before `id`.
  ValueId scalar_before(OpId id, ValueId value) {
    if (const Op* wide = maker(value, OpKind::broadcast_in_dim_)) return wide->operands[0];
    return number_before(id, graph::Type::tensor(type(value).element(), {}), *splat_of(function_, value));
  }

  // (x + a) + b of integers is x + (a + b), the scalars added once: Threefry adds a key and the number of the
  // round. Of few elements the sum of scalars, which goes over all partitions, would take longer than it
  // saves.
  bool add_numbers_first(OpId id) {
    constexpr int64_t kElementsMin = 1 << 17;
    const Op op = function_.op(id);
    const graph::Type& made = type(op.results[0]);
    if (!graph::is_integer(made.element()) || made.quantization() || made.element_count() < kElementsMin)
      return false;
    for (const size_t place : {0, 1}) {
      const Op* inner = maker(op.operands[1 - place], OpKind::add_);
      if (!inner || !is_scalar(op.operands[place]) || reads_of(op.operands[1 - place]) != 1) continue;
      for (const size_t other : {0, 1}) {
        const ValueId x = inner->operands[1 - other], a = inner->operands[other];
        if (!is_scalar(a) || is_scalar(x)) continue;
        const ValueId sum = added_before(id, scalar_before(id, a), scalar_before(id, op.operands[place]));
        function_.op(id).operands = {x, sum};
        return true;
      }
    }
    return false;
  }

  // The sum of two scalars, in every element of what `id` makes.
  ValueId added_before(OpId id, ValueId a, ValueId b) {
    const ValueId sum = insert_before(id, OpKind::add_, {a, b}, type(a));
    const ValueId wide =
        insert_before(id, OpKind::broadcast_in_dim_, {sum}, type(function_.op(id).results[0]));
    function_.op(function_.value(wide).op).set(Attr::broadcast_dimensions, std::vector<int64_t>{});
    return wide;
  }

  // x / 2^k and x * 2^-k are the same number before they are rounded.
  bool divide_by_power_of_two(OpId id) {
    const graph::Type divisor_type = type(function_.op(id).operands[1]);
    const auto divisor = splat_of(function_, function_.op(id).operands[1]);
    if (!format_of(divisor_type.element()) || !divisor || !std::isnormal(*divisor)) return false;
    int exponent = 0;
    if (std::abs(std::frexp(*divisor, &exponent)) != 0.5) return false;
    // The reciprocal must be a normal number of the format.
    if (std::abs(exponent) > (divisor_type.element() == ElementType::kF16 ? 13 : 120)) return false;
    const ValueId reciprocal = number_before(id, divisor_type, 1.0 / *divisor);
    function_.op(id).kind = OpKind::multiply_;
    function_.op(id).operands[1] = reciprocal;
    return true;
  }

  ValueId insert_before(OpId id, OpKind kind, std::vector<ValueId> operands, const graph::Type& type) {
    const BlockId block = function_.op(id).block;
    const auto& ops = function_.block(block).ops;
    const auto at = static_cast<size_t>(std::find(ops.begin(), ops.end(), id) - ops.begin());
    const OpId made =
        function_.insert(block, at, kind, std::move(operands), {type}, function_.op(id).location);
    return function_.op(made).results[0];
  }

  ValueId number_before(OpId id, const graph::Type& type, double value) {
    const ValueId number = insert_before(id, OpKind::constant_, {}, type);
    function_.op(function_.value(number).op).set(Attr::value, graph::splat_literal(type, value));
    return number;
  }

  // select(not p, a, b) is select(p, b, a).
  bool choose_without_not(Op& op) {
    const Op* inner = maker(op.operands[0], OpKind::not_);
    if (!inner) return false;
    op.operands[0] = inner->operands[0];
    std::swap(op.operands[1], op.operands[2]);
    return true;
  }

  bool square(Op& op) {
    const auto exponent = splat_of(function_, op.operands[1]);
    if (!exponent || *exponent != 2.0 || !format_of(type(op.results[0]).element())) return false;
    op.kind = OpKind::multiply_;
    op.operands[1] = op.operands[0];
    return true;
  }

  Function& function_;
  Replacements replacements_;
  int64_t changed_ = 0;
};

}  // namespace

int64_t simplify(Function& function) {
  const Activity activity("simplifying ops");
  return Simplifier(function).run();
}

}  // namespace opentrn::compiler
