#include "fabric/packets.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fabric/flows.h"
#include "fabric/platform.h"

namespace opentrn::fabric {
namespace {

TEST(Packets, OneFlowTakesItsBytesAndTheFillingOfItsWay) {
  Network net;
  net.nodes.resize(3);
  net.links = {{0, 1, 1'000'000'000, 0, LinkClass::kNeuronLink},
               {1, 2, 500'000'000, 0, LinkClass::kNeuronLink}};
  PacketFlow flow;
  flow.routes = {{{0, 1}, kWholeShare}};
  flow.bytes = 1000;
  // 10 packets of 100 bytes: one over the first link (100 ns), ten over the second (2 us).
  EXPECT_THAT(packet_ends_ps(net, std::vector{flow}, {100, 4}), testing::ElementsAre(2'100'000));
}

TEST(Packets, TwoFlowsTakeTurns) {
  Network net;
  net.nodes.resize(2);
  net.links = {{0, 1, 1'000'000'000, 0, LinkClass::kNeuronLink}};
  PacketFlow a, b;
  a.routes = b.routes = {{{0}, kWholeShare}};
  a.bytes = 1000;
  b.bytes = 3000;
  EXPECT_THAT(packet_ends_ps(net, std::vector{a, b}, {100, 4}), testing::ElementsAre(1'900'000, 4'000'000));
}

// One pattern of transfers between cores, by both models.
struct Error {
  double sum = 0, worst = 0;
  int count = 0;
};

void compare(const Platform& p, const std::vector<std::tuple<int, int, int64_t>>& transfers, Error& error) {
  Flows flows(p.network());
  std::vector<PacketFlow> packets;
  for (const auto& [from, to, bytes] : transfers) {
    Flow flow;
    flow.hops = p.path(from, to).hops;
    flow.bytes = bytes;
    flows.start(0, flow);
    packets.push_back({p.routes(from, to), bytes, 0});
  }
  std::vector<int64_t> ends(transfers.size());
  for (int64_t end = flows.next_end(); end != INT64_MAX; end = flows.next_end())
    for (FlowId id : flows.advance(end)) ends[static_cast<size_t>(id)] = end;
  const std::vector<int64_t> reference = packet_ends_ps(p.network(), packets, {4096, 8});
  // A phase of a collective takes as long as its last transfer; single transfers differ more, as turns of
  // packets are no exact fairness.
  const auto last = static_cast<double>(std::ranges::max(ends));
  const double off = std::abs(last / static_cast<double>(std::ranges::max(reference)) - 1);
  error.sum += off;
  error.worst = std::max(error.worst, off);
  ++error.count;
}

int64_t some_bytes(std::mt19937& random) {
  // 0.8 to 4 MB in whole packets, which split in eight.
  return static_cast<int64_t>(200 + random() % 800) * 4096;
}

TEST(Packets, FlowsAgreeOnRandomTraffic) {
  std::mt19937 random(7);
  for (const char* name : {"trn1n", "inf2.24xlarge", "trn3-gen1-server"}) {
    const Platform p = Platform::make(arch::default_tables(), name);
    Error error;
    for (int round = 0; round < 6; ++round) {
      std::vector<std::tuple<int, int, int64_t>> transfers;
      const int count = 4 + static_cast<int>(random() % 40);
      for (int i = 0; i < count; ++i)
        transfers.emplace_back(random() % static_cast<uint32_t>(p.cores()),
                               random() % static_cast<uint32_t>(p.cores()), some_bytes(random));
      compare(p, transfers, error);
    }
    EXPECT_LE(error.sum / error.count, 0.05) << name;
    EXPECT_LE(error.worst, 0.15) << name;
    RecordProperty(std::string(name) + "_mean_ppm", static_cast<int>(error.sum / error.count * 1e6));
    RecordProperty(std::string(name) + "_worst_ppm", static_cast<int>(error.worst * 1e6));
  }
}

TEST(Packets, FlowsAgreeOnCollectives) {
  constexpr int64_t kBytes = 256 * 4096;
  for (const auto& [name, cores_per_rank] :
       {std::pair{"trn1n", 2}, {"inf2", 2}, {"trn2", 8}, {"trn3-gen2-server", 8}}) {
    const Platform p = Platform::make(arch::default_tables(), name);
    const int ranks = p.cores() / cores_per_rank;
    Error error;
    std::vector<std::tuple<int, int, int64_t>> all, ring, shift, gather;
    for (int a = 0; a < ranks; ++a) {
      for (int b = 0; b < ranks; ++b)
        if (a != b) all.emplace_back(a * cores_per_rank, b * cores_per_rank, kBytes);
      shift.emplace_back(a * cores_per_rank, (a + ranks / 2) % ranks * cores_per_rank, 4 * kBytes);
      if (a > 0) gather.emplace_back(a * cores_per_rank, 0, 4 * kBytes);
    }
    for (const std::vector<int>& cycle : p.hamiltonian_cycles())
      for (size_t i = 0; i < cycle.size(); ++i) {
        const int a = cycle[i], b = cycle[(i + 1) % cycle.size()];
        ring.emplace_back(a * cores_per_rank, b * cores_per_rank, 4 * kBytes);
        ring.emplace_back(b * cores_per_rank, a * cores_per_rank, 4 * kBytes);
      }
    for (const auto& pattern : {all, ring, shift, gather})
      if (!pattern.empty()) compare(p, pattern, error);
    EXPECT_LE(error.sum / error.count, 0.05) << name;
    EXPECT_LE(error.worst, 0.15) << name;
    RecordProperty(std::string(name) + "_mean_ppm", static_cast<int>(error.sum / error.count * 1e6));
    RecordProperty(std::string(name) + "_worst_ppm", static_cast<int>(error.worst * 1e6));
  }
}

}  // namespace
}  // namespace opentrn::fabric
