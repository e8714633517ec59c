// No collective is faster than the links allow any algorithm to be (fabric/verify.h), and those whose links
// are all busy all the time take that long.
#include <numeric>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/units.h"
#include "collectives/algorithms.h"
#include "collectives/predict.h"
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

}  // namespace
}  // namespace opentrn::collectives
