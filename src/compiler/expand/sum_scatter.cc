// Scatters that add, as those that the kernel of summed rows takes (lowering/scatter_sums.cc).
//
// Whole numbers of 32 bits are summed as bytes, in fp32: 65,536 times 255 are below 2^24, so that no sum is
// rounded, and bytes at their places wrap as the whole numbers do. Rows of floats of 16 bits (the gradient of
// an embedding) are summed in fp32 and rounded once.
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

constexpr Expansion kSumScatterExpansions[] = {{OpKind::scatter_, sums_whole_numbers, by_bytes},
                                               {OpKind::scatter_, sums_short_floats, in_fp32}};

}  // namespace

std::span<const Expansion> sum_scatter_expansions() { return kSumScatterExpansions; }

}  // namespace opentrn::compiler
