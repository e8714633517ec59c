#include "monitor/plugin_resource.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::monitor {
namespace plugin_resource_test {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Ids = std::vector<std::string>;

PluginResource resource(bool of_cores, int lnc = 2) {
  const arch::Tables& tables = arch::default_tables();
  return {machine_of(tables, fabric::Platform::make(tables, "trn2.48xlarge"), lnc), of_cores};
}

template <typename Act>
std::string refusal(Act&& act) {
  try {
    act();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "tools.kubernetes");
    return fault.message();
  }
  return "was not refused";
}

TEST(PluginResource, ListsDevicesOrCoresWithTheirHealth) {
  const auto devices = resource(false).listing({3});
  ASSERT_EQ(devices.size(), 16u);
  EXPECT_EQ(devices[3].id, "3");
  EXPECT_FALSE(devices[3].healthy);
  EXPECT_TRUE(devices[4].healthy);
  const auto cores = resource(true).listing({3});
  ASSERT_EQ(cores.size(), 64u);
  for (size_t core = 0; core < cores.size(); ++core) EXPECT_EQ(cores[core].healthy, core / 4 != 3) << core;
}

TEST(PluginResource, AnAllocationNamesCoresAndDevices) {
  const auto two = resource(false).allocation(Ids{"2", "1"}, {});
  EXPECT_THAT(two.devices, ElementsAre(1, 2));
  EXPECT_EQ(two.variables.at("NEURON_RT_VISIBLE_CORES"), "4-11");
  EXPECT_EQ(two.variables.at("NEURON_PLATFORM_TARGET_OVERRIDE"), "trn2.48xlarge");
  EXPECT_EQ(two.variables.at("NEURON_LOGICAL_NC_CONFIG"), "2");
  const auto cores = resource(true).allocation(Ids{"9", "4"}, {0});
  EXPECT_THAT(cores.devices, ElementsAre(1, 2));
  EXPECT_EQ(cores.variables.at("NEURON_RT_VISIBLE_CORES"), "4,9");
}

TEST(PluginResource, WhatTheNodeHasNotIsRefused) {
  for (const char* id : {"16", "-1", "01", "x", "", "99999999999999999999"})
    EXPECT_THAT(refusal([&] { (void)resource(false).allocation(Ids{id}, {}); }),
                HasSubstr("this node has no neuron"))
        << id;
  EXPECT_THAT(refusal([&] {
                (void)resource(false).allocation(Ids{"1", "1"}, {});
              }),
              HasSubstr("named twice"));
  EXPECT_THAT(refusal([&] { (void)resource(false).allocation(Ids(5000, "1"), {}); }), HasSubstr("too many"));
  EXPECT_THAT(refusal([&] { (void)resource(false).allocation(Ids{}, {}); }), HasSubstr("no devices"));
  EXPECT_THAT(refusal([&] { (void)resource(true).allocation(Ids{"4"}, {1}); }),
              HasSubstr("device 1 is lost"));
}

TEST(PluginResource, AContiguousSetIsPreferredElseTheLowest) {
  Ids all;
  for (int i = 0; i < 16; ++i) all.push_back(std::to_string(i));
  EXPECT_THAT(resource(false).preferred(all, Ids{"5"}, 4), ElementsAre("4", "5", "6", "7"));
  EXPECT_THAT(resource(false).preferred(all, Ids{"5"}, 3), ElementsAre("0", "1", "5"));  // no set of three
  EXPECT_THAT(refusal([&] { (void)resource(false).preferred(Ids{"1"}, Ids{"2"}, 1); }),
              HasSubstr("1 of 1 available"));
  EXPECT_THAT(refusal([&] { (void)resource(false).preferred(all, Ids{}, -1); }), HasSubstr("-1 of 16"));
}

}  // namespace plugin_resource_test
}  // namespace opentrn::monitor
