#include "planner/serve/serve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/communication.h"
#include "planner/hf_config.h"
#include "planner/serve/serve_check.h"

namespace opentrn::planner::serve_tests {
namespace {

const arch::Tables& tables() { return arch::default_tables(); }

struct Serve : testing::Test {
  ServeJob job{
      .model = model_named(tables(), "Llama-3.1-8B"), .prompt = 1024, .output = 256, .longest = 1280};
  Machine machine = machine_of(tables(), "inf2.48xlarge", 1);
  ServeProgram program = serve_program_of(tables(), machine.kind);
  AllReduces reduces{tables(), machine};
  std::string why;

  ServeEstimate at(int tp, int batch) {
    return serve(job, machine, program, {tp, batch}, reduces, nullptr, why);
  }
};

TEST_F(Serve, NoStepIsFasterThanItsWeightsAndItsKeys) {
  for (const int tp : {1, 4, 8, 24})
    for (const int batch : {1, 8, 64}) {
      const ServeEstimate plan = at(tp, batch);
      const double weights = 2 * (job.model.parameters() - 2 * 128256.0 * 4096) / tp;
      const double keys = batch * 1024.0 * 32 * 2 * std::max(1.0, 8.0 / tp) * 128 * 2;
      EXPECT_GE(plan.decode.layers, (weights + keys) / machine.rates.memory_bytes_s * 0.999)
          << tp << " " << batch;
      EXPECT_GE(plan.memory.weights, 2 * job.model.parameters() / tp);
      EXPECT_GE(plan.memory.kv, keys * 1280 / 1024 * 0.999);
    }
}

// 32 ranks and 8 heads of keys and values: each rank has one, in memory and to read.
TEST_F(Serve, EachRankHasAHeadOfKeysAndValues) {
  const Machine trn1 = machine_of(tables(), "trn1.32xlarge", 1);
  AllReduces on_trn1(tables(), trn1);
  const ServeEstimate plan = serve(job, trn1, program, {32, 1}, on_trn1, nullptr, why);
  const double own = job.model.parameters() / 32 + 32 * 4096.0 * 2 * 128 * (1 - 8.0 / 32);
  EXPECT_NEAR(plan.memory.weights, 2 * own, 1e-6 * own);
  const double ends = 2 * 128256.0 * 4096 / 32;
  EXPECT_GE(plan.decode.layers, 2 * (own - ends) / trn1.rates.memory_bytes_s);
}

TEST_F(Serve, ThroughputIsThatOfTheCycle) {
  const ServeEstimate plan = at(8, 16);
  EXPECT_EQ(plan.copies, 3);
  // Sixteen requests: each step gives sixteen tokens, each request one prompt.
  const double cycle = 256 * plan.decode.total() + 16 * plan.prefill.total();
  EXPECT_NEAR(plan.tokens_s, 3 * 16 * 256 / cycle, 1e-6 * plan.tokens_s);
  EXPECT_NEAR(plan.tpot_s, plan.decode.total() + 15 * plan.prefill.total() / 256, 1e-12);
  EXPECT_NEAR(plan.ttft_s, plan.prefill.total() + plan.decode.total(), 1e-12);
}

// Of the 202 ms of a token at 64 sequences some 150 are other requests' prefills.
TEST_F(Serve, ATokenIsBoundByPrefillsWhereTheyTakeMostOfIt) {
  EXPECT_GT(at(8, 64).tpot_s, 2 * at(8, 64).decode.total());
  EXPECT_EQ(at(8, 64).bound_by, "prefills");
  EXPECT_EQ(at(8, 1).bound_by, "weights");
}

TEST_F(Serve, MoreRanksAreQuickerAndMoreSequencesGiveMore) {
  EXPECT_LT(at(8, 1).decode.layers, at(4, 1).decode.layers);
  EXPECT_GT(at(8, 16).tokens_s, at(8, 1).tokens_s);
  EXPECT_GT(at(8, 16).tpot_s, at(8, 1).tpot_s);
  EXPECT_GT(at(8, 1).decode.collectives, 0);
  EXPECT_EQ(at(1, 1).decode.collectives, 0);
}

// Two of a block's sums, in prefill and in decode, also where no other rank takes part.
TEST_F(Serve, CoresOfARankAddUpAmongThemselves) {
  machine = machine_of(tables(), "trn2.48xlarge", 1, 2);
  AllReduces between(tables(), machine);
  for (const int tp : {1, 4}) {
    const ServeEstimate plan = serve(job, machine, program, {tp, 8}, between, nullptr, why);
    Machine free = machine;
    free.inside_rank = {};
    const ServeEstimate without = serve(job, free, program, {tp, 8}, between, nullptr, why);
    const auto exchange = [&](int64_t rows) {
      return 2 * 32 * inside_rank_s(machine, double(rows) * 4096 * 2);
    };
    EXPECT_NEAR(plan.decode.collectives - without.decode.collectives, exchange(8), 1e-12);
    EXPECT_NEAR(plan.prefill.collectives - without.prefill.collectives, exchange(1024), 1e-9);
    EXPECT_GT(exchange(8), 0);
  }
}

TEST_F(Serve, TheSearchKeepsTheFrontWithinTheLimits) {
  job.tpot_s = 0.030;
  const ServeResult result = serve_search(job, machine, program, {}, reduces);
  ASSERT_FALSE(result.best.empty());
  for (size_t i = 0; i < result.best.size(); ++i) {
    EXPECT_TRUE(result.best[i].fits && result.best[i].meets);
    if (i > 0) {
      EXPECT_LT(result.best[i].tokens_s, result.best[i - 1].tokens_s);
      EXPECT_LT(result.best[i].tpot_s, result.best[i - 1].tpot_s);
    }
  }
  job.tpot_s = 1e-6;
  const ServeResult none = serve_search(job, machine, program, {}, reduces);
  EXPECT_TRUE(none.best.empty());
  EXPECT_TRUE(none.nearest);
  job.model = model_named(tables(), "GPT-3 175B");
  const Machine small = machine_of(tables(), "inf2.xlarge", 1);
  AllReduces alone(tables(), small);
  const ServeResult unfit = serve_search(job, small, program, {}, alone);
  EXPECT_TRUE(unfit.best.empty() && !unfit.nearest);
  ASSERT_TRUE(unfit.smallest);
  EXPECT_GT(unfit.smallest->memory.total(), small.memory_bytes);
}

TEST_F(Serve, LatentKeysAreOneSetForAllRanks) {
  const Model model = model_named(tables(), "DeepSeek-V3");
  EXPECT_EQ(kv_bytes_per_token(model, 1), 61 * (512 + 64) * 2.0);
  EXPECT_EQ(kv_bytes_per_token(model, 8), kv_bytes_per_token(model, 1));
  EXPECT_EQ(kv_bytes_per_token(job.model, 8), kv_bytes_per_token(job.model, 1) / 8);
  EXPECT_EQ(kv_bytes_per_token(job.model, 16), kv_bytes_per_token(job.model, 8));
}

TEST(ServeCheck, ReadsWhatARowSaysAndCountsTheOthers) {
  const char* rows =
      "id,category,workload,metric,value,unit,source,note\n"
      "a.x,llm_decode,model=L (dec 32L h4096 a32 kv8 ffn14336 vocab128256 8.0B); instance=inf2.48xlarge x1; "
      "TP=24; batch=4; seq=4096; in=2048; out=2048,TPOT p50,20,ms,s,n\n"
      "a.y,llm_prefill,model=L (dec 32L h4096 a32 kv8 ffn14336 8.0B); instance=trn1.32xlarge x1; TP=32; "
      "in=2048; "
      "out=128,TTFT p50,200,ms,s,n\n"
      "a.z,llm_decode,model=M (MoE 48L); instance=trn1.32xlarge; TP=32; in=5,TPOT p50,20,ms,s,n\n"
      "a.k,kernel,matmul,latency,20,us,s,n\n";
  const ServeCheck check = check_serving(tables(), rows, "rows.csv", nullptr);
  EXPECT_EQ(check.rows, 3);
  ASSERT_EQ(check.scored.size(), 2u);
  EXPECT_DOUBLE_EQ(check.scored[0].measured_s, 0.020);
  EXPECT_GT(check.scored[0].predicted_s, 0.001);
  EXPECT_THAT(check.scored[0].what, testing::HasSubstr("batch 4 of 1 at 4096"));
  EXPECT_THAT(check.scored[1].what, testing::HasSubstr("of 2048 at 2048"));
  EXPECT_EQ(check.groups.at("a decode").rows, 1);
  EXPECT_EQ(check.reasons.size(), 1u);
  EXPECT_THROW(check_serving(tables(), "id,value\n1,2\n", "x.csv", nullptr), Fault);
}

// One program for all prompts: of the longest sequence, or of a part.
TEST(ServeCheck, PromptsAreReadAsTheServerOfTheRowReadsThem) {
  const auto scored_of = [](const std::string& server) {
    const std::string rows =
        "id,category,workload,metric,value,unit,source,note\n"
        "a.x,llm_prefill,model=M (dec 32L h4096 a32 kv8 ffn14336 vocab128256 8.0B); "
        "instance=inf2.48xlarge; TP=8; max seq=4096; " +
        server + ",TTFT p50,300,ms,s,n\n";
    const ServeCheck check = check_serving(tables(), rows, "rows.csv", nullptr);
    if (!check.scored.empty()) return check.scored[0];
    ServeScored refused;
    refused.what = check.reasons.begin()->first;
    return refused;
  };
  const auto what_of = [&](const std::string& server) { return scored_of(server).what; };
  const std::string asked = "; prompts 1500+-150 tokens", unsaid = "; default ~550 in / 150 out";
  EXPECT_THAT(what_of("max batch=32; vLLM" + asked), testing::HasSubstr("of 4096 at 4096"));
  EXPECT_THAT(what_of("max batch=32; TGI" + unsaid), testing::HasSubstr("of 4096 at 4096"));
  EXPECT_THAT(what_of("max batch=1; TGI" + asked), testing::HasSubstr("of 2048 at 2048"));
  EXPECT_THAT(what_of("max batch=1; TGI" + unsaid), testing::HasSubstr("no length of the prompt"));
  const double without = scored_of("batch=1; seq=4096; in=4096").predicted_s;  // Transformers NeuronX
  EXPECT_LT(scored_of("max batch=32; vLLM" + asked).predicted_s, without);     // by an attention kernel
  const std::string chunks = "max batch=32; vLLM; chunked prefill 1024";
  EXPECT_THAT(what_of(chunks + asked), testing::HasSubstr("of 1024 at 4096"));
  EXPECT_NEAR(scored_of(chunks + asked).predicted_s, 2 * scored_of(chunks + "; prompts 900").predicted_s,
              1e-9);
}

}  // namespace
}  // namespace opentrn::planner::serve_tests
