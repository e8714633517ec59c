// No collective is faster than the links allow any algorithm to be (fabric/verify.h), and those whose links
// are all busy all the time take that long.
#include <numeric>
#include <string>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/units.h"
#include "collectives/algorithms.h"
#include "collectives/exchange.h"
#include "collectives/hierarchical.h"
#include "collectives/predict.h"
#include "collectives/ring_orders.h"
#include "fabric/verify.h"

namespace opentrn::collectives {
namespace {

using arch::default_tables;
using fabric::Platform;

double seconds(const Platform& platform, const Request& request, const std::string& algorithm) {
  const Job job{request, place_ranks(platform, request.ranks, 1, 0), algorithm, 0, 1};
  return static_cast<double>(predict(default_tables(), platform, std::span(&job, 1)).end_ps) / kPsPerS;
}

// The least time for the request on the first cores of the machine.
double floor_s(const Platform& platform, const Request& request) {
  std::vector<int> cores(static_cast<size_t>(request.ranks));
  std::iota(cores.begin(), cores.end(), 0);
  const auto bytes = static_cast<double>(request.bytes), ranks = static_cast<double>(request.ranks);
  const auto spread = static_cast<double>(all_gather_bytes_per_s(platform, cores));
  if (request.kind == Kind::kAllGather) return bytes / spread;
  if (request.kind == Kind::kReduceScatter) return bytes / ranks / spread;  // gathering, backwards in time
  const size_t half = cores.size() / 2;
  const std::vector<int> lower(cores.begin(), cores.begin() + static_cast<ptrdiff_t>(half)),
      upper(cores.begin() + static_cast<ptrdiff_t>(half), cores.end());
  const auto cut = static_cast<double>(min_cut_bytes_per_s(platform, lower, upper));
  if (request.kind == Kind::kAllReduce) return bytes / cut;
  return bytes / ranks * static_cast<double>(lower.size() * upper.size()) / cut;  // all-to-all
}

TEST(Floors, NoAlgorithmIsFasterThanItsLinks) {
  struct Case {
    const char* machine;
    int count, ranks;
  };
  int compared = 0;
  double closest = 1e9;
  for (const Case& one :
       {Case{"trn1n.32xlarge", 1, 8}, Case{"trn1n.32xlarge", 1, 32}, Case{"trn1.32xlarge", 2, 64},
        Case{"inf2.48xlarge", 1, 24}, Case{"inf2.24xlarge", 1, 12}, Case{"trn2.48xlarge", 1, 32},
        Case{"Trn3 Gen1 UltraServer", 1, 64}}) {
    const Platform platform = Platform::make(default_tables(), one.machine, one.count);
    for (const Kind kind : {Kind::kAllGather, Kind::kReduceScatter, Kind::kAllReduce, Kind::kAllToAll})
      for (const char* algorithm : {"mesh", "rdh", "kangaring", "ring", "hier", "flat_ring", "all_to_all"})
        for (const int64_t parts : {64 << 10, 8 << 20}) {
          Request request{.kind = kind, .ranks = one.ranks, .dtype = DType::kUint8};
          request.bytes = kind == Kind::kAllGather ? parts : parts * one.ranks;
          try {
            const double ratio = seconds(platform, request, algorithm) / floor_s(platform, request);
            EXPECT_GE(ratio, 1) << one.machine << " " << one.ranks << " " << algorithm << " "
                                << name_of(kind);
            closest = std::min(closest, ratio);
            ++compared;
          } catch (const Fault& fault) {
            ASSERT_TRUE(fault.label().starts_with("collectives.")) << fault.what();
          }
        }
  }
  EXPECT_GE(compared, 100);
  EXPECT_LT(closest, 1.6);  // or the floors would be so low that nothing could be under them
}

// With so many bytes latencies are less than a thousandth.
TEST(Floors, BusyLinksTakeTheirClosedForm) {
  constexpr int64_t kBytes = int64_t{1} << 42;
  const Platform platform = Platform::make(default_tables(), "trn1n.32xlarge");
  double link = 0;
  for (const fabric::Link& each : platform.network().links)
    if (each.kind == fabric::LinkClass::kNeuronLink) link = static_cast<double>(each.bytes_per_s);
  const double bytes = kBytes;
  for (const auto& [ranks, rings] : {std::pair(8, 2), {16, 2}, {32, 4}}) {
    const double expected = bytes * (ranks - 1) / ranks / rings / link;
    const Request gather{
        .kind = Kind::kAllGather, .ranks = ranks, .bytes = kBytes / ranks, .dtype = DType::kUint8};
    EXPECT_NEAR(seconds(platform, gather, "ring") / expected, 1, 1e-3) << ranks;
  }
  // Every part of a mesh crosses every link of a row of four chips once.
  const Request mesh{.kind = Kind::kAllGather, .ranks = 8, .bytes = kBytes / 8, .dtype = DType::kUint8};
  EXPECT_NEAR(seconds(platform, mesh, "mesh") / (bytes / link), 1, 1e-3);
}

// -- closed forms of others ------------------------------------------------------------------------------
// One rank on each chip of some machines of one kind.
class OnePerChip {
 public:
  OnePerChip(const char* machine, int count)
      : platform_(Platform::make(default_tables(), machine, count)), chips_(platform_.cores() / per_chip()) {}

