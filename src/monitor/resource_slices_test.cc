#include "monitor/resource_slices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::monitor {
namespace resource_slices_test {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kAttribute = "device.attributes['neuron.aws.com']";

Machine trn2() {
  const arch::Tables& tables = arch::default_tables();
  return machine_of(tables, fabric::Platform::make(tables, "trn2.48xlarge"), 2);
}

ordered_json node() { return resource_slices(trn2(), "node-a", "2.25.4.0"); }

// Of `count` devices of a group; 0: all that the selector takes.
ordered_json claim(int count, int group = 0,
                   const std::string& selector = kAttribute + ".instanceType == 'trn2.48xlarge'") {
  ordered_json exactly{{"deviceClassName", "neuron.aws.com"},
                       {"selectors", ordered_json::array({{{"cel", {{"expression", selector}}}}})},
                       {"allocationMode", count > 0 ? "ExactCount" : "All"}};
  if (count > 0) exactly["count"] = count;
  ordered_json devices{{"requests", ordered_json::array({{{"name", "neurons"}, {"exactly", exactly}}})}};
  if (group > 0)
    devices["constraints"] =
        ordered_json::array({{{"requests", ordered_json::array({"neurons"})},
                              {"matchAttribute", fmt::format("resource.aws.com/devicegroup{}_id", group)}}});
  return {{"devices", devices}};
}

ordered_json with_config(ordered_json claim, const char* kind, const char* key, int value) {
  claim["devices"]["config"] = ordered_json::array(
      {{{"opaque", {{"driver", "neuron.aws.com"}, {"parameters", {{"kind", kind}, {key, value}}}}}}});
  return claim;
}

std::vector<std::string> names(const ordered_json& allocation) {
  std::vector<std::string> all;
  for (const ordered_json& row : allocation["results"]) all.push_back(row["device"]);
  return all;
}

template <typename Act>
std::string refused(Act&& act) {
  try {
    act();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kInput);
    EXPECT_EQ(fault.label(), "tools.kubernetes");
    return fault.message();
  }
  ADD_FAILURE() << "was not refused";
  return "";
}

TEST(ResourceSlices, AClaimIsGivenConnectedDevices) {
  const ordered_json first = allocate_claim(claim(4, 4), node(), {});
  EXPECT_THAT(names(first), ElementsAre("neurondevice0", "neurondevice1", "neurondevice2", "neurondevice3"));
  EXPECT_EQ(first["results"][0].dump(),
            R"({"device":"neurondevice0","driver":"neuron.aws.com","pool":"node-a","request":"neurons"})");
  const TakenDevices taken{{"node-a", "neurondevice5"}};
  EXPECT_EQ(names(allocate_claim(claim(8, 8), node(), taken)).front(), "neurondevice8");
  EXPECT_THAT(refused([&] { allocate_claim(claim(16, 16), node(), taken); }),
              HasSubstr("16 devices of one group"));
  EXPECT_THAT(refused([&] { allocate_claim(claim(0), node(), taken); }), HasSubstr("15 of 16"));
  EXPECT_EQ(names(allocate_claim(claim(0), node(), {})).size(), 16);
  const auto [variables, servers] = container_of_allocation(first, trn2());
  EXPECT_EQ(variables["NEURON_RT_VISIBLE_CORES"], "0-15");
  EXPECT_EQ(servers, std::nullopt);
}

TEST(ResourceSlices, ConfigurationsReachTheContainer) {
  const ordered_json one =
      allocate_claim(with_config(claim(4, 4), "NeuronConfig", "logicalNeuronCore", 1), node(), {});
  const auto [variables, none] = container_of_allocation(one, trn2());
  EXPECT_EQ(variables["NEURON_RT_VISIBLE_CORES"], "0-31");
  EXPECT_EQ(variables["NEURON_LOGICAL_NC_CONFIG"], "1");
  ordered_json both = node();
  both.push_back(resource_slices(trn2(), "node-u", "", "us-1")[0]);
  const ordered_json whole = with_config(claim(1, 0, kAttribute + ".resourceType == 'neuron_node'"),
                                         "UltraServerConfig", "ultraserverMode", 4);
  const ordered_json given = allocate_claim(whole, both, {});
  EXPECT_EQ(given["results"][0]["pool"], "node-u");
  EXPECT_EQ(container_of_allocation(given, trn2()).second, 4);
  EXPECT_THAT(refused([&] {
                container_of_allocation(
                    {{"config", ordered_json::array({{{"opaque", {{"parameters", {{"kind", "X"}}}}}}})},
                     {"results", ordered_json::array()}},
                    trn2());
              }),
              HasSubstr("is not known"));
  for (const char* name : {"neurondevice16", "neurondevice-1", "neurondevice", "gpu0"})
    refused([&] {
      container_of_allocation(
          {{"config", ordered_json::array()}, {"results", ordered_json::array({{{"device", name}}})}},
          trn2());
    });
}

TEST(ResourceSlices, Selectors) {
  const ordered_json slices = node();
  const ordered_json& device = slices[0]["spec"]["devices"][0];
  EXPECT_TRUE(matches_selector(
      device, kAttribute + ".deviceId == 0 && " + kAttribute + ".neuronDriverVersion == '2.25.4.0'"));
  EXPECT_FALSE(matches_selector(device, kAttribute + ".instanceType == \"trn1.32xlarge\""));
  EXPECT_FALSE(matches_selector(device, kAttribute + ".noSuch == 1"));
  EXPECT_FALSE(matches_selector(device, kAttribute + ".deviceId == '0'"));
  EXPECT_TRUE(matches_selector(device, "device.driver == \"neuron.aws.com\""));
  EXPECT_FALSE(matches_selector(device, "device.driver == 'gpu.example.com'"));
  for (const std::string& other : {kAttribute + ".deviceId < 4", std::string(), std::string("&&"),
                                   std::string(2000, 'x'), std::string("\xff")})
    refused([&] { matches_selector(device, other); });
}

TEST(ResourceSlices, DamagedClaimsAreRefused) {
  const ordered_json whole = with_config(claim(4, 4), "NeuronConfig", "logicalNeuronCore", 1);
  const auto flat = whole.flatten();
  for (const auto& [pointer, value] : flat.items())
    for (const ordered_json& other : {ordered_json(), ordered_json(-1), ordered_json("x"),
                                      ordered_json::array(), ordered_json::object(), ordered_json(true)}) {
      ordered_json damaged = whole;
      damaged[ordered_json::json_pointer(pointer)] = other;
      try {
        container_of_allocation(allocate_claim(damaged, node(), {}), trn2());
      } catch (const Fault& fault) {
        EXPECT_EQ(fault.kind(), FaultKind::kInput) << pointer << " " << other;
      }
    }
}

TEST(ResourceSlices, NamesAndVersionsAreChecked) {
  EXPECT_THAT(refused([] { resource_slices(trn2(), "Node A"); }), HasSubstr("Node A"));
  EXPECT_THAT(refused([] { resource_slices(trn2(), "a", "two"); }), HasSubstr("two"));
  EXPECT_EQ(dra_device_class()["spec"]["selectors"][0]["cel"]["expression"],
            "device.driver == \"neuron.aws.com\"");
}

}  // namespace resource_slices_test
}  // namespace opentrn::monitor
