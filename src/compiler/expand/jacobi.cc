#include "compiler/expand/jacobi.h"

#include <cmath>
#include <utility>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/rotations_call.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

// Rows after so many sweeps, of which the first `measured` numbers are at right angles then.
Batch turned(const Batch& rows, int64_t measured, int64_t count) {
  Writer& writer = rows.writer();
  const RowRotationsCall call{measured, rows.dim(1)};
  return loop(count, {rows}, [&](const Batch&, const std::vector<Batch>& now) {
    const auto made = called(writer, kRowRotationsTarget, call.words(), {now[0].id()}, {now[0].type()});
    return std::vector{Batch(writer, made[0])};
  })[0];
}

// A sweep changes the order of the rows, and every second one changes it back: an added row has to be the
// last one again after all of them.
int64_t before_the_last(int64_t count, bool is_added) { return is_added ? count | 1 : count; }

// Nearly orthonormal rows made so: a step of Newton and Schulz.
Batch orthonormal_rows(const Batch& vectors) {
  return vectors * 1.5 - vectors.product(vectors.transposed()).product(vectors) * 0.5;
}

Batch squares_of_rows(const Batch& rows) { return (rows * rows).sum(2); }

}  // namespace

int64_t sweeps(int64_t size) {
  return static_cast<int64_t>(std::ceil(std::log2(static_cast<double>(size)))) + 3;
}

int64_t even(int64_t size) { return std::max<int64_t>(2, size + size % 2); }

std::vector<graph::ValueId> called(Writer& writer, const char* target, std::string words,
                                   const std::vector<graph::ValueId>& operands,
                                   const std::vector<graph::Type>& types) {
  graph::Builder& builder = writer.builder();
  const graph::OpId made =
      builder.add_with_regions(OpKind::custom_call_, operands,
                               {{graph::Attr::call_target_name, graph::Attribute(std::string(target))},
                                {graph::Attr::backend_config, graph::Attribute(std::move(words))}},
                               types, {});
  return builder.function().op(made).results;
}

// A round of a kernel in nanoseconds, as the timing model has it for 8 to 64 rows and 1 to 128 matrices: its
// instructions one after another; for each matrix, where rows are turned; cycles of the Vector engine for
// each number that an instruction goes over, two of fp32 tensors by tensors; and the products around the
// rounds.
bool are_turned_by_rows(const Batch& a, int64_t length) {
  constexpr int64_t kRowsMost = 256, kLengthMost = 2048, kPartitions = 128;
  constexpr double kCycle = 1.0 / 0.96;
  constexpr double kRows = 3900, kRowsOfMatrix = 800, kInPartition = 3300, kAround = 60'000;
  const int64_t rows = a.dim(1), size = even(a.dim(2));
  if (a.element() != ElementType::kF32 || size > kRowsMost || length > kLengthMost) return false;
  if ((rows + size) * size > kSmallMatrixElements) return true;
  const auto matrices = static_cast<double>(a.dim(0)), blocks = std::ceil(matrices / kPartitions);
  const auto by_rows = static_cast<double>(4 * length + 6 * rows),
             in_partition = static_cast<double>(3 * size * (2 * rows + size)),
             rounds = static_cast<double>(size * (sweeps(size) + 1));
  return kRows + kAround / rounds + matrices * (kRowsOfMatrix + by_rows * kCycle) <
         blocks * (kInPartition + in_partition * 2 * kCycle);
}

Batch unit_of(const Batch& a) {
  const Batch largest = a.abs().max(2).max(1);
  return largest.where(largest > 0, 1);
}

// One-sided: rows of a symmetric matrix with positive eigenvalues, turned until they are at right angles, are
// its eigenvectors, each as long as its eigenvalue. The matrix becomes one by what is added to its diagonal,
// more than any of its eigenvalues: the fourth root of the sum of their fourth powers. The angles between
// its rows are smaller than those of a matrix that is nearly singular, so that one sweep fewer is enough.
Eigen eigen_by_rows(const Batch& a) {
  const int64_t size = a.dim(1), all = even(size);
  const Batch whole = a.padded(all, all), unit = unit_of(whole), scaled = whole / unit;
  const Batch bound = squares_of_rows(scaled.product(scaled)).sum(1).sqrt().sqrt() * 1.25;
  const Batch shifted = scaled + identity(a, all, all) * bound.where(bound > 0, 1);
  Batch rows = shifted, vectors = shifted;
  for (const int64_t count : {before_the_last(sweeps(all) - 1, all != size), int64_t{1}}) {
    const Batch made = turned(rows, all, count);
    vectors = orthonormal_rows(made / squares_of_rows(made).sqrt());
    rows = vectors.product(shifted);
  }
  const Batch values = (vectors.product(scaled) * vectors).sum(2) * unit;
  return {values.reshape({a.dim(0), 1, all}).part(2, 0, size),
          vectors.part(1, 0, size).part(2, 0, size).transposed()};
}

Turned turned_by_rows(const Batch& a) {
  const int64_t rows = a.dim(1), size = a.dim(2), all = even(size);
  const Batch columns = a.padded(rows, all).transposed();
  Batch vectors = identity(a, all, all).spread({a.dim(0), all, all});
  for (const int64_t count : {before_the_last(sweeps(all), all != size), int64_t{1}}) {
    const Batch both = vectors.product(columns).beside(vectors, 2);
    vectors = orthonormal_rows(turned(both, rows, count).part(2, rows, rows + all));
  }
  return {vectors.product(columns).part(1, 0, size).transposed(),
          vectors.part(1, 0, size).part(2, 0, size).transposed()};
}

// Each turn rounds, so that lengths of turned rows are off by some 1e-5 of the largest after hundreds of
// turns. But what the rows' directions make of the matrix is as long as the singular values up to the square
// of that. Short rows, and any that have not come to right angles, keep their lengths.
Batch singular_values_by_rows(const Batch& a) {
  const int64_t rows = a.dim(1), size = a.dim(2), all = even(size);
  const Batch whole = a.padded(rows, all), made = turned(whole.transposed(), rows, sweeps(all));
  const Batch length = squares_of_rows(made).sqrt(), is_long = length > length.max(1) * 1e-5;
  const Batch directions = (made / length.where(is_long, 1)).where(is_long, 0);
  const Batch cosines = directions.product(directions.transposed()).abs();
  const Dims dims = cosines.dims();
  const Batch beside = cosines.where(cosines.places(dims, 1) != cosines.places(dims, 2), 0).max(2);
  const Batch is_settled = is_long & (beside.number(0.01, beside.dims()) > beside);
  const Batch seen = orthonormal_rows(directions.where(is_settled, 0)).product(whole);
  return squares_of_rows(seen).sqrt().where(is_settled, length).reshape({a.dim(0), 1, all});
}

}  // namespace opentrn::compiler
