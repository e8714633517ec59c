// A register-blocked outer product, as in Goto and van de Geijn (2008), without their split of K: the
// contract is one running sum per element along all of K, so a block of accumulators stays in
// registers from k = 0 to K - 1.
//
// Both operands are packed, and widened to fp32 in doing so. A panel of `moving` (K rows of three vectors,
// 24 KiB at K = 128 with AVX-512) then lies in L1 while every block of `stationary` (K rows of kMaxRows
// floats, 4 KiB) passes by. Reading the tiles in place again and again would touch K rows whose pitch is
// often a power of two, which fall into few cache sets. The first block of each panel packs `moving` and the
// blocks of the first panel pack `stationary`, whose stores hide behind their multiplications; 16-bit types
// of `stationary` are packed before, as their broadcasts are not free.
#include "numerics/simd_targets.h"

#include <algorithm>
#include <bit>

#include "base/fault.h"
#include "numerics/convert.h"
#include "numerics/matmul.h"
#include "numerics/pair_products.h"
#include "numerics/thread_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/matmul.cc"
#include "hwy/cache_control.h"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "numerics/fused-inl.h"

#ifndef OPENTRN_NUMERICS_MATMUL_ONCE_
#define OPENTRN_NUMERICS_MATMUL_ONCE_
namespace opentrn::numerics {
inline float* matmul_scratch(size_t floats) {
  thread_local ThreadScratch memory;
  return memory.words<float>(floats);
}
}  // namespace opentrn::numerics
#endif

HWY_BEFORE_NAMESPACE();
namespace opentrn::numerics {
namespace HWY_NAMESPACE {

#ifdef __clang__
#define OPENTRN_UNROLL _Pragma("clang loop unroll(full)")
#else
#define OPENTRN_UNROLL _Pragma("GCC unroll 16")
#endif

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

// kMaxRows * kPanelVectors accumulators, a row of the panel and a broadcast must fit the register file: 32
// vectors, but 16 with AVX2.
#if HWY_TARGET == HWY_AVX2
constexpr int kMaxRows = 6;
constexpr int kPanelVectors = 2;
constexpr int kWideVectors = 4;
constexpr int kFewRowsVectors = 2;
#elif HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR
// Vectors that are arrays of the compiler's: blocks of other shapes would only take it longer.
constexpr int kMaxRows = 4;
constexpr int kPanelVectors = 1;
constexpr int kWideVectors = 2;
constexpr int kFewRowsVectors = 1;
#else
constexpr int kMaxRows = 8;
constexpr int kPanelVectors = 3;
constexpr int kWideVectors = 8;
constexpr int kFewRowsVectors = 4;
#endif
// A tile of so few rows reads `moving` once, so packing would double the traffic: its blocks are wide
// instead, to have sums enough in flight, and read in place. kWideVectors of one or two rows, kFewRowsVectors
// of three or four, which are what a head of a decode step has of queries.
constexpr int kFewRows = 4;
// So few columns beyond whole vectors are computed with vectors along M: a vector of columns would be
// mostly empty (7 x 7 pixels: 48 + 1).
constexpr int kFewColumns = 4;
constexpr int kColumnVectors = 4;
// Of the contraction, for narrow_update().
constexpr int kFewSteps = 4;

// A packed block of `stationary` starts this many floats after the one before: were it a power of two,
// writing a row to all blocks would hit one cache set.
HWY_INLINE size_t block_pitch(int K) { return static_cast<size_t>(kMaxRows) * static_cast<size_t>(K) + 16; }

// Rows of an operand may lie pages apart, where hardware does not fetch ahead; a block spends longer on a row
// than a copy.
constexpr int kRowsAhead = 16;
constexpr int kRowsAheadOfBlock = 8;
// Rows of six elements that are packed together: they fill whole cache lines.
constexpr int kRowsTogether = 8;

struct Half {  // fp16
  uint16_t bits;
};

// K rows of fp32, of bf16 as its bits, or of fp16. `packed`, if any, gets a copy in fp32 of what a block
// reads, its rows without gaps.
template <typename T>
struct Rows {
  const T* data;
  size_t pitch;
  float* packed = nullptr;
};

struct Output {
  float* acc;
  size_t pitch;
  bool accumulate;
};

// The loops over `sum` are unrolled by name here and in block(): an array that a loop walks lies on the
// stack.
template <int kRows, int kVectors>
HWY_ATTR HWY_INLINE void store_block(const V (&sum)[kRows][kVectors], Output out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  OPENTRN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    OPENTRN_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* to = out.acc + r * out.pitch + v * lanes;
      V value = sum[r][v];
      if (out.accumulate) value = hn::Add(hn::LoadU(d, to), value);
      hn::StoreU(canonical(d, value), d, to);
    }
  }
}

