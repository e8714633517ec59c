#include "spmd/annotations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/text/text.h"

namespace opentrn::spmd {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(Annotations, AMeshIsAxesWithNumbers) {
  const Mesh mesh = parse_mesh("dp=2, tp=4");
  ASSERT_EQ(mesh.axes.size(), 2U);
  EXPECT_EQ(mesh.axes[0].name, "dp");
  EXPECT_EQ(mesh.axes[1].size, 4);
  EXPECT_EQ(mesh.coordinate(6, "dp"), 1);
  for (const char* text :
       {"", "tp", "tp=", "tp=0", "tp=-2", "tp=4x", "=4", "tp=2,tp=2", "tp=2,,dp=2", "a+b=2", "a=1048576,b=2"})
    EXPECT_THROW(parse_mesh(text), Fault) << text;
}

TEST(Annotations, AShardingHasAxesByDimension) {
  const Annotation made = parse_annotation("a/b=1.w=-, dp+tp");
  EXPECT_EQ(made.pattern, "a/b=1.w");
  EXPECT_THAT(made.dims, ElementsAre(ElementsAre(), ElementsAre("dp", "tp")));
  EXPECT_TRUE(parse_annotation("x=").dims.empty());
  for (const char* text : {"x", "=tp", "x=,tp", "x=tp+", "x=tp,"})
    EXPECT_THROW(parse_annotation(text), Fault) << text;
}

class StatedBy : public testing::Test {
 protected:
  Stated stated(std::vector<std::string> texts) {
    std::vector<Annotation> annotations;
    for (const std::string& text : texts) annotations.push_back(parse_annotation(text));
    return stated_by(annotations, module_, module_.entry(), grid_);
  }
  Fault fault(std::vector<std::string> texts) {
    try {
      stated(std::move(texts));
    } catch (const Fault& fault) {
      return fault;
    }
    ADD_FAILURE() << "no fault";
    return {FaultKind::kInternal, "", ""};
  }

  const AxisGrid grid_{parse_mesh("dp=2,tp=4")};
  const graph::Module module_ = graph::parse_module(R"(module {
  func.func public @main(%x: tensor<4x8xf32> {onnx.name = "tokens"}, %y: tensor<8xf32>) -> tensor<4x8xf32> {
    %w = stablehlo.constant dense<[1., 2., 3., 4., 5., 6., 7., 8.]> : tensor<8xf32> loc("layer.0.bias")
    %0 = stablehlo.broadcast_in_dim %w, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
    %1 = stablehlo.add %x, %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  } })",
                                                    "named");
};

TEST_F(StatedBy, NamesAreThoseOfInputsResultsAndWeights) {
  const graph::Function& main = module_.entry();
  const Stated made = stated({"*=", "tokens=dp,-", "layer.?.bias=tp", "output0=-,tp"});
  // Two of the grid's axes make "tp".
  EXPECT_THAT(made.values.at(main.arguments()[0]), ElementsAre(ElementsAre(0), ElementsAre()));
  EXPECT_THAT(made.values.at(main.arguments()[1]), ElementsAre(ElementsAre()));
  EXPECT_THAT(made.values.at(main.op(main.block(main.body()).ops[0]).results[0]),
              ElementsAre(ElementsAre(1, 2)));
  ASSERT_TRUE(made.results[0]);
  EXPECT_THAT(*made.results[0], ElementsAre(ElementsAre(), ElementsAre(1, 2)));
}

TEST_F(StatedBy, FaultsSayWhatThereIs) {
  EXPECT_THAT(fault({"token=dp"}).hint(), HasSubstr("did you mean 'tokens'?"));
  EXPECT_THAT(fault({"zzzzzzzzzz=dp"}).hint(), HasSubstr("tokens, input1, output0, layer.0.bias"));
  EXPECT_THAT(fault({"tokens=tpp"}).hint(), HasSubstr("did you mean 'tp'?"));
  EXPECT_THAT(fault({"layer.0.bias=-,tp"}).message(),
              HasSubstr("is tensor<8xf32>: its sharding names 2 dimensions"));
  EXPECT_EQ(fault({"tokens=tp,tp"}).label(), "spmd.axis_twice");
}

}  // namespace
}  // namespace opentrn::spmd
