#include "spmd/run/torch_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::spmd {
namespace {

using testing::ElementsAre;
using Kind = TorchNode::Kind;

// A graph that is built node by node; its order is told by names.
class Graph {
 public:
  size_t add(std::string name, std::string op, std::vector<size_t> inputs, Kind kind = Kind::kCall) {
    names_.push_back(std::move(name));
    nodes_.push_back({kind, std::move(op), std::move(inputs), "[8, 8]"});
    return nodes_.size() - 1;
  }
  size_t argument(std::string name) { return add(std::move(name), "", {}, Kind::kArgument); }
  // Of the calls alone.
  std::vector<std::string> ordered(size_t early, size_t late) const {
    std::vector<std::string> found;
    for (const size_t node : order_of_layers(nodes_, {early, late}))
      if (nodes_[node].kind == Kind::kCall) found.push_back(names_[node]);
    return found;
  }

 private:
  std::vector<TorchNode> nodes_;
  std::vector<std::string> names_;
};

constexpr const char* kGather = "_c10d_functional::all_gather_into_tensor";
constexpr const char* kScatter = "_c10d_functional::reduce_scatter_tensor";
constexpr const char* kWait = "_c10d_functional::wait_tensor";

// x through layers of one weight each, which is rounded and gathered before its product.
Graph forward(size_t layers) {
  Graph graph;
  size_t x = graph.argument("x");
  std::vector<size_t> parts;
  for (size_t i = 0; i < layers; ++i) parts.push_back(graph.argument("w"));
  for (size_t i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    const size_t narrow = graph.add("narrow" + n, "aten::_to_copy", {parts[i]});
    const size_t wait = graph.add("wait" + n, kWait, {graph.add("gather" + n, kGather, {narrow})});
    x = graph.add("product" + n, "aten::mm", {x, wait});
  }
  graph.add("", "", {x}, Kind::kResult);
  return graph;
}

// A gradient through layers, each of which scatters that of its weight and halves the part.
Graph backward(size_t layers) {
  Graph graph;
  size_t gradient = graph.argument("gradient");
  std::vector<size_t> results;
  for (size_t i = 0; i < layers; ++i) {
    const std::string n = std::to_string(i);
    const size_t product = graph.add("product" + n, "aten::mm", {gradient});
    const size_t wait = graph.add("wait" + n, kWait, {graph.add("scatter" + n, kScatter, {product})});
    results.push_back(graph.add("half" + n, "aten::mul", {wait}));
    gradient = graph.add("next" + n, "aten::tanh", {gradient});
  }
  graph.add("", "", results, Kind::kResult);
  return graph;
}

TEST(TorchLayers, NothingMovesByNoLayer) {
  EXPECT_THAT(forward(2).ordered(0, 0), ElementsAre("narrow0", "gather0", "wait0", "product0", "narrow1",
                                                    "gather1", "wait1", "product1"));
  EXPECT_THAT(backward(2).ordered(0, 0), ElementsAre("product0", "scatter0", "wait0", "half0", "next0",
                                                     "product1", "scatter1", "wait1", "half1", "next1"));
}

TEST(TorchLayers, AGatherGoesBeforeTheWaitOfTheLayerBefore) {
  EXPECT_THAT(forward(3).ordered(1, 0),
              ElementsAre("narrow0", "gather0", "narrow1", "gather1", "wait0", "product0", "narrow2",
                          "gather2", "wait1", "product1", "wait2", "product2"));
}

TEST(TorchLayers, GathersOfTheFirstLayersGoToTheStart) {
  EXPECT_THAT(forward(3).ordered(2, 0),
              ElementsAre("narrow0", "gather0", "narrow1", "gather1", "narrow2", "gather2", "wait0",
                          "product0", "wait1", "product1", "wait2", "product2"));
}

TEST(TorchLayers, AScatterGoesBehindTheNextGradientWithItsReaders) {
  EXPECT_THAT(backward(2).ordered(0, 1), ElementsAre("product0", "next0", "product1", "scatter0", "wait0",
                                                     "half0", "scatter1", "wait1", "half1", "next1"));
}

TEST(TorchLayers, CollectivesOfActivationsStay) {
  Graph graph;
  const size_t x = graph.argument("x"), weight = graph.argument("weight");
  const size_t wait =
      graph.add("wait", kWait, {graph.add("gather", kGather, {graph.add("hidden", "aten::tanh", {x})})});
  const size_t part = graph.add("scatter", kScatter, {graph.add("product", "aten::mm", {wait, weight})});
  graph.add("last", "aten::mm", {graph.add("again", kWait, {part}), weight});
  EXPECT_THAT(graph.ordered(1, 2),
              ElementsAre("hidden", "gather", "wait", "product", "scatter", "again", "last"));
}

}  // namespace
}  // namespace opentrn::spmd
