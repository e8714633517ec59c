#include "compiler/expand/eigen.h"

#include <cmath>
#include <utility>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/rotations_call.h"
#include "compiler/expand/jacobi.h"
#include "compiler/expand/qr.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

Batch of_columns(const Batch& a, bool odd) { return a.part(2, odd ? 1 : 0, a.dim(2), 2); }

// [batch, 1, 2 n] of two [batch, 1, n].
Batch interleaved(const Batch& first, const Batch& second) {
  const int64_t batch = first.dim(0), n = first.dim(2);
  const Batch a = first.reshape({batch, 1, n, 1}), b = second.reshape({batch, 1, n, 1});
  return a.beside(b, 3).reshape({batch, 1, 2 * n});
}

// Columns in the order of the next round: `size - 1` rounds bring every two of them together once. The first
// column stays; the others go round, up along the even places and back along the odd ones.
Batch gone_round(const Batch& evens, const Batch& odds) {
  const int64_t n = evens.dim(2);
  if (n == 1) return interleaved(evens, odds);
  Batch top = evens.part(2, 0, 1).beside(odds.part(2, 0, 1), 2);
  if (n > 2) top = top.beside(evens.part(2, 1, n - 1), 2);
  return interleaved(top, odds.part(2, 1, n).beside(evens.part(2, n - 1, n), 2));
}

struct Angles {
  Batch cosine, sine, phase;  // real, real, the type of `off`; [batch, 1, pairs]
};

// What makes `off` zero between the diagonal entries p and q.
Angles angles(const Batch& p, const Batch& q, const Batch& off) {
  const Batch length = off.abs(), present = length > 0, safe = length.where(present, 1);
  const Batch tau = (q - p) / (safe + safe);
  const Batch sign = tau.number(1, tau.dims()).where(tau >= 0, -1);
  const Batch tangent = (sign / (tau.abs() + (tau * tau + 1).sqrt())).where(present, 0);
  const Batch cosine = tangent.number(1, {}) / (tangent * tangent + 1).sqrt();
  return {cosine, tangent * cosine, (off / safe.as(off.element())).where(present, 1)};
}

class Rounds {
 public:
  Rounds(const Batch& like, int64_t size)
      : order_(from(like, size, false).reshape({size})),
        same_(where_from(like, size, false)),
        beside_(where_from(like, size, true)) {}

  // What columns are multiplied by: their rotations, and the order that follows.
  Batch rotation(const Angles& a) const {
    const ElementType element = a.phase.element();
    const Batch c = a.cosine.as(element), s = a.sine.as(element), back = a.phase.conj();
    const Batch kept = interleaved(c, c * back), crossed = interleaved(-(s * back), s);
    return same_ * kept.taken(order_) + beside_ * crossed.taken(order_);
  }

 private:
  // [1, 1, size], i32: the column that each of the next round comes from, or that column's partner.
  static Batch from(const Batch& like, int64_t size, bool partner) {
    const Batch pairs = like.places({1, 1, size / 2}, 2);
    const Batch evens = pairs + pairs, odds = evens + 1;
    return partner ? gone_round(odds, evens) : gone_round(evens, odds);
  }
  // [1, size, size]: one where it comes from a row.
  static Batch where_from(const Batch& like, int64_t size, bool partner) {
    const Dims dims{1, size, size};
    return like.number(1, dims).where(like.places(dims, 1) == from(like, size, partner), 0);
  }

  Batch order_, same_, beside_;
};

// Nearly orthonormal columns made so: a step of Newton and Schulz.
Batch orthonormal(const Batch& vectors) {
  return vectors * 1.5 - vectors.product(vectors.adjoint().product(vectors)) * 0.5;
}

// Whether a kernel takes the rounds, of matrices that lie in a partition together.
bool are_small(const Batch& state, int64_t size) {
  return !state.is_complex() && (state.dim(1) + size) * size <= kSmallMatrixElements;
}

std::vector<Batch> turned_by_kernel(const Batch& state, const Batch& vectors, const RotationsCall& call) {
  const auto results = called(state.writer(), kRotationsTarget, call.words(), {state.id(), vectors.id()},
                              {state.type(), vectors.type()});
  return {Batch(state.writer(), results[0]), Batch(state.writer(), results[1])};
}

// The diagonal of R, and the first columns of Q.
struct Orthogonal {
  Batch diagonal, columns;
};

