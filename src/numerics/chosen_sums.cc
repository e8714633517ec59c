#include "numerics/simd_targets.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "numerics/chosen_sums.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/chosen_sums.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "numerics/fused-inl.h"

#ifndef OPENTRN_NUMERICS_CHOSEN_SUMS_ONCE_
#define OPENTRN_NUMERICS_CHOSEN_SUMS_ONCE_
namespace opentrn::numerics {

// Of one in so many elements, at most, adding pays: a row that is added is read anew for each output, while a
// product keeps it in registers.
inline constexpr int kOnesOneIn = 8;

// The ones of `stationary`, by its columns: rows of `moving`.
struct ChosenRows {
  std::vector<uint32_t> ones;   // row << 16 | column, by row
  std::vector<uint32_t> begin;  // of each column, in rows; one more than there are columns
  std::vector<uint16_t> rows;

  void sort(int columns) {
    begin.assign(static_cast<size_t>(columns) + 1, 0);
    for (const uint32_t one : ones) ++begin[(one & 0xffff) + 1];
    for (size_t m = 1; m < begin.size(); ++m) begin[m] += begin[m - 1];
    rows.resize(ones.size());
    for (const uint32_t one : ones) rows[begin[one & 0xffff]++] = static_cast<uint16_t>(one >> 16);
    for (size_t m = begin.size() - 1; m > 0; --m) begin[m] = begin[m - 1];
    begin[0] = 0;
  }
};

}  // namespace opentrn::numerics
#endif

HWY_BEFORE_NAMESPACE();
namespace opentrn::numerics {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of an operand often lie pages apart, where hardware does not fetch ahead.
constexpr int kRowsAhead = 16;
HWY_INLINE void fetch(const float* row, int columns) {
  for (int n = 0; n < columns; n += 64 / static_cast<int>(sizeof(float))) hwy::Prefetch(row + n);
}

// Adds the ones of row k to the list; false where another number stands, or too many ones.
HWY_ATTR bool find_ones(const float* row, int k, int columns, size_t most, std::vector<uint32_t>& ones) {
  const hn::CappedTag<float, 16> d;  // whole vectors make up a word of bits
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto zero = hn::Zero(d), one = hn::Set(d, 1.0f);
  const int whole = columns / lanes * lanes;
  for (int begin = 0; begin < whole; begin += 64) {
    uint64_t ones_here = 0, others = 0;
    for (int m = begin; m < std::min(begin + 64, whole); m += lanes) {
      const auto values = hn::LoadU(d, row + m);
      uint64_t bits = 0;
      hn::StoreMaskBits(d, hn::Eq(values, one), reinterpret_cast<uint8_t*>(&bits));
      ones_here |= bits << (m - begin);
      bits = 0;
      hn::StoreMaskBits(d, hn::Eq(values, zero), reinterpret_cast<uint8_t*>(&bits));
      others |= (~bits & ((uint64_t{1} << lanes) - 1)) << (m - begin);
    }
    if (others != ones_here || ones.size() + static_cast<size_t>(std::popcount(ones_here)) > most)
      return false;
    for (; ones_here != 0; ones_here &= ones_here - 1)
      ones.push_back(static_cast<uint32_t>(k) << 16 |
                     static_cast<uint32_t>(begin + std::countr_zero(ones_here)));
  }
  for (int m = whole; m < columns; ++m) {
    if (row[m] == 0.0f) continue;
    if (row[m] != 1.0f || ones.size() == most) return false;
    ones.push_back(static_cast<uint32_t>(k) << 16 | static_cast<uint32_t>(m));
  }
  return true;
}

// Zero times a number is a zero if it is finite, and else NaN, which sums keep: one question at the end.
HWY_ATTR bool are_finite_rows(const float* row, size_t pitch, int rows, int columns) {
  const hn::ScalableTag<float> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  const auto zero = hn::Zero(d);
  auto sum = hn::Zero(d), more = hn::Zero(d);
  float rest = 0;
  for (int k = 0; k < rows; ++k, row += pitch) {
    if (k + kRowsAhead < rows) fetch(row + kRowsAhead * pitch, columns);
    int n = 0;
    for (; n + 2 * lanes <= columns; n += 2 * lanes) {
      sum = hn::Add(hn::Mul(hn::LoadU(d, row + n), zero), sum);
      more = hn::Add(hn::Mul(hn::LoadU(d, row + n + lanes), zero), more);
    }
    for (; n + lanes <= columns; n += lanes) sum = hn::Add(hn::Mul(hn::LoadU(d, row + n), zero), sum);
    for (; n < columns; ++n) rest += row[n] * 0.0f;
  }
  return hn::AllTrue(d, hn::Eq(hn::Add(sum, more), zero)) && rest == 0.0f;
}

// One row of the result.
template <int kVectors>
HWY_ATTR HWY_INLINE void add_rows(const MatmulTile& t, const uint16_t* rows, size_t count, int n, float* to) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  hn::Vec<decltype(d)> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  const float* from = static_cast<const float*>(t.moving.data) + n;
  for (size_t i = 0; i < count; ++i) {
    const float* row = from + rows[i] * t.moving.pitch;
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::Add(hn::LoadU(d, row + v * lanes), sum[v]);
  }
  for (int v = 0; v < kVectors; ++v) {
    const auto value = t.accumulate ? hn::Add(hn::LoadU(d, to + v * lanes), sum[v]) : sum[v];
    hn::StoreU(canonical(d, value), d, to + v * lanes);
  }
}

