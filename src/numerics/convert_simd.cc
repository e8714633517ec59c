// Small floats to fp32 and back in 32-bit integer lanes. Every step is an exact integer operation, an
// exact conversion, or one float addition that rounds to nearest even (the subnormal case below), so
// all targets give the bits that float_format.cc defines.
//
// Encoding to nearest: a normal result is the fp32 pattern with its low bits rounded away and its
// exponent re-biased; a carry out of the mantissa walks into the exponent as it should. A subnormal
// result is |x| + 2^(23 + exponent_min - mantissa_bits): the sum's last place is the format's
// smallest step, so the addition itself rounds, and the low bits of the sum are the code.
#include "numerics/simd_targets.h"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numerics/convert_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "numerics/convert_simd.h"

HWY_BEFORE_NAMESPACE();
namespace opentrn::numerics::simd {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DU = hn::RebindToUnsigned<DF>;
using DI = hn::RebindToSigned<DF>;
using VU = hn::Vec<DU>;
using VF = hn::Vec<DF>;

// Runs `body(vector of fp32 or codes)` over a row; the last partial vector goes through buffers so
// that every element takes the same path.
template <typename From, typename To, typename Body>
HWY_ATTR void for_each_vector(const From* HWY_RESTRICT from, To* HWY_RESTRICT to, size_t n, Body body) {
  constexpr size_t kMaxLanes = HWY_MAX_BYTES / 4;
  const size_t lanes = hn::Lanes(DF());
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) body(from + i, to + i, i);
  if (i == n) return;
  HWY_ALIGN From in[kMaxLanes] = {};
  HWY_ALIGN To out[kMaxLanes];
  for (size_t j = 0; j < n - i; ++j) in[j] = from[i + j];
  body(in, out, i);
  for (size_t j = 0; j < n - i; ++j) to[i + j] = out[j];
}

template <typename Code>
HWY_ATTR HWY_INLINE VU load_codes(const Code* from) {
  if constexpr (sizeof(Code) == 4) {
    return hn::LoadU(DU(), from);
  } else {
    return hn::PromoteTo(DU(), hn::LoadU(hn::Rebind<Code, DU>(), from));
  }
}

template <typename Code>
HWY_ATTR HWY_INLINE void store_codes(VU codes, Code* to) {
  if constexpr (sizeof(Code) == 4) {
    hn::StoreU(codes, DU(), to);
  } else {
    const hn::Rebind<Code, DU> narrow;
    hn::StoreU(hn::TruncateTo(narrow, codes), narrow, to);
  }
}

constexpr float power_of_two(int exponent) {
  return std::bit_cast<float>(static_cast<uint32_t>(127 + exponent) << 23);
}

template <FloatFormat kFormat>
HWY_ATTR HWY_INLINE VU decode_vector(VU code) {
  constexpr int kShift = 23 - kFormat.mantissa_bits;
  const DU du;
  const DF df;
  const VU sign = hn::ShiftLeft<32 - kFormat.bits()>(hn::And(code, hn::Set(du, kFormat.sign_bit())));
  const VU magnitude = hn::And(code, hn::Set(du, kFormat.sign_bit() - 1));
  const VU aligned = hn::ShiftLeft<kShift>(magnitude);
  const VU normal = hn::Add(aligned, hn::Set(du, static_cast<uint32_t>(127 - kFormat.bias) << 23));
  const VF steps = hn::ConvertTo(df, hn::BitCast(DI(), magnitude));
  constexpr float kStep = power_of_two(kFormat.exponent_min() - kFormat.mantissa_bits);
  const VU subnormal = hn::BitCast(du, hn::Mul(steps, hn::Set(df, kStep)));
  VU value = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 1u << kFormat.mantissa_bits)), subnormal, normal);
  // Infinity and NaN: exponent all ones, mantissa moved over.
  constexpr uint32_t kMantissa = ((1u << kFormat.mantissa_bits) - 1) << kShift;
  const VU special = hn::Or(hn::And(aligned, hn::Set(du, kMantissa)), hn::Set(du, 0x7f800000u));
  value = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, kFormat.max_finite_code())), special, value);
  return hn::Or(value, sign);
}

template <>
HWY_ATTR HWY_INLINE VU decode_vector<kFormatBFloat16>(VU code) {
  return hn::ShiftLeft<16>(code);
}

