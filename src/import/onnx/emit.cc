#include "import/onnx/emit.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "graph/element_value.h"

namespace opentrn::import::onnx {

namespace {

// {0, .., n-1} without the axes.
Dims others(int64_t n, const Dims& axes) {
  Dims rest;
  for (int64_t i = 0; i < n; ++i)
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) rest.push_back(i);
  return rest;
}

graph::IntMatrix padding_matrix(const std::vector<WindowDim>& windows) {
  graph::IntMatrix padding{static_cast<int64_t>(windows.size()), 2, {}};
  for (const WindowDim& w : windows) padding.values.insert(padding.values.end(), {w.pad_low, w.pad_high});
  return padding;
}

}  // namespace

Dims broadcast_shapes(const Dims& a, const Dims& b) {
  const Dims& longer = a.size() >= b.size() ? a : b;
  const Dims& shorter = a.size() >= b.size() ? b : a;
  Dims dims = longer;
  const size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& to = dims[shift + i];
    if (to == 1) {
      to = shorter[i];
    } else if (shorter[i] != 1 && shorter[i] != to) {
      throw Fault(
          FaultKind::kInput, "onnx.broadcast",
          fmt::format("shapes [{}] and [{}] do not broadcast", fmt::join(a, ", "), fmt::join(b, ", ")));
    }
  }
  return dims;
}

Dims range(int64_t begin, int64_t end) {
  Dims values(static_cast<size_t>(std::max<int64_t>(end - begin, 0)));
  std::iota(values.begin(), values.end(), begin);
  return values;
}

int64_t product(const Dims& dims) { return Type::tensor(ElementType::kI1, dims).element_count(); }

int64_t Emit::dim(ValueId x, int64_t axis) const {
  if (axis < 0 || axis >= rank(x))
    throw Fault(FaultKind::kInput, "onnx.rank",
                fmt::format("{} has no dimension {}", type(x).to_string(), axis));
  return type(x).dim(static_cast<int>(axis));
}

ValueId Emit::full(ElementType element, Dims dims, double value) const {
  return b_->splat(Type::tensor(element, std::move(dims)), value);
}

ValueId Emit::iota(ElementType element, Dims dims, int64_t axis) const {
  return b_->add(OpKind::iota_, {}, {{Attr::iota_dimension, axis}}, {Type::tensor(element, std::move(dims))});
}

ValueId Emit::integers(const Dims& values, ElementType element) const {
  if (!graph::is_integer(element))
    throw Fault(FaultKind::kInput, "onnx.whole_numbers",
                fmt::format("indices or sizes are {}, and must be whole numbers", graph::name(element)));
  const auto size = static_cast<size_t>(graph::storage_bytes(element));
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) graph::store_integer(element, values[i], &bytes[i * size]);
  return constant({Type::tensor(element, {static_cast<int64_t>(values.size())}), std::move(bytes)});
}

ValueId Emit::reals(const std::vector<double>& values, ElementType element, Dims dims) const {
  const auto size = static_cast<size_t>(graph::storage_bytes(element));
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) graph::store_real(element, values[i], &bytes[i * size]);
  return constant({Type::tensor(element, std::move(dims)), std::move(bytes)});
}

ValueId Emit::broadcast_to(ValueId x, const Dims& to) const {
  const Dims from = dims(x);
  if (from == to) return x;
  return b_->broadcast_in_dim(
      x, to, range(static_cast<int64_t>(to.size() - from.size()), static_cast<int64_t>(to.size())));
}

ValueId Emit::binary(OpKind kind, ValueId a, ValueId b) const {
  const Dims to = broadcast_shapes(dims(a), dims(b));
  return b_->add(kind, {broadcast_to(a, to), broadcast_to(b, to)});
}

ValueId Emit::compare(ComparisonDirection direction, ValueId a, ValueId b) const {
  const Dims to = broadcast_shapes(dims(a), dims(b));
  return b_->compare(direction, broadcast_to(a, to), broadcast_to(b, to));
}

ValueId Emit::select(ValueId predicate, ValueId a, ValueId b) const {
  const Dims to = broadcast_shapes(dims(predicate), broadcast_shapes(dims(a), dims(b)));
  return b_->add(OpKind::select_, {broadcast_to(predicate, to), broadcast_to(a, to), broadcast_to(b, to)});
}

ValueId Emit::transpose(ValueId x, Dims permutation) const {
  if (permutation == range(0, rank(x))) return x;
  return b_->transpose(x, std::move(permutation));
}

ValueId Emit::unsqueeze(ValueId x, int64_t axis) const {
  Dims to = dims(x);
  if (axis != rank(x)) (void)dim(x, axis);
  to.insert(to.begin() + axis, 1);
  return reshape(x, std::move(to));
}

