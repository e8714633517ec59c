#include "serving/trace.h"

#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "serving/arrivals.h"
#include "serving/step_times.h"

namespace opentrn::serving {
namespace {

Trace read(const std::string& text) {
  std::istringstream in(text);
  return read_trace(in, "file");
}

TEST(Trace, ReadsAzure) {
  const Trace trace = read(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.5000000,374,44\n"
      "2023-11-17 00:00:01.2500001,396,109\n");
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.requests[0].arrival, 0);
  EXPECT_EQ(trace.requests[1].arrival, 1'750'000'100'000);
  EXPECT_EQ(trace.requests[1].prompt_tokens, 396);
  EXPECT_EQ(trace.requests[1].output_tokens, 109);
}

TEST(Trace, ReadsMooncake) {
  const Trace trace = read(
      "{\"timestamp\": 27000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [46, 47]}\n"
      "{\"timestamp\": 30000, \"input_length\": 500, \"output_length\": 6, \"hash_ids\": [46]}\n");
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.format, "mooncake");
  EXPECT_EQ(trace.requests[1].arrival, 3 * kPsPerSecond);
  EXPECT_EQ(trace.requests[0].content.segments, (std::vector<uint64_t>{46, 47}));
}

TEST(Trace, ReadsLlmServingSim) {
  const Trace trace = read(
      "{\"input_toks\": 3, \"output_toks\": 2, \"arrival_time_ns\": 1500, \"input_tok_ids\": [5, 6, 7], "
      "\"output_tok_ids\": [1, 2]}\n");
  EXPECT_EQ(trace.requests.at(0).content.tokens, (std::vector<int32_t>{5, 6, 7}));
}

TEST(Trace, ReadsPlainInAnyOrder) {
  const Trace trace = read("arrival_s,prompt_tokens,output_tokens\n2.5,10,1\n\n1,20,2\r\n");
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_EQ(trace.requests[0].prompt_tokens, 20);
  EXPECT_EQ(trace.requests[1].arrival, 3 * kPsPerSecond / 2);
}

TEST(Trace, SaysWhichLineIsWrong) {
  for (const char* text :
       {"", "\n\n", "hello\n", "arrival_s,prompt_tokens,output_tokens\n",
        "arrival_s,prompt_tokens,output_tokens\n1,2\n", "arrival_s,prompt_tokens,output_tokens\nnan,2,3\n",
        "arrival_s,prompt_tokens,output_tokens\n1e300,2,3\n",
        "arrival_s,prompt_tokens,output_tokens\n1,-2,3\n",
        "arrival_s,prompt_tokens,output_tokens\n1,2,99999999999999\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-13-01 00:00:00.0,1,1\n",
        "TIMESTAMP,ContextTokens,GeneratedTokens\nyesterday,1,1\n", "{\"hash_ids\": \"x\"}\n",
        "{\"hash_ids\": [1], \"input_length\": 513, \"output_length\": 1, \"timestamp\": 0}\n",
        "{\"input_toks\": 3, \"output_toks\": 2, \"arrival_time_ns\": 0, \"input_tok_ids\": [5]}\n"}) {
    try {
      read(text);
      ADD_FAILURE() << text;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "serving.trace");
      EXPECT_NE(fault.message().find("file, line"), std::string::npos) << fault.message();
    }
  }
}

// Means and variations of the gaps are those that were asked for.
TEST(Arrivals, HaveTheirMoments) {
  for (const double variation : {0.25, 1.0, 3.0}) {
    SyntheticLoad load;
    load.process = ArrivalProcess::kGamma;
    load.variation = variation;
    load.per_second = 5;
    load.requests = 200000;
    const Trace trace = synthetic_trace(load);
    double sum = 0, squares = 0;
    for (size_t i = 1; i < trace.requests.size(); ++i) {
      const double gap = seconds(trace.requests[i].arrival - trace.requests[i - 1].arrival);
      sum += gap;
      squares += gap * gap;
    }
    const double mean = sum / (load.requests - 1),
                 deviation = std::sqrt(squares / (load.requests - 1) - mean * mean);
    EXPECT_NEAR(mean, 0.2, 0.005 * std::max(1.0, variation));
    EXPECT_NEAR(deviation / mean, variation, 0.03 * variation);
  }
}

TEST(StepTimes, TablesAndLinesSayWhatIsWrong) {
  for (const char* text : {"step", "step=", "step=-1", "step=1,step=2", "speed=3", ""})
    EXPECT_THROW(LinearTimes::parse(text), Fault) << text;
  for (const char* text : {"", "program,us\n", "a,b\n1,2\n", "program,us\ndecode_b1,x\n",
                           "program,us\ndecode_b1,1\ndecode_b1,2\n"}) {
    std::istringstream in(text);
    EXPECT_THROW(TableTimes::read(in, "t.csv"), Fault) << text;
  }
  std::istringstream in("program,us,context_token_us\nprefill_s128,1500,\ndecode_b2,800,0.5\n");
  const auto table = TableTimes::read(in, "t.csv");
  Request request;
  Step step;
  step.phase = Phase::kDecode;
  step.seqs_bucket = 2;
  step.entries.push_back({&request, 1, 99, false, true});
  EXPECT_EQ(table->of(step), 850 * kPsPerUs);
  step.seqs_bucket = 4;
  EXPECT_THROW(table->of(step), Fault);
}

}  // namespace
}  // namespace opentrn::serving
