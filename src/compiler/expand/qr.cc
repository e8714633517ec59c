#include "compiler/expand/qr.h"

#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/takes.h"

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

// Column by column, each step over the whole matrix.
Reflections by_columns(const Batch& a) {
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

// Columns of a block: of fp32 as many as the kernel takes of so many rows, as long as that pays.
constexpr int64_t kReflectedColumns = 16, kReflectedColumnsLeast = 8, kReflectedColumnsOfLoop = 32;
// Reflections that are applied at once.
constexpr int64_t kReflectionsAtOnce = 32;

int64_t reflected_columns(const Batch& a) {
  const int64_t most = kSmallMatrixElements / a.dim(1);
  const bool has_kernel = a.element() == ElementType::kF32 && most >= kReflectedColumnsLeast;
  return has_kernel ? std::min(most, kReflectedColumns) : kReflectedColumnsOfLoop;
}

// The kernel of small matrices.
Reflections by_kernel(const Batch& a) {
  const int64_t batch = a.dim(0), count = std::min(a.dim(1), a.dim(2));
  Builder& builder = a.writer().builder();
  const OpId made = builder.add_with_regions(
      OpKind::custom_call_, {a.id()}, {{Attr::call_target_name, Attribute(std::string("opentrn.geqrf"))}},
      {a.type(), Type::tensor(a.element(), {batch, count})}, {});
  const auto result = [&](size_t i) { return Batch(a.writer(), builder.function().op(made).results[i]); };
  return {result(0), result(1).reshape({batch, 1, count})};
}

Reflections panel(const Batch& a) {
  const bool has_kernel = a.element() == ElementType::kF32 && a.dim(1) * a.dim(2) <= kSmallMatrixElements;
  return has_kernel ? by_kernel(a) : by_columns(a);
}

// The product of the reflections of `q`, I - V T V^H, or its adjoint, times b. T is never made: with D the
// diagonal of the coefficients, T^-1 is D^-1 and what V^H V has above its diagonal, so that T is U^-1 D,
// where U has ones and D V^H V above them. A reflection of coefficient 0 does nothing, as it should.
Batch reflected_at_once(const Reflections& q, const Batch& b, bool adjoint) {
  const int64_t count = q.taus.dim(2);
  const Batch packed = q.packed.part(2, 0, count);
  const Batch rows = packed.places({1, packed.dim(1), 1}, 1), columns = packed.places({1, 1, count}, 2);
  const Batch below = packed.where(rows > columns, 0);
  const Batch v = packed.number(1, packed.dims()).where(rows == columns, below), turned = v.adjoint();
  const Batch taus = q.taus.transposed(), upper = taus * turned.product(v), products = turned.product(b);
  const Batch factors =
      adjoint ? taus.conj() * upper.solved_with_ones(products, /*lower=*/false, /*adjoint=*/true)
              : upper.solved_with_ones(taus * products, /*lower=*/false);
  return b - v.product(factors);
}

// Block by block from the left, each taken from what is left of the matrix.
Reflections by_blocks(const Batch& a, int64_t width) {
  const int64_t count = std::min(a.dim(1), a.dim(2));
  std::vector<Batch> columns, taus;
  Batch left = a;
  for (int64_t done = 0; done < count; done += width) {
    const int64_t now = std::min(width, count - done), rows = a.dim(1), others = left.dim(2) - now;
    const Batch here = left.part(1, done, rows);
    const Reflections q = panel(here.part(2, 0, now));
    const auto below_what_is_done = [&](const Batch& part, int64_t begin, int64_t end) {
      return done > 0 ? left.part(1, 0, done).part(2, begin, end).beside(part, 1) : part;
    };
    columns.push_back(below_what_is_done(q.packed, 0, now));
    taus.push_back(q.taus);
    if (others == 0) break;
    const Batch moved = reflected_at_once(q, here.part(2, now, now + others), /*adjoint=*/true);
    left = below_what_is_done(moved, now, now + others);
    if (done + now == count) columns.push_back(left);
  }
  return {joined(columns, 2), joined(taus, 2)};
}

}  // namespace

Reflections reflections_of(const Batch& a) {
  const int64_t width = reflected_columns(a);
  return a.dim(2) <= width ? panel(a) : by_blocks(a, width);
}

Batch reflected(const Reflections& q, const Batch& b, bool adjoint) {
  const int64_t count = q.taus.dim(2), rows = b.dim(1);
  const int64_t blocks = (count + kReflectionsAtOnce - 1) / kReflectionsAtOnce;
  Batch result = b;
  for (int64_t i = 0; i < blocks; ++i) {
    const int64_t begin = (adjoint ? i : blocks - 1 - i) * kReflectionsAtOnce;
    const int64_t end = std::min(begin + kReflectionsAtOnce, count);
    const Reflections some{q.packed.part(1, begin, rows).part(2, begin, end), q.taus.part(2, begin, end)};
    const Batch moved = reflected_at_once(some, result.part(1, begin, rows), adjoint);
    result = begin > 0 ? result.part(1, 0, begin).beside(moved, 1) : moved;
  }
  return result;
}

}  // namespace opentrn::compiler
