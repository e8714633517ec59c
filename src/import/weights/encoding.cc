#include "import/weights/encoding.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/fault.h"
#include "numerics/convert.h"

namespace opentrn::import::weights {

namespace {

struct Format {
  std::string_view name;
  int64_t elements, bytes;
  int ggml;  // of ggml's enum ggml_type; -1: not one of ggml's
};

// By Encoding. Bytes: the static_asserts of ggml-common.h.
constexpr std::array<Format, kEncodingCount> kFormats{
    {{"F32", 1, 4, 0},       {"F16", 1, 2, 1},       {"BF16", 1, 2, 30},     {"F64", 1, 8, 28},
     {"Q4_0", 32, 18, 2},    {"Q4_1", 32, 20, 3},    {"Q5_0", 32, 22, 6},    {"Q5_1", 32, 24, 7},
     {"Q8_0", 32, 34, 8},    {"Q2_K", 256, 84, 10},  {"Q3_K", 256, 110, 11}, {"Q4_K", 256, 144, 12},
     {"Q5_K", 256, 176, 13}, {"Q6_K", 256, 210, 14}, {"IQ4_NL", 32, 18, 20}, {"IQ4_XS", 256, 136, 23},
     {"MXFP4", 32, 17, 39},  {"F8_E4M3", 1, 1, -1},  {"F8_E5M2", 1, 1, -1},  {"U8", 1, 1, -1},
     {"I8", 1, 1, -1},       {"I32", 1, 4, -1},      {"I64", 1, 8, -1},      {"BOOL", 1, 1, -1}}};

// ggml's types that are named in messages and not read.
struct OtherType {
  uint32_t type;
  std::string_view name;
};
constexpr OtherType kOtherTypes[] = {
    {9, "Q8_1"},   {15, "Q8_K"},  {16, "IQ2_XXS"}, {17, "IQ2_XS"}, {18, "IQ3_XXS"},
    {19, "IQ1_S"}, {21, "IQ3_S"}, {22, "IQ2_S"},   {24, "I8"},     {25, "I16"},
    {26, "I32"},   {27, "I64"},   {29, "IQ1_M"},   {34, "TQ1_0"},  {35, "TQ2_0"},
};

const Format& format(Encoding encoding) { return kFormats[static_cast<size_t>(encoding)]; }

using Byte = const uint8_t*;

template <typename Value>
Value read(Byte at) {
  Value value;
  std::memcpy(&value, at, sizeof(Value));
  return value;
}
float half(Byte at) { return half_to_float(read<uint16_t>(at)); }
int low(uint8_t byte) { return byte & 15; }
int high(uint8_t byte) { return byte >> 4; }

void q4_0(Byte in, float* out) {
  const float d = half(in);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(low(in[2 + j]) - 8) * d;
    out[j + 16] = static_cast<float>(high(in[2 + j]) - 8) * d;
  }
}

void q4_1(Byte in, float* out) {
  const float d = half(in), m = half(in + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(low(in[4 + j])) * d + m;
    out[j + 16] = static_cast<float>(high(in[4 + j])) * d + m;
  }
}

// The fifth bit of number j is bit j of `bits`.
int fifth(uint32_t bits, int j) { return static_cast<int>(bits >> j & 1) << 4; }

void q5_0(Byte in, float* out) {
  const float d = half(in);
  const auto bits = read<uint32_t>(in + 2);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>((low(in[6 + j]) | fifth(bits, j)) - 16) * d;
    out[j + 16] = static_cast<float>((high(in[6 + j]) | fifth(bits, j + 16)) - 16) * d;
  }
}

void q5_1(Byte in, float* out) {
  const float d = half(in), m = half(in + 2);
  const auto bits = read<uint32_t>(in + 4);
  for (int j = 0; j < 16; ++j) {
    out[j] = static_cast<float>(low(in[8 + j]) | fifth(bits, j)) * d + m;
    out[j + 16] = static_cast<float>(high(in[8 + j]) | fifth(bits, j + 16)) * d + m;
  }
}

