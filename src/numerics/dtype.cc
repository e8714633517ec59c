#include "numerics/dtype.h"

#include <array>

namespace opentrn {
namespace {

enum class Class : uint8_t { kBool, kSigned, kUnsigned, kFloat, kFloat8, kScale, kPacked };

struct Row {
  DType dtype;
  std::string_view name;
  int bytes;
  Class kind;
};

// In the order of the enum (asserted below).
constexpr std::array<Row, kDTypeCount> kRows{{
    {DType::kBool, "bool", 1, Class::kBool},
    {DType::kInt8, "int8", 1, Class::kSigned},
    {DType::kInt16, "int16", 2, Class::kSigned},
    {DType::kInt32, "int32", 4, Class::kSigned},
    {DType::kInt64, "int64", 8, Class::kSigned},
    {DType::kUint8, "uint8", 1, Class::kUnsigned},
    {DType::kUint16, "uint16", 2, Class::kUnsigned},
    {DType::kUint32, "uint32", 4, Class::kUnsigned},
    {DType::kUint64, "uint64", 8, Class::kUnsigned},
    {DType::kFloat16, "float16", 2, Class::kFloat},
    {DType::kBFloat16, "bfloat16", 2, Class::kFloat},
    {DType::kTFloat32, "tfloat32", 4, Class::kFloat},
    {DType::kFloat32, "float32", 4, Class::kFloat},
    {DType::kFloat64, "float64", 8, Class::kFloat},
    {DType::kFloat8E3M4, "float8_e3m4", 1, Class::kFloat8},
    {DType::kFloat8E4M3, "float8_e4m3", 1, Class::kFloat8},
    {DType::kFloat8E4M3Fn, "float8_e4m3fn", 1, Class::kFloat8},
    {DType::kFloat8E5M2, "float8_e5m2", 1, Class::kFloat8},
    {DType::kFloat8E8M0Fnu, "float8_e8m0fnu", 1, Class::kScale},
    {DType::kFloat8E5M2x4, "float8_e5m2_x4", 4, Class::kPacked},
    {DType::kFloat8E4M3FnX4, "float8_e4m3fn_x4", 4, Class::kPacked},
    {DType::kFloat4E2M1FnX4, "float4_e2m1fn_x4", 2, Class::kPacked},
}};

constexpr bool in_enum_order() {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].dtype) != i) return false;
  }
  return true;
}
static_assert(in_enum_order());

constexpr const Row& row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

}  // namespace

int size_bytes(DType dtype) { return row(dtype).bytes; }
std::string_view name(DType dtype) { return row(dtype).name; }

std::optional<DType> dtype_from_name(std::string_view name) {
  if (name == "bool_") return DType::kBool;  // nki.language's spelling
  for (const Row& r : kRows) {
    if (r.name == name) return r.dtype;
  }
  return std::nullopt;
}

bool is_float(DType dtype) { return row(dtype).kind == Class::kFloat || is_fp8(dtype); }
bool is_integer(DType dtype) { return is_signed_integer(dtype) || row(dtype).kind == Class::kUnsigned; }
bool is_signed_integer(DType dtype) { return row(dtype).kind == Class::kSigned; }
bool is_fp8(DType dtype) { return row(dtype).kind == Class::kFloat8; }
bool is_packed_x4(DType dtype) { return row(dtype).kind == Class::kPacked; }

std::optional<DType> unpacked(DType dtype) {
  if (dtype == DType::kFloat8E5M2x4) return DType::kFloat8E5M2;
  if (dtype == DType::kFloat8E4M3FnX4) return DType::kFloat8E4M3Fn;
  return std::nullopt;
}

}  // namespace opentrn
