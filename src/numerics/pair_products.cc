#include "numerics/pair_products.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "numerics/convert.h"
#include "numerics/thread_scratch.h"

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define OPENTRN_PAIR_PRODUCTS 1
#include <immintrin.h>
#else
#define OPENTRN_PAIR_PRODUCTS 0
#endif

namespace opentrn::numerics {

#if OPENTRN_PAIR_PRODUCTS

namespace {

// bf16 of a format's 128 magnitudes, by their codes; exact, as bf16 has more of all digits.
const std::array<uint16_t, 128>& bf16_of_fp8(DType dtype) {
  static const auto tables = [] {
    std::array<std::array<uint16_t, 128>, kDTypeCount> all{};
    for (int type = 0; type < kDTypeCount; ++type) {
      if (!is_fp8(static_cast<DType>(type))) continue;
      for (size_t code = 0; code < 128; ++code) {
        const auto byte = static_cast<uint8_t>(code);
        float value;
        load_f32(static_cast<DType>(type), &byte, &value, 1);
        all[static_cast<size_t>(type)][code] = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
      }
    }
    return all;
  }();
  return tables[static_cast<size_t>(dtype)];
}

}  // namespace

// The rest of the file may be compiled for other processors: what is inline in headers must be above.
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma"))), \
                             apply_to = function)
#define OPENTRN_UNROLL _Pragma("clang loop unroll(full)")
#else
#pragma GCC push_options
#pragma GCC diagnostic push
// GCC's own intrinsics leave operands undefined that their masks do not read.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,fma")
#define OPENTRN_UNROLL _Pragma("GCC unroll 16")
#endif

namespace {

constexpr int kLanes = 16;
// 24 sums, three vectors of the panel and a broadcast are in registers.
constexpr int kBlockRows = 8;
constexpr int kPanelVectors = 3;
constexpr int kRowsAhead = 16;
// Of `moving`, while it is packed.
constexpr int kRowsTogether = 8;
// 528 columns: all of an nc_matmul.
constexpr int kPanelsTogether = 11;

// Magnitudes of bf16 as bits.
constexpr uint32_t kLeastNormal = 0x0080;
constexpr uint32_t kLargestFinite = 0x7f7f;
constexpr int kFractionBits = 7;

// Of a packed matrix: the magnitudes of its smallest number but zero, and of its largest.
struct Magnitudes {
  uint32_t least;
  uint32_t most;

  bool ordinary() const { return least >= kLeastNormal && most <= kLargestFinite; }
};

// As the head of this file's header says; exponents are biased by 127, and 7 bits follow the leading one.
bool in_range(const Magnitudes& a, const Magnitudes& b) {
  constexpr int kBias = 127;
  const auto exponent = [](uint32_t bits) { return static_cast<int>(bits >> kFractionBits) - kBias; };
  const bool normal = exponent(a.least) + exponent(b.least) - 2 * kFractionBits >= -126;
  const bool finite = exponent(a.most) + exponent(b.most) + 2 <= 128;
  return normal && finite;
}

// What the packed pairs of a matrix have shown.
class Seen {
 public:
  // Written out, as GCC compiles implicit ones for the build's processor.
  Seen()
      : least_(_mm512_set1_epi16(-1)), most_(_mm512_setzero_si512()), below_bf16_(_mm512_setzero_si512()) {}
  void pairs(__m512i pairs) {
    const __m512i magnitudes = _mm512_and_si512(pairs, _mm512_set1_epi16(0x7fff));
    most_ = _mm512_max_epu16(most_, magnitudes);
    // Zero becomes the largest.
    least_ = _mm512_min_epu16(least_, _mm512_sub_epi16(magnitudes, _mm512_set1_epi16(1)));
  }
  void fp32(__m512i bits) { below_bf16_ = _mm512_or_si512(below_bf16_, bits); }

  bool all_bf16() const { return _mm512_test_epi32_mask(below_bf16_, _mm512_set1_epi32(0xffff)) == 0; }
  Magnitudes magnitudes() const {
    alignas(64) uint16_t least[2 * kLanes], most[2 * kLanes];
    _mm512_store_si512(least, least_);
    _mm512_store_si512(most, most_);
    return {*std::min_element(least, least + 2 * kLanes) + uint32_t{1},
            *std::max_element(most, most + 2 * kLanes)};
  }

