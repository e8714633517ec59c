#include "numerics/transpose.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "numerics/simd_targets.h"

namespace opentrn::numerics {
namespace {

TEST(Transpose, EveryElementMovesAndNothingElseIsWritten) {
  SplitMix64 rng(1);
  for (const std::string& target : simd_targets()) {
    force_simd_target(target);
    for (const size_t bytes : {1, 2, 4, 8}) {
      for (int i = 0; i < 30; ++i) {
        const size_t rows = rng.below(i % 5 == 0 ? 300 : 40), columns = rng.below(70);
        const size_t src_pitch = columns + rng.below(5), dst_pitch = rows + rng.below(5);
        std::vector<uint8_t> src(rows * src_pitch * bytes + 8),
            dst((columns + 1) * dst_pitch * bytes + 8, 0xab);
        for (uint8_t& byte : src) byte = static_cast<uint8_t>(rng.next());
        std::vector<uint8_t> expected = dst;
        for (size_t r = 0; r < rows; ++r) {
          for (size_t c = 0; c < columns; ++c) {
            std::memcpy(&expected[(c * dst_pitch + r) * bytes], &src[(r * src_pitch + c) * bytes], bytes);
          }
        }
        transpose(static_cast<int>(bytes), src.data(), src_pitch, rows, columns, dst.data(), dst_pitch);
        ASSERT_EQ(dst, expected) << target << " " << rows << " x " << columns << " of " << bytes << " bytes";
      }
    }
  }
  force_simd_target("");
}

}  // namespace
}  // namespace opentrn::numerics
