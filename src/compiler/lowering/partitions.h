// Where an engine's access may begin.
#pragma once

#include <cstdint>

namespace opentrn::compiler {

// Engines begin at partition 0, 32, 64 or 96, and reach as far as isa.C7 says.
inline bool engines_reach(int64_t partition, int64_t rows) {
  if (partition == 0) return true;
  return partition == 64 ? rows <= 64 : partition % 32 == 0 && rows <= 32;
}

}  // namespace opentrn::compiler
