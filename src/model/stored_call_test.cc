#include "model/stored_call.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace opentrn::model {
namespace {

using nlohmann::json;

const std::map<std::string, std::string> kElements{{"float32", "f32"}, {"float16", "f16"}};

json output() {
  return {{"target", -1},       {"copied_from", -1}, {"sizes", {2, 3}},     {"strides", {3, 1}},
          {"dtype", "float32"}, {"repeats", -1},     {"is_in_order", true}, {"order", {0, 1}}};
}

json good() {
  return {{"draws", false},
          {"inputs", json::array({json::array({"tensor", 0})})},
          {"outputs", json::array({output()})},
          {"returned", json::array({json::array({"output", 0})})}};
}

// A program that reads [2, 3] and writes [2, 3], for a call of one tensor [2, 3] and one number.
std::optional<StoredCall> taken(const json& facts, CallTensor tensor = {{2, 3}, {2, 3}, "f32"}) {
  const std::vector<NamedPort> inputs{{"a", "f32", {2, 3}}}, outputs{{"b", "f32", {2, 3}}};
  const std::vector<CallTensor> tensors{std::move(tensor)};
  return stored_call(facts.dump(), {tensors, 1, inputs, outputs, kElements});
}

TEST(StoredCall, FactsOfTheCallAreRead) {
  const auto stored = taken(good());
  ASSERT_TRUE(stored);
  EXPECT_FALSE(stored->draws);
  ASSERT_EQ(stored->inputs.size(), 1u);
  EXPECT_EQ(stored->inputs[0].kind, "tensor");
  ASSERT_EQ(stored->outputs.size(), 1u);
  EXPECT_EQ(stored->outputs[0].strides, (std::vector<int64_t>{3, 1}));
  ASSERT_EQ(stored->returned.size(), 1u);
  EXPECT_EQ(stored->returned[0].places, (std::vector<int64_t>{0}));
}

TEST(StoredCall, APlaceThatThereIsNotIsRefused) {
  for (const json& row : {json::array({"tensor", 1}), json::array({"tensor", -1}),
                          json::array({"tensor", 0.0}), json::array({"number", 1, "float32"}),
                          json::array({"tensor", uint64_t{1} << 63}), json::array({"other", 0, "float32"})}) {
    json facts = good();
    facts["inputs"] = json::array({row});
    EXPECT_FALSE(taken(facts)) << row;
  }
  for (const json& row :
       {json::array({"output", 1}), json::array({"argument", 1}), json::array({"list", json::array({0, 7})}),
        json::array({"call", "os.system"}), json::array({"output"}), json::array()}) {
    json facts = good();
    facts["returned"] = json::array({row});
    EXPECT_FALSE(taken(facts)) << row;
  }
}

TEST(StoredCall, MemoryIsThatOfTheProgram) {
  const std::pair<const char*, json> wrong[] = {
      {"sizes", {2, 2}},   {"sizes", {-2, -3}}, {"sizes", {int64_t{1} << 61, int64_t{1} << 61}},
      {"strides", {0, 1}}, {"strides", {1}},    {"dtype", "float16"},
      {"dtype", "other"},  {"target", 5},       {"order", {0, 0}},
      {"order", {0, 2}},   {"order", nullptr},  {"repeats", 0},
      {"is_in_order", 1},  {"more", 1}};
  for (const auto& [key, value] : wrong) {
    json facts = good();
    facts["outputs"][0][key] = value;
    EXPECT_FALSE(taken(facts)) << key << " " << value;
  }
  EXPECT_FALSE(taken(good(), {{2, 4}, {2, 4}, "f32"}));
  EXPECT_FALSE(taken(good(), {{2, 3}, {2, 3}, "f16"}));
  EXPECT_FALSE(taken(good(), {{2, 3}, {2, 3}, "f32", true}));
}

TEST(StoredCall, WhatIsWrittenInPlaceIsDense) {
  json facts = good();
  facts["outputs"][0]["target"] = 0;
  facts["returned"] = json::array({json::array({"argument", 0})});
  EXPECT_TRUE(taken(facts));
  EXPECT_FALSE(taken(facts, {{2, 3}, {2, 3}, "f32", false, false}));
}

TEST(StoredCall, AStateIsTheLastInput) {
  json facts = good();
  facts["draws"] = true;
  EXPECT_FALSE(taken(facts));
  const std::vector<NamedPort> inputs{{"a", "f32", {2, 3}}, {"state", "ui32", {4}}},
      outputs{{"b", "f32", {2, 3}}};
  const std::vector<CallTensor> tensors{{{2, 3}, {2, 3}, "f32"}};
  EXPECT_TRUE(stored_call(facts.dump(), {tensors, 0, inputs, outputs, kElements}));
}

TEST(StoredCall, WhatIsNoObjectIsRefused) {
  for (const std::string& facts :
       {std::string(), std::string(100'000, '['), std::string("{}"), std::string("5"),
        std::string("{\"draws\": false, \"inputs\": 1, \"outputs\": [], \"returned\": []}")})
    EXPECT_FALSE(stored_call(facts, {{}, 0, {}, {}, kElements}));
}

}  // namespace
}  // namespace opentrn::model
