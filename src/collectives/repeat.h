// A plan several times over, as a stream runs operations one after the other.
#pragma once

#include "collectives/plan.h"

namespace opentrn::collectives {

// A rank begins its next operation when all of its own steps of the one before have ended, and all that write
// to it; nobody writes to it earlier.
Plan repeated(const Plan& plan, int times);

}  // namespace opentrn::collectives
