// Matrix products. Operands are brought to [batch, rows, inner] x [batch, inner, columns]; sums go in the
// order of the inner index, in the accumulator of accumulator.h.
#include <algorithm>
#include <map>

#include "base/interrupt.h"
#include "graph/eval/accumulator.h"
#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

struct DotDims {
  Dims lhs_batch, rhs_batch, lhs_inner, rhs_inner;
};

// Dimensions of a tensor of `rank` in neither list.
Dims other_dims(int rank, const Dims& batch, const Dims& inner) {
  Dims rest;
  for (int64_t axis = 0; axis < rank; ++axis)
    if (std::find(batch.begin(), batch.end(), axis) == batch.end() &&
        std::find(inner.begin(), inner.end(), axis) == inner.end())
      rest.push_back(axis);
  return rest;
}

Dims sizes_of(const Tensor& tensor, const Dims& axes) {
  Dims sizes;
  for (const int64_t axis : axes) sizes.push_back(tensor.dims()[static_cast<size_t>(axis)]);
  return sizes;
}

Dims joined(std::initializer_list<Dims> lists) {
  Dims all;
  for (const Dims& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// Row by row of the right operand, so that the inner loop runs along memory.
template <typename T>
void multiply_matrices(const T* lhs, const T* rhs, T* result, int64_t rows, int64_t inner, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    interrupt::poll();
    T* out = result + row * columns;
    for (int64_t k = 0; k < inner; ++k) {
      const T a = lhs[row * inner + k];
      const T* b = rhs + k * columns;
      for (int64_t column = 0; column < columns; ++column)
        out[column] = multiply_add(out[column], a, b[column]);
    }
  }
}

// Result dimensions: batch, rest of lhs, rest of rhs. Not yet in the result's element type.
struct Product {
  Dims dims;
  Storage values;
};

Product multiply(const Call& call, const Tensor& lhs, const Tensor& rhs, const DotDims& dims) {
  const Dims lhs_rest = other_dims(lhs.rank(), dims.lhs_batch, dims.lhs_inner);
  const Dims rhs_rest = other_dims(rhs.rank(), dims.rhs_batch, dims.rhs_inner);
  for (const auto& [tensor, axes] : {std::pair{&lhs, joined({dims.lhs_batch, dims.lhs_inner})},
                                     std::pair{&rhs, joined({dims.rhs_batch, dims.rhs_inner})}})
    for (const int64_t axis : axes)
      if (axis < 0 || axis >= tensor->rank())
        call.fail(fmt::format("dimension {} of {}", axis, tensor->type().to_string()));
  if (sizes_of(lhs, dims.lhs_batch) != sizes_of(rhs, dims.rhs_batch) ||
      sizes_of(lhs, dims.lhs_inner) != sizes_of(rhs, dims.rhs_inner))
    call.fail(fmt::format("{} and {} do not match in their batch or contracting dimensions",
                          lhs.type().to_string(), rhs.type().to_string()));
  const Tensor a = transpose(lhs, joined({dims.lhs_batch, lhs_rest, dims.lhs_inner}));
  const Tensor b = transpose(rhs, joined({dims.rhs_batch, dims.rhs_inner, rhs_rest}));
  const int64_t batch = product(sizes_of(lhs, dims.lhs_batch));
  const int64_t rows = product(sizes_of(lhs, lhs_rest));
  const int64_t inner = product(sizes_of(lhs, dims.lhs_inner));
  const int64_t columns = product(sizes_of(rhs, rhs_rest));
  Storage values = sum_in_accumulator(
      call, a, b, [&]<typename S>(const std::vector<S>& left, const std::vector<S>& right) {
        std::vector<S> sums(static_cast<size_t>(batch * rows * columns));
        for (int64_t i = 0; i < batch; ++i)
          multiply_matrices(left.data() + i * rows * inner, right.data() + i * inner * columns,
                            sums.data() + i * rows * columns, rows, inner, columns);
        return sums;
      });
  return {joined({sizes_of(lhs, dims.lhs_batch), sizes_of(lhs, lhs_rest), sizes_of(rhs, rhs_rest)}),
          std::move(values)};
}

DotDims dims_of(const Op& op) {
  return {op.integers_or(Attr::lhs_batching_dimensions, 0, 0),
          op.integers_or(Attr::rhs_batching_dimensions, 0, 0),
          op.integers_or(Attr::lhs_contracting_dimensions, 0, 0),
          op.integers_or(Attr::rhs_contracting_dimensions, 0, 0)};
}

}  // namespace

