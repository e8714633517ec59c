// Square blocks: eight rows of eight elements are read, turned in registers or by element moves the
// compiler vectorises, and written as eight rows. Going through small blocks keeps both sides of the
// copy within a few cache lines. With AVX2 and AVX-512, elements of 4 bytes go by sixteen: whole cache
// lines are read, and with AVX-512 each row of a block is one of the result.
#include "numerics/simd_targets.h"

#include <algorithm>
#include <cstdint>

#include "base/fault.h"
#include "numerics/transpose.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/transpose.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace opentrn::numerics {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
HWY_ATTR HWY_INLINE void turn_any(const T* HWY_RESTRICT src, size_t src_pitch, size_t rows, size_t columns,
                                  T* HWY_RESTRICT dst, size_t dst_pitch) {
  for (size_t c = 0; c < columns; ++c) {
    for (size_t r = 0; r < rows; ++r) dst[c * dst_pitch + r] = src[r * src_pitch + c];
  }
}

#if HWY_TARGET != HWY_SCALAR
// One step of a perfect-shuffle network: interleaving row i with row i + half, three times for eight
// rows, is the transpose.
template <class D, class V = hn::Vec<D>>
HWY_ATTR HWY_INLINE void interleave_halves(D d, V (&rows)[8]) {
  V next[8];
  for (int i = 0; i < 4; ++i) {
    next[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + 4]);
    next[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + 4]);
  }
  for (int i = 0; i < 8; ++i) rows[i] = next[i];
}

// 8 x 8 elements of 2 bytes: a row is one 128-bit vector.
HWY_ATTR HWY_INLINE void turn_block(const uint16_t* src, size_t src_pitch, uint16_t* dst, size_t dst_pitch) {
  const hn::Full128<uint16_t> d;
  hn::Vec<decltype(d)> rows[8];
  for (int i = 0; i < 8; ++i) rows[i] = hn::LoadU(d, src + i * src_pitch);
  for (int step = 0; step < 3; ++step) interleave_halves(d, rows);
  for (int i = 0; i < 8; ++i) hn::StoreU(rows[i], d, dst + i * dst_pitch);
}

// 8 x 8 elements of 1 byte: a row is the lower half of a vector, widened for the network.
HWY_ATTR HWY_INLINE void turn_block(const uint8_t* src, size_t src_pitch, uint8_t* dst, size_t dst_pitch) {
  const hn::Full128<uint16_t> wide;
  const hn::Full64<uint8_t> d;
  hn::Vec<decltype(wide)> rows[8];
  for (int i = 0; i < 8; ++i) rows[i] = hn::PromoteTo(wide, hn::LoadU(d, src + i * src_pitch));
  for (int step = 0; step < 3; ++step) interleave_halves(wide, rows);
  for (int i = 0; i < 8; ++i) hn::StoreU(hn::TruncateTo(d, rows[i]), d, dst + i * dst_pitch);
}

// 4 x 4 elements of 4 bytes.
HWY_ATTR HWY_INLINE void turn_quarter(const uint32_t* src, size_t src_pitch, uint32_t* dst,
                                      size_t dst_pitch) {
  const hn::Full128<uint32_t> d;
  hn::Vec<decltype(d)> rows[4], next[4];
  for (int i = 0; i < 4; ++i) rows[i] = hn::LoadU(d, src + i * src_pitch);
  for (int step = 0; step < 2; ++step) {
    for (int i = 0; i < 2; ++i) {
      next[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + 2]);
      next[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + 2]);
    }
    for (int i = 0; i < 4; ++i) rows[i] = next[i];
  }
  for (int i = 0; i < 4; ++i) hn::StoreU(rows[i], d, dst + i * dst_pitch);
}

HWY_ATTR HWY_INLINE void turn_block(const uint32_t* src, size_t src_pitch, uint32_t* dst, size_t dst_pitch) {
  turn_quarter(src, src_pitch, dst, dst_pitch);
  turn_quarter(src + 4, src_pitch, dst + 4 * dst_pitch, dst_pitch);
  turn_quarter(src + 4 * src_pitch, src_pitch, dst + 4, dst_pitch);
  turn_quarter(src + 4 * src_pitch + 4, src_pitch, dst + 4 * dst_pitch + 4, dst_pitch);
}
#endif

