// Collectives of a job on the links of its cluster, in place of two tiers: each runs on all ranks of the job
// at once, by the plan of src/collectives for its groups, over links that those share. A unit (an instance or
// an UltraServer) stands for all of them where that is exact (collectives/training.h).
//
// Assumed: collectives that a rank waits for meet no others on the links. Those that go on beside them do
// (`added_s`).
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "collectives/request.h"
#include "collectives/training.h"
#include "fabric/platform.h"
#include "planner/communication.h"

namespace opentrn::planner {

class Links {
 public:
  // `unit`: an instance or an UltraServer; `tables` outlive this. The network above the units is `cluster`'s.
  Links(const arch::Tables& tables, std::string unit, int units, int cores_per_rank, fabric::Cluster cluster);

  // Seconds of one that every group of the job runs at once; `bytes` as communication.h counts them. An input
  // fault for groups that are not of the job's ranks, and for more of them than can be written out where they
  // do not lie evenly on units and pods.
  double seconds(collectives::Kind kind, Group group, double bytes);
  // By which a stretch of work takes longer with `hidden` beside it, which begin with it and one after the
  // other: `compute_s` in equal parts, behind each of them a collective of `inside`. Both share the links.
  double added_s(double compute_s, std::span<const Call> inside, std::span<const Call> hidden);

  int64_t ranks() const { return ranks_; }
  const fabric::Cluster& cluster() const { return cluster_; }
  // Collectives that were simulated; of the largest of them the units that were written out (1 stands for
  // all), their transfers, and the classes of equal ones.
  int64_t simulated() const { return simulated_; }
  int units_written() const { return units_written_; }
  int64_t written() const { return written_; }
  int64_t classes() const { return classes_; }

 private:
  struct Asked {
    collectives::Kind kind = {};
    int64_t ranks, stride, bytes;
    auto operator<=>(const Asked&) const = default;
  };
  Asked bounded(Asked asked) const;
  int units_for(const Asked& asked) const;
  double one_s(const Asked& asked);
  Asked asked_of(const Call& call) const;
  // Their groups as axes of one job. An input fault where those cut each other.
  collectives::TrainingJob job_of(std::span<const Asked> calls) const;
  collectives::TrainingStep step_of(const collectives::TrainingJob& job, const Asked& asked) const;
  double time_of(const collectives::TrainingJob& job, const Asked& asked);

  const arch::Tables& tables_;
  std::string unit_;
  int units_, cores_per_rank_;
  int64_t ranks_of_unit_, ranks_;
  fabric::Cluster cluster_;
  std::mutex mutex_;
  std::map<Asked, double> known_;
  std::map<std::pair<int64_t, std::vector<Asked>>, double> known_added_;
  int64_t simulated_ = 0, written_ = 0, classes_ = 0;
  int units_written_ = 0;
};

}  // namespace opentrn::planner
