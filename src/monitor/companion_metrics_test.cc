#include "monitor/companion_metrics.h"

#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::monitor {
namespace companion_metrics_test {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

ordered_json report(double period = 1.0, int completed = 3) {
  const ordered_json runtime{
      {"neuroncore_counters",
       {{"neuroncores_in_use", {{"5", {{"neuroncore_utilization", 42.0}}}, {"6", ordered_json::object()}}}}},
      {"execution_stats",
       {{"period", period},
        {"execution_summary", {{"completed", completed}}},
        {"error_summary", {{"generic", 0}}},
        {"latency_stats", {{"total_latency", {{"p50", 0.25}}}, {"device_latency", nullptr}}}}},
      {"memory_used",
       {{"neuron_runtime_used_bytes",
         {{"host", 4096},
          {"neuron_device", 64},
          {"usage_breakdown", {{"neuroncore_memory_usage", {{"5", {{"constants", 1}, {"tensors", 2}}}}}}}}}}},
      {"neuron_runtime_vcpu_usage", {{"vcpu_usage", {{"user", 10.0}}}}}};
  return {
      {"neuron_runtime_data", ordered_json::array({{{"neuron_runtime_tag", "job"}, {"report", runtime}}})},
      {"system_data",
       {{"memory_info", {{"memory_total_bytes", 9}, {"memory_used_bytes", 3}}},
        {"vcpu_usage", {{"average_usage", {{"user", 1.0}}}, {"usage_data", {{"0", ordered_json::object()}}}}},
        {"neuron_hw_counters",
         {{"neuron_devices",
           ordered_json::array({{{"neuron_device_index", 0}, {"mem_ecc_corrected", 0}}})}}}}},
      {"instance_info", {{"instance_id", "i-1"}, {"instance_type", "trn2.48xlarge"}}},
      {"neuron_hardware_info", {{"neuron_device_count", 16}}},
      {"neuron_k8s_info",
       {{"neuroncores_k8s_info",
         {{"5",
           {{"pod_name", "p0"},
            {"namespace", "jobs"},
            {"container_name", ordered_json::array({"c0", "c1"})}}}}}}}};
}

const MetricCollector::Family* family(const std::vector<MetricCollector::Family>& all,
                                      const std::string& name) {
  for (const auto& each : all)
    if (each.name == name) return &each;
  return nullptr;
}

TEST(CompanionMetrics, CountersAddUpAndARepeatedPeriodCountsOnce) {
  MetricCollector collector;
  for (const auto& [period, completed] : {std::pair{1.0, 3}, std::pair{1.0, 3}, std::pair{1.1, 4}})
    collector.take(report(period, completed), 100 * period);
  const auto families = collector.families();
  const auto* executed = family(families, "execution_status");
  ASSERT_NE(executed, nullptr);
  EXPECT_TRUE(executed->is_counter);
  EXPECT_EQ(executed->rows[0].name, "execution_status_total");
  EXPECT_EQ(executed->rows[0].value, 7);
  EXPECT_EQ(executed->rows[1].name, "execution_status_created");
  EXPECT_EQ(executed->rows[1].value, 100);  // when it was first seen
  const auto* ratio = family(families, "neuroncore_utilization_ratio");
  ASSERT_EQ(ratio->rows.size(), 1);  // core 6 has none
  EXPECT_EQ(ratio->rows[0].value, 0.42);
  const Labels& labels = ratio->rows[0].labels;
  EXPECT_EQ(labels.at("neuroncore"), "5");
  EXPECT_EQ(labels.at("instance_type"), "trn2.48xlarge");
  EXPECT_EQ(labels.at("pod_name"), "p0");
  EXPECT_EQ(labels.at("container_name"), "c0,c1");
  EXPECT_EQ(family(families, "neuron_runtime_memory_used_bytes")->rows[0].labels.count("pod_name"), 0);
}

TEST(CompanionMetrics, WhatAReportLeavesOutIsNoMetric) {
  ordered_json without = report();
  auto& runtime = without["neuron_runtime_data"][0]["report"];
  runtime["execution_stats"]["latency_stats"]["total_latency"] = nullptr;  // nobody knows
  runtime["neuron_runtime_vcpu_usage"]["vcpu_usage"] = nullptr;
  std::vector<std::string> names;
  for (const Sample& sample : metric_samples(without)) names.push_back(sample.name);
  EXPECT_THAT(names, Not(::testing::Contains("execution_latency_seconds")));
  EXPECT_THAT(names, Not(::testing::Contains("neuron_runtime_vcpu_usage_ratio")));
  EXPECT_THAT(names, ::testing::Contains("system_vcpu_count"));
}

TEST(CompanionMetrics, StatsdLinesHaveLabelsInTheirNamesOrAsTags) {
  const auto lines_of = [](bool with_tags) {
    std::string all;
    for (const std::string& datagram : statsd_datagrams(report(), "neuron", with_tags)) {
      EXPECT_LE(datagram.size(), 1400);
      all += datagram + "\n";
    }
    return all;
  };
  EXPECT_THAT(lines_of(false),
              HasSubstr("neuron.neuroncore_utilization_ratio.neuroncore.5.runtime_tag.job:0.42|g\n"));
  EXPECT_THAT(lines_of(false),
              HasSubstr("neuron.execution_status_total.runtime_tag.job.status_type.completed:3|c\n"));
  EXPECT_THAT(lines_of(false), Not(HasSubstr("execution_errors_total")));  // none were added
  EXPECT_THAT(lines_of(true),
              HasSubstr("neuron.neuroncore_utilization_ratio:0.42|g|#neuroncore:5,runtime_tag:job\n"));
  ordered_json odd = report();
  odd["neuron_runtime_data"][0]["neuron_runtime_tag"] = "a\nb:1|c";
  EXPECT_THAT(statsd_datagrams(odd, "n", true)[0], HasSubstr("runtime_tag:a_b_1_c"));
  ordered_json many = report();
  for (int core = 0; core < 200; ++core)
    many["neuron_runtime_data"][0]["report"]["neuroncore_counters"]["neuroncores_in_use"]
        [std::to_string(core)] = {{"neuroncore_utilization", 1.5}};
  const auto datagrams = statsd_datagrams(many, "n", false);
  EXPECT_GT(datagrams.size(), 5);
  for (const std::string& datagram : datagrams) EXPECT_LE(datagram.size(), 1400);
}

TEST(CompanionMetrics, CloudwatchGetsUnitsAndDimensions) {
  const auto data = cloudwatch_data(report());
  const auto find = [&](const std::string& name) {
    return *std::ranges::find(data, name, &MetricDatum::name);
  };
  const MetricDatum core = find("neuroncore_utilization_ratio");
  EXPECT_EQ(core.value, 0.42);
  EXPECT_EQ(core.unit, "None");
  EXPECT_THAT(core.dimensions, ElementsAre(std::pair("instance_id", "i-1"), std::pair("neuroncore", "5"),
                                           std::pair("runtime_tag", "job")));
  EXPECT_EQ(find("neuron_runtime_memory_used_bytes").unit, "Bytes");
  EXPECT_EQ(find("execution_status_total").unit, "Count");
  EXPECT_EQ(find("execution_latency_seconds").unit, "Seconds");
  ordered_json long_text = report();
  std::string text(1023, 'x');
  for (int i = 0; i < 9; ++i) text += "\xc3\xa9";
  long_text["instance_info"]["instance_id"] = text;
  EXPECT_EQ(cloudwatch_data(long_text)[0].dimensions[0].second.size(), 1023);  // no half of a character
}

// Every value of a report in turn is another one: it is taken, or refused as no report.
TEST(CompanionMetrics, DamagedReportsAreRefusedOrTaken) {
  const ordered_json whole = report();
  const auto flat = whole.flatten();
  for (const auto& [pointer, value] : flat.items())
    for (const ordered_json& other : {ordered_json(), ordered_json(-1), ordered_json("x"),
                                      ordered_json::array({5}), ordered_json{{"a", 1}}, ordered_json(true)}) {
      ordered_json damaged = whole;
      damaged[ordered_json::json_pointer(pointer)] = other;
      try {
        MetricCollector collector;
        collector.take(damaged, 0);
        collector.families();
        statsd_datagrams(damaged, "n", true);
        cloudwatch_data(damaged);
      } catch (const Fault& fault) {
        EXPECT_EQ(fault.kind(), FaultKind::kInput) << pointer << " " << other;
        EXPECT_EQ(fault.label(), "tools.report");
      }
    }
  for (const ordered_json& other :
       {ordered_json(), ordered_json(3), ordered_json::array(), ordered_json::object()})
    EXPECT_THROW(MetricCollector().take(other, 0), Fault) << other;
}

}  // namespace companion_metrics_test
}  // namespace opentrn::monitor
