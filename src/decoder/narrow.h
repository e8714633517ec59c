// Weights of fewer bits than what products read, as `opentrn compile --weight-dtype` keeps constants: int8 or
// fp8 with one fp32 scale for each column (compiler/weights/quantise.cc), or microscaled, where 32 rows of a
// column share a power of two (compiler/weights/microscale.cc).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "arch/arch.h"
#include "compiler/weights/weight_type.h"
#include "graph/type.h"

namespace opentrn::decoder {

using compiler::is_microscaled;
using compiler::WeightType;

// Behind the name of a narrow weight: its scales.
inline const std::string kScale = "_scale";

// "int8", "fp8_e4m3", "fp8_e5m2" and, on NeuronCore-v4, "fp8_e4m3fn", "mxfp8" and "mxfp4"; "none" for none.
// Input fault decoder.element for other words.
std::optional<WeightType> narrow_type(std::string_view text, opentrn::Generation generation);

// Of a weight in one element of it, and of its scales: 1 and all, or 4 and 32 of MX.
int64_t rows_of_number(WeightType type);
int64_t rows_of_scale(WeightType type, int64_t rows);
// Rows that a group of so many has in memory: whole tiles of an MX product.
int64_t rows_held(WeightType type, int64_t rows);

// A matrix [groups * rows, columns] as it is kept.
struct NarrowTypes {
  graph::Type numbers;  // [groups * rows, columns], or of MX four in one, [groups * rows held / 4, columns]
  graph::Type scales;   // [groups, columns] f32, or of MX [groups * rows held / 32, columns] ui8
};
NarrowTypes narrow_types(WeightType type, int64_t groups, int64_t rows, int64_t columns);

// values [rows, columns], rows of `groups` below each other, by numerics/quantise.h; a group's last rows of
// MX are zeros. `values` is overwritten. `numbers` and `scales` have the bytes of narrow_types(). Input fault
// decoder.weights, with `name`, for numbers that are not finite.
void quantise(WeightType type, std::span<float> values, int64_t columns, int64_t groups, std::byte* numbers,
              std::byte* scales, std::string_view name);

}  // namespace opentrn::decoder
