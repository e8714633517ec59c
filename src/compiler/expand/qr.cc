#include "compiler/expand/qr.h"

#include <algorithm>

namespace opentrn::compiler {

namespace {

struct Reflection {
  Batch v, tau, entry;  // [batch, rows, 1], and [batch, 1, 1] twice: the entry that stays in R
};

// For the part of a column [batch, rows, 1] from `row` on. Lengths are taken of what is divided by the
// largest entry, so that squares neither overflow nor vanish.
Reflection reflection(const Batch& column, const Batch& row) {
  const Batch places = column.places({1, column.dim(1), 1}, 1);
  const Batch alpha = column.at(row, 1);
  const Batch below = column.where(places > row, 0);
  const Batch largest = below.abs().max(1).binary(graph::OpKind::maximum_, alpha.abs());
  const Batch unit = largest.where(largest > 0, 1);
  const Batch scaled = (below / unit.as(column.element())).abs();
  const Batch rest = (scaled * scaled).sum(1);
  const Batch size = alpha.abs() / unit;
  const Batch length = unit * (size * size + rest).sqrt();
  const Batch beta = (-length).where(alpha.real() >= 0, length);
  const Batch none = (rest == 0) & (alpha.imag() == 0);
  const Batch entry = alpha.where(none, beta.as(column.element()));
  const Batch safe = beta.number(1, beta.dims()).where(none, beta).as(column.element());
  const Batch zero = alpha.number(0, alpha.dims());
  const Batch tau = zero.where(none, (safe - alpha) / safe);
  const Batch v = below / alpha.number(1, alpha.dims()).where(none, alpha - safe);
  return {v.number(1, v.dims()).where(places == row, v), tau, entry};
}

// [batch, rows, 1]: of the j-th reflection.
Batch vector(const Batch& packed, const Batch& j) {
  const Batch rows = packed.places({1, packed.dim(1), 1}, 1), column = packed.at(j, 2);
  return column.number(1, column.dims()).where(rows == j, column.where(rows > j, 0));
}

}  // namespace

Reflections reflections_of(const Batch& a) {
  const int64_t count = std::min(a.dim(1), a.dim(2));
  const Batch rows = a.places({1, a.dim(1), 1}, 1), columns = a.places({1, 1, a.dim(2)}, 2);
  const Batch places = a.places({1, 1, count}, 2);
  const auto step = [&](const Batch& j, const std::vector<Batch>& state) -> std::vector<Batch> {
    const Batch &matrix = state[0], &taus = state[1];
    const Batch column = matrix.at(j, 2);
    const Reflection r = reflection(column, j);
    const Batch moved = matrix - r.tau.conj() * r.v * (r.v.conj() * matrix).sum(1);
    const Batch kept = r.entry.where(rows == j, column.where(j > rows, r.v));
    return {kept.where(columns == j, moved.where(columns > j, matrix)), r.tau.where(places == j, taus)};
  };
  const std::vector<Batch> made = loop(count, {a, a.number(0, {a.dim(0), 1, count})}, step);
  return {made[0], made[1]};
}

Batch reflected(const Reflections& q, const Batch& b, bool adjoint) {
  const int64_t count = q.taus.dim(2);
  const auto step = [&](const Batch& i, const std::vector<Batch>& state) -> std::vector<Batch> {
    const Batch j = adjoint ? i : i.number(static_cast<double>(count - 1), {}) - i;
    const Batch v = vector(q.packed, j), tau = q.taus.at(j, 2);
    return {state[0] - (adjoint ? tau.conj() : tau) * v * (v.conj() * state[0]).sum(1)};
  };
  return loop(count, {b}, step)[0];
}

}  // namespace opentrn::compiler
