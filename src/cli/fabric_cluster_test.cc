#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/run_for_test.h"

namespace opentrn::cli {
namespace {

using testing::HasSubstr;

nlohmann::json times_of(std::vector<const char*> more) {
  std::vector<const char*> words = {"fabric", "cluster", "--instance", "trn2.48xlarge", "--ranks-per-chip",
                                    "1",      "--bytes", "64MB",       "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const Ran ran = run_for_test(words);
  EXPECT_EQ(ran.code, 0) << ran.err;
  return nlohmann::json::parse(ran.out);
}

TEST(FabricCluster, AHundredThousandChips) {
  const auto out = times_of({"-N", "6272", "--pod", "128", "--levels", "rdh:128,mesh:7,mesh:7"});
  EXPECT_EQ(out["chips"], 100'352);
  EXPECT_EQ(out["ranks"], 100'352);
  EXPECT_GT(out["times"][0]["steps"], 1'000'000);
  EXPECT_LT(out["times"][0]["classes"], 100'000);
  EXPECT_THAT(out["assumed"].get<std::string>(), HasSubstr("49 pods of 128"));
}

TEST(FabricCluster, WithoutPodsManyMachinesAreSeveralLevels) {
  const auto levels = times_of({"-N", "6272"})["times"][0]["levels"];
  ASSERT_EQ(levels.size(), 9U);  // rdh of 128 is seven halvings, then rings of 7
  EXPECT_EQ(levels[6]["size"], 2);
  EXPECT_EQ(levels[7], (nlohmann::json{{"size", 7}, {"algorithm", "ring"}, {"between_pods", false}}));
  EXPECT_EQ(levels[8]["size"], 7);
  EXPECT_EQ(times_of({"-N", "12"})["times"][0]["levels"].size(), 1U);
  EXPECT_EQ(times_of({"-N", "38"})["times"][0]["levels"][1]["size"], 19);
  const auto whole = times_of({"-N", "34", "--all-steps"}), one = times_of({"-N", "34"});
  EXPECT_EQ(one["times"][0]["ps"], whole["times"][0]["ps"]);
}

TEST(FabricCluster, InstancesOfAnUltraServerAreALevel) {
  const std::vector<const char*> words = {
      "fabric", "cluster",          "-N", "2", "--instance", "Trn2 UltraServer", "--bytes",
      "64MB",   "--ranks-per-chip", "1"};
  const Ran ran = run_for_test(words);
  EXPECT_THAT(ran.out,
              HasSubstr("hier, ring within an instance, then rdh of 4 (instances of an UltraServer), "
                        "ring of 2"));
  EXPECT_THAT(ran.out, HasSubstr("which collective runs between the instances of an UltraServer"));
  std::vector<const char*> json = words;
  json.push_back("--json");
  const auto time = nlohmann::json::parse(run_for_test(json).out)["times"][0];
  EXPECT_EQ(time["levels"][0]["between_instances"], true);
  EXPECT_FALSE(time["levels"][2].contains("between_instances"));
  json.push_back("--all-steps");
  EXPECT_EQ(nlohmann::json::parse(run_for_test(json).out)["times"][0]["ps"], time["ps"]);
}

TEST(FabricCluster, WrittenOutItTakesTheSameTime) {
  const std::vector<const char*> common = {"-N", "6", "--oversubscription", "3", "--taken", "efa=0.2"};
  std::vector<const char*> all = common, units = common;
  all.push_back("--all-steps");
  units.push_back("--all-units");
  const auto one = times_of(common)["times"][0], steps = times_of(all)["times"][0];
  EXPECT_EQ(one["ps"], steps["ps"]);
  EXPECT_EQ(one["steps"], steps["steps"]);
  EXPECT_EQ(times_of(units)["times"][0]["ps"], steps["ps"]);
}

TEST(FabricCluster, AllToAllOfAHundredThousandChips) {
  const Ran ran = run_for_test({"fabric", "cluster", "alltoall", "-N", "6272", "--instance", "trn2.48xlarge",
                                "--pod", "128", "--ranks-per-chip", "1", "--bytes", "1gb", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto time = nlohmann::json::parse(ran.out)["times"][0];
  EXPECT_EQ(time["steps"], 100'352LL * 100'352);
  EXPECT_LT(time["classes"], 1000);
  // What leaves a unit of 16 chips by 16 adapters of 25 GB/s, 51.2 % of them reached.
  const double bytes = time["bytes"].get<double>() * (1 - 1 / 6272.0), rate = 0.512 * 25e9;
  EXPECT_GE(time["us"].get<double>(), bytes / rate * 1e6);
  EXPECT_LE(time["us"].get<double>(), 1.2 * bytes / rate * 1e6);
}

TEST(FabricCluster, PodsTakenLinksAndLevelsAreSaid) {
  const Ran ran = run_for_test({"fabric", "cluster", "all_gather", "-N", "24", "--instance", "trn1.32xlarge",
                                "--pod", "8", "--taken", "core=0.25", "--bytes", "256MB"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("384 chips: 24 x trn1.32xlarge"));
  EXPECT_THAT(ran.out, HasSubstr("rdh of 8, ring of 3 (between pods)"));
  EXPECT_THAT(ran.out, HasSubstr("other jobs take 0.25 of core"));
}

TEST(FabricCluster, WhatCannotBeIsRefused) {
  const auto refused = [](std::vector<const char*> words, const char* label) {
    words.insert(words.begin(), {"fabric", "cluster"});
    const Ran ran = run_for_test(words);
    EXPECT_NE(ran.code, 0);
    EXPECT_THAT(ran.err, HasSubstr(label));
  };
  refused({"-N", "4", "--taken", "efa"}, "cli.taken");
  refused({"-N", "4", "--taken", "efa=much"}, "cli.taken");
  refused({"-N", "4", "--taken", "wire=0.5"}, "cli.taken");
  refused({"-N", "4", "--taken", "efa=1"}, "fabric.cluster");
  refused({"-N", "4", "--taken", "efa@9=0.5", "--all-units"}, "fabric.cluster");
  refused({"-N", "4", "--taken", "efa@1=0.5"}, "collectives.unlike_units");
  refused({"-N", "4", "--taken", "efa@9=0.5"}, "links of unit 9, and there are 4\n    try: units 0 to 3");
  refused({"-N", "4", "--taken", "efa=nan"}, "a share of at least 0 and less than 1");
  refused({"-N", "4", "--oversubscription", "nan"}, "1, a network that does not block, to ");
  refused({"-N", "4", "--rails", "3"}, "a divisor of 16");
  refused({"-N", "4", "--levels", "ring:3"}, "levels 'ring:3' are of 3 units together, and there are 4");
  refused({"-N", "1"}, "fabric.cluster");
  refused({"-N", "4", "--pod", "3"}, "fabric.cluster");
  refused({"-N", "4", "--oversubscription", "0.5"}, "fabric.cluster");
  refused({"-N", "4", "--levels", "ring:3"}, "collectives.algorithm");
  refused({"-N", "4", "--ranks-per-chip", "3"}, "collectives.ranks");
  refused({"broadcast", "-N", "4"}, "collectives.serves");
  refused({"alltoall", "-N", "6272", "--all-units"}, "collectives.ranks");
}

}  // namespace
}  // namespace opentrn::cli
