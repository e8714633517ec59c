// Collectives of weights in parts: layers, streams, triggers, and what they hold of memory.
#include "spmd/run/weight_collectives.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/text/text.h"

namespace opentrn::spmd {
namespace {

using testing::ElementsAre;
using Stage = ParallelProgram::Stage;

std::vector<size_t> layers(const std::vector<std::string>& shapes, std::vector<size_t> parts = {},
                           bool activations_meet = false) {
  parts.resize(shapes.size());
  return layers_of(shapes, parts, activations_meet);
}

TEST(WeightCollectives, LayersAreShapesThatRepeat) {
  EXPECT_THAT(layers({"u", "d", "u", "d"}), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(layers({"q", "o", "u", "d", "q", "o", "u", "d"}), ElementsAre(0, 0, 0, 0, 1, 1, 1, 1));
  EXPECT_THAT(layers({"u", "d", "u", "d", "d", "u", "d", "u"}), ElementsAre(0, 0, 1, 1, 2, 2, 3, 3));
  EXPECT_THAT(layers({"w", "w", "w"}), ElementsAre(0, 1, 2));
  EXPECT_THAT(layers({"a", "b", "c"}), ElementsAre(0, 1, 2));
  EXPECT_THAT(layers({}), ElementsAre());
}

TEST(WeightCollectives, LayersLieBetweenExchangesOfActivations) {
  EXPECT_THAT(layers({"q", "k", "o", "u", "d", "q"}, {2, 2, 2, 5, 5, 8}, true),
              ElementsAre(0, 0, 0, 1, 1, 2));
}

// Layers of one weight each: gathers, then a part that reads them one after the other and makes gradients.
struct Example {
  std::vector<Stage> stages;
  std::vector<Step> steps;

  explicit Example(uint32_t layers) {
    for (uint32_t i = 0; i < layers; ++i) add(collectives::Kind::kAllGather, {}, {i});
    Part part{.ns = 100.0 * layers};
    for (uint32_t i = 0; i < layers; ++i) {
      part.reads.push_back({i, 100.0 * i});
      part.writes.push_back({layers + i, 100.0 * i + 50});
    }
    stages.emplace_back();
    steps.push_back(part);
    for (uint32_t i = 0; i < layers; ++i)
      add(collectives::Kind::kReduceScatter, {layers + i}, {2 * layers + i});
    Part update{.ns = 10};
    for (uint32_t i = 0; i < layers; ++i) update.reads.push_back({2 * layers + i, 0});
    stages.emplace_back();
    steps.push_back(update);
  }
  void add(collectives::Kind kind, std::vector<ValueNumber> reads, std::vector<ValueNumber> writes) {
    Stage& stage = stages.emplace_back();
    stage.collective = ParallelProgram::Collective{.kind = kind, .bytes = 8, .groups = {{0, 1, 2, 3}}};
    stage.weight = "w";
    steps.push_back(Collective{.ns = 10, .reads = std::move(reads), .writes = std::move(writes)});
  }
  const Collective& collective(size_t step) const { return std::get<Collective>(steps[step]); }
};

TEST(WeightCollectives, WithoutVariablesNothingIsArranged) {
  Example example(3);
  arrange(example.stages, example.steps, {});
  for (const size_t step : {0, 1, 2, 4, 5, 6}) {
    EXPECT_EQ(example.collective(step).not_before, std::nullopt);
    EXPECT_EQ(example.collective(step).stream, 0);
  }
}

// Weights are gathered so many layers before they are read, and all at once without that: memory follows.
TEST(WeightCollectives, GathersAreTriggeredLayersBefore) {
  const auto most = [](int early) {
    Example example(4);
    arrange(example.stages, example.steps, {.is_ordered = true, .layers_early = early});
    const Schedule result = schedule(example.steps);
    std::vector<double> starts;
    for (size_t i = 0; i < 4; ++i) starts.push_back(result.steps[i].start_ns);
    return std::pair(starts, result.end_ns);
  };
  EXPECT_EQ(most(4), std::pair(std::vector<double>({0, 10, 20, 30}), 420.0));
  EXPECT_EQ(most(2), std::pair(std::vector<double>({0, 10, 20, 110}), 420.0));
  EXPECT_EQ(most(1), std::pair(std::vector<double>({0, 10, 110, 210}), 420.0));
  EXPECT_EQ(most(0), std::pair(std::vector<double>({0, 110, 220, 330}), 450.0));  // all are waited for
}

TEST(WeightCollectives, ScattersAreTriggeredLayersLater) {
  const auto starts = [](int late) {
    Example example(4);
    arrange(example.stages, example.steps, {.is_ordered = true, .layers_late = late});
    const Schedule result = schedule(example.steps);
    std::vector<double> found;
    for (size_t i = 5; i < 9; ++i) found.push_back(result.steps[i].start_ns);
    return found;
  };
  EXPECT_THAT(starts(0), ElementsAre(60, 160, 260, 360));
  EXPECT_THAT(starts(1), ElementsAre(60, 160, 260, 360));  // beside the next layer
  EXPECT_THAT(starts(2), ElementsAre(160, 260, 360, 370));
}

TEST(WeightCollectives, TheyHaveAStreamOfTheirOwn) {
  Example example(2);
  example.stages[1].stream = 3;
  example.add(collectives::Kind::kAllReduce, {3}, {9});
  example.stages.back().weight.clear();
  arrange(example.stages, example.steps, {.is_ordered = true, .has_stream = true});
  EXPECT_EQ(example.collective(0).stream, 1);
  EXPECT_EQ(example.collective(1).stream, 3);  // what the program says
  EXPECT_EQ(example.collective(3).stream, 1);
  EXPECT_EQ(example.collective(6).stream, 0);
}

// Each layer is a part of its own here, so that its weight goes when the part ends.
TEST(WeightCollectives, MemoryOfGatheredWeights) {
  const auto most = [](int early) {
    Example example(4);
    example.stages.resize(4);
    example.steps.resize(4);
    for (ValueNumber i = 0; i < 4; ++i) {
      example.stages.emplace_back();
      example.steps.push_back(Part{.ns = 100, .reads = {{i, 0}}});
    }
    arrange(example.stages, example.steps, {.is_ordered = early >= 0, .layers_early = early});
    return gathered_bytes(example.stages, example.steps, schedule(example.steps));
  };
  constexpr double kWeight = 8 * 4;
  EXPECT_EQ(most(-1), 4 * kWeight);  // as early as they can be
  EXPECT_EQ(most(2), 3 * kWeight);
  EXPECT_EQ(most(1), 2 * kWeight);
  EXPECT_EQ(most(0), kWeight);
}

const graph::Op& op_of(const graph::Module& module, graph::OpKind kind, size_t number = 0) {
  const graph::Function& function = module.entry();
  for (const graph::OpId id : function.block(function.body()).ops)
    if (function.op(id).kind == kind && number-- == 0) return function.op(id);
  throw std::logic_error("no such op");
}

std::string program(const std::string& stream) {
  return R"(module { func.func public @main(%w: tensor<4x8xf32>, %x: tensor<8x8xf32>)
      -> (tensor<4x8xf32>, tensor<4x8xf32>) {
    %c = stablehlo.convert %w : (tensor<4x8xf32>) -> tensor<4x8xbf16>
    %g = "stablehlo.all_gather"(%c) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>,
        mhlo.frontend_attributes = {stream_id = )" +
         stream + R"(}} : (tensor<4x8xbf16>) -> tensor<8x8xbf16>
    %f = stablehlo.convert %g : (tensor<8x8xbf16>) -> tensor<8x8xf32>
    %y = stablehlo.dot_general %x, %f, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %r = "stablehlo.reduce_scatter"(%y) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    %h = "stablehlo.all_gather"(%r) {all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
        : (tensor<4x8xf32>) -> tensor<8x8xf32>
    %z = stablehlo.dot_general %x, %h, contracting_dims = [1] x [0] : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %t = "stablehlo.reduce_scatter"(%z) ({
      ^bb0(%p: tensor<f32>, %q: tensor<f32>):
        %s = stablehlo.add %p, %q : tensor<f32>
        stablehlo.return %s : tensor<f32>
    }) {scatter_dimension = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>} : (tensor<8x8xf32>) -> tensor<4x8xf32>
    %u = stablehlo.subtract %w, %t : tensor<4x8xf32>
    return %r, %u : tensor<4x8xf32>, tensor<4x8xf32>
  }
})";
}

TEST(WeightCollectives, AreToldFromThoseOfActivations) {
  const graph::Module module = graph::parse_module(program("\"1\""), "step.mlir");
  const graph::Function& function = module.entry();
  EXPECT_EQ(weight_of(function, op_of(module, graph::OpKind::all_gather_)), "tensor<4x8xbf16>");
  EXPECT_EQ(weight_of(function, op_of(module, graph::OpKind::all_gather_, 1)), "");
  EXPECT_EQ(weight_of(function, op_of(module, graph::OpKind::reduce_scatter_)), "");
  EXPECT_EQ(weight_of(function, op_of(module, graph::OpKind::reduce_scatter_, 1)), "tensor<8x8xf32>");
  EXPECT_EQ(weight_of(function, op_of(module, graph::OpKind::convert_)), "");
}

TEST(WeightCollectives, AProgramMaySayTheStream) {
  const graph::Module module = graph::parse_module(program("\"1\""), "step.mlir");
  EXPECT_EQ(stream_of(op_of(module, graph::OpKind::all_gather_)), 1);
  EXPECT_EQ(stream_of(op_of(module, graph::OpKind::all_gather_, 1)), std::nullopt);
  for (const char* wrong : {"\"4\"", "\"tp\"", "\"\"", "1"}) {
    const graph::Module other = graph::parse_module(program(wrong), "step.mlir");
    try {
      (void)stream_of(op_of(other, graph::OpKind::all_gather_));
      ADD_FAILURE() << wrong;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "collectives.stream");
    }
  }
}

}  // namespace
}  // namespace opentrn::spmd
