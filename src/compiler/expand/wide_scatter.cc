// Scatters of windows larger than the kernel holds (lowering/scatter.cc), such as a block of a matrix that is
// set: window after window is sliced out, combined with its update, and put back. Slices are clamped into the
// operand, so that a window that lies outside puts back what was there.
#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/expand/complex_parts.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/scatter_rows.h"
#include "compiler/lowering/takes.h"
#include "compiler/rewrite/inline_region.h"

namespace opentrn::compiler {

namespace {

// One window at the operand's beginning: there are no indices.
bool is_unplaced(const Function& function, const Op& op) {
  return dims_of(op, Attr::scatter_dims_to_operand_dims).empty() && scatter_dims(function, op).empty();
}

bool takes_wide_scatter(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.operands.size() != 3 || !dims_of(op, Attr::input_batching_dims).empty())
    return false;
  for (const ValueId id : op.operands) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization()) return false;
    if (type.element_count() == 0 && !(id == op.operands[1] && is_unplaced(function, op))) return false;
  }
  return count_of(function.type(op.operands[2]), dims_of(op, Attr::update_window_dims)) >
             kScatterWindowElementsMax &&
         can_inline_region(function, op.regions[0]);
}

// Where a window lies in the operand.
struct Place {
  std::vector<ValueId> start;  // i32 scalars
  Dims sizes;
  ValueId inside;  // i1
};

// `indices`: [1, components], in i32.
Place place_of(Builder& builder, const Op& op, const Type& operand, const Type& update, ValueId indices) {
  const Dims inserted = dims_of(op, Attr::inserted_window_dims),
             indexed = dims_of(op, Attr::scatter_dims_to_operand_dims);
  const Type scalar = Type::scalar(ElementType::kI32);
  Place place;
  for (int64_t d = 0, window = 1; d < operand.rank(); ++d)
    place.sizes.push_back(
        std::ranges::find(inserted, d) != inserted.end() ? 1 : update.dim(static_cast<int>(window++)));
  place.start.assign(static_cast<size_t>(operand.rank()), builder.splat(scalar, 0));
  Expr inside(builder, builder.splat(Type::scalar(ElementType::kI1), 1));
  for (size_t component = 0; component < indexed.size(); ++component) {
    const auto d = static_cast<size_t>(indexed[component]);
    const auto c = static_cast<int64_t>(component);
    const Expr at(builder, builder.reshape(builder.slice(indices, {0, c}, {1, c + 1}), {}));
    const auto last = static_cast<double>(operand.dim(static_cast<int>(d)) - place.sizes[d]);
    place.start[d] = at.id();
    inside = inside & (at >= 0.0) & (at <= last);
  }
  place.inside = inside.id();
  return place;
}

ValueId sliced(Builder& builder, ValueId from, const Place& place) {
  std::vector<ValueId> operands{from};
  operands.insert(operands.end(), place.start.begin(), place.start.end());
  return builder.add(OpKind::dynamic_slice_, std::move(operands),
                     {{Attr::slice_sizes, Attribute(place.sizes)}});
}

ValueId put_back(Builder& builder, ValueId into, ValueId window, const Place& place) {
  std::vector<ValueId> operands{into, window};
  operands.insert(operands.end(), place.start.begin(), place.start.end());
  return builder.add(OpKind::dynamic_update_slice_, std::move(operands));
}

std::vector<ValueId> wide_one_by_one(Builder& builder, const Function& function, const Op& op,
                                     std::span<const ValueId> operands) {
  const auto step = [&](Builder& body, std::span<const ValueId> into, const ScatterPart& part) {
    const Place place = place_of(body, op, body.type(into[0]), body.type(part.updates), part.indices);
    std::vector<ValueId> there, results;
    for (const ValueId each : into) there.push_back(sliced(body, each, place));
    const std::vector<ValueId> arguments{from_real_values(body, there),
                                         body.reshape(part.updates, place.sizes)};
    const ValueId made = inline_region(body, function, op.regions[0], arguments, place.sizes).front();
    const ValueId inside = body.broadcast_in_dim(place.inside, place.sizes, {});
    const std::vector<ValueId> windows = real_values(body, made);
    for (size_t i = 0; i < into.size(); ++i) {
      const ValueId kept = body.add(OpKind::select_, {inside, windows[i], there[i]});
      results.push_back(put_back(body, into[i], kept, place));
    }
    return results;
  };
  const std::vector<ValueId> start = real_values(builder, operands[0]);
  if (is_unplaced(function, op)) {
    Dims dims = builder.type(operands[2]).dims_vector();
    dims.insert(dims.begin(), 1);
    return {
        from_real_values(builder, step(builder, start, {operands[1], builder.reshape(operands[2], dims)}))};
  }
  ScatterRows rows = scatter_rows(builder, function, op, operands[1], operands[2], 1);
  rows.indices = builder.convert(rows.indices, ElementType::kI32);
  if (builder.type(rows.indices).dim(0) == 1)
    return {from_real_values(builder, step(builder, start, {rows.indices, rows.updates}))};
  return {from_real_values(builder, for_scatter_parts(builder, rows, start, step))};
}

constexpr Expansion kWideScatterExpansions[] = {{OpKind::scatter_, takes_wide_scatter, wide_one_by_one}};

}  // namespace

std::span<const Expansion> wide_scatter_expansions() { return kWideScatterExpansions; }

}  // namespace opentrn::compiler