// `count` floats, which no store touches more of: other threads write the next ones.
HWY_ATTR HWY_INLINE V load_first(D d, const float* from, size_t count) {
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#else
  HWY_ALIGN float all[HWY_MAX_BYTES / sizeof(float)] = {};
  std::copy_n(from, count, all);
  return hn::Load(d, all);
#endif
}
HWY_ATTR HWY_INLINE void store_first(V value, D d, float* to, size_t count) {
#if HWY_TARGET <= HWY_AVX2
  hn::BlendedStore(value, hn::FirstN(d, count), d, to);
#else
  HWY_ALIGN float all[HWY_MAX_BYTES / sizeof(float)];
  hn::Store(value, d, all);
  std::copy_n(all, count, to);
#endif
}

// The same for the first `columns` of a block.
template <int kRows, int kVectors>
HWY_ATTR HWY_INLINE void store_columns(const V (&sum)[kRows][kVectors], size_t columns, Output out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  OPENTRN_UNROLL
  for (int v = 0; v < kVectors; ++v) {
    const size_t before = static_cast<size_t>(v) * lanes;
    if (before >= columns) return;
    const size_t count = std::min(columns - before, lanes);
    OPENTRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      float* to = out.acc + r * out.pitch + before;
      V value = sum[r][v];
      if (out.accumulate) value = hn::Add(load_first(d, to, count), value);
      store_first(canonical(d, value), d, to, count);
    }
  }
}

// An operand's element: fp32, bf16 as its bits, or fp16.
HWY_ATTR HWY_INLINE float widen(float x) { return x; }
HWY_ATTR HWY_INLINE float widen(uint16_t x) { return std::bit_cast<float>(static_cast<uint32_t>(x) << 16); }
HWY_ATTR HWY_INLINE float widen(Half x) {
  const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16, magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00) return std::bit_cast<float>(sign | 0x7f800000u | magnitude << 13);
  // As a subnormal's or a normal number's bits of fp32, 2^112 too small.
  return std::bit_cast<float>(sign |
                              std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude << 13) * 0x1p112f));
}
template <class Tag>
HWY_ATTR HWY_INLINE hn::Vec<Tag> load_wide(Tag d, const float* from) {
  return hn::LoadU(d, from);
}
template <class Tag>
HWY_ATTR HWY_INLINE hn::Vec<Tag> load_wide(Tag d, const uint16_t* from) {
  const hn::RebindToUnsigned<Tag> bits;
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, hn::LoadU(hn::Rebind<uint16_t, Tag>(), from))));
}
template <class Tag>
HWY_ATTR HWY_INLINE hn::Vec<Tag> load_wide(Tag d, const Half* from) {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  const auto codes = hn::LoadU(hn::Rebind<uint16_t, Tag>(), &from->bits);
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, Tag>(), codes));
#else
  HWY_ALIGN float wide[HWY_MAX_BYTES / sizeof(float)];
  for (size_t i = 0; i < hn::Lanes(d); ++i) wide[i] = widen(from[i]);
  return hn::Load(d, wide);
#endif
}

// body(element), with a value of the type that the operand's elements have.
template <typename Body>
HWY_ATTR HWY_INLINE void for_type_of(const MatmulOperand& operand, Body&& body) {
  switch (operand.dtype) {
    case DType::kBFloat16: return body(uint16_t{});
    case DType::kFloat16: return body(Half{});
    default: return body(float{});
  }
}

template <typename T>
HWY_INLINE void fetch(const T* from, size_t elements) {
  for (size_t i = 0; i < elements; i += 64 / sizeof(T)) hwy::Prefetch(from + i);
}

// The `kMaxRows` elements of a full block in each of kCount rows of the operand: two rows fill a cache line.
template <int kCount, typename T>
HWY_ATTR HWY_INLINE void pack_full_block(const T* HWY_RESTRICT from, size_t pitch, int readable,
                                         float* HWY_RESTRICT to) {
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kMaxRows == 8 && HWY_MAX_BYTES >= 4 * kCount * kMaxRows) {
    const hn::CappedTag<float, 8> d;
    const auto first = load_wide(d, from);
    if constexpr (kCount == 1) return hn::StoreU(first, d, to);
    const hn::CappedTag<float, 16> two;
    return hn::StoreU(hn::Combine(two, load_wide(d, from + pitch), first), two, to);
  }
#endif
#if HWY_TARGET == HWY_AVX2
  // Two elements too many, which the next row, or the next block, overwrites.
  const hn::CappedTag<float, 8> d;
  if (readable >= 8) {
    for (int k = 0; k < kCount; ++k) hn::StoreU(load_wide(d, from + k * pitch), d, to + k * kMaxRows);
    return;
  }
#endif
  for (int k = 0; k < kCount; ++k, from += pitch, to += kMaxRows)
    for (int r = 0; r < kMaxRows; ++r) to[r] = widen(from[r]);
}

