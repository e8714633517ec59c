#include "monitor/device_tree.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/fault.h"

namespace opentrn::monitor {
namespace device_tree_test {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::string kCore = "sys/devices/virtual/neuron_device/neuron0/neuron_core0/";

Machine machine() {
  const arch::Tables& tables = arch::default_tables();
  return machine_of(tables, fabric::Platform::make(tables, "trn2.3xlarge"), 2);
}

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DeviceTree : public ::testing::Test {
 protected:
  DeviceTree() { fs::create_directories(folder_); }
  ~DeviceTree() override { fs::remove_all(folder_); }

  template <typename Act>
  static void expect_refused(Act&& act, const std::string& says) {
    try {
      act();
      ADD_FAILURE() << "was done";
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "tools.device_tree");
      EXPECT_THAT(fault.message(), HasSubstr(says));
    }
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / ("device_tree_" + std::to_string(::getpid()));
  const fs::path root_ = folder_ / "root";
};

// One core's folder of AWS's "Neuron Sysfs User Guide": every status and every kind of device memory.
TEST_F(DeviceTree, NamesAreThoseOfTheGuide) {
  const auto files = device_files(machine(), {});
  for (const char* status :
       {"exec_bad_input", "hw_error", "infer_failed_to_queue", "resource_nc_error",
        "unsupported_neff_version", "failure", "infer_completed_with_error", "invalid_error", "oob_error",
        "success", "generic_error", "infer_completed_with_num_error", "resource_error", "timeout"})
    for (const char* count : {"/total", "/present"})
      EXPECT_EQ(files.count(kCore + "stats/status/" + status + count), 1) << status;
  for (const char* kind :
       {"constants", "model_code", "model_shared_scratchpad", "tensors", "collectives", "notifications"})
    EXPECT_EQ(files.count(kCore + "stats/memory_usage/device_mem/" + kind + "/peak"), 1) << kind;
  for (const char* name : {"flop_count", "inference_count", "model_load_count", "reset_fail_count",
                           "reset_req_count", "nc_time_in_use"})
    EXPECT_EQ(files.count(kCore + "stats/other_info/" + name), 1) << name;
  EXPECT_EQ(files.count("sys/devices/virtual/neuron_device/neuron0/info/serial_number"),
            0);  // nobody knows it
}

TEST_F(DeviceTree, CountersAreSumsOverProcesses) {
  std::vector<device::Process> processes(2);
  for (device::Process& process : processes) {
    device::CoreState& core = process.cores.emplace_back();
    core.outcomes[0] = 3;
    core.outcomes[2] = 1;
    core.memory_peak[3] = 100;
    core.flops = 7;
    core.last_ns = process.cores.size() * 4000;
  }
  processes[1].cores.emplace_back().index = 1;
  const auto files = device_files(machine(), processes);
  EXPECT_EQ(files.at(kCore + "stats/status/success/total"), "6\n");
  EXPECT_EQ(files.at(kCore + "stats/status/exec_bad_input/present"), "1\n");
  EXPECT_EQ(files.at(kCore + "stats/other_info/inference_count"), "6\n");
  EXPECT_EQ(files.at(kCore + "stats/other_info/flop_count"), "14\n");
  EXPECT_EQ(files.at(kCore + "stats/memory_usage/device_mem/tensors/peak"), "200\n");
  EXPECT_EQ(files.at(kCore + "stats/other_info/nc_time_in_use"), "4\n");  // us, of the last execution
  EXPECT_EQ(files.at("sys/devices/virtual/neuron_device/neuron0/info/architecture/instance_type"), "Trn2\n");
  EXPECT_EQ(files.at("dev/neuron0"), "");
}

TEST_F(DeviceTree, IsWrittenAgainAndRemoved) {
  write_device_tree(root_, {{"sys/count", "1\n"}, {"dev/neuron0", ""}});
  write_device_tree(root_, {{"sys/count", "22\n"}, {"dev/neuron0", ""}});
  EXPECT_EQ(text_of(root_ / "sys" / "count"), "22\n");
  remove_device_tree(root_);
  EXPECT_FALSE(fs::exists(root_));
  fs::create_directories(root_);
  std::ofstream(root_ / "mine") << "x";
  expect_refused([&] { write_device_tree(root_, {}); }, "not empty");
  expect_refused([&] { remove_device_tree(root_); }, "not a tree");
  EXPECT_EQ(text_of(root_ / "mine"), "x");
}

TEST_F(DeviceTree, LinksAreNotWrittenThrough) {
  write_device_tree(root_, {{"sys/count", "1\n"}});
  std::ofstream(folder_ / "target") << "keep";
  fs::remove(root_ / "sys" / "count");
  fs::create_symlink(folder_ / "target", root_ / "sys" / "count");
  expect_refused([&] { write_device_tree(root_, {{"sys/count", "2\n"}}); }, "link");
  EXPECT_EQ(text_of(folder_ / "target"), "keep");
  fs::create_symlink(root_, folder_ / "link");
  expect_refused([&] { write_device_tree(folder_ / "link", {}); }, "");
  expect_refused([&] { remove_device_tree(folder_ / "link"); }, "");
}

}  // namespace device_tree_test
}  // namespace opentrn::monitor