Orthogonal orthogonal_of(const Batch& a, int64_t width) {
  const int64_t batch = a.dim(0), rows = a.dim(1), size = a.dim(2);
  const Batch first = identity(a, rows, width).spread({batch, rows, width});
  // Larger ones take longer in one partition than products of all do.
  const bool is_small =
      a.element() == ElementType::kF32 && are_small(a, size) && rows * width <= kSmallMatrixElements;
  if (!is_small) {
    const Reflections q = reflections_of(a);
    return {diagonal(q.packed.part(1, 0, size)), reflected(q, first, false)};
  }
  const auto q =
      called(a.writer(), "opentrn.geqrf", "", {a.id()}, {a.type(), a.type().with_dims({batch, size})});
  const auto columns = called(a.writer(), "opentrn.ormqr", "", {q[0], q[1], first.id()}, {first.type()});
  return {diagonal(Batch(a.writer(), q[0]).part(1, 0, size)), Batch(a.writer(), columns[0])};
}

using JacobiStep = std::function<std::vector<Batch>(const Batch& state, const Batch& vectors)>;

// (seen(vectors), vectors) after every sweep; `seen` takes the matrix into the vectors' basis; `both`: where
// `step` turns its rows too.
std::pair<Batch, Batch> rotated(const Batch& a, int64_t size, bool both,
                                const std::function<Batch(const Batch&)>& seen, const JacobiStep& step) {
  Batch vectors = identity(a, size, size).spread({a.dim(0), size, size});
  Batch state = seen(vectors);
  // A kernel's sweeps change the order of the columns, and every second one changes it back: an added column
  // has to be the last one again at the end.
  const bool small = are_small(state, size), added = a.dim(2) != size;
  const int64_t first = small && added ? sweeps(size) | 1 : sweeps(size);
  const auto round = [&](const Batch&, const std::vector<Batch>& now) { return step(now[0], now[1]); };
  for (const int64_t count : {first, int64_t{1}}) {
    vectors = orthonormal((small ? turned_by_kernel(state, vectors, {both, count * size})
                                 : loop(count * (size - 1), {state, vectors}, round))[1]);
    state = seen(vectors);
  }
  return {state, vectors};
}

// Values and the columns that go with them, in order.
std::vector<Batch> in_order(const Batch& values, const std::vector<Batch>& columns, bool falling) {
  const int64_t size = values.dim(2);
  std::vector<Batch> result{values};
  result.insert(result.end(), columns.begin(), columns.end());
  if (size == 1) return result;
  graph::Builder& builder = values.writer().builder();
  const graph::Type scalar = graph::Type::scalar(values.element()),
                    place = graph::Type::scalar(ElementType::kI32);
  const graph::RegionBody before{
      {scalar, scalar, place, place}, [&](graph::Builder& body, std::span<const graph::ValueId> a) {
        const auto direction = falling ? ComparisonDirection::kGt : ComparisonDirection::kLt;
        const graph::ValueId first = body.compare(direction, a[0], a[1]);
        // NaN is the greatest.
        const graph::ValueId greater = falling ? a[0] : a[1], other = falling ? a[1] : a[0];
        const graph::ValueId is_nan = body.compare(ComparisonDirection::kNe, greater, greater);
        const graph::ValueId is_number = body.compare(ComparisonDirection::kEq, other, other);
        return std::vector{body.add(OpKind::or_, {first, body.add(OpKind::and_, {is_nan, is_number})})};
      }};
  const Batch places = values.places(values.dims(), 2);
  const graph::OpId sorted = builder.add_with_regions(OpKind::sort_, {values.id(), places.id()},
                                                      {{graph::Attr::dimension, graph::Attribute(int64_t{2})},
                                                       {graph::Attr::is_stable, graph::Attribute(true)}},
                                                      {values.type(), places.type()}, {before});
  const std::vector<graph::ValueId> made = builder.function().op(sorted).results;
  result[0] = Batch(values.writer(), made[0]);
  const Batch chosen(values.writer(), made[1]);
  // Whole columns by a product with a matrix of ones and zeros.
  for (size_t i = 0; i < columns.size(); ++i) {
    const Batch rows = values.places({1, size, 1}, 1);
    const Batch pick = columns[i].number(1, {values.dim(0), size, size}).where(rows == chosen, 0);
    result[i + 1] = columns[i].product(pick);
  }
  return result;
}