// Which operands a block packs on its way, and whether it fetches rows of `moving` that only it reads.
enum Packs { kNone = 0, kStationary = 1, kMoving = 2, kMovingOnce = 4 };

// One block: `stationary` is K x kRows, `moving` readable kVectors * lanes wide, `columns` of it wanted.
template <int kRows, int kVectors, int kPacks, typename M>
HWY_ATTR HWY_INLINE void block(Rows<float> stationary, Rows<M> moving, int K, size_t columns, Output out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sum[kRows][kVectors];
  OPENTRN_UNROLL
  for (int r = 0; r < kRows; ++r) {
    OPENTRN_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  if (out.accumulate)
    for (int r = 0; r < kRows; ++r) fetch(out.acc + r * out.pitch, kVectors * lanes);
  const float* HWY_RESTRICT left = stationary.data;
  const M* HWY_RESTRICT right = moving.data;
  float* HWY_RESTRICT left_copy = stationary.packed;
  float* HWY_RESTRICT copy = moving.packed;
  for (int k = 0; k < K; ++k) {
    V m[kVectors];
    for (int v = 0; v < kVectors; ++v) m[v] = load_wide(d, right + v * lanes);
    if constexpr ((kPacks & kStationary) != 0) {
      std::copy_n(left, kRows, left_copy);
      left_copy += kRows;
      if (k + kRowsAheadOfBlock < K) fetch(left + kRowsAheadOfBlock * stationary.pitch, kRows);
    }
    if constexpr ((kPacks & kMoving) != 0) {
      for (int v = 0; v < kVectors; ++v) hn::StoreU(m[v], d, copy + v * lanes);
      copy += kVectors * lanes;
      if (k + kRowsAheadOfBlock < K) fetch(right + kRowsAheadOfBlock * moving.pitch, kVectors * lanes);
    }
    if constexpr ((kPacks & kMovingOnce) != 0)
      if (k + kRowsAhead < K) fetch(right + kRowsAhead * moving.pitch, kVectors * lanes);
    OPENTRN_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const V s = hn::Set(d, left[r]);
      OPENTRN_UNROLL
      for (int v = 0; v < kVectors; ++v) sum[r][v] = fused(d, s, m[v], sum[r][v]);
    }
    left += stationary.pitch;
    right += moving.pitch;
  }
  if (columns == kVectors * lanes) return store_block<kRows, kVectors>(sum, out);
  store_columns<kRows, kVectors>(sum, columns, out);
}

// `count` blocks below each other: `left_step` and, where they pack, block_pitch() floats apart.
template <int kRows, int kVectors, int kPacks = kNone, typename M = float>
HWY_ATTR HWY_NOINLINE void blocks(int count, size_t left_step, Rows<float> stationary, Rows<M> moving, int K,
                                  size_t columns, Output out) {
  for (int i = 0; i < count; ++i) {
    block<kRows, kVectors, kPacks>(stationary, moving, K, columns, out);
    stationary.data += left_step;
    if constexpr ((kPacks & kStationary) != 0) stationary.packed += block_pitch(K);
    out.acc += kRows * out.pitch;
  }
}

// Rows in full blocks. One block of six less than there could be where one or two rows would be left: they
// have too few sums in flight, and 32, 64 and 128 rows are common. Two blocks of up to four have enough.
HWY_INLINE int full_rows(int M) {
  const int rest = M % kMaxRows, full = M - rest;
  return kMaxRows == 6 && (rest == 1 || rest == 2) && full > kMaxRows ? full - kMaxRows : full;
}

// Rows of the next block behind the full ones: 4, then what is left.
HWY_INLINE int block_rows(int rows_left) { return std::min(rows_left, 4); }

// kCount rows from row k on, of all blocks.
template <int kCount, typename T>
HWY_ATTR HWY_INLINE void pack_rows(const MatmulTile& t, const T* row, int k, float* HWY_RESTRICT block) {
  const size_t pitch = block_pitch(t.K);
  int m = 0;
  for (const int full = full_rows(t.M); m < full; m += kMaxRows, block += pitch)
    pack_full_block<kCount>(row + m, t.stationary.pitch, t.M - m, block + k * kMaxRows);
  for (; m < t.M; block += pitch) {
    const int rows = block_rows(t.M - m);
    for (int i = 0; i < kCount; ++i)
      for (int r = 0; r < rows; ++r) block[(k + i) * rows + r] = widen(row[i * t.stationary.pitch + m + r]);
    m += rows;
  }
}

