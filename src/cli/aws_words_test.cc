#include "cli/aws_words.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include <nlohmann/json.hpp>

#include "base/fault.h"

namespace opentrn::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<std::string>;

std::string refusal(const std::function<void()>& refused) {
  try {
    refused();
  } catch (const Fault& fault) {
    return fault.what();
  }
  return "nothing was refused";
}

std::string refused(const Words& words) {
  return refusal([&] { (void)neuronx_cc(words); });
}

TEST(NeuronxCcWords, ACommandLineOfAwsIsRead) {
  const NeuronxCc made =
      neuronx_cc(Words{"compile", "--framework", "xla", "m.pb", "--pipeline", "compile", "SaveTemps",
                       "--target", "trn2", "--output=a=b", "-lnc=2", "-O1", "--auto-cast", "all",
                       "--verbose=35", "\u2014model-type", "generic", "---logfile", "l"});
  EXPECT_EQ(made.command, "compile");
  EXPECT_EQ(made.model, "m.pb");
  EXPECT_EQ(made.target, "trn2");
  EXPECT_EQ(made.output, "a=b");
  EXPECT_EQ(made.logfile, "l");
  EXPECT_EQ(made.level, 35);
  EXPECT_THAT(made.flags,
              ElementsAre("--lnc=2", "--optlevel=1", "--auto-cast", "all", "--model-type", "generic"));
  EXPECT_THAT(neuronx_cc(Words{"compile", "m", "--target", "trn1", "-O", "3", "-O=2"}).flags,
              ElementsAre("--optlevel", "3", "--optlevel=2"));
}

TEST(NeuronxCcWords, OtherCommands) {
  for (const Words& words : {Words{}, Words{"-h"}, Words{"help"}, Words{"compile", "x", "--help"}})
    EXPECT_EQ(neuronx_cc(words).command, "help");
  EXPECT_EQ(neuronx_cc(Words{"--version"}).command, "--version");
  EXPECT_EQ(neuronx_cc(Words{"list-operators", "--framework", "xla"}).command, "list-operators");
  EXPECT_EQ(neuronx_cc(Words{"list-operators", "--framework=XLA"}).command, "list-operators");
  EXPECT_THAT(refused({"list-operators"}), HasSubstr("--framework"));
  EXPECT_THAT(refused({"list-operators", "--framework", "TF"}), HasSubstr("there is XLA"));
  EXPECT_THAT(refused({"bake"}), HasSubstr("'bake' is not a command"));
}

TEST(NeuronxCcWords, WhatIsNoneIsRefusedByName) {
  EXPECT_THAT(refused({"compile"}), HasSubstr("no model"));
  EXPECT_THAT(refused({"compile", "x"}), HasSubstr("no --target"));
  EXPECT_THAT(refused({"compile", "x", "y"}), HasSubstr("two models, x and y"));
  EXPECT_THAT(refused({"compile", "x", "--target"}), HasSubstr("--target has no value"));
  EXPECT_THAT(refused({"compile", "x", "--framework", "MXNET"}), HasSubstr("there is XLA"));
  EXPECT_THAT(refused({"compile", "x", "--lnc"}), HasSubstr("--lnc has no value"));
  EXPECT_THAT(refused({"compile", "x", "--lnc", "3"}), HasSubstr("--lnc 3: it is one of 1, 2"));
  EXPECT_THAT(refused({"compile", "x", "--pipeline", "tensorize"}), HasSubstr("--pipeline tensorize"));
  for (const char* level : {"loud", "101", "-1", "99999999999", ""})
    EXPECT_THAT(refused({"compile", "x", "--verbose", level}), HasSubstr("it is one of debug, info"))
        << level;
}

TEST(ParallelCompileWords, OptionsStandBeforeTheProgram) {
  const ParallelCompile made = parallel_compile(Words{"--command=analyze", "--analyze-output", "out",
                                                      "--analyze-verbosity", "1", "sh", "--command", "x"});
  EXPECT_EQ(made.command, "analyze");
  EXPECT_EQ(made.output, "out");
  EXPECT_EQ(made.verbosity, 1);
  EXPECT_THAT(made.program, ElementsAre("sh", "--command", "x"));
  EXPECT_EQ(parallel_compile(Words{"--command", "compile"}).command, "compile");
  EXPECT_EQ(parallel_compile(Words{}).command, "help");
}

