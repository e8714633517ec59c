#include "profile/stages.h"

namespace opentrn::profile {

StageTotals add_up(const std::vector<const Profile*>& programs) {
  StageTotals totals;
  for (size_t i = 0; i < programs.size(); ++i) {
    const Profile& program = *programs[i];
    const double ns = program.summary.total_ns;
    if (ns > programs[totals.longest]->summary.total_ns) totals.longest = i;
    totals.total_ns += ns;
    totals.launch_ns += program.summary.launch_ns;
    totals.mfu_percent += program.mfu_estimated_percent * ns;
    totals.mbu_percent += program.mbu_estimated_percent * ns;
  }
  totals.mfu_percent /= totals.total_ns;
  totals.mbu_percent /= totals.total_ns;
  return totals;
}

}  // namespace opentrn::profile
