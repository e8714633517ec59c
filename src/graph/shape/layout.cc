// Ops that make, move, cut and join data without computing.
#include <algorithm>
#include <numeric>

#include "graph/shape/rules.h"

namespace opentrn::graph::shape {

namespace {

const Quantization* axis_quantized(const Type& type) {
  const Quantization* q = type.quantization();
  return q && q->per_axis() ? q : nullptr;
}

bool same_parameters(const Type& a, const Type& b) {
  const Quantization* p = a.quantization();
  const Quantization* q = b.quantization();
  return !p || !q || (p->scales == q->scales && p->zero_points == q->zero_points);
}

// Elements of operand and result are the same; moving data keeps scales and zero points.
void want_result_element(const Context& c, const Type& operand, const Type& result, int constraint,
                         bool parameters = true) {
  c.check(same_element(operand, result) && (!parameters || same_parameters(operand, result)), constraint,
          "{} becomes {}; elements must stay the same", operand.to_string(), result.to_string());
}

int64_t count_of(std::span<const int64_t> dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, times);
}

// reshape.C3: the dimensions before, at and after the quantized one keep their sizes.
void check_quantized_reshape(const Context& c, const Type& operand, const Type& result) {
  const Quantization* from = axis_quantized(operand);
  const Quantization* to = axis_quantized(result);
  if (!from || !to || !operand.is_static() || !result.is_static()) return;
  const auto part = [](const Type& type, int64_t begin, int64_t end) {
    return count_of(type.dims().subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
  };
  const bool holds =
      part(operand, 0, from->axis) == part(result, 0, to->axis) &&
      part(operand, from->axis, from->axis + 1) == part(result, to->axis, to->axis + 1) &&
      part(operand, from->axis + 1, operand.rank()) == part(result, to->axis + 1, result.rank());
  c.check(holds, 3, "{} to {} moves the quantized dimension", operand.to_string(), result.to_string());
}

void check_quantized_broadcast(const Context& c, const Type& operand, const Type& result,
                               std::span<const int64_t> dimensions) {
  const Quantization* from = axis_quantized(operand);
  const Quantization* to = axis_quantized(result);
  if (!from || !to) return;
  const int64_t axis = dimensions[static_cast<size_t>(from->axis)];
  c.check(to->axis == axis, 6, "the quantized dimension {} becomes {}; the result states {}", from->axis,
          axis, to->axis);
  if (operand.dim(static_cast<int>(from->axis)) != 1) return;
  for (size_t i = 0; i < to->scales.size(); ++i)
    c.check(to->scales[i] == from->scales[0] && to->zero_points[i] == from->zero_points[0], 6,
            "scale and zero point {} differ from the one that is broadcast", i);
}

Dims padded(const Context& c, const Type& operand, std::span<const int64_t> low,
            std::span<const int64_t> high, std::span<const int64_t> interior) {
  Dims dims = operand.dims_vector();
  for (size_t i = 0; i < dims.size(); ++i) {
    if (is_dynamic(dims[i])) continue;
    const int64_t inside = times(std::max<int64_t>(dims[i] - 1, 0), interior[i]);
    dims[i] = plus(plus(plus(dims[i], inside), low[i]), high[i]);
    c.check(dims[i] >= 0, 4, "padding {} and {} leaves {} elements of dimension {}", low[i], high[i], dims[i],
            i);
  }
  return dims;
}

}  // namespace

Types constant(const Context& c) {
  const Type& value = c.op().literal(Attr::value).type();
  // A quantized constant is written as its stored integers.
  if (c.has_stated() && c.stated()[0].is_tensor())
    if (const Quantization* q = c.stated()[0].quantization(); q && q->storage == value.element())
      return {typed(c.stated()[0], value.dims_vector())};
  return {value};
}

Types iota(const Context& c) {
  const Type& result = c.stated_tensor(0, kNumbers | kQuantizedPerTensor);
  const int64_t axis = c.integer(Attr::iota_dimension);
  c.check(0 <= axis && axis < result.rank(), 1, "iota_dimension is {} of {}", axis, result.to_string());
  return {result};
}

Types broadcast(const Context& c) {
  const Type& operand = c.tensor(0, kAnyElement);
  const auto sizes = c.integers(Attr::broadcast_sizes);
  c.check(in_range(sizes, 0, INT64_MAX), 0, "broadcast_sizes is {}; sizes must not be negative", text(sizes));
  return {typed(operand, concatenated({sizes, operand.dims()}))};
}

void check_broadcast(const Context& c, const Type& operand, const Type& result,
                     std::span<const int64_t> dimensions) {
  // Per-axis parameters are repeated where their dimension is: C6.
  want_result_element(c, operand, result, 1, !axis_quantized(operand));
  c.check(static_cast<int>(dimensions.size()) == operand.rank(), 2,
          "broadcast_dimensions has {} entries for {}", dimensions.size(), operand.to_string());
  c.check(in_range(dimensions, 0, result.rank()), 3, "broadcast_dimensions is {}; the result has rank {}",
          text(dimensions), result.rank());
  c.check(is_unique(dimensions), 4, "broadcast_dimensions is {}; entries must differ", text(dimensions));
  for (size_t d = 0; d < dimensions.size(); ++d) {
    const int64_t from = operand.dim(static_cast<int>(d));
    const int64_t to = result.dim(static_cast<int>(dimensions[d]));
    c.check(from == 1 || agrees(from, to), 5, "dimension {} of {} becomes dimension {} of {}", d,
            operand.to_string(), dimensions[d], result.to_string());
  }
  check_quantized_broadcast(c, operand, result, dimensions);
}

Types broadcast_in_dim(const Context& c) {
  const Type& operand = c.tensor(0, kAnyElement);
  const Type& result = c.stated_tensor(0);
  check_broadcast(c, operand, result, c.integers(Attr::broadcast_dimensions));
  return {result};
}

void check_reshape(const Context& c, const Type& operand, const Type& result) {
  want_result_element(c, operand, result, 1);
  if (operand.is_static() && result.is_static())
    c.check(count_of(operand.dims()) == count_of(result.dims()), 2,
            "{} has {} elements and {} has {}; a reshape keeps them", operand.to_string(),
            count_of(operand.dims()), result.to_string(), count_of(result.dims()));
  check_quantized_reshape(c, operand, result);
}

Types reshape(const Context& c) {
  const Type& operand = c.tensor(0, kAnyElement);
  const Type& result = c.stated_tensor(0);
  check_reshape(c, operand, result);
  return {result};
}

Types transpose(const Context& c) {
  const Type& operand = c.tensor(0, kAnyElement);
  const auto permutation = c.integers(Attr::permutation);
  c.check(static_cast<int>(permutation.size()) == operand.rank() && is_unique(permutation) &&
              in_range(permutation, 0, operand.rank()),
          2, "permutation {} of {}", text(permutation), operand.to_string());
  Dims dims;
  Dims bounds;
  for (const int64_t from : permutation) {
    dims.push_back(operand.dim(static_cast<int>(from)));
    if (!operand.bounds().empty()) bounds.push_back(operand.bounds()[static_cast<size_t>(from)]);
  }
  if (c.has_stated() && c.stated()[0].is_tensor()) want_result_element(c, operand, c.stated()[0], 1);
  const Quantization* from = axis_quantized(operand);
  const Quantization* to = c.has_stated() ? axis_quantized(c.stated()[0]) : nullptr;
  if (from && to)
    c.check(to->axis < operand.rank() && permutation[static_cast<size_t>(to->axis)] == from->axis, 4,
            "dimension {} is quantized and does not become dimension {}", from->axis, to->axis);
  Type result = typed(operand, std::move(dims));
  if (from) {
    Quantization moved = *from;
    moved.axis = std::find(permutation.begin(), permutation.end(), from->axis) - permutation.begin();
    result = Type::quantized(std::move(moved), result.dims_vector());
  }
  result.set_bounds(std::move(bounds));
  return {result};
}

Types reverse(const Context& c) {
  const Type& operand = c.tensor(0);
  const auto dimensions = c.integers(Attr::dimensions);
  c.check(is_unique(dimensions), 2, "dimensions is {}; entries must differ", text(dimensions));
  c.check(in_range(dimensions, 0, operand.rank()), 3, "dimensions is {} for {}", text(dimensions),
          operand.to_string());
  return {operand};
}

Types pad(const Context& c) {
  const Type& operand = c.tensor(0);
  const Type& value = c.scalar(1);
  const auto low = c.integers(Attr::edge_padding_low);
  const auto high = c.integers(Attr::edge_padding_high);
  const auto interior = c.integers(Attr::interior_padding);
  const auto rank = static_cast<size_t>(operand.rank());
  c.check(same_element(operand, value), 1, "operand is {} and the padding value {}", operand.to_string(),
          value.to_string());
  c.check(low.size() == rank && high.size() == rank && interior.size() == rank, 2,
          "padding has {}, {} and {} entries for {}", low.size(), high.size(), interior.size(),
          operand.to_string());
  c.check(in_range(interior, 0, INT64_MAX), 3, "interior_padding is {}; it must not be negative",
          text(interior));
  return {typed(operand, padded(c, operand, low, high, interior))};
}

Types dynamic_pad(const Context& c) {
  const Type& operand = c.tensor(0);
  const Type& value = c.scalar(1);
  c.check(same_element(operand, value), 1, "operand is {} and the padding value {}", operand.to_string(),
          value.to_string());
  for (const size_t at : {2U, 3U, 4U}) {
    const Type& padding = c.vector(at, kInts);
    c.check(agrees(padding.dim(0), operand.rank()), 2, "padding is {} for {}", padding.to_string(),
            operand.to_string());
  }
  const Type& result = c.stated_tensor(0);
  want_result_element(c, operand, result, 1);
  c.check(result.rank() == operand.rank(), 4, "{} is padded to {}", operand.to_string(), result.to_string());
  return {result};
}

Types slice(const Context& c) {
  const Type& operand = c.tensor(0);
  const auto start = c.integers(Attr::start_indices);
  const auto limit = c.integers(Attr::limit_indices);
  const auto strides = c.integers(Attr::strides);
  const auto rank = static_cast<size_t>(operand.rank());
  c.check(start.size() == rank && limit.size() == rank && strides.size() == rank, 2,
          "start_indices, limit_indices and strides have {}, {} and {} entries for {}", start.size(),
          limit.size(), strides.size(), operand.to_string());
  Dims dims(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = operand.dim(static_cast<int>(i));
    c.check(0 <= start[i] && start[i] <= limit[i] && (is_dynamic(size) || limit[i] <= size), 3,
            "dimension {} of {} is cut from {} to {}", i, operand.to_string(), start[i], limit[i]);
    c.check(strides[i] > 0, 4, "the stride of dimension {} is {}; it must be positive", i, strides[i]);
    const int64_t length = limit[i] - start[i];
    dims[i] = length / strides[i] + (length % strides[i] != 0);
  }
  return {typed(operand, std::move(dims))};
}

Types real_dynamic_slice(const Context& c) {
  const Type& operand = c.tensor(0);
  for (const size_t at : {1U, 2U, 3U}) {
    const Type& index = c.vector(at, kInts);
    c.check(agrees(index.dim(0), operand.rank()), 0, "operand {} is {} for {}", at, index.to_string(),
            operand.to_string());
    c.check(same_element(index, c.vector(1, kInts)), 0, "start, limit and strides have different elements");
  }
  const Type& result = c.stated_tensor(0);
  want_result_element(c, operand, result, 0);
  c.check(result.rank() == operand.rank(), 0, "a slice of {} cannot be {}", operand.to_string(),
          result.to_string());
  return {result};
}

Types concatenate(const Context& c) {
  const int64_t axis = c.integer(Attr::dimension);
  const Type& first = c.tensor(0);
  c.check(0 <= axis && axis < first.rank(), 4, "dimension is {} for {}", axis, first.to_string());
  Type result = first;
  Dims bounds = first.bounds().empty() ? Dims(static_cast<size_t>(first.rank()), kDynamic)
                                       : Dims(first.bounds().begin(), first.bounds().end());
  const auto at = static_cast<size_t>(axis);
  int64_t bound = first.bounds().empty() ? first.dim(static_cast<int>(axis)) : bounds[at];
  if (!is_dynamic(first.dim(static_cast<int>(axis)))) bound = first.dim(static_cast<int>(axis));
  int64_t total = first.dim(static_cast<int>(axis));
  for (size_t i = 1; i < c.operand_count(); ++i) {
    const Type& next = c.tensor(i);
    c.check(same_element(first, next), 1, "operand 0 is {} and operand {} is {}", first.to_string(), i,
            next.to_string());
    Dims dims = next.dims_vector();
    if (dims.size() == static_cast<size_t>(first.rank())) dims[at] = first.dim(static_cast<int>(axis));
    c.check(shapes_agree(first.dims(), dims), 2,
            "operand 0 is {} and operand {} is {}; they may differ in dimension {} only", first.to_string(),
            i, next.to_string(), axis);
    const int64_t size = next.dim(static_cast<int>(axis));
    total = plus(total, size);
    bound = plus(bound, is_dynamic(size) && !next.bounds().empty() ? next.bounds()[at] : size);
    Type other = next.with_dims(dims);
    if (!next.bounds().empty()) {
      Dims others(next.bounds().begin(), next.bounds().end());
      others[at] = kDynamic;
      other.set_bounds(std::move(others));
    }
    result = merged(result, other);
  }
  Dims dims = result.dims_vector();
  dims[at] = total;
  bounds = result.bounds().empty() ? Dims(dims.size(), kDynamic)
                                   : Dims(result.bounds().begin(), result.bounds().end());
  bounds[at] = is_dynamic(total) ? bound : kDynamic;
  result = typed(result, std::move(dims));
  if (std::any_of(bounds.begin(), bounds.end(), [](int64_t b) { return !is_dynamic(b); }))
    result.set_bounds(std::move(bounds));
  return {result};
}

namespace {

// The start indices of dynamic slices: operands from `first` on, scalars of one integer type.
void check_start_indices(const Context& c, size_t first, int rank, int count_constraint,
                         int type_constraint) {
  c.check(c.operand_count() == first + static_cast<size_t>(rank), count_constraint,
          "{} start indices for rank {}", c.operand_count() - first, rank);
  for (size_t i = first; i < c.operand_count(); ++i) {
    c.scalar(i, kInts);
    c.check(same_element(c.operand_type(i), c.operand_type(first)), type_constraint,
            "start indices are {} and {}; they must be of one type", c.operand_type(first).to_string(),
            c.operand_type(i).to_string());
  }
}

}  // namespace

Types dynamic_slice(const Context& c) {
  const Type& operand = c.tensor(0);
  const auto sizes = c.integers(Attr::slice_sizes);
  c.check(static_cast<int>(sizes.size()) == operand.rank(), 2, "slice_sizes has {} entries for {}",
          sizes.size(), operand.to_string());
  check_start_indices(c, 1, operand.rank(), 2, 3);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = operand.dim(static_cast<int>(i));
    c.check(0 <= sizes[i] && (is_dynamic(size) || sizes[i] <= size), 4, "slice_sizes[{}] is {} for {}", i,
            sizes[i], operand.to_string());
  }
  return {typed(operand, {sizes.begin(), sizes.end()})};
}