 private:
  __m512i least_;
  __m512i most_;
  __m512i below_bf16_;
};

__mmask16 first_lanes(int count) {
  return static_cast<__mmask16>(count >= kLanes ? 0xffffu : (1u << count) - 1u);
}

// The halves of pairs: `above` in the upper ones.
inline __m512i pairs_from(__m512i above, __m512i below) {
  return _mm512_or_si512(_mm512_slli_epi32(above, 16), below);
}

// How elements of each type are read: as numbers of 32 bits each, of which two rows become pairs.
struct Fp32Source {
  using Element = float;
  explicit Fp32Source(const MatmulOperand&) {}
  __m512i codes(const float* at) const { return _mm512_loadu_si512(at); }
  __m512i codes(__mmask16 lanes, const float* at) const { return _mm512_maskz_loadu_epi32(lanes, at); }
  __m512i pairs(__m512i above, __m512i below, Seen& seen) const {
    seen.fp32(_mm512_or_si512(above, below));
    const __m512i upper = _mm512_and_si512(above, _mm512_set1_epi32(static_cast<int>(0xffff0000u)));
    return _mm512_or_si512(upper, _mm512_srli_epi32(below, 16));
  }
};

struct Bf16Source {
  using Element = uint16_t;
  explicit Bf16Source(const MatmulOperand&) {}
  __m512i codes(const uint16_t* at) const {
    return _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(at)));
  }
  __m512i codes(__mmask16 lanes, const uint16_t* at) const {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, at));
  }
  __m512i pairs(__m512i above, __m512i below, Seen&) const { return pairs_from(above, below); }
};

// fp8 of any format, as bf16 from a table of all magnitudes.
struct Fp8Source {
  using Element = uint8_t;
  explicit Fp8Source(const MatmulOperand& operand) {
    const uint16_t* table = bf16_of_fp8(operand.dtype).data();
    for (int i = 0; i < 4; ++i) magnitudes[i] = _mm512_loadu_si512(table + 2 * kLanes * i);
  }
  __m512i codes(const uint8_t* at) const {
    return _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(at)));
  }
  __m512i codes(__mmask16 lanes, const uint8_t* at) const {
    return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, at));
  }
  __m512i pairs(__m512i above, __m512i below, Seen&) const {
    const __m512i codes = pairs_from(above, below);  // fp8 in the low byte of each half
    const __m512i small = _mm512_permutex2var_epi16(magnitudes[0], codes, magnitudes[1]);
    const __m512i large = _mm512_permutex2var_epi16(magnitudes[2], codes, magnitudes[3]);
    const __mmask32 is_large = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x40));
    const __m512i sign = _mm512_slli_epi16(_mm512_and_si512(codes, _mm512_set1_epi16(0x80)), 8);
    return _mm512_or_si512(_mm512_mask_mov_epi16(small, is_large, large), sign);
  }

  __m512i magnitudes[4];
};

// A vector of two rows of an operand, as pairs; the first row is above.
template <typename Source>
inline __m512i row_pair(const Source& source, const typename Source::Element* at, size_t pitch, Seen& seen) {
  const __m512i pairs = source.pairs(source.codes(at), source.codes(at + pitch), seen);
  seen.pairs(pairs);
  return pairs;
}

// Of fewer columns, or without a second row: zeros there.
template <typename Source>
inline __m512i part_of_row_pair(const Source& source, const typename Source::Element* at, size_t pitch,
                                bool second, int columns, Seen& seen) {
  const __mmask16 lanes = first_lanes(columns);
  const __m512i below = second ? source.codes(lanes, at + pitch) : _mm512_setzero_si512();
  const __m512i pairs = source.pairs(source.codes(lanes, at), below, seen);
  seen.pairs(pairs);
  return pairs;
}

template <typename T>
inline void fetch(const T* from, int elements) {
  for (int i = 0; i < elements; i += 64 / static_cast<int>(sizeof(T)))
    _mm_prefetch(reinterpret_cast<const char*>(from + i), _MM_HINT_T0);
}

int pairs_of(int K) { return (K + 1) / 2; }

// Words between blocks of `stationary`; no power of two, so that their first words are in different cache
// sets.
size_t block_pitch(int K) {
  return static_cast<size_t>(kBlockRows) * static_cast<size_t>(pairs_of(K)) + kLanes;
}

