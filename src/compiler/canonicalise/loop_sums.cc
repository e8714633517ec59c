// Sums that a loop adds a product to in every iteration, as the gradients of a recurrent layer's weights are,
// as one product behind the loop:
//
//   while (i, sum) { x = ...; y = dynamic_slice(t, i); sum + dot_general(x, y) }
//   becomes
//   while (i, xs) { x = ...; dynamic_update_slice(xs, x, i) }; sum + dot_general(xs, t)
//
// which contracts over the iterations too. The Tensor engine has then one product of many terms in place of
// many of few, nothing waits for the sum, and what only the product reads is not sliced. Reductions of what
// is kept so are done behind the loop as well (gradients of biases).
#include <algorithm>
#include <map>
#include <optional>
#include <vector>

#include "compiler/analysis/counted_loop.h"
#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "graph/builder.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kSummedTripsMin = 4;
// Elements that are kept of each iteration, in those of the sum; and of all iterations.
constexpr int64_t kKeptInSums = 4, kKeptElementsMax = int64_t{1} << 26;

// What an index is by the number of the iteration: 0, 1, ... or ..., 1, 0.
enum class Order : uint8_t { kUp, kDown };

// An operand of the product: rows of a tensor from outside, or what the iteration computes.
struct Summand {
  ValueId value{};
  std::optional<ValueId> whole;  // [iterations, ...] from outside
  Order order = Order::kUp;      // of its rows
};

struct Sum {
  size_t slot = 0;            // of the loop's carried values
  OpId core{};                // the product or the reduction
  std::vector<OpId> views{};  // of its result, the first one first
  std::vector<Summand> summands{};
};

class LoopSums {
 public:
  explicit LoopSums(Function& function) : function_(function) {}

  int64_t run() {
    const std::vector<OpId> loops = loops_of(function_);
    if (loops.empty()) return 0;
    count_readers();
    int64_t moved = 0;
    for (const OpId loop : loops) moved += sums_of(loop);
    return moved;
  }

 private:
  const Type& type(ValueId value) const { return function_.type(value); }
  BlockId body() const { return function_.op(loop_).regions[1]; }
  const std::vector<ValueId>& returned() const {
    return function_.op(function_.block(body()).ops.back()).operands;
  }

  bool is_made_inside(ValueId id) const {
    const graph::Value& value = function_.value(id);
    return value.op == graph::kNoOp ? value.block == body() : function_.op(value.op).block == body();
  }

  int64_t sums_of(OpId loop) {
    loop_ = loop;
    const auto trips = constant_trips(function_, function_.op(loop));
    const auto counted = counted_loop(function_, function_.op(loop));
    if (!trips || *trips < kSummedTripsMin || counted->step != 1) return 0;
    const auto start = splat_of(function_, function_.op(loop).operands[counted->slot]);
    if (!start || *start != 0) return 0;
    trips_ = *trips;
    counter_ = function_.block(body()).arguments[counted->slot];
    std::vector<Sum> sums;
    for (size_t slot = 0; slot < returned().size(); ++slot)
      if (const auto sum = sum_of(slot)) sums.push_back(*sum);
    // A reduction alone would keep what it reads.
    std::vector<ValueId> kept;
    for (const Sum& sum : sums)
      if (is_product(sum))
        for (const Summand& each : sum.summands)
          if (!each.whole) kept.push_back(each.value);
    std::erase_if(sums, [&](const Sum& sum) {
      return !is_product(sum) && std::ranges::count(kept, sum.summands[0].value) == 0;
    });
    if (sums.empty()) return 0;
    kept_.clear();
    for (const Sum& sum : sums) move(sum);
    return std::ssize(sums);
  }

  bool is_product(const Sum& sum) const { return function_.op(sum.core).kind == OpKind::dot_general_; }

  // As they are before anything moves: what moves has readers of one loop only.
  void count_readers() {
    graph::walk(function_, function_.body(), [&](OpId id) {
      for (const ValueId value : function_.op(id).operands) ++readers_[value];
    });
  }

