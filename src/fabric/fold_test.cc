#include "fabric/fold.h"

#include <algorithm>
#include <map>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/platform.h"

namespace opentrn::fabric {
namespace {

// A torus with one link each way between neighbours, and a memory link for each chip: link 5 * chip is the
// memory, and 5 * chip + 1 to + 4 leave along +column, -column, +row, -row.
struct Torus {
  explicit Torus(int side, uint32_t seed) : n(side) {
    std::mt19937 random(seed);
    const int64_t rates[] = {int64_t{100 + static_cast<int>(random() % 400)} * 1'000'000'007,
                             int64_t{20 + static_cast<int>(random() % 40)} * 1'000'000'009,
                             int64_t{20 + static_cast<int>(random() % 40)} * 1'000'000'021};
    for (int chip = 0; chip < n * n; ++chip)
      for (int i = 0; i < 5; ++i) {
        net.links.push_back({0, 0, rates[(i + 1) / 2], 0, LinkClass::kNeuronLink});
        link_orbit.push_back(i);
      }
  }
  int moved(int chip, int rows, int columns) const {
    return (chip / n + rows + n) % n * n + (chip % n + columns + n) % n;
  }
  // Row first or column first; both directions where they are equally long.
  Flow way(int from, int to, int64_t bytes) const {
    std::map<LinkId, int32_t> shares = {{5 * from, kWholeShare}};
    shares[5 * to] += kWholeShare;
    const auto walk = [&](int at, int steps, bool rows, int32_t share) {
      for (int i = 0; i < std::abs(steps); ++i) {
        shares[5 * at + (rows ? 3 : 1) + (steps < 0 ? 1 : 0)] += share;
        at = rows ? moved(at, steps > 0 ? 1 : -1, 0) : moved(at, 0, steps > 0 ? 1 : -1);
      }
    };
    const auto axis = [&](int at, int distance, bool rows) {
      distance = (distance % n + n) % n;
      if (2 * distance == n) {
        walk(at, distance, rows, kWholeShare / 2);
        walk(at, -distance, rows, kWholeShare / 2);
      } else {
        walk(at, 2 * distance < n ? distance : distance - n, rows, kWholeShare);
      }
    };
    const int corner = from / n * n + to % n;
    axis(from, to % n - from % n, false);
    axis(corner, to / n - from / n, true);
    Flow flow;
    for (const auto& [link, share] : shares) flow.hops.push_back({link, share});
    flow.bytes = bytes;
    return flow;
  }

  int n;
  Network net;
  std::vector<int32_t> link_orbit;
};

std::vector<int64_t> ends_of(const Network& net, const std::vector<Flow>& list) {
  Flows flows(net);
  for (const Flow& flow : list) flows.start(0, flow);
  std::vector<int64_t> out(list.size(), INT64_MAX);
  for (int64_t end = flows.next_end(); end != INT64_MAX; end = flows.next_end())
    for (FlowId id : flows.advance(end)) out[static_cast<size_t>(id)] = end;
  return out;
}

// Patterns that are the same from every chip: one flow a displacement and a kind stands for those of all
// chips, and one link a direction for all of the torus.
TEST(Fold, TheFoldedRunEndsAtTheSamePicosecond) {
  for (uint32_t seed = 0; seed < 60; ++seed) {
    std::mt19937 random(seed);
    const Torus torus(3 + static_cast<int>(random() % 5), seed);
    std::vector<Flow> flows;
    std::vector<int32_t> orbits;
    const int kinds = 1 + static_cast<int>(random() % 12);
    for (int kind = 0; kind < kinds; ++kind) {
      const int rows = static_cast<int>(random() % static_cast<uint32_t>(torus.n));
      const int columns = static_cast<int>(random() % static_cast<uint32_t>(torus.n));
      const int64_t bytes = 1 + static_cast<int64_t>(random() % 100'000'000);
      const int64_t limit =
          random() % 4 == 0 ? 3'000'000'000 + static_cast<int64_t>(random() % 1000) : kNoLimit;
      const int priority = static_cast<int>(random() % 5) / 4;
      const auto weight = static_cast<int32_t>(1 + random() % 3);
      for (int chip = 0; chip < torus.n * torus.n; ++chip) {
        flows.push_back(torus.way(chip, torus.moved(chip, rows, columns), bytes));
        flows.back().bytes_per_s_max = limit;
        flows.back().priority = priority;
        flows.back().weight = weight;
        orbits.push_back(kind);
      }
    }
    const Folded folded = fold(torus.net, torus.link_orbit, flows, orbits);
    ASSERT_EQ(folded.network.links.size(), 5u);
    ASSERT_EQ(static_cast<int>(folded.flows.size()), kinds);
    const std::vector<int64_t> all = ends_of(torus.net, flows), few = ends_of(folded.network, folded.flows);
    for (size_t i = 0; i < all.size(); ++i)
      ASSERT_EQ(all[i], few[static_cast<size_t>(orbits[i])]) << "seed " << seed << " flow " << i;
  }
}

TEST(Fold, WhatIsNoSymmetryIsRefused) {
  const Torus torus(4, 1);
  std::vector<Flow> flows;
  std::vector<int32_t> orbits;
  for (int chip = 0; chip < 16; ++chip) {
    flows.push_back(torus.way(chip, torus.moved(chip, 0, 1), 1000));
    orbits.push_back(0);
  }
  EXPECT_NO_THROW(fold(torus.net, torus.link_orbit, flows, orbits));
  std::vector<Flow> uneven = flows;
  uneven[3].bytes = 999;
  EXPECT_THROW(fold(torus.net, torus.link_orbit, uneven, orbits), Fault);
  std::vector<Flow> fewer(flows.begin(), flows.begin() + 15);
  EXPECT_THROW(fold(torus.net, torus.link_orbit, fewer, std::span(orbits).first(15)), Fault);
  Network slower = torus.net;
  slower.links[7].bytes_per_s /= 2;
  EXPECT_THROW(fold(slower, torus.link_orbit, flows, orbits), Fault);
}

}  // namespace
}  // namespace opentrn::fabric
