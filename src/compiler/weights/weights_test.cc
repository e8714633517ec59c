#include "compiler/weights/weights.h"

#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "compiler/analysis/pass_for_test.h"

namespace opentrn::compiler {
namespace {

// A product with a weight of 128 x 128, each channel of its own size: the smallest that counts as one.
graph::Module with_weight() {
  std::string bytes;
  for (int row = 0; row < 128; ++row)
    for (int channel = 0; channel < 128; ++channel) {
      const float weight = static_cast<float>(std::sin(row + 1.0) * (channel + 0.5));
      const auto bits = std::bit_cast<uint32_t>(weight);
      for (int byte = 0; byte < 4; ++byte) bytes += fmt::format("{:02X}", bits >> 8 * byte & 0xFF);
    }
  return parsed(main_of("(%x: tensor<4x128xf32>) -> tensor<4x128xf32>", fmt::format(R"(
    %w = stablehlo.constant dense<"0x{}"> : tensor<128x128xf32>
    %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
         : (tensor<4x128xf32>, tensor<128x128xf32>) -> tensor<4x128xf32>
    return %a : tensor<4x128xf32>)",
                                                                                    bytes)));
}

double largest_error(const graph::Module& before, const graph::Module& after, double& largest) {
  std::mt19937_64 random(7);
  const graph::Literal x = random_literal(before.entry().type(before.entry().arguments()[0]), 1, random);
  const std::vector<graph::eval::RuntimeValue> arguments{{x}};
  const auto a = numbers_of(graph::eval::evaluate(before, before.entry(), arguments)[0].literal());
  const auto b = numbers_of(graph::eval::evaluate(after, after.entry(), arguments)[0].literal());
  double error = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    error = std::max(error, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(a[i]));
  }
  return error;
}

// int8 has 127 steps to the largest weight of a channel, fp8 3 bits of fraction: the sum of 128 terms errs by
// less than that share of itself.
TEST(QuantiseWeights, KeepsProductsWithinTheStepsOfTheType) {
  for (const auto& [type, share] : {std::pair{WeightType::kInt8, 0.01}, {WeightType::kFp8E4M3, 0.06}}) {
    const graph::Module before = with_weight();
    graph::Module module = before;
    const WeightCounts counts = quantise_weights(module.entry(), type);
    EXPECT_EQ(counts.count, 1);
    EXPECT_EQ(counts.bytes_before, 128 * 128 * 4);
    EXPECT_EQ(counts.bytes_after, 128 * 128 + 128 * 4) << "with a scale per channel";
    graph::verify(module);
    double largest = 0;
    const double error = largest_error(before, module, largest);
    EXPECT_LT(error, share * largest);
    EXPECT_GT(error, 0) << "nothing was quantised";
  }
}

TEST(QuantiseWeights, CountsWhatItLeaves) {
  graph::Module module = parsed(main_of("(%x: tensor<2x2xf32>) -> tensor<2x2xf32>", R"(
    %w = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
    %a = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
         : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
    return %a : tensor<2x2xf32>)"));
  const std::string before = graph::print_module(module);
  const WeightCounts counts = quantise_weights(module.entry(), WeightType::kInt8);
  EXPECT_EQ(counts.count, 0);
  EXPECT_EQ(counts.small, 1);
  EXPECT_EQ(graph::print_module(module), before);
}

TEST(MicroscaleWeights, AsAGraphThatTheEvaluatorKnows) {
  const graph::Module before = with_weight();
  graph::Module module = before;
  const WeightCounts counts = microscale_weights(module.entry(), WeightType::kMxFp8, /*as_kernels=*/false);
  EXPECT_EQ(counts.count, 1);
  graph::verify(module);
  double largest = 0;
  const double error = largest_error(before, module, largest);
  EXPECT_LT(error, 0.1 * largest);
}

// Two of every four weights along the contraction stay: the largest.
TEST(PruneWeights, KeepsTheLargestOfEachGroup) {
  graph::Module module = with_weight();
  prune_weights(module.entry(), *numerics::sparsity_pattern_from_name("2:4"));
  const graph::Literal* weight = nullptr;
  graph::walk(module.entry(), module.entry().body(), [&](graph::OpId id) {
    const graph::Op& op = module.entry().op(id);
    if (op.kind == graph::OpKind::constant_ && op.literal(graph::Attr::value).type().rank() == 2)
      weight = &op.literal(graph::Attr::value);
  });
  ASSERT_NE(weight, nullptr);
  const auto numbers = numbers_of(*weight);
  for (size_t column = 0; column < 128; ++column)
    for (size_t group = 0; group < 32; ++group) {
      int kept = 0;
      for (size_t i = 0; i < 4; ++i) kept += numbers[(group * 4 + i) * 128 + column] != 0;
      ASSERT_LE(kept, 2) << "column " << column << " group " << group;
    }
}

// What an importer writes for int8 weights: convert, then times a scale per channel.
TEST(KeepIntegerWeights, MultipliesTheSumsByTheScale) {
  const auto pass = [](graph::Function& function) { EXPECT_EQ(keep_integer_weights(function), 1); };
  std::string bytes;
  for (int i = 0; i < 128 * 128; ++i) bytes += fmt::format("{:02X}", i * 7 % 251);
  const std::string text = main_of("(%x: tensor<4x128xf32>) -> tensor<4x128xf32>", fmt::format(R"(
    %w = stablehlo.constant dense<"0x{}"> : tensor<128x128xi8>
    %wide = stablehlo.convert %w : (tensor<128x128xi8>) -> tensor<128x128xf32>
    %s = stablehlo.constant dense<0.25> : tensor<128x128xf32>
    %scaled = stablehlo.multiply %wide, %s : tensor<128x128xf32>
    %a = stablehlo.dot_general %x, %scaled, contracting_dims = [1] x [0]
         : (tensor<4x128xf32>, tensor<128x128xf32>) -> tensor<4x128xf32>
    return %a : tensor<4x128xf32>)",
                                                                                               bytes));
  expect_same_values(text, pass, 1e-5);
}

}  // namespace
}  // namespace opentrn::compiler
