#include "fabric/verify.h"

#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::fabric {
namespace {

using testing::IsEmpty;

Platform make_case(const std::string& name, int count = 1) {
  return Platform::make(arch::default_tables(), name, count);
}

std::vector<int> cores(int first, int count, int step = 1) {
  std::vector<int> out;
  for (int i = 0; i < count; ++i) out.push_back(first + i * step);
  return out;
}

TEST(Verify, EveryInstanceAndUltraServerIsSound) {
  for (const arch::Instance& instance : arch::default_tables().instances())
    EXPECT_THAT(verify(make_case(instance.name)), IsEmpty()) << instance.name;
  for (const arch::UltraServer& unit : arch::default_tables().ultraservers())
    EXPECT_THAT(verify(make_case(unit.name)), IsEmpty()) << unit.name;
  EXPECT_THAT(verify(make_case("trn1n", 3)), IsEmpty());
  EXPECT_THAT(verify(make_case("Trn2 UltraServer", 2)), IsEmpty());
}

// The table of ports with other neighbours for the first chip.
arch::Overrides with_chip_0(const std::string& row) {
  std::string list;
  const arch::Fact& ports = arch::default_tables().facts().at("fabric.trn2.ports.neighbours_by_pair");
  for (double chip : ports.as<std::vector<double>>())
    list += (list.empty() ? "" : ",") + std::to_string(static_cast<int>(chip));
  const std::string first = "12,1,3,4";
  EXPECT_EQ(list.substr(0, first.size()), first);
  return {{}, {"fabric.trn2.ports.neighbours_by_pair=[" + row + list.substr(first.size()) + "]"}};
}

TEST(Verify, ATableOfPortsThatDisagreesIsRefused) {
  const arch::Tables exchanged(with_chip_0("1,12,3,4")), twice(with_chip_0("12,12,3,4"));
  const arch::Tables less(with_chip_0("12,1,3"));
  EXPECT_THAT(verify(Platform::make(exchanged, "trn2")), IsEmpty());
  EXPECT_THROW(Platform::make(twice, "trn2"), Fault);
  EXPECT_THROW(Platform::make(less, "trn2"), Fault);
}

constexpr int64_t kLink = 37'500'000'000, kAdapter = 6'400'000'000;  // of trn1n, in the tables

// Half of the 4x4 torus against the other half: 4 links each way across, and round the back 4 more. Over the
// network the 8 adapters of a half reach those of the other.
TEST(MinCut, HalvesOfATorus) {
  const Platform p = make_case("trn1n");
  const std::vector<int> upper = cores(0, 16), lower = cores(16, 16);
  EXPECT_EQ(min_cut_bytes_per_s(p, upper, lower), 8 * (kLink + kAdapter));
  // One core: its own rings give more than its chip's four links and adapter.
  EXPECT_EQ(min_cut_bytes_per_s(p, cores(0, 1), lower), 4 * kLink + kAdapter);
  // Its neighbour on the chip, directly.
  EXPECT_GE(min_cut_bytes_per_s(p, cores(0, 1), cores(1, 1)), 56'600'000'000);
}

TEST(MinCut, InstancesAreJoinedByTheirAdapters) {
  const Platform p = make_case("trn1", 2);
  EXPECT_EQ(min_cut_bytes_per_s(p, cores(0, 32), cores(32, 32)), 8 * 6'400'000'000);
}

// Each chip has four links and an adapter in, and gets the bytes of 30 cores over them.
TEST(MinCut, AnAllGatherIsHeldByTheLinksOfAChip) {
  const Platform p = make_case("trn1n");
  EXPECT_NEAR(static_cast<double>(all_gather_bytes_per_s(p, cores(0, 32))), (4.0 * kLink + kAdapter) / 30, 2);
  // A row of four chips may use the rows beside it, whatever a ring does.
  EXPECT_NEAR(static_cast<double>(all_gather_bytes_per_s(p, cores(0, 8))), (4.0 * kLink + kAdapter) / 6, 2);
}

TEST(MinCut, AnAllGatherOnAChainIsHeldByItsNarrowestPlace) {
  const Platform p = make_case("inf2.24xlarge");
  // 6 chips of 2 cores: the chip at the end gets 10 cores' bytes over one link.
  const double link = 51.5e9 * 0.781;
  EXPECT_NEAR(static_cast<double>(all_gather_bytes_per_s(p, cores(0, 12))), link / 10, 2);
}

}  // namespace
}  // namespace opentrn::fabric
