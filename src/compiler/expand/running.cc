// Running sums, products and extremes over rows longer than the kernel takes (lowering/scan.cc): pieces
// beside each other, then the running total of whole pieces, which meets every element of the next. Over few
// slabs: one after the other.
#include <algorithm>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/expand.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kLanes = 128, kShortestPiece = 64;

class Running {
 public:
  Running(Builder& builder, OpKind combiner, ValueId start, bool is_backward)
      : builder_(builder), combiner_(combiner), start_(start), is_backward_(is_backward) {}

  // Along dimension `d` of a value whose rows are long.
  ValueId cut(ValueId value, int64_t d) {
    const Type type = builder_.type(value);
    const int64_t length = type.dim(static_cast<int>(d));
    const int64_t piece = std::clamp((length + kLanes - 1) / kLanes, kShortestPiece, kScanColumns);
    const int64_t pieces = (length + piece - 1) / piece;
    const Dims none(static_cast<size_t>(type.rank()), 0);
    Dims high = none;
    high[static_cast<size_t>(d)] = pieces * piece - length;
    Dims split = type.dims_vector();
    split[static_cast<size_t>(d)] = pieces;
    split.insert(split.begin() + d + 1, piece);
    const ValueId inner =
        along(builder_.reshape(padded(builder_, value, start_, none, high, none), split), d + 1);
    const int64_t last = is_backward_ ? 0 : piece - 1;
    Dims counted = split;
    counted.erase(counted.begin() + d + 1);
    const ValueId totals = builder_.reshape(part_of(builder_, inner, d + 1, last, last + 1), counted);
    // Of the pieces before: moved by one.
    const ValueId before = moved(along(totals, d), d);
    Dims kept;
    for (int64_t i = 0; i < type.rank() + 1; ++i)
      if (i != d + 1) kept.push_back(i);
    const ValueId spread = builder_.broadcast_in_dim(before, split, kept);
    const ValueId all = builder_.add(combiner_, {spread, inner});
    Dims whole = type.dims_vector();
    whole[static_cast<size_t>(d)] = pieces * piece;
    return part_of(builder_, builder_.reshape(all, whole), d, 0, length);
  }

 private:
  ValueId along(ValueId value, int64_t d) {
    const Type type = builder_.type(value), scalar = type.with_dims({});
    const int64_t length = type.dim(static_cast<int>(d));
    if (length > kScanColumns) return cut(value, d);
    if (length == 1) return value;
    const auto rank = static_cast<size_t>(type.rank());
    Dims sizes(rank, 1);
    sizes[static_cast<size_t>(d)] = length;
    graph::IntMatrix padding{static_cast<int64_t>(rank), 2, std::vector<int64_t>(2 * rank, 0)};
    padding.values[2 * static_cast<size_t>(d) + (is_backward_ ? 1 : 0)] = length - 1;
    const graph::RegionBody body{{scalar, scalar}, [&](Builder& inner, std::span<const ValueId> a) {
                                   return std::vector{inner.add(combiner_, {a[0], a[1]})};
                                 }};
    const OpId made = builder_.add_with_regions(OpKind::reduce_window_, {value, start_},
                                                {{Attr::window_dimensions, Attribute(std::move(sizes))},
                                                 {Attr::padding, Attribute(std::move(padding))}},
                                                {type}, {body});
    return builder_.function().op(made).results[0];
  }

  ValueId moved(ValueId totals, int64_t d) {
    const Dims none(static_cast<size_t>(builder_.type(totals).rank()), 0);
    Dims low = none, high = none;
    low[static_cast<size_t>(d)] = is_backward_ ? -1 : 1;
    high[static_cast<size_t>(d)] = is_backward_ ? 1 : -1;
    return padded(builder_, totals, start_, low, high, none);
  }

  Builder& builder_;
  OpKind combiner_;
  ValueId start_;
  bool is_backward_;
};

bool is_long_run(const Function& function, const Op& op) {
  const auto form = running_form_of(function, op);
  return form && form->length > kScanColumns;
}

std::vector<ValueId> by_pieces(Builder& builder, const Function& function, const Op& op,
                               std::span<const ValueId> operands) {
  const RunningForm form = *running_form_of(function, op);
  return {Running(builder, *combiner_of(function, op), operands[1], form.is_backward)
              .cut(operands[0], form.dimension)};
}

// Few steps over many elements that lie behind them: slab by slab, each in all partitions, where the kernel
// would take a row of few columns in each.
constexpr int64_t kFewSlabs = 16, kSlabMin = 256;

bool is_short_run(const Function& function, const Op& op) {
  const auto form = running_form_of(function, op);
  if (!form || form->length > kFewSlabs) return false;
  const Type& type = function.type(op.operands[0]);
  int64_t behind = 1;
  for (int64_t d = form->dimension + 1; d < type.rank(); ++d) behind *= type.dim(static_cast<int>(d));
  return behind >= kSlabMin;
}

std::vector<ValueId> slab_by_slab(Builder& builder, const Function& function, const Op& op,
                                  std::span<const ValueId> operands) {
  const RunningForm form = *running_form_of(function, op);
  const OpKind combiner = *combiner_of(function, op);
  std::vector<ValueId> slabs(static_cast<size_t>(form.length));
  for (int64_t i = 0; i < form.length; ++i) {
    const int64_t at = form.is_backward ? form.length - 1 - i : i,
                  before = form.is_backward ? at + 1 : at - 1;
    const ValueId slab = part_of(builder, operands[0], form.dimension, at, at + 1);
    slabs[static_cast<size_t>(at)] =
        i == 0 ? slab : builder.add(combiner, {slabs[static_cast<size_t>(before)], slab});
  }
  return {builder.concatenate(std::move(slabs), form.dimension)};
}

constexpr Expansion kRunningExpansions[] = {{OpKind::reduce_window_, is_long_run, by_pieces},
                                            {OpKind::reduce_window_, is_short_run, slab_by_slab}};

}  // namespace

std::span<const Expansion> running_expansions() { return kRunningExpansions; }

}  // namespace opentrn::compiler
