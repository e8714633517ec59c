// Ops of the graph with ONNX's habits: numpy broadcasting, axes from the end, kept dimensions.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "graph/builder.h"

namespace opentrn::import::onnx {

using graph::Attr;
using graph::Attribute;
using graph::Builder;
using graph::ComparisonDirection;
using graph::ElementType;
using graph::Literal;
using graph::OpKind;
using graph::Type;
using graph::ValueId;
using Dims = std::vector<int64_t>;
using Values = std::vector<ValueId>;

// One dimension of a sliding window.
struct WindowDim {
  int64_t size = 1;
  int64_t stride = 1;
  int64_t dilation = 1;
  int64_t pad_low = 0;
  int64_t pad_high = 0;
};

class Emit {
 public:
  explicit Emit(Builder& builder) : b_(&builder) {}
  Builder& builder() const { return *b_; }

  const Type& type(ValueId x) const { return b_->type(x); }
  ElementType element(ValueId x) const { return type(x).element(); }
  int64_t rank(ValueId x) const { return type(x).rank(); }
  Dims dims(ValueId x) const { return type(x).dims_vector(); }
  // Input fault when x has no such axis.
  int64_t dim(ValueId x, int64_t axis) const;

  ValueId constant(Literal value) const { return b_->constant(std::move(value)); }
  ValueId full(ElementType element, Dims dims, double value) const;
  ValueId scalar(ElementType element, double value) const { return full(element, {}, value); }
  ValueId like(ValueId x, double value) const { return full(element(x), dims(x), value); }
  // 0, 1, 2... along `axis`.
  ValueId iota(ElementType element, Dims dims, int64_t axis) const;
  ValueId integers(const Dims& values, ElementType element = ElementType::kI64) const;
  ValueId reals(const std::vector<double>& values, ElementType element, Dims dims) const;

  ValueId unary(OpKind kind, ValueId x) const { return b_->add(kind, {x}); }
  // Numpy broadcasting of both operands.
  ValueId binary(OpKind kind, ValueId a, ValueId b) const;
  ValueId add(ValueId a, ValueId b) const { return binary(OpKind::add_, a, b); }
  ValueId sub(ValueId a, ValueId b) const { return binary(OpKind::subtract_, a, b); }
  ValueId mul(ValueId a, ValueId b) const { return binary(OpKind::multiply_, a, b); }
  ValueId div(ValueId a, ValueId b) const { return binary(OpKind::divide_, a, b); }
  ValueId max(ValueId a, ValueId b) const { return binary(OpKind::maximum_, a, b); }
  ValueId min(ValueId a, ValueId b) const { return binary(OpKind::minimum_, a, b); }
  ValueId add(ValueId a, double b) const { return add(a, like(a, b)); }
  ValueId sub(ValueId a, double b) const { return sub(a, like(a, b)); }
  ValueId mul(ValueId a, double b) const { return mul(a, like(a, b)); }
  ValueId div(ValueId a, double b) const { return div(a, like(a, b)); }
  ValueId max(ValueId a, double b) const { return max(a, like(a, b)); }
  ValueId min(ValueId a, double b) const { return min(a, like(a, b)); }
  ValueId neg(ValueId x) const { return unary(OpKind::negate_, x); }
  ValueId exp(ValueId x) const { return unary(OpKind::exponential_, x); }
  ValueId log(ValueId x) const { return unary(OpKind::log_, x); }
  ValueId sqrt(ValueId x) const { return unary(OpKind::sqrt_, x); }
  ValueId tanh(ValueId x) const { return unary(OpKind::tanh_, x); }
  ValueId sigmoid(ValueId x) const { return unary(OpKind::logistic_, x); }
  ValueId logical_not(ValueId x) const { return unary(OpKind::not_, x); }
  ValueId compare(ComparisonDirection direction, ValueId a, ValueId b) const;
  ValueId compare(ComparisonDirection direction, ValueId a, double b) const {
    return compare(direction, a, like(a, b));
  }
  ValueId select(ValueId predicate, ValueId a, ValueId b) const;
  ValueId cast(ValueId x, ElementType element) const { return b_->convert(x, element); }
  // `x` converted, worked on by f, and converted back.
  template <typename F>
  ValueId in(ElementType wide, ValueId x, F&& f) const {
    const ElementType narrow = element(x);
    return cast(f(cast(x, wide)), narrow);
  }