// Blocks of rows, each K x rows, block_pitch() apart. Row by row, as a row of the operand is contiguous.
template <typename T>
HWY_ATTR void pack_stationary(const MatmulTile& t, float* to) {
  const size_t pitch = t.stationary.pitch;
  const auto* row = static_cast<const T*>(t.stationary.data);
  int k = 0;
  if constexpr (kMaxRows == 6) {
    for (; k + kRowsTogether <= t.K; k += kRowsTogether, row += kRowsTogether * pitch)
      pack_rows<kRowsTogether>(t, row, k, to);
  }
  for (; k + 2 <= t.K; k += 2, row += 2 * pitch) {
    if (k + kRowsAhead + 1 < t.K)
      for (int i = 0; i < 2; ++i) fetch(row + (kRowsAhead + i) * pitch, t.M);
    pack_rows<2>(t, row, k, to);
  }
  if (k < t.K) pack_rows<1>(t, row, k, to);
}

// Columns that lie next to each other, with those of the same run before them; `to` is their place in a
// panel.
struct Piece {
  size_t from, to, columns;
};

// Copies of `columns` columns from `n` on, `width` floats apart: as the pieces lie, each for all of K.
template <typename T>
HWY_ATTR HWY_INLINE void pack_piece(const MatmulTile& t, Piece piece, size_t width, float* HWY_RESTRICT to) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const T* from = static_cast<const T*>(t.moving.data) + piece.from;
  to += piece.to;
  const auto rest = hn::FirstN(d, piece.columns % lanes);
  for (int k = 0; k < t.K; ++k, from += t.moving.pitch, to += width) {
    fetch(from + piece.columns, width);  // the next panel
    if (k + kRowsAhead < t.K) fetch(from + kRowsAhead * t.moving.pitch, piece.columns);
    size_t j = 0;
    for (; j + lanes <= piece.columns; j += lanes) hn::StoreU(load_wide(d, from + j), d, to + j);
    if (j == piece.columns) continue;
    if constexpr (sizeof(T) == 4) {
      hn::BlendedStore(hn::MaskedLoad(rest, d, from + j), rest, d, to + j);
    } else {
      for (; j < piece.columns; ++j) to[j] = widen(from[j]);
    }
  }
}

template <typename T>
HWY_ATTR void pack_panel(const MatmulTile& t, int n, size_t columns, size_t width, float* HWY_RESTRICT to) {
  for (size_t done = 0; done < columns;) {
    const int at = t.moving.first_column + n + static_cast<int>(done);
    const size_t in_run =
        t.moving.run == 0 ? columns - done : static_cast<size_t>(t.moving.run - at % t.moving.run);
    const Piece piece{t.moving.offset(n + static_cast<int>(done)), done, std::min(in_run, columns - done)};
    pack_piece<T>(t, piece, width, to);
    done += piece.columns;
  }
  for (int k = 0; columns < width && k < t.K; ++k)
    std::fill_n(to + static_cast<size_t>(k) * width + columns, width - columns, 0.0f);
}

HWY_ATTR void pack_panel_of(const MatmulTile& t, int n, size_t columns, size_t width, float* to) {
  for_type_of(t.moving, [&]<typename T>(T) HWY_ATTR { pack_panel<T>(t, n, columns, width, to); });
}

// Where rows m on of the stationary operand lie once they are packed. Blocks of less than kMaxRows follow the
// full ones, one block_pitch() each.
HWY_INLINE float* packed_block(const MatmulTile& t, float* packed, int m) {
  const int full = std::min(m, full_rows(t.M));
  float* at = packed + static_cast<size_t>(full / kMaxRows) * block_pitch(t.K);
  for (int before = full; before < m; before += block_rows(t.M - before)) at += block_pitch(t.K);
  return at;
}

// Whether the blocks of the first panel pack `stationary`. Blocks of six rows cut cache lines, which takes
// longer (3 to 24 % of the product) than packing all of them first.
HWY_INLINE bool packs_on_the_way(const MatmulTile& t) {
  return HWY_TARGET != HWY_AVX2 && t.stationary.dtype == DType::kFloat32;
}

// Where the blocks of a panel find `stationary`.
enum class Left { kPacked, kInPlace, kInPlaceToPack };

// The operands of one panel: `moving` with a place to be packed to if its first block, a full one, is to do
// that.
template <typename M>
struct Panel {
  float* stationary;  // where it is packed, or will be
  Left left;
  Rows<M> moving;
  int n;
  size_t columns;
};

// Blocks of fewer than kMaxRows rows read fp32 in place unless all was packed before.
template <typename M>
HWY_INLINE Rows<float> left_rows(const MatmulTile& t, const Panel<M>& panel, int m, int rows) {
  const bool fp32 = t.stationary.dtype == DType::kFloat32;
  const bool has_place = rows == kMaxRows || !packs_on_the_way(t);
  float* packed = has_place ? packed_block(t, panel.stationary, m) : nullptr;
  if (!fp32 || (has_place && panel.left == Left::kPacked)) return {packed, static_cast<size_t>(rows)};
  return {static_cast<const float*>(t.stationary.data) + m, t.stationary.pitch, packed};
}