inline void store_half(__m256i pairs, uint32_t* block) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(block), pairs);
}
// To a block and to the next.
inline void store_halves(__m512i pairs, uint32_t* block, size_t blocks) {
  store_half(_mm512_castsi512_si256(pairs), block);
  store_half(_mm512_extracti64x4_epi64(pairs, 1), block + blocks);
}

// Blocks of kBlockRows rows of the result, each a row of pairs for each two rows of the operand; rows beyond
// M are zeros.
template <typename Source>
void pack_stationary(const MatmulTile& t, uint32_t* to, Seen& seen) {
  const Source source(t.stationary);
  static_assert(kLanes == 2 * kBlockRows);
  const size_t pitch = t.stationary.pitch, blocks = block_pitch(t.K);
  const auto* row = static_cast<const typename Source::Element*>(t.stationary.data);
  for (int k = 0; k < t.K; k += 2, row += 2 * pitch, to += kBlockRows) {
    if (k + kRowsAhead + 1 < t.K)
      for (size_t i = 0; i < 2; ++i) fetch(row + (kRowsAhead + i) * pitch, t.M);
    const bool second = k + 1 < t.K;
    uint32_t* block = to;
    int m = 0;
    for (; second && m + kLanes <= t.M; m += kLanes, block += 2 * blocks)
      store_halves(row_pair(source, row + m, pitch, seen), block, blocks);
    for (; m < t.M; m += kLanes, block += 2 * blocks) {
      const __m512i pairs = part_of_row_pair(source, row + m, pitch, second, t.M - m, seen);
      if (m + kBlockRows < t.M)
        store_halves(pairs, block, blocks);
      else
        store_half(_mm512_castsi512_si256(pairs), block);
    }
  }
}

// Columns of a panel that lie next to each other in memory: `from` is the place of the first in a row, `to`
// in the panel.
struct Piece {
  size_t from;
  int to, columns;
};

// Rows [begin, end) of a piece; begin is even.
template <typename Source>
void pack_piece(const Source& source, const MatmulTile& t, Piece piece, int begin, int end, int width,
                uint32_t* to, Seen& seen) {
  const size_t pitch = t.moving.pitch;
  const auto* row = static_cast<const typename Source::Element*>(t.moving.data) + piece.from +
                    static_cast<size_t>(begin) * pitch;
  to += piece.to + begin / 2 * width;
  for (int k = begin; k < end; k += 2, row += 2 * pitch, to += width) {
    const bool second = k + 1 < end;
    int n = 0;
    for (; second && n + kLanes <= piece.columns; n += kLanes)
      _mm512_storeu_si512(to + n, row_pair(source, row + n, pitch, seen));
    for (; n < piece.columns; n += kLanes) {
      const __m512i pairs = part_of_row_pair(source, row + n, pitch, second, piece.columns - n, seen);
      _mm512_mask_storeu_epi32(to + n, first_lanes(piece.columns - n), pairs);
    }
  }
}

// Some columns of `moving`, as pairs: a row of `width` words for each two rows of the operand.
struct Panel {
  uint32_t* packed;
  int n, columns, width;
  Seen seen;
};

template <typename Source>
void pack_rows(const Source& source, const MatmulTile& t, int begin, int end, Panel& panel) {
  const int run = t.moving.run;
  for (int done = 0; done < panel.columns;) {
    const int n = panel.n + done;
    const int in_run = run == 0 ? panel.columns : run - (t.moving.first_column + n) % run;
    const Piece piece{t.moving.offset(n), done, std::min(in_run, panel.columns - done)};
    pack_piece(source, t, piece, begin, end, panel.width, panel.packed, panel.seen);
    done += piece.columns;
  }
}

// All panels, some rows at a time: each line of the operand is read once, and the next ones are fetched
// meanwhile. Rows of a core's memory lie kilobytes apart, so that few of them stay in a cache.
template <typename Source>
void pack_panels(const MatmulTile& t, Panel* panels, int count) {
  const Source source(t.moving);
  for (int i = 0; i < count; ++i) {
    const Panel& panel = panels[i];
    if (panel.columns < panel.width)
      std::fill_n(panel.packed, static_cast<size_t>(pairs_of(t.K)) * static_cast<size_t>(panel.width),
                  uint32_t{0});
  }
  const int columns = panels[count - 1].n + panels[count - 1].columns - panels[0].n;
  const auto* first =
      static_cast<const typename Source::Element*>(t.moving.data) + t.moving.offset(panels[0].n);
  for (int k = 0; k < t.K; k += kRowsTogether) {
    for (int next = k + kRowsTogether; next < std::min(k + 2 * kRowsTogether, t.K); ++next)
      fetch(first + static_cast<size_t>(next) * t.moving.pitch, columns);
    for (int i = 0; i < count; ++i) pack_rows(source, t, k, std::min(k + kRowsTogether, t.K), panels[i]);
  }
}

