#include "cli/fabric_operation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/run_for_test.h"

namespace opentrn::cli {
namespace {

using testing::HasSubstr;

nlohmann::json predicted(const char* operation, const char* bytes = "1MB") {
  const Ran ran = run_for_test(
      {"fabric", "predict", operation, "--instance", "trn1.32xlarge", "-r", "8", "--bytes", bytes, "--json"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  return nlohmann::json::parse(ran.out)["times"][0];
}

TEST(FabricOperation, HasTheNamesOfPlansAndOfNccomTest) {
  using collectives::Kind;
  EXPECT_EQ(fabric_operation("all_to_all").kind, Kind::kAllToAll);
  EXPECT_EQ(fabric_operation("alltoall").kind, Kind::kAllToAll);
  EXPECT_EQ(fabric_operation("allr").name, "all_reduce");
  EXPECT_EQ(fabric_operation("broadcast").kind, Kind::kBroadcast);
  EXPECT_EQ(predicted("all_to_all"), predicted("alltoall"));
}

// A tree of eight ranks moves the bytes three times one after the other, and its size is what each rank has.
TEST(FabricOperation, BroadcastAndReduceAreTrees) {
  for (const char* operation : {"broadcast", "reduce"}) {
    const nlohmann::json small = predicted(operation, "1kb"), large = predicted(operation, "64MB");
    EXPECT_EQ(small["algorithm"], operation);
    EXPECT_EQ(large["bus_gb_s"], large["algorithm_gb_s"]);
    EXPECT_GT(large["us"], 10 * small["us"].get<double>());
  }
}

TEST(FabricOperation, WhatHasNoSizeByItselfIsRefused) {
  for (const char* command : {"predict", "export"})
    for (const char* operation : {"permute", "sendrecv", "all_gatherv", "scatter"}) {
      std::vector<const char*> words = {"fabric", command, operation, "--instance", "trn1.32xlarge"};
      if (std::string(command) == "export")
        words.insert(words.end(), {"--format", "goal", "-o", "none.goal"});
      const Ran ran = run_for_test(words);
      EXPECT_EQ(ran.code, 2) << operation;
      EXPECT_THAT(ran.err, HasSubstr("[collectives.kind]"));
      EXPECT_THAT(ran.err, HasSubstr("broadcast"));
    }
}

}  // namespace
}  // namespace opentrn::cli
