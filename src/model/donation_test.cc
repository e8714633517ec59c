// Inputs that are updated where they lie: compiler::Options::donate_inputs and runtime::execute().
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "compiler/compile.h"
#include "graph/text/text.h"
#include "model/runtime_model.h"

namespace opentrn::model {
namespace {

using testing::ElementsAre;

// Rows 4 and 5 of a pool of 6 rows of 2 get what is given, and all of them are returned doubled too.
constexpr const char* kScatter = R"(
func.func @main(%pool: tensor<6x2xf32> {tf.aliasing_output = 0 : i32}, %at: tensor<3x1xi32>, %rows: tensor<3x2xf32>)
    -> (tensor<6x2xf32>, tensor<6x2xf32>) {
  %new = "stablehlo.scatter"(%pool, %at, %rows) <{
    scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = true}> ({
  ^bb0(%old: tensor<f32>, %update: tensor<f32>):
    stablehlo.return %update : tensor<f32>
  }) : (tensor<6x2xf32>, tensor<3x1xi32>, tensor<3x2xf32>) -> tensor<6x2xf32>
  %twice = stablehlo.add %new, %new : tensor<6x2xf32>
  return %new, %twice : tensor<6x2xf32>, tensor<6x2xf32>
})";

struct Updates {
  explicit Updates(bool donates, const std::string& text = kScatter) {
    compiler::Options options;
    options.donate_inputs = donates;
    model = model_of(compiler::compile(graph::parse_module(text, "test"), options), options.generation);
  }

  std::vector<std::vector<float>> operator()() {
    std::vector<std::shared_ptr<sim::Buffer>> inputs{sim::Buffer::wrap(pool.data(), 48),
                                                     sim::Buffer::wrap_read_only(at.data(), 12),
                                                     sim::Buffer::wrap_read_only(rows.data(), 24)};
    std::vector<std::vector<float>> values;
    for (const auto& buffer : runtime::execute(model, inputs)) {
      const auto* data = reinterpret_cast<const float*>(buffer->data());
      values.emplace_back(data, data + buffer->bytes() / 4);
    }
    return values;
  }

  runtime::Model model;
  std::vector<float> pool{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, rows{50, 51, 60, 61, 70, 71};
  std::vector<int32_t> at{5, 6, 4};  // one lies outside, and is not written
};

TEST(Donation, AnInputIsUpdatedWhereItLies) {
  Updates donated(true), copied(false);
  EXPECT_EQ(donated.model.outputs[0].tensor, donated.model.inputs[0].tensor);
  EXPECT_NE(copied.model.outputs[0].tensor, copied.model.inputs[0].tensor);
  const auto given = copied.pool;
  const auto expected = copied(), found = donated();
  EXPECT_THAT(expected[0], ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 70, 71, 50, 51));
  EXPECT_EQ(found, expected);
  EXPECT_EQ(copied.pool, given);
  EXPECT_EQ(donated.pool, expected[0]);
}

TEST(Donation, AnInputThatIsReadAfterwardsIsCopied) {
  std::string text = kScatter;
  text.replace(text.find("stablehlo.add %new, %new"), 24, "stablehlo.add %new, %pool");
  Updates run(true, text);
  const auto values = run();
  EXPECT_THAT(values[0], ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 70, 71, 50, 51));
  EXPECT_THAT(values[1], ElementsAre(0, 2, 4, 6, 8, 10, 12, 14, 78, 80, 60, 62));
}

TEST(Donation, MemoryThatIsOnlyReadIsRefused) {
  Updates run(true);
  std::vector<std::shared_ptr<sim::Buffer>> inputs{sim::Buffer::wrap_read_only(run.pool.data(), 48),
                                                   sim::Buffer::wrap_read_only(run.at.data(), 12),
                                                   sim::Buffer::wrap_read_only(run.rows.data(), 24)};
  try {
    runtime::execute(run.model, inputs);
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "model.donated_input");
  }
}

}  // namespace
}  // namespace opentrn::model
