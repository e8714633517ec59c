#include "compiler/expand/batch.h"

#include <algorithm>

#include "base/fault.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/rewrite/expression.h"

namespace opentrn::compiler {

// Ops are written into `builder` while this lives.
class WritingIn {
 public:
  WritingIn(Writer& writer, graph::Builder& builder) : writer_(writer), before_(writer.builder_) {
    writer.builder_ = &builder;
  }
  ~WritingIn() { writer_.builder_ = before_; }
  WritingIn(const WritingIn&) = delete;
  WritingIn& operator=(const WritingIn&) = delete;

 private:
  Writer& writer_;
  graph::Builder* before_;
};

namespace {

// The dimensions of a result whose operands have these; one of them may be a scalar.
Dims joint(const Dims& a, const Dims& b) {
  if (a.empty()) return b;
  if (b.empty()) return a;
  OPENTRN_CHECK(a.size() == b.size(), "matrices of ranks {} and {}", a.size(), b.size());
  Dims dims = a;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == 1) dims[i] = b[i];
  return dims;
}

}  // namespace

Batch Batch::number(double value, Dims dims) const {
  return made(builder().splat(Type::tensor(element(), std::move(dims)), value));
}

Batch Batch::places(Dims dims, int64_t axis) const {
  return made(builder().add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(axis)}},
                            {Type::tensor(ElementType::kI32, std::move(dims))}));
}

Batch Batch::as(ElementType wanted) const {
  if (element() == wanted) return *this;
  if (!graph::is_complex(wanted) || is_complex()) return made(builder().convert(id_, wanted));
  const Batch part = as(graph::ElementType::kF32);
  return made(builder().add(OpKind::complex_, {part.id(), part.number(0, part.dims()).id()}));
}

Batch Batch::unary(OpKind kind) const { return made(builder().add(kind, {id_})); }

Batch Batch::binary(OpKind kind, const Batch& other) const {
  const Dims dims = joint(this->dims(), other.dims());
  return made(builder().add(kind, {spread(dims).id(), other.spread(dims).id()}));
}

Batch Batch::compare(ComparisonDirection direction, const Batch& other) const {
  const Dims dims = joint(this->dims(), other.dims());
  return made(builder().compare(direction, spread(dims).id(), other.spread(dims).id()));
}

Batch Batch::where(const Batch& condition, const Batch& other) const {
  const Dims dims = joint(joint(this->dims(), other.dims()), condition.dims());
  return made(builder().add(OpKind::select_,
                            {condition.spread(dims).id(), spread(dims).id(), other.spread(dims).id()}));
}

Batch Batch::where(const Batch& condition, double other) const { return where(condition, number(other, {})); }

Batch Batch::abs() const { return unary(OpKind::abs_); }
Batch Batch::real() const { return is_complex() ? unary(OpKind::real_) : *this; }
Batch Batch::imag() const { return is_complex() ? unary(OpKind::imag_) : number(0, dims()); }
Batch Batch::conj() const { return is_complex() ? unary(OpKind::chlo_conj_) : *this; }
Batch Batch::sqrt() const { return unary(OpKind::sqrt_); }

Batch Batch::spread(const Dims& dims) const {
  if (this->dims() == dims) return *this;
  Dims axes;
  for (int64_t i = 0; i < type().rank(); ++i) axes.push_back(i);
  return made(builder().broadcast_in_dim(id_, dims, std::move(axes)));
}

Batch Batch::reshape(Dims dims) const {
  return this->dims() == dims ? *this : made(builder().reshape(id_, std::move(dims)));
}

Batch Batch::transposed() const { return made(builder().transpose(id_, {0, 2, 1})); }

Batch Batch::part(int axis, int64_t begin, int64_t end, int64_t step) const {
  const auto at = static_cast<size_t>(axis);
  Dims start(dims().size(), 0), count = dims(), steps(dims().size(), 1);
  start[at] = begin;
  count[at] = (end - begin + step - 1) / step;
  steps[at] = step;
  return made(strided(builder(), id_, start, count, steps));
}

Batch Batch::at(const Batch& place, int axis) const {
  std::vector<ValueId> operands{id_};
  Dims sizes = dims();
  for (int i = 0; i < type().rank(); ++i)
    operands.push_back(i == axis ? place.id() : place.number(0, {}).id());
  sizes[static_cast<size_t>(axis)] = 1;
  return made(builder().add(OpKind::dynamic_slice_, std::move(operands),
                            {{Attr::slice_sizes, Attribute(std::move(sizes))}}));
}

Batch Batch::taken(const Batch& order) const {
  Dims sizes = dims();
  sizes[2] = 1;
  return made(builder().add(OpKind::gather_, {id_, order.id()},
                            {{Attr::offset_dims, Attribute(Dims{0, 1})},
                             {Attr::collapsed_slice_dims, Attribute(Dims{2})},
                             {Attr::start_index_map, Attribute(Dims{2})},
                             {Attr::index_vector_dim, Attribute(int64_t{1})},
                             {Attr::slice_sizes, Attribute(std::move(sizes))},
                             {Attr::indices_are_sorted, Attribute(false)}}));
}

