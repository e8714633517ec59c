// OCP microscaling (MX): 32 values share one power-of-two scale (e8m0).
//
// On a NeuronCore a group is 8 partitions x 4 consecutive elements, and the four elements of one
// partition are packed into one _x4 element, first value in the low bits [doc: trainium3_arch.rst;
// packing order: assumed]. Sources: nki.isa.quantize_mx, nki.isa.nc_matmul_mx, OCP MX v1.0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/dtype.h"
#include "numerics/float_format.h"

namespace opentrn::numerics {

inline constexpr int kMxGroupPartitions = 8;
inline constexpr int kMxPack = 4;

// float8_e5m2_x4, float8_e4m3fn_x4 and float4_e2m1fn_x4; others are refused.
FloatFormat mx_element_format(DType x4);
// Largest exponent of a normal element: 15, 8, 2.
int mx_exponent_max(DType x4);

enum class MxScaleRule : uint8_t {
  kNeuron,  // floor(log2(amax)) - (Emax - 1), all-zero group 2^-127 [doc: nki.isa.quantize_mx], since NKI 0.5
  kOcp,     // floor(log2(amax)) - Emax, the sample algorithm of OCP MX v1.0 section 6.3; before NKI 0.5
};
// The e8m0 code, clamped to what e8m0 holds. An amax that is infinite or NaN gives 0xFF [assumed].
uint8_t mx_scale_code(DType x4, float amax, MxScaleRule rule = MxScaleRule::kNeuron);

// Quantises 8 partitions: rows[p] holds 4 * groups values (already fp32, exact from fp16 or bf16),
// out[p] gets `groups` x4 elements (2 or 4 bytes each), scales gets `groups` codes.
// Elements: value / scale, rounded to nearest even, saturating at the largest value [OCP MX v1.0].
void quantize_mx(DType x4, const float* const rows[kMxGroupPartitions], size_t groups,
                 void* const out[kMxGroupPartitions], uint8_t* scales,
                 MxScaleRule rule = MxScaleRule::kNeuron);

// Unpacks n x4 elements of one partition to 4 n floats, without and with the scale. scales[i] belongs
// to x4 element i. A scale of 0xFF makes NaN.
void unpack_x4(DType x4, const void* src, float* dst, size_t n);
void dequantize_mx(DType x4, const void* src, const uint8_t* scales, float* dst, size_t n);
// Packs 4 n floats without scaling; rounds to nearest even and saturates.
void pack_x4(DType x4, const float* src, void* dst, size_t n);

}  // namespace opentrn::numerics
