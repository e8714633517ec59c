// Rows of any element type to rows of fp32 and back.
//
// Arithmetic instructions read their operands as fp32, compute, and round once to the destination
// type [doc: nki.isa tensor_tensor, tensor_scalar, activation]; these are the two ends of that. The
// rules of each cast, with their source, are the table cast_rules().
//
// Strides count elements of the memory row, may be 0 (load) or negative, and are 1 in the plain
// forms. `src` and `dst` must not overlap unless they are the same row of 4-byte elements.
// The _x4 types are refused: mx.h unpacks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "numerics/dtype.h"

namespace opentrn::numerics {

struct Rounding {
  enum class Mode : uint8_t { kNearestEven, kStochastic };
  Mode mode = Mode::kNearestEven;
  // Stochastic only: element i of a row draws its 32 bits from (seed, counter + i) and nothing else,
  // so the result does not depend on threads, order or vector width.
  uint64_t seed = 0;
  uint64_t counter = 0;
};

// The 32 random bits of one element.
uint32_t rounding_bits(uint64_t seed, uint64_t counter);

void load_f32(DType dtype, const void* src, float* dst, size_t n);
void load_f32_strided(DType dtype, const void* src, int64_t stride_elems, float* dst, size_t n);
void store_f32(DType dtype, const float* src, void* dst, size_t n, const Rounding& rounding = {});
void store_f32_strided(DType dtype, const float* src, void* dst, int64_t stride_elems, size_t n,
                       const Rounding& rounding = {});

// Integer rows: bool, the integer types, and for bit operations any type's raw bits zero-extended.
// Signed types are sign-extended, unsigned ones zero-extended (uint64 as its bit pattern).
void load_i64(DType dtype, const void* src, int64_t stride_elems, int64_t* dst, size_t n);
// Keeps the low bits: wraps modulo 2^width.
void store_i64(DType dtype, const int64_t* src, void* dst, int64_t stride_elems, size_t n);

// Moves elements of 1, 2, 4 or 8 bytes without looking at them.
void copy_bits(int element_bytes, const void* src, int64_t src_stride_elems, void* dst,
               int64_t dst_stride_elems, size_t n);
// Fills a row with one element's bits.
void fill_bits(int element_bytes, uint64_t bits, void* dst, int64_t dst_stride_elems, size_t n);

// A whole cast: the same type keeps its bits; anything else goes through fp32.
void convert(DType src_dtype, const void* src, int64_t src_stride_elems, DType dst_dtype, void* dst,
             int64_t dst_stride_elems, size_t n, const Rounding& rounding = {});

// One value; `bits` in the low size_bytes(dtype) bytes. These are the slow reference.
float to_float(DType dtype, uint64_t bits);
uint64_t from_float(DType dtype, float value, const Rounding& rounding = {});

// What a cast between fp32 and a type does where formats differ, and where that is written.
struct CastRule {
  DType dtype;
  std::string_view rounding;  // of fp32 -> type
  std::string_view overflow;  // of fp32 -> type, infinities included
  std::string_view nan;       // of fp32 -> type
  std::string_view subnormal;
  std::string_view source;  // "doc: ...", or "assumed: ..." where the public pages are silent
};
std::span<const CastRule> cast_rules();

}  // namespace opentrn::numerics
