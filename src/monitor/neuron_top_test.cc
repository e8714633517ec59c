#include "monitor/neuron_top.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"

namespace opentrn::monitor {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

const Machine& trn2_machine() {
  static const Machine made =
      machine_of(arch::default_tables(), fabric::Platform::make(arch::default_tables(), "trn2.48xlarge"), 2);
  return made;
}

Json top_runtime(const std::string& tag, int core, double percent, double flops, const Json& memory) {
  const std::string name = std::to_string(core);
  return {{"neuron_runtime_tag", tag},
          {"report",
           {{"neuroncore_counters",
             {{"neuroncores_in_use", {{name, {{"neuroncore_utilization", percent}, {"flops", flops}}}}}}},
            {"memory_used",
             {{"neuron_runtime_used_bytes",
               {{"host", 1024},
                {"neuron_device", 2048},
                {"usage_breakdown", {{"neuroncore_memory_usage", {{name, memory}}}}}}},
              {"loaded_models",
               Json::array({{{"name", "mlp"},
                             {"model_id", 10001},
                             {"subgraphs",
                              {{"sg_00",
                                {{"neuroncore_index", core},
                                 {"memory_used_bytes", {{"host", 0}, {"neuron_device", 4096}}}}}}}}})}}}}}};
}

Json two_processes() {
  return {
      {"neuron_runtime_data", Json::array({top_runtime("train", 5, 75, 4e12, {{"tensors", 2 << 20}}),
                                           top_runtime("serve", 8, 12.5, 1e12, {{"constants", 3 << 20}})})}};
}

std::string top_text(TopView& view, const Json& report, size_t width = 100, size_t height = 40) {
  std::string text;
  const std::vector<TopLine> lines = view.screen(report, trn2_machine(), "neuron-top", width, height);
  EXPECT_EQ(lines.size(), height);
  for (const TopLine& line : lines) {
    size_t length = 0;
    for (const TopPiece& piece : line) {
      text += piece.text;
      length += character_count(piece.text);
    }
    EXPECT_LE(length, width);
    text += "\n";
  }
  return text;
}

TEST(NeuronTop, CoresMemoryAndProcessesHaveTheirLines) {
  TopView view;
  const std::string text = top_text(view, two_processes());
  EXPECT_THAT(text, AllOf(HasSubstr("NC5  [||||||  ]   75.0%"), HasSubstr("NC8  [|       ]   12.5%"),
                          HasSubstr("NC4  [        ]       -"),
                          HasSubstr("14 of 16 devices are held by no process")));
  EXPECT_THAT(text, AllOf(HasSubstr("Host Used Memory    Total     2.0KB"), HasSubstr("Tensors 2.0MB"),
                          HasSubstr("Model Code -"), HasSubstr("model mlp"), HasSubstr(">1:all<  2:train")));
}

TEST(NeuronTop, KeysChangeTheView) {
  TopView view;
  const Json report = two_processes();
  EXPECT_TRUE(view.press("F", report, trn2_machine()));
  EXPECT_THAT(top_text(view, report), AllOf(HasSubstr("teraflops"), HasSubstr("4.00")));
  EXPECT_TRUE(view.press("3", report, trn2_machine()));
  EXPECT_THAT(top_text(view, report), Not(HasSubstr("NeuronCore 5")));
  EXPECT_TRUE(view.press("9", report, trn2_machine()));
  EXPECT_EQ(view.tab(), 2U);
  EXPECT_TRUE(view.press("d", report, trn2_machine()));
  EXPECT_EQ(view.tab(), 0U);
  EXPECT_TRUE(view.press("left", report, trn2_machine()));
  EXPECT_THAT(top_text(view, report), AllOf(HasSubstr("+ Neuron Device 1"), Not(HasSubstr("NeuronCore 5"))));
  EXPECT_TRUE(view.press("x", report, trn2_machine()));  // unfolds what is folded
  EXPECT_THAT(top_text(view, report), HasSubstr("NeuronCore 5"));
  EXPECT_TRUE(view.press("up", report, trn2_machine()));
  EXPECT_EQ(view.row(), 0U);
  EXPECT_TRUE(view.press("down", report, trn2_machine()));
  EXPECT_EQ(view.row(), 1U);
  EXPECT_FALSE(view.press("q", report, trn2_machine()));
}

TEST(NeuronTop, AnyWindowAndAnyReportFit) {
  TopView view;
  for (size_t width = 1; width < 120; width += 7)
    for (size_t height = 0; height < 50; ++height) top_text(view, two_processes(), width, height);
  Json strange = two_processes();
  strange["neuron_runtime_data"][0]["neuron_runtime_tag"] = "d\xC3\xA9j\xC3\xA0 vu";
  strange["neuron_runtime_data"][1]["report"] = nullptr;
  EXPECT_THAT(top_text(view, strange), HasSubstr("2:d\xC3\xA9j\xC3\xA0 vu"));
  EXPECT_THAT(top_text(view, Json::array()), HasSubstr("no process holds cores"));
}

TEST(NeuronTop, SizesHaveTheUnitThatSuitsThem) {
  EXPECT_EQ(top_size_text(std::nullopt), "-");
  EXPECT_EQ(top_size_text(1023), "1023B");
  EXPECT_EQ(top_size_text(1 << 20), "1.0MB");
  EXPECT_EQ(top_size_text(3.0 * (int64_t{1} << 40)), "3072.0GB");
}

}  // namespace
}  // namespace opentrn::monitor