void q8_0(Byte in, float* out) {
  const float d = half(in);
  for (int j = 0; j < 32; ++j) out[j] = static_cast<float>(static_cast<int8_t>(in[2 + j])) * d;
}

// What the four bits of IQ4_NL and IQ4_XS stand for (ggml's kvalues_iq4nl).
constexpr std::array<int8_t, 16> kNonLinear{-127, -104, -83, -65, -49, -35, -22, -10,
                                            1,    13,   25,  38,  53,  69,  89,  113};

void non_linear(Byte quants, float scale, float* out) {
  for (int j = 0; j < 16; ++j) {
    out[j] = scale * static_cast<float>(kNonLinear[static_cast<size_t>(low(quants[j]))]);
    out[j + 16] = scale * static_cast<float>(kNonLinear[static_cast<size_t>(high(quants[j]))]);
  }
}

void iq4_nl(Byte in, float* out) { non_linear(in + 2, half(in), out); }

// d, two upper bits of eight scales, their four lower ones, and for each scale 16 bytes.
void iq4_xs(Byte in, float* out) {
  const float d = half(in);
  const auto upper = read<uint16_t>(in + 2);
  for (int s = 0; s < 8; ++s) {
    const int lower = in[4 + s / 2] >> (s % 2 * 4) & 15;
    const int scale = (lower | (upper >> (2 * s) & 3) << 4) - 32;
    non_linear(in + 8 + 16 * s, d * static_cast<float>(scale), out + 32 * s);
  }
}

// 16 scales and 16 minima of four bits, 64 bytes of two bits, d, dmin.
void q2_k(Byte in, float* out) {
  const Byte scales = in, quants = in + 16;
  const float d = half(in + 80), dmin = half(in + 82);
  for (int n = 0, s = 0; n < 2; ++n)
    for (int shift = 0; shift < 8; shift += 2)
      for (int part = 0; part < 2; ++part, ++s) {
        const float scale = d * static_cast<float>(low(scales[s])),
                    minimum = dmin * static_cast<float>(high(scales[s]));
        for (int l = 0; l < 16; ++l)
          *out++ = scale * static_cast<float>(quants[n * 32 + part * 16 + l] >> shift & 3) - minimum;
      }
}

// Scale s of Q3_K: six bits, the lower four in bytes 0 to 7, the upper two in bytes 8 to 11.
int scale_of_q3(Byte packed, int s) {
  const int lower = s < 8 ? low(packed[s]) : high(packed[s - 8]);
  return (lower | (packed[8 + s % 4] >> (s / 4 * 2) & 3) << 4) - 32;
}

// 32 bytes of third bits, 64 of two bits, 12 of scales, d.
void q3_k(Byte in, float* out) {
  const Byte thirds = in, quants = in + 32, scales = in + 96;
  const float d = half(in + 108);
  for (int n = 0, s = 0; n < 2; ++n)
    for (int j = 0; j < 4; ++j)
      for (int part = 0; part < 2; ++part, ++s) {
        const float scale = d * static_cast<float>(scale_of_q3(scales, s));
        for (int l = part * 16; l < part * 16 + 16; ++l) {
          const int lower = quants[n * 32 + l] >> (2 * j) & 3;
          const bool third = thirds[l] >> (n * 4 + j) & 1;
          *out++ = scale * static_cast<float>(lower - (third ? 0 : 4));
        }
      }
}

struct ScaleAndMinimum {
  float scale, minimum;
};

// Number j of eight pairs of six bits in 12 bytes (get_scale_min_k4).
ScaleAndMinimum pair_of_k4(Byte packed, int j, float d, float dmin) {
  const int scale = j < 4 ? packed[j] & 63 : low(packed[j + 4]) | packed[j - 4] >> 6 << 4;
  const int minimum = j < 4 ? packed[j + 4] & 63 : high(packed[j + 4]) | packed[j] >> 6 << 4;
  return {d * static_cast<float>(scale), dmin * static_cast<float>(minimum)};
}