// `count` full blocks from row m on.
template <int kVectors, int kPacks, typename M>
HWY_ATTR HWY_INLINE void full_blocks(const MatmulTile& t, const Panel<M>& panel, int m, int count,
                                     Output out) {
  const Rows<float> left = left_rows(t, panel, m, kMaxRows);
  const size_t step = panel.left == Left::kPacked ? block_pitch(t.K) : kMaxRows;
  if (panel.left == Left::kInPlaceToPack)
    blocks<kMaxRows, kVectors, kPacks | kStationary>(count, step, left, panel.moving, t.K, panel.columns,
                                                     out);
  else
    blocks<kMaxRows, kVectors, kPacks>(count, step, left, panel.moving, t.K, panel.columns, out);
}

// The last rows, in a block of 4 and one of what is left.
template <int kVectors>
HWY_ATTR void rows_left_over(const MatmulTile& t, const Panel<float>& panel, int m, Output out) {
  for (int rows = 0; m < t.M; m += rows, out.acc += static_cast<size_t>(rows) * out.pitch) {
    rows = block_rows(t.M - m);
    const Rows<float> left = left_rows(t, panel, m, rows);
    switch (rows) {
      case 4: blocks<4, kVectors>(1, 0, left, panel.moving, t.K, panel.columns, out); break;
      case 3: blocks<3, kVectors>(1, 0, left, panel.moving, t.K, panel.columns, out); break;
      case 2: blocks<2, kVectors>(1, 0, left, panel.moving, t.K, panel.columns, out); break;
      default: blocks<1, kVectors>(1, 0, left, panel.moving, t.K, panel.columns, out); break;
    }
  }
}

template <int kVectors, typename M>
HWY_ATTR void all_rows_of_panel(const MatmulTile& t, const Panel<M>& panel) {
  const auto out_from = [&](int m) {
    return Output{t.acc + static_cast<size_t>(m) * t.acc_pitch + panel.n, t.acc_pitch, t.accumulate};
  };
  const int full = full_rows(t.M);
  int m = 0;
  Panel<float> packed{panel.stationary, panel.left, {}, panel.n, panel.columns};
  if (t.M == kMaxRows && panel.moving.packed != nullptr) {
    full_blocks<kVectors, kMovingOnce>(t, panel, 0, 1, out_from(0));
    return;
  }
  if (panel.moving.packed != nullptr) {
    full_blocks<kVectors, kMoving>(t, panel, 0, 1, out_from(0));
    packed.moving = {panel.moving.packed, kVectors * hn::Lanes(D())};
    m = kMaxRows;
  } else if constexpr (sizeof(M) == sizeof(float)) {
    packed.moving = panel.moving;
  }
  full_blocks<kVectors, kNone>(t, packed, m, (full - m) / kMaxRows, out_from(m));
  rows_left_over<kVectors>(t, packed, full, out_from(full));
}

template <typename M>
HWY_ATTR void panel_of_vectors(const MatmulTile& t, const Panel<M>& panel, size_t vectors) {
  if (vectors == 3) {
    if constexpr (kPanelVectors == 3) all_rows_of_panel<3>(t, panel);
  } else if (vectors == 2) {
    all_rows_of_panel<2>(t, panel);
  } else {
    all_rows_of_panel<1>(t, panel);
  }
}

template <typename M>
HWY_ATTR void few_rows_of_panel(const MatmulTile& t, const Panel<M>& panel) {
  const Output out{t.acc + panel.n, t.acc_pitch, t.accumulate};
  const Rows<float> left = left_rows(t, panel, 0, t.M);
  const auto of = [&]<int kRows, int kVectors>() HWY_ATTR {
    blocks<kRows, kVectors, kMovingOnce>(1, 0, left, panel.moving, t.K, panel.columns, out);
  };
  switch (t.M) {
    case 1: return of.template operator()<1, kWideVectors>();
    case 2: return of.template operator()<2, kWideVectors>();
    case 3: return of.template operator()<3, kFewRowsVectors>();
    default: return of.template operator()<4, kFewRowsVectors>();
  }
}

