#pragma once

#include <cstdint>

namespace opentrn::compiler {

// How constant operands of products are kept: quantise.cc and microscale.cc.
enum class WeightType : uint8_t { kAsGiven, kInt8, kFp8E4M3, kFp8E4M3Fn, kFp8E5M2, kMxFp8, kMxFp4 };

// Blocks of numbers share a power of two, and what is multiplied with them is rounded to MXFP8.
constexpr bool is_microscaled(WeightType type) {
  return type == WeightType::kMxFp8 || type == WeightType::kMxFp4;
}

}  // namespace opentrn::compiler
