#include "numerics/simd_targets.h"

#include "base/fault.h"
#include "hwy/highway.h"
#include "hwy/targets.h"

#include "numerics/pair_products.h"

namespace opentrn::numerics {

namespace {

constexpr const char* kPairs = "AVX3_BF16";

// What force_simd_target() said of pairs.
enum class Pairs { kWhereFast, kAlways, kNever };
Pairs pairs = Pairs::kWhereFast;

}  // namespace

std::vector<std::string> simd_targets() {
  hwy::SetSupportedTargetsForTest(0);
  std::vector<std::string> names;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (target == HWY_AVX3 && has_pair_products()) names.emplace_back(kPairs);
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

bool uses_pair_products() {
  if (pairs == Pairs::kWhereFast) return are_pair_products_fast();
  return pairs == Pairs::kAlways;
}

std::string simd_target() {
  if (uses_pair_products()) return kPairs;
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return hwy::TargetName(targets & -targets);
}

void force_simd_target(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  int64_t mask = hwy::SupportedTargets();
  Pairs wanted = Pairs::kWhereFast;
  if (!name.empty()) {
    mask = 0;
    wanted = name == kPairs && has_pair_products() ? Pairs::kAlways : Pairs::kNever;
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      const bool wants = wanted == Pairs::kAlways ? target == HWY_AVX3 : name == hwy::TargetName(target);
      if (wants) mask = target;
    }
    OPENTRN_CHECK(mask != 0, "no SIMD target '{}' on this machine", name);
    hwy::SetSupportedTargetsForTest(mask);
  }
  hwy::GetChosenTarget().Update(mask);
  pairs = wanted;
}

}  // namespace opentrn::numerics
