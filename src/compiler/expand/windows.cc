// Ops with regions, as ops on whole tensors: map and reduce_window with any element-wise region,
// long reductions with any region, top_k as a sort.
//
// Windows of a reduction are combined by doubling: sums over 2, 4, 8, ... neighbours, from which any window
// follows, dimension by dimension. StableHLO leaves the grouping to the implementation, not the order, and
// lets an initial value be met as often as wanted. A window of n elements takes log2(n) combinations.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"
#include "compiler/expand/window_attributes.h"
#include "compiler/lowering/takes.h"
#include "compiler/rewrite/inline_region.h"

namespace opentrn::compiler {

namespace {

using Values = std::vector<ValueId>;
using Operands = std::span<const ValueId>;
// Elements of a row that are reduced together where a reduction has several operands, or any region.
constexpr int64_t kReducedPiece = 1024;
// Columns of a row of top_k that are sorted together, where not many more are wanted.
constexpr int64_t kPiece = 256;

Dims dims_of(const graph::Type& type) { return {type.dims().begin(), type.dims().end()}; }

bool is_static_tensor(const Function& function, ValueId id) {
  const graph::Type& type = function.type(id);
  return type.is_tensor() && type.is_static() && !type.quantization() && type.element_count() > 0 &&
         device_dtype(type.element());
}

bool all_static(const Function& function, const Op& op) {
  const auto fits = [&](ValueId id) { return is_static_tensor(function, id); };
  return std::all_of(op.operands.begin(), op.operands.end(), fits) &&
         std::all_of(op.results.begin(), op.results.end(), fits);
}

// -- map

bool takes_map(const Function& function, const Op& op) {
  return all_static(function, op) && can_inline_region(function, op.regions[0]);
}

Values map(Builder& builder, const Function& function, const Op& op, Operands operands) {
  return inline_region(builder, function, op.regions[0], operands, dims_of(function.type(op.results[0])));
}

// -- windows

// Neighbours along one dimension: windows of `size` elements, `dilation` apart, at every place.
class Doubling {
 public:
  Doubling(Builder& builder, const Function& function, const Op& op, size_t dimension)
      : builder_(builder), function_(function), op_(op), dimension_(dimension) {}

  Values windows(const Values& values, int64_t size, int64_t dilation) {
    std::optional<Values> total;
    int64_t covered = 0;
    Values run = values;  // over `length` neighbours
    for (int64_t length = 1; length <= size; length *= 2) {
      if (length > 1) run = joined(run, run, length / 2 * dilation);
      if ((size & length) == 0) continue;
      total = total ? joined(*total, run, covered * dilation) : run;
      covered += length;
    }
    return *total;
  }

 private:
  // Each element of `a` with the one of `b` that lies `distance` further on.
  Values joined(const Values& a, const Values& b, int64_t distance) {
    Dims count = dims_of(builder_.type(b[0]));
    count[dimension_] =
        std::min(builder_.type(a[0]).dim(static_cast<int>(dimension_)), count[dimension_] - distance);
    Values arguments;
    for (const ValueId value : a) arguments.push_back(part(value, 0, count));
    for (const ValueId value : b) arguments.push_back(part(value, distance, count));
    return inline_region(builder_, function_, op_.regions[0], arguments, count);
  }

  ValueId part(ValueId value, int64_t begin, const Dims& count) {
    Dims start(count.size(), 0);
    start[dimension_] = begin;
    return strided(builder_, value, start, count, Dims(count.size(), 1));
  }

