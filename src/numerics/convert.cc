#include "numerics/convert.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/fault.h"
#include "base/random.h"
#include "numerics/convert_simd.h"
#include "numerics/float_format.h"

namespace opentrn::numerics {
namespace {

constexpr size_t kBlock = 512;  // elements of a strided row gathered at a time

bool is_small_float(DType dtype) {
  return is_fp8(dtype) || dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

simd::SmallFloat small_float(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return simd::SmallFloat::kFloat16;
    case DType::kBFloat16: return simd::SmallFloat::kBFloat16;
    case DType::kFloat8E3M4: return simd::SmallFloat::kFloat8E3M4;
    case DType::kFloat8E4M3: return simd::SmallFloat::kFloat8E4M3;
    case DType::kFloat8E4M3Fn: return simd::SmallFloat::kFloat8E4M3Fn;
    default: return simd::SmallFloat::kFloat8E5M2;
  }
}

const FloatFormat& float_format(DType dtype) {
  switch (dtype) {
    case DType::kFloat16: return kFormatFloat16;
    case DType::kBFloat16: return kFormatBFloat16;
    case DType::kTFloat32: return kFormatTFloat32;
    case DType::kFloat8E3M4: return kFormatFloat8E3M4;
    case DType::kFloat8E4M3: return kFormatFloat8E4M3;
    case DType::kFloat8E4M3Fn: return kFormatFloat8E4M3Fn;
    default: return kFormatFloat8E5M2;
  }
}

simd::IntType int_type(DType dtype) {
  switch (dtype) {
    case DType::kInt8: return simd::IntType::kInt8;
    case DType::kInt16: return simd::IntType::kInt16;
    case DType::kInt32: return simd::IntType::kInt32;
    case DType::kInt64: return simd::IntType::kInt64;
    case DType::kUint8: return simd::IntType::kUint8;
    case DType::kUint16: return simd::IntType::kUint16;
    case DType::kUint32: return simd::IntType::kUint32;
    default: return simd::IntType::kUint64;
  }
}

void refuse_packed(DType dtype) {
  if (!is_packed_x4(dtype)) return;
  throw Fault(FaultKind::kProgram, "dtype.packed",
              fmt::format("{} packs four values and has no fp32 value of its own", name(dtype)),
              "unpack it with a matrix multiply or quantize instruction, or view it as raw bits");
}

template <typename T>
void gather(const void* src, int64_t stride, void* dst, int64_t dst_stride, size_t n) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  for (size_t i = 0; i < n; ++i)
    to[static_cast<int64_t>(i) * dst_stride] = from[static_cast<int64_t>(i) * stride];
}

template <typename T>
void fill(uint64_t bits, void* dst, int64_t stride, size_t n) {
  T* to = static_cast<T*>(dst);
  const T value = static_cast<T>(bits);
  for (size_t i = 0; i < n; ++i) to[static_cast<int64_t>(i) * stride] = value;
}

template <typename T>
void load_as_i64(const void* src, int64_t stride, int64_t* dst, size_t n) {
  const T* from = static_cast<const T*>(src);
  for (size_t i = 0; i < n; ++i) dst[i] = static_cast<int64_t>(from[static_cast<int64_t>(i) * stride]);
}

void load_contiguous(DType dtype, const void* src, float* dst, size_t n) {
  if (dtype == DType::kFloat32) {
    if (src != dst) std::memcpy(dst, src, n * sizeof(float));
  } else if (is_small_float(dtype)) {
    simd::load_small_float(small_float(dtype), src, dst, n);
  } else if (dtype == DType::kTFloat32) {
    simd::load_tfloat32(src, dst, n);
  } else if (is_integer(dtype)) {
    simd::load_int(int_type(dtype), src, dst, n);
  } else if (dtype == DType::kFloat64) {
    for (size_t i = 0; i < n; ++i) dst[i] = static_cast<float>(static_cast<const double*>(src)[i]);
  } else if (dtype == DType::kBool) {
    for (size_t i = 0; i < n; ++i) dst[i] = static_cast<const uint8_t*>(src)[i] != 0 ? 1.0f : 0.0f;
  } else {
    refuse_packed(dtype);
    for (size_t i = 0; i < n; ++i) dst[i] = decode_e8m0(static_cast<const uint8_t*>(src)[i]);
  }
}

// Splits a row where the low half of the counter wraps.
template <typename Store>
void store_stochastic(const float* src, void* dst, size_t n, size_t element_bytes, const Rounding& rounding,
                      Store store) {
  uint64_t counter = rounding.counter;
  auto* out = static_cast<std::byte*>(dst);
  while (n > 0) {
    const uint64_t until_wrap = (uint64_t{1} << 32) - static_cast<uint32_t>(counter);
    const size_t count = static_cast<size_t>(std::min<uint64_t>(n, until_wrap));
    store(src, out, count, simd::rounding_keys(rounding.seed, static_cast<uint32_t>(counter >> 32)),
          static_cast<uint32_t>(counter));
    src += count;
    out += count * element_bytes;
    counter += count;
    n -= count;
  }
}

void store_contiguous(DType dtype, const float* src, void* dst, size_t n, const Rounding& rounding) {
  const bool stochastic = rounding.mode == Rounding::Mode::kStochastic;
  if (dtype == DType::kFloat32) {
    if (src != dst) std::memcpy(dst, src, n * sizeof(float));
  } else if (is_small_float(dtype)) {
    const simd::SmallFloat format = small_float(dtype);
    if (!stochastic) return simd::store_small_float(format, src, dst, n);
    store_stochastic(
        src, dst, n, size_bytes(dtype), rounding,
        [format](const float* from, void* to, size_t count, simd::RoundingKeys keys, uint32_t low) {
          simd::store_small_float_stochastic(format, from, to, count, keys, low);
        });
  } else if (dtype == DType::kTFloat32) {
    if (!stochastic) return simd::store_tfloat32(src, dst, n);
    store_stochastic(src, dst, n, sizeof(float), rounding, simd::store_tfloat32_stochastic);
  } else if (is_integer(dtype)) {
    simd::store_int(int_type(dtype), src, dst, n);
  } else if (dtype == DType::kFloat64) {
    for (size_t i = 0; i < n; ++i) static_cast<double*>(dst)[i] = src[i];
  } else if (dtype == DType::kBool) {
    for (size_t i = 0; i < n; ++i) static_cast<uint8_t*>(dst)[i] = src[i] != 0.0f;
  } else {
    refuse_packed(dtype);
    for (size_t i = 0; i < n; ++i) static_cast<uint8_t*>(dst)[i] = encode_e8m0(src[i]);
  }
}

std::byte* element(void* base, DType dtype, int64_t index) {
  return static_cast<std::byte*>(base) + index * size_bytes(dtype);
}
const std::byte* element(const void* base, DType dtype, int64_t index) {
  return static_cast<const std::byte*>(base) + index * size_bytes(dtype);
}

uint32_t mix32(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// One value to an integer type, from the definition.
uint64_t integer_from_float(DType dtype, float value) {
  if (std::isnan(value)) return 0;
  const int bits = size_bytes(dtype) * 8;
  const bool is_signed = is_signed_integer(dtype);
  const double low = is_signed ? -std::ldexp(1.0, bits - 1) : 0.0;
  const double past = std::ldexp(1.0, is_signed ? bits - 1 : bits);
  const double down = std::floor(static_cast<double>(value));
  const double fraction = static_cast<double>(value) - down;
  const bool odd = std::fmod(down, 2.0) != 0.0;
  const double whole = down + (fraction > 0.5 || (fraction == 0.5 && odd) ? 1.0 : 0.0);
  const uint64_t mask = bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
  if (whole < low) return is_signed ? uint64_t{1} << (bits - 1) : 0;
  if (whole >= past) return is_signed ? mask >> 1 : mask;
  if (whole < 0) return static_cast<uint64_t>(static_cast<int64_t>(whole)) & mask;
  return static_cast<uint64_t>(whole);
}

}  // namespace

namespace simd {

RoundingKeys rounding_keys(uint64_t seed, uint32_t counter_high) {
  SplitMix64 mixer(seed + counter_high * 0xD1342543DE82EF95u);
  const uint64_t bits = mixer.next();
  return {static_cast<uint32_t>(bits), static_cast<uint32_t>(bits >> 32)};
}

}  // namespace simd

uint32_t rounding_bits(uint64_t seed, uint64_t counter) {
  const simd::RoundingKeys keys = simd::rounding_keys(seed, static_cast<uint32_t>(counter >> 32));
  return mix32(mix32(static_cast<uint32_t>(counter) + keys.first) + keys.second);
}

void load_f32(DType dtype, const void* src, float* dst, size_t n) { load_contiguous(dtype, src, dst, n); }

void load_f32_strided(DType dtype, const void* src, int64_t stride_elems, float* dst, size_t n) {
  if (stride_elems == 1) return load_contiguous(dtype, src, dst, n);
  if (dtype == DType::kFloat32) return copy_bits(4, src, stride_elems, dst, 1, n);
  alignas(64) std::byte block[kBlock * 8];
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t count = std::min(kBlock, n - i);
    copy_bits(size_bytes(dtype), element(src, dtype, static_cast<int64_t>(i) * stride_elems), stride_elems,
              block, 1, count);
    load_contiguous(dtype, block, dst + i, count);
  }
}

