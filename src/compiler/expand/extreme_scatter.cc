// Scatters of extremes of rows (the largest of what a graph's edges bring to a node), in the order of their
// indices:
//
//   places and numbers of the windows, as whole numbers, are sorted
//   rows in that order; each meets the one before it while the index stays (analysis/recurrence_call.h)
//   the last row of each index goes to its place
//
// A number that is none would stay in what meets all later rows, whatever their index: it is taken out, and a
// mark beside its row says that its place has none.
//
// One after another a window takes 0.6 us in a partition, and 3 us through memory.
#include <algorithm>
#include <limits>
#include <numeric>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/recurrence_call.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/expand.h"
#include "compiler/rewrite/expression.h"

namespace opentrn::compiler {

namespace {

// Of fewer windows the sort and what is around it take as long; of longer rows a window by itself is no
// longer than what it moves.
constexpr int64_t kWindowsMin = 512, kWindowMost = 1024;
constexpr int64_t kKeysMost = std::numeric_limits<int32_t>::max();

int64_t windows_of(const Function& function, const Op& op) {
  const Type& updates = function.type(op.operands[2]);
  return updates.element_count() / count_of(updates, dims_of(op, Attr::update_window_dims));
}

// Whole rows at places of one component, the first dimension.
bool takes_extreme_rows(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.size() != 3) return false;
  for (const ValueId id : op.operands) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || type.element_count() == 0)
      return false;
  }
  const auto combiner = combiner_of(function, op);
  const Type &table = function.type(op.operands[0]), &updates = function.type(op.operands[2]);
  if (table.element() != ElementType::kF32 ||
      (combiner != OpKind::maximum_ && combiner != OpKind::minimum_) ||
      dims_of(op, Attr::inserted_window_dims) != Dims{0} ||
      dims_of(op, Attr::scatter_dims_to_operand_dims) != Dims{0} ||
      !dims_of(op, Attr::input_batching_dims).empty())
    return false;
  const Dims window = dims_of(op, Attr::update_window_dims);
  if (std::ssize(window) != table.rank() - 1) return false;
  for (size_t i = 0; i < window.size(); ++i)
    if (updates.dim(static_cast<int>(window[i])) != table.dim(static_cast<int>(i) + 1)) return false;
  const int64_t windows = windows_of(function, op);
  return windows >= kWindowsMin && count_of(updates, window) <= kWindowMost &&
         (table.dim(0) + 1) * windows <= kKeysMost;
}

class ExtremeRows {
 public:
  ExtremeRows(Builder& builder, const Function& function, const Op& op)
      : builder_(builder),
        op_(op),
        combiner_(*combiner_of(function, op)),
        table_(function.type(op.operands[0])),
        windows_(windows_of(function, op)),
        places_(table_.dim(0)),
        width_(table_.element_count() / places_) {}

  ValueId made(ValueId into, ValueId indices, ValueId updates) {
    const Expr place = of_windows(indices);
    Expr at = place, rows = with_marks(as_rows(updates));
    if (!op_.boolean_or(Attr::indices_are_sorted, false)) {
      const Expr keys = sorted(place * static_cast<double>(windows_) + counted(at.type()));
      at = keys / static_cast<double>(windows_);
      rows = gathered(rows, keys - at * static_cast<double>(windows_));
    }
    const Expr flat = Expr(builder_, builder_.reshape(into, {places_, width_}));
    const Expr extremes = without_marks(put(at, met(at, rows)));
    return builder_.reshape(flat.binary(combiner_, extremes).id(), table_.dims_vector());
  }

