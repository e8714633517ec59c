// What a search may vary about a lowering (pipeline/search.h).
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "base/generation.h"

namespace opentrn::compiler {

inline constexpr int64_t kNoPrologues = std::numeric_limits<int64_t>::max();

struct Choices {
  double resident_share = 1.0;  // of the room that kernels leave in SBUF, for values that stay there
  bool arranged = true;         // values are kept as products read them (lowering/arrangements.cc)
  // Of operands of products that are computed as they are loaded (lowering/plan.h), at least.
  int64_t prologue_elements = 0;
  int64_t panel_bytes = 64 * 1024;     // of a partition, for what a product streams
  bool donated_inputs = false;         // Options::donate_inputs; not searched
  std::optional<Generation> costs_of;  // Options::costs_of; not searched
};

}  // namespace opentrn::compiler
