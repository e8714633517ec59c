#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "cli/run_for_test.h"
#include "import/onnx_writer_for_test.h"

namespace opentrn::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class OptCommand : public testing::Test {
 protected:
  OptCommand() : model_((folder_.path() / "model.mlir").string()) {
    std::ofstream(model_) << R"(
      func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %one = stablehlo.constant dense<1.0> : tensor<4xf32>
        %a = stablehlo.multiply %x, %one : tensor<4xf32>
        %b = stablehlo.tan %a : tensor<4xf32>
        return %b : tensor<4xf32>
      })";
  }
  Ran opt(std::vector<const char*> words) {
    words.insert(words.begin(), {"opt", model_.c_str()});
    return run_for_test(words);
  }

  TemporaryFolderForTest folder_;
  std::string model_;
};

// y = -x, x of [batch, 2].
std::string onnx_with_an_open_dimension() {
  using protozero::pbf_writer;
  constexpr int kFloat = 1;
  std::string node, graph, opset, model;
  pbf_writer n(node);
  n.add_string(1, "x");
  n.add_string(2, "y");
  n.add_string(4, "Neg");
  pbf_writer g(graph);
  g.add_message(1, node);
  g.add_string(2, "main");
  g.add_message(11, import::onnx::value_info("x", kFloat, {-1, 2}));
  g.add_message(12, import::onnx::value_info("y", kFloat, {-1, 2}));
  pbf_writer(opset).add_int64(2, 17);
  pbf_writer m(model);
  m.add_int64(1, 8);
  m.add_message(7, graph);
  m.add_message(8, opset);
  return model;
}

TEST_F(OptCommand, OpenDimensionsGetTheirSizes) {
  model_ = (folder_.path() / "model.onnx").string();
  std::ofstream(model_, std::ios::binary) << onnx_with_an_open_dimension();
  EXPECT_THAT(opt({"--dim", "batch=3"}).out, HasSubstr("tensor<3x2xf32>"));
  EXPECT_THAT(opt({}).err,
              AllOf(HasSubstr("'batch' (dimension 0 of input 'x')"), HasSubstr("--dim NAME=SIZE")));
  EXPECT_THAT(opt({"--dim", "batch=3", "--dim", "lenght=4"}).err,
              HasSubstr("'lenght' is not a dimension of the model's inputs"));
  EXPECT_THAT(opt({"--dim", "batch=3", "--dim", "batch=4"}).err, HasSubstr("'batch' has a size already"));
  for (const char* wrong : {"batch", "batch=", "batch=x", "batch=-1", "=3", "batch=1,2"})
    EXPECT_THAT(opt({"--dim", wrong}).err, HasSubstr("takes the name of a dimension and its size")) << wrong;
}

TEST_F(OptCommand, OnlyOnnxModelsHaveOpenDimensions) {
  EXPECT_THAT(opt({"--dim", "batch=3"}).err, HasSubstr("only ONNX models leave some open"));
}

TEST_F(OptCommand, RunsOnePassAlone) {
  const Ran ran = opt({"--pass", "simplify", "--pass", "remove-dead-ops"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(Not(HasSubstr("multiply")), HasSubstr("stablehlo.tan %arg0")));
}

TEST_F(OptCommand, StopsAfterAPhase) {
  EXPECT_THAT(opt({"--stop-after", "canonical"}).out,
              AllOf(HasSubstr("stablehlo.tan"), Not(HasSubstr("multiply"))));
  EXPECT_THAT(opt({"--stop-after", "expanded", "--check"}).out, Not(HasSubstr("stablehlo.tan")));
}

TEST_F(OptCommand, PrintsTheModelInBetween) {
  const Ran ran = opt({"--dump-after", "inlined", "--dump-after", "expand"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, AllOf(HasSubstr("// ----- after inlined"), HasSubstr("// ----- after expand (")));
}

TEST_F(OptCommand, SaysWhichPassChangedHowMuch) {
  const Ran ran = opt({"--counts", "--option", "optlevel=1"});
  EXPECT_THAT(ran.out,
              AllOf(HasSubstr("changes"), HasSubstr("write-constants"), Not(HasSubstr("share-equal-ops"))));
  EXPECT_THAT(opt({"--counts"}).out, HasSubstr("share-equal-ops"));
}

TEST_F(OptCommand, WritesAFileThatItReadsAgain) {
  const std::string path = (folder_.path() / "out.mlir").string();
  EXPECT_EQ(opt({"--stop-after", "typed", "-o", path.c_str()}).code, 0);
  const Ran again = run_for_test({"opt", path.c_str(), "--pass", "simplify"});
  EXPECT_EQ(again.code, 0) << again.err;
}

TEST_F(OptCommand, NamesPassesAndPhases) {
  const Ran ran = run_for_test({"opt", "--list"});
  EXPECT_EQ(ran.code, 0);
  EXPECT_THAT(ran.out, AllOf(HasSubstr("fold-constants"), HasSubstr("recognised")));
}

TEST_F(OptCommand, RefusesWhatItDoesNotKnow) {
  EXPECT_THAT(opt({"--pass", "simplfy"}).err, HasSubstr("[compiler.pass]"));
  EXPECT_THAT(opt({"--dump-after", "nothing"}).err, HasSubstr("[compiler.pass]"));
  EXPECT_THAT(opt({"--stop-after", "done"}).err, HasSubstr("[compiler.phase]"));
  EXPECT_THAT(opt({"--option", "optlevel"}).err, HasSubstr("there is no '='"));
  EXPECT_THAT(opt({"--option", "optlevel=9"}).err, HasSubstr("[compiler.option]"));
  EXPECT_EQ(opt({"-o", "/nowhere/x.mlir"}).code, 2);
  EXPECT_EQ(run_for_test({"opt"}).code, 2);
  EXPECT_EQ(run_for_test({"opt", "/nowhere.mlir"}).code, 2);
}

}  // namespace
}  // namespace opentrn::cli