Types dynamic_update_slice(const Context& c) {
  const Type& operand = c.tensor(0);
  const Type& update = c.tensor(1);
  c.check(same_element(operand, update), 2, "{} is updated with {}", operand.to_string(), update.to_string());
  c.check(operand.rank() == update.rank(), 3, "{} is updated with {}; ranks must be the same",
          operand.to_string(), update.to_string());
  check_start_indices(c, 2, operand.rank(), 4, 5);
  for (int i = 0; i < operand.rank(); ++i)
    c.check(is_dynamic(operand.dim(i)) || is_dynamic(update.dim(i)) || update.dim(i) <= operand.dim(i), 6,
            "dimension {} of the update {} is larger than that of {}", i, update.to_string(),
            operand.to_string());
  return {operand};
}

Types get_dimension_size(const Context& c) {
  const Type& operand = c.tensor(0, kAnyElement);
  const int64_t axis = c.integer(Attr::dimension);
  c.check(0 <= axis && axis < operand.rank(), 1, "dimension is {} of {}", axis, operand.to_string());
  return {Type::scalar(ElementType::kI32)};
}

Types set_dimension_size(const Context& c) {
  const Type& operand = c.tensor(0);
  const Type& size = c.scalar(1, kInts);
  const int64_t axis = c.integer(Attr::dimension);
  c.check(size.element() == ElementType::kI32, 0, "the size is {}; it must be i32", size.to_string());
  c.check(0 <= axis && axis < operand.rank(), 0, "dimension is {} of {}", axis, operand.to_string());
  if (c.has_stated()) {
    const Type& stated = c.stated_tensor(0);
    c.check(stated.rank() == operand.rank() && same_element(operand, stated), 0, "{} becomes {}",
            operand.to_string(), stated.to_string());
    return {stated};
  }
  Dims dims = operand.dims_vector();
  Dims bounds = operand.bounds().empty() ? Dims(dims.size(), kDynamic)
                                         : Dims(operand.bounds().begin(), operand.bounds().end());
  const auto at = static_cast<size_t>(axis);
  if (!is_dynamic(dims[at])) bounds[at] = dims[at];
  dims[at] = kDynamic;
  Type result = typed(operand, std::move(dims));
  result.set_bounds(std::move(bounds));
  return {result};
}

