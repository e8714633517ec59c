// Weights of fewer bits than what products read, as `opentrn compile --weight-dtype` keeps constants: int8 or
// fp8 with one fp32 scale for each column (compiler/weights/quantise.cc), or microscaled, where 32 rows of a
// column share a power of two (compiler/weights/microscale.cc).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.h"
#include "compiler/weights/weight_type.h"
#include "decoder/config.h"
#include "graph/type.h"

namespace opentrn::decoder {

using compiler::is_microscaled;
using compiler::WeightType;

// vLLM's --kv-cache-dtype, of keys and values in their pools: "auto" (the program's), "fp8" or "fp8_e4m3",
// "fp8_e5m2" and, on NeuronCore-v4, "fp8_e4m3fn". Input fault decoder.element for other words.
std::optional<graph::ElementType> kv_type(std::string_view text, opentrn::Generation generation);

// Behind the name of a narrow weight: its scales.
inline const std::string kScale = "_scale";

// "int8", "fp8_e4m3", "fp8_e5m2" and, on NeuronCore-v4, "fp8_e4m3fn", "mxfp8" and "mxfp4"; "none" for none.
// Behind it, with commas, NxD Inference's words: "per_tensor_symmetric", "per_channel_symmetric" (which holds
// without either), and "except=MODULE" as often as needed. Input fault decoder.element for other words.
std::optional<NarrowWeights> narrow_weights(std::string_view text, opentrn::Generation generation);

// Whether a weight ("layers.3.qkv") of a model with narrow weights is one of them. Input fault
// decoder.element where exceptions name one of several modules that a program reads as one matrix.
bool is_narrow(const Config& config, std::string_view weight);
// Those of a layer that are, by their names in it ("qkv").
std::vector<std::string_view> narrow_matrices(const Config& config, int64_t layer);
// Input fault decoder.element for an exception that names no module of the model.
void expect_kept_modules(const Config& config);

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
// MX are zeros. `tensors`: columns of the checkpoint's matrices that lie side by side. `values` is
// overwritten. `numbers` and `scales` have the bytes of narrow_types(). Input fault decoder.weights, with
// `name`, for numbers that are not finite.
void quantise(const NarrowWeights& how, std::span<float> values, std::span<const int64_t> tensors,
              int64_t groups, std::byte* numbers, std::byte* scales, std::string_view name);

}  // namespace opentrn::decoder
