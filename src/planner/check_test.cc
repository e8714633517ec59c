#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "planner/check/report.h"
#include "planner/check/wording.h"
#include "planner/hf_config.h"
#include "planner/memory.h"

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

TEST(Recipe, ReadsLayoutsInOtherWords) {
  const Degrees spelled =
      degrees_of("8-way tensor, pipeline parallel size 4, data_parallel=16, micro batch 2");
  EXPECT_EQ(spelled.tp, 8);
  EXPECT_EQ(spelled.pp, 4);
  EXPECT_EQ(spelled.dp, 16);
  EXPECT_EQ(spelled.micro_batch, 2);
  const Degrees dense = degrees_of("tp8xpp4xdp16 GBS=1,024 vpp=2");
  EXPECT_EQ(dense.tp, 8);
  EXPECT_EQ(dense.pp, 4);
  EXPECT_EQ(dense.dp, 16);
  EXPECT_EQ(dense.vpp, 2);
  EXPECT_EQ(dense.global_batch, 1024);
  EXPECT_EQ(degrees_of("FSDP FULL_SHARD mbs=8 accum=16").accumulated, 16);
  EXPECT_EQ(degrees_of("amp-bf16 stamp3").model_parallel, 0);
}

TEST(Wording, ANumberIsOneNumber) {
  EXPECT_EQ(number_in("1,024"), 1024);
  EXPECT_EQ(number_in(" ~8k ", 1024), 8192);
  EXPECT_EQ(number_in("671e9 (37e9 active)"), 671e9);
  EXPECT_EQ(number_in("20 ± 1"), 20);
  for (const char* none :
       {"", "1024..2048", "4096-8192", "256px latents", "not stated", "nan", "-3", "8x128", "1e999"})
    EXPECT_EQ(number_in(none), std::nullopt) << none;
  EXPECT_EQ(chips_in("64 GPUs"), 64);
  EXPECT_EQ(chips_in("128 nodes"), std::nullopt);
  EXPECT_EQ(batch_in("8M tokens", 8000), 1000);
  EXPECT_EQ(chip_in("NVIDIA DGX A100-SXM4-40GB"), "A100 SXM 40GB");
  EXPECT_EQ(chip_in("H100 PCIe"), "");  // another part than the table's
  EXPECT_EQ(chip_in("V100-32GB"), "");
}

TEST(Recipe, FindsModelsInWords) {
  EXPECT_EQ(stated_model(tables(), "meta-llama/Meta-Llama-3-8B pre-training", 0)->name, "Llama-3.1-8B");
  EXPECT_EQ(stated_model(tables(), "PaLM 540B h18432 L118 a48x256", 540e9)->head_dim, 256);
  // A decoder of which only the size is known has the usual shape of that size.
  std::vector<std::string> assumed;
  EXPECT_EQ(stated_model(tables(), "GPT 175B", 0, &assumed)->hidden, 12288);
  EXPECT_NEAR(stated_model(tables(), "dense 30B", 0, &assumed)->parameters(), 30e9, 1.5e9);
  EXPECT_EQ(assumed.size(), 2u);
  EXPECT_FALSE(stated_model(tables(), "MoE 8x22B", 0));
  EXPECT_EQ(14400 % stated_model(tables(), "GPT h14400 L72", 0)->heads, 0);
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
  EXPECT_EQ(check.reasons.at("made: no rates for this chip: a slide rule"), 1);
  EXPECT_EQ(check.reasons.at("made: the row states no layout"), 1);
  const auto json = nlohmann::json::parse(check_json(check));
  EXPECT_EQ(json["rows"], 2);
  EXPECT_NEAR(json["mean_error"].get<double>(), 0.25, 1e-3);
  EXPECT_NEAR(json["constant_mean_error"].get<double>(), 1.0 / 3, 1e-3);
  EXPECT_TRUE(json["families"].contains("made"));
  EXPECT_EQ(check_json(check).find('\n'), std::string::npos);
}

TEST(Check, OfNoRowsThereIsNoError) {
  const Check check =
      checked("made.a,a slide rule,GPT h4096 L32 a32,6.7e9,8,TP2,2048,64,bf16,step time,1,s,ours\n");
  EXPECT_EQ(check.rows, 1);
  const auto json = nlohmann::json::parse(check_json(check));
  EXPECT_TRUE(json["mean_error"].is_null() && json["all"]["interval_coverage"].is_null());
  const std::string text = check_text(check, false);
  EXPECT_NE(text.find("1 rows, 0 predicted"), std::string::npos);
  EXPECT_EQ(text.find("0.0"), std::string::npos) << text;
}

