// Many flows as few, by a symmetry of the network.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "fabric/flows.h"
#include "fabric/network.h"

namespace opentrn::fabric {

struct Folded {
  Network network;          // one link of each orbit, in order of the orbits' numbers
  std::vector<Flow> flows;  // one flow of each orbit
};

// The orbits of links and flows under a group of symmetries, as numbers from 0, for each link and each flow;
// -1 for a link that no flow crosses. The maximal allocation is unique, so a symmetry maps it to itself, and
// a run of the folded flows on the folded network gives every flow of an orbit the rate and the time of its
// one. kInput when the orbits are none: links of one orbit with different rates, flows of one orbit that
// differ, or that load the links of an orbit unequally.
Folded fold(const Network& network, std::span<const int32_t> orbit_of_link, std::span<const Flow> flows,
            std::span<const int32_t> orbit_of_flow);

}  // namespace opentrn::fabric
