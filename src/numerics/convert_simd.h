// The contiguous inner loops of convert.h, chosen at run time for the processor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/float_format.h"

namespace opentrn::numerics::simd {

enum class SmallFloat : uint8_t { kFloat16, kBFloat16, kFloat8E3M4, kFloat8E4M3, kFloat8E4M3Fn, kFloat8E5M2 };

// Keys made from a seed and the high half of a counter; see rounding_bits().
struct RoundingKeys {
  uint32_t first;
  uint32_t second;
};
RoundingKeys rounding_keys(uint64_t seed, uint32_t counter_high);

void load_small_float(SmallFloat format, const void* src, float* dst, size_t n);
void store_small_float(SmallFloat format, const float* src, void* dst, size_t n);
// Element i draws from the keys and counter_low + i, which must not pass 2^32.
void store_small_float_stochastic(SmallFloat format, const float* src, void* dst, size_t n, RoundingKeys keys,
                                  uint32_t counter_low);

// tfloat32 keeps fp32's exponent and the top 10 mantissa bits in place.
void load_tfloat32(const void* src, float* dst, size_t n);
void store_tfloat32(const float* src, void* dst, size_t n);
void store_tfloat32_stochastic(const float* src, void* dst, size_t n, RoundingKeys keys,
                               uint32_t counter_low);

enum class IntType : uint8_t { kInt8, kInt16, kInt32, kInt64, kUint8, kUint16, kUint32, kUint64 };
void load_int(IntType type, const void* src, float* dst, size_t n);
// Nearest even, saturating; NaN gives 0.
void store_int(IntType type, const float* src, void* dst, size_t n);

// Elements of so many bytes, so many elements apart, where a loop knows both steps: halves and bytes of words
// lie 2 and 4 apart. False, and nothing is done, elsewhere.
bool copy_steps(int bytes, const void* src, int64_t from_step, void* dst, int64_t to_step, size_t n);

}  // namespace opentrn::numerics::simd
