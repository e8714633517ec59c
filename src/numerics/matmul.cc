// A register-blocked outer product, as in Goto and van de Geijn (2008), without their split of K: the
// contract is one running sum per element along all of K, so a block of accumulators stays in
// registers from k = 0 to K - 1.
//
// Both operands are packed first, and widened to fp32 in doing so. A panel of `moving` (K rows of two
// vectors, 16 KiB at K = 128 with AVX-512) then lies in L1 while every panel of `stationary` (K rows of
// kMaxRows floats, 4 KiB) passes by. Reading the tiles in place would touch K rows whose pitch is often a
// power of two, which fall into few cache sets. Packing costs O(K (M + N)) of O(K M N).
#include "numerics/simd_targets.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/fault.h"
#include "numerics/convert.h"
#include "numerics/matmul.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/matmul.cc"
#include "hwy/cache_control.h"
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

// A packed block of `stationary` starts this many floats after the one before: were it a power of two,
// writing a row to all blocks would hit one cache set.
HWY_INLINE size_t block_pitch(int K) { return static_cast<size_t>(kMaxRows) * static_cast<size_t>(K) + 16; }

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
  const float* s = packed_stationary;
  for (int m = 0; m < t.M; s += block_pitch(t.K)) {
    const int rows = block_rows(t.M - m);
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

// An operand's element: fp32, or bf16 as its bits.
HWY_ATTR HWY_INLINE float widen(float x) { return x; }
HWY_ATTR HWY_INLINE float widen(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }
template <class Tag>
HWY_ATTR HWY_INLINE hn::Vec<Tag> load_wide(Tag d, const float* from) {
  return hn::LoadU(d, from);
}
template <class Tag>
HWY_ATTR HWY_INLINE hn::Vec<Tag> load_wide(Tag d, const uint16_t* from) {
  const hn::RebindToUnsigned<Tag> bits;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(hn::Rebind<uint16_t, Tag>(), from))));
}

// Rows of an operand may lie pages apart, where hardware does not fetch ahead.
constexpr int kRowsAhead = 16;
template <typename T>
HWY_INLINE void fetch(const T* from, size_t elements) {
  for (size_t i = 0; i < elements; i += 64 / sizeof(T)) hwy::Prefetch(from + i);
}

// The `kMaxRows` elements of a full block in one row of the operand.
template <typename T>
HWY_ATTR HWY_INLINE void pack_full_block(const T* HWY_RESTRICT from, float* HWY_RESTRICT to) {
  const hn::CappedTag<float, 8> d;
  if constexpr (kMaxRows == 8 && HWY_MAX_BYTES >= 32) {
    hn::StoreU(load_wide(d, from), d, to);
  } else {
    for (int r = 0; r < kMaxRows; ++r) to[r] = widen(from[r]);
  }
}

// Blocks of rows, each K x rows, block_pitch() apart. Row by row, as a row of the operand is contiguous.
template <typename T>
HWY_ATTR void pack_stationary(const MatmulTile& t, float* HWY_RESTRICT to) {
  const size_t pitch = block_pitch(t.K);
  const auto* row = static_cast<const T*>(t.stationary.data);
  const int full = t.M / kMaxRows * kMaxRows;
  for (int k = 0; k < t.K; ++k, row += t.stationary.pitch) {
    if (k + kRowsAhead < t.K) fetch(row + kRowsAhead * t.stationary.pitch, t.M);
    float* block = to;
    int m = 0;
    for (; m < full; m += kMaxRows, block += pitch) pack_full_block(row + m, block + k * kMaxRows);
    for (; m < t.M; block += pitch) {
      const int rows = block_rows(t.M - m);
      for (int r = 0; r < rows; ++r) block[k * rows + r] = widen(row[m + r]);
      m += rows;
    }
  }
}

// Also fetches what the next panel will read.
template <typename T>
HWY_ATTR void pack_panel(const MatmulTile& t, int n, size_t columns, size_t width, float* HWY_RESTRICT to) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const T* from = static_cast<const T*>(t.moving.data) + n;
  const bool more = static_cast<size_t>(t.N - n) > columns;
  for (int k = 0; k < t.K; ++k, from += t.moving.pitch) {
    if (columns == width) {
      for (size_t j = 0; j < width; j += lanes) hn::Store(load_wide(d, from + j), d, to + j);
    } else {
      for (size_t j = 0; j < width; ++j) to[j] = j < columns ? widen(from[j]) : 0.0f;
    }
    if (more) fetch(from + columns, width);
    if (n == 0 && k + kRowsAhead < t.K) fetch(from + kRowsAhead * t.moving.pitch, columns);
    to += width;
  }
}

HWY_ATTR void few_rows_of_panel(const MatmulTile& t, const float* packed_stationary, Panel panel, int n) {
  const Output out{t.acc + n, t.acc_pitch, t.accumulate};
  if (t.M == 1) return block<1, kWideVectors>(packed_stationary, panel, t.K, out);
  return block<2, kWideVectors>(packed_stationary, panel, t.K, out);
}

