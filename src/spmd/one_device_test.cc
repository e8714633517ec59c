#include "spmd/one_device.h"

#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/text/text.h"

namespace opentrn::spmd {
namespace {

using Groups = std::vector<std::vector<int64_t>>;

graph::Module parsed(const std::string& body, const std::string& mesh = "") {
  return graph::parse_module(
      "module {" + mesh + R"( func.func @main(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {)" + body + "} }",
      "test");
}

constexpr const char* kSum = R"(
    %s = "stablehlo.all_reduce"(%x) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
      replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.add %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32> }) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    return %s : tensor<4x2xf32>)";

TEST(OneDevice, GroupsAreThoseAlongTheAxesThatTheMembersDifferIn) {
  const Mesh mesh = parse_mesh("dp=2,tp=4");
  const auto groups = [&](const std::vector<int64_t>& devices) { return groups_with(mesh, devices); };
  EXPECT_EQ(groups({0, 1, 2, 3}), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  EXPECT_EQ(groups({1, 5}), (Groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  EXPECT_EQ(groups({0, 1, 2, 3, 4, 5, 6, 7}), (Groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
  EXPECT_EQ(groups({2, 3}), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));  // half of tp
  EXPECT_EQ(groups_with(parse_mesh("x=1"), std::vector<int64_t>{0}), (Groups{{0}}));
  for (const auto& none : {std::vector<int64_t>{1, 0}, {0, 1, 2}, {0, 5}, {0, 3}, {0, 8}, {}})
    EXPECT_THROW(groups(none), Fault);
}

TEST(OneDevice, CollectivesOutsideOfManualComputationsMakeAProgramOne) {
  EXPECT_TRUE(is_of_one_device(parsed(kSum).entry()));
  EXPECT_FALSE(is_of_one_device(parsed("return %x : tensor<4x2xf32>").entry()));
  const std::string manual = R"(
    %m = sdy.manual_computation(%x) in_shardings=[<@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>]
        manual_axes={"x"} (%y: tensor<4x2xf32>) {
      %s = "stablehlo.all_gather"(%y) <{all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> :
        tensor<1x1xi64>}> : (tensor<4x2xf32>) -> tensor<4x2xf32>
      sdy.return %s : tensor<4x2xf32>
    } : (tensor<4x2xf32>) -> tensor<4x2xf32>
    return %m : tensor<4x2xf32>)";
  EXPECT_FALSE(is_of_one_device(parsed(manual, R"( sdy.mesh @mesh = <["x"=1]> )").entry()));
}

TEST(OneDevice, ItIsTakenAsItStands) {
  const graph::Module module = parsed(kSum);
  const AxisGrid grid(parse_mesh("r=2"));
  const std::vector<Annotation> words = {parse_annotation("input0=r"), parse_annotation("output0=-,r")};
  const SpmdModule made =
      of_one_device(module, module.entry(), grid, stated_by(words, module, module.entry(), grid));
  const graph::Function& local = made.module.entry();
  EXPECT_EQ(local.type(local.arguments()[0]).to_string(), "tensor<4x2xf32>");
  EXPECT_EQ(whole_of(local.type(local.arguments()[0]), made.inputs[0]).to_string(), "tensor<8x2xf32>");
  EXPECT_EQ(whole_of(local.type(local.returned()[0]), made.outputs[0]).to_string(), "tensor<4x4xf32>");
}

TEST(OneDevice, AMeshOfFewerDevicesThanItsGroupsIsRefused) {
  const graph::Module module = parsed(kSum);
  const AxisGrid grid(parse_mesh("r=1"));
  EXPECT_THROW(of_one_device(module, module.entry(), grid, stated_by({}, module, module.entry(), grid)),
               Fault);
}

}  // namespace
}  // namespace opentrn::spmd
