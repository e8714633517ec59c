// The steps of plans as the time of a run sees them: transfers over links, each behind those that it waits
// for. What is equal in it is found by classes_of(), so that one step stands for many.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "fabric/flows.h"
#include "fabric/network.h"

namespace opentrn::collectives {

struct StepTime {
  int64_t start_ps = 0, end_ps = 0;  // from when it was allowed to start
};

// Lists of numbers, one behind the other.
struct Lists {
  std::vector<int64_t> first = {0};
  std::vector<int32_t> items;

  size_t size() const { return first.size() - 1; }
  std::span<const int32_t> of(int32_t list) const {
    const auto at = static_cast<size_t>(list);
    return std::span(items).subspan(static_cast<size_t>(first[at]),
                                    static_cast<size_t>(first[at + 1] - first[at]));
  }
  void close() { first.push_back(static_cast<int64_t>(items.size())); }
  // From pairs of list and item, in any order.
  static Lists of_pairs(size_t lists, std::span<const std::pair<int32_t, int32_t>> pairs);
  // Which lists hold an item, for items 0 to size() - 1.
  Lists turned() const;
};

struct TimedStep {
  int64_t bytes = 0;     // 0: ends when its first byte would have arrived
  int64_t begin_ps = 0;  // from being allowed to start until its first byte leaves
  int64_t ready_ps = 0;  // not before this
  int64_t bytes_per_s_max = fabric::kNoLimit;
  int64_t packet_bytes = 0;  // what is moved is there one packet later; 0: at once
  int64_t multiplicity = 1;  // fabric::Flow::multiplicity
  int32_t way = 0;
  int32_t rank = 0;     // that issues it, numbered through all runs
  int32_t at_rank = 1;  // how many such steps one rank issues at once
  int32_t priority = 0;
  int32_t kind = 0;     // whatever the caller tells apart: no class has steps of two kinds
  bool bursts = false;  // its packets take turns with those of all that its rank may move at that time
};

struct TimingGraph {
  fabric::Network network;
  // Ways: hops of way w are hops[way_first[w]] up to hops[way_first[w + 1]].
  std::vector<int64_t> way_first = {0};
  std::vector<fabric::Hop> hops;
  std::vector<int64_t> way_latency_ps;
  std::vector<TimedStep> steps;
  Lists waits;  // [step]: those that must have ended
  int32_t ranks = 0;

  std::span<const fabric::Hop> hops_of(int32_t way) const {
    const auto at = static_cast<size_t>(way);
    return std::span(hops).subspan(static_cast<size_t>(way_first[at]),
                                   static_cast<size_t>(way_first[at + 1] - way_first[at]));
  }
  int32_t add_way(std::span<const fabric::Hop> way, int64_t latency_ps);
};

struct GraphTimes {
  std::vector<StepTime> steps;
  std::vector<int64_t> carried;  // bytes over each link of the network
  int32_t never_starts = -1;     // a step that waits for what never ends
  int64_t not_carried = 0;       // steps left when no link carries them
};
GraphTimes simulate(const TimingGraph& graph);

// Steps that start and end together, and links that carry the same all the time.
struct StepClasses {
  std::vector<int32_t> of_step, of_link;  // -1: a link that nothing crosses
  TimingGraph quotient;                   // a step and a link for each class
};

// The classes of an equitable partition: alike steps of one class take ways over links of the same classes
// with the same shares, wait for steps of the same classes, and are of ranks that issue equally many of each
// class; links of one class have one rate and carry equal shares of each class of steps. Rates are unique, so
// by induction over the events of a run all members of a class have the same times, and the quotient has
// them to the picosecond. Found by colour refinement on hashes; then checked number by number.
// Nothing when steps wait for each other in a circle, or when classes would save less than a tenth.
std::optional<StepClasses> classes_of(const TimingGraph& graph);

}  // namespace opentrn::collectives