  bool is_f32(ValueId value) const {
    const Type& given = type(value);
    return given.is_tensor() && given.is_static() && !given.quantization() &&
           given.element() == ElementType::kF32 && given.element_count() > 0;
  }

  std::optional<Sum> sum_of(size_t slot) {
    const ValueId carried = function_.block(body()).arguments[slot];
    const Op* add = maker(function_, returned()[slot]);
    if (!add || add->kind != OpKind::add_ || add->block != body() || !is_f32(carried) ||
        readers_[carried] != 1 || readers_[returned()[slot]] != 1)
      return std::nullopt;
    const auto at = std::ranges::find(add->operands, carried);
    if (at == add->operands.end()) return std::nullopt;
    Sum sum{.slot = slot};
    ValueId value = add->operands[at == add->operands.begin() ? 1 : 0];
    for (;;) {
      const OpId made = function_.value(value).op;
      if (made == graph::kNoOp || function_.op(made).block != body() || readers_[value] != 1)
        return std::nullopt;
      const Op& op = function_.op(made);
      sum.core = made;
      if (!keeps_elements(op)) break;
      sum.views.insert(sum.views.begin(), made);
      value = op.operands[0];
    }
    return is_f32(value) && has_summands(sum) && is_worth_keeping(sum) ? std::optional(sum) : std::nullopt;
  }

  bool adds(const Op& reduce) const {
    return reduce.results.size() == 1 && combiner_of(function_, reduce) == OpKind::add_ &&
           splat_of(function_, reduce.operands[1]) == 0.0;
  }

  // Also the sum over dimensions of one element.
  bool keeps_elements(const Op& op) const {
    if (op.kind == OpKind::broadcast_in_dim_ || (op.kind == OpKind::reduce_ && adds(op)))
      return type(op.results[0]).element_count() == type(op.operands[0]).element_count();
    return op.kind == OpKind::reshape_ || op.kind == OpKind::transpose_;
  }

  bool has_summands(Sum& sum) {
    const Op& core = function_.op(sum.core);
    if (core.kind == OpKind::reduce_) {
      if (!adds(core)) return false;
    } else if (core.kind != OpKind::dot_general_ || has_batches(core)) {
      return false;
    }
    const size_t count = core.kind == OpKind::reduce_ ? 1 : 2;
    for (size_t i = 0; i < count; ++i) {
      if (!is_f32(core.operands[i]) || !is_made_inside(core.operands[i])) return false;
      sum.summands.push_back(summand_of(core.operands[i]));
    }
    // What is kept is kept in the order of the rows beside it.
    const auto order = order_of(sum);
    for (Summand& each : sum.summands)
      if (each.whole && each.order != order) each = {.value = each.value, .whole = {}, .order = order};
    return true;
  }

  bool has_batches(const Op& product) const {
    return product.has(Attr::lhs_batching_dimensions) &&
           !product.integers(Attr::lhs_batching_dimensions).empty();
  }

  // Every product has it: of the first operand whose rows come from outside.
  Order order_of(const Sum& sum) const {
    for (const Summand& each : sum.summands)
      if (each.whole) return each.order;
    return Order::kUp;
  }

  bool is_worth_keeping(const Sum& sum) const {
    const int64_t elements = type(function_.op(sum.core).results[0]).element_count();
    int64_t kept = 0;
    for (const Summand& each : sum.summands)
      if (!each.whole) kept += type(each.value).element_count();
    const bool is_reduction = function_.op(sum.core).kind == OpKind::reduce_;
    return (is_reduction || kept <= kKeptInSums * elements) && kept * trips_ <= kKeptElementsMax;
  }

  // A row of each iteration, of a tensor that has as many.
  Summand summand_of(ValueId value) const {
    Summand found{.value = value};
    const Op* op = maker(function_, value);
    while (op && op->kind == OpKind::reshape_ && op->block == body()) op = maker(function_, op->operands[0]);
    if (!op || op->kind != OpKind::dynamic_slice_ || op->block != body() || is_made_inside(op->operands[0]))
      return found;
    const Type &whole = type(op->operands[0]), &row = type(op->results[0]);
    if (whole.rank() == 0 || whole.dim(0) != trips_ || row.dim(0) != 1) return found;
    for (int d = 1; d < whole.rank(); ++d)
      if (whole.dim(d) != row.dim(d)) return found;
    const auto order = order_of(op->operands[1]);
    if (!order) return found;
    found.whole = op->operands[0];
    found.order = *order;
    return found;
  }