void store_f32(DType dtype, const float* src, void* dst, size_t n, const Rounding& rounding) {
  store_contiguous(dtype, src, dst, n, rounding);
}

void store_f32_strided(DType dtype, const float* src, void* dst, int64_t stride_elems, size_t n,
                       const Rounding& rounding) {
  if (stride_elems == 1) return store_contiguous(dtype, src, dst, n, rounding);
  if (dtype == DType::kFloat32) return copy_bits(4, src, 1, dst, stride_elems, n);
  alignas(64) std::byte block[kBlock * 8];
  Rounding at = rounding;
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t count = std::min(kBlock, n - i);
    at.counter = rounding.counter + i;
    store_contiguous(dtype, src + i, block, count, at);
    copy_bits(size_bytes(dtype), block, 1, element(dst, dtype, static_cast<int64_t>(i) * stride_elems),
              stride_elems, count);
  }
}

void load_i64(DType dtype, const void* src, int64_t stride_elems, int64_t* dst, size_t n) {
  if (is_signed_integer(dtype)) {
    switch (size_bytes(dtype)) {
      case 1: return load_as_i64<int8_t>(src, stride_elems, dst, n);
      case 2: return load_as_i64<int16_t>(src, stride_elems, dst, n);
      case 4: return load_as_i64<int32_t>(src, stride_elems, dst, n);
      default: return load_as_i64<int64_t>(src, stride_elems, dst, n);
    }
  }
  switch (size_bytes(dtype)) {
    case 1: return load_as_i64<uint8_t>(src, stride_elems, dst, n);
    case 2: return load_as_i64<uint16_t>(src, stride_elems, dst, n);
    case 4: return load_as_i64<uint32_t>(src, stride_elems, dst, n);
    default: return load_as_i64<uint64_t>(src, stride_elems, dst, n);
  }
}

