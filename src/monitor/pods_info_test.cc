#include "monitor/pods_info.h"

#include <gtest/gtest.h>

namespace opentrn::monitor {
namespace pods_info_test {

using nlohmann::json;

Machine machine() {
  const arch::Tables& tables = arch::default_tables();
  return machine_of(tables, fabric::Platform::make(tables, "trn2.48xlarge"), 2);  // four cores of each device
}

TEST(PodsInfo, CoresAndDevicesKnowTheirPods) {
  const HeldDevice held[] = {{"aws.amazon.com/neuroncore", "5", "p", "default", "c"},
                             {"aws.amazon.com/neuroncore", "5", "p", "default", "c"},
                             {"aws.amazon.com/neuroncore", "6", "p", "default", "d"},
                             {"aws.amazon.com/neuron", "3", "q", "other", "e"}};
  const json info = pods_info(machine(), held, 2.5);
  EXPECT_EQ(info["period"], 2.5);
  EXPECT_EQ(info["error"], "");
  EXPECT_EQ(info["neuroncores_k8s_info"]["5"],
            (json{{"pod_name", "p"}, {"namespace", "default"}, {"container_name", {"c"}}}));
  EXPECT_EQ(info["neurondevices_k8s_info"]["1"]["container_name"], (json{"c", "d"}));
  EXPECT_EQ(info["neuroncores_k8s_info"].size(), 2u + 4u);
  EXPECT_EQ(info["neuroncores_k8s_info"]["15"]["pod_name"], "q");
}

TEST(PodsInfo, WhatIsNoDeviceOfTheNodeIsPassedOver) {
  const HeldDevice held[] = {{"nvidia.com/gpu", "0", "p", "n", "c"},
                             {"aws.amazon.com/neuron", "16", "p", "n", "c"},
                             {"aws.amazon.com/neuroncore", "", "p", "n", "c"},
                             {"aws.amazon.com/neuron", "-1", "p", "n", "c"},
                             {"aws.amazon.com/neuron", "99999999999", "p", "n", "c"}};
  const json info = pods_info(machine(), held, 1);
  EXPECT_TRUE(info["neuroncores_k8s_info"].empty() && info["neurondevices_k8s_info"].empty());
}

TEST(PodsInfo, LongNamesAreCutAtACharacter) {
  std::string name(252, 'a');
  name += "\u00e9";
  const HeldDevice held[] = {{"aws.amazon.com/neuron", "0", name, name, name}};
  const json info = pods_info(machine(), held, 1);
  EXPECT_EQ(info["neurondevices_k8s_info"]["0"]["pod_name"], std::string(252, 'a'));
}

}  // namespace pods_info_test
}  // namespace opentrn::monitor
