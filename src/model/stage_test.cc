// Chains of stages: of ONNX models written here, run by the graph's evaluator.
#include "model/stage.h"

#include <cstring>
#include <numeric>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "compiler/compile.h"
#include "graph/eval/evaluate.h"
#include "import/onnx_writer_for_test.h"
#include "model/stage_coverage.h"
#include "model/stage_room.h"

namespace opentrn::model {
namespace {

using graph::ElementType;
using graph::Literal;
using graph::Type;
using import::onnx::value_info;
using protozero::pbf_writer;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int kFloat = 1, kInt64 = 7, kBool = 9;

std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output,
                 std::optional<int64_t> axis = std::nullopt) {
  std::string data;
  pbf_writer w(data);
  for (const std::string& input : inputs) w.add_string(1, input);
  w.add_string(2, output);
  w.add_string(3, "node_of_" + output);
  w.add_string(4, op);
  if (axis) {
    std::string attribute;
    pbf_writer a(attribute);
    a.add_string(1, "axis");
    a.add_int64(3, *axis);
    a.add_int32(20, 2);
    w.add_message(5, attribute);
  }
  return data;
}

std::shared_ptr<Stage> chain_of(const std::vector<std::string>& nodes, const std::vector<std::string>& inputs,
                                const std::string& output) {
  std::string graph;
  pbf_writer g(graph);
  for (const std::string& each : nodes) g.add_message(1, each);
  for (const std::string& each : inputs) g.add_message(11, each);
  g.add_message(12, output);
  std::string opset;
  pbf_writer(opset).add_int64(2, 17);
  auto bytes = std::make_shared<std::string>();
  pbf_writer m(*bytes);
  m.add_int64(1, 8);
  m.add_message(7, graph);
  m.add_message(8, opset);
  return Stage::first(import::onnx::first_stage(std::as_bytes(std::span(*bytes)), bytes, {}));
}

// The rows of x where `keep` is true, twice.
std::shared_ptr<Stage> kept_rows(const std::string& last = "Add") {
  const std::vector<std::string> operands =
      last == "Add" ? std::vector<std::string>{"rows", "rows"} : std::vector<std::string>{"rows"};
  return chain_of({node("Compress", {"x", "keep"}, "rows", 0), node(last, operands, "y")},
                  {value_info("x", kFloat, {6, 2}), value_info("keep", kBool, {6})},
                  value_info("y", kFloat, {}));
}

template <typename T>
Literal literal(ElementType element, std::vector<int64_t> dims, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {Type::tensor(element, std::move(dims)), {bytes.begin(), bytes.end()}};
}

std::vector<float> floats_of(const Literal& value) {
  std::vector<float> floats(static_cast<size_t>(value.type().element_count()));
  std::memcpy(floats.data(), value.dense().data(), floats.size() * sizeof(float));
  return floats;
}

std::vector<Literal> evaluated(const std::shared_ptr<Stage>& stage, std::vector<Literal> arguments) {
  const graph::Module& module = stage->imported().module;
  std::vector<graph::eval::RuntimeValue> values(arguments.begin(), arguments.end());
  std::vector<Literal> results;
  for (const auto& value : graph::eval::evaluate(module, module.entry(), values))
    results.push_back(value.literal());
  return results;
}

std::vector<Literal> inputs_of(const std::vector<uint8_t>& keep) {
  std::vector<float> x(12);
  std::iota(x.begin(), x.end(), 1.0f);
  return {literal(ElementType::kF32, {6, 2}, x), literal(ElementType::kI1, {6}, keep)};
}

TEST(ModelStage, AnInferenceRunsStagesForTheRowsThatItHas) {
  const auto first = kept_rows();
  for (int kept = 0; kept <= 6; ++kept) {
    std::vector<uint8_t> keep(6, 0);
    std::fill_n(keep.begin(), kept, 1);
    const StagedResults run = run_stages(first, inputs_of(keep), evaluated);
    ASSERT_EQ(run.path.size(), 2U);
    EXPECT_EQ(run.path[1]->sizes(), (Answered{{"rows", kept}}));
    std::vector<float> expected;
    for (int i = 0; i < 2 * kept; ++i) expected.push_back(static_cast<float>(2 * (i + 1)));
    EXPECT_EQ(floats_of(run.results.at(0)), expected);
  }
}

TEST(ModelStage, TheSameAnswersGiveTheSameStage) {
  const auto first = kept_rows();
  const auto three = first->next_of_counts({3});
  EXPECT_EQ(three, first->next_of_counts({3}));
  EXPECT_NE(three, first->next_of_counts({2}));
  EXPECT_EQ(three->sizes_text(), "rows=3");
  EXPECT_EQ(three->number(), 2U);
  EXPECT_EQ(three->before(), first);
  EXPECT_EQ(first->before(), nullptr);
  EXPECT_THAT(ask_text(first->imported().asks.at(0)), HasSubstr("rows (up to 6), for Compress node"));
}

// SHA-256 of "i64 [] " and eight bytes: printf 'i64 [] \003\0\0\0\0\0\0\0' | sha256sum. Files and caches hold
// it.
TEST(ModelStage, TheKeyIsThatOfTheFilesThatAreThere) {
  const auto first = kept_rows();
  EXPECT_EQ(first->key(), "");
  EXPECT_EQ(first->imported().asks.at(0).type.element(), ElementType::kI64);
  EXPECT_EQ(first->next_of_counts({3})->key(),
            "7ae627ded9e7fd6a4f4bf281006eba3548680b5beddf7faee94a13a97e24abae");
}

TEST(ModelStage, ACountThatCannotBeIsRefusedAndForgotten) {
  const auto first = kept_rows();
  for (int i = 0; i < 2; ++i) {
    try {
      first->next_of_counts({7});
      FAIL();
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "onnx.answer");
      EXPECT_THAT(fault.what(), HasSubstr("it is at most 6"));
    }
  }
  EXPECT_THROW(first->next({}), Fault);
}