template <typename T>
HWY_ATTR HWY_INLINE void turn_block(const T* src, size_t src_pitch, T* dst, size_t dst_pitch) {
  turn_any(src, src_pitch, 8, 8, dst, dst_pitch);
}

template <typename T>
HWY_ATTR HWY_INLINE void turn_narrow(const T* from, size_t src_pitch, size_t rows, size_t columns, T* to,
                                     size_t dst_pitch) {
  for (size_t r = 0; r < rows; r += 8) {
    for (size_t c = 0; c < columns; c += 8) {
      const T* block = from + r * src_pitch + c;
      T* turned = to + c * dst_pitch + r;
      if (r + 8 <= rows && c + 8 <= columns) {
        turn_block(block, src_pitch, turned, dst_pitch);
      } else {
        turn_any(block, src_pitch, std::min<size_t>(8, rows - r), std::min<size_t>(8, columns - c), turned,
                 dst_pitch);
      }
    }
  }
}

#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
constexpr size_t kWide = 16;
#endif

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
// 16 x 16 elements of 4 bytes. A vector takes four elements of each of the rows j, j + 4, j + 8 and j + 12,
// so that turning 4 x 4 within its parts leaves one column of sixteen.
HWY_ATTR HWY_INLINE void turn_wide(const uint32_t* src, size_t src_pitch, uint32_t* dst, size_t dst_pitch) {
  const hn::Full512<uint32_t> d;
  using V = hn::Vec<decltype(d)>;
  const auto four = [&](size_t row, size_t column) HWY_ATTR {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + row * src_pitch + column));
  };
  for (size_t column = 0; column < kWide; column += 4) {
    V rows[4], next[4];
    for (size_t j = 0; j < 4; ++j) {
      __m512i parts = _mm512_castsi128_si512(four(j, column));
      parts = _mm512_mask_broadcast_i32x4(parts, 0x00F0, four(j + 4, column));
      parts = _mm512_mask_broadcast_i32x4(parts, 0x0F00, four(j + 8, column));
      parts = _mm512_mask_broadcast_i32x4(parts, 0xF000, four(j + 12, column));
      rows[j] = V{parts};
    }
    for (int step = 0; step < 2; ++step) {
      for (int i = 0; i < 2; ++i) {
        next[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + 2]);
        next[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + 2]);
      }
      for (int i = 0; i < 4; ++i) rows[i] = next[i];
    }
    for (size_t i = 0; i < 4; ++i) hn::StoreU(rows[i], d, dst + (column + i) * dst_pitch);
  }
}

HWY_ATTR HWY_INLINE void turn_whole(const uint32_t* src, size_t src_pitch, size_t rows, size_t columns,
                                    uint32_t* dst, size_t dst_pitch) {
  for (size_t r = 0; r < rows; r += kWide)
    for (size_t c = 0; c < columns; c += kWide)
      turn_wide(src + r * src_pitch + c, src_pitch, dst + c * dst_pitch + r, dst_pitch);
}
#elif HWY_TARGET == HWY_AVX2 && HWY_ARCH_X86
// 8 x 8 elements of 4 bytes. A vector takes four elements of each of the rows j and j + 4, so that turning 4
// x 4 within its halves leaves one column of eight.
HWY_ATTR HWY_INLINE void turn_eight(const uint32_t* src, size_t src_pitch, uint32_t* dst, size_t dst_pitch) {
  const hn::Full256<uint32_t> d;
  using V = hn::Vec<decltype(d)>;
  const auto four = [&](size_t row, size_t column) HWY_ATTR {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + row * src_pitch + column));
  };
  for (size_t column = 0; column < 8; column += 4) {
    V rows[4], next[4];
    for (size_t j = 0; j < 4; ++j)
      rows[j] = V{_mm256_inserti128_si256(_mm256_castsi128_si256(four(j, column)), four(j + 4, column), 1)};
    for (int step = 0; step < 2; ++step) {
      for (int i = 0; i < 2; ++i) {
        next[2 * i] = hn::InterleaveLower(d, rows[i], rows[i + 2]);
        next[2 * i + 1] = hn::InterleaveUpper(d, rows[i], rows[i + 2]);
      }
      for (int i = 0; i < 4; ++i) rows[i] = next[i];
    }
    for (size_t i = 0; i < 4; ++i) hn::StoreU(rows[i], d, dst + (column + i) * dst_pitch);
  }
}