 private:
  double none() const {
    const double infinity = std::numeric_limits<double>::infinity();
    return combiner_ == OpKind::maximum_ ? -infinity : infinity;
  }
  Expr counted(const Type& type) {
    return {builder_,
            builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{0})}}, {type})};
  }

  // Those outside lie behind the table.
  Expr of_windows(ValueId indices) {
    const Expr all = Expr(builder_, builder_.reshape(indices, {windows_})).as(ElementType::kI32);
    const auto end = static_cast<double>(places_);
    return select((all >= 0.0) & (all < end), all, all.number(end));
  }

  Expr as_rows(ValueId updates) {
    const Type type = builder_.type(updates);
    const Dims window = dims_of(op_, Attr::update_window_dims);
    Dims order;
    for (int64_t d = 0; d < type.rank(); ++d)
      if (std::ranges::find(window, d) == window.end()) order.push_back(d);
    order.insert(order.end(), window.begin(), window.end());
    return {builder_, builder_.reshape(builder_.transpose(updates, order), {windows_, width_})};
  }

  // Rows twice as wide: numbers, and marks of those that are none, which go before all others.
  Expr with_marks(const Expr& rows) {
    const Expr is_none = is_nan(rows), neutral = rows.number(none());
    const Expr numbers = select(is_none, neutral, rows), marks = select(is_none, rows.number(0), neutral);
    return {builder_, builder_.concatenate({numbers.id(), marks.id()}, 1)};
  }
  Expr without_marks(const Expr& rows) {
    const Expr numbers(builder_, part_of(builder_, rows.id(), 1, 0, width_));
    const Expr marks(builder_, part_of(builder_, rows.id(), 1, width_, 2 * width_));
    return select(marks == 0.0, numbers.number(std::numeric_limits<double>::quiet_NaN()), numbers);
  }

  Expr sorted(const Expr& keys) {
    const Type scalar = keys.type().with_dims({});
    const graph::RegionBody less{
        {scalar, scalar}, [](Builder& body, std::span<const ValueId> a) {
          return std::vector{body.compare(graph::ComparisonDirection::kLt, a[0], a[1])};
        }};
    const OpId made = builder_.add_with_regions(
        OpKind::sort_, {keys.id()}, {{Attr::dimension, Attribute(int64_t{0})}}, {keys.type()}, {less});
    return {builder_, builder_.function().op(made).results[0]};
  }

  Expr gathered(const Expr& rows, const Expr& at) {
    return {builder_, builder_.add(OpKind::gather_, {rows.id(), builder_.reshape(at.id(), {windows_, 1})},
                                   {{Attr::offset_dims, Attribute(Dims{1})},
                                    {Attr::collapsed_slice_dims, Attribute(Dims{0})},
                                    {Attr::start_index_map, Attribute(Dims{0})},
                                    {Attr::index_vector_dim, Attribute(int64_t{1})},
                                    {Attr::slice_sizes, Attribute(Dims{1, 2 * width_})}})};
  }

  // Each row, met by those of the same index before it.
  Expr met(const Expr& at, const Expr& rows) {
    const Expr is_same = at == shifted(at, 1);
    const Type one = rows.type().with_dims({windows_});
    const Expr keeps(builder_, builder_.splat(one, -none())), forgets(builder_, builder_.splat(one, none()));
    const Dims turned{2 * width_, windows_};
    const Expr factors(builder_,
                       builder_.broadcast_in_dim(select(is_same, keeps, forgets).id(), turned, {1}));
    const RecurrenceCall call{combiner_ == OpKind::maximum_ ? OpKind::minimum_ : OpKind::maximum_, combiner_};
    const OpId made =
        builder_.add_with_regions(OpKind::custom_call_,
                                  {factors.id(), builder_.transpose(rows.id(), {1, 0}),
                                   builder_.splat(rows.type().with_dims({2 * width_, 1}), none())},
                                  {{Attr::call_target_name, Attribute(std::string(kRecurrenceTarget))},
                                   {Attr::backend_config, Attribute(call.words())}},
                                  {rows.type().with_dims(turned)}, {});
    return {builder_, builder_.transpose(builder_.function().op(made).results[0], {1, 0})};
  }

  // What lies `by` places before, or behind; -1 beyond the ends.
  Expr shifted(const Expr& list, int64_t by) {
    const ValueId outside = builder_.splat(list.type().with_dims({}), -1.0);
    return {builder_, padded(builder_, list.id(), outside, {by}, {-by}, {0})};
  }

  // The last row of each index in its place.
  Expr put(const Expr& at, const Expr& rows) {
    const auto end = static_cast<double>(places_);
    const Expr is_last = (at != shifted(at, -1)) & (at < end);
    const Expr place = select(is_last, at, at.number(-1));
    const Type table = table_.with_dims({places_, 2 * width_}), scalar = table.with_dims({});
    const graph::RegionBody replaces{{scalar, scalar},
                                     [](Builder&, std::span<const ValueId> a) { return std::vector{a[1]}; }};
    const OpId made = builder_.add_with_regions(
        OpKind::scatter_,
        {builder_.splat(table, none()), builder_.reshape(place.id(), {windows_, 1}), rows.id()},
        {{Attr::update_window_dims, Attribute(Dims{1})},
         {Attr::inserted_window_dims, Attribute(Dims{0})},
         {Attr::scatter_dims_to_operand_dims, Attribute(Dims{0})},
         {Attr::index_vector_dim, Attribute(int64_t{1})}},
        {table}, {replaces});
    return {builder_, builder_.function().op(made).results[0]};
  }

  Builder& builder_;
  const Op& op_;
  OpKind combiner_;
  const Type table_;
  int64_t windows_, places_, width_;
};

std::vector<ValueId> in_order_of_indices(Builder& builder, const Function& function, const Op& op,
                                         std::span<const ValueId> operands) {
  return {ExtremeRows(builder, function, op).made(operands[0], operands[1], operands[2])};
}

constexpr Expansion kExtremeScatters[] = {{OpKind::scatter_, takes_extreme_rows, in_order_of_indices}};

}  // namespace

std::span<const Expansion> extreme_scatter_expansions() { return kExtremeScatters; }

}  // namespace opentrn::compiler
