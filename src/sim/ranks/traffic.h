// What the collectives of a launch did to the fabric, from its times and traces.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "sim/ranks/launch.h"
#include "traffic/traffic.h"

namespace opentrn::sim::ranks {

// `traces`: by rank. `names` and `places` (file:line) of the collectives.
traffic::Traffic traffic_of(const arch::Tables& tables, const fabric::Platform& platform,
                            std::span<const Collective> collectives, std::span<const std::string> names,
                            std::span<const std::string> places, const Result& result,
                            std::span<const trace::Trace* const> traces);

}  // namespace opentrn::sim::ranks
