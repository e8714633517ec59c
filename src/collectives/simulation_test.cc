#include "collectives/simulation.h"

#include <gtest/gtest.h>

#include "fabric/flows.h"

namespace opentrn::collectives {
namespace {

// Stops to pay behind the first flow, and pays again when it was asked what a link carried, as solving what
// is under way may make it.
class FlowsThatStop {
 public:
  explicit FlowsThatStop(const fabric::Network& network) : flows_(network) {}
  fabric::FlowId start(int64_t at_ps, const fabric::Flow& flow) { return flows_.start(at_ps, flow); }
  int64_t next_end() { return flows_.next_end(); }
  auto advance(int64_t at_ps) {
    const auto ended = flows_.advance(at_ps);
    pays_ &= ended.empty();
    return ended;
  }
  int64_t carried(fabric::LinkId link) {
    pays_ = true;
    return flows_.carried(link);
  }
  bool pays() const { return pays_; }

 private:
  fabric::Flows flows_;
  bool pays_ = true;
};

// Steps of 1,000 bytes, one behind the other, over a link of 1 GB/s.
TimingGraph chain(int32_t steps) {
  TimingGraph graph;
  graph.ranks = 1;
  graph.network.links.push_back({.bytes_per_s = 1'000'000'000});
  const std::vector<fabric::Hop> way = {{.link = 0}};
  graph.add_way(way, 0);
  for (int32_t step = 0; step < steps; ++step) {
    graph.steps.push_back({.bytes = 1000});
    if (step > 0) graph.waits.items.push_back(step - 1);
    graph.waits.close();
  }
  return graph;
}

// Half of the steps had no end, and the whole an end of 0, without a word.
TEST(Simulation, WhatStopsEarlyHasNoTimes) {
  const TimingGraph two = chain(2), one = chain(1);
  EXPECT_FALSE(SimulationOver<FlowsThatStop>(two).run_while_it_pays());
  const auto alone = SimulationOver<FlowsThatStop>(one).run_while_it_pays();
  ASSERT_TRUE(alone);
  EXPECT_EQ(alone->steps[0].end_ps, 1'000'000);
  const GraphTimes times = simulate(two);
  EXPECT_EQ(times.steps[1].end_ps, 2'000'000);
  EXPECT_EQ(times.carried[0], 2000);
}

}  // namespace
}  // namespace opentrn::collectives
