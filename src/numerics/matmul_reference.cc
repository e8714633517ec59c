// The contract of matmul.h in three loops, for tests.
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "numerics/convert.h"
#include "numerics/matmul.h"

namespace opentrn::numerics {

void matmul_tile_reference(const MatmulTile& tile) {
  const auto element = [](const MatmulOperand& operand, int row, int column) {
    const size_t at = static_cast<size_t>(row) * operand.pitch + operand.offset(column);
    float value;
    const std::byte* bytes = static_cast<const std::byte*>(operand.data);
    load_f32(operand.dtype, bytes + at * static_cast<size_t>(size_bytes(operand.dtype)), &value, 1);
    return value;
  };
  for (int m = 0; m < tile.M; ++m) {
    for (int n = 0; n < tile.N; ++n) {
      float s = 0;
      for (int k = 0; k < tile.K; ++k) {
        s = std::fma(element(tile.stationary, k, m), element(tile.moving, k, n), s);
      }
      float& out = tile.acc[m * tile.acc_pitch + n];
      out = tile.accumulate ? out + s : s;
      if (std::isnan(out)) out = std::bit_cast<float>(0x7fc00000u);
    }
  }
}

}  // namespace opentrn::numerics