// Puts the sign back and replaces overflow and NaN. `code` has the sign clear.
template <FloatFormat kFormat>
HWY_ATTR HWY_INLINE VU finish_code(VU code, VU magnitude, VU bits) {
  const DU du;
  const VU sign = hn::ShiftLeft<kFormat.bits() - 1>(hn::ShiftRight<31>(bits));
  code = hn::IfThenElse(hn::Gt(code, hn::Set(du, kFormat.max_finite_code())),
                        hn::Set(du, kFormat.overflow_code()), code);
  code = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7f800000u)), hn::Set(du, kFormat.nan_code()), code);
  return hn::Or(code, sign);
}

template <FloatFormat kFormat>
HWY_ATTR HWY_INLINE VU encode_vector(VF value) {
  constexpr int kDropped = 23 - kFormat.mantissa_bits;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kFormat.bias) << kFormat.mantissa_bits;
  const DU du;
  const DF df;
  const VU bits = hn::BitCast(du, value);
  const VU magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const VU odd = hn::And(hn::ShiftRight<kDropped>(magnitude), hn::Set(du, 1));
  const VU rounded = hn::Add(hn::Add(magnitude, odd), hn::Set(du, (1u << (kDropped - 1)) - 1));
  VU code = hn::Sub(hn::ShiftRight<kDropped>(rounded), hn::Set(du, kRebias));
  if constexpr (kFormat.bias < 127) {
    constexpr float kMagic = power_of_two(23 + kFormat.exponent_min() - kFormat.mantissa_bits);
    const VF sum = hn::Add(hn::BitCast(df, magnitude), hn::Set(df, kMagic));
    const VU subnormal = hn::Sub(hn::BitCast(du, sum), hn::Set(du, std::bit_cast<uint32_t>(kMagic)));
    constexpr uint32_t kMinNormal = static_cast<uint32_t>(127 + kFormat.exponent_min()) << 23;
    code = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, kMinNormal)), subnormal, code);
  }
  return finish_code<kFormat>(code, magnitude, bits);
}

// Chris Wellons' lowbias32 mixer.
HWY_ATTR HWY_INLINE VU mix32(VU x) {
  const DU du;
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<16>(x)), hn::Set(du, 0x7feb352du));
  x = hn::Mul(hn::Xor(x, hn::ShiftRight<15>(x)), hn::Set(du, 0x846ca68bu));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

HWY_ATTR HWY_INLINE VU random_vector(RoundingKeys keys, uint32_t counter) {
  const DU du;
  const VU index = hn::Add(hn::Iota(du, 0), hn::Set(du, counter));
  return mix32(hn::Add(mix32(hn::Add(index, hn::Set(du, keys.first))), hn::Set(du, keys.second)));
}

template <FloatFormat kFormat>
HWY_ATTR HWY_INLINE VU encode_vector_stochastic(VF value, VU random) {
  constexpr int kDropped = 23 - kFormat.mantissa_bits;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - kFormat.bias) << kFormat.mantissa_bits;
  const DU du;
  const VU one = hn::Set(du, 1);
  const VU bits = hn::BitCast(du, value);
  const VU magnitude = hn::And(bits, hn::Set(du, 0x7fffffffu));
  const VU fraction = hn::ShiftLeft<32 - kDropped>(magnitude);
  const VU up = hn::IfThenElseZero(hn::Lt(random, fraction), one);
  VU code = hn::Sub(hn::Add(hn::ShiftRight<kDropped>(magnitude), up), hn::Set(du, kRebias));
  if constexpr (kFormat.bias < 127) {
    // The significand moves right by `shift`, at least kDropped + 1; what falls out is the fraction,
    // of which 32 bits count. fp32 subnormals lie below any of those 32 bits.
    constexpr uint32_t kMinNormal = static_cast<uint32_t>(127 + kFormat.exponent_min()) << 23;
    constexpr uint32_t kShiftAtZero = kDropped + 127 + kFormat.exponent_min();
    const VU field = hn::ShiftRight<23>(magnitude);
    const VU significand = hn::Or(hn::And(magnitude, hn::Set(du, 0x7fffffu)), hn::Set(du, 0x800000u));
    const auto below = hn::Lt(magnitude, hn::Set(du, kMinNormal));
    const VU shift = hn::Min(hn::Sub(hn::Set(du, kShiftAtZero), hn::IfThenElse(below, field, hn::Zero(du))),
                             hn::Set(du, 63));
    const VU v31 = hn::Set(du, 31);
    const VU whole =
        hn::IfThenElseZero(hn::Lt(shift, hn::Set(du, 32)), hn::Shr(significand, hn::Min(shift, v31)));
    const VU left = hn::Shl(significand, hn::And(hn::Sub(hn::Set(du, 32), shift), v31));
    const VU right = hn::Shr(significand, hn::And(hn::Sub(shift, hn::Set(du, 32)), v31));
    const VU sub_fraction = hn::IfThenElse(hn::Lt(shift, hn::Set(du, 32)), left, right);
    const VU sub_up = hn::IfThenElseZero(hn::Lt(random, sub_fraction), one);
    code = hn::IfThenElse(below, hn::Add(whole, sub_up), code);
  }
  return finish_code<kFormat>(code, magnitude, bits);
}