TEST(ModelStage, StagesOutliveTheHandleOfTheFirst) {
  auto first = kept_rows();
  const auto last = first->next_of_counts({2});
  first.reset();
  EXPECT_EQ(last->before()->number(), 1U);
}

TEST(ModelStage, SizesAheadAreThoseOfEveryCombination) {
  const auto first = kept_rows();
  std::vector<std::string> sizes;
  for (const auto& stage : stages_ahead(first, {{"rows", {2, 4}}}, {"batch"}))
    sizes.push_back(stage->sizes_text());
  EXPECT_THAT(sizes, ElementsAre("", "rows=2", "rows=4"));
  EXPECT_EQ(stages_ahead(first, {}, {}).size(), 1U);
  EXPECT_EQ(stages_ahead(first, {{"batch", {2}}}, {"batch"}).size(), 1U);
  try {
    stages_ahead(first, {{"row", {2}}}, {"batch"});
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "onnx.dimension");
    EXPECT_THAT(fault.what(), HasSubstr("there are 'batch', 'rows'"));
  }
}

graph::Module prepared(const graph::Module& of) { return compiler::prepare(of, {}); }

TEST(StageRoom, AStageRunsInTheSmallestLargerOneAndIsCut) {
  const auto first = kept_rows();
  StageRooms rooms(prepared);
  rooms.set_sizes({{"rows", {4, 2}}});
  for (const auto& [kept, larger] : {std::pair(0, 2), {1, 2}, {2, 2}, {3, 4}, {4, 4}}) {
    const auto stage = first->next_of_counts({kept});
    const auto room = rooms.room_for(*stage);
    ASSERT_TRUE(room) << kept;
    EXPECT_EQ(room->larger->sizes(), (Answered{{"rows", larger}}));
    std::vector<uint8_t> keep(6, 0);
    std::fill_n(keep.begin() + 6 - kept, kept, 1);
    std::map<std::string, std::shared_ptr<Stage>> ran;
    const auto execute = rooms.executing(
        evaluated, [](const std::shared_ptr<Stage>& each) { return each->number() == 1; }, ran);
    const StagedResults run = run_stages(first, inputs_of(keep), execute);
    EXPECT_THAT(ran, ElementsAre(testing::Pair(stage->key(), room->larger)));
    EXPECT_EQ(floats_of(run.results.at(0)),
              floats_of(run_stages(first, inputs_of(keep), evaluated).results.at(0)));
    EXPECT_THAT(run.results.at(0).type().dims_vector(), ElementsAre(kept, 2));
  }
  EXPECT_FALSE(rooms.room_for(*first->next_of_counts({5})));
  EXPECT_FALSE(rooms.room_for(*first));
}

TEST(StageRoom, WhatMixesRowsHasNone) {
  const auto first = kept_rows("ReduceMean");
  StageRooms rooms(prepared);
  rooms.set_sizes({{"rows", {4}}});
  EXPECT_FALSE(rooms.room_for(*first->next_of_counts({3})));
}

TEST(StageRoom, AProgramForOneRowOrForAllIsNoProof) {
  const auto first = kept_rows();
  StageRooms rooms(prepared);
  rooms.set_sizes({{"rows", {1}}});
  EXPECT_FALSE(rooms.room_for(*first->next_of_counts({0})));
  rooms.set_sizes({{"rows", {6}}});
  EXPECT_FALSE(rooms.room_for(*first->next_of_counts({5})));
}

TEST(StageCoverage, CountsHaveTheirBoundOrWhatIsStated) {
  const StagedCoverage most = coverage_of_stages(kept_rows(), {}, {});
  EXPECT_THAT(most.notes,
              ElementsAre(HasSubstr("stage 2 is looked at for rows=6, which data decide (Compress node")));
  EXPECT_THAT(coverage_of_stages(kept_rows(), {{"rows", 3}}, {}).notes, ElementsAre(HasSubstr("rows=3")));
  // An input that is known answers in the place of the bound.
  EXPECT_THAT(
      coverage_of_stages(kept_rows(), {}, {{1, literal<uint8_t>(ElementType::kI1, {6}, {1, 0, 1, 0, 0, 0})}})
          .notes,
      IsEmpty());
  const auto adds = std::ranges::find(most.rows, "stablehlo.add", &compiler::OpCoverage::op);
  ASSERT_NE(adds, most.rows.end());
  EXPECT_GE(adds->count, 1);
}

TEST(StageCoverage, BehindAValueThatIsNotKnownNothingIsLookedAt) {
  const auto first =
      chain_of({node("Reshape", {"x", "shape"}, "y")},
               {value_info("x", kFloat, {6}), value_info("shape", kInt64, {2})}, value_info("y", kFloat, {}));
  const StagedCoverage unknown = coverage_of_stages(first, {}, {});
  EXPECT_THAT(unknown.notes,
              ElementsAre(HasSubstr("1 nodes are not looked at"), HasSubstr("try: -i shape=VALUE")));
  const auto known = coverage_of_stages(first, {}, {{1, literal<int64_t>(ElementType::kI64, {2}, {2, 3})}});
  EXPECT_THAT(known.notes, IsEmpty());
}

}  // namespace
}  // namespace opentrn::model
