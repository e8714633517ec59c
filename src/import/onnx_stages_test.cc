// Models whose shapes depend on data, cut into stages; answers as a host would read them.
#include "import/onnx/stages.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/eval/evaluate.h"
#include "import/onnx_writer_for_test.h"

namespace opentrn::import::onnx {
namespace {

using graph::ElementType;
using graph::Literal;
using graph::Type;
using protozero::pbf_writer;
using testing::ElementsAre;

constexpr int kFloat = 1, kInt64 = 7;

std::string node(const std::string& op, const std::vector<std::string>& inputs, const std::string& output) {
  std::string data;
  pbf_writer w(data);
  for (const std::string& input : inputs) w.add_string(1, input);
  w.add_string(2, output);
  w.add_string(3, "node_of_" + output);
  w.add_string(4, op);
  return data;
}

std::shared_ptr<const Stage> first_of(const std::vector<std::string>& nodes) {
  std::string graph;
  pbf_writer g(graph);
  for (const std::string& each : nodes) g.add_message(1, each);
  g.add_message(11, value_info("x", kFloat, {2, 3}));
  g.add_message(12, value_info("y", kInt64, {2, -1}));
  std::string opset;
  pbf_writer(opset).add_int64(2, 17);
  auto model = std::make_shared<std::string>();
  pbf_writer m(*model);
  m.add_int64(1, 8);
  m.add_message(7, graph);
  m.add_message(8, opset);
  return first_stage(std::as_bytes(std::span(*model)), model, {});
}

Literal integers(std::vector<int64_t> dims, const std::vector<int64_t>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {Type::tensor(ElementType::kI64, std::move(dims)), {bytes.begin(), bytes.end()}};
}

Literal reals(std::vector<int64_t> dims, const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {Type::tensor(ElementType::kF32, std::move(dims)), {bytes.begin(), bytes.end()}};
}

std::vector<int64_t> numbers(const Literal& literal) {
  std::vector<int64_t> values(static_cast<size_t>(literal.type().element_count()));
  const auto bytes = literal.dense();
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<graph::eval::RuntimeValue> evaluated(const Stage& stage, const Literal& argument) {
  const std::vector<graph::eval::RuntimeValue> arguments{{argument}};
  return graph::eval::evaluate(stage.module, stage.module.entry(), arguments);
}

TEST(OnnxStages, WhatIsCountedComesBackWithItsSize) {
  const auto first = first_of({node("NonZero", {"x"}, "found"), node("Neg", {"found"}, "y")});
  ASSERT_EQ(first->asks.size(), 1U);
  EXPECT_TRUE(first->asks[0].counts);
  EXPECT_EQ(first->asks[0].bound, 6);
  EXPECT_EQ(first->asks[0].name, "found");
  EXPECT_EQ(first->nodes_left, 2U);
  const auto made = evaluated(*first, reals({2, 3}, {0, 1, 0, 0, 1, 1}));
  EXPECT_THAT(numbers(made[0].literal()), ElementsAre(3));
  EXPECT_THAT(numbers(made[1].literal()), ElementsAre(1, 4, 5, 6, 6, 6));  // padded with what is behind
  const auto last = first->next({integers({}, {3})});
  EXPECT_TRUE(last->is_last());
  EXPECT_EQ(last->nodes_left, 0U);
  const auto results = evaluated(*last, integers({3}, {1, 4, 5}));
  EXPECT_THAT(numbers(results[0].literal()), ElementsAre(0, -1, -1, -1, -1, -2));
  EXPECT_EQ(last->results[0], last->outputs[0].slot);
}

TEST(OnnxStages, ACountThatCannotBeIsAFault) {
  const auto first = first_of({node("NonZero", {"x"}, "y")});
  for (const Literal& answer : {integers({}, {7}), integers({}, {-1}), integers({1}, {3}), reals({}, {3})})
    EXPECT_THROW(first->next({answer}), Fault);
  EXPECT_THROW(first->next({}), Fault);
  EXPECT_EQ(first->next({integers({}, {0})})->module.entry().result_types[0],
            Type::tensor(ElementType::kI64, {2, 0}));
}

TEST(OnnxStages, AModelOfStaticShapesHasOneStage) {
  const auto only = first_of({node("Neg", {"x"}, "y")});
  EXPECT_TRUE(only->is_last());
  EXPECT_EQ(only->outputs.size(), 1U);
  EXPECT_EQ(only->inputs, std::vector<Slot>{0});
}

TEST(OnnxStages, WhatDoesNotDependOnTheSizeIsInTheFirstStage) {
  const auto first = first_of({node("NonZero", {"x"}, "found"), node("Exp", {"x"}, "large"),
                               node("Neg", {"large"}, "unused"), node("Shape", {"found"}, "y")});
  // Of Exp nothing is left: a model without its result needs it nowhere.
  for (const graph::OpId id : first->module.entry().block(first->module.entry().body()).ops)
    EXPECT_NE(first->module.entry().op(id).kind, graph::OpKind::exponential_);
  const auto last = first->next({integers({}, {4})});
  EXPECT_THAT(numbers(graph::eval::evaluate(last->module, last->module.entry(), {})[0].literal()),
              ElementsAre(2, 4));
}

}  // namespace
}  // namespace opentrn::import::onnx
