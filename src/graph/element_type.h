// Element types of graph tensors: those of StableHLO.
//
// Wider than numerics::DType, which lists what a NeuronCore's memory holds: f64, complex and the
// 2-, 4- and 6-bit types exist in graphs and in the reference evaluator. to_dtype() says which of
// them a device stores. Source: stablehlo/docs/spec.md, "Types".
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "numerics/dtype.h"

namespace opentrn::graph {

enum class ElementType : uint8_t {
  kI1,
  kI2,
  kI4,
  kI8,
  kI16,
  kI32,
  kI64,
  kUI2,
  kUI4,
  kUI8,
  kUI16,
  kUI32,
  kUI64,
  kIndex,  // shape operands of old programs; as kI64
  kF4E2M1FN,
  kF6E2M3FN,
  kF6E3M2FN,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E4M3B11FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
  kBF16,
  kF16,
  kTF32,
  kF32,
  kF64,
  kComplexF32,
  kComplexF64,
};
inline constexpr int kElementTypeCount = static_cast<int>(ElementType::kComplexF64) + 1;

// "i1", "ui8", "bf16", "f8E4M3FN", "complex<f32>": MLIR's spelling.
std::string_view name(ElementType type);
std::optional<ElementType> element_type_from_name(std::string_view name);

// Bits of the format itself (i1: 1, f6E2M3FN: 6, complex<f32>: 64).
int bit_width(ElementType type);
// Bytes of one element in a Literal or an evaluator tensor, which do not pack small elements.
int storage_bytes(ElementType type);

bool is_bool(ElementType type);
bool is_signed_integer(ElementType type);    // i2 .. i64, index
bool is_unsigned_integer(ElementType type);  // ui2 .. ui64
bool is_integer(ElementType type);           // either, i1 excluded
bool is_float(ElementType type);
bool is_complex(ElementType type);
// f32 of complex<f32>; any other type itself.
ElementType real_part(ElementType type);

// The NeuronCore format with the same encodings; nullopt where no device stores it. i64, ui64 and f64
// exist in HBM only.
std::optional<DType> to_dtype(ElementType type);
std::optional<ElementType> from_dtype(DType dtype);

}  // namespace opentrn::graph