ValueId Emit::squeeze(ValueId x, int64_t axis) const {
  Dims to = dims(x);
  (void)dim(x, axis);
  to.erase(to.begin() + axis);
  return reshape(x, std::move(to));
}

ValueId Emit::slice(ValueId x, int64_t axis, int64_t start, int64_t limit, int64_t stride) const {
  if (start == 0 && limit == dim(x, axis) && stride == 1) return x;
  Dims starts(static_cast<size_t>(rank(x)), 0);
  Dims limits = dims(x);
  Dims strides(static_cast<size_t>(rank(x)), 1);
  const auto at = static_cast<size_t>(axis);
  starts[at] = start;
  limits[at] = limit;
  strides[at] = stride;
  return b_->add(OpKind::slice_, {x},
                 {{Attr::start_indices, starts}, {Attr::limit_indices, limits}, {Attr::strides, strides}});
}

ValueId Emit::take(ValueId x, int64_t axis, int64_t index) const {
  return squeeze(slice(x, axis, index, index + 1), axis);
}

std::vector<ValueId> Emit::split(ValueId x, int64_t axis, int64_t parts) const {
  const int64_t size = dim(x, axis) / parts;
  Values pieces;
  for (int64_t i = 0; i < parts; ++i) pieces.push_back(slice(x, axis, i * size, (i + 1) * size));
  return pieces;
}

ValueId Emit::reverse(ValueId x, Dims axes) const {
  return b_->add(OpKind::reverse_, {x}, {{Attr::dimensions, std::move(axes)}});
}

ValueId Emit::pad(ValueId x, ValueId value, Dims low, Dims high, Dims interior) const {
  if (interior.empty()) interior.assign(low.size(), 0);
  return b_->add(OpKind::pad_, {x, value},
                 {{Attr::edge_padding_low, std::move(low)},
                  {Attr::edge_padding_high, std::move(high)},
                  {Attr::interior_padding, std::move(interior)}});
}

ValueId Emit::reduce(OpKind combiner, ValueId x, const Dims& axes, bool keep) const {
  Dims kept = dims(x);
  for (const int64_t axis : axes) {
    (void)dim(x, axis);
    kept[static_cast<size_t>(axis)] = 1;
  }
  const ValueId reduced = axes.empty() ? x : b_->reduce(combiner, x, axes);
  return keep ? reshape(reduced, std::move(kept)) : reduced;
}

ValueId Emit::mean(ValueId x, const Dims& axes, bool keep) const {
  Dims averaged;
  for (const int64_t axis : axes) averaged.push_back(dim(x, axis));
  return div(sum(x, axes, keep), static_cast<double>(product(averaged)));
}

ValueId Emit::softmax(ValueId x, int64_t axis) const {
  const ValueId shifted = sub(x, reduce(OpKind::maximum_, x, {axis}, true));
  const ValueId e = exp(shifted);
  return div(e, sum(e, {axis}, true));
}

ValueId Emit::arg_extreme(ValueId x, int64_t axis, bool largest, bool last) const {
  const ValueId index = iota(ElementType::kI64, dims(x), axis);
  const Type value = Type::scalar(element(x));
  const Type position = Type::scalar(ElementType::kI64);
  Dims reduced = dims(x);
  reduced.erase(reduced.begin() + axis);
  const ValueId start =
      b_->constant(graph::neutral_element(largest ? OpKind::maximum_ : OpKind::minimum_, element(x)));
  const ValueId none = b_->constant(graph::splat_literal(position, last ? -1 : dim(x, axis)));
  const graph::RegionBody body{
      {value, position, value, position}, [&](Builder& inner, std::span<const ValueId> a) {
        const Emit e(inner);
        const auto better = largest ? ComparisonDirection::kGt : ComparisonDirection::kLt;
        const ValueId wins = e.compare(better, a[0], a[2]);
        const ValueId ties = e.compare(ComparisonDirection::kEq, a[0], a[2]);
        const ValueId order =
            e.compare(last ? ComparisonDirection::kGt : ComparisonDirection::kLt, a[1], a[3]);
        const ValueId first = e.binary(OpKind::or_, wins, e.binary(OpKind::and_, ties, order));
        return Values{e.select(first, a[0], a[2]), e.select(first, a[1], a[3])};
      }};
  const graph::OpId id = b_->add_with_regions(
      OpKind::reduce_, {x, index, start, none}, {{Attr::dimensions, Dims{axis}}},
      {Type::tensor(element(x), reduced), Type::tensor(ElementType::kI64, reduced)}, {body});
  return unsqueeze(b_->function().op(id).results[1], axis);
}