// d, dmin, 12 bytes of scales, 128 bytes of four bits.
void q4_k(Byte in, float* out) {
  const float d = half(in), dmin = half(in + 2);
  for (int j = 0; j < 8; ++j) {
    const auto [scale, minimum] = pair_of_k4(in + 4, j, d, dmin);
    for (int l = 0; l < 32; ++l) {
      const uint8_t both = in[16 + j / 2 * 32 + l];
      *out++ = scale * static_cast<float>(j % 2 == 0 ? low(both) : high(both)) - minimum;
    }
  }
}

// d, dmin, 12 bytes of scales, 32 of fifth bits, 128 of four bits.
void q5_k(Byte in, float* out) {
  const float d = half(in), dmin = half(in + 2);
  for (int j = 0; j < 8; ++j) {
    const auto [scale, minimum] = pair_of_k4(in + 4, j, d, dmin);
    for (int l = 0; l < 32; ++l) {
      const uint8_t both = in[48 + j / 2 * 32 + l];
      const int upper = (in[16 + l] >> j & 1) << 4;
      *out++ = scale * static_cast<float>((j % 2 == 0 ? low(both) : high(both)) + upper) - minimum;
    }
  }
}

// 128 bytes of four bits, 64 of two, 16 scales of eight, d.
void q6_k(Byte in, float* out) {
  const float d = half(in + 208);
  for (int n = 0; n < 2; ++n)
    for (int q = 0; q < 4; ++q)
      for (int l = 0; l < 32; ++l) {
        const uint8_t both = in[n * 64 + q % 2 * 32 + l];
        const int upper = in[128 + n * 32 + l] >> (2 * q) & 3;
        const int value = (q < 2 ? low(both) : high(both)) | upper << 4;
        const auto scale = static_cast<int8_t>(in[192 + n * 8 + q * 2 + l / 16]);
        *out++ = d * static_cast<float>(scale) * static_cast<float>(value - 32);
      }
}

// OCP's microscaling formats, 1.0: a number of FP4 (E2M1), and a scale of E8M0, which is a power of two.
constexpr std::array<float, 16> kFp4{0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.0F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

// A scale, 16 bytes of four bits.
void mxfp4(Byte in, float* out) {
  const float scale = power_of_two(in[0]);
  for (int j = 0; j < 16; ++j) {
    out[j] = kFp4[static_cast<size_t>(low(in[1 + j]))] * scale;
    out[j + 16] = kFp4[static_cast<size_t>(high(in[1 + j]))] * scale;
  }
}

template <typename Value, typename Convert>
void plain(Byte in, std::span<float> out, Convert&& convert) {
  for (size_t i = 0; i < out.size(); ++i) out[i] = convert(read<Value>(in + i * sizeof(Value)));
}

using DecodeBlock = void (*)(Byte in, float* out);

DecodeBlock block_decoder(Encoding encoding) {
  switch (encoding) {
    case Encoding::kQ4_0: return q4_0;
    case Encoding::kQ4_1: return q4_1;
    case Encoding::kQ5_0: return q5_0;
    case Encoding::kQ5_1: return q5_1;
    case Encoding::kQ8_0: return q8_0;
    case Encoding::kQ2_K: return q2_k;
    case Encoding::kQ3_K: return q3_k;
    case Encoding::kQ4_K: return q4_k;
    case Encoding::kQ5_K: return q5_k;
    case Encoding::kQ6_K: return q6_k;
    case Encoding::kIQ4_NL: return iq4_nl;
    case Encoding::kIQ4_XS: return iq4_xs;
    case Encoding::kMXFP4: return mxfp4;
    default: return nullptr;
  }
}

}  // namespace

std::string_view name(Encoding encoding) { return format(encoding).name; }
int64_t block_elements(Encoding encoding) { return format(encoding).elements; }
int64_t block_bytes(Encoding encoding) { return format(encoding).bytes; }

std::optional<Encoding> encoding_of_ggml(uint32_t type) {
  for (int i = 0; i < kEncodingCount; ++i)
    if (static_cast<int64_t>(type) == kFormats[static_cast<size_t>(i)].ggml) return static_cast<Encoding>(i);
  return std::nullopt;
}

