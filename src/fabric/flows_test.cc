#include "fabric/flows.h"

#include <algorithm>
#include <chrono>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::fabric {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Network network_of(const std::vector<int64_t>& rates) {
  Network out;
  out.nodes.resize(2);
  for (int64_t rate : rates) out.links.push_back({0, 1, rate, 0, LinkClass::kNeuronLink});
  return out;
}

Flow flow_over(const std::vector<LinkId>& links, int64_t bytes) {
  Flow out;
  for (LinkId link : links) out.hops.push_back({link, kWholeShare});
  out.bytes = bytes;
  return out;
}

// Runs to the end: (time, id) of each flow.
std::vector<std::pair<int64_t, FlowId>> drain(Flows& flows) {
  std::vector<std::pair<int64_t, FlowId>> out;
  for (int64_t end = flows.next_end(); end != INT64_MAX; end = flows.next_end())
    for (FlowId id : flows.advance(end)) out.emplace_back(end, id);
  return out;
}

TEST(Flows, TwoFlowsShareALink) {
  const Network net = network_of({10'000'000'000});
  Flows flows(net);
  const FlowId a = flows.start(0, flow_over({0}, 10'000));
  const FlowId b = flows.start(0, flow_over({0}, 20'000));
  EXPECT_EQ(flows.rate(a), 5'000'000'000);
  EXPECT_EQ(flows.next_end(), 2'000'000);  // 10,000 B at 5 GB/s: 2 us
  EXPECT_THAT(flows.advance(2'000'000), ElementsAre(a));
  EXPECT_EQ(flows.rate(b), 10'000'000'000);
  EXPECT_EQ(flows.next_end(), 3'000'000);
  EXPECT_THAT(flows.advance(3'000'000), ElementsAre(b));
  EXPECT_EQ(flows.carried(0), 30'000);
  EXPECT_EQ(flows.next_end(), INT64_MAX);
}

// The textbook's example: the long flow is held by the narrow link, and the others take what it leaves.
TEST(Flows, AFlowThatIsHeldElsewhereLeavesTheRest) {
  const Network net = network_of({1'000'000'000, 3'000'000'000});
  Flows flows(net);
  const FlowId longer = flows.start(0, flow_over({0, 1}, 1 << 20));
  const FlowId narrow = flows.start(0, flow_over({0}, 1 << 20));
  const FlowId wide = flows.start(0, flow_over({1}, 1 << 20));
  EXPECT_EQ(flows.rate(longer), 500'000'000);
  EXPECT_EQ(flows.rate(narrow), 500'000'000);
  EXPECT_EQ(flows.rate(wide), 2'500'000'000);
}

TEST(Flows, SharesLoadALinkInPart) {
  const Network net = network_of({1'000'000'000});
  Flows flows(net);
  Flow half = flow_over({0}, 1 << 20);
  half.hops[0].share = kWholeShare / 2;
  const FlowId id = flows.start(0, half);
  EXPECT_EQ(flows.rate(id), 2'000'000'000);
}

TEST(Flows, LimitsWeightsAndPriorities) {
  const Network net = network_of({9'000'000'000});
  Flows flows(net);
  Flow limited = flow_over({0}, 1 << 30);
  limited.bytes_per_s_max = 1'000'000'000;
  Flow heavy = flow_over({0}, 1 << 30);
  heavy.weight = 3;
  const FlowId a = flows.start(0, limited);
  const FlowId b = flows.start(0, heavy);
  const FlowId c = flows.start(0, flow_over({0}, 1 << 30));
  Flow later = flow_over({0}, 1 << 30);
  later.priority = 1;
  const FlowId d = flows.start(0, later);
  EXPECT_EQ(flows.rate(a), 1'000'000'000);
  EXPECT_EQ(flows.rate(b), 6'000'000'000);
  EXPECT_EQ(flows.rate(c), 2'000'000'000);
  EXPECT_EQ(flows.rate(d), 0);
}

TEST(Flows, ALowerClassGetsWhatIsLeft) {
  const Network net = network_of({9'000'000'000, 4'000'000'000});
  Flows flows(net);
  const FlowId first = flows.start(0, flow_over({0, 1}, 1 << 20));
  Flow later = flow_over({0}, 1 << 20);
  later.priority = 3;
  const FlowId second = flows.start(0, later);
  EXPECT_EQ(flows.rate(first), 4'000'000'000);
  EXPECT_EQ(flows.rate(second), 5'000'000'000);
}

TEST(Flows, ALinkThatGoesDownHoldsItsFlowsUntilItIsBack) {
  const Network net = network_of({1'000'000'000});
  Flows flows(net);
  const FlowId id = flows.start(0, flow_over({0}, 1000));
  EXPECT_EQ(flows.next_end(), 1'000'000);
  flows.advance(400'000);
  flows.set_rate(0, 0);
  EXPECT_EQ(flows.rate(id), 0);
  EXPECT_EQ(flows.next_end(), INT64_MAX);
  flows.advance(5'000'000);
  flows.set_rate(0, 2'000'000'000);
  EXPECT_EQ(flows.next_end(), 5'300'000);  // 600 bytes at 2 GB/s
  EXPECT_EQ(flows.carried(0), 400);
}

TEST(Flows, NothingToMoveEndsWhenItStarts) {
  const Network net = network_of({1'000'000'000});
  Flows flows(net);
  const FlowId empty = flows.start(7, flow_over({0}, 0));
  const FlowId nowhere = flows.start(7, flow_over({}, 100));
  EXPECT_EQ(flows.next_end(), 7);
  EXPECT_THAT(flows.advance(7), ElementsAre(empty, nowhere));
  EXPECT_THAT(flows.advance(9), IsEmpty());
}

TEST(Flows, OnlyWhatAChangeCanReachIsSolvedAgain) {
  const Network net = network_of({1'000'000'000, 1'000'000'000, 9'000'000'000});
  Flows flows(net);
  // All cross link 2, which can carry both sides at their most.
  for (int i = 0; i < 10; ++i) flows.start(0, flow_over({0, 2}, 1000 + i));
  flows.next_end();
  EXPECT_EQ(flows.solved(), 10);
  flows.start(0, flow_over({1}, 1000));
  flows.next_end();
  EXPECT_EQ(flows.solved(), 11);
}

// The size of a phase of a cluster of 100,000 chips. The bound is far from what it takes, for busy machines.
TEST(Flows, AHundredThousandFlowsAreSolvedAtOnce) {
  std::mt19937 random(3);
  std::vector<int64_t> rates;
  for (int i = 0; i < 500'000; ++i)
    rates.push_back(10'000'000'000 + static_cast<int64_t>(random() % 1'000'000'000));
  const Network net = network_of(rates);
  Flows flows(net);
  for (int i = 0; i < 100'000; ++i) {
    std::vector<LinkId> way;
    for (int hop = 0; hop < 8; ++hop) way.push_back(static_cast<LinkId>(62'500 * hop + random() % 62'500));
    flows.start(0, flow_over(way, 1'000'000 + static_cast<int64_t>(random() % 1000)));
  }
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_LT(flows.next_end(), INT64_MAX);
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(flows.solved(), 100'000);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  RecordProperty("ms", static_cast<int>(ms));
  EXPECT_LT(ms, 10'000);
}

// -- properties ----------------------------------------------------------------------------------------
struct Case {
  Network network;
  std::vector<Flow> flows;
};

Case random_case(uint32_t seed, bool plain = false) {
  std::mt19937 random(seed);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  Case out;
  std::vector<int64_t> rates;
  const int links = draw(1, 40);
  for (int i = 0; i < links; ++i) rates.push_back(int64_t{draw(1, 100)} * 1'000'000'000 + draw(0, 999));
  if (!plain && draw(0, 9) == 0) rates[static_cast<size_t>(draw(0, links - 1))] = 0;
  out.network = network_of(rates);
  const int flows = draw(1, 80);
  for (int i = 0; i < flows; ++i) {
    std::vector<LinkId> way;
    for (int link = 0; link < links; ++link)
      if (draw(0, links / 4 + 1) == 0) way.push_back(link);
    if (way.empty()) way.push_back(draw(0, links - 1));
    Flow flow = flow_over(way, int64_t{draw(1, 1000)} * draw(1, 100'000));
    for (Hop& hop : flow.hops)
      if (draw(0, 3) == 0) hop.share = kWholeShare / draw(1, 8);
    if (!plain) {
      if (draw(0, 4) == 0) flow.bytes_per_s_max = int64_t{draw(1, 20)} * 500'000'000;
      flow.priority = draw(0, 2) * draw(0, 1);
      flow.weight = draw(0, 3) == 0 ? draw(1, 16) : 1;
    }
    out.flows.push_back(flow);
  }
  return out;
}

TEST(FlowsProperty, RatesAreThoseOfTheReference) {
  for (uint32_t seed = 0; seed < 1000; ++seed) {
    const Case c = random_case(seed);
    Flows flows(c.network);
    std::vector<FlowId> ids;
    for (const Flow& flow : c.flows) ids.push_back(flows.start(0, flow));
    const std::vector<double> wanted = max_min_reference(c.network, c.flows);
    constexpr double kRounding =
        0.1;  // bytes per second: what rounding down leaves to a class that gets nothing
    for (size_t i = 0; i < ids.size(); ++i)
      ASSERT_NEAR(flows.exact_rate(ids[i]), wanted[i], 1e-9 * wanted[i] + kRounding)
          << "seed " << seed << " flow " << i;
  }
}

// What makes an allocation max-min fair, whatever made it: no link carries more than it can, and each flow is
// at its limit or crosses a full link on which none of its class has more for its weight, and none below it
// has anything.
TEST(FlowsProperty, EveryFlowHasABottleneck) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const Case c = random_case(seed + 10'000);
    Flows flows(c.network);
    std::vector<FlowId> ids;
    for (const Flow& flow : c.flows) ids.push_back(flows.start(0, flow));
    std::vector<double> load(c.network.links.size()), rates;
    for (size_t i = 0; i < ids.size(); ++i) {
      rates.push_back(flows.exact_rate(ids[i]));
      for (const Hop& hop : c.flows[i].hops)
        load[static_cast<size_t>(hop.link)] += rates[i] * hop.share / kWholeShare;
    }
    constexpr double kSlack = 1;  // bytes per second, of 1e9 and more: each rate is rounded down
    for (size_t l = 0; l < load.size(); ++l)
      ASSERT_LE(load[l], static_cast<double>(c.network.links[l].bytes_per_s) + 1e-3)
          << seed;  // sums of doubles
    for (size_t i = 0; i < ids.size(); ++i) {
      bool held = rates[i] + kSlack >= static_cast<double>(c.flows[i].bytes_per_s_max);
      for (const Hop& hop : c.flows[i].hops) {
        const size_t l = static_cast<size_t>(hop.link);
        if (load[l] + kSlack < static_cast<double>(c.network.links[l].bytes_per_s)) continue;
        bool most = true;
        for (size_t k = 0; k < ids.size(); ++k)
          for (const Hop& other : c.flows[k].hops) {
            if (other.link != hop.link || c.flows[k].priority < c.flows[i].priority) continue;
            const bool below = c.flows[k].priority > c.flows[i].priority;
            most &= below ? rates[k] <= kSlack
                          : rates[k] / c.flows[k].weight <= rates[i] / c.flows[i].weight + kSlack;
          }
        held |= most;
      }
      ASSERT_TRUE(held) << "seed " << seed << " flow " << i;
    }
  }
}

TEST(FlowsProperty, TheOrderOfStartsDoesNotMatter) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed + 20'000);
    const auto ends_of = [&](const std::vector<size_t>& order) {
      Flows flows(c.network);
      std::vector<int64_t> out(c.flows.size(), INT64_MAX);
      for (size_t i : order) flows.start(0, c.flows[i]);
      for (const auto& [time, id] : drain(flows)) out[order[static_cast<size_t>(id)]] = time;
      return out;
    };
    std::vector<size_t> order(c.flows.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    const std::vector<int64_t> wanted = ends_of(order);
    std::shuffle(order.begin(), order.end(), std::mt19937(seed));
    ASSERT_EQ(ends_of(order), wanted) << seed;
  }
}

// Solving part by part as flows come and go gives what solving all from nothing gives.
TEST(FlowsProperty, IncrementalRatesAreThoseOfAFreshStart) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    Case c = random_case(seed + 30'000);
    std::mt19937 random(seed);
    Flows flows(c.network);
    std::vector<std::pair<FlowId, size_t>> alive;
    size_t next = 0;
    for (int step = 0; step < 60; ++step) {
      const int kind = static_cast<int>(random() % 4);
      if (kind < 2 && next < c.flows.size()) {
        alive.emplace_back(flows.start(flows.now(), c.flows[next]), next);
        ++next;
      } else if (kind == 2) {
        const LinkId link = static_cast<LinkId>(random() % c.network.links.size());
        c.network.links[static_cast<size_t>(link)].bytes_per_s =
            static_cast<int64_t>(1 + random() % 50) * 777'777'777;
        flows.set_rate(link, c.network.links[static_cast<size_t>(link)].bytes_per_s);
      } else if (flows.next_end() != INT64_MAX) {
        for (FlowId ended : flows.advance(flows.next_end()))
          std::erase_if(alive, [&](const auto& a) { return a.first == ended; });
      }
      Flows fresh(c.network);
      std::vector<FlowId> ids;
      for (const auto& [id, index] : alive) ids.push_back(fresh.start(0, c.flows[index]));
      for (size_t i = 0; i < alive.size(); ++i)
        ASSERT_EQ(flows.exact_rate(alive[i].first), fresh.exact_rate(ids[i]))
            << "seed " << seed << " step " << step;
    }
  }
}

// Flows of one priority are solved among those that a change reaches; a flow of another one, on a link of its
// own, has all of them solved.
TEST(FlowsProperty, WhatAChangeReachesIsAllThatChanges) {
  int64_t near = 0, all = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    Case c = random_case(seed + 60'000);
    std::mt19937 random(seed);
    const auto links = static_cast<LinkId>(c.network.links.size());
    for (Flow& flow : c.flows) {
      flow.priority = 0;
      // Few links each, so that changes stay near.
      if (seed % 2 == 0 && flow.hops.size() > 2) flow.hops.resize(2);
    }
    Network with_other = c.network;
    with_other.links.push_back({.bytes_per_s = 1'000'000'000});
    Flow other = flow_over({links}, 1'000'000);
    other.priority = 1;
    Flows flows(c.network);
    std::vector<std::pair<FlowId, size_t>> alive;
    size_t next = 0;
    for (int step = 0; step < 150; ++step) {
      if (random() % 2 == 0 && next < c.flows.size()) {
        for (uint32_t count = 1 + random() % 3; count > 0 && next < c.flows.size(); --count, ++next)
          alive.emplace_back(flows.start(flows.now(), c.flows[next]), next);
      } else if (flows.next_end() != INT64_MAX) {
        for (FlowId ended : flows.advance(flows.next_end()))
          std::erase_if(alive, [&](const auto& a) { return a.first == ended; });
      }
      Flows fresh(with_other);
      fresh.start(0, other);
      std::vector<FlowId> ids;
      for (const auto& [id, index] : alive) ids.push_back(fresh.start(0, c.flows[index]));
      for (size_t i = 0; i < alive.size(); ++i)
        ASSERT_EQ(flows.exact_rate(alive[i].first), fresh.exact_rate(ids[i]))
            << "seed " << seed << " step " << step;
      all += fresh.solved();
    }
    near += flows.solved();
  }
  EXPECT_LT(near * 2, all);
}

TEST(FlowsProperty, WhatIsSentIsCarried) {
  for (uint32_t seed = 0; seed < 200; ++seed) {
    const Case c = random_case(seed + 40'000, true);
    Flows flows(c.network);
    std::vector<int64_t> sent(c.network.links.size());
    for (const Flow& flow : c.flows) {
      flows.start(0, flow);
      for (const Hop& hop : flow.hops) sent[static_cast<size_t>(hop.link)] += flow.bytes * hop.share;
    }
    drain(flows);
    for (size_t l = 0; l < sent.size(); ++l)
      ASSERT_EQ(flows.carried(static_cast<LinkId>(l)), sent[l] / kWholeShare) << seed;
  }
}

}  // namespace
}  // namespace opentrn::fabric