ValueId Emit::reduce_window(OpKind combiner, ValueId x, const std::vector<WindowDim>& windows) const {
  Dims sizes, strides, dilations, to;
  for (size_t i = 0; i < windows.size(); ++i) {
    const WindowDim& w = windows[i];
    sizes.push_back(w.size);
    strides.push_back(w.stride);
    dilations.push_back(w.dilation);
    const int64_t padded = dim(x, static_cast<int64_t>(i)) + w.pad_low + w.pad_high;
    const int64_t reach = (w.size - 1) * w.dilation + 1;
    to.push_back(reach > padded ? 0 : (padded - reach) / w.stride + 1);
  }
  const Type scalar_type = Type::scalar(element(x));
  const ValueId start = b_->constant(graph::neutral_element(combiner, element(x)));
  const graph::RegionBody body{{scalar_type, scalar_type}, [&](Builder& inner, std::span<const ValueId> a) {
                                 return Values{inner.add(combiner, {a[0], a[1]})};
                               }};
  const graph::OpId id = b_->add_with_regions(OpKind::reduce_window_, {x, start},
                                              {{Attr::window_dimensions, sizes},
                                               {Attr::window_strides, strides},
                                               {Attr::window_dilations, dilations},
                                               {Attr::padding, padding_matrix(windows)}},
                                              {Type::tensor(element(x), to)}, {body});
  return b_->function().op(id).results[0];
}

ValueId Emit::dot_general(ValueId a, ValueId b, Dims a_batch, Dims b_batch, Dims a_contract, Dims b_contract,
                          std::optional<ElementType> result) const {
  std::vector<Type> stated;
  if (result) {
    Dims to;
    for (const int64_t i : a_batch) to.push_back(dim(a, i));
    Dims a_used = a_batch;
    a_used.insert(a_used.end(), a_contract.begin(), a_contract.end());
    Dims b_used = b_batch;
    b_used.insert(b_used.end(), b_contract.begin(), b_contract.end());
    for (const int64_t i : others(rank(a), a_used)) to.push_back(dim(a, i));
    for (const int64_t i : others(rank(b), b_used)) to.push_back(dim(b, i));
    stated.push_back(Type::tensor(*result, std::move(to)));
  }
  return b_->add(OpKind::dot_general_, {a, b},
                 {{Attr::lhs_batching_dimensions, std::move(a_batch)},
                  {Attr::rhs_batching_dimensions, std::move(b_batch)},
                  {Attr::lhs_contracting_dimensions, std::move(a_contract)},
                  {Attr::rhs_contracting_dimensions, std::move(b_contract)}},
                 std::move(stated));
}

ValueId Emit::matmul(ValueId a, ValueId b, std::optional<ElementType> result) const {
  const bool row = rank(a) == 1;
  const bool column = rank(b) == 1;
  if (row) a = unsqueeze(a, 0);
  if (column) b = unsqueeze(b, 1);
  if (rank(a) < 2 || rank(b) < 2)
    throw Fault(FaultKind::kInput, "onnx.matmul", "a matrix product of a scalar");
  const Dims a_dims = dims(a);
  const Dims b_dims = dims(b);
  ValueId product_value;
  if (b_dims.size() == 2) {
    product_value = dot_general(a, b, {}, {}, {rank(a) - 1}, {0}, result);
  } else {
    const Dims batch =
        broadcast_shapes({a_dims.begin(), a_dims.end() - 2}, {b_dims.begin(), b_dims.end() - 2});
    const auto full_dims = [&](const Dims& from) {
      Dims to = batch;
      to.insert(to.end(), from.end() - 2, from.end());
      return to;
    };
    const auto n = static_cast<int64_t>(batch.size());
    product_value = dot_general(broadcast_to(a, full_dims(a_dims)), broadcast_to(b, full_dims(b_dims)),
                                range(0, n), range(0, n), {n + 1}, {n}, result);
  }
  if (column) product_value = squeeze(product_value, rank(product_value) - 1);
  if (row) product_value = squeeze(product_value, rank(product_value) - (column ? 1 : 2));
  return product_value;
}

ValueId Emit::wrap_indices(ValueId indices, int64_t size) const {
  const ValueId negative = compare(ComparisonDirection::kLt, indices, 0);
  return select(negative, add(indices, static_cast<double>(size)), indices);
}

ValueId Emit::take_along(ValueId data, ValueId indices, int64_t axis) const {
  Dims sizes = dims(data);
  (void)dim(data, axis);
  sizes[static_cast<size_t>(axis)] = 1;
  if (dim(data, axis) == 0) {  // no slice fits, and none is taken
    if (type(indices).element_count() != 0)
      throw Fault(FaultKind::kInput, "onnx.gather", fmt::format("indices into axis {} of size 0", axis));
    Dims to = dims(indices);
    to.insert(to.begin(), sizes.begin(), sizes.begin() + axis);
    to.insert(to.end(), sizes.begin() + axis + 1, sizes.end());
    return full(element(data), std::move(to), 0);
  }
  Dims offset;
  for (int64_t i = 0; i < rank(data); ++i)
    if (i != axis) offset.push_back(i < axis ? i : i + rank(indices) - 1);
  return b_->add(OpKind::gather_, {data, wrap_indices(indices, dim(data, axis))},
                 {{Attr::offset_dims, offset},
                  {Attr::collapsed_slice_dims, Dims{axis}},
                  {Attr::start_index_map, Dims{axis}},
                  {Attr::index_vector_dim, rank(indices)},
                  {Attr::slice_sizes, sizes}});
}