Eigen eigen_by_products(const Batch& a) {
  const int64_t size = a.dim(1), all = even(size);
  const Batch whole = a.padded(all, all);
  const Rounds rounds(a, all);
  const auto step = [&](const Batch& state, const Batch& vectors) -> std::vector<Batch> {
    const Batch values = diagonal(state).real(), above = diagonal(state.part(2, 1, all).padded(all, all));
    const Batch rotation = rounds.rotation(
        angles(of_columns(values, false), of_columns(values, true), of_columns(above, false)));
    return {state.product(rotation).adjoint().product(rotation), vectors.product(rotation)};
  };
  const auto seen = [&](const Batch& v) { return v.adjoint().product(whole.product(v)); };
  const auto [state, vectors] = rotated(a, all, true, seen, step);
  return {diagonal(state).real().part(2, 0, size), vectors.part(1, 0, size).part(2, 0, size)};
}

Batch lengths_of(const Batch& columns) { return (columns.conj() * columns).real().sum(1); }

// Hestenes' one-sided method turns the columns until they are at right angles.
Turned turned_by_products(const Batch& a) {
  const int64_t rows = a.dim(1), size = a.dim(2), all = even(size);
  const Batch whole = a.padded(rows, all);
  const Rounds rounds(a, all);
  const auto step = [&](const Batch& state, const Batch& vectors) -> std::vector<Batch> {
    // Of all columns, and of each with its neighbour: every second element of a row is a transfer's own.
    const Batch lengths = lengths_of(state);
    const Batch beside = (state.part(2, 0, all - 1).conj() * state.part(2, 1, all)).sum(1);
    const Batch rotation = rounds.rotation(
        angles(of_columns(lengths, false), of_columns(lengths, true), of_columns(beside, false)));
    return {state.product(rotation), vectors.product(rotation)};
  };
  const auto [state, vectors] = rotated(
      a, all, false, [&](const Batch& v) { return whole.product(v); }, step);
  return {state.part(2, 0, size), vectors.part(1, 0, size).part(2, 0, size)};
}

Singular singular_of_turned(const Batch& a, const Turned& turned, bool full, bool only_values) {
  const int64_t rows = a.dim(1), size = a.dim(2), width = full ? rows : size;
  const std::vector<Batch> sorted =
      in_order(lengths_of(turned.columns), {turned.columns, turned.vectors}, true);
  if (only_values)
    return {identity(a, rows, width).spread({a.dim(0), rows, width}), sorted[0].sqrt(), sorted[2]};
  // Columns of zeros have no direction: those of Q are at right angles to all the others.
  const auto [on_diagonal, columns] = orthogonal_of(sorted[1], width);
  const Batch values = on_diagonal.abs(), present = values > 0;
  Batch phases = (on_diagonal / values.where(present, 1).as(a.element())).where(present, 1);
  if (width > size) phases = phases.beside(phases.number(1, {a.dim(0), 1, width - size}), 2);
  return {columns * phases, values, sorted[2]};
}

}  // namespace

Eigen eigen_of(const Batch& a, bool sorted) {
  const Eigen made = are_turned_by_rows(a, a.dim(1)) ? eigen_by_rows(a) : eigen_by_products(a);
  if (!sorted) return made;
  const std::vector<Batch> ordered = in_order(made.values, {made.vectors}, false);
  return {ordered[0], ordered[1]};
}

Singular singular_of(const Batch& a, bool full, bool only_values) {
  if (!are_turned_by_rows(a, a.dim(1) + a.dim(2)))
    return singular_of_turned(a, turned_by_products(a), full, only_values);
  const Batch unit = unit_of(a), scaled = a / unit;
  if (only_values) {
    const int64_t rows = a.dim(1), size = a.dim(2);
    const Batch values = in_order(singular_values_by_rows(scaled), {}, true)[0].part(2, 0, size) * unit;
    const auto of_no_meaning = [&](int64_t height, int64_t width) {
      return identity(a, height, width).spread({a.dim(0), height, width});
    };
    return {of_no_meaning(rows, full ? rows : size), values, of_no_meaning(size, size)};
  }
  const Singular made = singular_of_turned(a, turned_by_rows(scaled), full, only_values);
  return {made.u, made.values * unit, made.v};
}

}  // namespace opentrn::compiler
