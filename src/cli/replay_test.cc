#include <cstdio>
#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/temporary_folder_for_test.h"
#include "cli/run_for_test.h"

namespace opentrn::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kLinear = "step=3000,prefill_token=40,decode_seq=150";

TEST(ReplayCommand, PrintsTextJsonAndAPage) {
  const TemporaryFolderForTest folder;
  const std::string page = (folder.path() / "page.html").string();
  const Ran text = run_for_test({"replay", "--requests", "50", "--linear", kLinear, "--html", page.c_str(),
                                 "--slo", "ttft=500,tpot=50", "--instance", "trn1.32xlarge"});
  EXPECT_EQ(text.code, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("50 completed"));
  EXPECT_THAT(text.out, HasSubstr("USD per million output tokens"));
  EXPECT_LE(longest_line(text.out), 120u);
  std::ifstream in(page);
  std::stringstream whole;
  whole << in.rdbuf();
  EXPECT_THAT(whole.str(), HasSubstr("\"completed\":50"));
  EXPECT_THAT(whole.str(), testing::Not(HasSubstr("{{data}}")));
  const Ran json = run_for_test({"replay", "--requests", "50", "--linear", kLinear, "--json"});
  const auto report = nlohmann::json::parse(json.out);
  EXPECT_EQ(report["requests"]["completed"], 50);
  EXPECT_EQ(report["output_tokens"], 50 * 128);
  EXPECT_TRUE(report["usd_per_million_output_tokens"].is_null());
}

TEST(ReplayCommand, NumbersThatAreNoneAreRefused) {
  // "nan" passed CLI11's ranges: the first one crashed, the others gave times of their own.
  for (const std::vector<const char*>& given : std::vector<std::vector<const char*>>{
           {"--replicas", "2", "--autoscale-min", "1", "--autoscale-target", "nan"},
           {"--speedup", "nan"},
           {"--host-us", "nan"},
           {"--host-request-us", "inf"},
           {"--prefill-replicas", "1", "--kv-bytes-per-token", "nan", "--kv-link-gb-s", "1"},
           {"--seed", "-1"},
           {"--max-model-len", "2147483647"},
           {"--num-gpu-blocks-override", "2147483647"},
           {"--num-gpu-blocks-override", "-5"}}) {
    std::vector<const char*> words{"replay", "--requests", "10", "--linear", kLinear};
    words.insert(words.end(), given.begin(), given.end());
    EXPECT_EQ(run_for_test(words).code, 2) << given.back();
  }
}

TEST(ReplayCommand, ASpeedupThatNoClockHoldsIsRefused) {
  const TemporaryFolderForTest folder;
  const std::string trace = (folder.path() / "late.csv").string();
  std::ofstream(trace) << "arrival_s,prompt_tokens,output_tokens\n0,10,5\n2000000,5,5\n";
  const auto at = [&](const char* speedup) {
    return run_for_test({"replay", trace.c_str(), "--speedup", speedup, "--linear", kLinear});
  };
  const Ran slow = at("0.001");  // 2e9 s, which took -9223372.019 s
  EXPECT_EQ(slow.code, 2);
  EXPECT_THAT(slow.err, HasSubstr("[serving.trace]: 0.001 times as fast, a request comes at 2000000000 s"));
  EXPECT_THAT(at("0.9").out, HasSubstr("0.9 times as fast"));
}

TEST(ReplayCommand, SaysWhatWasDrawnAndWhyRequestsAreRefused) {
  const Ran burst = run_for_test(
      {"replay", "--requests", "3", "--arrivals", "burst", "--linear", kLinear, "--prompt-tokens", "40000"});
  EXPECT_THAT(burst.out, HasSubstr("burst arrivals, seed 0\n"));
  EXPECT_THAT(burst.out,
              HasSubstr("0 completed, 3 refused: without a token, or prompts of 32768 tokens or more"));
  const Ran drawn = run_for_test({"replay", "--requests", "3", "--speedup", "4", "--linear", kLinear});
  EXPECT_THAT(drawn.out, HasSubstr("poisson arrivals, 1 requests a second, seed 0, 4 times as fast\n"));
}

// One request: what it takes can be added up by hand.
TEST(ReplayCommand, TimesAreTheSumOfSteps) {
  const TemporaryFolderForTest folder;
  const std::string trace = (folder.path() / "one.csv").string();
  const std::string table = (folder.path() / "table.csv").string();
  std::ofstream(trace) << "arrival_s,prompt_tokens,output_tokens\n7,200,11\n";
  std::ofstream(table) << "program,us\nprefill_s256,9000\ndecode_b1,2000\n";
  const Ran ran = run_for_test({"replay", trace.c_str(), "--step-times", table.c_str(), "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto report = nlohmann::json::parse(ran.out);
  EXPECT_DOUBLE_EQ(report["ttft_ms"]["mean"], 9.0);
  EXPECT_DOUBLE_EQ(report["tpot_ms"]["mean"], 2.0);
  EXPECT_DOUBLE_EQ(report["e2e_ms"]["mean"], 29.0);
  EXPECT_DOUBLE_EQ(report["prefill_padding"], 56.0 / 256);
  EXPECT_EQ(report["steps"]["decode"], 10);
}

TEST(ReplayCommand, SaysWhatIsWrong) {
  const auto error = [](std::vector<const char*> words) {
    words.insert(words.begin(), "replay");
    const Ran ran = run_for_test(words);
    EXPECT_EQ(ran.code, 2);
    EXPECT_EQ(ran.out, "");
    return ran.err;
  };
  EXPECT_THAT(error({}), HasSubstr("serving.times"));
  EXPECT_THAT(error({"--linear", "x=1"}), HasSubstr("serving.times"));
  EXPECT_THAT(error({"--linear", kLinear, "--policy", "fifo"}), HasSubstr("neuron, neuron-nxdi or vllm"));
  EXPECT_THAT(error({"--linear", kLinear, "--instance", "trn9"}), HasSubstr("serving.instance"));
  EXPECT_THAT(error({"--linear", kLinear, "--slo", "ttft"}), HasSubstr("serving.slo"));
  EXPECT_THAT(error({"--linear", kLinear, "--replicas", "2", "--routing", "random"}),
              HasSubstr("serving.fleet"));
  EXPECT_THAT(error({"--linear", kLinear, "--prefill-replicas", "1"}), HasSubstr("serving.fleet"));
  EXPECT_THAT(error({"--linear", kLinear, "--autoscale-min", "2"}), HasSubstr("serving.fleet"));
  EXPECT_THAT(error({"--linear", kLinear, "--num-seqs-buckets", "1,3"}), HasSubstr("serving.config"));
  EXPECT_THAT(error({"--linear", kLinear, "--rate", "0"}), HasSubstr("serving.load"));
  EXPECT_THAT(error({"/nowhere.csv", "--linear", kLinear}), HasSubstr("serving.trace"));
  EXPECT_THAT(error({"--linear", kLinear, "--html", "/nowhere/at/all.html"}), HasSubstr("serving.html"));
}

}  // namespace
}  // namespace opentrn::cli