ValueId Emit::gather_nd(ValueId data, ValueId indices, int64_t batch) const {
  Dims limits;
  for (int64_t i = 0; i < dim(indices, rank(indices) - 1); ++i) limits.push_back(dim(data, batch + i));
  const ValueId negative = compare(ComparisonDirection::kLt, indices, 0);
  return gather_at(data, select(negative, add(indices, integers(limits, element(indices))), indices), batch);
}

ValueId Emit::gather_at(ValueId data, ValueId indices, int64_t batch) const {
  const int64_t last = rank(indices) - 1;
  const int64_t k = dim(indices, last);
  Dims limits;
  for (int64_t i = 0; i < k; ++i) limits.push_back(dim(data, batch + i));
  if (product(limits) == 0) {  // no slice fits, and none is taken
    if (type(indices).element_count() != 0)
      throw Fault(FaultKind::kInput, "onnx.gather", "indices into an axis of size 0");
    Dims to = dims(indices);
    to.pop_back();
    const Dims from = dims(data);
    to.insert(to.end(), from.begin() + batch + k, from.end());
    return full(element(data), std::move(to), 0);
  }
  Dims sizes = dims(data);
  for (int64_t i = 0; i < batch + k; ++i) sizes[static_cast<size_t>(i)] = 1;
  return b_->add(OpKind::gather_, {data, indices},
                 {{Attr::offset_dims, range(last, last + rank(data) - batch - k)},
                  {Attr::collapsed_slice_dims, range(batch, batch + k)},
                  {Attr::operand_batching_dims, range(0, batch)},
                  {Attr::start_indices_batching_dims, range(0, batch)},
                  {Attr::start_index_map, range(batch, batch + k)},
                  {Attr::index_vector_dim, last},
                  {Attr::slice_sizes, sizes}});
}

ValueId Emit::element_indices(ValueId indices, int64_t axis) const {
  Values columns;
  for (int64_t i = 0; i < rank(indices); ++i) {
    const ValueId column = i == axis ? indices : iota(element(indices), dims(indices), i);
    columns.push_back(unsqueeze(column, rank(column)));
  }
  return concat(std::move(columns), rank(indices));
}

ValueId Emit::gather_elements(ValueId data, ValueId indices, int64_t axis) const {
  return gather_at(data, element_indices(wrap_indices(indices, dim(data, axis)), axis), 0);
}

ValueId Emit::scatter_nd(ValueId x, ValueId indices, ValueId updates, std::optional<OpKind> combiner) const {
  const int64_t last = rank(indices) - 1;
  const int64_t k = dim(indices, last);
  Dims limits;
  for (int64_t i = 0; i < k; ++i) limits.push_back(dim(x, i));
  const ValueId negative = compare(ComparisonDirection::kLt, indices, 0);
  const ValueId wrapped = select(negative, add(indices, integers(limits, element(indices))), indices);
  const Type scalar_type = Type::scalar(element(x));
  const graph::RegionBody body{{scalar_type, scalar_type}, [&](Builder& inner, std::span<const ValueId> a) {
                                 return Values{combiner ? inner.add(*combiner, {a[0], a[1]}) : a[1]};
                               }};
  const graph::OpId id = b_->add_with_regions(OpKind::scatter_, {x, wrapped, updates},
                                              {{Attr::update_window_dims, range(last, rank(updates))},
                                               {Attr::inserted_window_dims, range(0, k)},
                                               {Attr::scatter_dims_to_operand_dims, range(0, k)},
                                               {Attr::index_vector_dim, last}},
                                              {type(x)}, {body});
  return b_->function().op(id).results[0];
}

ValueId Emit::dynamic_slice(ValueId x, Values start, Dims sizes) const {
  Values operands{x};
  operands.insert(operands.end(), start.begin(), start.end());
  return b_->add(OpKind::dynamic_slice_, std::move(operands), {{Attr::slice_sizes, std::move(sizes)}});
}

ValueId Emit::dynamic_update(ValueId x, ValueId update, Values start) const {
  Values operands{x, update};
  operands.insert(operands.end(), start.begin(), start.end());
  return b_->add(OpKind::dynamic_update_slice_, std::move(operands));
}

}  // namespace opentrn::import::onnx