  // By sums of the counter and numbers: scale * counter + offset.
  std::optional<Order> order_of(ValueId index) const {
    const auto [scale, offset] = line_of(index, 0).value_or(std::pair(int64_t{0}, int64_t{0}));
    if (scale == 1 && offset == 0) return Order::kUp;
    if (scale == -1 && offset == trips_ - 1) return Order::kDown;
    return std::nullopt;
  }

  std::optional<std::pair<int64_t, int64_t>> line_of(ValueId value, int depth) const {
    constexpr int kDeep = 8;
    if (value == counter_) return std::pair<int64_t, int64_t>(1, 0);
    if (const auto number = splat_of(function_, value))
      return std::pair<int64_t, int64_t>(0, static_cast<int64_t>(*number));
    const Op* op = maker(function_, value);
    if (!op || depth > kDeep) return std::nullopt;
    if (op->kind == OpKind::convert_ && graph::bit_width(type(value).element()) >= 32 &&
        !graph::is_float(type(value).element()))
      return line_of(op->operands[0], depth + 1);
    if (op->kind != OpKind::add_ && op->kind != OpKind::subtract_) return std::nullopt;
    const auto a = line_of(op->operands[0], depth + 1), b = line_of(op->operands[1], depth + 1);
    if (!a || !b) return std::nullopt;
    const int64_t sign = op->kind == OpKind::add_ ? 1 : -1;
    return std::pair(a->first + sign * b->first, a->second + sign * b->second);
  }

  // -- what changes

  ValueId insert(BlockId block, size_t at, OpKind kind, std::vector<ValueId> operands, Type made) {
    const OpId id = function_.insert(block, at, kind, std::move(operands), {std::move(made)},
                                     function_.op(loop_).location);
    return function_.op(id).results[0];
  }
  ValueId inside(OpKind kind, std::vector<ValueId> operands, Type made) {
    return insert(body(), function_.block(body()).ops.size() - 1, kind, std::move(operands), std::move(made));
  }
  // Behind the loop, or what was put there.
  ValueId behind(OpKind kind, std::vector<ValueId> operands, Type made) {
    return insert(function_.op(loop_).block, place_behind_++, kind, std::move(operands), std::move(made));
  }

  size_t place_of_loop() const {
    const auto& ops = function_.block(function_.op(loop_).block).ops;
    return static_cast<size_t>(std::ranges::find(ops, loop_) - ops.begin());
  }

  ValueId number(ValueId like, int64_t value) {
    const ValueId made = inside(OpKind::constant_, {}, type(like));
    function_.op(function_.value(made).op)
        .set(Attr::value, graph::splat_literal(type(like), static_cast<double>(value)));
    return made;
  }

  // [iterations, ...] of what each iteration computes, carried along and given by the loop.
  ValueId kept(const Summand& summand, Order order) {
    const auto key = std::pair(summand.value, order);
    if (const auto found = kept_.find(key); found != kept_.end()) return found->second;
    const Type& row = type(summand.value);
    Dims dims = row.dims_vector(), one = dims;
    dims.insert(dims.begin(), trips_);
    one.insert(one.begin(), 1);
    const Type all = row.with_dims(dims);
    const ValueId nothing = insert(function_.op(loop_).block, place_of_loop(), OpKind::constant_, {}, all);
    function_.op(function_.value(nothing).op).set(Attr::value, graph::splat_literal(all, 0));
    function_.op(loop_).operands.push_back(nothing);
    function_.add_argument(function_.op(loop_).regions[0], all);
    const ValueId carried = function_.add_argument(body(), all);
    std::vector<ValueId> operands{carried, inside(OpKind::reshape_, {summand.value}, row.with_dims(one))};
    operands.push_back(
        order == Order::kUp
            ? counter_
            : inside(OpKind::subtract_, {number(counter_, trips_ - 1), counter_}, type(counter_)));
    const ValueId zero = number(counter_, 0);
    for (size_t d = 1; d < dims.size(); ++d) operands.push_back(zero);
    const ValueId updated = inside(OpKind::dynamic_update_slice_, std::move(operands), all);
    function_.op(function_.block(body()).ops.back()).operands.push_back(updated);
    return kept_[key] = function_.add_result(loop_, all);
  }

