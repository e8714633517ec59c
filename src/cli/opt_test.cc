#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "cli/run_for_test.h"

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