template <FloatFormat kFormat, typename Code>
HWY_ATTR void load_row(const void* src, float* dst, size_t n) {
  for_each_vector(static_cast<const Code*>(src), dst, n, [](const Code* from, float* to, size_t) HWY_ATTR {
    hn::StoreU(hn::BitCast(DF(), decode_vector<kFormat>(load_codes(from))), DF(), to);
  });
}

// As load_row: the host's own conversion, which is exact for finite codes (it quiets NaNs); a vector with
// another code goes the slow way.
HWY_ATTR void load_float16(const void* src, float* dst, size_t n) {
  for_each_vector(
      static_cast<const uint16_t*>(src), dst, n, [](const uint16_t* from, float* to, size_t) HWY_ATTR {
        const hn::Rebind<uint16_t, DU> narrow;
        const auto codes = hn::LoadU(narrow, from);
        const auto magnitude = hn::And(codes, hn::Set(narrow, uint16_t{0x7fff}));
        if (hn::AllFalse(narrow, hn::Gt(magnitude, hn::Set(narrow, uint16_t{0x7bff})))) [[likely]] {
          const hn::Rebind<hwy::float16_t, DF> half;
          return hn::StoreU(hn::PromoteTo(DF(), hn::BitCast(half, codes)), DF(), to);
        }
        const VU wide = decode_vector<kFormatFloat16>(hn::PromoteTo(DU(), codes));
        hn::StoreU(hn::BitCast(DF(), wide), DF(), to);
      });
}

template <FloatFormat kFormat, typename Code>
HWY_ATTR void store_row(const float* src, void* dst, size_t n) {
  for_each_vector(src, static_cast<Code*>(dst), n, [](const float* from, Code* to, size_t) HWY_ATTR {
    store_codes(encode_vector<kFormat>(hn::LoadU(DF(), from)), to);
  });
}

template <FloatFormat kFormat, typename Code>
HWY_ATTR void store_row_stochastic(const float* src, void* dst, size_t n, RoundingKeys keys,
                                   uint32_t counter) {
  for_each_vector(src, static_cast<Code*>(dst), n, [=](const float* from, Code* to, size_t i) HWY_ATTR {
    const VU random = random_vector(keys, counter + static_cast<uint32_t>(i));
    store_codes(encode_vector_stochastic<kFormat>(hn::LoadU(DF(), from), random), to);
  });
}

HWY_ATTR void LoadSmallFloat(SmallFloat format, const void* src, float* dst, size_t n) {
  switch (format) {
    case SmallFloat::kFloat16: return load_float16(src, dst, n);
    case SmallFloat::kBFloat16: return load_row<kFormatBFloat16, uint16_t>(src, dst, n);
    case SmallFloat::kFloat8E3M4: return load_row<kFormatFloat8E3M4, uint8_t>(src, dst, n);
    case SmallFloat::kFloat8E4M3: return load_row<kFormatFloat8E4M3, uint8_t>(src, dst, n);
    case SmallFloat::kFloat8E4M3Fn: return load_row<kFormatFloat8E4M3Fn, uint8_t>(src, dst, n);
    case SmallFloat::kFloat8E5M2: return load_row<kFormatFloat8E5M2, uint8_t>(src, dst, n);
  }
}

