// Reductions whose shape leaves most of a core idle, as ones that fill it.
//
// - Over dimensions of one element: nothing is reduced, the initial value meets each element.
// - Of few rows and many columns, such as the sum of everything: rows are made of the outer ones of the
//   reduced dimensions first, so that partitions share the work, and what they give is reduced once more.
// - Of rows that no kernel holds whole, of what is computed element by element: such rows are cut into pieces
//   that one holds, which computes and reduces them as it reads (canonicalise/lifted_reshapes.cc).
// - Over leading dimensions, of few columns: each partition takes a run of rows and adds them, column by
//   column, and the partitions' sums are added afterwards. Rows over partitions would be turned one by one.
// - The place of the largest or smallest element (argmax, argmin): its value is reduced first, then the
//   places of those that equal it. The pair of values would be compared at every halving of a row. Over a few
//   slabs, such as the classes of an image's elements, one slab meets the next, element by element: all in
//   one kernel, where a reduction and what is made of it lie in rows of different kernels.
//
// StableHLO leaves the grouping of a reduction to the implementation, not its order.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/index_pattern.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/expand.h"
#include "compiler/lowering/exact_reduction.h"
#include "compiler/lowering/takes.h"
#include "compiler/rewrite/inline_region.h"

namespace opentrn::compiler {

namespace {

// Columns of an instruction's time that it takes at least, and of another kernel, which waits for the first
// one's result in HBM.
constexpr int64_t kInstructionColumns = 64, kKernelColumns = 2000;
// A gain below this is within what the schedule around it may cost.
constexpr int64_t kLeastRowGain = 1000;
// A row whose elements are far apart in time gains from being cut itself; the cut is a copy.
constexpr int64_t kCutColumns = 8192, kCutRows = 128;
// Longer rows are cut piece by piece (windows.cc), as no copy of them fits.
constexpr int64_t kCutColumnsMax = int64_t{1} << 28;

bool is_plain_tensor(const Function& function, ValueId id) {
  const Type& type = function.type(id);
  return type.is_tensor() && type.is_static() && !type.quantization() && type.element_count() > 0 &&
         !graph::is_complex(type.element());
}

bool all_plain(const Function& function, const Op& op) {
  const auto plain = [&](ValueId id) { return is_plain_tensor(function, id); };
  return std::ranges::all_of(op.operands, plain) && std::ranges::all_of(op.results, plain);
}

Dims sorted_dimensions(const Op& op) {
  Dims dims = dims_of(op, Attr::dimensions);
  std::ranges::sort(dims);
  return dims;
}

// -- dimensions of one element

bool reduces_single_ones(const Function& function, const Op& op) {
  if (!all_plain(function, op) || !can_inline_region(function, op.regions[0])) return false;
  const Type& type = function.type(op.operands[0]);
  return std::ranges::any_of(dims_of(op, Attr::dimensions),
                             [&](int64_t d) { return type.dim(static_cast<int>(d)) == 1; });
}

// `op` over `dimensions` of `values`.
std::vector<ValueId> reduced_over(Builder& builder, const Function& function, const Op& op,
                                  std::vector<ValueId> values, std::span<const ValueId> initial,
                                  const Dims& dimensions) {
  std::vector<Type> types, arguments;
  for (const ValueId value : values) {
    Dims left;
    for (int d = 0; d < builder.type(value).rank(); ++d)
      if (std::ranges::count(dimensions, d) == 0) left.push_back(builder.type(value).dim(d));
    types.push_back(builder.type(value).with_dims(left));
    arguments.push_back(builder.type(value).with_dims({}));
  }
  for (size_t i = 0; i < values.size(); ++i) arguments.push_back(arguments[i]);
  const graph::RegionBody body{arguments, [&](Builder& inner, std::span<const ValueId> a) {
                                 return inline_region(inner, function, op.regions[0], a, {});
                               }};
  values.insert(values.end(), initial.begin(), initial.end());
  const OpId made = builder.add_with_regions(OpKind::reduce_, std::move(values),
                                             {{Attr::dimensions, dimensions}}, types, {body});
  return builder.function().op(made).results;
}

std::vector<ValueId> without_single_ones(Builder& builder, const Function& function, const Op& op,
                                         std::span<const ValueId> operands) {
  const size_t count = op.results.size();
  const Type& type = function.type(op.operands[0]);
  const Dims reduced = sorted_dimensions(op);
  Dims shape, dimensions;
  for (int d = 0; d < type.rank(); ++d) {
    const bool is_reduced = std::ranges::count(reduced, d) > 0;
    if (is_reduced && type.dim(d) == 1) continue;
    if (is_reduced) dimensions.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(type.dim(d));
  }
  std::vector<ValueId> values;
  for (size_t i = 0; i < count; ++i) values.push_back(builder.reshape(operands[i], shape));
  const std::span<const ValueId> initial = operands.subspan(count);
  if (!dimensions.empty()) return reduced_over(builder, function, op, values, initial, dimensions);
  std::vector<ValueId> arguments;
  for (const ValueId start : initial) arguments.push_back(builder.broadcast_in_dim(start, shape, {}));
  arguments.insert(arguments.end(), values.begin(), values.end());
  return inline_region(builder, function, op.regions[0], arguments, shape);
}

// -- few rows, many columns

// Time on one engine of rows over partitions, in columns.
int64_t row_cost(int64_t rows, int64_t columns) {
  return (rows + 127) / 128 * (columns + kInstructionColumns);
}

// Pieces of a row that a kernel holds with what it computes of them.
constexpr int64_t kHeldColumns = 8192, kPieceColumns = 4096;
// Of rows of half the partitions or more a cut gains less than it costs.
constexpr int64_t kIdleRows = 64;

bool is_computed(const Function& function, ValueId value) {
  const Op* op = maker(function, value);
  if (!op) return false;
  const OpClass op_class = graph::definition(op->kind).op_class;
  return op_class == OpClass::kUnaryElementwise || op_class == OpClass::kBinaryElementwise ||
         op->kind == OpKind::convert_;
}

// A reshape of it is a copy.
bool lies_otherwise(const Function& function, ValueId value) {
  const Op* op = maker(function, value);
  return op && is_view_op(op->kind) && op->kind != OpKind::reshape_;
}

// The fewest pieces of a kernel's length that fill the partitions; 0 where no number near it divides a row.
int64_t pieces_of(int64_t rows, int64_t columns) {
  const int64_t least = std::max((columns + kPieceColumns - 1) / kPieceColumns, (kCutRows + rows - 1) / rows);
  for (int64_t pieces = least; pieces <= 4 * least; ++pieces)
    if (columns % pieces == 0) return pieces;
  return 0;
}

// Which reduced dimensions come first, as how many of the outer ones stay for the second step; where there is
// only one, the number of parts that it is cut into.
struct TwoSteps {
  size_t outer = 0;
  int64_t parts = 0;
};

std::optional<TwoSteps> two_steps(const Function& function, const Op& op) {
  if (op.results.size() != 1 || !all_plain(function, op)) return std::nullopt;
  const auto combiner = combiner_of(function, op);
  const auto initial = splat_of(function, op.operands[1]);
  const Type& type = function.type(op.operands[0]);
  if (!combiner || !initial || !is_neutral(*combiner, type.element(), *initial)) return std::nullopt;
  const Dims reduced = sorted_dimensions(op);
  if (reduced.empty() || reduced.back() != type.rank() - 1) return std::nullopt;
  const int64_t all = count_of(type, reduced), rows = type.element_count() / all;
  const bool are_idle = rows > kCutRows / 8 && rows <= kIdleRows;
  if (graph::is_float(type.element()) && all > kHeldColumns && all <= kCutColumnsMax &&
      reduced.front() == type.rank() - std::ssize(reduced) &&
      (are_idle || is_computed(function, op.operands[0])))
    if (const int64_t pieces = pieces_of(rows, all)) return TwoSteps{.outer = 0, .parts = pieces};
  int64_t best = row_cost(rows, all) - kLeastRowGain;
  std::optional<TwoSteps> found;
  for (size_t outer = 1; outer < reduced.size(); ++outer) {
    const int64_t kept = count_of(type, std::span(reduced).first(outer));
    const int64_t cost = row_cost(rows * kept, all / kept) + row_cost(rows, kept) + kKernelColumns;
    if (cost < best) best = cost, found = {.outer = outer, .parts = 0};
  }
  if (found || reduced.size() > 1 || all < kCutColumns || all > kCutColumnsMax || rows > kCutRows / 8)
    return found;
  for (int64_t parts = kCutRows / rows; parts > kCutRows / rows / 4; --parts)
    if (all % parts == 0) return TwoSteps{.outer = 0, .parts = parts};
  return std::nullopt;
}

bool has_two_steps(const Function& function, const Op& op) { return two_steps(function, op).has_value(); }

std::vector<ValueId> in_two_steps(Builder& builder, const Function& function, const Op& op,
                                  std::span<const ValueId> operands) {
  const TwoSteps steps = *two_steps(function, op);
  const OpKind combiner = *combiner_of(function, op);
  const Type& type = function.type(op.operands[0]);
  const ElementType element = type.element();
  // Narrow floats are rounded once, at the end.
  const bool is_narrow = graph::is_float(element) && graph::bit_width(element) < 32;
  ValueId value = is_narrow ? builder.convert(operands[0], ElementType::kF32) : operands[0];
  Dims reduced = sorted_dimensions(op);
  if (steps.parts > 0) {
    Dims shape(type.dims().begin(), type.dims().begin() + reduced.front());
    shape.push_back(steps.parts);
    shape.push_back(count_of(type, reduced) / steps.parts);
    value = builder.reshape(value, shape);
    reduced = {reduced.front(), reduced.front() + 1};
  }
  const size_t outer = steps.parts > 0 ? 1 : steps.outer;
  const auto middle = reduced.begin() + static_cast<std::ptrdiff_t>(outer);
  // The dimensions of the first step lie behind those of the second.
  value = builder.reduce(combiner, value, Dims(middle, reduced.end()));
  value = builder.reduce(combiner, value, Dims(reduced.begin(), middle));
  return {is_narrow ? builder.convert(value, element) : value};
}

// -- many rows, few columns

// [kept, rows, columns], of which rows and some of the columns are reduced: `parts` runs of rows.
struct Columns {
  size_t reduced = 0;  // dimensions that the rows are of
  int64_t kept = 1, rows = 1, columns = 1, parts = 0;
};

constexpr int64_t kColumnsMax = 512, kRunRows = 16;

// Rows over partitions are turned block by block, which is as quick where they are wide or few; a narrow
// float is converted in a kernel of its own first. Single elements of a reduced last dimension cost a
// descriptor each.
bool columns_pay(const Function& function, const Op& op, const Columns& columns, int64_t last) {
  constexpr int64_t kNarrowColumns = 32, kFewColumns = 96, kManyRows = 8192, kManyElements = 1 << 16;
  constexpr int64_t kShortRun = 16;
  if (last > 0) return last < kShortRun;
  // What is computed on the way is computed with the rows over partitions.
  if (is_computed(function, op.operands[0])) return false;
  if (graph::bit_width(function.type(op.operands[0]).element()) < 32)
    return columns.columns <= kNarrowColumns && columns.rows * columns.columns >= kManyElements;
  return columns.columns <= kNarrowColumns || (columns.columns <= kFewColumns && columns.rows >= kManyRows);
}

std::optional<Columns> few_columns(const Function& function, const Op& op) {
  if (op.results.size() != 1 || !all_plain(function, op)) return std::nullopt;
  const auto combiner = combiner_of(function, op);
  const auto initial = splat_of(function, op.operands[1]);
  const Type& type = function.type(op.operands[0]);
  if (!combiner || !initial || !graph::is_float(type.element()) ||
      !is_neutral(*combiner, type.element(), *initial))
    return std::nullopt;
  const Dims reduced = sorted_dimensions(op);
  if (reduced.empty() || lies_otherwise(function, op.operands[0])) return std::nullopt;
  Columns found;
  int64_t next = reduced.front();
  for (; found.reduced < reduced.size() && reduced[found.reduced] == next; ++found.reduced, ++next)
    found.rows *= type.dim(static_cast<int>(next));
  if (next == type.rank()) return std::nullopt;  // rows that lie side by side
  for (int64_t d = 0; d < reduced.front(); ++d) found.kept *= type.dim(static_cast<int>(d));
  found.columns = type.element_count() / std::max<int64_t>(1, found.kept * found.rows);
  const int64_t last =
      reduced.back() == type.rank() - 1 && found.reduced < reduced.size() ? type.dim(type.rank() - 1) : 0;
  if (found.columns > kColumnsMax || found.kept > kCutRows / 2 || !columns_pay(function, op, found, last))
    return std::nullopt;
  // Of few rows a cut into fewer parts still moves runs in place of single elements.
  const int64_t most = kCutRows / found.kept, least = last > 0 ? 2 : most / 2 + 1;
  for (int64_t parts = most; parts >= least; --parts)
    if (found.rows % parts == 0 && found.rows / parts >= kRunRows) {
      found.parts = parts;
      return found;
    }
  return std::nullopt;
}

bool has_few_columns(const Function& function, const Op& op) { return few_columns(function, op).has_value(); }

std::vector<ValueId> column_by_column(Builder& builder, const Function& function, const Op& op,
                                      std::span<const ValueId> operands) {
  const Columns columns = *few_columns(function, op);
  const OpKind combiner = *combiner_of(function, op);
  const Type& type = function.type(op.operands[0]);
  const bool is_narrow = graph::bit_width(type.element()) < 32;
  const Dims reduced = sorted_dimensions(op);
  ValueId value = is_narrow ? builder.convert(operands[0], ElementType::kF32) : operands[0];
  value =
      builder.reshape(value, {columns.kept, columns.parts, columns.rows / columns.parts, columns.columns});
  value = builder.reduce(combiner, value, {2});
  // The runs' results, and the reduced ones of the columns.
  Dims shape(type.dims().begin(), type.dims().begin() + reduced.front()), rest{reduced.front()};
  const int64_t gone = static_cast<int64_t>(columns.reduced) - 1;
  shape.push_back(columns.parts);
  for (int64_t d = reduced.front() + gone + 1; d < type.rank(); ++d)
    shape.push_back(type.dim(static_cast<int>(d)));
  for (size_t i = columns.reduced; i < reduced.size(); ++i) rest.push_back(reduced[i] - gone);
  value = builder.reduce(combiner, builder.reshape(value, shape), rest);
  return {is_narrow ? builder.convert(value, type.element()) : value};
}

// -- the place of an extreme

// The region's ops as (kind, direction, operands): operands are arguments 0 to 3 and then ops in order.
struct Step {
  OpKind kind;
  ComparisonDirection direction;
  std::array<int, 3> operands;
  bool operator==(const Step&) const = default;
};
constexpr int kNone = -1;
constexpr auto kNoDirection = ComparisonDirection::kEq;

// (a, i) and (b, j): the better value, a where it is NaN; the place with it, the lower one of equals.
std::vector<Step> place_of(ComparisonDirection better) {
  return {{OpKind::compare_, better, {0, 2, kNone}},
          {OpKind::compare_, ComparisonDirection::kNe, {0, 0, kNone}},
          {OpKind::or_, kNoDirection, {4, 5, kNone}},
          {OpKind::compare_, ComparisonDirection::kEq, {0, 2, kNone}},
          {OpKind::compare_, ComparisonDirection::kLt, {1, 3, kNone}},
          {OpKind::and_, kNoDirection, {7, 8, kNone}},
          {OpKind::or_, kNoDirection, {6, 9, kNone}},
          {OpKind::select_, kNoDirection, {6, 0, 2}},
          {OpKind::select_, kNoDirection, {10, 1, 3}}};
}

// The region in that form; nothing where it has something else.
std::optional<std::vector<Step>> steps_of(const Function& function, graph::BlockId id) {
  const graph::Block& body = function.block(id);
  if (body.arguments.size() != 4) return std::nullopt;
  std::vector<ValueId> known = body.arguments;
  std::vector<Step> steps;
  for (const OpId op_id : body.ops) {
    const Op& op = function.op(op_id);
    if (op.kind == OpKind::return_) {
      const bool last_two = op.operands.size() == 2 && known.size() >= 6 &&
                            op.operands[0] == known[known.size() - 2] && op.operands[1] == known.back();
      return last_two ? std::optional(steps) : std::nullopt;
    }
    if (op.results.size() != 1 || op.operands.size() > 3) return std::nullopt;
    Step step{op.kind, kNoDirection, {kNone, kNone, kNone}};
    if (op.kind == OpKind::compare_)
      step.direction = op.enumeration(Attr::comparison_direction, ComparisonDirection::kEq);
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const auto at = std::ranges::find(known, op.operands[i]);
      if (at == known.end()) return std::nullopt;
      step.operands[i] = static_cast<int>(at - known.begin());
    }
    steps.push_back(step);
    known.push_back(op.results[0]);
  }
  return std::nullopt;
}

// The second operand counts along the only reduced dimension.
bool counts_places(const Function& function, const Op& op, int64_t dimension) {
  const auto pattern = index_pattern(function, op.operands[1]);
  if (!pattern || pattern->offset != 0) return false;
  const Type& type = function.type(op.operands[1]);
  for (size_t d = 0; d < pattern->steps.size(); ++d)
    if (pattern->steps[d] != (static_cast<int64_t>(d) == dimension ? 1 : 0) &&
        type.dim(static_cast<int>(d)) != 1)
      return false;
  return true;
}

bool is_read_somewhere(const Function& function, ValueId value) {
  bool found = false;
  graph::walk(function, function.body(),
              [&](OpId id) { found = found || std::ranges::count(function.op(id).operands, value) > 0; });
  return found;
}

// Which comparison is better, where only the place is wanted: of zeros of both signs, the value would be one
// or the other.
std::optional<ComparisonDirection> extreme_of(const Function& function, const Op& op) {
  if (op.results.size() != 2 || !all_plain(function, op)) return std::nullopt;
  const Dims reduced = sorted_dimensions(op);
  const Type& type = function.type(op.operands[0]);
  const bool is_short_float = graph::is_float(type.element()) && graph::bit_width(type.element()) <= 32;
  if (reduced.size() != 1 || !is_short_float) return std::nullopt;
  const int64_t length = type.dim(static_cast<int>(reduced[0]));
  // Places are counted in fp32, less their number too.
  if (length < 2 || length >= int64_t{1} << 23) return std::nullopt;
  const auto start = splat_of(function, op.operands[2]), place = splat_of(function, op.operands[3]);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (!start || !place || *place != 0) return std::nullopt;
  const auto steps = steps_of(function, op.regions[0]);
  if (!steps || !counts_places(function, op, reduced[0])) return std::nullopt;
  for (const auto& [direction, worst] :
       {std::pair(ComparisonDirection::kGt, -kInfinity), std::pair(ComparisonDirection::kLt, kInfinity)})
    if (*start == worst && *steps == place_of(direction))
      return is_read_somewhere(function, op.results[0]) ? std::nullopt : std::optional(direction);
  return std::nullopt;
}

bool has_extreme(const Function& function, const Op& op) { return extreme_of(function, op).has_value(); }

// Slabs that meet one by one.
constexpr int64_t kSlabsMax = 24;
// Kept elements that fill a core's partitions.
constexpr int64_t kSlabElements = 1024;

bool has_few_slabs(const Type& type, int64_t dimension) {
  const int64_t slabs = type.dim(static_cast<int>(dimension));
  int64_t behind = 1;
  for (int d = static_cast<int>(dimension) + 1; d < type.rank(); ++d) behind *= type.dim(d);
  return slabs <= kSlabsMax && behind >= kSlabElements;
}

// As the region has it, from the first slab on: the better value, or one that is NaN, stays.
std::vector<ValueId> slab_by_slab(Builder& builder, const Function& function, const Op& op,
                                  std::span<const ValueId> operands, ComparisonDirection better) {
  const Type& type = function.type(op.operands[0]);
  const int64_t dimension = sorted_dimensions(op)[0];
  const auto as_good =
      better == ComparisonDirection::kGt ? ComparisonDirection::kGe : ComparisonDirection::kLe;
  const Dims shape(function.type(op.results[0]).dims().begin(), function.type(op.results[0]).dims().end());
  const auto slab = [&](int64_t i) {
    const ValueId part = part_of(builder, operands[0], dimension, i, i + 1);
    return Expr(builder, builder.reshape(part, shape)).as(ElementType::kF32);
  };
  Expr best = slab(0), place = best.number(0);
  for (int64_t i = 1; i < type.dim(static_cast<int>(dimension)); ++i) {
    const Expr x = slab(i);
    const Expr stays = best.compare(as_good, x) | is_nan(best);
    place = select(stays, place, place.number(static_cast<double>(i)));
    best = select(stays, best, x);
  }
  return {best.as(type.element()).id(), place.as(function.type(op.results[1]).element()).id()};
}

// Places of NaN count below zero, so that the first of them comes before any other.
std::vector<ValueId> extreme_and_place(Builder& builder, const Function& function, const Op& op,
                                       std::span<const ValueId> operands) {
  const ComparisonDirection better = *extreme_of(function, op);
  const bool is_largest = better == ComparisonDirection::kGt;
  const Type& type = function.type(op.operands[0]);
  if (has_few_slabs(type, sorted_dimensions(op)[0]))
    return slab_by_slab(builder, function, op, operands, better);
  const Dims reduced = sorted_dimensions(op), shape(type.dims().begin(), type.dims().end());
  const int64_t length = type.dim(static_cast<int>(reduced[0]));
  const double count = static_cast<double>(length), infinity = std::numeric_limits<double>::infinity();
  const Expr x = Expr(builder, operands[0]).as(ElementType::kF32), nan = is_nan(x);
  const ValueId line = builder.add(OpKind::iota_, {}, {{Attr::iota_dimension, int64_t{0}}},
                                   {Type::tensor(ElementType::kF32, {length})});
  const Expr place(builder, builder.broadcast_in_dim(line, shape, reduced));
  const Expr numbers = select(nan, x.number(is_largest ? -infinity : infinity), x);
  const Expr extreme(builder,
                     builder.reduce(is_largest ? OpKind::maximum_ : OpKind::minimum_, numbers.id(), reduced));
  Dims kept;
  for (int64_t d = 0; d < type.rank(); ++d)
    if (d != reduced[0]) kept.push_back(d);
  const Expr all(builder, builder.broadcast_in_dim(extreme.id(), shape, kept));
  const Expr hit = select(nan, place - count, select(x == all, place, place.number(count)));
  const Expr first(builder, builder.reduce(OpKind::minimum_, hit.id(), reduced));
  const Expr index = (first + count).binary(OpKind::remainder_, first.number(count));
  return {extreme.as(type.element()).id(), index.as(function.type(op.results[1]).element()).id()};
}

constexpr Expansion kReductionExpansions[] = {
    {OpKind::reduce_, reduces_single_ones, without_single_ones},
    {OpKind::reduce_, has_extreme, extreme_and_place},
    {OpKind::reduce_, has_few_columns, column_by_column},
    {OpKind::reduce_, has_two_steps, in_two_steps},
};

}  // namespace

std::span<const Expansion> reduction_expansions() { return kReductionExpansions; }

}  // namespace opentrn::compiler
