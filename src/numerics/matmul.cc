// A register-blocked outer product, as in Goto and van de Geijn (2008), without their split of K: the
// contract is one running sum per element along all of K, so a block of accumulators stays in
// registers from k = 0 to K - 1.
//
// Both operands are packed first. A panel of `moving` (K rows of two vectors, 16 KiB at K = 128 with
// AVX-512) then lies in L1 while every panel of `stationary` (K rows of kMaxRows floats, 4 KiB)
// passes by. Reading the tiles in place would touch K rows whose pitch is often a power of two, which
// fall into few cache sets. Packing costs O(K (M + N)) of O(K M N).
#include "numerics/simd_targets.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/fault.h"
#include "numerics/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/matmul.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "numerics/fused-inl.h"

#ifndef OPENTRN_NUMERICS_MATMUL_ONCE_
#define OPENTRN_NUMERICS_MATMUL_ONCE_
namespace opentrn::numerics {
// Grows and never shrinks; one per thread.
inline float* matmul_scratch(size_t floats) {
  struct Buffer {
    float* data = nullptr;
    size_t floats = 0;
    ~Buffer() { ::operator delete[](data, std::align_val_t{64}); }
  };
  thread_local Buffer buffer;
  if (buffer.floats < floats) {
    ::operator delete[](buffer.data, std::align_val_t{64});
    buffer.data = nullptr;
    buffer.floats = 0;
    buffer.data = static_cast<float*>(::operator new[](floats * sizeof(float), std::align_val_t{64}));
    buffer.floats = floats;
  }
  return buffer.data;
}
}  // namespace opentrn::numerics
#endif

