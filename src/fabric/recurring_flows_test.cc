#include "fabric/recurring_flows.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/drawn_flows_for_test.h"

namespace opentrn::fabric::recurring_flows_tests {
namespace {

using namespace for_test;

// A few kinds of flows that start again and again, with other bytes.
DrawnFlows drawn(uint32_t seed) {
  Draw draw(seed);
  DrawnFlows out;
  const int links = draw(1, 12), kinds = draw(1, 6), flows = draw(1, 80);
  for (int i = 0; i < links; ++i) out.network.links.push_back(drawn_link(draw));
  std::vector<Flow> of_kind;
  for (int i = 0; i < kinds; ++i) of_kind.push_back(drawn_flow(draw, links));
  int64_t at_ps = 0;
  for (int i = 0; i < flows; ++i) {
    if (draw.one_in(2)) at_ps += int64_t{draw(1, 60)} * 1'000'000;
    Begin begin{at_ps, of_kind[static_cast<size_t>(draw(0, kinds - 1))]};
    begin.flow.bytes = drawn_bytes(draw);
    out.begins.push_back(begin);
  }
  return out;
}

TEST(RecurringFlows, EndWhenFlowsDo) {
  int64_t solved = 0, spared = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    const DrawnFlows c = drawn(seed);
    Flows flows(c.network);
    RecurringFlows recurring(c.network);
    const History wanted = history_of(c, flows), found = history_of(c, recurring);
    ASSERT_EQ(found.ends, wanted.ends) << "seed " << seed;
    ASSERT_EQ(found.carried, wanted.carried) << "seed " << seed;
    solved += recurring.solved();
    spared += recurring.spared();
  }
  EXPECT_GT(spared, solved / 4);
  EXPECT_GT(solved, 20'000);
}

TEST(RecurringFlows, WhereNothingRecursTheyDoNotPay) {
  Network net;
  Draw draw(5);
  constexpr LinkId kLinks = 100;
  for (LinkId link = 0; link < kLinks; ++link)
    net.links.push_back({0, 1, 1'000'000'000 + int64_t{draw(0, 999'999'999)}, 0, LinkClass::kHbm});
  const auto flow_over = [](LinkId link, int64_t bytes) {
    Flow flow;
    flow.bytes = bytes;
    flow.hops = {{link, kWholeShare}};
    return flow;
  };
  RecurringFlows other(net), same(net);
  for (LinkId link = 0; link < kLinks; ++link) {
    other.start(link, flow_over(link, 1'000'000'000));
    other.next_end();
    if (link == 2) {
      EXPECT_TRUE(other.pays());  // little has been solved yet
    }
  }
  EXPECT_FALSE(other.pays());
  for (int64_t turn = 0; turn < 2 * kLinks; ++turn) {
    same.start(same.now(), flow_over(7, 1000));
    same.advance(same.next_end());
  }
  EXPECT_TRUE(same.pays());
  EXPECT_EQ(same.solved(), 1);
  EXPECT_EQ(same.spared(), 2 * kLinks - 1);
}

TEST(RecurringFlows, ManyUnderWayDoNotPay) {
  Network net;
  net.links = {{0, 1, 1'000'000'000, 0, LinkClass::kHbm}};
  RecurringFlows flows(net);
  Flow flow;
  flow.hops = {{0, kWholeShare}};
  flow.bytes = 1000;
  for (int i = 0; i < 512; ++i) flows.start(0, flow);
  EXPECT_TRUE(flows.pays());
  flows.start(0, flow);
  EXPECT_FALSE(flows.pays());
}

// A flow may start when another ends that has not been told yet, as with Flows.
TEST(RecurringFlows, AFlowMayStartWhenOneEnds) {
  Network net;
  net.links = {{0, 1, 1'000'000'000, 0, LinkClass::kHbm}};
  const auto ends = [&](auto flows) {
    Flow flow;
    flow.hops = {{0, kWholeShare}};
    flow.bytes = 1000;
    flows.start(0, flow);
    flows.start(1'000'000, flow);
    std::vector<int64_t> out;
    for (int64_t end = flows.next_end(); end != INT64_MAX; end = flows.next_end())
      for (const FlowId id : flows.advance(end)) out.push_back(end + id);
    return out;
  };
  EXPECT_THAT(ends(RecurringFlows(net)), testing::ElementsAreArray(ends(Flows(net))));
}

}  // namespace
}  // namespace opentrn::fabric::recurring_flows_tests