HWY_ATTR void StoreSmallFloat(SmallFloat format, const float* src, void* dst, size_t n) {
  switch (format) {
    case SmallFloat::kFloat16: return store_row<kFormatFloat16, uint16_t>(src, dst, n);
    case SmallFloat::kBFloat16: return store_row<kFormatBFloat16, uint16_t>(src, dst, n);
    case SmallFloat::kFloat8E3M4: return store_row<kFormatFloat8E3M4, uint8_t>(src, dst, n);
    case SmallFloat::kFloat8E4M3: return store_row<kFormatFloat8E4M3, uint8_t>(src, dst, n);
    case SmallFloat::kFloat8E4M3Fn: return store_row<kFormatFloat8E4M3Fn, uint8_t>(src, dst, n);
    case SmallFloat::kFloat8E5M2: return store_row<kFormatFloat8E5M2, uint8_t>(src, dst, n);
  }
}

HWY_ATTR void StoreSmallFloatStochastic(SmallFloat format, const float* src, void* dst, size_t n,
                                        RoundingKeys keys, uint32_t counter) {
  switch (format) {
    case SmallFloat::kFloat16:
      return store_row_stochastic<kFormatFloat16, uint16_t>(src, dst, n, keys, counter);
    case SmallFloat::kBFloat16:
      return store_row_stochastic<kFormatBFloat16, uint16_t>(src, dst, n, keys, counter);
    case SmallFloat::kFloat8E3M4:
      return store_row_stochastic<kFormatFloat8E3M4, uint8_t>(src, dst, n, keys, counter);
    case SmallFloat::kFloat8E4M3:
      return store_row_stochastic<kFormatFloat8E4M3, uint8_t>(src, dst, n, keys, counter);
    case SmallFloat::kFloat8E4M3Fn:
      return store_row_stochastic<kFormatFloat8E4M3Fn, uint8_t>(src, dst, n, keys, counter);
    case SmallFloat::kFloat8E5M2:
      return store_row_stochastic<kFormatFloat8E5M2, uint8_t>(src, dst, n, keys, counter);
  }
}

// A NaN whose payload lies in the dropped bits must not turn into infinity.
HWY_ATTR void LoadTFloat32(const void* src, float* dst, size_t n) {
  for_each_vector(
      static_cast<const uint32_t*>(src), dst, n, [](const uint32_t* from, float* to, size_t) HWY_ATTR {
        const DU du;
        const VU bits = hn::LoadU(du, from);
        const auto nan = hn::Gt(hn::And(bits, hn::Set(du, 0x7fffffffu)), hn::Set(du, 0x7f800000u));
        const VU kept = hn::And(bits, hn::Set(du, ~0x1fffu));
        hn::StoreU(hn::BitCast(DF(), hn::IfThenElse(nan, hn::Or(kept, hn::Set(du, 0x400000u)), kept)), DF(),
                   to);
      });
}

HWY_ATTR void StoreTFloat32(const float* src, void* dst, size_t n) {
  for_each_vector(src, static_cast<uint32_t*>(dst), n, [](const float* from, uint32_t* to, size_t) HWY_ATTR {
    store_codes(hn::ShiftLeft<13>(encode_vector<kFormatTFloat32>(hn::LoadU(DF(), from))), to);
  });
}

HWY_ATTR void StoreTFloat32Stochastic(const float* src, void* dst, size_t n, RoundingKeys keys,
                                      uint32_t counter) {
  for_each_vector(
      src, static_cast<uint32_t*>(dst), n, [=](const float* from, uint32_t* to, size_t i) HWY_ATTR {
        const VU random = random_vector(keys, counter + static_cast<uint32_t>(i));
        store_codes(
            hn::ShiftLeft<13>(encode_vector_stochastic<kFormatTFloat32>(hn::LoadU(DF(), from), random)), to);
      });
}

// Integer to fp32 is one IEEE conversion; the compiler vectorises these loops for the target.
template <typename Int>
HWY_ATTR void load_int_row(const void* src, float* HWY_RESTRICT dst, size_t n) {
  const Int* HWY_RESTRICT from = static_cast<const Int*>(src);
  for (size_t i = 0; i < n; ++i) dst[i] = static_cast<float>(from[i]);
}