Tensor dot_general(const Call& call) {
  Product product = multiply(call, call.tensor(0), call.tensor(1), dims_of(call.op()));
  return call.finish(call.result(product.dims), std::move(product.values));
}

Tensor dot(const Call& call) {
  const Tensor& lhs = call.tensor(0);
  if (lhs.rank() < 1 || call.tensor(1).rank() < 1) call.fail("a dot of scalars");
  Product product = multiply(call, lhs, call.tensor(1), {{}, {}, {lhs.rank() - 1}, {0}});
  return call.finish(call.result(product.dims), std::move(product.values));
}

namespace {

struct EinsumTerms {
  std::string lhs, rhs, result;
};

EinsumTerms parse_einsum(const Call& call, bool binary) {
  const std::string& config = call.op().string(Attr::einsum_config);
  const size_t arrow = config.find("->");
  const size_t comma = config.find(',');
  if (arrow == std::string::npos || (comma != std::string::npos) != binary ||
      config.find("...") != std::string::npos)
    call.not_modelled(fmt::format("the einsum \"{}\"", config),
                      "write terms of single letters: \"ij,jk->ik\"");
  EinsumTerms terms;
  terms.lhs = config.substr(0, binary ? comma : arrow);
  if (binary) terms.rhs = config.substr(comma + 1, arrow - comma - 1);
  terms.result = config.substr(arrow + 2);
  return terms;
}

// Sum over every letter that the result does not have, over the product of the operands.
Tensor sum_of_products(const Call& call, const EinsumTerms& terms) {
  std::map<char, int64_t> sizes;
  const auto learn = [&](const std::string& letters, const Tensor& tensor) {
    if (letters.size() != static_cast<size_t>(tensor.rank()))
      call.fail(fmt::format("\"{}\" for {}", letters, tensor.type().to_string()));
    for (size_t axis = 0; axis < letters.size(); ++axis) {
      const auto [place, fresh] = sizes.emplace(letters[axis], tensor.dims()[axis]);
      if (!fresh && place->second != tensor.dims()[axis])
        call.fail(fmt::format("\"{}\" is both {} and {}", letters[axis], place->second, tensor.dims()[axis]));
    }
  };
  const bool binary = call.operand_count() == 2;
  learn(terms.lhs, call.tensor(0));
  if (binary) learn(terms.rhs, call.tensor(1));
  std::string letters = terms.result;
  for (const auto& [letter, size] : sizes)
    if (terms.result.find(letter) == std::string::npos) letters += letter;
  Dims dims;
  for (const char letter : letters) {
    if (!sizes.contains(letter)) call.fail(fmt::format("\"{}\" is in no operand", letter));
    dims.push_back(sizes[letter]);
  }
  const auto strides_of = [&](const std::string& own, std::span<const int64_t> own_dims) {
    const Dims from = row_major_strides(own_dims);
    Dims strides(letters.size(), 0);
    for (size_t axis = 0; axis < own.size(); ++axis) strides[letters.find(own[axis])] += from[axis];
    return strides;
  };
  const Dims result_dims(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(terms.result.size()));
  const Dims to = strides_of(terms.result, result_dims);
  const Dims from_lhs = strides_of(terms.lhs, call.tensor(0).dims());
  const Dims from_rhs = binary ? strides_of(terms.rhs, call.tensor(1).dims()) : Dims();
  return visit_values(call.tensor(0), [&]<typename T>(const std::vector<T>& a) {
    const auto add = binary_function<T>(OpKind::add_);
    const auto multiply = binary_function<T>(OpKind::multiply_);
    const ElementType element = call.tensor(0).element();
    const std::vector<T>* b = binary ? &call.tensor(1).values<T>() : nullptr;
    std::vector<T> sums(static_cast<size_t>(product(result_dims)));
    for_each_index(dims, [&](const Dims& index, int64_t) {
      T term = a[static_cast<size_t>(linear_index(index, from_lhs))];
      if (b) term = multiply(term, (*b)[static_cast<size_t>(linear_index(index, from_rhs))], element);
      T& sum = sums[static_cast<size_t>(linear_index(index, to))];
      sum = add(sum, term, element);
    });
    return call.finish(call.result(result_dims), std::move(sums));
  });
}

}  // namespace

Tensor einsum(const Call& call) { return sum_of_products(call, parse_einsum(call, true)); }

