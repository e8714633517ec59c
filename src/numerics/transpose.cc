// Square blocks: eight rows of eight elements are read, turned in registers or by element moves the
// compiler vectorises, and written as eight rows. Going through small blocks keeps both sides of the
// copy within a few cache lines.
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
HWY_ATTR void turn(const void* src, size_t src_pitch, size_t rows, size_t columns, void* dst,
                   size_t dst_pitch) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
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