// One of the cells at a time is what nobody expects: the row is predicted, or counted with a reason, and the
// others are scored as before.
TEST(Check, AnOddCellCostsItsRowAlone) {
  const std::vector<std::string> good = {
      "made.x", "H100", "Llama-3.1-8B", "8e9", "64", "TP2 PP4 DP8 mbs=1", "8192", "128", "bf16", "step time",
      "3",      "s",    "ours"};
  const std::vector<std::string> odd = {"",
                                        " ",
                                        "nan",
                                        "-1",
                                        "0",
                                        "1e308",
                                        "99999999999999999999",
                                        "x",
                                        "TP0",
                                        "TP1.5",
                                        "TP99999999999",
                                        "PP7",
                                        "zb-v",
                                        "PP64 dualpipe",
                                        "EP512",
                                        "VPP3 interleaved",
                                        "V100",
                                        "weak-scaling efficiency",
                                        "ms",
                                        "TFLOP/s",
                                        "%",
                                        "MFU",
                                        "peak memory per chip",
                                        "GiB",
                                        "256px",
                                        "8k",
                                        "1..2",
                                        "((((",
                                        "[8xNC(TP)x4(DP)]",
                                        "trn1.32xlarge",
                                        "Trainium2",
                                        std::string(5000, 'a'),
                                        std::string(5000, '9'),
                                        "\xff\xfe",
                                        "FSDP",
                                        "DP64 ZeRO-9"};
  std::string rows;
  int count = 0;
  for (size_t column = 0; column < good.size(); ++column)
    for (const std::string& cell : odd) {
      std::vector<std::string> cells = good;
      cells[column] = cell;
      for (size_t i = 0; i < cells.size(); ++i) rows += (i > 0 ? ",\"" : "\"") + cells[i] + "\"";
      rows += "\n";
      ++count;
    }
  const Check check = checked(rows +
                              "last.x,H100,Llama-3.1-8B,8e9,64,TP2 PP4 DP8 mbs=1,8192,128,bf16,step time,3,s,"
                              "ours\n");
  EXPECT_EQ(check.rows, count + 1);
  for (const Scored& each : check.scored) {
    EXPECT_TRUE(std::isfinite(each.predicted)) << each.row.line;
    EXPECT_GE(each.predicted, 0) << each.row.line;
  }
  EXPECT_EQ(check.families.at("last").time.rows, 1);
}

TEST(Check, UnitsAreThoseOfTheCell) {
  const std::string head = "made.x,H100,Llama-3.1-8B,8e9,64,TP2 PP4 DP8 mbs=1,8192,128,bf16,";
  const auto measured = [&](const std::string& rest) {
    return checked(head + rest + ",ours\n").scored.at(0).measured;
  };
  EXPECT_NEAR(measured("step time,2500,ms"), 2.5, 1e-9);
  EXPECT_NEAR(measured("throughput,6553.6,tokens/s/GPU"), 2.5, 1e-9);
  EXPECT_NEAR(measured("throughput,51.2,samples/s"), 2.5, 1e-9);
  EXPECT_NEAR(measured("MFU,40,%"), measured("MFU,0.4,"), 1e-9);
  EXPECT_NEAR(measured("model FLOP/s per chip,0.4,PFLOP/s"), measured("TFLOP/s per GPU,400,TFLOP/s"), 1e-9);
  const Check unclear = checked(head + "model FLOP/s,400,TFLOP/s,ours\n");
  EXPECT_EQ(unclear.reasons.size(), 1u);
}

TEST(Check, ARowThatContradictsItselfIsLeftOutWithTheReason) {
  const auto reason = [&](const std::string& layout, const std::string& rest) {
    const Check check =
        checked("made.x,H100,Llama-3.1-8B,8e9,64," + layout + ",8192,128," + rest + ",ours\n");
    return check.reasons.empty() ? std::string() : check.reasons.begin()->first;
  };
  EXPECT_EQ(reason("TP2 PP4 DP8 mbs=1", "bf16,step_time,3,s"), "");
  EXPECT_EQ(reason("TP2 PP4 DP8 mbs=1 TP2", "bf16,step time,3,s"), "");
  EXPECT_THAT(reason("TP2 PP4 DP8 mbs=1 tp=4", "bf16,step time,3,s"), HasSubstr("tp is 2 and 4"));
  EXPECT_THAT(reason("TP2 PP4 DP8 mbs=1", "int4,step time,3,s"), HasSubstr("int4"));
  EXPECT_THAT(reason("TP2 PP4 DP8 mbs=1", "bf16,MFU,145,%"), HasSubstr("a utilisation above 1"));
}

