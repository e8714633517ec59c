// What a published job's failures say of another job: rates by cause, how long a restart and a checkpoint
// take, and how far each may be off.
#pragma once

#include <string>
#include <vector>

#include "arch/tables.h"
#include "planner/between.h"
#include "planner/goodput/goodput.h"

namespace opentrn::planner {

struct Profile {
  std::string name, note, source;
  bool with_hosts = false;        // failures come with hosts, not with chips
  bool restarts_by_hand = false;  // whose time nobody published
  double chips = 0, chips_per_host = 0, days = 0;
  std::vector<std::string> causes;
  std::vector<double> counts, takes_host;
  double failures_seen = 0;
  double parameters = 0;                   // of the model; 0: not known
  double checkpoint_gb_s = 0;              // of all its hosts; 0: not known
  std::vector<std::string> calibrated_on;  // rows that its values were read off

  double per_chip_hour() const;  // of all causes; of a host's chips where failures come with hosts
};

// Input faults: a name that there is not, with those there are.
Profile profile_of(const arch::Tables& tables, const std::string& name);
std::vector<std::string> profiles(const arch::Tables& tables);

// Whom to ask about goodput.
struct GoodputJob {
  std::string profile = "llama3";
  double chips = 0, chips_per_host = 8;
  bool own_hardware = true;     // chips like the profile's; false: others, whose rates are only assumed
  double checkpoint_bytes = 0;  // 0: none is written, which only a job without failures can afford
  double checkpoint_gb_s = 0;   // of all hosts; 0: as assumed of a host
  double stall_s = -1;          // that work stands still for a checkpoint written behind it; < 0: all of it
  double interval_s = 0;        // 0: the best one
  double restart_s = 0;         // 0: as assumed
  double mttf_h = 0;            // stated by the user, in place of the profile's rate; 0: not
  std::optional<int> spares = std::nullopt;
  double repair_h = 0;    // 0: as assumed
  double slow_hosts = 0;  // share of hosts that are slow
  double slowdown = 0;
};

// A job, and what is not known of it.
struct UncertainJob {
  Reliability nominal;
  Between rate;  // factor on all rates
  Between restart_s, write_s;
  std::vector<std::string> assumed;  // in words, for the report
  std::vector<std::string> basis;    // keys of the tables
};

// Input faults: numbers out of range; no size of a checkpoint where there are failures.
UncertainJob reliability_of(const arch::Tables& tables, const GoodputJob& job);

// The interval of the goodput, and what of it each input alone makes.
struct GoodputInterval {
  Between useful;
  double by_rate = 0, by_restart = 0, by_write = 0;  // width, with the others at their values
};
GoodputInterval goodput_interval(const UncertainJob& job, uint64_t seed, int samples = 2000);

// Bytes of a checkpoint of so many parameters.
double checkpoint_bytes(const arch::Tables& tables, double parameters);

}  // namespace opentrn::planner
