#include "fabric/recurring_flows.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::fabric::recurring_flows_tests {
namespace {

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int operator()(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool one_in(int n) { return (*this)(1, n) == 1; }

 private:
  std::mt19937 random_;
};

struct Begin {
  int64_t at_ps = 0;
  Flow flow;
};

struct Case {
  Network network;
  std::vector<Begin> begins;  // by time
};

Flow drawn_flow(Draw& draw, int links) {
  Flow out;
  for (int link = 0; link < links; ++link)
    if (draw(0, links / 2) == 0)
      out.hops.push_back({link, draw.one_in(3) ? kWholeShare / draw(1, 4) : kWholeShare});
  if (draw.one_in(5)) out.bytes_per_s_max = int64_t{draw(1, 20)} * 500'000'000;
  out.priority = draw.one_in(4) ? draw(0, 2) : 0;
  out.weight = draw.one_in(4) ? draw(1, 8) : 1;
  out.multiplicity = draw.one_in(6) ? draw(2, 5) : 1;
  return out;
}

// A few kinds of flows that start again and again, with other bytes.
Case drawn(uint32_t seed) {
  Draw draw(seed);
  Case out;
  const int links = draw(1, 12), kinds = draw(1, 6), flows = draw(1, 80);
  for (int i = 0; i < links; ++i)
    out.network.links.push_back(
        {0, 1, draw.one_in(40) ? 0 : int64_t{draw(1, 100)} * 1'000'000'000, 0, LinkClass::kHbm});
  std::vector<Flow> of_kind;
  for (int i = 0; i < kinds; ++i) of_kind.push_back(drawn_flow(draw, links));
  int64_t at_ps = 0;
  for (int i = 0; i < flows; ++i) {
    if (draw.one_in(2)) at_ps += int64_t{draw(1, 60)} * 1'000'000;
    Begin begin{at_ps, of_kind[static_cast<size_t>(draw(0, kinds - 1))]};
    begin.flow.bytes = draw.one_in(12) ? 0 : int64_t{draw(1, 40)} * 25'000;
    out.begins.push_back(begin);
  }
  return out;
}

struct History {
  std::vector<std::pair<int64_t, FlowId>> ends;
  std::vector<int64_t> carried;  // over each link, at each time
};

template <typename TheFlows>
History history_of(const Case& c, TheFlows& flows) {
  History out;
  for (size_t next = 0;;) {
    const int64_t begin = next < c.begins.size() ? c.begins[next].at_ps : INT64_MAX;
    const int64_t now = std::min(begin, flows.next_end());
    if (now == INT64_MAX) return out;
    for (const FlowId id : flows.advance(now)) out.ends.emplace_back(now, id);
    for (; next < c.begins.size() && c.begins[next].at_ps == now; ++next)
      flows.start(now, c.begins[next].flow);
    for (size_t link = 0; link < c.network.links.size(); ++link)
      out.carried.push_back(flows.carried(static_cast<LinkId>(link)));
  }
}

TEST(RecurringFlows, EndWhenFlowsDo) {
  int64_t solved = 0, spared = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    const Case c = drawn(seed);
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
    if (link == 2) EXPECT_TRUE(other.pays());  // little has been solved yet
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