Batch Batch::rows_taken(const Batch& order) const {
  const int64_t batch = dim(0), rows = dim(1), columns = dim(2), count = order.dim(1);
  const Batch first = order.places({batch, 1, 1}, 0) * static_cast<double>(rows);
  const Batch places = (order + first).reshape({batch * count, 1});
  const Batch flat = reshape({batch * rows, columns});
  return made(builder().add(OpKind::gather_, {flat.id(), places.id()},
                            {{Attr::offset_dims, Attribute(Dims{1})},
                             {Attr::collapsed_slice_dims, Attribute(Dims{0})},
                             {Attr::start_index_map, Attribute(Dims{0})},
                             {Attr::index_vector_dim, Attribute(int64_t{1})},
                             {Attr::slice_sizes, Attribute(Dims{1, columns})},
                             {Attr::indices_are_sorted, Attribute(false)}}))
      .reshape({batch, count, columns});
}

Batch Batch::reduced(OpKind combiner, int axis) const {
  Dims kept = dims();
  kept[static_cast<size_t>(axis)] = 1;
  return made(builder().reshape(builder().reduce(combiner, id_, {axis}), std::move(kept)));
}

Batch Batch::sum(int axis) const { return reduced(OpKind::add_, axis); }
Batch Batch::max(int axis) const { return reduced(OpKind::maximum_, axis); }
Batch Batch::min(int axis) const { return reduced(OpKind::minimum_, axis); }

Batch Batch::padded(int64_t rows, int64_t columns) const {
  const Dims high{0, rows - dim(1), columns - dim(2)};
  return made(compiler::padded(builder(), id_, number(0, {}).id(), {0, 0, 0}, high, {0, 0, 0}));
}

Batch Batch::beside(const Batch& right, int axis) const {
  return made(builder().concatenate({id_, right.id()}, axis));
}

Batch Batch::product(const Batch& other) const {
  const Dims dims{std::max(dim(0), other.dim(0)), dim(1), other.dim(2)};
  const Batch a = spread({dims[0], dim(1), dim(2)}), b = other.spread({dims[0], other.dim(1), other.dim(2)});
  return made(builder().add(OpKind::dot_general_, {a.id(), b.id()},
                            {{Attr::lhs_batching_dimensions, Attribute(Dims{0})},
                             {Attr::rhs_batching_dimensions, Attribute(Dims{0})},
                             {Attr::lhs_contracting_dimensions, Attribute(Dims{2})},
                             {Attr::rhs_contracting_dimensions, Attribute(Dims{1})}},
                            {Type::tensor(element(), dims)}));
}

Batch Batch::solved_with_ones(const Batch& right, bool lower, bool adjoint) const {
  const auto kind = adjoint ? graph::Transpose::kAdjoint : graph::Transpose::kNone;
  return made(builder().add(OpKind::triangular_solve_, {id_, right.id()},
                            {{Attr::left_side, Attribute(true)},
                             {Attr::lower, Attribute(lower)},
                             {Attr::unit_diagonal, Attribute(true)},
                             {Attr::transpose_a, static_cast<int64_t>(kind)}}));
}

Batch joined(std::span<const Batch> parts, int axis) {
  std::vector<ValueId> ids;
  for (const Batch& each : parts) ids.push_back(each.id());
  Writer& writer = parts.front().writer();
  return parts.size() == 1 ? parts.front() : Batch(writer, writer.builder().concatenate(ids, axis));
}

Batch identity(const Batch& like, int64_t rows, int64_t columns) {
  const Dims dims{1, rows, columns};
  return like.number(1, dims).where(like.places(dims, 1) == like.places(dims, 2), 0);
}

Batch diagonal(const Batch& a) { return a.where(a.places(a.dims(), 1) == a.places(a.dims(), 2), 0).sum(1); }

Batch triangle(const Batch& a, bool upper) {
  const Batch rows = a.places(a.dims(), 1), columns = a.places(a.dims(), 2);
  return a.where(upper ? columns >= rows : rows >= columns, 0);
}

std::vector<Batch> loop(int64_t count, const std::vector<Batch>& carried, const LoopStep& step) {
  Writer& writer = carried.front().writer();
  graph::Builder& outside = writer.builder();
  const Type counter = Type::scalar(ElementType::kI32);
  std::vector<Type> types{counter};
  std::vector<ValueId> start{outside.splat(counter, 0)};
  for (const Batch& each : carried) {
    types.push_back(each.type());
    start.push_back(each.id());
  }
  const graph::RegionBody condition{
      types, [&](graph::Builder& body, std::span<const ValueId> a) -> std::vector<ValueId> {
        return {
            body.compare(ComparisonDirection::kLt, a[0], body.splat(counter, static_cast<double>(count)))};
      }};
  const graph::RegionBody iteration{
      types, [&](graph::Builder& body, std::span<const ValueId> a) -> std::vector<ValueId> {
        const WritingIn inside(writer, body);
        std::vector<Batch> state;
        for (const ValueId id : a.subspan(1)) state.emplace_back(writer, id);
        std::vector<ValueId> next{body.add(OpKind::add_, {a[0], body.splat(counter, 1)})};
        for (const Batch& each : step(Batch(writer, a[0]), state)) next.push_back(each.id());
        return next;
      }};
  const graph::OpId made =
      outside.add_with_regions(OpKind::while_, std::move(start), {}, types, {condition, iteration});
  std::vector<Batch> results;
  for (const ValueId id : std::span(outside.function().op(made).results).subspan(1))
    results.emplace_back(writer, id);
  return results;
}

}  // namespace opentrn::compiler
