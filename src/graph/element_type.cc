#include "graph/element_type.h"

#include <array>

namespace opentrn::graph {

namespace {

enum class Class : uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex };

struct Row {
  ElementType type;
  std::string_view name;
  int bits;
  Class klass;
  std::optional<DType> dtype;
};

constexpr std::array<Row, kElementTypeCount> kRows{{
    {ElementType::kI1, "i1", 1, Class::kBool, DType::kBool},
    {ElementType::kI2, "i2", 2, Class::kSigned, std::nullopt},
    {ElementType::kI4, "i4", 4, Class::kSigned, std::nullopt},
    {ElementType::kI8, "i8", 8, Class::kSigned, DType::kInt8},
    {ElementType::kI16, "i16", 16, Class::kSigned, DType::kInt16},
    {ElementType::kI32, "i32", 32, Class::kSigned, DType::kInt32},
    {ElementType::kI64, "i64", 64, Class::kSigned, DType::kInt64},
    {ElementType::kUI2, "ui2", 2, Class::kUnsigned, std::nullopt},
    {ElementType::kUI4, "ui4", 4, Class::kUnsigned, std::nullopt},
    {ElementType::kUI8, "ui8", 8, Class::kUnsigned, DType::kUint8},
    {ElementType::kUI16, "ui16", 16, Class::kUnsigned, DType::kUint16},
    {ElementType::kUI32, "ui32", 32, Class::kUnsigned, DType::kUint32},
    {ElementType::kUI64, "ui64", 64, Class::kUnsigned, DType::kUint64},
    {ElementType::kIndex, "index", 64, Class::kSigned, std::nullopt},
    {ElementType::kF4E2M1FN, "f4E2M1FN", 4, Class::kFloat, std::nullopt},
    {ElementType::kF6E2M3FN, "f6E2M3FN", 6, Class::kFloat, std::nullopt},
    {ElementType::kF6E3M2FN, "f6E3M2FN", 6, Class::kFloat, std::nullopt},
    {ElementType::kF8E3M4, "f8E3M4", 8, Class::kFloat, DType::kFloat8E3M4},
    {ElementType::kF8E4M3, "f8E4M3", 8, Class::kFloat, DType::kFloat8E4M3},
    {ElementType::kF8E4M3FN, "f8E4M3FN", 8, Class::kFloat, DType::kFloat8E4M3Fn},
    {ElementType::kF8E4M3FNUZ, "f8E4M3FNUZ", 8, Class::kFloat, std::nullopt},
    {ElementType::kF8E4M3B11FNUZ, "f8E4M3B11FNUZ", 8, Class::kFloat, std::nullopt},
    {ElementType::kF8E5M2, "f8E5M2", 8, Class::kFloat, DType::kFloat8E5M2},
    {ElementType::kF8E5M2FNUZ, "f8E5M2FNUZ", 8, Class::kFloat, std::nullopt},
    {ElementType::kF8E8M0FNU, "f8E8M0FNU", 8, Class::kFloat, DType::kFloat8E8M0Fnu},
    {ElementType::kBF16, "bf16", 16, Class::kFloat, DType::kBFloat16},
    {ElementType::kF16, "f16", 16, Class::kFloat, DType::kFloat16},
    {ElementType::kTF32, "tf32", 32, Class::kFloat, DType::kTFloat32},
    {ElementType::kF32, "f32", 32, Class::kFloat, DType::kFloat32},
    {ElementType::kF64, "f64", 64, Class::kFloat, DType::kFloat64},
    {ElementType::kComplexF32, "complex<f32>", 64, Class::kComplex, std::nullopt},
    {ElementType::kComplexF64, "complex<f64>", 128, Class::kComplex, std::nullopt},
}};

constexpr bool elements_in_order() {
  for (int i = 0; i < kElementTypeCount; ++i)
    if (static_cast<int>(kRows[i].type) != i) return false;
  return true;
}
static_assert(elements_in_order());

const Row& row(ElementType type) { return kRows[static_cast<size_t>(type)]; }

}  // namespace

std::string_view name(ElementType type) { return row(type).name; }

std::optional<ElementType> element_type_from_name(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return row.type;
  return std::nullopt;
}

int bit_width(ElementType type) { return row(type).bits; }
int storage_bytes(ElementType type) { return (row(type).bits + 7) / 8; }
bool is_bool(ElementType type) { return row(type).klass == Class::kBool; }
bool is_signed_integer(ElementType type) { return row(type).klass == Class::kSigned; }
bool is_unsigned_integer(ElementType type) { return row(type).klass == Class::kUnsigned; }
bool is_integer(ElementType type) { return is_signed_integer(type) || is_unsigned_integer(type); }
bool is_float(ElementType type) { return row(type).klass == Class::kFloat; }
bool is_complex(ElementType type) { return row(type).klass == Class::kComplex; }

ElementType real_part(ElementType type) {
  if (type == ElementType::kComplexF32) return ElementType::kF32;
  if (type == ElementType::kComplexF64) return ElementType::kF64;
  return type;
}

std::optional<DType> to_dtype(ElementType type) { return row(type).dtype; }

std::optional<ElementType> from_dtype(DType dtype) {
  for (const Row& row : kRows)
    if (row.dtype == dtype) return row.type;
  return std::nullopt;
}

}  // namespace opentrn::graph
