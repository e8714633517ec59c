// Scatters that add, as those that the kernel of summed rows takes (lowering/scatter_sums.cc).
//
// Numbers at places of several components (`x.at[i, j].add(y)`, the gradient of take_along_axis) become
// numbers at places of the flattened operand. Whole numbers of 32 bits are summed as bytes, in fp32: 65,536
// times 255 are below 2^24, so that no sum is rounded, and bytes at their places wrap as the whole numbers
// do. Rows of floats of 16 bits (the gradient of an embedding) are summed in fp32 and rounded once.
#include <algorithm>
#include <functional>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/scatter_rows.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

// fp32 keeps places apart up to here.
constexpr int64_t kMostSummedElements = int64_t{1} << 24;
constexpr int64_t kBytes = 4, kByteWindows = 65536;

bool adds(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.size() != 3) return false;
  for (const ValueId id : op.operands) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || type.element_count() == 0)
      return false;
  }
  return combiner_of(function, op) == OpKind::add_;
}

bool is_whole(ElementType element) { return element == ElementType::kI32 || element == ElementType::kUI32; }

ValueId scattered(Builder& builder, ValueId into, ValueId indices, ValueId updates,
                  Builder::Attributes attributes) {
  const Type type = builder.type(into), scalar = type.with_dims({});
  const graph::RegionBody sum{{scalar, scalar}, [](Builder& body, std::span<const ValueId> a) {
                                return std::vector{body.add(OpKind::add_, {a[0], a[1]})};
                              }};
  const OpId made = builder.add_with_regions(OpKind::scatter_, {into, indices, updates},
                                             std::move(attributes), {type}, {sum});
  return builder.function().op(made).results[0];
}

// -- several components

bool places_numbers(const Function& function, const Op& op) {
  const Type& table = function.type(op.operands[0]);
  const auto rank = static_cast<size_t>(table.rank());
  const bool is_float = table.element() == ElementType::kF32;
  return adds(function, op) && rank > 1 && (is_float || is_whole(table.element())) &&
         table.element_count() <= kMostSummedElements && dims_of(op, Attr::update_window_dims).empty() &&
         dims_of(op, Attr::inserted_window_dims).size() + dims_of(op, Attr::input_batching_dims).size() ==
             rank;
}

// The place of each number in the flattened operand; -1 outside.
class FlatPlaces {
 public:
  FlatPlaces(Builder& builder, const Function& function, const Op& op, ValueId indices)
      : builder_(builder),
        op_(op),
        table_(function.type(op.operands[0])),
        indices_(indices),
        vector_(op.integer(Attr::index_vector_dim)) {
    shape_ = builder.type(indices).dims_vector();
    if (vector_ < static_cast<int64_t>(shape_.size())) shape_.erase(shape_.begin() + vector_);
  }

  ValueId made() {
    Expr flat(builder_, builder_.splat(Type::tensor(ElementType::kI32, shape_), 0.0));
    Expr inside = flat == 0.0;
    const Dims placed = dims_of(op_, Attr::scatter_dims_to_operand_dims);
    for (size_t j = 0; j < placed.size(); ++j) {
      const Expr at = component(static_cast<int64_t>(j));
      const auto size = static_cast<double>(table_.dim(static_cast<int>(placed[j])));
      inside = inside & (at >= 0.0) & (at < size);
      flat = flat + at * step(placed[j]);
    }
    const Dims batches = dims_of(op_, Attr::input_batching_dims),
               of_indices = dims_of(op_, Attr::scatter_indices_batching_dims);
    for (size_t i = 0; i < batches.size(); ++i) {
      const int64_t d = of_indices[i] < vector_ ? of_indices[i] : of_indices[i] - 1;
      const Expr count(builder_, builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(d)}},
                                              {Type::tensor(ElementType::kI32, shape_)}));
      flat = flat + count * step(batches[i]);
    }
    return select(inside, flat, flat.number(-1)).id();
  }

 private:
  Expr component(int64_t number) {
    const bool has_vector = vector_ < builder_.type(indices_).rank();
    const ValueId one = has_vector ? part_of(builder_, indices_, vector_, number, number + 1) : indices_;
    return Expr(builder_, builder_.reshape(one, shape_)).as(ElementType::kI32);
  }
  double step(int64_t d) const {
    int64_t step = 1;
    for (int64_t i = d + 1; i < table_.rank(); ++i) step *= table_.dim(static_cast<int>(i));
    return static_cast<double>(step);
  }

  Builder& builder_;
  const Op& op_;
  const Type& table_;
  ValueId indices_;
  int64_t vector_;
  Dims shape_;  // of the windows
};

