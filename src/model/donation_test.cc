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
#include "runtime/timing.h"

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

// Weights less a momentum, which is made of its old value and a gradient; `third` is another result.
std::string step_of(const std::string& third) {
  const std::string t = "tensor<96x96xf32>";
  return "func.func @main(%w: " + t + " {tf.aliasing_output = 0 : i32}, %m: " + t +
         " {tf.aliasing_output = 1 : i32}, %g: " + t + ") -> (" + t + ", " + t + ", " + t +
         ") {\n  %half = stablehlo.constant dense<0.5> : " + t +
         "\n  %old = stablehlo.multiply %m, %half : " + t + "\n  %new = stablehlo.add %old, %g : " + t +
         "\n  %less = stablehlo.subtract %w, %new : " + t + "\n" + third +
         "\n  return %less, %new, %third : " + t + ", " + t + ", " + t + "\n}";
}

struct Step {
  explicit Step(const std::string& third, bool donates) {
    compiler::Options options;
    options.donate_inputs = donates;
    model =
        model_of(compiler::compile(graph::parse_module(step_of(third), "test"), options), options.generation);
  }
  bool in_place(size_t i) const { return model.outputs[i].tensor == model.inputs[i].tensor; }
  std::vector<std::vector<float>> operator()() const {
    constexpr size_t kCount = 96 * 96;
    std::vector<std::vector<float>> given(3, std::vector<float>(kCount)), made;
    for (size_t k = 0; k < given.size(); ++k)
      for (size_t i = 0; i < kCount; ++i) given[k][i] = float((i * (k + 3)) % 64) - 20;
    std::vector<std::shared_ptr<sim::Buffer>> inputs;
    for (auto& each : given) inputs.push_back(sim::Buffer::wrap(each.data(), kCount * sizeof(float)));
    for (const auto& buffer : runtime::execute(model, inputs)) {
      const auto* data = reinterpret_cast<const float*>(buffer->data());
      made.emplace_back(data, data + kCount);
    }
    return made;
  }
  runtime::Model model;
};

TEST(Donation, AStepOfAnOptimizerUpdatesItsStateWhereItLies) {
  const char* const third = "  %third = stablehlo.add %new, %g : tensor<96x96xf32>";
  const Step donated(third, true), copied(third, false);
  EXPECT_TRUE(donated.in_place(0) && donated.in_place(1));
  EXPECT_FALSE(copied.in_place(0) || copied.in_place(1));
  EXPECT_EQ(donated(), copied());
}

TEST(Donation, OtherReadersOfTheStateComeBefore) {
  const char* const third = R"(  %third = stablehlo.dot_general %w, %w, contracting_dims = [1] x [1]
    : (tensor<96x96xf32>, tensor<96x96xf32>) -> tensor<96x96xf32>)";
  const Step donated(third, true), copied(third, false);
  EXPECT_TRUE(donated.in_place(0) && donated.in_place(1));
  EXPECT_EQ(donated(), copied());
}

// An element that is read behind another one was written, or by what does not lead to the result.
TEST(Donation, StateThatIsReadOtherwiseIsCopied) {
  for (const char* const third :
       {R"(  %turned = stablehlo.transpose %m, dims = [1, 0] : (tensor<96x96xf32>) -> tensor<96x96xf32>
  %third = stablehlo.add %new, %turned : tensor<96x96xf32>)",
        "  %third = stablehlo.subtract %new, %m : tensor<96x96xf32>"}) {
    const Step donated(third, true), copied(third, false);
    EXPECT_FALSE(donated.in_place(1));
    EXPECT_EQ(donated(), copied());
  }
}

// What a loop adds to is not copied in each trip: as many bytes as are read and written are moved.
TEST(Donation, ALoopAddsToWhatItCarriesWhereItLies) {
  const std::string text = R"(
func.func @main(%x: tensor<4096x2048xf32>) -> tensor<4096x2048xf32> {
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %count = stablehlo.constant dense<8> : tensor<i32>
  %none = stablehlo.constant dense<0.0> : tensor<4096x2048xf32>
  %0:2 = stablehlo.while(%i = %zero, %sum = %none) : tensor<i32>, tensor<4096x2048xf32>
  cond {
    %c = stablehlo.compare LT, %i, %count : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %next = stablehlo.add %i, %one : tensor<i32>
    %more = stablehlo.add %sum, %x : tensor<4096x2048xf32>
    stablehlo.return %next, %more : tensor<i32>, tensor<4096x2048xf32>
  }
  return %0#1 : tensor<4096x2048xf32>
})";
  const auto options = compiler::Options{};
  const runtime::Model model =
      model_of(compiler::compile(graph::parse_module(text, "loop"), options), options.generation);
  constexpr size_t kCount = 4096 * 2048;
  std::vector<float> x(kCount);
  for (size_t i = 0; i < kCount; ++i) x[i] = float(i % 97);
  const auto made = runtime::execute(model, std::vector{sim::Buffer::wrap(x.data(), kCount * sizeof(float))});
  const auto* sum = reinterpret_cast<const float*>(made[0]->data());
  for (size_t i = 0; i < kCount; i += 1009) ASSERT_EQ(sum[i], 8 * x[i]);
  const trace::Summary summary = runtime::port_times(model, {}).summary;
  const double moved = double(summary.dma.hbm_bytes_read + summary.dma.hbm_bytes_written);
  EXPECT_LT(moved, 8.0 * 3.5 * kCount * sizeof(float));  // two are read and one is written in a trip
}

}  // namespace
}  // namespace opentrn::model