void store_i64(DType dtype, const int64_t* src, void* dst, int64_t stride_elems, size_t n) {
  const auto store = [&]<typename T>(T) {
    T* to = static_cast<T*>(dst);
    for (size_t i = 0; i < n; ++i) to[static_cast<int64_t>(i) * stride_elems] = static_cast<T>(src[i]);
  };
  switch (size_bytes(dtype)) {
    case 1: return store(uint8_t{});
    case 2: return store(uint16_t{});
    case 4: return store(uint32_t{});
    default: return store(uint64_t{});
  }
}

void copy_bits(int element_bytes, const void* src, int64_t src_stride_elems, void* dst,
               int64_t dst_stride_elems, size_t n) {
  if (src_stride_elems == 1 && dst_stride_elems == 1) {
    std::memmove(dst, src, n * static_cast<size_t>(element_bytes));
    return;
  }
  constexpr size_t kLongRun = 16;  // whose loop takes longer than what comes before it
  if (n >= kLongRun && simd::copy_steps(element_bytes, src, src_stride_elems, dst, dst_stride_elems, n))
    return;
  switch (element_bytes) {
    case 1: return gather<uint8_t>(src, src_stride_elems, dst, dst_stride_elems, n);
    case 2: return gather<uint16_t>(src, src_stride_elems, dst, dst_stride_elems, n);
    case 4: return gather<uint32_t>(src, src_stride_elems, dst, dst_stride_elems, n);
    case 8: return gather<uint64_t>(src, src_stride_elems, dst, dst_stride_elems, n);
    default: OPENTRN_CHECK(false, "elements of {} bytes", element_bytes);
  }
}

