// The element types of NeuronCore memory.
//
// Names follow nki.language. `_x4` types pack four values of an 8- or 4-bit format into one
// addressable element. Source: NKI data types page, nki/api/nki.api.shared.rst.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace opentrn {

enum class DType : uint8_t {
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,  // host and HBM only
  kUint8,
  kUint16,
  kUint32,
  kUint64,  // host and HBM only
  kFloat16,
  kBFloat16,
  kTFloat32,  // stored in 4 bytes, 10-bit mantissa
  kFloat32,
  kFloat64,  // host and HBM only
  kFloat8E3M4,
  kFloat8E4M3,    // IEEE-like, maximum 240 (NeuronCore-v2, v3)
  kFloat8E4M3Fn,  // OCP, maximum 448, no infinity (NeuronCore-v4)
  kFloat8E5M2,
  kFloat8E8M0Fnu,  // power-of-two scale
  kFloat8E5M2x4,
  kFloat8E4M3FnX4,
  kFloat4E2M1FnX4,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::kFloat4E2M1FnX4) + 1;

// Bytes of one addressable element: 4 for the fp8 _x4 types, 2 for float4_e2m1fn_x4.
int size_bytes(DType dtype);
std::string_view name(DType dtype);  // "bfloat16", "float8_e4m3fn_x4"
std::optional<DType> dtype_from_name(std::string_view name);

bool is_float(DType dtype);    // any scalar floating format, fp8 included, _x4 and e8m0 excluded
bool is_integer(DType dtype);  // signed or unsigned, bool excluded
bool is_signed_integer(DType dtype);
bool is_fp8(DType dtype);  // the scalar 8-bit floats
bool is_packed_x4(DType dtype);
// The scalar format inside an _x4 type; float4_e2m1fn has no DType of its own and gives nullopt.
std::optional<DType> unpacked(DType dtype);

}  // namespace opentrn