  // All-gather of `kAll` bytes in all, and all-to-all of as many from each rank.
  double seconds(Kind kind, const std::string& algorithm) const {
    Request request{.kind = kind, .ranks = chips_, .bytes = kAll, .dtype = DType::kUint8};
    if (kind == Kind::kAllGather) request.bytes /= chips_;
    Job job{request, {}, algorithm, 0, 1};
    for (int chip = 0; chip < chips_; ++chip) job.cores.push_back({chip * per_chip()});
    return static_cast<double>(predict(default_tables(), platform_, std::span(&job, 1)).end_ps) / kPsPerS;
  }
  // The same of an all-reduce of `kAll` bytes by hierarchy, in one part.
  double hierarchy_s() const {
    const Request request{.kind = Kind::kAllReduce, .ranks = chips_, .bytes = kAll, .dtype = DType::kUint8};
    RankCores cores;
    for (int chip = 0; chip < chips_; ++chip) cores.push_back({chip * per_chip()});
    const Plan plan = hierarchical({.pipeline = 1}).plan(request, layout_of(platform_, cores));
    const collectives::Run run{&plan, costs("hier"), cores, {}, 0};
    return static_cast<double>(time_of(platform_, std::span(&run, 1)).end_ps()) / kPsPerS;
  }
  Costs costs(const std::string& algorithm) const {
    return costs_of(default_tables(), platform_.generation(), algorithm);
  }
  // What all of these take at once if the busiest link never stops: bytes over it by its rate.
  struct Move {
    int from = 0, to = 0;  // chips
    double bytes = 0;
    int addends = 1;  // in the memory of `from`, whose engines sum them
  };
  double stage_s(const std::vector<Move>& moves) const {
    const auto& links = platform_.network().links;
    std::vector<double> load(links.size());
    for (const Move& move : moves) {
      const bool sums_on_the_way = move.addends > 1 && move.from != move.to;
      for (const fabric::Hop& hop : platform_.path(move.from * per_chip(), move.to * per_chip()).hops) {
        const fabric::LinkClass kind = links[static_cast<size_t>(hop.link)].kind;
        const bool is_network = kind == fabric::LinkClass::kPcie || kind == fabric::LinkClass::kEfa;
        load[static_cast<size_t>(hop.link)] +=
            move.bytes * hop.share / fabric::kWholeShare * (sums_on_the_way && !is_network ? kReduction : 1);
      }
      load[static_cast<size_t>(platform_.hbm(move.from * per_chip()))] += move.bytes * (move.addends - 1);
    }
    double seconds = 0;
    for (size_t link = 0; link < load.size(); ++link)
      if (load[link] > 0)
        seconds =
            std::max(seconds, load[link] / static_cast<double>(platform_.network().links[link].bytes_per_s));
    return seconds;
  }
  // An all-gather of `bytes` by rings within each machine or instance of 16 chips.
  double rings_s(double bytes) const {
    std::vector<Move> moves;
    for (int first = 0; first < chips_; first += 16) {
      RankCores cores;
      for (int chip = 0; chip < 16; ++chip) cores.push_back({(first + chip) * per_chip()});
      const auto orders = ring_orders(layout_of(platform_, cores), all_ranks(16));
      for (const auto& order : orders)
        for (size_t i = 0; i < order.size(); ++i)
          moves.push_back({first + order[i], first + order[(i + 1) % order.size()],
                           bytes * 15 / 16 / static_cast<double>(orders.size())});
    }
    return stage_s(moves);
  }
  // A reduce-scatter of `bytes` by rings within a machine of 16 chips: a copy, sums of two on all hops behind
  // it, and the last one in the own memory.
  double reducing_rings_s(double bytes) const {
    RankCores cores;
    for (int chip = 0; chip < 16; ++chip) cores.push_back({chip * per_chip()});
    const auto orders = ring_orders(layout_of(platform_, cores), all_ranks(16));
    const double part = bytes / 16 / static_cast<double>(orders.size());
    double seconds = 0;
    for (int hop = 0; hop < 16; ++hop) {
      std::vector<Move> moves;
      for (const auto& order : orders)
        for (size_t i = 0; i < order.size(); ++i)
          moves.push_back(
              {order[i], hop == 15 ? order[i] : order[(i + 1) % order.size()], part, hop == 0 ? 1 : 2});
      seconds += stage_s(moves);
    }
    return seconds;
  }
  // One of halves: the chips of a number of each two of the machines or instances exchange so much.
  double exchange_s(const std::vector<std::pair<int, int>>& pairs, double bytes, int addends = 1) const {
    std::vector<Move> moves;
    for (const auto& [a, b] : pairs)
      for (int chip = 0; chip < 16; ++chip) {
        moves.push_back({a * 16 + chip, b * 16 + chip, bytes, addends});
        moves.push_back({b * 16 + chip, a * 16 + chip, bytes, addends});
      }
    return stage_s(moves);
  }
  static constexpr int64_t kAll = int64_t{1} << 42;
  static constexpr double kReduction = 1.24;  // of the table: what a summing transfer takes of a copy