// kColumns columns with kVectors * lanes rows of the result. `right`: K rows of kColumns, without gaps.
template <int kVectors, int kColumns, typename T>
HWY_ATTR HWY_NOINLINE void column_block(Rows<T> left, const float* HWY_RESTRICT right, int K, Output out) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V sum[kColumns][kVectors];
  for (auto& x : sum) {
    for (V& y : x) y = hn::Zero(d);
  }
  for (int k = 0; k < K; ++k, left.data += left.pitch, right += kColumns) {
    if (k + kRowsAhead < K) fetch(left.data + kRowsAhead * left.pitch, kVectors * lanes);
    V s[kVectors];
    for (int v = 0; v < kVectors; ++v) s[v] = load_wide(d, left.data + v * lanes);
    for (int c = 0; c < kColumns; ++c) {
      const V m = hn::Set(d, right[c]);
      for (int v = 0; v < kVectors; ++v) sum[c][v] = fused(d, s[v], m, sum[c][v]);
    }
  }
  HWY_ALIGN float turned[kVectors * (HWY_MAX_BYTES / sizeof(float))];
  for (int c = 0; c < kColumns; ++c) {
    float* to = out.acc + c;
    if (out.accumulate) {
      for (size_t r = 0; r < kVectors * lanes; ++r) turned[r] = to[r * out.pitch];
      for (int v = 0; v < kVectors; ++v) sum[c][v] = hn::Add(hn::Load(d, turned + v * lanes), sum[c][v]);
    }
    for (int v = 0; v < kVectors; ++v) hn::Store(canonical(d, sum[c][v]), d, turned + v * lanes);
    for (size_t r = 0; r < kVectors * lanes; ++r) to[r * out.pitch] = turned[r];
  }
}

template <int kVectors, typename T>
HWY_ATTR void columns_of_rows(Rows<T> left, const float* right, int count, int K, Output out) {
  switch (count) {
    case 1: return column_block<kVectors, 1>(left, right, K, out);
    case 2: return column_block<kVectors, 2>(left, right, K, out);
    case 3: return column_block<kVectors, 3>(left, right, K, out);
    default: return column_block<kVectors, 4>(left, right, K, out);
  }
}

template <typename T>
HWY_ATTR void pack_few_columns(const MatmulTile& t, int n, int count, float* to) {
  size_t column[kFewColumns] = {};
  for (int c = 0; c < count; ++c) column[c] = t.moving.offset(n + c);
  const T* row = static_cast<const T*>(t.moving.data);
  for (int k = 0; k < t.K; ++k, row += t.moving.pitch)
    for (int c = 0; c < count; ++c) *to++ = widen(row[column[c]]);
}

template <typename T>
HWY_ATTR void few_columns_of_type(const MatmulTile& t, const float* right, int n, int count) {
  const int lanes = static_cast<int>(hn::Lanes(D()));
  for (int m = 0; m < t.M;) {
    const Rows<T> left{static_cast<const T*>(t.stationary.data) + m, t.stationary.pitch};
    const Output out{t.acc + static_cast<size_t>(m) * t.acc_pitch + n, t.acc_pitch, t.accumulate};
    const bool wide = t.M - m >= kColumnVectors * lanes;
    if (wide)
      columns_of_rows<kColumnVectors>(left, right, count, t.K, out);
    else
      columns_of_rows<1>(left, right, count, t.K, out);
    m += wide ? kColumnVectors * lanes : lanes;
  }
}

// The last `count` <= kFewColumns columns of a tile whose rows fill whole vectors, packed to K * count
// floats.
HWY_ATTR void few_columns(const MatmulTile& t, int n, int count, float* packed) {
  for_type_of(t.moving, [&]<typename T>(T) HWY_ATTR { pack_few_columns<T>(t, n, count, packed); });
  for_type_of(t.stationary, [&]<typename T>(T) HWY_ATTR { few_columns_of_type<T>(t, packed, n, count); });
}

// Columns that few_columns() takes.
HWY_INLINE int columns_left_over(const MatmulTile& t) {
  const int lanes = static_cast<int>(hn::Lanes(D()));
  const int rest = t.N % lanes;
  return t.M > kFewRows && t.M % lanes == 0 && rest <= kFewColumns ? rest : 0;
}

// Columns n on as they lie, to be packed on the way.
template <typename M>
HWY_INLINE Rows<M> rows_in_place(const MatmulTile& t, int n, float* packed) {
  return {static_cast<const M*>(t.moving.data) + t.moving.offset(n), t.moving.pitch, packed};
}

HWY_ATTR void tile_of_few_rows(const MatmulTile& t, float* packed, float* stationary, int end) {
  const size_t width = static_cast<size_t>(t.M <= 2 ? kWideVectors : kFewRowsVectors) * hn::Lanes(D());
  for (int n = 0; n < end; n += static_cast<int>(width)) {
    const size_t columns = std::min(static_cast<size_t>(end - n), width);
    if (t.moving.run == 0 && columns == width) {
      for_type_of(t.moving, [&]<typename T>(T) HWY_ATTR {
        few_rows_of_panel<T>(t, {stationary, Left::kInPlace, rows_in_place<T>(t, n, nullptr), n, columns});
      });
      continue;
    }
    pack_panel_of(t, n, columns, width, packed);
    few_rows_of_panel<float>(t, {stationary, Left::kInPlace, {packed, width}, n, columns});
  }
}

