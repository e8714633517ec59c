#include "fabric/platform.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::fabric {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Platform make(const std::string& name, int count = 1) {
  return Platform::make(arch::default_tables(), name, count);
}

int64_t share_of(const Platform& p, const Path& path, LinkClass kind) {
  int64_t out = 0;
  for (const Hop& hop : path.hops)
    if (p.network().links[static_cast<size_t>(hop.link)].kind == kind) out += hop.share;
  return out;
}

TEST(Platform, Trn1nIsA4x4TorusOfTwoCores) {
  const Platform p = make("trn1n.32xlarge");
  EXPECT_EQ(p.cores(), 32);
  EXPECT_EQ(p.rows(), 4);
  EXPECT_EQ(p.columns(), 4);
  EXPECT_THAT(p.neighbours(0), ElementsAre(12, 3, 4, 1));
  int links = 0;
  for (const Link& link : p.network().links) {
    if (link.kind != LinkClass::kNeuronLink) continue;
    ++links;
    EXPECT_EQ(link.bytes_per_s, 37'500'000'000);
  }
  EXPECT_EQ(links, 16 * 4);
}

TEST(Platform, APathStartsAndEndsInHbm) {
  const Platform p = make("trn1n");
  const Path path = p.path(0, 3);  // chip 0 to chip 1: neighbours
  ASSERT_EQ(path.hops.size(), 4u);
  EXPECT_EQ(path.hops[0].link, p.hbm(0));
  EXPECT_EQ(path.hops[1].link, p.dma_rings(0));
  EXPECT_EQ(path.hops[3].link, p.hbm(3));
  EXPECT_EQ(path.latency_ps, 1'050'000);
}

TEST(Platform, WithinItsOwnHbmACoreReadsAndWrites) {
  const Platform p = make("trn1n");
  const Path path = p.path(5, 5);
  EXPECT_THAT(path.hops, ElementsAre(Hop{p.hbm(5), 2 * kWholeShare}, Hop{p.dma_rings(5), kWholeShare}));
}

TEST(Platform, CoresOfATrainiumChipHaveAStackEach) {
  const Platform p = make("trn1n");
  const Path path = p.path(0, 1);
  EXPECT_NE(p.hbm(0), p.hbm(1));
  EXPECT_EQ(share_of(p, path, LinkClass::kOnChip), kWholeShare);
  EXPECT_EQ(share_of(p, path, LinkClass::kNeuronLink), 0);
}

// The whole of the traffic on all ways, whatever it splits into.
TEST(Platform, ATieIsSplitInHalf) {
  const Platform p = make("trn1n");
  const Path path = p.path(0, 2 * 2);  // chip 0 to chip 2: two links either way round
  std::vector<int32_t> shares;
  for (const Hop& hop : path.hops)
    if (p.network().links[static_cast<size_t>(hop.link)].kind == LinkClass::kNeuronLink)
      shares.push_back(hop.share);
  EXPECT_THAT(shares, ElementsAre(2520, 2520, 2520, 2520));
  EXPECT_EQ(share_of(p, p.path(0, 2 * 10), LinkClass::kNeuronLink), 4 * kWholeShare);
  EXPECT_EQ(share_of(p, p.path(0, 2 * 10), LinkClass::kHbm), 2 * kWholeShare);
}

// All pairs of chips exchange: a row, two rows and the whole torus load all their links alike, with as many
// bytes (in shares of a pair's) as there are chips to a side.
TEST(Platform, AnExchangeAmongAllLoadsAllLinksAlike) {
  const Platform p = make("trn1n");
  for (int chips : {4, 8, 16}) {
    std::map<LinkId, int64_t> load;
    for (int a = 0; a < chips; ++a)
      for (int b = 0; b < chips; ++b)
        if (a != b)
          for (const Hop& hop : p.path(2 * a, 2 * b).hops)
            if (p.network().links[static_cast<size_t>(hop.link)].kind == LinkClass::kNeuronLink)
              load[hop.link] += hop.share;
    std::set<int64_t> distinct;
    for (const auto& [link, bytes] : load) distinct.insert(bytes);
    EXPECT_THAT(distinct, ElementsAre(chips / 2 * kWholeShare)) << chips;
  }
}

// aws-neuron-driver's list of neighbours by pair of cores (SENG).
TEST(Platform, APairOfCoresOfTrainium2OwnsALink) {
  const Platform p = make("trn2");
  EXPECT_EQ(p.cores(), 128);
  EXPECT_EQ(p.place(5), (Place{0, 0, 2, 5}));
  // Chip 0's link to chip 12 leaves from its pair 0 and arrives at chip 12's pair 0.
  const Path own = p.path(0, 8 * 12);
  EXPECT_EQ(share_of(p, own, LinkClass::kOnChip), 0);
  EXPECT_EQ(share_of(p, own, LinkClass::kNeuronLink), kWholeShare);
  // From pair 1, bytes leave it and enter pair 0 first.
  const Path crossing = p.path(2, 8 * 12);
  EXPECT_EQ(share_of(p, crossing, LinkClass::kOnChip), 2 * kWholeShare);
  EXPECT_EQ(crossing.latency_ps - own.latency_ps, 100'000);
}

// Exchanging instances maps each way to the way of the exchanged cores, over links that are as fast.
TEST(Platform, AnUltraServersInstancesAreAlike) {
  for (const char* name : {"Trn2 UltraServer", "Trn2 UltraServer X2H", "Trn2 UltraServer X2V"}) {
    const Platform p = make(name, 2);
    const int per_server = p.chips_per_server() * p.cores_per_chip();
    ASSERT_EQ(p.alike_instances(), p.servers_per_unit());
    const auto sorted = [](std::vector<Hop> hops) {
      std::ranges::sort(hops, {}, [](const Hop& hop) { return std::pair(hop.link, hop.share); });
      std::vector<std::pair<LinkId, int32_t>> out;
      for (const Hop& hop : hops) out.emplace_back(hop.link, hop.share);
      return out;
    };
    for (int by = 0; by < p.alike_instances(); ++by) {
      std::set<LinkId> images;
      for (LinkId link = 0; link < static_cast<LinkId>(p.network().links.size()); ++link) {
        const Link &a = p.network().links[static_cast<size_t>(link)],
                   &b = p.network().links[static_cast<size_t>(p.seen_from(by, link))];
        EXPECT_EQ(std::tuple(a.kind, a.bytes_per_s, a.latency_ps),
                  std::tuple(b.kind, b.bytes_per_s, b.latency_ps));
        images.insert(p.seen_from(by, link));
      }
      EXPECT_EQ(images.size(), p.network().links.size());
      const auto moved = [&](int core) {
        const int server = core / per_server, unit = server / p.servers_per_unit();
        const int other = unit * p.servers_per_unit() + (server % p.servers_per_unit() ^ by);
        return other * per_server + core % per_server;
      };
      for (int from = 0; from < p.cores(); from += 37)
        for (int to = 0; to < p.cores(); to += 23) {
          Path path = p.path(from, to);
          const Path image = p.path(moved(from), moved(to));
          EXPECT_EQ(path.latency_ps, image.latency_ps);
          for (Hop& hop : path.hops) hop.link = p.seen_from(by, hop.link);
          ASSERT_EQ(sorted(path.hops), sorted(image.hops)) << name << " " << from << " " << to << " " << by;
        }
    }
  }
  for (const char* name : {"trn2.48xlarge", "Trn2 UltraServer X1", "Trn3 Gen2 UltraServer", "trn1.32xlarge"})
    EXPECT_EQ(make(name).alike_instances(), 1) << name;
}

TEST(Platform, AnUltraServerHasCablesAtTwoPairs) {
  const Platform p = make("Trn2 UltraServer");
  EXPECT_EQ(p.servers(), 4);
  EXPECT_EQ(p.cores(), 512);
  const Path path = p.path(0, 128);
  EXPECT_EQ(share_of(p, path, LinkClass::kUltraServer), kWholeShare);
  int cables = 0;
  for (const Hop& hop : path.hops)
    if (p.network().links[static_cast<size_t>(hop.link)].kind == LinkClass::kUltraServer) {
      ++cables;
      EXPECT_EQ(hop.share, kWholeShare / 2);
    }
  EXPECT_EQ(cables, 2);
  EXPECT_EQ(make("Trn2 UltraServer X2H").servers(), 2);
  EXPECT_EQ(make("Trn2 UltraServer X1").cores(), 128);
  // Two instances have one cable between them, four have two each: the third is two cables away.
  EXPECT_EQ(share_of(p, p.path(0, 2 * 128), LinkClass::kUltraServer), 2 * kWholeShare);
}

TEST(Platform, Trn3Gen1GoesThroughTheOtherChipOfTheSled) {
  const Platform p = make("Trn3 Gen1 UltraServer");
  const auto chip_path = [&](int a, int b) { return p.path(8 * a, 8 * b); };
  EXPECT_EQ(share_of(p, chip_path(0, 2), LinkClass::kSwitch), 2 * kWholeShare);
  EXPECT_EQ(share_of(p, chip_path(0, 2), LinkClass::kNeuronLink), 0);
  EXPECT_EQ(share_of(p, chip_path(0, 1), LinkClass::kSwitch), 0);
  EXPECT_EQ(share_of(p, chip_path(0, 1), LinkClass::kNeuronLink), kWholeShare);
  EXPECT_EQ(share_of(p, chip_path(0, 3), LinkClass::kNeuronLink), kWholeShare);
  EXPECT_EQ(share_of(p, chip_path(0, 3), LinkClass::kSwitch), 2 * kWholeShare);
  EXPECT_EQ(share_of(p, chip_path(0, 32), LinkClass::kUltraServer), kWholeShare);
  EXPECT_EQ(share_of(p, chip_path(0, 32), LinkClass::kSwitch), 0);
  EXPECT_EQ(share_of(p, chip_path(0, 35), LinkClass::kUltraServer), kWholeShare);
  EXPECT_EQ(share_of(p, chip_path(0, 35), LinkClass::kSwitch), 2 * kWholeShare);
}

TEST(Platform, Trn3Gen2HasASwitchForAServerAndOneForARack) {
  const Platform p = make("Trn3 Gen2 UltraServer");
  EXPECT_EQ(p.servers(), 36);
  const auto chip_path = [&](int a, int b) { return p.path(8 * a, 8 * b); };
  const auto rate = [&](const Path& path) {
    for (const Hop& hop : path.hops)
      if (const Link& link = p.network().links[static_cast<size_t>(hop.link)];
          link.kind == LinkClass::kSwitch)
        return link.bytes_per_s;
    return int64_t{0};
  };
  EXPECT_EQ(rate(chip_path(0, 1)) * 320, rate(chip_path(0, 4)) * 256);
  EXPECT_EQ(share_of(p, chip_path(0, 72), LinkClass::kSwitch), 0);
  EXPECT_EQ(share_of(p, chip_path(0, 76), LinkClass::kSwitch), 2 * kWholeShare);
}

TEST(Platform, InstancesReachEachOtherOverTheirAdapters) {
  const Platform p = make("trn1.32xlarge", 2);
  EXPECT_EQ(p.servers(), 2);
  const Path path = p.path(0, 32);
  EXPECT_EQ(share_of(p, path, LinkClass::kEfa), 2 * kWholeShare);
  EXPECT_EQ(path.latency_ps, 15'000'000);
  // Chips 0 and 1 share an adapter; 0 and 2 do not.
  const auto adapter = [&](int from) {
    for (const Hop& hop : p.path(from, 32).hops)
      if (p.network().links[static_cast<size_t>(hop.link)].kind == LinkClass::kEfa) return hop.link;
    return LinkId{-1};
  };
  EXPECT_EQ(adapter(0), adapter(2));
  EXPECT_NE(adapter(0), adapter(4));
  const arch::Tables blocking(arch::Overrides{{}, {"fabric.trn1.spine_oversubscription=2"}});
  const Platform q = Platform::make(blocking, "trn1", 2);
  EXPECT_EQ(share_of(q, q.path(0, 32), LinkClass::kSpine), 2 * kWholeShare);
}

TEST(Platform, AnUnknownNetworkOrNameIsRefused) {
  const Platform p = make("inf2.24xlarge", 2);
  try {
    p.path(0, 12);
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kUnspecified);
    EXPECT_THAT(fault.hint(), HasSubstr("network_gbps"));
  }
  EXPECT_THROW(make("trn2.4xlarge"), Fault);
  EXPECT_THROW(make("trn1", 0), Fault);
}

// Each cycle visits every chip over links, and no two use a link.
TEST(Platform, HamiltonianCyclesShareNoLink) {
  for (const auto& [name, count] : {std::pair{"trn1n", 2},
                                    {"trn2", 2},
                                    {"inf2", 1},
                                    {"inf2.24xlarge", 0},
                                    {"trn3", 1},
                                    {"trn3-gen2-server", 1},
                                    {"trn1.2xlarge", 0}}) {
    const Platform p = make(name);
    const auto& cycles = p.hamiltonian_cycles();
    ASSERT_EQ(static_cast<int>(cycles.size()), count) << name;
    std::set<std::pair<int, int>> used;
    for (const std::vector<int>& cycle : cycles) {
      EXPECT_EQ(std::set<int>(cycle.begin(), cycle.end()).size(), static_cast<size_t>(p.chips_per_server()));
      for (size_t i = 0; i < cycle.size(); ++i) {
        const int a = cycle[i], b = cycle[(i + 1) % cycle.size()];
        EXPECT_THAT(p.neighbours(a), testing::Contains(b)) << name;
        EXPECT_TRUE(used.emplace(std::min(a, b), std::max(a, b)).second) << name << " " << a << " " << b;
      }
    }
  }
}

TEST(Platform, CyclesOfSomeChips) {
  const Platform p = make("trn1n");
  EXPECT_THAT(p.cycles({0, 1, 2, 3}), ElementsAre(ElementsAre(0, 1, 2, 3)));
  EXPECT_EQ(p.cycles({0, 1, 2, 3, 4, 5, 6, 7}).size(), 1u);
  EXPECT_THAT(p.cycles({4, 5}), ElementsAre(ElementsAre(4, 5)));
  EXPECT_THAT(p.cycles({0, 1, 2}), IsEmpty());
  EXPECT_THAT(p.cycles({0}), IsEmpty());
}

}  // namespace
}  // namespace opentrn::fabric
