// Plans with one thing wrong, for tests of the verifier.
#pragma once

#include <string>

#include "base/random.h"
#include "collectives/plan.h"

namespace opentrn::collectives {

// Changes one thing of the plan, chosen at random: a wait is lost or waits for another step, peers or steps
// are exchanged, a range is shifted, cut or moved to another buffer, a step is lost, doubled or put on
// another channel, a source is lost or exchanged, a reduction becomes a copy, scratch memory shrinks. What
// was done;
// "" when the plan has nothing of the kind.
std::string mutate(Plan& plan, SplitMix64& random);

}  // namespace opentrn::collectives
