#include "fabric/alike_flows.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::fabric::alike_flows_tests {
namespace {

struct Begin {
  int64_t at_ps = 0;
  Flow flow;
};

// Copies of one machine side by side, and what starts on them when.
struct Case {
  Network network;
  std::vector<Begin> begins;  // by time
};

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int operator()(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool one_in(int n) { return (*this)(1, n) == 1; }

 private:
  std::mt19937 random_;
};

Flow drawn_flow(Draw& draw, int links) {
  Flow out;
  for (int link = 0; link < links; ++link)
    if (draw(0, links / 2) == 0)
      out.hops.push_back({link, draw.one_in(3) ? kWholeShare / draw(1, 4) : kWholeShare});
  out.bytes = draw.one_in(12) ? 0 : int64_t{draw(1, 40)} * 25'000;
  if (draw.one_in(5)) out.bytes_per_s_max = int64_t{draw(1, 20)} * 500'000'000;
  out.priority = draw.one_in(4) ? draw(0, 2) : 0;
  out.weight = draw.one_in(4) ? draw(1, 8) : 1;
  out.multiplicity = draw.one_in(6) ? draw(2, 5) : 1;
  return out;
}

// `unlike`: one in so many flows is another in each copy; 0: none. Some flows go to the next copy.
Case copies_of(uint32_t seed, int copies, int unlike) {
  Draw draw(seed);
  Case out;
  const int links = draw(1, 12), flows = draw(1, 24);
  std::vector<Link> machine;
  for (int i = 0; i < links; ++i)
    machine.push_back(
        {0, 1, draw.one_in(40) ? 0 : int64_t{draw(1, 100)} * 1'000'000'000, 0, LinkClass::kHbm});
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

struct History {
  std::vector<std::pair<int64_t, FlowId>> ends;
  std::vector<int64_t> carried;  // over each link, at each time
  friend bool operator==(const History&, const History&) = default;
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

TEST(AlikeFlows, EndWhenFlowsDo) {
  int64_t ends = 0;
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    const int copies = 1 + static_cast<int>(seed % 9), unlike = static_cast<int>(seed % 4) * 4;
    const Case c = copies_of(seed, copies, unlike);
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
    const Case c = copies_of(seed, 64, 0);
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
