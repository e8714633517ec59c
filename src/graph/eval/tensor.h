// What the evaluator computes with: a tensor as a typed vector of one of five compute types.
//
//   bool            i1
//   signed 64       i2 .. i64, index
//   unsigned 64     ui2 .. ui64
//   double          every float type; the values are representable in it (see rounding.h)
//   complex double  complex<f32>, complex<f64>; the parts are representable in it
//
// Sharing is free: a Tensor is a pointer to immutable data.
#pragma once

#include <complex>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "base/fault.h"
#include "graph/literal.h"
#include "graph/type.h"

namespace opentrn::graph::eval {

using Bool = uint8_t;  // 0 or 1; std::vector<bool> is not a vector
using Signed = int64_t;
using Unsigned = uint64_t;
using Real = double;
using Complex = std::complex<double>;

using Storage = std::variant<std::vector<Bool>, std::vector<Signed>, std::vector<Unsigned>, std::vector<Real>,
                             std::vector<Complex>>;

class Tensor {
 public:
  // `values` as they are: representable in the element type. Internal fault when the count or the
  // compute type does not fit.
  Tensor(Type type, Storage values);

  const Type& type() const { return body_->type; }
  std::span<const int64_t> dims() const { return body_->type.dims(); }
  int rank() const { return body_->type.rank(); }
  int64_t size() const { return body_->size; }
  ElementType element() const { return body_->type.element(); }
  const Storage& storage() const { return body_->values; }
  template <typename T>
  const std::vector<T>& values() const {
    const auto* found = std::get_if<std::vector<T>>(&body_->values);
    OPENTRN_CHECK(found != nullptr, "{} is not of the compute type asked for", type().to_string());
    return *found;
  }
  // The same elements under another shape or quantization.
  Tensor with_type(Type type) const;

 private:
  struct Body {
    Type type;
    Storage values;
    int64_t size;
  };
  std::shared_ptr<const Body> body_;
};

// Calls visit(const std::vector<T>&) with the tensor's compute type: the evaluator's one dispatch over
// types.
template <typename Visit>
decltype(auto) visit_values(const Tensor& tensor, Visit&& visit) {
  return std::visit(std::forward<Visit>(visit), tensor.storage());
}

Tensor from_literal(const Literal& literal);
// Rounds to the element type where values are not representable (Options::float64).
Literal to_literal(const Tensor& tensor);

// `count` zeros of the compute type of `element`.
Storage zeros(ElementType element, int64_t count);
// Brings computed values back into the element type: rounds floats, wraps integers.
void normalise(ElementType element, Storage& values);
template <typename T>
T normalised(ElementType element, T value);

// An integer or boolean element, as a signed number (a ui64 above INT64_MAX as INT64_MAX: it is an index).
int64_t integer_at(const Tensor& tensor, int64_t index);
std::vector<int64_t> integers_of(const Tensor& tensor);
Tensor i64_tensor(std::span<const int64_t> values);

}  // namespace opentrn::graph::eval
