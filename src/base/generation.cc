#include "base/generation.h"

#include <algorithm>

#include "base/fault.h"

namespace opentrn {

std::optional<Generation> generation_of_version(int64_t version) {
  const auto found =
      std::ranges::find(kGenerations, version, [](Generation g) { return int64_t{opentrn::version(g)}; });
  if (found == kGenerations.end()) return std::nullopt;
  return *found;
}

std::string_view table_key(Generation generation) {
  return name(generation).substr(sizeof("NeuronCore-") - 1);
}

std::string_view name(Generation generation) {
  switch (generation) {
    case Generation::kV1: return "NeuronCore-v1";
    case Generation::kV2: return "NeuronCore-v2";
    case Generation::kV3: return "NeuronCore-v3";
    case Generation::kV4: return "NeuronCore-v4";
  }
  OPENTRN_CHECK(false, "no NeuronCore generation {}", version(generation));
}

}  // namespace opentrn
