// What the collectives of a run did to the fabric, for people and programs: when each was under way, by which
// algorithm and how fast, who kept whom waiting, what of it nothing hid, and how busy each link was over
// time.
//
// Filled by whoever knows the run (ranks of an NKI kernel, the step of a JAX program, a prediction of one
// collective); its forms are the same for all.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "collectives/timing.h"
#include "fabric/platform.h"

namespace opentrn::traffic {

// One collective of one group.
struct Collective {
  std::string name;       // "all_reduce(add) of float32[128, 256]"
  std::string algorithm;  // "mesh"
  std::string why;        // as a clause
  std::string where;      // "kernel.py:12"; empty where nobody knows
  std::vector<int> group;
  int64_t bytes = 0;  // as nccom-test counts them: of the larger of input and output
  int stream = 0;     // of the CC-cores
  // By rank of the group: when it asked for the collective, when its CC-cores were free for it, when it was
  // through.
  std::vector<double> triggered_ns, arrived_ns, ended_ns;
  double bus_factor = 1;  // of nccom-test
  double times = 1;       // how often it runs like this, in loops

  double first_arrival_ns() const;
  double start_ns() const;  // the last has arrived
  double end_ns() const;
  int slowest() const;      // the rank that arrived last
  double bus_gb_s() const;  // from the last arrival on; 0 where it takes no time
  double algorithm_gb_s() const;
};

// A stretch of a rank's time, beside collectives or without.
struct Interval {
  double start_ns = 0, end_ns = 0;
};

struct Rank {
  std::string name;  // "rank 3"
  double total_ns = 0;
  double collectives_ns = 0;      // some collective of it is under way
  double exposed_ns = 0;          // ... and nothing else
  double waiting_ns = 0;          // of the exposed time: for ranks that came later
  std::vector<Interval> compute;  // engines or transfers of its own at work, in order
};

struct Link {
  std::string name;  // "server 0 chip 3 -> server 0 chip 7"
  std::string kind;  // "NeuronLink"
  double gb_s = 0;   // its rate
  int64_t bytes = 0;
  double percent = 0;                    // of its rate, over the time in which collectives are under way
  std::vector<float> percent_over_time;  // in equal parts of Traffic::total_ns
};

struct Traffic {
  std::string title, machine;
  double total_ns = 0;
  double collectives_ns = 0;            // some collective is under way
  double exposed_ns = 0;                // of the rank where it is longest
  std::vector<Rank> ranks;              // those that are shown; one may stand for all
  std::string ranks_note;               // which those are, where they are not all
  std::vector<Collective> collectives;  // in the order of their starts
  std::vector<Link> links;              // busiest first
  int64_t links_used = 0;               // of which `links` are the busiest
  std::string band;                     // how far to trust the collectives' times
  std::vector<std::string> basis;       // keys of tables, by their confidence
  std::vector<std::string> assumptions;

  // "exposed 12.3 of 40.1 us; NeuronLink server 0 chip 0 -> ... at 93 %": what to look at first.
  std::string verdict() const;
};

// Adds up what links carry, over the time of a run.
class LinkMeter {
 public:
  static constexpr int kParts = 240;
  LinkMeter(const fabric::Platform& platform, int64_t total_ps);
  // Transfers of runs that were timed together, `offset_ps` after the run's beginning.
  void add(std::span<const collectives::Run> runs, std::span<const collectives::RunTime> times,
           int64_t offset_ps);
  // The busiest `most` of those that carried something, and how many there are. `under_way_ns`: of
  // collectives.
  void fill(Traffic& traffic, double under_way_ns, size_t most = 16) const;

 private:
  void add_bytes(int32_t link, int64_t start_ps, int64_t end_ps, double bytes);

  const fabric::Platform& platform_;
  int64_t total_ps_;
  std::vector<double> bytes_;               // [link]
  std::vector<std::vector<double>> parts_;  // [link]; empty: nothing
};

// The length of what the intervals cover; they may overlap.
double covered_ns(std::vector<Interval> intervals);
// The same as intervals that do not overlap, in order; gaps of up to `gap_ns` are closed.
std::vector<Interval> merged(std::vector<Interval> intervals, double gap_ns = 0);
// What of `all` no stretch of `but` covers. Both merged.
std::vector<Interval> without(std::span<const Interval> all, std::span<const Interval> but);

nlohmann::ordered_json json(const Traffic& traffic);
// At most 120 columns; the `most` longest collectives and busiest links.
std::string text(const Traffic& traffic, size_t most = 8);
// Chrome trace events, which ui.perfetto.dev opens: a process for the ranks, one for the CC-cores and one for
// the links. A whole file.
void write_perfetto(const Traffic& traffic, std::ostream& out);

}  // namespace opentrn::traffic