// 126 layers on 16 stages: the embedding and the output layer stand for two more (Llama 3's report, 3.3.2).
TEST(Stages, EndsOfAPipelineTakeABlocksPlace) {
  const Model model = model_named(tables(), "Llama-3.1-405B");
  const Layout layout{.pp = 16};
  EXPECT_EQ(blocks_per_stage(model, layout), 8);
  EXPECT_EQ(blocks_of(model, layout, true, false), 7);
  EXPECT_EQ(blocks_of(model, layout, false, true), 7);
  EXPECT_EQ(blocks_of(model, {.pp = 12}, true, false),
            11);  // 126 and 128 are no multiples: the last has less
  EXPECT_EQ(blocks_of(model, {.pp = 12}, false, true), 10);
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

// As the programs' own files have it: arguments.py, test.sh and test_llama.sh.
TEST(Check, WhatARowLeavesOpenIsAsItsProgramSetsIt) {
  const auto layout_of = [](const std::string& source) {
    const std::string row = "made.a,trn1.32xlarge x4,Llama-2-7B,6.7e9,64,TP=8 PP=1 DP=16,4096,64,BF16,";
    return checked(row + "step time,5,s," + source + "\n").scored.at(0).layout;
  };
  EXPECT_THAT(layout_of("aws-neuron/samples:neuronx-nemo-megatron-llamav2-job.md"), HasSubstr("mb1 "));
  EXPECT_THAT(layout_of("ours"), testing::Not(HasSubstr("mb1 ")));  // what the search takes
  const auto elementwise = [](const char* stack) { return stack_of(tables(), stack).elementwise; };
  EXPECT_EQ(elementwise("megatron-deepspeed"), elementwise("megatron-lm"));
}

// neuronx-nemo-megatron: no ZeRO, whole blocks recomputed in the first release, attention's inside later;
// stages send by sums of two, and each step begins with the trace of a micro-batch.
TEST(Check, NemoMegatronOnNeuronIsAsItsFilesSetIt) {
  const auto layout_of = [](const std::string& source) {
    const std::string row = "made.a,trn1.32xlarge x4,GPT-3 23B,23e9,64,TP=8 PP=4 DP=4 mbs=1,2048,128,BF16,";
    return checked(row + "step time,18,s," + source + "\n").scored.at(0).layout;
  };
  EXPECT_THAT(layout_of("aws-neuron/samples:neuronx-nemo-megatron-gpt-job.md"), HasSubstr("Z0 mb1 full"));
  EXPECT_THAT(layout_of("aws-neuron/sdk:nlp_data.csv"), HasSubstr("Z0 mb1 selective"));
  const Stack nemo = stack_of(tables(), "neuron-nemo"), nxd = stack_of(tables(), "neuron");
  const Machine machine = machine_of(tables(), "trn1.32xlarge", 4);
  const Job job{.model = model_named(tables(), "Llama-2-7B"), .seq = 4096, .global_batch = 64};
  const Layout layout{.tp = 8, .pp = 2, .dp = 8, .sp = true};
  const auto time_of = [&](const Stack& stack) { return evaluate(job, machine, stack, layout).time; };
  EXPECT_NEAR(time_of(nemo).host - time_of(nxd).host, 16 * nemo.host_trace_s, 1e-9);
  EXPECT_GT(time_of(nemo).pp, time_of(nxd).pp);
  // On XRT every graph of a stage is traced while the device waits, but for the time of two sends: of 8
  // micro-batches and one slot of the other stage.
  const Stack xrt = stack_of(tables(), "neuron-nemo-xrt");
  const double traces = time_of(xrt).host - xrt.host_step_s;
  EXPECT_LT(traces, 9 * 16 * xrt.host_trace_s);
  EXPECT_GT(traces, 9 * 16 * xrt.host_trace_s - 2 * time_of(nemo).pp);
  Layout one = layout;
  one.pp = 1;
  EXPECT_EQ(evaluate(job, machine, xrt, one).time.host, evaluate(job, machine, nemo, one).time.host);
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
