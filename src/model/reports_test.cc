#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/reports.h"

namespace opentrn::model {
namespace {

using testing::HasSubstr;
using testing::Not;

compiler::OpCoverage op(const char* name, int64_t count, int64_t unsupported, double flops) {
  return {.op = name, .count = count, .unsupported = unsupported, .flops = flops, .example = "f32[8]"};
}

TEST(CoverageReport, WhatIsRefusedComesFirstWithItsShareOfTheFlops) {
  const Report report = coverage_report({op("add", 4, 0, 60), op("sort", 2, 1, 40)}, {});
  EXPECT_FALSE(report.complete);
  EXPECT_EQ(report.json["ops"][0]["op"], "sort");
  EXPECT_EQ(report.json["ops"][0]["supported"], 1);
  EXPECT_EQ(report.json["ops"][1]["flops_percent"], 60);
  EXPECT_THAT(report.text,
              HasSubstr("5 of 6 ops have a device kernel; those without: 20.0 % of the flops\n"));
}

TEST(CoverageReport, WhatWasNotLookedAtIsNotCountedAsSupported) {
  const Report report = coverage_report({op("add", 4, 0, 0)}, {"stage 2 is not looked at"});
  EXPECT_TRUE(report.complete);
  EXPECT_THAT(report.text, HasSubstr("4 of 4 ops that were looked at have a device kernel\n"));
  EXPECT_THAT(report.text, HasSubstr("stage 2 is not looked at\n"));
}

TEST(CoverageReport, LinesOfExamplesAreCutToTheTerminal) {
  compiler::OpCoverage row = op("sort", 1, 1, 0);
  row.example = std::string(200, 'x');
  EXPECT_THAT(coverage_report({row}, {}).text, HasSubstr("    " + std::string(72, 'x') + "...\n"));
}

TEST(CoverageReport, OperatorsThatAreNotImportedAreCounted) {
  const Report report = unknown_operators_report(
      {{"Conv", 6, "", "c"}, {"Foo", 1, "no such operator", ""}, {"Bar", 3, "no such operator", "b"}});
  EXPECT_EQ(report.json["not_imported"][0]["op"], "Bar");
  EXPECT_EQ(report.json["not_imported"][0]["nodes_percent"], 30);
  EXPECT_THAT(report.text, HasSubstr("4 of 10 nodes have such an operator"));
  EXPECT_THAT(report.text, HasSubstr("first at a node without a name"));
}

TEST(PlaceOf, IsTheFrameworksNameElseTheLine) {
  EXPECT_EQ(place_of({.file = "a/b.py", .line = 3, .function = "layer"}), "layer");
  EXPECT_EQ(place_of({.file = "a/b.py", .line = 3}), "b.py:3");
  EXPECT_EQ(place_of({.file = "a/b.py"}), "");
}

ordered_json compiled_facts() {
  return {{"model", "m.onnx"},
          {"target", "trn2"},
          {"compile_s", 1.234},
          {"instructions", 12345},
          {"constant_bytes", 2048},
          {"cache", "hit"},
          {"auto_cast", "none"},
          {"auto_cast_type", "bf16"},
          {"weight_dtype", "none"},
          {"weight_sparsity", "none"},
          {"passes", {{"casts", 3}}},
          {"inputs", {{"x", "f32", {1, -1}}}},
          {"outputs", {{"y", "f32", {1}}}},
          {"file", "m.neuron"},
          {"file_bytes", 512},
          {"report", ordered_json::array()}};
}

TEST(CompileReport, SaysWhereTheModelCameFromAndItsPorts) {
  const Report report = compile_report(compiled_facts(), "", "predicted: 1 us\n");
  EXPECT_EQ(report.text,
            "taken from the cache: m.onnx for trn2 in 1.23 s, 12,345 instructions, 2 KiB of constants\n"
            "  input  x          f32 [1, ?]\n"
            "  output y          f32 [1]\n"
            "predicted: 1 us\n"
            "wrote m.neuron (512 B)\n");
}

TEST(CompileReport, WhatWasNotAskedForIsNull) {
  EXPECT_TRUE(compile_report(compiled_facts(), "", "").json["auto_cast_type"].is_null());
  ordered_json asked = compiled_facts();
  asked["auto_cast"] = "all";
  const Report report = compile_report(asked, "", "");
  EXPECT_EQ(report.json["auto_cast_type"], "bf16");
  EXPECT_TRUE(report.json["weight_dtype"].is_null());
  EXPECT_THAT(report.text, HasSubstr("auto-cast all to bf16: 3 casts\n"));
}

TEST(CompileReport, WeightsThatWereLeftHaveTheirReason) {
  ordered_json facts = compiled_facts();
  facts["weight_dtype"] = "int8";
  facts["passes"] = {{"weights_quantised", 2},      {"weights_bytes_before", 4096},
                     {"weights_bytes_after", 1024}, {"weights_left_small", 0},
                     {"weights_left_shared", 1},    {"weights_left_not_finite", 0},
                     {"weights_left_unfit", 0},     {"weights_left_not_sparse", 0}};
  EXPECT_THAT(
      compile_report(facts, "", "").text,
      HasSubstr("weights in int8: 2 constants of products, 4 KiB -> 1 KiB; left: 1 read by other ops too\n"));
}

TEST(DescriptionText, TensorsAreAddedUpByRole) {
  const ordered_json program = {{"dimensions", {{"batch", 8}}},
                                {"instructions", 10},
                                {"kernels", 2},
                                {"ops", 3},
                                {"time_us", nullptr},
                                {"inputs", ordered_json::array()},
                                {"outputs", ordered_json::array()},
                                {"weight_files", {{"w.bin", 1024}}},
                                {"memory",
                                 {{"sbuf_bytes_per_partition_used", 1024},
                                  {"sbuf_bytes_per_partition_limit", 2048},
                                  {"psum_banks_used", 1},
                                  {"psum_banks_limit", 8},
                                  {"hbm_bytes_used", 100}}},
                                {"memory_map",
                                 {{{"role", "input"}, {"offset", 64}, {"bytes", 512}},
                                  {{"role", "input"}, {"offset", 32}, {"bytes", 512}}}}};
  const std::string text = description_text(program);
  EXPECT_THAT(text, HasSubstr("program for batch=8: 10 instructions, 2 kernels of 3 ops, unknown time\n"));
  EXPECT_THAT(text, HasSubstr("  weights  1 KiB in w.bin\n"));
  EXPECT_THAT(text, HasSubstr("  HBM          2 inputs              1 KiB  from offset 0x20\n"));
  EXPECT_THAT(text, Not(HasSubstr("outputs")));
}

TEST(OutputText, SaysTypeShapeAndWhatTheValuesAre) {
  const ordered_json facts = {{"shape", {2, 3}}, {"dtype", "float32"}, {"min", -1.5},
                              {"max", 2},        {"mean", 0.25},       {"not_finite", 0}};
  EXPECT_EQ(output_text(facts), "float32 [2, 3]  min -1.5  max 2  mean 0.25");
  EXPECT_EQ(output_text({{"value", "None"}}), "None");
  EXPECT_EQ(output_text({{"shape", {4}}, {"dtype", "int32"}, {"unwritten", 3}, {"first_unwritten", {1}}}),
            "int32 [4]  3 never written, from [1]");
}

TEST(HostText, SaysWhatTheHostDoesAndItsShares) {
  const std::vector<runtime::HostOp> calls = {
      {.ops = "sort", .result = "f32[8]", .where = {.function = "topk"}, .flops = 5, .bytes = 20}};
  const HostShares shares = shares_of({calls, 10, 200});
  EXPECT_EQ(shares.flops, 0.5);
  EXPECT_EQ(shares.bytes, 0.1);
  EXPECT_THAT(host_text(calls, shares),
              HasSubstr("  sort f32[8] at topk\n  50.0% of its flops, 10.0% of its bytes;"));
  EXPECT_EQ(host_text({}, {}), "");
}

}  // namespace
}  // namespace opentrn::model