HWY_ATTR void tile_of_panels(const MatmulTile& t, float* packed, float* stationary, int end) {
  const size_t lanes = hn::Lanes(D());
  const bool on_the_way = packs_on_the_way(t);
  for (int n = 0; n < end;) {
    const size_t columns_left = static_cast<size_t>(end - n);
    const size_t vectors = std::min<size_t>(kPanelVectors, (columns_left + lanes - 1) / lanes);
    const size_t width = vectors * lanes, columns = std::min(columns_left, width);
    const bool in_place = t.moving.run == 0 && columns == width && t.M >= kMaxRows;
    Left left = Left::kPacked;
    if (on_the_way && n == 0) left = columns == columns_left ? Left::kInPlace : Left::kInPlaceToPack;
    if (!in_place) {
      pack_panel_of(t, n, columns, width, packed);
      panel_of_vectors<float>(t, {stationary, left, {packed, width}, n, columns}, vectors);
    } else {
      for_type_of(t.moving, [&]<typename T>(T) HWY_ATTR {
        panel_of_vectors<T>(t, {stationary, left, rows_in_place<T>(t, n, packed), n, columns}, vectors);
      });
    }
    n += static_cast<int>(columns);
  }
}

// Whether the result, of fewer columns than a vector has lanes, lies without gaps and takes few steps of the
// contraction.
HWY_INLINE bool is_narrow_update(const MatmulTile& t) {
  const int lanes = static_cast<int>(hn::Lanes(D()));
  return t.K >= 1 && t.K <= kFewSteps && t.N >= 1 && t.N < lanes && t.M >= lanes &&
         t.acc_pitch == static_cast<size_t>(t.N) && t.stationary.dtype == DType::kFloat32 &&
         t.moving.dtype == DType::kFloat32 && t.moving.run == 0;
}

// The result as one run of M * N elements, a vector at a time. Row by row each vector would hold N elements,
// and loading it would wait for the store of the row before, whose bytes it touches.
HWY_ATTR void narrow_update(const MatmulTile& t) {
  const D d;
  const size_t lanes = hn::Lanes(d), columns = static_cast<size_t>(t.N);
  constexpr size_t kLanes = HWY_MAX_BYTES / sizeof(float);
  // Of an element of a vector: its row, from the vector's first, and its column; by the column of the first.
  HWY_ALIGN int32_t row_of[kLanes][kLanes], column_of[kLanes][kLanes];
  for (size_t first = 0; first < columns; ++first) {
    int32_t row = 0, column = static_cast<int32_t>(first);
    for (size_t i = 0; i < lanes; ++i) {
      row_of[first][i] = row;
      column_of[first][i] = column;
      if (++column == t.N) column = 0, ++row;
    }
  }
  const float* const left = static_cast<const float*>(t.stationary.data);
  const float* const right = static_cast<const float*>(t.moving.data) + t.moving.first_column;
  const size_t rows = static_cast<size_t>(t.M), total = rows * columns;
  size_t row = 0, column = 0;
  for (size_t at = 0; at < total; at += lanes) {
    const auto rows_here = hn::SetTableIndices(d, row_of[column]);
    const auto columns_here = hn::SetTableIndices(d, column_of[column]);
    V sum = hn::Zero(d);
    for (size_t k = 0; k < static_cast<size_t>(t.K); ++k) {
      const float* const from = left + k * t.stationary.pitch + row;
      const V s = rows - row >= lanes ? hn::LoadU(d, from) : load_first(d, from, rows - row);
      const V m = load_first(d, right + k * t.moving.pitch, columns);
      sum = fused(d, hn::TableLookupLanes(s, rows_here), hn::TableLookupLanes(m, columns_here), sum);
    }
    const size_t count = std::min(lanes, total - at);
    float* const to = t.acc + at;
    if (count == lanes) {
      if (t.accumulate) sum = hn::Add(hn::LoadU(d, to), sum);
      hn::StoreU(canonical(d, sum), d, to);
    } else {
      if (t.accumulate) sum = hn::Add(load_first(d, to, count), sum);
      store_first(canonical(d, sum), d, to, count);
    }
    for (column += lanes; column >= columns; column -= columns) ++row;
  }
}

