#include "serving/buckets.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::serving {

std::vector<int32_t> power_of_two_buckets(int32_t first, int32_t last) {
  std::vector<int32_t> out;
  for (int64_t size = first; size < last; size *= 2) out.push_back(static_cast<int32_t>(size));
  out.push_back(last);
  return out;
}

int32_t bucket_of(int64_t count, std::span<const int32_t> buckets) {
  if (count == 0) return 0;
  const auto found = std::lower_bound(buckets.begin(), buckets.end(), count);
  if (found == buckets.end())
    throw Fault(FaultKind::kInput, "serving.bucket",
                fmt::format("no compiled program takes {}: the largest takes {}", count,
                            buckets.empty() ? 0 : buckets.back()),
                "add a bucket");
  return *found;
}

}  // namespace opentrn::serving
