#pragma once

#include <cstdint>
#include <string_view>

namespace opentrn::compiler {

// How constant operands of products are kept: quantise.cc and microscale.cc.
enum class WeightType : uint8_t { kAsGiven, kInt8, kFp8E4M3, kFp8E4M3Fn, kFp8E5M2, kMxFp8, kMxFp4 };

// As users write them: the compiler's option weight-dtype and --quantization of language models.
struct NamedWeightType {
  std::string_view text;
  WeightType meaning;
};
inline constexpr NamedWeightType kWeightTypes[] = {
    {"none", WeightType::kAsGiven},     {"int8", WeightType::kInt8},
    {"fp8_e4m3", WeightType::kFp8E4M3}, {"fp8_e4m3fn", WeightType::kFp8E4M3Fn},
    {"fp8_e5m2", WeightType::kFp8E5M2}, {"mxfp8", WeightType::kMxFp8},
    {"mxfp4", WeightType::kMxFp4}};

// Blocks of numbers share a power of two, and what is multiplied with them is rounded to MXFP8.
constexpr bool is_microscaled(WeightType type) {
  return type == WeightType::kMxFp8 || type == WeightType::kMxFp4;
}

}  // namespace opentrn::compiler
