#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/check/report.h"

namespace opentrn::planner {
namespace {

using testing::HasSubstr;

const arch::Tables& tables() { return arch::default_tables(); }

constexpr const char* kHeader =
    "id,system,model,params,chips,parallelism,seq,global_batch,dtype,metric,value,unit,source\n";

Check checked(const std::string& rows) { return check_rows(tables(), read_rows(kHeader + rows, "rows.csv")); }

TEST(Csv, ReadsQuotesAndRefusesWhatIsNone) {
  const auto rows = read_rows(std::string(kHeader) + "a,\"b, \"\"c\"\"\",,,,,,,,,,,\n", "rows.csv");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].system, "b, \"c\"");
  EXPECT_EQ(rows[0].line, 2);
  const auto refusal = [](const std::string& text) {
    try {
      read_rows(text, "rows.csv");
    } catch (const Fault& fault) {
      return fault.message();
    }
    return std::string();
  };
  EXPECT_THAT(refusal(""), HasSubstr("no row"));
  EXPECT_THAT(refusal("id,model\n"), HasSubstr("no column 'system'"));
  EXPECT_THAT(refusal(std::string(kHeader) + "a,b\n"), HasSubstr("line 2: 2 cells under 13"));
  EXPECT_THAT(refusal(std::string(kHeader) + "\"a\n"), HasSubstr("line 2: a quote"));
}

TEST(Recipe, ReadsTheLayoutsThatPublishersWrite) {
  const Degrees neuron = degrees_of("[8xNC(TP)x4(DP)] x 16nodes(DP) mbs=1");
  EXPECT_EQ(neuron.tp, 8);
  EXPECT_EQ(neuron.dp, 64);
  EXPECT_EQ(neuron.micro_batch, 1);
  const Degrees megatron = degrees_of("DP8 TP4 PP12 mbs=2 ZeRO-1 full-recompute");
  EXPECT_EQ(megatron.tp, 4);
  EXPECT_EQ(megatron.pp, 12);
  EXPECT_EQ(megatron.zero, 1);
  EXPECT_EQ(megatron.recompute, Recompute::kFull);
  const Degrees selective = degrees_of("TP8 PP8 DP1 mbs=1 vpp=3 selective-recompute SP");
  EXPECT_EQ(selective.vpp, 3);
  EXPECT_TRUE(selective.sp);
  EXPECT_EQ(selective.recompute, Recompute::kSelective);
  EXPECT_TRUE(degrees_of("TP8 full-recompute no-SP").no_sp);
  const Degrees fsdp = degrees_of("FSDP32 CP2 TP8 AsyncTP mbs=16 full-AC");
  EXPECT_EQ(fsdp.dp, 32);
  EXPECT_EQ(fsdp.zero, 3);
  EXPECT_EQ(fsdp.cp, 2);
  EXPECT_TRUE(fsdp.overlap);
  EXPECT_EQ(degrees_of("FSDP SHARD_GRAD_OP mbs=8").zero, 2);
}

TEST(Recipe, FindsModelsInWords) {
  EXPECT_EQ(stated_model(tables(), "HuggingFace BERT-Large Ph1 pre-training", 0)->name, "BERT-Large");
  EXPECT_EQ(stated_model(tables(), "Llama-2-7B fine-tune", 0)->layers, 32);
  const auto sized = stated_model(tables(), "GPT h14336 L72 a112 vocab250k", 0);
  EXPECT_EQ(sized->layers, 72);
  EXPECT_EQ(sized->head_dim, 128);
  EXPECT_EQ(sized->vocabulary, 250880);
  EXPECT_EQ(stated_model(tables(), "GPT h8192 L vocab51200", 39.1e9)->layers, 48);  // from the parameters
  EXPECT_FALSE(stated_model(tables(), "a model of nobody's", 0));
}