std::string_view ggml_type_name(uint32_t type) {
  if (const auto encoding = encoding_of_ggml(type)) return name(*encoding);
  for (const OtherType& other : kOtherTypes)
    if (other.type == type) return other.name;
  return {};
}

void decode(Encoding encoding, std::span<const std::byte> blocks, std::span<float> out) {
  const int64_t count = static_cast<int64_t>(out.size()) / block_elements(encoding);
  OPENTRN_CHECK(count * block_elements(encoding) == static_cast<int64_t>(out.size()) &&
                    count * block_bytes(encoding) == static_cast<int64_t>(blocks.size()),
                "{} bytes of {} for {} numbers", blocks.size(), name(encoding), out.size());
  const auto* in = reinterpret_cast<Byte>(blocks.data());
  switch (encoding) {
    case Encoding::kF32: return plain<float>(in, out, [](float v) { return v; });
    case Encoding::kF64: return plain<double>(in, out, [](double v) { return static_cast<float>(v); });
    case Encoding::kF16: return plain<uint16_t>(in, out, half_to_float);
    case Encoding::kI64: return plain<int64_t>(in, out, [](int64_t v) { return static_cast<float>(v); });
    case Encoding::kF8_E4M3: return numerics::load_f32(DType::kFloat8E4M3Fn, in, out.data(), out.size());
    case Encoding::kF8_E5M2: return numerics::load_f32(DType::kFloat8E5M2, in, out.data(), out.size());
    case Encoding::kI8: return plain<int8_t>(in, out, [](int8_t v) { return static_cast<float>(v); });
    case Encoding::kI32: return plain<int32_t>(in, out, [](int32_t v) { return static_cast<float>(v); });
    case Encoding::kBool:
    case Encoding::kU8: return plain<uint8_t>(in, out, [](uint8_t v) { return static_cast<float>(v); });
    case Encoding::kBF16:
      return plain<uint16_t>(in, out,
                             [](uint16_t v) { return std::bit_cast<float>(static_cast<uint32_t>(v) << 16); });
    default: break;
  }
  const DecodeBlock decode_block = block_decoder(encoding);
  for (int64_t i = 0; i < count; ++i)
    decode_block(in + i * block_bytes(encoding), out.data() + i * block_elements(encoding));
}

void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                  std::span<float> out) {
  OPENTRN_CHECK(blocks.size() == scales.size() * 16 && out.size() == blocks.size() * 2,
                "{} bytes and {} scales of MXFP4 for {} numbers", blocks.size(), scales.size(), out.size());
  decode_fp4(blocks, out);
  for (size_t i = 0; i < out.size(); ++i) out[i] *= power_of_two(static_cast<uint8_t>(scales[i / 32]));
}

void decode_fp4(std::span<const std::byte> bytes, std::span<float> out) {
  OPENTRN_CHECK(out.size() == bytes.size() * 2, "{} bytes of FP4 for {} numbers", bytes.size(), out.size());
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto both = static_cast<uint8_t>(bytes[i]);
    out[2 * i] = kFp4[static_cast<size_t>(low(both))];
    out[2 * i + 1] = kFp4[static_cast<size_t>(high(both))];
  }
}

float power_of_two(uint8_t bits) { return std::ldexp(1.0F, bits - 127); }

float half_to_float(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16, exponent = bits >> 10 & 31,
                 fraction = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | fraction << 13);
  if (exponent == 0) {
    const float value = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -value : value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t float_to_bfloat(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (std::isnan(value)) return sign | 0x7e00;
  if (magnitude >= 65520.0F) return sign | 0x7c00;  // halfway to 65536 and above
  if (magnitude < 0x1p-14F)                         // below the smallest normal number the steps are 2^-24
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(std::ldexp(magnitude, 24))));
  const uint32_t rounded = (bits & 0x7fffffff) + 0xfff + (bits >> 13 & 1);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

}  // namespace opentrn::import::weights