HWY_ATTR void AddChosenRowsSimd(const MatmulTile& t, const ChosenRows& chosen) {
  const hn::ScalableTag<float> d;
  const int lanes = static_cast<int>(hn::Lanes(d));
  for (int m = 0; m < t.M; ++m) {
    const uint16_t* rows = chosen.rows.data() + chosen.begin[static_cast<size_t>(m)];
    const size_t count = chosen.begin[static_cast<size_t>(m) + 1] - chosen.begin[static_cast<size_t>(m)];
    float* to = t.acc + static_cast<size_t>(m) * t.acc_pitch;
    int n = 0;
    for (; n + 4 * lanes <= t.N; n += 4 * lanes) add_rows<4>(t, rows, count, n, to + n);
    for (; n + 2 * lanes <= t.N; n += 2 * lanes) add_rows<2>(t, rows, count, n, to + n);
    for (; n + lanes <= t.N; n += lanes) add_rows<1>(t, rows, count, n, to + n);
    for (; n < t.N; ++n) {
      float sum = 0;
      for (size_t i = 0; i < count; ++i)
        sum =
            static_cast<const float*>(t.moving.data)[rows[i] * t.moving.pitch + static_cast<size_t>(n)] + sum;
      if (t.accumulate) sum = to[n] + sum;
      to[n] = sum == sum ? sum : hn::GetLane(canonical_nan(d));
    }
  }
}

HWY_ATTR bool FindChosenRowsSimd(const MatmulTile& t, ChosenRows& chosen) {
  const auto row = [](const MatmulOperand& of, int k) {
    return static_cast<const float*>(of.data) + static_cast<size_t>(k) * of.pitch;
  };
  const size_t most = static_cast<size_t>(t.K) * static_cast<size_t>(t.M) / kOnesOneIn;
  chosen.ones.clear();
  for (int k = 0; k < t.K; ++k) {
    if (k + kRowsAhead < t.K) fetch(row(t.stationary, k + kRowsAhead), t.M);
    if (!find_ones(row(t.stationary, k), k, t.M, most, chosen.ones)) return false;
  }
  return are_finite_rows(row(t.moving, 0) + t.moving.first_column, t.moving.pitch, t.K, t.N);
}

}  // namespace HWY_NAMESPACE
}  // namespace opentrn::numerics
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opentrn::numerics {

HWY_EXPORT(FindChosenRowsSimd);
HWY_EXPORT(AddChosenRowsSimd);

bool add_chosen_rows(const MatmulTile& tile) {
  constexpr int64_t kMultiplyAddsMin = int64_t{1} << 16;  // below, looking costs as much
  constexpr int kColumnsMin = 8, kRowsMax = 1 << 16;
  if (tile.stationary.dtype != DType::kFloat32 || tile.moving.dtype != DType::kFloat32 ||
      tile.moving.run != 0)
    return false;
  if (tile.M < kOnesOneIn || tile.N < kColumnsMin || tile.K < 1 || tile.K >= kRowsMax || tile.M >= kRowsMax ||
      int64_t{tile.K} * tile.M * tile.N < kMultiplyAddsMin)
    return false;
  thread_local ChosenRows chosen;
  MatmulTile from_first = tile;
  from_first.moving.data = static_cast<const float*>(tile.moving.data) + tile.moving.first_column;
  from_first.moving.first_column = 0;
  if (!HWY_DYNAMIC_DISPATCH(FindChosenRowsSimd)(from_first, chosen)) return false;
  chosen.sort(tile.M);
  HWY_DYNAMIC_DISPATCH(AddChosenRowsSimd)(from_first, chosen);
  return true;
}

}  // namespace opentrn::numerics
#endif  // HWY_ONCE