void fill_bits(int element_bytes, uint64_t bits, void* dst, int64_t dst_stride_elems, size_t n) {
  switch (element_bytes) {
    case 1: return fill<uint8_t>(bits, dst, dst_stride_elems, n);
    case 2: return fill<uint16_t>(bits, dst, dst_stride_elems, n);
    case 4: return fill<uint32_t>(bits, dst, dst_stride_elems, n);
    case 8: return fill<uint64_t>(bits, dst, dst_stride_elems, n);
    default: OPENTRN_CHECK(false, "elements of {} bytes", element_bytes);
  }
}

void convert(DType src_dtype, const void* src, int64_t src_stride_elems, DType dst_dtype, void* dst,
             int64_t dst_stride_elems, size_t n, const Rounding& rounding) {
  if (src_dtype == dst_dtype) {
    return copy_bits(size_bytes(src_dtype), src, src_stride_elems, dst, dst_stride_elems, n);
  }
  alignas(64) float block[kBlock];
  Rounding at = rounding;
  for (size_t i = 0; i < n; i += kBlock) {
    const size_t count = std::min(kBlock, n - i);
    const auto first = static_cast<int64_t>(i);
    at.counter = rounding.counter + i;
    load_f32_strided(src_dtype, element(src, src_dtype, first * src_stride_elems), src_stride_elems, block,
                     count);
    store_f32_strided(dst_dtype, block, element(dst, dst_dtype, first * dst_stride_elems), dst_stride_elems,
                      count, at);
  }
}

float to_float(DType dtype, uint64_t bits) {
  refuse_packed(dtype);
  if (dtype == DType::kFloat32) return std::bit_cast<float>(static_cast<uint32_t>(bits));
  if (dtype == DType::kFloat64) return static_cast<float>(std::bit_cast<double>(bits));
  if (dtype == DType::kBool) return (bits & 0xff) != 0 ? 1.0f : 0.0f;
  if (dtype == DType::kFloat8E8M0Fnu) return decode_e8m0(static_cast<uint8_t>(bits));
  if (dtype == DType::kTFloat32) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(bits));
    const uint32_t kept = static_cast<uint32_t>(bits) & ~0x1fffu;
    return std::bit_cast<float>(std::isnan(value) ? kept | 0x400000u : kept);
  }
  if (is_float(dtype)) return decode(float_format(dtype), static_cast<uint32_t>(bits));
  int64_t value = 0;
  load_i64(dtype, &bits, 1, &value, 1);
  return dtype == DType::kUint64 ? static_cast<float>(static_cast<uint64_t>(value))
                                 : static_cast<float>(value);
}

uint64_t from_float(DType dtype, float value, const Rounding& rounding) {
  refuse_packed(dtype);
  if (dtype == DType::kFloat32) return std::bit_cast<uint32_t>(value);
  if (dtype == DType::kFloat64) return std::bit_cast<uint64_t>(static_cast<double>(value));
  if (dtype == DType::kBool) return value != 0.0f;
  if (dtype == DType::kFloat8E8M0Fnu) return encode_e8m0(value);
  if (is_integer(dtype)) return integer_from_float(dtype, value);
  const FloatFormat& format = float_format(dtype);
  const uint32_t code = rounding.mode == Rounding::Mode::kStochastic
                            ? encode_stochastic(format, value, rounding_bits(rounding.seed, rounding.counter))
                            : encode(format, value);
  return dtype == DType::kTFloat32 ? code << 13 : code;
}

