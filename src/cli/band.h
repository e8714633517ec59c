// How sure a predicted time of a collective is, as JSON: {"share", "low", "high", "runs", "kind"}, of the
// predicted time; or {"unknown": why}.
#pragma once

#include <nlohmann/json.hpp>

#include "arch/evidence.h"

namespace opentrn::cli {

inline nlohmann::ordered_json band_json(const arch::Band& band) {
  if (!band.known()) return {{"unknown", band.unknown}};
  return {{"share", band.share},
          {"low", band.low},
          {"high", band.high},
          {"runs", band.runs},
          {"kind", band.kind}};
}

}  // namespace opentrn::cli
