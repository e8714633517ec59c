#include "monitor/neuron_ls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace opentrn::monitor {
namespace {

using testing::HasSubstr;
using testing::Not;

Machine machine(const std::string& name, int lnc) {
  return machine_of(arch::default_tables(), fabric::Platform::make(arch::default_tables(), name), lnc);
}

device::Process process_on(std::vector<uint64_t> cores, const std::string& command) {
  device::Process process;
  process.pid = 77;
  process.command = command;
  process.runtime_version = "0.1.0";
  for (const uint64_t core : cores) process.cores.emplace_back().index = core;
  return process;
}

TEST(NeuronLs, RowsOfAnInstance) {
  const std::string text = ls_text(machine("trn2.48xlarge", 2), {}, {});
  EXPECT_THAT(text, HasSubstr("logical-neuroncore-config: 2\n"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "| 6      | 4      | 24-27    | 96 GB  | 2, 5, 10, 7   | 0000:59:00.0 | 0-47,96-143   | 0    |\n"));
  // What no page tells is not made up; a chip without logical cores says nothing of them.
  const std::string other = ls_text(machine("inf2.xlarge", 1), {}, {});
  EXPECT_THAT(other,
              HasSubstr("| 0      | 2      | 0-1      | 32 GB  |           | NA  | NA       | NA   |\n"));
  EXPECT_THAT(other, Not(HasSubstr("logical")));
}

TEST(NeuronLs, ProcessesStandOnTheDevicesWhoseCoresTheyHold) {
  const std::vector<device::Process> processes = {process_on({4, 9}, std::string(90, 'x'))};
  const auto json = nlohmann::json::parse(ls_json(machine("trn2.48xlarge", 2), processes, {}));
  ASSERT_EQ(json.size(), 16U);
  EXPECT_TRUE(json[0]["neuron_processes"].empty());
  EXPECT_EQ(json[1]["neuron_processes"][0]["command"], std::string(37, 'x') + "...");
  EXPECT_EQ(json[2]["neuron_processes"][0]["pid"], 77);
  EXPECT_EQ(json[1]["memory_size"], 103079215104);
  EXPECT_EQ(json[1]["bdf"], "b5:00.0");
  const std::string wide = ls_text(machine("trn2.48xlarge", 2), processes, {.wide = true});
  EXPECT_THAT(wide, HasSubstr(std::string(77, 'x') + "... | 0.1.0   |"));
}

TEST(NeuronLs, ToolsAreShownWhenAsked) {
  std::vector<device::Process> processes = {process_on({}, "neuron-monitor")};
  processes[0].is_tool = true;
  EXPECT_THAT(ls_text(machine("inf2.xlarge", 1), processes, {}), Not(HasSubstr("neuron-monitor")));
  EXPECT_THAT(ls_text(machine("inf2.xlarge", 1), processes, {.all = true}), HasSubstr("neuron-monitor"));
}

TEST(NeuronLs, DrawsATorusAndARing) {
  EXPECT_THAT(topology_text(machine("trn1.32xlarge", 1)),
              HasSubstr("\n*––►[12 ]◄––►[13 ]◄––►[14 ]◄––►[15 ]◄––*\n"));
  EXPECT_THAT(topology_text(machine("inf2.48xlarge", 1)), HasSubstr("►[11 ]◄––*\n"));
  EXPECT_THAT(topology_text(machine("inf2.8xlarge", 1)), HasSubstr("no torus"));
}

}  // namespace
}  // namespace opentrn::monitor