  Builder& builder_;
  const Function& function_;
  const Op& op_;
  size_t dimension_;
};

bool takes_reduce_window(const Function& function, const Op& op) {
  return !has_reduce_window(function, op) && !has_scan(function, op) && all_static(function, op) &&
         can_inline_region(function, op.regions[0]);
}

Values reduce_window(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const Windows windows(function, op);
  const size_t count = op.results.size(), rank = windows.size.size();
  Dims interior = windows.base_dilation;
  for (int64_t& n : interior) --n;
  Values values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(padded(builder, operands[i], operands[count + i], windows.low, windows.high, interior));
  for (size_t d = rank; d-- > 0;)
    if (windows.size[d] > 1)
      values = Doubling(builder, function, op, d).windows(values, windows.size[d], windows.dilation[d]);
  const Dims dims = dims_of(function.type(op.results[0]));
  Values arguments;
  for (size_t i = 0; i < count; ++i)
    arguments.push_back(builder.broadcast_in_dim(operands[count + i], dims, {}));
  for (const ValueId value : values)
    arguments.push_back(strided(builder, value, Dims(rank, 0), dims, windows.stride));
  return inline_region(builder, function, op.regions[0], arguments, dims);
}

// Windows over a dimension that has others inside it, as the depth of videos: slabs as a whole. The kernel
// has its windows over the last two dimensions, to which it would bring elements one by one.

// Elements of a slab, for which a descriptor is worth it; slabs of a window that are combined one by one.
constexpr int64_t kSlabElementsMin = 16, kSlabsMax = 8;

// The dimensions whose windows are combined by slabs, outermost first.
std::vector<size_t> slab_dimensions(const Function& function, const Op& op) {
  const Windows windows(function, op);
  const Dims dims = dims_of(function.type(op.operands[0]));
  std::vector<size_t> windowed;
  for (size_t d = 0; d < dims.size(); ++d)
    if (windows.size[d] != 1 || windows.stride[d] != 1 || windows.low[d] != 0 || windows.high[d] != 0 ||
        windows.base_dilation[d] != 1)
      windowed.push_back(d);
  const size_t last = dims.size() - 1;
  const auto is_next_to_last = [&](size_t d) { return d + 1 >= last; };
  // One or two in front of channels are the kernel's as they are, which turns rows of channels on the chip.
  if (windowed.empty() || (windowed.size() == 2 && (windowed[1] != last || is_next_to_last(windowed[0]))) ||
      (windowed.size() == 1 && windowed[0] + 1 == last && windows.size[windowed[0]] <= kSlabsMax))
    return {};
  std::vector<size_t> outer;
  for (const size_t d : windowed)
    if (windowed.size() == 1 ? d != last : !is_next_to_last(d)) outer.push_back(d);
  int64_t inside = 1;
  for (size_t d = outer.empty() ? 0 : outer.back() + 1; d < dims.size(); ++d) inside *= dims[d];
  if (inside < kSlabElementsMin) outer.clear();
  return outer;
}

bool has_slabs(const Function& function, const Op& op) {
  return op.results.size() == 1 && !has_scan(function, op) && all_static(function, op) &&
         can_inline_region(function, op.regions[0]) && !slab_dimensions(function, op).empty();
}

class Slabs {
 public:
  Slabs(Builder& builder, const Function& function, const Op& op, Operands operands)
      : builder_(builder),
        function_(function),
        op_(op),
        windows_(function, op),
        initial_(operands[1]),
        outer_(slab_dimensions(function, op)) {}

  ValueId run(ValueId value) {
    value = inner(value);
    for (const size_t d : outer_) value = combined(value, d);
    const Dims dims = dims_of(function_.type(op_.results[0]));
    return joined(builder_.broadcast_in_dim(initial_, dims, {}), value);
  }

 private:
  ValueId joined(ValueId a, ValueId b) {
    const Dims dims = dims_of(builder_.type(a));
    return inline_region(builder_, function_, op_.regions[0], std::vector<ValueId>{a, b}, dims)[0];
  }

  // The windows over the other dimensions.
  ValueId inner(ValueId value) {
    Windows rest = windows_;
    Dims dims = dims_of(function_.type(op_.results[0]));
    for (const size_t d : outer_) {
      rest.size[d] = rest.stride[d] = rest.base_dilation[d] = rest.dilation[d] = 1;
      rest.low[d] = rest.high[d] = 0;
      dims[d] = builder_.type(value).dim(static_cast<int>(d));
    }
    if (dims == dims_of(builder_.type(value)) && rest.places() == 1) return value;
    graph::IntMatrix padding{static_cast<int64_t>(dims.size()), 2, {}};
    for (size_t d = 0; d < dims.size(); ++d) {
      padding.values.push_back(rest.low[d]);
      padding.values.push_back(rest.high[d]);
    }
    const graph::Type scalar = builder_.type(initial_);
    const graph::RegionBody body{{scalar, scalar}, [&](Builder& inside, Operands arguments) {
                                   return inline_region(inside, function_, op_.regions[0], arguments, {});
                                 }};
    const graph::OpId made =
        builder_.add_with_regions(OpKind::reduce_window_, {value, initial_},
                                  {{Attr::window_dimensions, graph::Attribute(rest.size)},
                                   {Attr::window_strides, graph::Attribute(rest.stride)},
                                   {Attr::base_dilations, graph::Attribute(rest.base_dilation)},
                                   {Attr::window_dilations, graph::Attribute(rest.dilation)},
                                   {Attr::padding, graph::Attribute(std::move(padding))}},
                                  {builder_.type(value).with_dims(std::move(dims))}, {body});
    return builder_.function().op(made).results[0];
  }

