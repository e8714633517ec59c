#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include "cli/run_for_test.h"

namespace opentrn::cli {
namespace {

using testing::HasSubstr;

std::string file_of(const std::string& text) {
  // Tests run side by side, each in a process of its own.
  const std::string path = testing::TempDir() + "/fabric_job_test_" + std::to_string(getpid()) + ".yaml";
  std::ofstream(path) << text;
  return path;
}

constexpr const char* kJob = R"(
axes: {tp: 16, pp: 4, dp: 98}
blocks:
  - name: micro-batches
    repeat: 19
    steps:
      - repeat: 20
        steps:
          - {all_gather: 64MB, over: tp}
          - {compute: 1.5ms, hbm: 200MB}
          - {reduce_scatter: 64MB, over: tp}
      - {shift: 4MB, over: pp}
  - name: gradients
    steps:
      - {compute: 2ms}
      - {name: gradients, reduce_scatter: 256MB, over: dp, beside: true}
      - {compute: 1ms}
)";

Ran run_job(const std::string& text, std::vector<const char*> more = {}) {
  const std::string path = file_of(text);
  std::vector<const char*> words = {"fabric", "job", path.c_str(),       "--instance", "trn2.48xlarge",
                                    "-N",     "392", "--ranks-per-chip", "1"};
  words.insert(words.end(), more.begin(), more.end());
  return run_for_test(words);
}

TEST(FabricJob, AStepOfThousandsOfChips) {
  const Ran ran = run_job(kJob, {"--pod", "8", "--oversubscription", "2"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("6272 ranks, 6272 chips: 392 x trn2.48xlarge"));
  EXPECT_THAT(ran.out, HasSubstr("49 pods of 8"));
  EXPECT_LE(longest_line(ran.out), 120U);
  const auto json = nlohmann::json::parse(run_job(kJob, {"--json"}).out);
  EXPECT_EQ(json["blocks"][0]["repeat"], 19);
  EXPECT_EQ(json["compute_ps"], 19 * 20 * 1'500'000'000LL + 3'000'000'000LL);
  EXPECT_EQ(json["collectives"][0]["count"], 19 * 20);
  EXPECT_EQ(json["collectives"][3]["ranks"], 98);
  EXPECT_EQ(json["collectives"][3]["name"], "gradients");
}

TEST(FabricJob, WhatIsNoJobIsRefusedWithItsLine) {
  const auto refused = [](std::string text, const char* what, std::vector<const char*> more = {}) {
    const Ran ran = run_job(text, std::move(more));
    EXPECT_EQ(ran.code, 2) << text;
    EXPECT_THAT(ran.err, HasSubstr(what));
  };
  refused("axes: {tp: [", "fabric.yaml");
  refused("axes: {tp: 16}\n", "no 'blocks'");
  refused("blocks: [{steps: [{compute: 1ms}]}]\n", "no 'axes'");
  const std::string axes = "axes: {tp: 16, dp: 392}\nblocks:\n - steps:\n";
  refused(axes + "    - {compute: 1}\n", "line 4: 'compute' is '1'");
  refused(axes + "    - {compute: -1us}\n", "line 4: 'compute'");
  refused(axes + "    - {all_reduce: 1MB}\n", "line 4: a collective without 'over'");
  refused(axes + "    - {all_reduce: many, over: tp}\n", "line 4: 'all_reduce' is 'many'");
  refused(axes + "    - {allreduce: 1MB, over: tp}\n", "all_reduce");
  refused(axes + "    - {all_reduce: 1MB, all_gather: 1MB, over: tp}\n", "two collectives");
  refused(axes + "    - {compute: 1ms, beside: true}\n", "'beside' without a collective");
  refused(axes + "    - {all_reduce: 1MB, over: ep}\n", "which is not an axis");
  refused(axes + "    - {shift: 1MB, over: [tp, dp]}\n", "several axes");
  refused(axes + "    - {repeat: 0, steps: [{compute: 1ms}]}\n", "'repeat' is '0'");
  refused("axes: {tp: 16, dp: 4}\nblocks: [{steps: [{compute: 1ms}]}]\n", "axes whose product is 6272");
  // A folder opens like a file.
  for (const auto& [path, why] :
       {std::pair{"/nowhere/job.yaml", "there is no file"}, {"/", "not a regular file"}}) {
    const Ran ran = run_for_test({"fabric", "job", path});
    EXPECT_EQ(ran.code, 2);
    EXPECT_THAT(ran.err, HasSubstr("fabric.file"));
    EXPECT_THAT(ran.err, HasSubstr(why));
  }
}

}  // namespace
}  // namespace opentrn::cli
