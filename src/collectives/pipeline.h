// The parts of an all-reduce's pipeline, of which one stands for all.
//
// Each part takes the same steps on memory of its own, in three phases: within units, between them, within
// them again. The phases of several parts overlap, and what they have to do with each other are the queues of
// their ranks alone: a phase begins on a queue behind the phase that the queue has before it. So the graph of
// one part has the classes of all parts, where steps of one class begin and end phases together.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/symmetric.h"
#include "collectives/timing_graph.h"

namespace opentrn::collectives {

inline constexpr int kPhases = 3;

// Of each step of the graph of one part.
struct PartSteps {
  std::vector<int8_t> phase;
  std::vector<int32_t> queue;  // numbered through all ranks
  std::vector<bool> is_local;  // within the memory of a rank
  int64_t step_ps = 0;         // Costs::step_ps: of a step that does not continue the one before it
};

// Steps of different phases, and local ones and others, are told apart in `graph` from here on (their kinds);
// the first steps of phases begin as if they continued none.
void tell_phases_apart(TimingGraph& graph, const PartSteps& steps);

// What a refinement did not know: where steps of one class begin phases on queues that go on with steps of
// different classes, these get kinds of their own. Whether there were any.
bool tell_queues_apart(TimingGraph& graph, const std::vector<int32_t>& of_step, const PartSteps& steps);

// The graph of `parts` such parts, whose steps are the classes of one (`of_step`; `classes` is its quotient),
// part after part. Nothing where steps of one class do not begin or end phases together, or where there are
// too many.
std::optional<TimingGraph> pipelined(const TimingGraph& classes, const std::vector<int32_t>& of_step,
                                     const PartSteps& steps, int parts);

// The order in which a rank begins the phases of all parts: a part, and a phase of it.
struct PartPhase {
  int part = 0, phase = 0;
};
std::vector<PartPhase> order_of_phases(int parts);

}  // namespace opentrn::collectives