  ValueId combined(ValueId value, size_t d) {
    Dims low(windows_.size.size(), 0), high = low, interior = low, stride(low.size(), 1);
    low[d] = windows_.low[d];
    high[d] = windows_.high[d];
    interior[d] = windows_.base_dilation[d] - 1;
    stride[d] = windows_.stride[d];
    ValueId whole = padded(builder_, value, initial_, low, high, interior);
    int64_t count = windows_.size[d];
    if (count > kSlabsMax) {
      whole = Doubling(builder_, function_, op_, d).windows({whole}, count, windows_.dilation[d])[0];
      count = 1;
    }
    Dims dims = dims_of(builder_.type(value)), start(dims.size(), 0);
    dims[d] = function_.type(op_.results[0]).dim(static_cast<int>(d));
    std::optional<ValueId> total;
    for (int64_t i = 0; i < count; ++i) {
      start[d] = i * windows_.dilation[d];
      const ValueId slab = strided(builder_, whole, start, dims, stride);
      total = total ? joined(*total, slab) : slab;
    }
    return *total;
  }

  Builder& builder_;
  const Function& function_;
  const Op& op_;
  Windows windows_;
  ValueId initial_;
  std::vector<size_t> outer_;
};

Values by_slabs(Builder& builder, const Function& function, const Op& op, Operands operands) {
  return {Slabs(builder, function, op, operands).run(operands[0])};
}

// -- reductions of several operands, or of any region, whose rows are longer than the kernel takes

// Ops on complex numbers in a region are expanded first.
bool has_complex(const Function& function, graph::BlockId region) {
  bool found = false;
  graph::walk(function, region, [&](graph::OpId id) {
    for (const ValueId result : function.op(id).results)
      found |= function.type(result).is_tensor() && graph::is_complex(function.type(result).element());
  });
  return found;
}

bool takes_reduce(const Function& function, const Op& op) {
  return !has_lowering(function, op) && all_static(function, op) && !has_complex(function, op.regions[0]) &&
         can_inline_region(function, op.regions[0]);
}

// `op` over one dimension of `values`; an initial value may be met as often as wanted.
Values reduced(Builder& builder, const Function& function, const Op& op, Values values, Operands initial,
               int64_t dimension) {
  std::vector<graph::Type> types, scalars;
  for (const ValueId value : values) {
    Dims dims = dims_of(builder.type(value));
    dims.erase(dims.begin() + dimension);
    types.push_back(builder.type(value).with_dims(dims));
    scalars.push_back(builder.type(value).with_dims({}));
  }
  std::vector<graph::Type> arguments = scalars;
  arguments.insert(arguments.end(), scalars.begin(), scalars.end());
  const graph::RegionBody body{arguments, [&](Builder& inner, std::span<const ValueId> a) {
                                 return inline_region(inner, function, op.regions[0], a, {});
                               }};
  values.insert(values.end(), initial.begin(), initial.end());
  const graph::OpId made = builder.add_with_regions(OpKind::reduce_, std::move(values),
                                                    {{Attr::dimensions, Dims{dimension}}}, types, {body});
  return builder.function().op(made).results;
}

// Dimension by dimension, the innermost first; long ones piece by piece, so that neighbours stay in order.
Values reduce(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const size_t count = op.results.size();
  const Operands initial = operands.subspan(count);
  Values values(operands.begin(), operands.begin() + static_cast<int64_t>(count));
  Dims dimensions(op.integers(Attr::dimensions).begin(), op.integers(Attr::dimensions).end());
  std::sort(dimensions.rbegin(), dimensions.rend());
  for (const int64_t d : dimensions) {
    const auto at = static_cast<size_t>(d);
    const int64_t length = builder.type(values[0]).dim(static_cast<int>(d));
    if (length > kReducedPiece) {
      const int64_t pieces = (length + kReducedPiece - 1) / kReducedPiece;
      for (size_t i = 0; i < count; ++i) {
        Dims dims = dims_of(builder.type(values[i]));
        const Dims none(dims.size(), 0);
        Dims high = none;
        high[at] = pieces * kReducedPiece - length;
        dims[at] = pieces;
        dims.insert(dims.begin() + d + 1, kReducedPiece);
        values[i] = builder.reshape(padded(builder, values[i], initial[i], none, high, none), dims);
      }
      values = reduced(builder, function, op, std::move(values), initial, d + 1);
    }
    values = reduced(builder, function, op, std::move(values), initial, d);
  }
  return values;
}

// -- top_k

bool takes_top_k(const Function& function, const Op& op) {
  return is_static_tensor(function, op.operands[0]) && function.type(op.operands[0]).rank() > 0 &&
         !has_top_k(function, op);
}

// Long rows as pieces for the kernel of largest elements: so many that all partitions have one, but no more
// than makes pieces as long as the row of what goes on, k of each: the kernel goes over both as often. 0
// where the kernel takes no piece of it.
int64_t kernel_pieces(const graph::Type& type, int64_t k) {
  constexpr int64_t kPartitions = 128, kPieceMin = 256;
  const int64_t length = type.dim(type.rank() - 1), rows = type.element_count() / length;
  if (!graph::is_float(type.element()) || graph::bit_width(type.element()) > 32 || k < 1 || k > kTopKMost)
    return 0;
  const auto equal = static_cast<int64_t>(std::sqrt(static_cast<double>(length) / static_cast<double>(k)));
  const int64_t least = (length + kTopKColumns - 1) / kTopKColumns,
                most = std::min(equal, length / kPieceMin);
  return std::max(least, std::min(most, kPartitions / rows));
}

// Columns of values and their places, the largest values first, equal ones in their order.
Values sorted(Builder& builder, ValueId values, ValueId numbers) {
  const graph::Type type = builder.type(values), places = builder.type(numbers);
  const int64_t last = type.rank() - 1;
  const graph::Type x = type.with_dims({}), place = places.with_dims({});
  const auto kind =
      graph::is_float(type.element()) ? graph::ComparisonType::kTotalOrder : graph::ComparisonType::kNone;
  const graph::RegionBody larger{
      {x, x, place, place}, [&](Builder& body, std::span<const ValueId> a) -> Values {
        return {body.add(OpKind::compare_, {a[0], a[1]},
                         {{Attr::comparison_direction, static_cast<int64_t>(graph::ComparisonDirection::kGt)},
                          {Attr::compare_type, static_cast<int64_t>(kind)}})};
      }};
  const graph::OpId made =
      builder.add_with_regions(OpKind::sort_, {values, numbers},
                               {{Attr::dimension, last}, {Attr::is_stable, true}}, {type, places}, {larger});
  return builder.function().op(made).results;
}

// What no value lies below, in the total order of floats.
graph::Literal lowest(graph::ElementType element) {
  const graph::Type type = graph::Type::tensor(element, {});
  if (!graph::is_float(element)) return graph::neutral_element(OpKind::maximum_, element);
  return graph::splat_literal(type, -std::numeric_limits<double>::quiet_NaN());
}

// The last `count` dimensions become these.
ValueId with_last(Builder& builder, ValueId value, int count, const Dims& last) {
  Dims dims = dims_of(builder.type(value));
  dims.resize(dims.size() - static_cast<size_t>(count));
  dims.insert(dims.end(), last.begin(), last.end());
  return builder.reshape(value, std::move(dims));
}

// Rows that are long for what is wanted of them are cut: pieces are sorted beside each other, and what each
// may give goes on. Pieces stay in order, so that equal values do.
Values largest(Builder& builder, ValueId values, ValueId numbers, int64_t k) {
  const graph::Type type = builder.type(values);
  const int64_t last = type.rank() - 1, length = type.dim(static_cast<int>(last));
  const int64_t piece = std::max(kPiece, 4 * k);
  if (length > 2 * piece) {
    const int64_t pieces = (length + piece - 1) / piece, missing = pieces * piece - length;
    const auto rank = static_cast<size_t>(type.rank());
    Dims none(rank, 0), high(rank, 0);
    high.back() = missing;
    const ValueId least = builder.constant(lowest(type.element()));
    const ValueId zero = builder.splat(builder.type(numbers).with_dims({}), 0.0);
    const ValueId all =
        with_last(builder, padded(builder, values, least, none, high, none), 1, {pieces, piece});
    const ValueId all_numbers =
        with_last(builder, padded(builder, numbers, zero, none, high, none), 1, {pieces, piece});
    const Values best = largest(builder, all, all_numbers, k);
    return largest(builder, with_last(builder, best[0], 2, {pieces * k}),
                   with_last(builder, best[1], 2, {pieces * k}), k);
  }
  const Values all = sorted(builder, values, numbers);
  Dims count = dims_of(type);
  count.back() = k;
  const Dims first(count.size(), 0);
  return {builder.slice(all[0], first, count), builder.slice(all[1], first, count)};
}

// values[row, place] for places of [rows, k].
ValueId taken_along(Builder& builder, ValueId values, ValueId places) {
  const graph::Type type = builder.type(values);
  const Dims shape = dims_of(builder.type(places));
  return builder.add(OpKind::gather_, {values, builder.reshape(places, {shape[0], shape[1], 1})},
                     {{Attr::collapsed_slice_dims, Dims{1}},
                      {Attr::operand_batching_dims, Dims{0}},
                      {Attr::start_indices_batching_dims, Dims{0}},
                      {Attr::start_index_map, Dims{1}},
                      {Attr::offset_dims, Dims{}},
                      {Attr::index_vector_dim, int64_t{2}},
                      {Attr::indices_are_sorted, false},
                      {Attr::slice_sizes, Dims{1, 1}}},
                     {type.with_dims(shape)});
}

Values largest_of_pieces(Builder& builder, ValueId given, int64_t k, int64_t pieces) {
  const graph::Type type = builder.type(given);
  const Dims dims = dims_of(type);
  const int64_t length = dims.back(), rows = type.element_count() / length,
                piece = (length + pieces - 1) / pieces;
  const ValueId flat = builder.reshape(given, {rows, length});
  const ValueId whole = padded(builder, flat, builder.constant(lowest(type.element())), {0, 0},
                               {0, pieces * piece - length}, {0, 0});
  const auto top = [&](ValueId values) {
    return builder.function().op(builder.add_op(OpKind::chlo_top_k_, {values}, {{Attr::k, k}})).results;
  };
  const Values parts = top(builder.reshape(whole, {rows * pieces, piece}));
  const graph::Type places = builder.type(parts[1]).with_dims({rows, pieces, k});
  const Expr number(builder, builder.add(OpKind::iota_, {}, {{Attr::iota_dimension, int64_t{1}}}, {places}));
  const Expr inside(builder, builder.reshape(parts[1], {rows, pieces, k}));
  const Expr place = inside + number * static_cast<double>(piece);
  const Values best = top(builder.reshape(parts[0], {rows, pieces * k}));
  const ValueId where = taken_along(builder, builder.reshape(place.id(), {rows, pieces * k}), best[1]);
  Dims result = dims;
  result.back() = k;
  return {builder.reshape(best[0], result), builder.reshape(where, result)};
}

Values top_k(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const graph::Type& type = function.type(op.operands[0]);
  if (const int64_t pieces = kernel_pieces(type, op.integer(Attr::k)); pieces > 1)
    return largest_of_pieces(builder, operands[0], op.integer(Attr::k), pieces);
  const graph::Type places = function.type(op.results[1]).with_dims(dims_of(type));
  const int64_t last = type.rank() - 1;
  const ValueId numbers = builder.add(OpKind::iota_, {}, {{Attr::iota_dimension, last}}, {places});
  return largest(builder, operands[0], numbers, op.integer(Attr::k));
}

constexpr Expansion kWindowExpansions[] = {
    {OpKind::map_, takes_map, map},
    {OpKind::reduce_, takes_reduce, reduce},
    {OpKind::reduce_window_, has_slabs, by_slabs},
    {OpKind::reduce_window_, takes_reduce_window, reduce_window},
    {OpKind::chlo_top_k_, takes_top_k, top_k},
};

}  // namespace

std::span<const Expansion> window_expansions() { return kWindowExpansions; }

}  // namespace opentrn::compiler
