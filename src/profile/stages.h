// The time of a model in stages: programs that run one after the other.
#pragma once

#include <cstddef>
#include <vector>

#include "profile/profile.h"

namespace opentrn::profile {

struct StageTotals {
  double total_ns = 0;                      // of all programs, without their launches
  double launch_ns = 0;                     // of all launches
  double mfu_percent = 0, mbu_percent = 0;  // means over time
  size_t longest = 0;                       // the program that takes most; the first of several
};

// At least one.
StageTotals add_up(const std::vector<const Profile*>& programs);

}  // namespace opentrn::profile