  void move(const Sum& sum) {
    const Op core = function_.op(sum.core);
    std::vector<ValueId> operands;
    for (const Summand& each : sum.summands)
      operands.push_back(each.whole ? *each.whole : kept(each, order_of(sum)));
    place_behind_ = place_of_loop() + 1;
    for (size_t i = 0; i < operands.size(); ++i) {
      const Type& row = type(sum.summands[i].value);
      Dims dims = row.dims_vector();
      dims.insert(dims.begin(), trips_);
      if (!std::ranges::equal(type(operands[i]).dims(), dims))
        operands[i] = behind(OpKind::reshape_, {operands[i]}, row.with_dims(dims));
    }
    const ValueId total = core.kind == OpKind::reduce_ ? reduced(core, operands[0]) : product(core, operands);
    finish(sum, total);
  }

  // All iterations' contraction is one: theirs is the outermost dimension of both.
  ValueId product(const Op& core, const std::vector<ValueId>& operands) {
    const ValueId made = behind(OpKind::dot_general_, operands, type(core.results[0]));
    Op& op = function_.op(function_.value(made).op);
    op.attributes = core.attributes;
    for (const Attr attr : {Attr::lhs_contracting_dimensions, Attr::rhs_contracting_dimensions}) {
      Dims contracted{0};
      for (const int64_t d : dims_of(core, attr)) contracted.push_back(d + 1);
      op.set(attr, contracted);
    }
    return made;
  }

  ValueId reduced(const Op& core, ValueId whole) {
    Builder builder(scratch_, function_, function_.op(loop_).block);
    Dims dimensions{0};
    for (const int64_t d : dims_of(core, Attr::dimensions)) dimensions.push_back(d + 1);
    // Appended, and brought to its place.
    auto& ops = function_.block(function_.op(loop_).block).ops;
    const size_t before = ops.size();
    builder.set_location(core.location);
    const ValueId made = builder.reduce(OpKind::add_, whole, dimensions);
    std::rotate(ops.begin() + static_cast<std::ptrdiff_t>(place_behind_),
                ops.begin() + static_cast<std::ptrdiff_t>(before), ops.end());
    place_behind_ += ops.size() - before;
    return made;
  }

  void finish(const Sum& sum, ValueId total) {
    for (const OpId id : sum.views) {
      const Op view = function_.op(id);
      const bool is_sum = view.kind == OpKind::reduce_;
      total = behind(is_sum ? OpKind::reshape_ : view.kind, {total}, type(view.results[0]));
      if (!is_sum) function_.op(function_.value(total).op).attributes = view.attributes;
    }
    const ValueId initial = function_.op(loop_).operands[sum.slot],
                  result = function_.op(loop_).results[sum.slot];
    const ValueId whole = behind(OpKind::add_, {initial, total}, type(result));
    function_.replace_uses(result, whole);
    // The loop carries it as it is (simplify_loops.cc drops that).
    function_.op(function_.block(body()).ops.back()).operands[sum.slot] =
        function_.block(body()).arguments[sum.slot];
  }

  Function& function_;
  graph::Module scratch_;
  OpId loop_{};
  int64_t trips_ = 0;
  ValueId counter_{};
  std::map<ValueId, int> readers_;
  std::map<std::pair<ValueId, Order>, ValueId> kept_;
  size_t place_behind_ = 0;
};

}  // namespace

int64_t sum_behind_loops(Function& function) { return LoopSums(function).run(); }

}  // namespace opentrn::compiler
