#include "numerics/mx.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/fault.h"
#include "numerics/alu.h"
#include "numerics/convert.h"

namespace opentrn::numerics {
namespace {

constexpr uint8_t kScaleNan = 0xff;
constexpr int kScaleBias = 127;
constexpr size_t kBlock = 256;  // x4 elements unpacked at a time

[[noreturn]] void not_packed(DType dtype) {
  throw Fault(FaultKind::kProgram, "mx.dtype", fmt::format("{} is not a packed MX type", name(dtype)),
              "use float8_e5m2_x4, float8_e4m3fn_x4 or float4_e2m1fn_x4");
}

// 2^(code - 127); subnormal for code 0.
float scale_value(uint8_t code) {
  if (code == kScaleNan) return std::numeric_limits<float>::quiet_NaN();
  return code == 0 ? 0x1p-127f : std::bit_cast<float>(static_cast<uint32_t>(code) << 23);
}

constexpr auto kE2M1Values =
    std::to_array<float>({0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0f, -0.5, -1, -1.5, -2, -3, -4, -6});

void unpack_e2m1(const void* src, float* dst, size_t n) {
  const auto* bytes = static_cast<const uint8_t*>(src);
  for (size_t i = 0; i < 2 * n; ++i) {
    dst[2 * i] = kE2M1Values[bytes[i] & 15];
    dst[2 * i + 1] = kE2M1Values[bytes[i] >> 4];
  }
}

// encode(format, value, Overflow::kSaturate), without its loops for what every format may be.
uint32_t e2m1_code(const FloatFormat& format, float value) {
  if (std::isnan(value)) return encode(format, value, Overflow::kSaturate);
  const float size = std::min(std::fabs(value), 6.0F);
  const float step = size < 2 ? 0.5F : size < 4 ? 1.0F : 2.0F;
  constexpr auto kCodes = std::to_array<uint8_t>({0, 1, 2, 3, 4, 0, 5, 0, 6, 0, 0, 0, 7});  // by halves
  const uint32_t code = kCodes[static_cast<size_t>(std::nearbyint(size / step) * step * 2)];
  return code | (std::signbit(value) ? 8U : 0U);
}

// Values beyond the largest are cut to it; NaN stays for the formats that have one.
void saturate(const FloatFormat& format, float* row, size_t n) {
  const float largest = decode(format, format.max_finite_code());
  for (size_t i = 0; i < n; ++i) {
    if (std::isnan(row[i])) continue;
    row[i] = std::clamp(row[i], -largest, largest);
  }
}

void pack_block(DType x4, float* row, void* dst, size_t n) {
  const FloatFormat format = mx_element_format(x4);
  if (const auto element = unpacked(x4)) {
    saturate(format, row, kMxPack * n);
    return store_f32(*element, row, dst, kMxPack * n);
  }
  auto* bytes = static_cast<uint8_t*>(dst);
  for (size_t i = 0; i < 2 * n; ++i) {
    const uint32_t low = e2m1_code(format, row[2 * i]), high = e2m1_code(format, row[2 * i + 1]);
    bytes[i] = static_cast<uint8_t>(low | high << 4);
  }
}

// 2^exponent for -126 <= exponent <= 127.
float power_of_two(int exponent) { return std::bit_cast<float>(static_cast<uint32_t>(127 + exponent) << 23); }

// Magnitudes compare as integers, and a NaN's is larger than infinity's.
void group_amax(const float* const rows[kMxGroupPartitions], size_t first, size_t count, float* amax) {
  std::array<uint32_t, kBlock * kMxPack> largest{};
  for (int p = 0; p < kMxGroupPartitions; ++p) {
    const float* row = rows[p] + first * kMxPack;
    for (size_t i = 0; i < count * kMxPack; ++i) {
      largest[i] = std::max(largest[i], std::bit_cast<uint32_t>(row[i]) & 0x7fffffffu);
    }
  }
  for (size_t g = 0; g < count; ++g) {
    amax[g] = std::bit_cast<float>(*std::max_element(&largest[g * kMxPack], &largest[g * kMxPack] + kMxPack));
  }
}

}  // namespace

FloatFormat mx_element_format(DType x4) {
  switch (x4) {
    case DType::kFloat8E5M2x4: return kFormatFloat8E5M2;
    case DType::kFloat8E4M3FnX4: return kFormatFloat8E4M3Fn;
    case DType::kFloat4E2M1FnX4: return kFormatFloat4E2M1Fn;
    default: not_packed(x4);
  }
}

int mx_exponent_max(DType x4) {
  switch (x4) {
    case DType::kFloat8E5M2x4: return 15;
    case DType::kFloat8E4M3FnX4: return 8;
    case DType::kFloat4E2M1FnX4: return 2;
    default: not_packed(x4);
  }
}

uint8_t mx_scale_code(DType x4, float amax, MxScaleRule rule) {
  if (amax == 0) return 0;
  if (!std::isfinite(amax)) return kScaleNan;
  const int reserve = rule == MxScaleRule::kNeuron ? 1 : 0;
  const int exponent = std::ilogb(amax) - (mx_exponent_max(x4) - reserve);
  return static_cast<uint8_t>(std::clamp(exponent + kScaleBias, 0, 254));
}

void quantize_mx(DType x4, const float* const rows[kMxGroupPartitions], size_t groups,
                 void* const out[kMxGroupPartitions], uint8_t* scales, MxScaleRule rule) {
  std::array<float, kBlock * kMxPack> scaled;
  std::array<float, kBlock> amax, half, rest;
  for (size_t first = 0; first < groups; first += kBlock) {
    const size_t count = std::min(kBlock, groups - first);
    group_amax(rows, first, count, amax.data());
    for (size_t i = 0; i < count; ++i) {
      scales[first + i] = mx_scale_code(x4, amax[i], rule);
      // Dividing by a power of two, as two exact factors: 2^127 / 2^-127 would overflow as one.
      const int exponent = kScaleBias - scales[first + i];
      half[i] = power_of_two(exponent / 2);
      rest[i] = power_of_two(exponent - exponent / 2);
    }
    for (int p = 0; p < kMxGroupPartitions; ++p) {
      const float* from = rows[p] + first * kMxPack;
      for (size_t i = 0; i < count * kMxPack; ++i)
        scaled[i] = from[i] * half[i / kMxPack] * rest[i / kMxPack];
      auto* to = static_cast<std::byte*>(out[p]) + first * static_cast<size_t>(size_bytes(x4));
      pack_block(x4, scaled.data(), to, count);
    }
  }
}

void unpack_x4(DType x4, const void* src, float* dst, size_t n) {
  if (const auto element = unpacked(x4)) return load_f32(*element, src, dst, kMxPack * n);
  if (x4 != DType::kFloat4E2M1FnX4) not_packed(x4);
  unpack_e2m1(src, dst, n);
}

void dequantize_mx(DType x4, const void* src, const uint8_t* scales, float* dst, size_t n) {
  unpack_x4(x4, src, dst, n);
  for (size_t i = 0; i < n; ++i) {
    const float scale = scale_value(scales[i]);
    for (size_t j = 0; j < kMxPack; ++j) dst[i * kMxPack + j] *= scale;
  }
}

void pack_x4(DType x4, const float* src, void* dst, size_t n) {
  std::array<float, kBlock * kMxPack> block;
  for (size_t first = 0; first < n; first += kBlock) {
    const size_t count = std::min(kBlock, n - first);
    std::copy_n(src + first * kMxPack, count * kMxPack, block.data());
    pack_block(x4, block.data(), static_cast<std::byte*>(dst) + first * static_cast<size_t>(size_bytes(x4)),
               count);
  }
}

}  // namespace opentrn::numerics
