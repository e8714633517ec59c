// Transfers that share links: who gets how much, and when each ends.
//
// The allocation is max-min fair: no flow can get more without taking from one that has less. Classes of
// priority come one after the other: a class shares what the classes before it left. Rates are whole numbers
// of 2^-16 bytes per second and times whole picoseconds, so results do not depend on the order in which flows
// were started, and a run in which one flow stands for all its images under a symmetry of the network ends at
// the same picosecond as the run of all of them.
//
// Only what a change can reach is solved again: flows that share links, over links that can be full. A link
// that could carry all its flows at the most that their other links allow is never full, whatever happens.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "fabric/network.h"

namespace opentrn::fabric {

using FlowId = int32_t;
inline constexpr int64_t kNoLimit = INT64_MAX;

// No link and no flow is faster: 70 TB/s.
inline constexpr int64_t kBytesPerSecondMax = int64_t{1} << 46;

// Flows that share a bottleneck get rates in proportion to their weights.
//
// One flow may stand for all its images under a symmetry of the network, and one link for all of its own (its
// orbit): `bytes`, limit and rate are those of one image, and a hop's share times `multiplicity` is what all
// images together put on one link of the orbit, whose capacity is that of one link. So if 16 flows each cross
// one link of an orbit of 4, the folded flow crosses the link that is kept with a multiplicity of 4, and
// where the numbers differ from hop to hop they are in the shares. Loads are then the same whole numbers as
// in the run of all flows, and so are rates and times.
struct Flow {
  std::vector<Hop> hops;               // each link once
  int64_t bytes = 0;                   // 0: ends when it starts
  int64_t bytes_per_s_max = kNoLimit;  // of this flow alone
  int priority = 0;                    // 0 is served first
  int64_t multiplicity = 1;
  int32_t weight = 1;
};

// A network in which flows start and end.
class Flows {
 public:
  explicit Flows(const Network& network);
  Flows(const Flows& other);  // which goes on by itself
  Flows& operator=(const Flows&) = delete;
  ~Flows();

  // Time never goes back: `at_ps` is at or after now(). Several starts at one time are solved once.
  FlowId start(int64_t at_ps, Flow flow);
  int64_t now() const;
  // The next time at which some flow ends; INT64_MAX: none is under way, or what is under way has no rate.
  int64_t next_end();
  // Goes to `at_ps`, at most next_end(); the flows that have ended by then, in order of their ids.
  std::span<const FlowId> advance(int64_t at_ps);
  // How many flows were solved again until now, for tests and statistics.
  int64_t solved() const;
  // Now, in bytes per second: rounded down, with the fraction, and in units of 2^-16.
  int64_t rate(FlowId flow);
  double exact_rate(FlowId flow);
  int64_t rate_units(FlowId flow);
  // From now on; 0 takes the link down.
  void set_rate(LinkId link, int64_t bytes_per_s);
  // What has crossed the link until now, in bytes: for utilisation.
  int64_t carried(LinkId link) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The allocation by its definition, in long double and bytes per second: slow, and what Flows is tested
// against.
std::vector<double> max_min_reference(const Network& network, std::span<const Flow> flows);

}  // namespace opentrn::fabric