Types dynamic_broadcast_in_dim(const Context& c) {
  const Type& operand = c.tensor(0, kAnyElement);
  const Type& sizes = c.vector(1, kInts);
  const Type& result = c.stated_tensor(0);
  check_broadcast(c, operand, result, c.integers(Attr::broadcast_dimensions));
  c.check(agrees(sizes.dim(0), result.rank()), 7, "output_dimensions is {} for the result {}",
          sizes.to_string(), result.to_string());
  const Dims expanding = c.list(Attr::known_expanding_dimensions);
  const Dims nonexpanding = c.list(Attr::known_nonexpanding_dimensions);
  c.check(is_unique(concatenated({expanding, nonexpanding})), 8,
          "known_expanding_dimensions {} and known_nonexpanding_dimensions {} repeat a dimension",
          text(expanding), text(nonexpanding));
  c.check(in_range(expanding, 0, operand.rank()), 9, "known_expanding_dimensions is {} for {}",
          text(expanding), operand.to_string());
  c.check(in_range(nonexpanding, 0, operand.rank()), 10, "known_nonexpanding_dimensions is {} for {}",
          text(nonexpanding), operand.to_string());
  return {result};
}

Types dynamic_iota(const Context& c) {
  const Type& sizes = c.vector(0, kInts);
  const Type& result = c.stated_tensor(0, kNumbers | kQuantizedPerTensor);
  const int64_t axis = c.integer(Attr::iota_dimension);
  c.check(agrees(sizes.dim(0), result.rank()), 2, "output_shape is {} for the result {}", sizes.to_string(),
          result.to_string());
  c.check(0 <= axis && axis < result.rank(), 1, "iota_dimension is {} of {}", axis, result.to_string());
  return {result};
}

Types dynamic_reshape(const Context& c) {
  const Type& operand = c.tensor(0, kAnyElement);
  const Type& sizes = c.vector(1, kInts);
  const Type& result = c.stated_tensor(0);
  check_reshape(c, operand, result);
  c.check(agrees(sizes.dim(0), result.rank()), 4, "output_shape is {} for the result {}", sizes.to_string(),
          result.to_string());
  return {result};
}

}  // namespace opentrn::graph::shape
