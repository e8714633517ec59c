#include "planner/price.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"

namespace opentrn::planner::price_tests {
namespace {

const arch::Tables& tables() { return arch::default_tables(); }

PriceQuery asked(const char* kind, const char* as_of = "") {
  PriceQuery query;
  query.kind = kind;
  query.as_of = as_of;
  return query;
}

TEST(Price, IsTheOneOfTheDay) {
  EXPECT_DOUBLE_EQ(rate_of(tables(), "p4d.24xlarge", asked("on_demand"))->usd_h, 21.957642);
  EXPECT_DOUBLE_EQ(rate_of(tables(), "p4d.24xlarge", asked("on_demand", "2025-01"))->usd_h, 32.7726);
  EXPECT_DOUBLE_EQ(rate_of(tables(), "p4d.24xlarge", asked("on_demand", "2025-06-23"))->usd_h, 21.957642);
  EXPECT_FALSE(rate_of(tables(), "p4d.24xlarge", asked("on_demand", "2015-01")));
}

TEST(Price, IsNeverOfAnotherKind) {
  EXPECT_FALSE(rate_of(tables(), "trn2.48xlarge", asked("on_demand")));
  EXPECT_DOUBLE_EQ(rate_of(tables(), "trn2.48xlarge", asked("capacity_block"))->usd_h, 35.7608);
  EXPECT_FALSE(rate_of(tables(), "p5.48xlarge", asked("reserved")));
  EXPECT_THROW(rate_of(tables(), "p5.48xlarge", asked("free")), Fault);
  EXPECT_THROW(rate_of(tables(), "p5.48xlarge", asked("on_demand", "yesterday")), Fault);
  EXPECT_THROW(rate_of(tables(), "p5.48xlarge", asked("on_demand", "2025-13")), Fault);
}

TEST(Price, AFileOfOnesOwnComesFirst) {
  const TemporaryFolderForTest folder;
  const std::string path = folder.path() / "prices.toml";
  std::ofstream(path) << R"([source]
contract = "our contract"
[price."p5.48xlarge"]
confidence = "documented"
source = "contract"
on_demand_usd_h = {value = 30.0, date = "2026-08-01"}
)";
  PriceQuery query = asked("on_demand");
  query.file = read_prices(path);
  EXPECT_DOUBLE_EQ(rate_of(tables(), "p5.48xlarge", query)->usd_h, 30);
  EXPECT_EQ(rate_of(tables(), "p5.48xlarge", query)->source, "our contract");
  EXPECT_DOUBLE_EQ(rate_of(tables(), "p4d.24xlarge", query)->usd_h, 21.957642);  // not in it
  query.kind = "reserved";
  EXPECT_FALSE(rate_of(tables(), "p5.48xlarge", query));
  EXPECT_THROW(read_prices("/nowhere"), Fault);
  std::ofstream(path) << "[chip.mine]\nconfidence = \"assumed\"\nsource = \"opentrn\"\ncores = 8\n";
  EXPECT_THROW(read_prices(path), Fault);
}

// A rate below zero priced a plan below zero, and one in euros was read and used by nobody.
TEST(Price, WhatIsNoRateIsRefused) {
  const TemporaryFolderForTest folder;
  const std::string path = folder.path() / "prices.toml";
  const auto refusal = [&](const std::string& row) -> std::string {
    std::ofstream(path)
        << "[source]\ncontract = \"ours\"\n[price.\"p5.48xlarge\"]\nconfidence = \"documented\"\n"
        << "source = \"contract\"\n"
        << row << "\n";
    try {
      read_prices(path);
    } catch (const Fault& fault) {
      return fault.what();
    }
    return "taken";
  };
  EXPECT_EQ(refusal("spot_usd_h = 3.5"), "taken");
  EXPECT_THAT(refusal("on_demand_usd_h = -1.0"),
              testing::HasSubstr("price.p5.48xlarge.on_demand_usd_h is -1"));
  EXPECT_THAT(refusal("on_demand_usd_h = 0"), testing::HasSubstr("is 0"));
  EXPECT_THAT(refusal("on_demand_usd_h = inf"), testing::HasSubstr("is inf"));
  EXPECT_THAT(refusal("on_demand_eur_h = 1.0"), testing::HasSubstr("on_demand_eur_h' is no rate"));
  EXPECT_THAT(
      refusal("on_demand_usd_h = {value = 1.0, date = \"2026-02-31\"}"),
      testing::AllOf(testing::HasSubstr("prices.toml: price.p5.48xlarge"), testing::HasSubstr("not a date")));
  // A misspelled name left the list's rate in place.
  const std::string rest =
      "spot_usd_h = 3.5\n[price.\"p5.48xlarg\"]\nconfidence = \"documented\"\n"
      "source = \"contract\"\nspot_usd_h = 3.0";
  EXPECT_THAT(refusal(rest), testing::AllOf(testing::HasSubstr("'p5.48xlarg', which is no instance"),
                                            testing::HasSubstr("p5.48xlarge")));
  const std::string history =
      "spot_usd_h = 3.5\n[price_history]\nconfidence = \"documented\"\n"
      "source = \"contract\"\n[price_history.\"p5.48xlarge\".spot]\n"
      "last_year = {value = 3.0, date = \"2025-08-01\"}";
  EXPECT_EQ(refusal(history), "taken");
}

TEST(Price, CountsDays) {
  EXPECT_EQ(days_between("2026-01-01", "2026-02-01"), 31);
  EXPECT_EQ(days_between("2024-02", "2024-03-01"), 1);  // a month is its last day
}

}  // namespace
}  // namespace opentrn::planner::price_tests