 private:
  int per_chip() const { return platform_.cores_per_chip(); }
  Platform platform_;
  int chips_;
};

// Each stage moves all that a rank has over one link to a neighbour, so all of them what it lacks.
TEST(Floors, RdhTakesWhatARankLacksOverOneLink) {
  for (const char* machine : {"trn1n.32xlarge", "trn2.48xlarge"}) {
    const OnePerChip torus(machine, 1);
    const double lacks = OnePerChip::kAll * 15.0 / 16;
    EXPECT_NEAR(torus.seconds(Kind::kAllGather, "rdh") / torus.stage_s({{0, 1, lacks}}), 1, 1e-3) << machine;
  }
}

// All 256 transfers at once at one rate: two hops in the mean over 64 links, of which each carries the parts
// of eight.
TEST(Floors, AllToAllKeepsAllLinksOfATorusBusy) {
  for (const char* machine : {"trn1n.32xlarge", "trn2.48xlarge"}) {
    const OnePerChip torus(machine, 1);
    const double part = OnePerChip::kAll / 16.0;
    EXPECT_NEAR(torus.seconds(Kind::kAllToAll, "all_to_all") / torus.stage_s({{0, 1, 8 * part}}), 1, 1e-3)
        << machine;
  }
}

// First what a rank lacks of those of its number on other servers, by halves; then by four rings within the
// server, which on trn2.48xlarge what moves bytes on the chip holds back, not links.
TEST(Floors, HierarchiesTakeTheirStages) {
  for (const char* machine : {"trn1n.32xlarge", "trn2.48xlarge"})
    for (const int servers : {2, 4}) {
      const OnePerChip cluster(machine, servers);
      const double all = OnePerChip::kAll, part = all / 16 / servers;
      double expected = cluster.rings_s(all) + cluster.exchange_s({{0, 1}}, part);
      if (servers == 4) expected += cluster.exchange_s({{0, 2}}, 2 * part);
      EXPECT_NEAR(cluster.seconds(Kind::kAllGather, "hier") / expected, 1, 1e-3) << machine << " " << servers;
    }
}

// Halves between the instances of an UltraServer over a cable each, then four rings within each instance.
TEST(Floors, InstancesOfAnUltraServerTakeTheirStages) {
  const OnePerChip ultraserver("Trn2 UltraServer", 1);
  const double all = OnePerChip::kAll, part = all / 64;
  const double expected = ultraserver.exchange_s({{0, 1}, {2, 3}}, part) +
                          ultraserver.exchange_s({{0, 3}, {1, 2}}, 2 * part) + ultraserver.rings_s(all);
  EXPECT_NEAR(ultraserver.seconds(Kind::kAllGather, "hier") / expected, 1, 1e-3);
}

// -- of reductions: a step that sums reads all addends, and takes the links longer than a copy ------------
// An all-reduce gathers then, without the copy of its own part that an all-gather makes.
TEST(Floors, RingsReduceHopByHop) {
  for (const char* machine : {"trn1n.32xlarge", "trn2.48xlarge"}) {
    const OnePerChip torus(machine, 1);
    const double reduced = torus.reducing_rings_s(OnePerChip::kAll);
    EXPECT_NEAR(torus.seconds(Kind::kReduceScatter, "ring") / reduced, 1, 1e-3) << machine;
    EXPECT_NEAR(torus.seconds(Kind::kAllReduce, "ring") / (reduced + torus.rings_s(OnePerChip::kAll)), 1,
                1e-3)
        << machine;
  }
}

// Halves of what is left, each with all that came before it; the last sum is in the own memory.
TEST(Floors, RdhSumsWhatItSends) {
  for (const char* machine : {"trn1n.32xlarge", "trn2.48xlarge"}) {
    const OnePerChip torus(machine, 1);
    const double part = OnePerChip::kAll / 16.0;
    double reduced = torus.stage_s({{0, 0, part, 5}});
    for (int axis = 0; axis < 4; ++axis) {
      const double half = part * (8 >> axis);
      reduced += torus.stage_s({{0, 1, half, axis + 1}, {1, 0, half, axis + 1}});
    }
    const double gathered = torus.stage_s({{0, 1, 15 * part}});
    EXPECT_NEAR(torus.seconds(Kind::kReduceScatter, "rdh") / reduced, 1, 1e-3) << machine;
    EXPECT_NEAR(torus.seconds(Kind::kAllReduce, "rdh") / (reduced + gathered), 1, 1e-3) << machine;
  }
}

// A mesh brings all parts to their owner, which sums them at the rate of its engines.
TEST(Floors, MeshesSumAtTheOwner) {
  for (const char* machine : {"trn1n.32xlarge", "trn2.48xlarge"}) {
    const OnePerChip torus(machine, 1);
    const double moved = torus.stage_s({{0, 1, OnePerChip::kAll / 16.0 * 8}});
    const double summed =
        OnePerChip::kAll / static_cast<double>(torus.costs("mesh").local_reduction_bytes_per_s);
    EXPECT_NEAR(torus.seconds(Kind::kReduceScatter, "mesh") / (moved + summed), 1, 1e-3) << machine;
    EXPECT_NEAR(torus.seconds(Kind::kAllReduce, "mesh") / (2 * moved + summed), 1, 1e-3) << machine;
  }
}

// Where stages follow each other. Of four servers the ranges of a reduce-scatter come one behind the other,
// so that servers begin to exchange at different times and meet at adapters. On trn2.48xlarge HBM holds back
// the rings of an all-reduce, and those whose share needs no other server begin before the others.
TEST(Floors, HierarchiesReduceInTheirStages) {
  for (const char* machine : {"trn1n.32xlarge", "trn2.48xlarge"})
    for (const int servers : {2, 4}) {
      const OnePerChip cluster(machine, servers);
      const bool of_links = std::string(machine) == "trn1n.32xlarge";
      const double all = OnePerChip::kAll, part = all / 16 / servers;
      double reduced = cluster.reducing_rings_s(all), gathered = cluster.exchange_s({{0, 1}}, part);
      if (servers == 2) {
        reduced += cluster.exchange_s({{0, 1}}, part) + cluster.stage_s({{0, 0, part, 2}});
      } else {
        reduced += cluster.exchange_s({{0, 2}}, 2 * part) + cluster.exchange_s({{0, 1}}, part, 2) +
                   cluster.stage_s({{0, 0, part, 3}});
        gathered += cluster.exchange_s({{0, 2}}, 2 * part);
      }
      gathered += cluster.rings_s(all);
      const double scattered = cluster.seconds(Kind::kReduceScatter, "hier") / reduced;
      EXPECT_NEAR(scattered, 1, servers == 2 ? 1e-3 : 1e-2) << machine << " " << servers;
      EXPECT_GE(scattered, 1 - 1e-3) << machine << " " << servers;
      const double summed = cluster.hierarchy_s() / (reduced + gathered);
      EXPECT_NEAR(summed, 1, of_links ? 1e-3 : 5e-2) << machine << " " << servers;
      EXPECT_LE(summed, 1 + 1e-3) << machine << " " << servers;
    }
}

TEST(Floors, InstancesOfAnUltraServerReduceInTheirStages) {
  const OnePerChip ultraserver("Trn2 UltraServer", 1);
  const double all = OnePerChip::kAll, part = all / 64;
  const double reduced =
      ultraserver.reducing_rings_s(all) + ultraserver.exchange_s({{0, 3}, {1, 2}}, 2 * part) +
      ultraserver.exchange_s({{0, 1}, {2, 3}}, part, 2) + ultraserver.stage_s({{0, 0, part, 3}});
  const double gathered = ultraserver.exchange_s({{0, 1}, {2, 3}}, part) +
                          ultraserver.exchange_s({{0, 3}, {1, 2}}, 2 * part) + ultraserver.rings_s(all);
  EXPECT_NEAR(ultraserver.seconds(Kind::kReduceScatter, "hier") / reduced, 1, 5e-3);
  const double summed = ultraserver.hierarchy_s() / (reduced + gathered);
  EXPECT_NEAR(summed, 1, 3e-2);
  EXPECT_LE(summed, 1 + 1e-3);
}

}  // namespace
}  // namespace opentrn::collectives
