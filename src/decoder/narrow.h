// Weights of fewer bits than what products read: int8 or fp8 with one fp32 scale for each column, as
// `opentrn compile --weight-dtype` keeps constants (compiler/weights/quantise.cc).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "arch/arch.h"
#include "graph/element_type.h"

namespace opentrn::decoder {

// Behind the name of a narrow weight: its scales, [groups of rows, columns] f32.
inline const std::string kScale = "_scale";

// "int8", "fp8_e4m3", "fp8_e5m2" and, on NeuronCore-v4, "fp8_e4m3fn"; "none" for none. Input fault
// decoder.element for other words.
std::optional<graph::ElementType> narrow_element(std::string_view text, opentrn::Generation generation);

// values [rows, columns], rows of `groups` below each other. A column of a group has the scale max |w| /
// largest number, 1 where all are zeros; elements are w / scale, rounded to nearest even. `values` is
// overwritten. Input fault decoder.weights, with `name`, for numbers that are not finite.
void quantise(graph::ElementType element, std::span<float> values, int64_t columns, int64_t groups,
              std::byte* narrow, std::span<float> scales, std::string_view name);

}  // namespace opentrn::decoder