  ValueId broadcast_to(ValueId x, const Dims& dims) const;
  ValueId reshape(ValueId x, Dims dims) const { return b_->reshape(x, std::move(dims)); }
  ValueId transpose(ValueId x, Dims permutation) const;
  ValueId unsqueeze(ValueId x, int64_t axis) const;
  ValueId squeeze(ValueId x, int64_t axis) const;
  ValueId concat(Values values, int64_t axis) const { return b_->concatenate(std::move(values), axis); }
  ValueId slice(ValueId x, int64_t axis, int64_t start, int64_t limit, int64_t stride = 1) const;
  // The index-th slice of `axis`, which disappears.
  ValueId take(ValueId x, int64_t axis, int64_t index) const;
  std::vector<ValueId> split(ValueId x, int64_t axis, int64_t parts) const;
  ValueId reverse(ValueId x, Dims axes) const;
  ValueId pad(ValueId x, ValueId value, Dims low, Dims high, Dims interior = {}) const;
  ValueId reduce(OpKind combiner, ValueId x, const Dims& axes, bool keep) const;
  ValueId sum(ValueId x, const Dims& axes, bool keep) const { return reduce(OpKind::add_, x, axes, keep); }
  ValueId mean(ValueId x, const Dims& axes, bool keep) const;
  ValueId softmax(ValueId x, int64_t axis) const;
  // Index of the extreme value along `axis`, i64; the dimension stays with size 1.
  ValueId arg_extreme(ValueId x, int64_t axis, bool largest, bool last) const;
  // Windows over all dimensions of x; padding counts as the neutral element.
  ValueId reduce_window(OpKind combiner, ValueId x, const std::vector<WindowDim>& windows) const;

  ValueId dot_general(ValueId a, ValueId b, Dims a_batch, Dims b_batch, Dims a_contract, Dims b_contract,
                      std::optional<ElementType> result = std::nullopt) const;
  // numpy.matmul; `result`: the element of sums and result.
  ValueId matmul(ValueId a, ValueId b, std::optional<ElementType> result = std::nullopt) const;

  // data[..., indices, ...] on `axis`: numpy.take. Negative indices count from the end.
  ValueId take_along(ValueId data, ValueId indices, int64_t axis) const;
  // Rows of `data` named by the last dimension of `indices`, after `batch` shared leading dimensions.
  ValueId gather_nd(ValueId data, ValueId indices, int64_t batch) const;
  // Of places that are none of them negative.
  ValueId gather_at(ValueId data, ValueId indices, int64_t batch) const;
  // indices [...], one per element of the result, which has their shape: numpy.take_along_axis.
  ValueId gather_elements(ValueId data, ValueId indices, int64_t axis) const;
  // Full index vectors, one column per dimension of x: [n..., rank].
  ValueId element_indices(ValueId indices, int64_t axis) const;
  // x with rows at index vectors [..., k] replaced by `updates`, or combined with them.
  ValueId scatter_nd(ValueId x, ValueId indices, ValueId updates, std::optional<OpKind> combiner) const;
  // Where indices are negative, plus `size`.
  ValueId wrap_indices(ValueId indices, int64_t size) const;
  // One-element scalars at `index` of a 1-D constant-free start list.
  ValueId dynamic_slice(ValueId x, Values start, Dims sizes) const;
  ValueId dynamic_update(ValueId x, ValueId update, Values start) const;

 private:
  Builder* b_;
};

// numpy.broadcast_shapes; input fault when they do not.
Dims broadcast_shapes(const Dims& a, const Dims& b);
Dims range(int64_t begin, int64_t end);
int64_t product(const Dims& dims);

}  // namespace opentrn::import::onnx
