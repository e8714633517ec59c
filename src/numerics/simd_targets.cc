#include "numerics/simd_targets.h"

#include "base/fault.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

namespace opentrn::numerics {

std::vector<std::string> simd_targets() {
  hwy::SetSupportedTargetsForTest(0);
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) names.push_back(hwy::TargetName(target));
  return names;
}

std::string simd_target() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

void force_simd_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  int64_t mask = hwy::SupportedTargets();
  if (!name.empty()) {
    mask = 0;
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      if (name == hwy::TargetName(target)) mask = target;
    }
    OPENTRN_CHECK(mask != 0, "no SIMD target '{}' on this machine", name);
    hwy::SetSupportedTargetsForTest(mask);
  }
  hwy::GetChosenTarget().Update(mask);
}

}  // namespace opentrn::numerics
