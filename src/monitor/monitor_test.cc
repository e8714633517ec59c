#include "monitor/monitor.h"

#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/random.h"
#include "monitor/metrics.h"

namespace opentrn::monitor {
namespace {

using testing::HasSubstr;

Machine machine() {
  return machine_of(arch::default_tables(), fabric::Platform::make(arch::default_tables(), "trn2.48xlarge"),
                    2);
}

// A process with core 3 after so many predicted and simulating nanoseconds.
Moment moment(uint64_t at_ns, uint64_t predicted, uint64_t simulating) {
  Moment made;
  made.at_ns = at_ns;
  device::CoreState& core = made.process.cores.emplace_back();
  core.index = 3;
  core.elapsed_ns = core.busy_ns[0] = predicted;
  core.simulating_ns = simulating;
  core.flops = predicted * 10;
  core.outcomes[0] = predicted / 1000;
  return made;
}

TEST(Monitor, UtilisationIsOfSimulatedTime) {
  // Of a second, 0.9 s went into simulating what takes the device 0.1 s: 0.2 s passed, half of them busy, on
  // one of the two physical cores.
  const Json json =
      neuroncore_counters(machine(), moment(0, 0, 0), moment(1'000'000'000, 100'000'000, 900'000'000));
  const Json core = json["neuroncores_in_use"]["3"];
  EXPECT_EQ(core["neuroncore_utilization"], 25.0);
  EXPECT_EQ(core["v3d"]["nc_v3.6"]["neuroncore_utilization"], 50.0);
  EXPECT_EQ(core["v3d"]["nc_v3.7"]["neuroncore_utilization"], 0.0);
  EXPECT_EQ(core["flops"], 5'000'000'000);
  EXPECT_EQ(json["error"], "");
}

TEST(Monitor, WhatNobodyKnowsIsLeftOut) {
  Moment later = moment(1'000'000'000, 0, 0);
  later.process.cores[0].untimed = 4;
  const Json json = neuroncore_counters(machine(), moment(0, 0, 0), later);
  EXPECT_TRUE(json["neuroncores_in_use"].empty());
  EXPECT_EQ(json["error"], "4 executions on core 3 have no predicted time");
  EXPECT_TRUE(execution_stats(moment(0, 0, 0), later)["latency_stats"]["device_latency"].is_null());
}

TEST(Monitor, LatenciesOfThePeriod) {
  Moment later = moment(2'000, 0, 0);
  for (uint64_t i = 1; i <= 100; ++i) later.process.latencies.push_back({1'500, i * 2'000, i * 1'000});
  later.process.latencies.push_back({900, 1, 1});  // of the period before
  const Json json = execution_stats(moment(1'000, 0, 0), later)["latency_stats"];
  EXPECT_DOUBLE_EQ(json["device_latency"]["p50"], 50e-6);
  EXPECT_DOUBLE_EQ(json["device_latency"]["p0"], 1e-6);
  EXPECT_DOUBLE_EQ(json["total_latency"]["p99"], 198e-6);
}

TEST(Monitor, ReportsHaveAwsSchema) {
  setenv("OPENTRN_RUN_DIR", "off", 1);
  Monitor monitor(machine(),
                  parse_monitor_config(R"({"period": "10ms", "system_metrics": [{"type": "memory_info"},
    {"type": "vcpu_usage", "period": "20ms"}, {"type": "neuron_hw_counters"}]})",
                                       "c"));
  EXPECT_LE(monitor.wait_s(), 0.01);
  usleep(25'000);
  const Json report = Json::parse(monitor.report());
  unsetenv("OPENTRN_RUN_DIR");
  EXPECT_EQ(report["neuron_hardware_info"]["neuroncore_version"], "v3d");
  EXPECT_EQ(report["neuron_hardware_info"]["neuron_device_version"], "v4");
  EXPECT_EQ(report["neuron_hardware_info"]["neuron_device_type"], "trainium2");
  EXPECT_EQ(report["instance_info"]["instance_type"], "trn2.48xlarge");
  EXPECT_GT(report["system_data"]["memory_info"]["memory_used_bytes"], 0);
  EXPECT_EQ(report["system_data"]["neuron_hw_counters"]["neuron_devices"].size(), 16U);
  EXPECT_GE(report["system_data"]["vcpu_usage"]["period"], 0.02);
  EXPECT_TRUE(report["neuron_runtime_data"].empty());
}

TEST(MonitorConfig, IsCheckedByKeyAndValue) {
  const std::pair<const char*, const char*> bad[] = {
      {"{", "not JSON"},
      {"[]", "not an object"},
      {R"({"perod": "1s"})", "a key 'perod'"},
      {R"({"period": "1 week"})", "period 1 week"},
      {R"({"period": "1ms"})", "period 1ms"},
      {R"({"period": 5})", "period number"},
      {R"({"neuron_runtimes": {}})", "not a list"},
      {R"({"system_metrics": [{"type": "gpu"}]})", "no metric group 'gpu'"},
      {R"({"neuron_runtimes": [{"tag_filter": "("}]})", "not a regular expression"},
  };
  for (const auto& [text, message] : bad) {
    try {
      parse_monitor_config(text, "monitor.conf");
      ADD_FAILURE() << text;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "monitor.config");
      EXPECT_THAT(fault.what(), HasSubstr(message));
    }
  }
}

TEST(MonitorConfig, AnyTextIsReadOrRefused) {
  const std::string whole =
      R"({"period":"1s","neuron_runtimes":[{"tag_filter":".*","metrics":[{"type":"memory_used","period":"2s"}]}]})";
  SplitMix64 random(27);
  for (int round = 0; round < 3000; ++round) {
    std::string text = whole;
    for (uint64_t i = random.below(4) + 1; i > 0; --i)
      text[random.below(text.size())] = "\"[]{}:,0x\\\x80"[random.below(11)];
    try {
      parse_monitor_config(text, "x");
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.kind(), FaultKind::kInput);
    }
  }
  EXPECT_THROW(parse_monitor_config(std::string(500'000, '['), "x"), Fault);
}

}  // namespace
}  // namespace opentrn::monitor
