// bn_stats, bn_aggr: statistics in fp32 by the definition, in two passes. [assumed order of additions]
#include <fmt/format.h>

#include "numerics/alu.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

namespace {

constexpr int64_t kStatsPerHalf = 3;  // count, mean, variance * count

// Of the n values at `row`.
void statistics(const float* row, int64_t n, float* scratch, float* out) {
  const float count = static_cast<float>(n);
  float mean = 0.0f, sum_of_squares = 0.0f;
  if (n > 0) {
    const size_t size = static_cast<size_t>(n);
    mean = numerics::alu_reduce(AluOp::kAdd, row, size) / count;
    numerics::alu_tensor_scalar(AluOp::kSubtract, row, mean, false, scratch, size);
    numerics::alu_tensor_tensor(AluOp::kMultiply, scratch, scratch, scratch, size);
    sum_of_squares = numerics::alu_reduce(AluOp::kAdd, scratch, size);
  }
  out[0] = count;
  out[1] = mean;
  out[2] = sum_of_squares;
}

}  // namespace

void bn_stats(Context& cx) {
  using namespace isa::slot::bn_stats;
  View data = cx.source(kData);
  const View dst = cx.destination(kDst);
  cx.expect_partitions(dst, kDst, data.partitions);
  cx.expect_elements(dst, kDst, 2 * kStatsPerHalf);
  cx.separate(dst, data);
  const int64_t n = data.elements;
  cx.parallel(data.partitions, data.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    float* row_scratch = scope.floats(n);
    float* half = scope.floats(n);
    float* scratch = scope.floats(n);
    std::array<float, 2 * kStatsPerHalf> out;
    for (int64_t p = begin; p < end; ++p) {
      const float* row = load_row(data, p, row_scratch);
      for (int64_t parity = 0; parity < 2; ++parity) {
        int64_t count = 0;
        for (int64_t i = parity; i < n; i += 2) half[count++] = row[i];
        statistics(half, count, scratch, out.data() + parity * kStatsPerHalf);
      }
      store_row(dst, p, out.data());
    }
  });
}

void bn_aggr(Context& cx) {
  using namespace isa::slot::bn_aggr;
  View data = cx.source(kData);
  const View dst = cx.destination(kDst);
  if (data.elements % kStatsPerHalf != 0)
    cx.broken("shape", fmt::format("{} elements per partition are not triples", data.elements));
  cx.expect_partitions(dst, kDst, data.partitions);
  cx.expect_elements(dst, kDst, 2);
  cx.separate(dst, data);
  float* scratch = cx.scratch.floats(data.elements);
  for (int64_t p = 0; p < data.partitions; ++p) {
    const float* row = load_row(data, p, scratch);
    float count = 0.0f, weighted = 0.0f;
    for (int64_t i = 0; i < data.elements; i += kStatsPerHalf) {
      count += row[i];
      weighted += row[i] * row[i + 1];
    }
    const float mean = weighted / count;
    float sum_of_squares = 0.0f;
    for (int64_t i = 0; i < data.elements; i += kStatsPerHalf) {
      const float distance = row[i + 1] - mean;
      sum_of_squares += row[i + 2] + row[i] * (distance * distance);
    }
    const std::array<float, 2> out = {mean, sum_of_squares / count};
    store_row(dst, p, out.data());
  }
}

}  // namespace opentrn::sim::bodies