struct Output {
  float* acc;
  size_t pitch;
  int rows, columns;
  bool accumulate;
};

inline __m512 canonical(__m512 value) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000));
  return _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), nan);
}

// A block's sums, which are finite or infinite: what they are added to may be NaN.
template <int kVectors>
inline void store_whole_block(const __m512 (&sum)[kBlockRows][kVectors], const Output& out) {
  OPENTRN_UNROLL
  for (int r = 0; r < kBlockRows; ++r) {
    float* to = out.acc + static_cast<size_t>(r) * out.pitch;
    OPENTRN_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      if (out.accumulate)
        _mm512_storeu_ps(to + v * kLanes,
                         canonical(_mm512_add_ps(_mm512_loadu_ps(to + v * kLanes), sum[r][v])));
      else
        _mm512_storeu_ps(to + v * kLanes, sum[r][v]);
    }
  }
}

// The same of its first rows and columns.
template <int kVectors>
inline void store_part_of_block(const __m512 (&sum)[kBlockRows][kVectors], const Output& out) {
  OPENTRN_UNROLL
  for (int r = 0; r < kBlockRows; ++r) {
    if (r >= out.rows) return;
    OPENTRN_UNROLL
    for (int v = 0; v < kVectors; ++v) {
      float* to = out.acc + static_cast<size_t>(r) * out.pitch + v * kLanes;
      const __mmask16 lanes = first_lanes(out.columns - v * kLanes);
      __m512 value = sum[r][v];
      if (out.accumulate) value = canonical(_mm512_add_ps(_mm512_maskz_loadu_ps(lanes, to), value));
      _mm512_mask_storeu_ps(to, lanes, value);
    }
  }
}

template <int kVectors>
inline void block(const uint32_t* left, const uint32_t* right, int pairs, const Output& out) {
  __m512 sum[kBlockRows][kVectors];
  OPENTRN_UNROLL
  for (int r = 0; r < kBlockRows; ++r) {
    OPENTRN_UNROLL
    for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_setzero_ps();
  }
  if (out.accumulate)
    for (int r = 0; r < out.rows; ++r) fetch(out.acc + static_cast<size_t>(r) * out.pitch, kVectors * kLanes);
  for (int k = 0; k < pairs; ++k, left += kBlockRows, right += kVectors * kLanes) {
    __m512i moving[kVectors];
    OPENTRN_UNROLL
    for (int v = 0; v < kVectors; ++v) moving[v] = _mm512_load_si512(right + v * kLanes);
    OPENTRN_UNROLL
    for (int r = 0; r < kBlockRows; ++r) {
      const __m512i stationary = _mm512_set1_epi32(static_cast<int>(left[r]));
      OPENTRN_UNROLL
      for (int v = 0; v < kVectors; ++v)
        sum[r][v] = _mm512_dpbf16_ps(sum[r][v], (__m512bh)stationary, (__m512bh)moving[v]);
    }
  }
  if (out.rows == kBlockRows && out.columns == kVectors * kLanes)
    store_whole_block<kVectors>(sum, out);
  else
    store_part_of_block<kVectors>(sum, out);
}

// All rows of the result for one packed panel.
template <int kVectors>
void rows_of_panel(const MatmulTile& t, const uint32_t* stationary, const uint32_t* moving, int n,
                   int columns) {
  for (int m = 0; m < t.M; m += kBlockRows, stationary += block_pitch(t.K)) {
    const Output out{t.acc + static_cast<size_t>(m) * t.acc_pitch + n, t.acc_pitch,
                     std::min(kBlockRows, t.M - m), columns, t.accumulate};
    block<kVectors>(stationary, moving, pairs_of(t.K), out);
  }
}

void multiply_panel(const MatmulTile& t, const uint32_t* stationary, const Panel& panel) {
  switch (panel.width / kLanes) {
    case 1: return rows_of_panel<1>(t, stationary, panel.packed, panel.n, panel.columns);
    case 2: return rows_of_panel<2>(t, stationary, panel.packed, panel.n, panel.columns);
    default: return rows_of_panel<3>(t, stationary, panel.packed, panel.n, panel.columns);
  }
}

