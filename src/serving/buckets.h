// Which compiled program a step of a Neuron server runs: programs have fixed sizes, and a step takes the
// smallest that holds it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace opentrn::serving {

// Powers of two from `first` up to `last`, and `last` itself.
std::vector<int32_t> power_of_two_buckets(int32_t first, int32_t last);

// The smallest bucket that holds `count`; input fault `serving.bucket` when none does. 0 for 0.
int32_t bucket_of(int64_t count, std::span<const int32_t> buckets);

}  // namespace opentrn::serving