HWY_ATTR void MatmulTileSimd(const MatmulTile& t) {
  if (t.M == 0) return;
  if (is_narrow_update(t)) return narrow_update(t);
  const bool fp32 = t.stationary.dtype == DType::kFloat32;
  const bool few_rows = t.M <= kFewRows;
  const size_t widest = static_cast<size_t>(few_rows ? kWideVectors : kPanelVectors) * hn::Lanes(D());
  // Rows that do not fill a block take up to two more: 4, and what is left.
  const size_t blocks = static_cast<size_t>(t.M / kMaxRows) + 2;
  float* packed = matmul_scratch(widest * static_cast<size_t>(t.K) + blocks * block_pitch(t.K));
  float* stationary = packed + widest * static_cast<size_t>(t.K);
  const int left_over = columns_left_over(t);
  const int end = t.N - left_over;
  if (end > 0 && (!fp32 || (!few_rows && !packs_on_the_way(t))))
    for_type_of(t.stationary, [&]<typename T>(T) HWY_ATTR { pack_stationary<T>(t, stationary); });
  if (few_rows)
    tile_of_few_rows(t, packed, stationary, end);
  else
    tile_of_panels(t, packed, stationary, end);
  if (left_over > 0) few_columns(t, end, left_over, packed);
}

}  // namespace HWY_NAMESPACE
}  // namespace opentrn::numerics
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opentrn::numerics {

HWY_EXPORT(MatmulTileSimd);

bool is_matmul_operand(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16 ||
         (is_fp8(dtype) && uses_pair_products());
}

namespace {

void check_operand(const MatmulOperand& operand) {
  OPENTRN_CHECK(is_matmul_operand(operand.dtype) || is_fp8(operand.dtype), "matmul tile of {}",
                name(operand.dtype));
  OPENTRN_CHECK(operand.run >= 0 && operand.first_column >= 0, "runs of {} columns, from {} on", operand.run,
                operand.first_column);
}

MatmulOperand from_column(const MatmulOperand& operand, int column) {
  MatmulOperand part = operand;
  part.data = static_cast<const std::byte*>(operand.data) + column * size_bytes(operand.dtype);
  return part;
}

// fp8 as a matrix of fp32 in `to`, without gaps; others as they are.
MatmulOperand widened_fp8(const MatmulOperand& operand, int rows, int columns, float* to) {
  if (!is_fp8(operand.dtype)) return operand;
  for (int k = 0; k < rows; ++k) {
    const auto* row = static_cast<const std::byte*>(operand.data) + static_cast<size_t>(k) * operand.pitch;
    float* const out = to + static_cast<size_t>(k) * static_cast<size_t>(columns);
    for (int n = 0, in_run = columns; n < columns; n += in_run) {
      if (operand.run > 0) in_run = operand.run - (operand.first_column + n) % operand.run;
      in_run = std::min(in_run, columns - n);
      load_f32(operand.dtype, row + operand.offset(n), out + n, static_cast<size_t>(in_run));
    }
  }
  return {to, static_cast<size_t>(columns)};
}

// One multiply-add after the other.
void multiply_singly(const MatmulTile& tile) {
  if (!is_fp8(tile.stationary.dtype) && !is_fp8(tile.moving.dtype))
    return HWY_DYNAMIC_DISPATCH(MatmulTileSimd)(tile);
  thread_local ThreadScratch memory;
  const size_t left = static_cast<size_t>(tile.K) * static_cast<size_t>(tile.M);
  float* const room = memory.words<float>(left + static_cast<size_t>(tile.K) * static_cast<size_t>(tile.N));
  MatmulTile wide = tile;
  wide.stationary = widened_fp8(tile.stationary, tile.K, tile.M, room);
  wide.moving = widened_fp8(tile.moving, tile.K, tile.N, room + left);
  HWY_DYNAMIC_DISPATCH(MatmulTileSimd)(wide);
}

}  // namespace

void matmul_tile(const MatmulTile& tile) {
  OPENTRN_CHECK(tile.K >= 0 && tile.M >= 0 && tile.N >= 0, "matmul tile K={} M={} N={}", tile.K, tile.M,
                tile.N);
  check_operand(tile.stationary);
  check_operand(tile.moving);
  OPENTRN_CHECK(tile.stationary.run == 0 && tile.stationary.first_column == 0,
                "columns of a stationary operand follow each other");
  if (!uses_pair_products() || !multiply_pairs(tile, multiply_singly)) multiply_singly(tile);
}

void matmul_tile_range(const MatmulTile& tile, int m_begin, int m_end, int n_begin, int n_end) {
  OPENTRN_CHECK(0 <= m_begin && m_begin <= m_end && m_end <= tile.M && 0 <= n_begin && n_begin <= n_end &&
                    n_end <= tile.N,
                "range [{}, {}) x [{}, {}) of a {} x {} tile", m_begin, m_end, n_begin, n_end, tile.M,
                tile.N);
  MatmulTile part = tile;
  part.stationary = from_column(tile.stationary, m_begin);
  part.moving.first_column += n_begin;
  part.acc += static_cast<size_t>(m_begin) * tile.acc_pitch + n_begin;
  part.M = m_end - m_begin;
  part.N = n_end - n_begin;
  matmul_tile(part);
}

void matmul_tile(const float* stationary, const float* moving, float* acc, int K, int M, int N, size_t lds,
                 size_t ldm, size_t lda, bool accumulate) {
  matmul_tile(MatmulTile{{stationary, lds}, {moving, ldm}, acc, K, M, N, lda, accumulate});
}

}  // namespace opentrn::numerics
#endif  // HWY_ONCE
