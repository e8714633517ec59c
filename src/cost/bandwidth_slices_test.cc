#include "cost/bandwidth_slices.h"

#include <gtest/gtest.h>

#include <map>

#include "base/random.h"

namespace opentrn::cost {
namespace {

// Slice by slice, each looked at.
struct Obvious {
  double bytes_per_ps;
  Ps slice;
  std::map<Ps, double> taken = {};

  Ps reserve(Ps begin, int64_t bytes) {
    const double room = bytes_per_ps * static_cast<double>(slice);
    Ps at = begin / slice;
    for (auto left = static_cast<double>(bytes);; ++at) {
      const double free = room - taken[at];
      if (free <= 0) continue;
      if (left <= free) {
        taken[at] += left;
        const Ps end = at * slice + static_cast<Ps>(taken[at] / bytes_per_ps + 0.5);
        return std::max(end, begin + static_cast<Ps>(static_cast<double>(bytes) / bytes_per_ps + 0.5));
      }
      left -= free;
      taken[at] = room;
    }
  }
};

TEST(BandwidthSlices, PropertyTransfersTakeTheFirstRoomFromTheirBeginningOn) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    SplitMix64 random(seed);
    const Ps slice = 1000 + static_cast<Ps>(random.below(999'999));
    constexpr double kRates[] = {0.25, 2, 8};  // with whole bytes sums are exact, and some ends halves
    const double bytes_per_ps = kRates[seed % 3];
    BandwidthSlices slices(bytes_per_ps, slice - slice % 4);
    Obvious obvious{bytes_per_ps, slice - slice % 4};
    for (int i = 0; i < 300; ++i) {
      const Ps begin = random.below(3) == 0 ? static_cast<Ps>(random.below(40)) * obvious.slice
                                            : static_cast<Ps>(random.below(40'000'000));
      const int64_t bytes = 1 + random.below(random.below(2) == 0 ? 4 : 500'000);
      ASSERT_EQ(slices.reserve(begin, bytes), obvious.reserve(begin, bytes)) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace opentrn::cost