// Sixteen columns at a time, by way of a copy of them without gaps: rows whose pitch is a power of two, as
// those of SBUF and PSUM, fall into few cache sets, where a block's rows and those of its result would push
// each other out.
HWY_ATTR HWY_INLINE void turn_whole(const uint32_t* src, size_t src_pitch, size_t rows, size_t columns,
                                    uint32_t* dst, size_t dst_pitch) {
  constexpr size_t kBandRows = 128;
  const hn::Full256<uint32_t> d;
  alignas(64) uint32_t lines[kBandRows * kWide];
  for (size_t first = 0; first < rows; first += kBandRows) {
    const size_t band = std::min(kBandRows, rows - first);
    for (size_t c = 0; c < columns; c += kWide) {
      for (size_t r = 0; r < band; ++r) {
        const uint32_t* line = src + (first + r) * src_pitch + c;
        hn::Store(hn::LoadU(d, line), d, lines + r * kWide);
        hn::Store(hn::LoadU(d, line + 8), d, lines + r * kWide + 8);
      }
      for (size_t half = 0; half < kWide; half += 8)
        for (size_t r = 0; r < band; r += 8)
          turn_eight(lines + r * kWide + half, kWide, dst + (c + half) * dst_pitch + first + r, dst_pitch);
    }
  }
}
#endif

template <typename T>
HWY_ATTR void turn(const void* src, size_t src_pitch, size_t rows, size_t columns, void* dst,
                   size_t dst_pitch) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
#if HWY_TARGET <= HWY_AVX2 && HWY_ARCH_X86
  if constexpr (sizeof(T) == 4) {
    const size_t whole_rows = rows / kWide * kWide, whole_columns = columns / kWide * kWide;
    turn_whole(from, src_pitch, whole_rows, whole_columns, to, dst_pitch);
    turn_narrow(from + whole_columns, src_pitch, whole_rows, columns - whole_columns,
                to + whole_columns * dst_pitch, dst_pitch);
    from += whole_rows * src_pitch;
    to += whole_rows;
    rows -= whole_rows;
  }
#endif
  turn_narrow(from, src_pitch, rows, columns, to, dst_pitch);
}

HWY_ATTR void TransposeSimd(int element_bytes, const void* src, size_t src_pitch, size_t rows, size_t columns,
                            void* dst, size_t dst_pitch) {
  switch (element_bytes) {
    case 1: return turn<uint8_t>(src, src_pitch, rows, columns, dst, dst_pitch);
    case 2: return turn<uint16_t>(src, src_pitch, rows, columns, dst, dst_pitch);
    case 4: return turn<uint32_t>(src, src_pitch, rows, columns, dst, dst_pitch);
    default: return turn<uint64_t>(src, src_pitch, rows, columns, dst, dst_pitch);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace opentrn::numerics
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opentrn::numerics {

HWY_EXPORT(TransposeSimd);

void transpose(int element_bytes, const void* src, size_t src_pitch, size_t rows, size_t columns, void* dst,
               size_t dst_pitch) {
  OPENTRN_CHECK(element_bytes == 1 || element_bytes == 2 || element_bytes == 4 || element_bytes == 8,
                "transpose of elements of {} bytes", element_bytes);
  HWY_DYNAMIC_DISPATCH(TransposeSimd)(element_bytes, src, src_pitch, rows, columns, dst, dst_pitch);
}

}  // namespace opentrn::numerics
#endif  // HWY_ONCE
