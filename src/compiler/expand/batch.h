// Batches of matrices for the decompositions, [batch, rows, columns] and vectors as matrices of one column or
// row.
//
// Arithmetic on two batches spreads dimensions of size one, and scalars. Ops are written where the
// decomposition is at that moment, in the function or in the body of its loop: that is the Writer's, so that
// a value from outside of a loop may meet one from inside in either order.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "compiler/analysis/dims.h"
#include "graph/builder.h"

namespace opentrn::compiler {

class Writer {
 public:
  explicit Writer(graph::Builder& builder) : builder_(&builder) {}
  graph::Builder& builder() const { return *builder_; }

 private:
  friend class WritingIn;
  graph::Builder* builder_;
};

class Batch {
 public:
  Batch(Writer& writer, graph::ValueId id) : writer_(&writer), id_(id) {}

  graph::ValueId id() const { return id_; }
  Writer& writer() const { return *writer_; }
  const graph::Type& type() const { return builder().type(id_); }
  graph::ElementType element() const { return type().element(); }
  Dims dims() const { return type().dims_vector(); }
  int64_t dim(int axis) const { return type().dim(axis); }
  bool is_complex() const { return graph::is_complex(element()); }

  // A splat of this element type.
  Batch number(double value, Dims dims) const;
  // 0, 1, 2, ... along an axis; i32.
  Batch places(Dims dims, int64_t axis) const;
  // Another element type; real numbers become complex ones with no imaginary part.
  Batch as(graph::ElementType element) const;
  Batch unary(graph::OpKind kind) const;
  Batch binary(graph::OpKind kind, const Batch& other) const;
  Batch compare(graph::ComparisonDirection direction, const Batch& other) const;
  // These elements where the condition holds, the other's elsewhere.
  Batch where(const Batch& condition, const Batch& other) const;
  Batch where(const Batch& condition, double other) const;

  Batch abs() const;   // the length of complex numbers, real
  Batch real() const;  // of real numbers themselves
  Batch imag() const;  // of real numbers zero
  Batch conj() const;
  Batch sqrt() const;

  Batch spread(const Dims& dims) const;
  Batch reshape(Dims dims) const;
  Batch transposed() const;  // rows and columns
  Batch adjoint() const { return transposed().conj(); }
  // Elements [begin, end) of an axis, every step-th.
  Batch part(int axis, int64_t begin, int64_t end, int64_t step = 1) const;
  // The one at a computed place, an i32 scalar; the axis stays, of size one.
  Batch at(const Batch& place, int axis) const;
  // Those of the last axis at `order`, i32 [size].
  Batch taken(const Batch& order) const;
  // The rows of each matrix at `order`, i32 [batch, count, 1].
  Batch rows_taken(const Batch& order) const;
  // The axis stays, of size one.
  Batch sum(int axis) const;
  Batch max(int axis) const;
  Batch min(int axis) const;
  Batch padded(int64_t rows, int64_t columns) const;  // zeros below and on the right
  Batch beside(const Batch& right, int axis) const;   // concatenated
  // Of matrices.
  Batch product(const Batch& other) const;
  // X of A X = `right`, or of A^H X with `adjoint`, A a triangle of this matrix whose diagonal is one.
  Batch solved_with_ones(const Batch& right, bool lower, bool adjoint = false) const;

 private:
  graph::Builder& builder() const { return writer_->builder(); }
  Batch made(graph::ValueId id) const { return {*writer_, id}; }
  Batch reduced(graph::OpKind combiner, int axis) const;

  Writer* writer_;
  graph::ValueId id_;
};

inline Batch operator+(const Batch& a, const Batch& b) { return a.binary(graph::OpKind::add_, b); }
inline Batch operator-(const Batch& a, const Batch& b) { return a.binary(graph::OpKind::subtract_, b); }
inline Batch operator*(const Batch& a, const Batch& b) { return a.binary(graph::OpKind::multiply_, b); }
inline Batch operator/(const Batch& a, const Batch& b) { return a.binary(graph::OpKind::divide_, b); }
inline Batch operator+(const Batch& a, double b) { return a + a.number(b, {}); }
inline Batch operator-(const Batch& a, double b) { return a - a.number(b, {}); }
inline Batch operator*(const Batch& a, double b) { return a * a.number(b, {}); }
inline Batch operator-(const Batch& a) { return a.unary(graph::OpKind::negate_); }
// Of conditions.
inline Batch operator&(const Batch& a, const Batch& b) { return a.binary(graph::OpKind::and_, b); }
inline Batch operator|(const Batch& a, const Batch& b) { return a.binary(graph::OpKind::or_, b); }
inline Batch operator<(const Batch& a, const Batch& b) {
  return a.compare(graph::ComparisonDirection::kLt, b);
}
inline Batch operator>(const Batch& a, const Batch& b) {
  return a.compare(graph::ComparisonDirection::kGt, b);
}
inline Batch operator>=(const Batch& a, const Batch& b) {
  return a.compare(graph::ComparisonDirection::kGe, b);
}
inline Batch operator==(const Batch& a, const Batch& b) {
  return a.compare(graph::ComparisonDirection::kEq, b);
}
inline Batch operator>(const Batch& a, double b) { return a > a.number(b, {}); }
inline Batch operator>=(const Batch& a, double b) { return a >= a.number(b, {}); }
inline Batch operator==(const Batch& a, double b) { return a == a.number(b, {}); }
inline Batch operator!=(const Batch& a, const Batch& b) {
  return a.compare(graph::ComparisonDirection::kNe, b);
}

// Concatenated.
Batch joined(std::span<const Batch> parts, int axis);
// [1, rows, columns] of the element type of `like`.
Batch identity(const Batch& like, int64_t rows, int64_t columns);
// [batch, 1, size]: the diagonal of square matrices.
Batch diagonal(const Batch& a);
// With zeros in the other triangle.
Batch triangle(const Batch& a, bool upper);

// What `carried` is after step(i, carried) for each i below count; i is an i32 scalar.
using LoopStep = std::function<std::vector<Batch>(const Batch& i, const std::vector<Batch>& carried)>;
std::vector<Batch> loop(int64_t count, const std::vector<Batch>& carried, const LoopStep& step);

}  // namespace opentrn::compiler