HWY_ATTR void pack_panel_of(const MatmulTile& t, int n, size_t columns, size_t width, float* to) {
  if (t.moving.dtype == DType::kFloat32) return pack_panel<float>(t, n, columns, width, to);
  return pack_panel<uint16_t>(t, n, columns, width, to);
}

HWY_ATTR void MatmulTileSimd(const MatmulTile& t) {
  if (t.M == 0) return;
  const size_t lanes = hn::Lanes(D());
  const bool few_rows = t.M <= kFewRows;
  const bool in_place = few_rows && t.moving.dtype == DType::kFloat32;
  const size_t widest = (few_rows ? kWideVectors : 2) * lanes;
  // Rows that do not fill a block take up to three more: 4, 2, 1.
  const size_t blocks = static_cast<size_t>(t.M / kMaxRows) + 3;
  float* packed = matmul_scratch(widest * static_cast<size_t>(t.K) + blocks * block_pitch(t.K));
  float* stationary = packed + widest * static_cast<size_t>(t.K);
  if (t.stationary.dtype == DType::kFloat32)
    pack_stationary<float>(t, stationary);
  else
    pack_stationary<uint16_t>(t, stationary);
  for (int n = 0; n < t.N;) {
    const size_t left = static_cast<size_t>(t.N - n);
    const size_t width = few_rows || left > lanes ? widest : lanes;
    const size_t columns = std::min(left, width);
    if (in_place && columns == width) {
      const float* moving = static_cast<const float*>(t.moving.data) + n;
      few_rows_of_panel(t, stationary, {moving, t.moving.pitch, columns}, n);
    } else {
      pack_panel_of(t, n, columns, width, packed);
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

bool is_matmul_operand(DType dtype) { return dtype == DType::kFloat32 || dtype == DType::kBFloat16; }

namespace {

void check_operand(const MatmulOperand& operand) {
  OPENTRN_CHECK(is_matmul_operand(operand.dtype), "matmul tile of {}", name(operand.dtype));
}

MatmulOperand from_column(const MatmulOperand& operand, int column) {
  MatmulOperand part = operand;
  part.data = static_cast<const std::byte*>(operand.data) + column * size_bytes(operand.dtype);
  return part;
}

}  // namespace

void matmul_tile(const MatmulTile& tile) {
  OPENTRN_CHECK(tile.K >= 0 && tile.M >= 0 && tile.N >= 0, "matmul tile K={} M={} N={}", tile.K, tile.M,
                tile.N);
  check_operand(tile.stationary);
  check_operand(tile.moving);
  HWY_DYNAMIC_DISPATCH(MatmulTileSimd)(tile);
}

void matmul_tile_range(const MatmulTile& tile, int m_begin, int m_end, int n_begin, int n_end) {
  OPENTRN_CHECK(0 <= m_begin && m_begin <= m_end && m_end <= tile.M && 0 <= n_begin && n_begin <= n_end &&
                    n_end <= tile.N,
                "range [{}, {}) x [{}, {}) of a {} x {} tile", m_begin, m_end, n_begin, n_end, tile.M,
                tile.N);
  MatmulTile part = tile;
  part.stationary = from_column(tile.stationary, m_begin);
  part.moving = from_column(tile.moving, n_begin);
  part.acc += static_cast<size_t>(m_begin) * tile.acc_pitch + n_begin;
  part.M = m_end - m_begin;
  part.N = n_end - n_begin;
  matmul_tile(part);
}

void matmul_tile(const float* stationary, const float* moving, float* acc, int K, int M, int N, size_t lds,
                 size_t ldm, size_t lda, bool accumulate) {
  matmul_tile(MatmulTile{{stationary, lds}, {moving, ldm}, acc, K, M, N, lda, accumulate});
}

void matmul_tile_reference(const MatmulTile& tile) {
  const auto element = [](const MatmulOperand& operand, int row, int column) {
    const size_t at = static_cast<size_t>(row) * operand.pitch + static_cast<size_t>(column);
    float value;
    const std::byte* bytes = static_cast<const std::byte*>(operand.data);
    load_f32(operand.dtype, bytes + at * static_cast<size_t>(size_bytes(operand.dtype)), &value, 1);
    return value;
  };
  for (int m = 0; m < tile.M; ++m) {
    for (int n = 0; n < tile.N; ++n) {
      float s = 0;
      for (int k = 0; k < tile.K; ++k) {
        s = std::fma(element(tile.stationary, k, m), element(tile.moving, k, n), s);
      }
      float& out = tile.acc[m * tile.acc_pitch + n];
      out = tile.accumulate ? out + s : s;
      if (std::isnan(out)) out = std::bit_cast<float>(0x7fc00000u);
    }
  }
}

}  // namespace opentrn::numerics
#endif  // HWY_ONCE