// |x| < 2^23 is rounded by adding and taking away 2^23; larger values are integers already.
HWY_ATTR HWY_INLINE float round_to_integer(float x) {
  const float magic = std::copysign(8388608.0f, x);
  return std::fabs(x) < 8388608.0f ? (x + magic) - magic : x;
}

template <typename Int>
HWY_ATTR void store_int_row(const float* HWY_RESTRICT src, void* dst, size_t n) {
  Int* HWY_RESTRICT to = static_cast<Int*>(dst);
  using Limits = std::numeric_limits<Int>;
  // Both bounds are powers of two or zero, hence exact; the upper one is one past the largest value.
  constexpr float kLow = static_cast<float>(Limits::min());
  constexpr float kPast = static_cast<float>(Limits::max() / 2 + 1) * 2.0f;
  // A conversion that cannot trap or be undefined for any lane, of a type the vector unit has.
  using Wide = std::conditional_t<(sizeof(Int) < 4), int32_t, Int>;
  for (size_t i = 0; i < n; ++i) {
    const float whole = round_to_integer(src[i]);
    const bool in_range = whole >= kLow && whole < kPast;
    const Wide converted = static_cast<Wide>(in_range ? whole : 0.0f);
    Int result = static_cast<Int>(converted);
    result = whole >= kPast ? Limits::max() : result;
    result = whole < kLow ? Limits::min() : result;
    to[i] = result;
  }
}

HWY_ATTR void LoadInt(IntType type, const void* src, float* dst, size_t n) {
  switch (type) {
    case IntType::kInt8: return load_int_row<int8_t>(src, dst, n);
    case IntType::kInt16: return load_int_row<int16_t>(src, dst, n);
    case IntType::kInt32: return load_int_row<int32_t>(src, dst, n);
    case IntType::kInt64: return load_int_row<int64_t>(src, dst, n);
    case IntType::kUint8: return load_int_row<uint8_t>(src, dst, n);
    case IntType::kUint16: return load_int_row<uint16_t>(src, dst, n);
    case IntType::kUint32: return load_int_row<uint32_t>(src, dst, n);
    case IntType::kUint64: return load_int_row<uint64_t>(src, dst, n);
  }
}

HWY_ATTR void StoreInt(IntType type, const float* src, void* dst, size_t n) {
  switch (type) {
    case IntType::kInt8: return store_int_row<int8_t>(src, dst, n);
    case IntType::kInt16: return store_int_row<int16_t>(src, dst, n);
    case IntType::kInt32: return store_int_row<int32_t>(src, dst, n);
    case IntType::kInt64: return store_int_row<int64_t>(src, dst, n);
    case IntType::kUint8: return store_int_row<uint8_t>(src, dst, n);
    case IntType::kUint16: return store_int_row<uint16_t>(src, dst, n);
    case IntType::kUint32: return store_int_row<uint32_t>(src, dst, n);
    case IntType::kUint64: return store_int_row<uint64_t>(src, dst, n);
  }
}

#if HWY_TARGET == HWY_AVX3
// As many of the elements as whole vectors of the destination hold; gives how many. The last one lies at its
// row's end.
template <int64_t kFrom, int64_t kTo, typename T>
HWY_ATTR size_t copy_masked(const T* from, T* to, size_t n) {
  const hn::ScalableTag<T> d;
  const hn::Half<decltype(d)> half;
  const size_t lanes = hn::Lanes(d), step = lanes / kTo;
  using Wide = std::conditional_t<kTo == 2, hn::RepartitionToWide<decltype(d)>, hn::ScalableTag<uint32_t>>;
  const Wide wide;
  const auto first = hn::Set(wide, static_cast<hn::TFromD<Wide>>(std::numeric_limits<T>::max()));
  const auto mask = hn::Ne(hn::BitCast(d, first), hn::Zero(d));
  size_t i = 0;
  for (; kTo * i + lanes <= kTo * (n - 1) + 1; i += step) {
    hn::Vec<decltype(d)> row;
    if constexpr (kFrom == kTo)
      row = hn::LoadU(d, from + kFrom * i);
    else
      row = hn::BitCast(d, hn::PromoteTo(wide, hn::LoadU(half, from + i)));
    hn::BlendedStore(row, mask, d, to + kTo * i);
  }
  return i;
}
#endif