TEST(ParallelCompileWords, WhatIsNoneIsRefusedByName) {
  const std::pair<Words, const char*> wrong[] = {{{"--command", "bake", "true"}, "--command 'bake'"},
                                                 {{"--command"}, "takes a value"},
                                                 {{"--command", "collect"}, "no program is named"},
                                                 {{"--jobs", "2", "true"}, "'--jobs' is not an option"},
                                                 {{"--analyze-verbosity", "3"}, "1 or 2"},
                                                 {{"--analyze-output", "x", "true"}, "of --command analyze"}};
  for (const auto& [words, message] : wrong)
    EXPECT_THAT(refusal([&] { (void)parallel_compile(words); }), HasSubstr(message));
  for (const char* text : {"-1", "101", "x", "99999999999999999999"})
    EXPECT_THAT(refusal([&] { (void)parallel_compile_retries(text); }), HasSubstr("a number from 0 to 100"))
        << text;
  EXPECT_EQ(parallel_compile_retries(""), 0);
  EXPECT_EQ(parallel_compile_retries("7"), 7);
}

TEST(ParallelCompileWords, ALongWordIsCutAtACharacter) {
  std::string word = "-";
  for (int i = 0; i < 30; ++i) word += "\u00e9";
  const std::string text = refusal([&] { (void)parallel_compile(Words{word}); });
  EXPECT_THAT(text, HasSubstr("\u00e9' is not an option"));
}

TEST(ParallelReports, GraphsAreCounted) {
  const CompiledGraph graphs[] = {{"a", "", 0}, {"b", "no kernel", 2}};
  const ParallelSummary made = parallel_summary(graphs);
  const auto json = nlohmann::json::parse(made.json);
  EXPECT_EQ(json["compilation_summary"], (nlohmann::json{{"true", 1}, {"false", 1}}));
  EXPECT_EQ(json["compilation_report"]["b"], (nlohmann::json{{"status", false}, {"retry", 2}}));
  EXPECT_THAT(made.failures, ElementsAre("b: no kernel"));
  EXPECT_THAT(made.totals, ElementsAre("Total graphs: 2", "Total successful compilations: 1",
                                       "Total failed compilations: 1"));
  EXPECT_TRUE(nlohmann::json::parse(parallel_summary({}).json)["compilation_report"].is_object());
}

TEST(ParallelReports, OpsOfGraphsAreAnalysed) {
  const std::string rows =
      R"([{"op": "sort", "count": 2, "unsupported": 1, "emulated": 0, "example": "x", "file": "f", "line": 3, "name": ""},
          {"op": "add", "count": 1, "unsupported": 0, "emulated": 0, "example": "x", "file": "f", "line": 4, "name": ""}])";
  const AnalysedGraph graphs[] = {{"a", rows, ""}, {"b", "", "damaged"}};
  const ParallelAnalysis made = parallel_analysis(graphs, 1);
  EXPECT_THAT(made.unsupported, ElementsAre("sort"));
  EXPECT_FALSE(made.complete);
  const auto json = nlohmann::json::parse(made.json);
  EXPECT_EQ(json["graphs"]["b"], (nlohmann::json{{"error", "damaged"}}));
  EXPECT_EQ(json["graphs"]["a"]["operations"][1],
            (nlohmann::json{{"op", "add"}, {"count", 1}, {"unsupported", 0}, {"emulated", 0}}));
  EXPECT_TRUE(
      nlohmann::json::parse(parallel_analysis(graphs, 2).json)["graphs"]["a"]["operations"][0].contains(
          "line"));
  EXPECT_TRUE(parallel_analysis({}, 2).complete);
}

}  // namespace
}  // namespace opentrn::cli
