#include "fabric/alike_flows.h"

#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/drawn_flows_for_test.h"

namespace opentrn::fabric::alike_flows_tests {
namespace {

using namespace for_test;

// `unlike`: one in so many flows is another in each copy; 0: none. Some flows go to the next copy.
DrawnFlows copies_of(uint32_t seed, int copies, int unlike) {
  Draw draw(seed);
  DrawnFlows out;
  const int links = draw(1, 12), flows = draw(1, 24);
  std::vector<Link> machine;
  for (int i = 0; i < links; ++i) machine.push_back(drawn_link(draw));
  for (int copy = 0; copy < copies; ++copy)
    out.network.links.insert(out.network.links.end(), machine.begin(), machine.end());
  int64_t at_ps = 0;
  for (int i = 0; i < flows; ++i) {
    if (draw.one_in(2)) at_ps += int64_t{draw(1, 200)} * 1'000'000;
    const Flow flow = drawn_flow(draw, links);
    const int step = draw.one_in(4) ? 1 << draw(0, 2) : 0;  // the copy that half of its links are of
    for (int copy = 0; copy < copies; ++copy) {
      Begin begin{at_ps, unlike > 0 && draw.one_in(unlike) ? drawn_flow(draw, links) : flow};
      for (size_t h = 0; h < begin.flow.hops.size(); ++h)
        begin.flow.hops[h].link += (h % 2 == 0 ? copy : copy ^ step) % copies * links;
      out.begins.push_back(begin);
    }
  }
  return out;
}

TEST(AlikeFlows, EndWhenFlowsDo) {
  int64_t ends = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    const int copies = 1 + static_cast<int>(seed % 9), unlike = static_cast<int>(seed % 4) * 4;
    const DrawnFlows c = copies_of(seed, copies, unlike);
    Flows flows(c.network);
    AlikeFlows alike(c.network);
    const History wanted = history_of(c, flows), found = history_of(c, alike);
    ASSERT_EQ(found.ends, wanted.ends) << "seed " << seed;
    ASSERT_EQ(found.carried, wanted.carried) << "seed " << seed;
    ends += static_cast<int64_t>(found.ends.size());
  }
  EXPECT_GT(ends, 20'000);
}

// 64 copies, flows between neighbours in powers of two: what one of them is solved for is not solved again.
TEST(AlikeFlows, CopiesAreSpared) {
  int64_t solved = 0, spared = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    const DrawnFlows c = copies_of(seed, 64, 0);
    AlikeFlows alike(c.network);
    history_of(c, alike);
    solved += alike.solved();
    spared += alike.spared();
  }
  EXPECT_GT(spared, 20 * solved);
}

TEST(AlikeFlows, WhereNothingIsAlikeTheyDoNotPay) {
  Network net;
  Draw draw(5);
  constexpr LinkId kLinks = 4000;
  for (LinkId link = 0; link < kLinks; ++link)
    net.links.push_back({0, 1, 1'000'000'000 + int64_t{draw(0, 999'999'999)}, 0, LinkClass::kHbm});
  AlikeFlows alike(net);
  EXPECT_TRUE(alike.pays());
  Flow flow;
  flow.bytes = 1'000'000'000;
  for (int turn = 0; turn < 15; ++turn) {
    for (LinkId link = 0; link < kLinks; ++link) {
      flow.hops = {{link, kWholeShare}};
      alike.start(turn, flow);
    }
    alike.next_end();
  }
  EXPECT_FALSE(alike.pays());
}

// A flow may start when another ends that has not been told yet, as with Flows.
TEST(AlikeFlows, AFlowMayStartWhenOneEnds) {
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
  EXPECT_THAT(ends(AlikeFlows(net)), testing::ElementsAreArray(ends(Flows(net))));
}

}  // namespace
}  // namespace opentrn::fabric::alike_flows_tests