namespace {

// Sources: [NKI 0.6.0] release-notes/components/nki.rst, "fp32-to-integer casts match hardware (round to
// nearest, ties to even; saturate to the destination range)". [rounding] about-neuron/arch/
// neuron-features/rounding-modes.rst and the description of NEURON_RT_STOCHASTIC_ROUNDING_EN, which
// names FP16, BF16, FP8 and TF32. [simulator] nki/guides/nki_simulator.rst: low-precision types are
// stored as ml_dtypes, "similar to hardware".
constexpr std::string_view kNearestOrStochastic = "nearest even, or stochastic when enabled";
constexpr std::string_view kFloatSource =
    "doc: rounding modes; assumed after ml_dtypes, which the NKI simulator uses: overflow, NaN, subnormals";
constexpr std::string_view kIntRounding = "nearest even; never stochastic";
constexpr std::string_view kIntSource = "doc: NKI 0.6.0 release notes; assumed: NaN";
constexpr std::array kCastRules{
    CastRule{DType::kBool, "x != 0", "1", "1", "1", "assumed: numpy's rule"},
    CastRule{DType::kInt8, kIntRounding, "saturates", "0", "0", kIntSource},
    CastRule{DType::kInt16, kIntRounding, "saturates", "0", "0", kIntSource},
    CastRule{DType::kInt32, kIntRounding, "saturates", "0", "0", kIntSource},
    CastRule{DType::kInt64, kIntRounding, "saturates", "0", "0", kIntSource},
    CastRule{DType::kUint8, kIntRounding, "saturates", "0", "0", kIntSource},
    CastRule{DType::kUint16, kIntRounding, "saturates", "0", "0", kIntSource},
    CastRule{DType::kUint32, kIntRounding, "saturates", "0", "0", kIntSource},
    CastRule{DType::kUint64, kIntRounding, "saturates", "0", "0", kIntSource},
    CastRule{DType::kFloat16, kNearestOrStochastic, "infinity", "quiet NaN, sign kept", "kept", kFloatSource},
    CastRule{DType::kBFloat16, kNearestOrStochastic, "infinity", "quiet NaN, sign kept", "kept",
             kFloatSource},
    CastRule{DType::kTFloat32, kNearestOrStochastic, "infinity", "quiet NaN, sign kept", "kept",
             "doc: rounding modes; assumed: reading drops the low 13 bits, overflow, NaN, subnormals"},
    CastRule{DType::kFloat32, "exact", "exact", "bits kept", "kept", "doc: engines compute in fp32"},
    CastRule{DType::kFloat64, "exact", "exact", "NaN", "kept", "host only; reading rounds to nearest even"},
    CastRule{DType::kFloat8E3M4, kNearestOrStochastic, "infinity", "quiet NaN, sign kept", "kept",
             kFloatSource},
    CastRule{DType::kFloat8E4M3, kNearestOrStochastic, "infinity", "quiet NaN, sign kept", "kept",
             kFloatSource},
    CastRule{DType::kFloat8E4M3Fn, kNearestOrStochastic, "NaN", "NaN, sign kept", "kept", kFloatSource},
    CastRule{DType::kFloat8E5M2, kNearestOrStochastic, "infinity", "quiet NaN, sign kept", "kept",
             kFloatSource},
    CastRule{DType::kFloat8E8M0Fnu, "nearest power of two, half way up", "NaN",
             "NaN; also zero and negatives", "below 2^-127 gives 2^-127", "assumed after ml_dtypes"},
};

}  // namespace

std::span<const CastRule> cast_rules() { return kCastRules; }

}  // namespace opentrn::numerics