// What lies between the elements is not touched, also not to be written back as it was: another instruction
// may write it at the same time.
template <typename T, int64_t kFrom, int64_t kTo>
HWY_ATTR void copy_steps(const T* from, T* to, size_t n) {
  size_t i = 0;
#if HWY_TARGET == HWY_AVX3  // which can mask stores of any elements
  if constexpr (sizeof(T) <= 2 && (kTo == 2 || (kTo == 4 && kFrom == 4 && sizeof(T) == 1)) &&
                (kFrom == kTo || kFrom == 1))
    i = copy_masked<kFrom, kTo>(from, to, n);
#endif
  for (; i < n; ++i) to[static_cast<int64_t>(i) * kTo] = from[static_cast<int64_t>(i) * kFrom];
}

template <typename T>
HWY_ATTR bool copy_steps(const void* src, int64_t from_step, void* dst, int64_t to_step, size_t n) {
  const T* from = static_cast<const T*>(src);
  T* to = static_cast<T*>(dst);
  const auto is = [&](int64_t a, int64_t b) HWY_ATTR { return from_step == a && to_step == b; };
  if (is(2, 1)) return copy_steps<T, 2, 1>(from, to, n), true;
  if (is(4, 1)) return copy_steps<T, 4, 1>(from, to, n), true;
  if (is(0, 1)) return copy_steps<T, 0, 1>(from, to, n), true;
  if (is(1, 2)) return copy_steps<T, 1, 2>(from, to, n), true;
  if (is(2, 2)) return copy_steps<T, 2, 2>(from, to, n), true;
  if (is(4, 4)) return copy_steps<T, 4, 4>(from, to, n), true;
  return false;
}

HWY_ATTR bool CopySteps(int bytes, const void* src, int64_t from_step, void* dst, int64_t to_step, size_t n) {
  switch (bytes) {
    case 1: return copy_steps<uint8_t>(src, from_step, dst, to_step, n);
    case 2: return copy_steps<uint16_t>(src, from_step, dst, to_step, n);
    case 4: return copy_steps<uint32_t>(src, from_step, dst, to_step, n);
    default: return false;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace opentrn::numerics::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace opentrn::numerics::simd {

HWY_EXPORT(LoadSmallFloat);
HWY_EXPORT(StoreSmallFloat);
HWY_EXPORT(StoreSmallFloatStochastic);
HWY_EXPORT(LoadTFloat32);
HWY_EXPORT(StoreTFloat32);
HWY_EXPORT(StoreTFloat32Stochastic);
HWY_EXPORT(LoadInt);
HWY_EXPORT(StoreInt);
HWY_EXPORT(CopySteps);

void load_small_float(SmallFloat format, const void* src, float* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(LoadSmallFloat)(format, src, dst, n);
}
void store_small_float(SmallFloat format, const float* src, void* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(StoreSmallFloat)(format, src, dst, n);
}
void store_small_float_stochastic(SmallFloat format, const float* src, void* dst, size_t n, RoundingKeys keys,
                                  uint32_t counter_low) {
  HWY_DYNAMIC_DISPATCH(StoreSmallFloatStochastic)(format, src, dst, n, keys, counter_low);
}
void load_tfloat32(const void* src, float* dst, size_t n) { HWY_DYNAMIC_DISPATCH(LoadTFloat32)(src, dst, n); }
void store_tfloat32(const float* src, void* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(StoreTFloat32)(src, dst, n);
}
void store_tfloat32_stochastic(const float* src, void* dst, size_t n, RoundingKeys keys,
                               uint32_t counter_low) {
  HWY_DYNAMIC_DISPATCH(StoreTFloat32Stochastic)(src, dst, n, keys, counter_low);
}
void load_int(IntType type, const void* src, float* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(LoadInt)(type, src, dst, n);
}
void store_int(IntType type, const float* src, void* dst, size_t n) {
  HWY_DYNAMIC_DISPATCH(StoreInt)(type, src, dst, n);
}
bool copy_steps(int bytes, const void* src, int64_t from_step, void* dst, int64_t to_step, size_t n) {
  return HWY_DYNAMIC_DISPATCH(CopySteps)(bytes, src, from_step, dst, to_step, n);
}

}  // namespace opentrn::numerics::simd
#endif  // HWY_ONCE