MatmulTile columns_of(const MatmulTile& tile, int begin, int end) {
  MatmulTile part = tile;
  part.moving.first_column += begin;
  part.acc += begin;
  part.N = end - begin;
  return part;
}

// A look at a few numbers of fp32, before any are packed: most matrices that are no bf16 show it there.
bool may_be_bf16(const MatmulOperand& operand, int rows, int columns) {
  if (operand.dtype == DType::kBFloat16 || is_fp8(operand.dtype)) return true;
  if (operand.dtype != DType::kFloat32) return false;
  const auto* data = static_cast<const uint32_t*>(operand.data);
  constexpr int kLooks = 8;
  for (int i = 0; i < kLooks; ++i) {
    const int row = i * (rows - 1) / (kLooks - 1), column = i * (columns - 1) / (kLooks - 1);
    if ((data[static_cast<size_t>(row) * operand.pitch + operand.offset(column)] & 0xffff) != 0) return false;
  }
  return true;
}

// Whether packing is little of the work: smaller tiles read each operand but a few times.
bool is_worth_packing(const MatmulTile& t) {
  const bool fp32 = t.stationary.dtype == DType::kFloat32 || t.moving.dtype == DType::kFloat32;
  const int least_columns = fp32 ? 48 : 12;
  return t.M >= 9 && t.K >= 8 && t.K * t.M >= 256 && t.N >= least_columns;
}

// Sums of so many products in flight that no one waits for another.
constexpr int kInFlight = 24;