// Rows of our own making: the planner's own figure, and others around it.
TEST(Check, SetsErrorsBesideAConstants) {
  const std::string
      head = "made.",
      middle = ",A100-80GB,GPT h4096 L32 a32,6.7e9,8,TP2 DP4 mbs=2 full-recompute,2048,64,bf16,step time,";
  const Check first = checked(head + "a" + middle + "10,s,ours\n");
  ASSERT_EQ(first.scored.size(), 1u);
  const double ours = first.scored[0].predicted;
  const Check check =
      checked(head + "a" + middle + std::to_string(ours) + ",s,ours\n" + head + "b" + middle +
              std::to_string(2 * ours) + ",s,ours\n" + head + "c,a slide rule" +
              middle.substr(middle.find(",GPT")) + "1,s,ours\n" + head +
              "d,A100-80GB,GPT h4096 L32 a32,6.7e9,8,not read,2048,64,bf16,step time,1,s,ours\n");
  EXPECT_EQ(check.rows, 4);
  const Family& made = check.families.at("made");
  EXPECT_EQ(made.time.rows, 2);
  EXPECT_NEAR(made.time.mean, 0.25, 1e-3);  // right, and half of what was measured
  EXPECT_NEAR(made.constant.mean, 1.0 / 3, 1e-3);
  EXPECT_EQ(check.reasons.at("made: no rates for this chip"), 1);
  EXPECT_EQ(check.reasons.at("made: the row states no layout"), 1);
  const auto json = nlohmann::json::parse(check_json(check));
  EXPECT_EQ(json["rows"], 2);
  EXPECT_NEAR(json["mean_error"].get<double>(), 0.25, 1e-3);
  EXPECT_NEAR(json["constant_mean_error"].get<double>(), 1.0 / 3, 1e-3);
  EXPECT_TRUE(json["families"].contains("made"));
  EXPECT_EQ(check_json(check).find('\n'), std::string::npos);
}

TEST(Check, CountsMemoryAndCalibrationApart) {
  const std::string gpt = ",A100-80GB,GPT h12288 L96 a96,175e9,";
  const Check check = checked(
      "made.fits" + gpt +
      "64,TP8 PP8 DP1 mbs=1 full-recompute,2048,64,bf16,fits in memory,True,boolean,ours\n" + "made.out" +
      gpt + "8,TP8 PP1 DP1 mbs=1 full-recompute,2048,64,bf16,fits in memory,False,boolean,ours\n" +
      "vtrain.a100.gpt-3.6b.n64.t1d64p1.m8,A100,GPT h3072 L30 a32,3.6e9,64,TP1 DP64 PP1 mbs=8 "
      "full-recompute,2048,"
      "512,bf16,step time,5,s,made up under a calibrated row's name\n");
  const Family& made = check.families.at("made");
  EXPECT_EQ(made.out_rows, 1);
  EXPECT_EQ(made.out_called_fits, 0);
  EXPECT_EQ(made.fits_called_out, 0);
  EXPECT_EQ(check.families.at("vtrain").calibration, 1);
  EXPECT_EQ(check.families.at("vtrain").time.rows, 0);
}

TEST(Check, AnErrorOfTheFirstChoiceIsItsRegret) {
  std::string rows;
  double value = 10;
  for (const char* layout :
       {"TP1 DP8 mbs=1", "TP2 DP4 mbs=1", "TP4 DP2 mbs=1", "TP8 DP1 mbs=1", "TP1 DP8 mbs=2", "TP2 DP4 mbs=2"})
    rows += std::string("made.") + layout + ",A100-80GB,GPT h2048 L24 a16,1.3e9,8," + layout +
            " full-recompute,2048,64,bf16,step time," + std::to_string(value++) + ",s,ours\n";
  const Family made = checked(rows).families.at("made");
  EXPECT_EQ(made.regret_groups, 1);
  EXPECT_GE(made.regret, 0);
  EXPECT_LE(made.regret, 0.5);
}

}  // namespace
}  // namespace opentrn::planner