HWY_BEFORE_NAMESPACE();
namespace opentrn::numerics {
namespace HWY_NAMESPACE {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// kMaxRows * 2 accumulators, 2 operands and a broadcast must fit the register file: 32 vectors, but 16
// with AVX2.
#if HWY_TARGET == HWY_AVX2
constexpr int kMaxRows = 6;
constexpr int kWideVectors = 4;
#else
constexpr int kMaxRows = 8;
constexpr int kWideVectors = 8;
#endif
// A tile of so few rows reads `moving` once, so packing would double the traffic: its blocks are wide
// instead, to have sums enough in flight, and read in place.
constexpr int kFewRows = 2;

// K rows of `moving`, of which `columns` are wanted.
struct Panel {
  const float* data;
  size_t pitch;
  size_t columns;
};

struct Output {
  float* acc;
  size_t pitch;
  bool accumulate;
};

template <int kRows, int kVectors>
HWY_ATTR HWY_INLINE void store_block(const V (&sum)[kRows][kVectors], Output out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (int r = 0; r < kRows; ++r) {
    for (int v = 0; v < kVectors; ++v) {
      float* to = out.acc + r * out.pitch + v * lanes;
      V value = sum[r][v];
      if (out.accumulate) value = hn::Add(hn::LoadU(d, to), value);
      hn::StoreU(canonical(d, value), d, to);
    }
  }
}

// One block: `stationary` is K x kRows, packed; `panel` is readable kVectors * lanes wide.
template <int kRows, int kVectors>
HWY_ATTR HWY_NOINLINE void block(const float* HWY_RESTRICT stationary, Panel panel, int K, Output out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sum[kRows][kVectors];
  for (auto& row : sum) {
    for (V& x : row) x = hn::Zero(d);
  }
  const float* HWY_RESTRICT moving = panel.data;
  for (int k = 0; k < K; ++k) {
    V m[kVectors];
    for (int v = 0; v < kVectors; ++v) m[v] = hn::LoadU(d, moving + v * lanes);
    for (int r = 0; r < kRows; ++r) {
      const V s = hn::Set(d, stationary[r]);
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fused(d, s, m[v], sum[r][v]);
    }
    stationary += kRows;
    moving += panel.pitch;
  }
  const size_t columns = panel.columns;
  if (columns == kVectors * lanes) return store_block<kRows, kVectors>(sum, out);
  HWY_ALIGN float edge[kRows * kVectors * (HWY_MAX_BYTES / sizeof(float))];
  const size_t pitch = kVectors * lanes;
  for (int r = 0; r < kRows && out.accumulate; ++r) {
    std::copy_n(out.acc + r * out.pitch, columns, edge + r * pitch);
    std::fill_n(edge + r * pitch + columns, pitch - columns, 0.0f);
  }
  store_block<kRows, kVectors>(sum, {edge, pitch, out.accumulate});
  for (int r = 0; r < kRows; ++r) std::copy_n(edge + r * pitch, columns, out.acc + r * out.pitch);
}

// Rows of each block from row m on: full blocks, then 4, 2, 1.
HWY_INLINE int block_rows(int rows_left) {
  if (rows_left >= kMaxRows) return kMaxRows;
  return rows_left >= 4 ? 4 : rows_left >= 2 ? 2 : 1;
}

template <int kVectors>
HWY_ATTR void rows_of_panel(const MatmulTile& t, const float* packed_stationary, Panel panel, int n) {
  for (int m = 0; m < t.M;) {
    const int rows = block_rows(t.M - m);
    const float* s = packed_stationary + static_cast<size_t>(m) * t.K;
    const Output out{t.acc + static_cast<size_t>(m) * t.acc_pitch + n, t.acc_pitch, t.accumulate};
    switch (rows) {
      case kMaxRows: block<kMaxRows, kVectors>(s, panel, t.K, out); break;
      case 4: block<4, kVectors>(s, panel, t.K, out); break;
      case 2: block<2, kVectors>(s, panel, t.K, out); break;
      default: block<1, kVectors>(s, panel, t.K, out); break;
    }
    m += rows;
  }
}

// Blocks of rows, each K x rows, one after another.
HWY_ATTR void pack_stationary(const MatmulTile& t, float* HWY_RESTRICT to) {
  for (int m = 0; m < t.M;) {
    const int rows = block_rows(t.M - m);
    for (int k = 0; k < t.K; ++k) {
      const float* from = t.stationary + static_cast<size_t>(k) * t.stationary_pitch + m;
      for (int r = 0; r < rows; ++r) to[r] = from[r];
      to += rows;
    }
    m += rows;
  }
}

HWY_ATTR void pack_panel(const MatmulTile& t, int n, size_t columns, size_t width, float* HWY_RESTRICT to) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  for (int k = 0; k < t.K; ++k) {
    const float* from = t.moving + static_cast<size_t>(k) * t.moving_pitch + n;
    if (columns == width) {
      for (size_t j = 0; j < width; j += lanes) hn::Store(hn::LoadU(d, from + j), d, to + j);
    } else {
      for (size_t j = 0; j < width; ++j) to[j] = j < columns ? from[j] : 0.0f;
    }
    to += width;
  }
}

HWY_ATTR void few_rows_of_panel(const MatmulTile& t, const float* packed_stationary, Panel panel, int n) {
  const Output out{t.acc + n, t.acc_pitch, t.accumulate};
  if (t.M == 1) return block<1, kWideVectors>(packed_stationary, panel, t.K, out);
  return block<2, kWideVectors>(packed_stationary, panel, t.K, out);
}

HWY_ATTR void MatmulTileSimd(const MatmulTile& t) {
  if (t.M == 0) return;
  const size_t lanes = hn::Lanes(D());
  const bool few_rows = t.M <= kFewRows;
  const size_t widest = (few_rows ? kWideVectors : 2) * lanes;
  float* packed = matmul_scratch(widest * static_cast<size_t>(t.K) + static_cast<size_t>(t.K) * t.M);
  float* stationary = packed + widest * static_cast<size_t>(t.K);
  pack_stationary(t, stationary);
  for (int n = 0; n < t.N;) {
    const size_t left = static_cast<size_t>(t.N - n);
    const size_t width = few_rows || left > lanes ? widest : lanes;
    const size_t columns = std::min(left, width);
    if (few_rows && columns == width) {
      few_rows_of_panel(t, stationary, {t.moving + n, t.moving_pitch, columns}, n);
    } else {
      pack_panel(t, n, columns, width, packed);
      const Panel panel{packed, width, columns};
      if (few_rows) {
        few_rows_of_panel(t, stationary, panel, n);
      } else if (width > lanes) {
        rows_of_panel<2>(t, stationary, panel, n);
      } else {
        rows_of_panel<1>(t, stationary, panel, n);
      }
    }
    n += static_cast<int>(columns);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace opentrn::numerics
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opentrn::numerics {

HWY_EXPORT(MatmulTileSimd);

void matmul_tile(const MatmulTile& tile) {
  OPENTRN_CHECK(tile.K >= 0 && tile.M >= 0 && tile.N >= 0, "matmul tile K={} M={} N={}", tile.K, tile.M,
                tile.N);
  HWY_DYNAMIC_DISPATCH(MatmulTileSimd)(tile);
}

void matmul_tile_range(const MatmulTile& tile, int m_begin, int m_end, int n_begin, int n_end) {
  OPENTRN_CHECK(0 <= m_begin && m_begin <= m_end && m_end <= tile.M && 0 <= n_begin && n_begin <= n_end &&
                    n_end <= tile.N,
                "range [{}, {}) x [{}, {}) of a {} x {} tile", m_begin, m_end, n_begin, n_end, tile.M,
                tile.N);
  MatmulTile part = tile;
  part.stationary += m_begin;
  part.moving += n_begin;
  part.acc += static_cast<size_t>(m_begin) * tile.acc_pitch + n_begin;
  part.M = m_end - m_begin;
  part.N = n_end - n_begin;
  matmul_tile(part);
}

void matmul_tile(const float* stationary, const float* moving, float* acc, int K, int M, int N, size_t lds,
                 size_t ldm, size_t lda, bool accumulate) {
  matmul_tile(MatmulTile{stationary, moving, acc, K, M, N, lds, ldm, lda, accumulate});
}

void matmul_tile_reference(const MatmulTile& tile) {
  for (int m = 0; m < tile.M; ++m) {
    for (int n = 0; n < tile.N; ++n) {
      float s = 0;
      for (int k = 0; k < tile.K; ++k) {
        s = std::fma(tile.stationary[k * tile.stationary_pitch + m], tile.moving[k * tile.moving_pitch + n],
                     s);
      }
      float& out = tile.acc[m * tile.acc_pitch + n];
      out = tile.accumulate ? out + s : s;
      if (std::isnan(out)) out = std::bit_cast<float>(0x7fc00000u);
    }
  }
}

}  // namespace opentrn::numerics
#endif  // HWY_ONCE