// The least time of some rounds of `instruction`, which other work on the processor makes longer but not
// shorter.
template <typename Instruction>
double least_seconds(Instruction&& instruction) {
  using Clock = std::chrono::steady_clock;
  double least = 1;
  for (int round = 0; round < 7; ++round) {
    __m512 sum[kInFlight];
    OPENTRN_UNROLL
    for (int i = 0; i < kInFlight; ++i) sum[i] = _mm512_setzero_ps();
    const auto start = Clock::now();
    for (int step = 0; step < 200; ++step) {
#pragma GCC unroll 24
      for (int i = 0; i < kInFlight; ++i) instruction(sum[i]);
    }
    least = std::min(least, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return least;
}

bool measure() {
  __m512i ones = _mm512_set1_epi32(0x3f803f80);
  asm volatile("" : "+v"(ones));  // else the compiler would know the sums
  const double pairs = least_seconds([&](__m512& sum) {
    sum = _mm512_dpbf16_ps(sum, (__m512bh)ones, (__m512bh)ones);
    asm volatile("" : "+v"(sum));
  });
  const double single = least_seconds([&](__m512& sum) {
    sum = _mm512_fmadd_ps(_mm512_castsi512_ps(ones), _mm512_castsi512_ps(ones), sum);
    asm volatile("" : "+v"(sum));
  });
  constexpr double kWorthWhile = 1.3;
  return 2 * single >= kWorthWhile * pairs;
}

inline __m512bh all_pairs(float above, float below) {
  const uint32_t bits = std::bit_cast<uint32_t>(above) | std::bit_cast<uint32_t>(below) >> 16;
  return (__m512bh)_mm512_set1_epi32(static_cast<int>(bits));
}

// Whether the instruction adds the products of upper halves first, with one rounding each: other makers'
// processors and emulators might not. Sums in which every other order or rounding shows.
bool has_order() {
  struct Example {
    float above, below, sum;  // each product is of one of these and of `factor`
    float factor;
  };
  constexpr Example kExamples[] = {
      {0x1p24f, 1, 1, 1},                     // 2^24 takes up both ones one by one
      {1, 0x1p24f, 1, 1},                     // 2^24 + 2 from the two ones
      {-0x1p24f, 1, 0x1p24f, 1},              // 1: cancelled before it is added
      {1, -0x1p24f, 0x1p24f, 1},              // 0
      {0x1.02p0f, -0x1.04p0f, 0, 0x1.02p0f},  // products of 15 bits
      {0x1.fep0f, 0x1.fep-20f, 0x1p6f, 0x1.fep0f},
      {0x1.fep0f, 0x1.02p-18f, -0x1.fcp1f, 0x1.fep0f},
  };
  for (const Example& x : kExamples) {
    const __m512 sum =
        _mm512_dpbf16_ps(_mm512_set1_ps(x.sum), all_pairs(x.above, x.below), all_pairs(x.factor, x.factor));
    const float expected = std::fma(x.below, x.factor, std::fma(x.above, x.factor, x.sum));
    const __m512i difference =
        _mm512_xor_si512(_mm512_castps_si512(sum), _mm512_set1_epi32(std::bit_cast<int>(expected)));
    if (_mm512_test_epi32_mask(difference, difference) != 0) return false;
  }
  return true;
}

uint32_t* scratch(size_t words) {
  thread_local ThreadScratch memory;
  return memory.words<uint32_t>(words);
}

// Words between panels; no multiple of a page.
size_t panel_pitch(int K) {
  return static_cast<size_t>(kPanelVectors * kLanes) * static_cast<size_t>(pairs_of(K)) + 4 * kLanes;
}

// The panels of columns [n, end), kPanelsTogether or fewer, packed; how many they are.
int packed_panels(const MatmulTile& t, int n, uint32_t* packed, Panel* panels) {
  constexpr int kWidth = kPanelVectors * kLanes;
  int count = 0;
  for (; count < kPanelsTogether && n < t.N; ++count, n += kWidth, packed += panel_pitch(t.K)) {
    const int columns = std::min(kWidth, t.N - n);
    panels[count] = {packed, n, columns, (columns + kLanes - 1) / kLanes * kLanes, {}};
  }
  switch (t.moving.dtype) {
    case DType::kFloat32: pack_panels<Fp32Source>(t, panels, count); break;
    case DType::kBFloat16: pack_panels<Bf16Source>(t, panels, count); break;
    default: pack_panels<Fp8Source>(t, panels, count);
  }
  return count;
}

// The tile, whose stationary operand is packed.
void multiply_panels(const MatmulTile& t, const uint32_t* stationary, const Magnitudes& left,
                     uint32_t* packed, void (*others)(const MatmulTile&)) {
  int refused = 0;  // columns from here on to the panel's are for `others`
  const auto pass_on = [&](int n) {
    if (refused < n) others(columns_of(t, refused, n));
  };
  Panel panels[kPanelsTogether];
  for (int n = 0; n < t.N;) {
    const int count = packed_panels(t, n, packed, panels);
    for (int i = 0; i < count; ++i) {
      const Panel& panel = panels[i];
      n = panel.n + panel.columns;
      const Magnitudes right = panel.seen.magnitudes();
      if (!panel.seen.all_bf16() || !right.ordinary() || !in_range(left, right)) continue;
      pass_on(panel.n);
      multiply_panel(t, stationary, panel);
      refused = n;
    }
  }
  pass_on(t.N);
}

}  // namespace

bool multiply_pairs(const MatmulTile& t, void (*others)(const MatmulTile&)) {
  if (!is_worth_packing(t) || !may_be_bf16(t.stationary, t.K, t.M) || !may_be_bf16(t.moving, t.K, t.N))
    return false;
  const size_t blocks = static_cast<size_t>((t.M + kBlockRows - 1) / kBlockRows);
  const size_t panels =
      std::min<size_t>(kPanelsTogether, static_cast<size_t>(t.N) / (kPanelVectors * kLanes) + 1);
  const size_t panel_words = panels * panel_pitch(t.K);
  uint32_t* packed = scratch(panel_words + blocks * block_pitch(t.K));
  uint32_t* stationary = packed + panel_words;
  Seen seen;
  switch (t.stationary.dtype) {
    case DType::kFloat32: pack_stationary<Fp32Source>(t, stationary, seen); break;
    case DType::kBFloat16: pack_stationary<Bf16Source>(t, stationary, seen); break;
    default: pack_stationary<Fp8Source>(t, stationary, seen);
  }
  const Magnitudes left = seen.magnitudes();
  if (!seen.all_bf16() || !left.ordinary()) return false;
  multiply_panels(t, stationary, left, packed, others);
  return true;
}

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC diagnostic pop
#pragma GCC pop_options
#endif

bool has_pair_products() {
  static const bool has = [] {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512bf16") && has_order();
  }();
  return has;
}

bool are_pair_products_fast() {
  static const bool fast = has_pair_products() && measure();
  return fast;
}

#else

bool has_pair_products() { return false; }
bool are_pair_products_fast() { return false; }
bool multiply_pairs(const MatmulTile&, void (*)(const MatmulTile&)) { return false; }

#endif

}  // namespace opentrn::numerics