Tensor unary_einsum(const Call& call) { return sum_of_products(call, parse_einsum(call, false)); }

namespace {

// Zero outside [start, start + length) of one dimension, on a tensor of any compute type.
Tensor keep_range(const Tensor& tensor, int64_t axis, int64_t start, int64_t length) {
  return visit_values(tensor, [&]<typename T>(std::vector<T> values) {
    for_each_index(tensor.dims(), [&](const Dims& index, int64_t linear) {
      const int64_t at = index[static_cast<size_t>(axis)];
      if (at < start || at >= start + length) values[static_cast<size_t>(linear)] = T{};
    });
    return Tensor(tensor.type(), std::move(values));
  });
}

Tensor drop_axis(const Tensor& tensor, int64_t axis) {
  Dims dims = copy_dims(tensor.dims());
  dims.erase(dims.begin() + axis);
  return tensor.with_type(Type::tensor(tensor.element(), dims));
}

Dims without(Dims axes, int64_t removed) {
  for (int64_t& axis : axes)
    if (axis > removed) --axis;
  return axes;
}

void add_into(const Call& call, ElementType element, Storage& sums, const Storage& terms) {
  std::visit(
      [&]<typename T>(std::vector<T>& all) {
        const auto add = binary_function<T>(OpKind::add_);
        const auto& more = std::get<std::vector<T>>(terms);
        for (size_t i = 0; i < all.size(); ++i) all[i] = add(all[i], more[i], element);
      },
      sums);
}

}  // namespace

// A dot_general whose ragged dimension of lhs is cut into groups of group_sizes. Mode 1 (ragged rows): a
// group's rows meet the group's own rhs. Mode 2 (ragged contracting dimension): one result per group.
// Mode 3 (ragged batch dimension): the plain product of what the groups cover.
Tensor ragged_dot(const Call& call) {
  const Tensor& lhs = call.tensor(0);
  const Tensor& rhs = call.tensor(1);
  const Tensor& sizes = call.tensor(2);
  const DotDims dims = dims_of(call.op());
  const Dims ragged_list = call.op().integers_or(Attr::lhs_ragged_dimensions, 0, 0);
  const Dims group_list = call.op().integers_or(Attr::rhs_group_dimensions, 0, 0);
  if (ragged_list.size() != 1 || group_list.size() > 1)
    call.fail(fmt::format("{} ragged and {} group dimensions", ragged_list.size(), group_list.size()));
  if (sizes.rank() != 1)
    call.not_modelled(fmt::format("group_sizes of {}", sizes.type().to_string()), "use one list of sizes");
  const int64_t ragged = ragged_list[0];
  const bool contracting =
      std::find(dims.lhs_inner.begin(), dims.lhs_inner.end(), ragged) != dims.lhs_inner.end();
  const bool batching =
      std::find(dims.lhs_batch.begin(), dims.lhs_batch.end(), ragged) != dims.lhs_batch.end();
  if (!contracting && !batching && group_list.empty()) call.fail("ragged rows need a group dimension of rhs");

  Dims result_dims;
  std::vector<Storage> groups;
  int64_t start = 0;
  for (int64_t group = 0; group < sizes.size(); ++group) {
    const int64_t length = integer_at(sizes, group);
    const Tensor rows = keep_range(lhs, ragged, start, length);
    start += length;
    Product part = [&] {
      if (group_list.empty()) return multiply(call, rows, rhs, dims);
      const int64_t axis = group_list[0];
      DotDims inside = dims;
      inside.rhs_batch = without(inside.rhs_batch, axis);
      inside.rhs_inner = without(inside.rhs_inner, axis);
      return multiply(call, rows, drop_axis(slice_along(rhs, axis, group, 1), axis), inside);
    }();
    result_dims = part.dims;
    groups.push_back(std::move(part.values));
  }
  if (groups.empty()) call.fail("no groups");
  if (contracting) {
    std::vector<Tensor> parts;
    Dims one = result_dims;
    one.insert(one.begin(), 1);
    for (Storage& values : groups) parts.push_back(call.finish(call.result(one), std::move(values)));
    return concatenate(parts, 0);
  }
  for (size_t group = 1; group < groups.size(); ++group)
    add_into(call, lhs.element(), groups[0], groups[group]);
  return call.finish(call.result(result_dims), std::move(groups[0]));
}

}  // namespace opentrn::graph::eval
