#include "numerics/quantise.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/fault.h"
#include "numerics/convert.h"

namespace opentrn::numerics {

float largest_quantised(DType type) {
  switch (type) {
    case DType::kInt8: return 127;
    case DType::kFloat8E4M3: return 240;
    case DType::kFloat8E4M3Fn: return 448;
    case DType::kFloat8E5M2: return 57344;
    default: OPENTRN_CHECK(false, "nothing is quantised to {}", static_cast<int>(type));
  }
  return 0;
}

bool quantise_columns(DType type, std::span<float> values, std::span<float> scales, std::byte* narrow) {
  const float largest = largest_quantised(type);
  const size_t columns = scales.size();
  std::ranges::fill(scales, 0.0F);
  bool is_finite = true;
  for (size_t i = 0; i < values.size(); i += columns)
    for (size_t n = 0; n < columns; ++n) {
      const float size = std::fabs(values[i + n]);
      is_finite &= size <= std::numeric_limits<float>::max();
      scales[n] = std::max(scales[n], size);
    }
  if (!is_finite) return false;
  for (float& scale : scales) scale = scale / largest == 0 ? 1 : scale / largest;
  for (size_t i = 0; i < values.size(); i += columns)
    for (size_t n = 0; n < columns; ++n)
      values[i + n] = std::min(std::max(values[i + n] / scales[n], -largest), largest);
  store_f32(type, values.data(), narrow, values.size());
  return true;
}

}  // namespace opentrn::numerics
