#include "monitor/node_sets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::monitor {
namespace node_sets_test {

using nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

Machine machine(const char* instance, int lnc = 1) {
  const arch::Tables& tables = arch::default_tables();
  return machine_of(tables, fabric::Platform::make(tables, instance), lnc);
}

template <typename Act>
std::string refusal(Act&& act) {
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

Numbers numbers(int begin, int end) {
  Numbers all;
  for (int i = begin; i < end; ++i) all.push_back(i);
  return all;
}

TEST(NodeSets, AreThoseThatAwsDraws) {
  const Machine trn1 = machine("trn1.32xlarge"), trn2 = machine("trn2.48xlarge", 2),
                inf2 = machine("inf2.48xlarge");
  EXPECT_THAT(device_counts(trn1), ElementsAre(1, 4, 8, 16));
  EXPECT_EQ(device_counts(trn2), device_counts(trn1));
  EXPECT_THAT(device_sets(trn1, 4),
              ElementsAre(numbers(0, 4), numbers(4, 8), numbers(8, 12), numbers(12, 16)));
  EXPECT_THAT(device_sets(trn1, 8), ElementsAre(numbers(0, 8), numbers(8, 16)));
  EXPECT_EQ(device_counts(inf2), numbers(1, 13));
  EXPECT_THAT(device_sets(inf2, 3), Contains(Numbers{10, 11, 0}));
  EXPECT_THAT(device_sets(inf2, 3), Not(Contains(Numbers{0, 2, 4})));
  EXPECT_EQ(refusal([&] { device_sets(trn1, 7); }),
            "Instance type trn1.32xlarge does not support requests for device: 7. Please request a different "
            "number "
            "of devices.");
}

TEST(NodeSets, AreConnected) {
  for (const char* instance : {"trn2.48xlarge", "trn1.32xlarge", "inf2.48xlarge"}) {
    const Machine node = machine(instance);
    for (const int count : device_counts(node))
      for (const Numbers& chosen : device_sets(node, count)) {
        std::set<int> left(chosen.begin(), chosen.end());
        ASSERT_EQ(left.size(), static_cast<size_t>(count));
        Numbers reached{chosen[0]};
        left.erase(chosen[0]);
        for (size_t at = 0; at < reached.size(); ++at)
          for (const int other : node.devices[static_cast<size_t>(reached[at])].connected_to)
            if (left.erase(other) > 0) reached.push_back(other);
        EXPECT_TRUE(left.empty()) << instance << " " << count;
      }
  }
}

TEST(NodeSets, CoresAreOfOneDeviceOrOfWholeOnes) {
  const Machine trn2 = machine("trn2.48xlarge", 2);
  EXPECT_EQ(core_sets(trn2, 2)[1], (Numbers{2, 3}));
  EXPECT_EQ(core_sets(trn2, 16)[1], numbers(16, 32));
  for (const int count : {0, -1, 6, 12})
    EXPECT_THAT(refusal([&] { core_sets(trn2, count); }), HasSubstr("requests for core"));
}

TEST(NodeSets, RangesAreReadAsTheyAreWritten) {
  EXPECT_EQ(ranges_text({5, 1, 0, 2}), "0-2,5");
  EXPECT_EQ(ranges_text({}), "");
  for (unsigned bits = 1; bits < 512; ++bits) {
    Numbers some;
    for (int i = 0; i < 9; ++i)
      if (bits >> i & 1) some.push_back(i * (1 + i % 2));
    std::ranges::sort(some);
    EXPECT_EQ(numbers_of_ranges(ranges_text(some)), some);
  }
  for (const char* text : {"", "x", "-1", "1-", "0-9999", "1,,2", "3.5", "0-4095,1", "99999999999"})
    refusal([&] { numbers_of_ranges(text); });
}

json pod(json limits, json notes = nullptr, const char* phase = "Running") {
  return {{"metadata", {{"annotations", std::move(notes)}}},
          {"spec", {{"containers", {{{"resources", {{"limits", std::move(limits)}}}}}}}},
          {"status", {{"phase", phase}}}};
}

TEST(NodeSets, PodsHoldWhatTheirAnnotationsSay) {
  const Machine trn2 = machine("trn2.48xlarge", 2);
  const json pods = json::array({pod({}, {{"NEURON_CORES", "0-3"}}), pod({}, {{"NEURON_DEVICES", "2"}}),
                                 pod({}, {{"NEURON_CORES", "4-63"}}, "Succeeded"), pod({})});
  EXPECT_THAT(cores_of_pods(trn2, pods), ElementsAre(0, 1, 2, 3, 8, 9, 10, 11));
  refusal([&] { cores_of_pods(trn2, json::array({pod({}, {{"NEURON_CORES", "many"}})})); });
  for (const json& other : {json(5), pod({}), json::array({5}), json::array({{{"status", 3}}}),
                            json::array({pod({}, 3)}), json::array({pod({}, {{"NEURON_CORES", 3}})})})
    refusal([&] { cores_of_pods(trn2, other); });
}

TEST(NodeSets, LargeRequestsArePlacedFirst) {
  const Machine trn2 = machine("trn2.48xlarge", 2);
  json wish = pod({{"aws.amazon.com/neuroncore", "2"}});
  wish["spec"]["containers"].push_back(pod({{"aws.amazon.com/neuron", 8}})["spec"]["containers"][0]);
  const auto requests = device_requests(wish);
  ASSERT_EQ(requests.size(), 2);
  const auto placed = place(trn2, requests, {0, 1, 2, 3});
  EXPECT_EQ(placed[0].numbers, (Numbers{4, 5}));
  EXPECT_EQ(placed[1].numbers, numbers(8, 16));
  EXPECT_EQ(annotations_of(trn2, placed), (json{{"NEURON_CORES", "4-5,32-63"}, {"NEURON_DEVICES", "8-15"}}));
  EXPECT_EQ(annotations_of(trn2, {}), json::object());
  EXPECT_EQ(refusal([&] {
              place(trn2, device_requests(pod({{"aws.amazon.com/neuron", "16"}})), {9});
            }),
            "no contiguous set of 16 devices is free");
}

TEST(NodeSets, WhatIsNoPodIsRefused) {
  EXPECT_TRUE(device_requests(pod({})).empty());
  EXPECT_EQ(device_requests(pod({{"aws.amazon.com/neurondevice", 4}}))[0].count, 4);
  for (const json& other : {json(), json(3), json::object(), json{{"spec", {{"containers", 3}}}}, pod(3)})
    EXPECT_EQ(refusal([&] { device_requests(other); }), "this is not a pod");
  EXPECT_THAT(refusal([&] { device_requests(pod({{"aws.amazon.com/neuron", "1.5"}})); }), HasSubstr("1.5"));
  for (const json& count : {json(-1), json(true), json("99999999999"), json(1e3)})
    refusal([&] { device_requests(pod({{"aws.amazon.com/neuron", count}})); });
  EXPECT_THAT(refusal([&] {
                device_requests(pod({{"aws.amazon.com/neuron", 1}, {"aws.amazon.com/neuroncore", 1}}));
              }),
              HasSubstr("one of them"));
}

}  // namespace node_sets_test
}  // namespace opentrn::monitor
