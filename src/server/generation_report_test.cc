#include "server/generation_report.h"

#include <gtest/gtest.h>

namespace opentrn::server {
namespace {

using Json = nlohmann::ordered_json;

Json program(const char* text, int tokens, double predicted_us, const char* trust = "80 % band") {
  return {{"text", text},          {"sequences", 2},    {"tokens", tokens},
          {"context", 128},        {"instructions", 7}, {"predicted_us", predicted_us},
          {"collectives_us", 0.0}, {"bound_by", "dma"}, {"band", Json::object()},
          {"trust", trust},        {"runs", 4},         {"host_s", 0.02}};
}

Json run() {
  return {{"model", "m"},
          {"target", "trn2"},
          {"answers",
           {{{"prompt_tokens", 5},
             {"tokens", {3, 4}},
             {"first_token_predicted_us", 1500.0},
             {"first_token_host_s", 0.5}}}},
          {"programs", {program("decode", 1, 500), program("prefill", 64, 1000)}},
          {"draft_programs", Json::array()},
          {"speculation",
           {{"tokens", 0},
            {"guessed", 0},
            {"right", 0},
            {"drafted_us", 0.0},
            {"decoded_us", 0.0},
            {"decoded_tokens", 0}}},
          {"host", {{"ready_s", 1.0}, {"seconds", 0.25}}}};
}

TEST(GenerationReport, ALineForEachProgramThoseOfOneTokenLast) {
  EXPECT_EQ(generation_text(run()),
            "first token of 5: 1.50 ms predicted on trn2, 0.50 s here\n"
            "prefill: 1.00 ms predicted, 0.50 ms a token, bound by dma; 4 runs, 5 ms here\n"
            "  80 % band\n"
            "decode: 0.50 ms predicted, 0.25 ms a token, bound by dma; 4 runs, 5 ms here\n"
            "2 tokens in 0.25 s here, 8.0 a second; ready after 1.00 s");
}

TEST(GenerationReport, OfGuessesHowManyWereRightAndTheTimeOfEachToken) {
  Json guessed = run();
  guessed["draft_programs"] = {program("draft", 1, 100, "unknown")};
  guessed["speculation"] = {{"tokens", 3},         {"guessed", 9},         {"right", 6},
                            {"drafted_us", 400.0}, {"decoded_us", 6000.0}, {"decoded_tokens", 8}};
  const std::string text = generation_text(guessed);
  EXPECT_NE(text.find("\ndraft model's draft: 0.10 ms"), std::string::npos);
  EXPECT_NE(
      text.find("\n6 of 9 guessed tokens were right: 0.75 ms predicted for each token behind the first\n"),
      std::string::npos);
  const Json facts = generation_facts(guessed);
  EXPECT_EQ(facts["speculation"]["us_per_token"], 750.0);
  EXPECT_FALSE(facts["speculation"].contains("decoded_us"));
  EXPECT_EQ(facts["programs"][0]["name"], "prefill");
  EXPECT_EQ(facts["programs"][2]["name"], "draft model's draft");
  EXPECT_FALSE(facts["programs"][0].contains("trust"));
  EXPECT_EQ(facts["host"]["tokens_per_s"], 8.0);
}

TEST(GenerationReport, FactsKeepTheirOrder) {
  const Json facts = generation_facts(run());
  std::vector<std::string> keys;
  for (const auto& [key, value] : facts.items()) keys.push_back(key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"model", "target", "answers", "programs", "speculation", "host"}));
  EXPECT_TRUE(facts["speculation"]["us_per_token"].is_null());
}

}  // namespace
}  // namespace opentrn::server
