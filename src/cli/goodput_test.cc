#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "cli/run_for_test.h"
#include "cli/text_table.h"

namespace opentrn::cli {
namespace {

using testing::HasSubstr;

TEST(Goodput, PrintsSharesCausesAndWhatIsAssumed) {
  const Ran ran = run_for_test({"goodput", "--chips", "16384", "--model", "Llama-3.1-405B", "--runs", "50"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  for (const char* word : {"A failure every 3.09 h", "goodput", "lost work", "80 % interval", "GPU memory",
                           "Assumed: a restart takes 600 s", "50 runs of 30 days, seed 1"})
    EXPECT_THAT(ran.out, HasSubstr(word));
  EXPECT_LE(longest_line(ran.out), 130u);
}

TEST(Goodput, OfTrainiumSaysThatNoRateWasPublished) {
  const Ran ran = run_for_test({"goodput", "--instance", "trn2.48xlarge", "--count", "6272", "--parameters",
                                "1e12", "--runs", "5", "--json"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  const auto json = nlohmann::json::parse(ran.out);
  EXPECT_EQ(json["chips"], 100352);
  EXPECT_LT(json["goodput"]["low"], json["goodput"]["value"]);
  EXPECT_GT(json["goodput"]["high"], json["goodput"]["value"]);
  EXPECT_THAT(json["assumed"].dump(), HasSubstr("was ever published"));
}

TEST(Goodput, SaysWhatIsMissing) {
  const auto error = [](std::vector<const char*> words) {
    words.insert(words.begin(), "goodput");
    const Ran ran = run_for_test(words);
    EXPECT_NE(ran.code, 0);
    return ran.err;
  };
  EXPECT_THAT(error({}), HasSubstr("--chips 16384"));
  EXPECT_THAT(error({"--chips", "64"}), HasSubstr("[goodput.checkpoint]"));
  EXPECT_THAT(error({"--chips", "64", "--instance", "p5.48xlarge"}), HasSubstr("--count"));
  EXPECT_THAT(error({"--count", "64"}), HasSubstr("--instance"));
  EXPECT_THAT(error({"--chips", "64", "--parameters", "1e9", "--profile", "llama"}), HasSubstr("llama3"));
  EXPECT_THAT(error({"--chips", "64", "--parameters", "1e9", "--slow-hosts", "0.1"}),
              HasSubstr("--slowdown"));
  EXPECT_THAT(error({"--check", "/nowhere.csv"}), HasSubstr("[plan.file]"));
  EXPECT_THAT(error({"--chips", "64", "--mttf-h", "0"}), HasSubstr("--mttf-h: 0 is not above 0"));
  EXPECT_THAT(error({"--chips", "64", "--mttf-h", "inf"}), HasSubstr("--mttf-h: inf is not above 0"));
  EXPECT_THAT(error({"--chips", "64", "--mttf-h", "often"}), HasSubstr("'often' is not a number"));
  EXPECT_THAT(error({"--chips", "64", "--parameters", "1e12", "--mttf-h", "1e-9"}),
              HasSubstr("7.2e+14 failures"));
}

// The head said that the profile's failures were taken, beside another rate.
TEST(Goodput, SaysWhoseRateItIs) {
  const Ran ran =
      run_for_test({"goodput", "--chips", "64", "--parameters", "1e9", "--mttf-h", "3", "--runs", "2"});
  EXPECT_THAT(ran.out, HasSubstr("causes of failures, in the stated number, as llama3 published them"));
  EXPECT_THAT(ran.out, HasSubstr("A failure every 3.00 h"));
}

TEST(Goodput, ListsProfiles) {
  const Ran ran = run_for_test({"goodput", "--profiles"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("rsc1"));
}

}  // namespace
}  // namespace opentrn::cli