std::vector<ValueId> at_flat_places(Builder& builder, const Function& function, const Op& op,
                                    std::span<const ValueId> operands) {
  const Type table = builder.type(operands[0]);
  const int64_t count = builder.type(operands[2]).element_count();
  const ValueId places = builder.reshape(FlatPlaces(builder, function, op, operands[1]).made(), {count, 1});
  const ValueId sums = scattered(builder, builder.reshape(operands[0], {table.element_count()}), places,
                                 builder.reshape(operands[2], {count}),
                                 {{Attr::update_window_dims, Attribute(Dims{})},
                                  {Attr::inserted_window_dims, Attribute(Dims{0})},
                                  {Attr::scatter_dims_to_operand_dims, Attribute(Dims{0})},
                                  {Attr::index_vector_dim, Attribute(int64_t{1})}});
  return {builder.reshape(sums, table.dims_vector())};
}

// -- whole numbers

bool sums_whole_numbers(const Function& function, const Op& op) {
  return adds(function, op) && is_whole(function.type(op.operands[0]).element()) &&
         has_whole_row_sums(function, op);
}

std::vector<ValueId> by_bytes(Builder& builder, const Function& function, const Op& op,
                              std::span<const ValueId> operands) {
  const Type table = builder.type(operands[0]);
  const ScatterRows rows = scatter_rows(builder, function, op, operands[1], operands[2], 1);
  const Expr zero(builder, builder.splat(table.with_element(ElementType::kF32), 0.0));
  const int64_t count = builder.type(rows.indices).dim(0);
  Expr total(builder, operands[0]);
  const auto add = [&](const Expr& part, int64_t begin, int64_t end,
                       const std::function<Expr(const Expr&)>& placed) {
    const ValueId indices = part_of(builder, rows.indices, 0, begin, end);
    const Expr sums(builder, scattered(builder, zero.id(), indices, part.id(), row_scatter_attributes(op)));
    total = total + placed(sums.as(table.element()));
  };
  if (const auto same = splat_of(function, op.operands[2])) {  // counts
    const Expr ones =
        Expr(builder, builder.splat(builder.type(rows.updates).with_element(ElementType::kF32), 1.0));
    add(ones, 0, count, [&](const Expr& sums) { return sums * *same; });
    return {total.id()};
  }
  for (int64_t begin = 0; begin < count; begin += kByteWindows) {
    const int64_t end = std::min(begin + kByteWindows, count);
    const Expr updates(builder, part_of(builder, rows.updates, 0, begin, end));
    for (int byte = 0; byte < kBytes; ++byte)
      add(((updates >> (8 * byte)) & updates.number(255)).as(ElementType::kF32), begin, end,
          [&](const Expr& sums) { return sums << (8 * byte); });
  }
  return {total.id()};
}

// -- floats of 16 bits

// A table that is read and written as a whole has to be worth it: at least a window for so many rows.
constexpr int64_t kRowsOfAWindow = 64;

bool sums_short_floats(const Function& function, const Op& op) {
  const Type& table = function.type(op.operands[0]);
  return (table.element() == ElementType::kBF16 || table.element() == ElementType::kF16) &&
         adds(function, op) && has_whole_row_sums(function, op) &&
         (splat_of(function, op.operands[0]) ||
          function.type(op.operands[1]).element_count() * kRowsOfAWindow >= table.dim(0));
}

std::vector<ValueId> in_fp32(Builder& builder, const Function& function, const Op& op,
                             std::span<const ValueId> operands) {
  const Type table = builder.type(operands[0]);
  const auto same = splat_of(function, op.operands[0]);
  const ValueId into = same ? builder.splat(table.with_element(ElementType::kF32), *same)
                            : builder.convert(operands[0], ElementType::kF32);
  const ValueId sums =
      scattered(builder, into, operands[1], builder.convert(operands[2], ElementType::kF32), op.attributes);
  return {builder.convert(sums, table.element())};
}

constexpr Expansion kSumScatterExpansions[] = {{OpKind::scatter_, places_numbers, at_flat_places},
                                               {OpKind::scatter_, sums_whole_numbers, by_bytes},
                                               {OpKind::scatter_, sums_short_floats, in_fp32}};

}  // namespace

std::span<const Expansion> sum_scatter_expansions() { return kSumScatterExpansions; }

}  // namespace opentrn::compiler
