// How files keep the numbers of a tensor: plain types, and ggml's formats of blocks of 32 or 256 numbers that
// share scales.
//
// The layouts are those of ggml (ggml-common.h, dequantize_row_* of ggml-quants.c); `./dev conformance
// smollm2` compares every one of them with the package gguf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace opentrn::import::weights {

enum class Encoding : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kIQ4_NL,
  kIQ4_XS,
  kMXFP4,
  kF8_E4M3,  // without infinities, 448 at most (e4m3fn)
  kF8_E5M2,
  // Whole numbers: parts of other formats, such as those of quantised_checkpoint.h, and tables of an EAGLE-3
  // head.
  kU8,
  kI8,
  kI32,
  kI64,
  kBool,
};
inline constexpr int kEncodingCount = static_cast<int>(Encoding::kBool) + 1;

std::string_view name(Encoding encoding);  // as ggml and safetensors spell it: "Q4_1", "BF16"
// Of ggml's enum ggml_type, as GGUF files hold it; nullopt for one that is not read.
std::optional<Encoding> encoding_of_ggml(uint32_t type);
// ggml's name of the type, for messages; empty for an unknown one.
std::string_view ggml_type_name(uint32_t type);

// Numbers of a block, and the bytes it takes; 1 and the number's own size for plain types.
int64_t block_elements(Encoding encoding);
int64_t block_bytes(Encoding encoding);

// The numbers of whole blocks, exactly as ggml computes them in fp32. An internal fault where the sizes do
// not belong to each other.
void decode(Encoding encoding, std::span<const std::byte> blocks, std::span<float> out);

// Numbers of FP4 (E2M1), two in a byte, the first in its lower half. An internal fault as decode()'s.
void decode_fp4(std::span<const std::byte> bytes, std::span<float> out);

// 2^(bits - 127), as E8M0 has scales.
float power_of_two(uint8_t bits);

// MXFP4 in two tensors, as OpenAI publishes gpt-oss: blocks of 16 bytes, each with two neighbouring numbers,
// the first in its lower half, and a scale of 8 bits (E8M0) for each block. An internal fault where the sizes
// do not belong to each other.
void decode_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales, std::span<float> out);

float half_to_float(uint16_t bits);
// To nearest even; a NaN stays one.
uint16_t float_to_bfloat(float value);
uint16_t float_to_half(float value);

}  // namespace opentrn::import::weights
