#include "serving/answer_reader.h"

#include <functional>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace opentrn::serving {
namespace {

using testing::ElementsAre;
using Kind = AnswerPart::Kind;

// All parts, with neighbours of one kind joined.
void join(AnswerParts& into, const AnswerParts& parts) {
  for (const AnswerPart& part : parts)
    if (!into.empty() && part.kind != Kind::kCall && into.back().kind == part.kind)
      into.back().text += part.text;
    else
      into.push_back(part);
}

// What a reader makes of a text that comes in pieces of random sizes.
AnswerParts read(const std::unique_ptr<AnswerReader>& reader, std::string_view text, unsigned seed) {
  std::mt19937 random(seed);
  AnswerParts parts;
  while (!text.empty()) {
    const size_t count = std::min<size_t>(text.size(), 1 + random() % 9);
    join(parts, reader->add(text.substr(0, count)));
    text.remove_prefix(count);
  }
  join(parts, reader->rest());
  return parts;
}

TEST(MarkedCallReader, FindsCallsWhereverTheTextIsCut) {
  const std::string call = R"({"name": "f", "arguments": {"a": [1, "<"]}})";
  const std::string text =
      "So <be> it<tool_call>\n" + call + "\n</tool_call>\n<tool_call>no call</tool_call>end";
  for (unsigned seed = 0; seed < 200; ++seed)
    EXPECT_THAT(read(reader_of_calls(CallForm::kHermes), text, seed),
                ElementsAre(AnswerPart{Kind::kText, "So <be> it", ""}, AnswerPart{Kind::kCall, call, ""},
                            AnswerPart{Kind::kText, "<tool_call>no call</tool_call>end", ""}))
        << seed;
}

TEST(OneCallReader, AForcedAnswerIsOneCall) {
  const std::string call = R"({"name": "f"})";
  EXPECT_THAT(read(std::make_unique<OneCallReader>(), call, 1),
              ElementsAre(AnswerPart{Kind::kCall, call, ""}));
  EXPECT_TRUE(read(std::make_unique<OneCallReader>(), "{}", 1).empty());
}

TEST(TextReader, WithoutToolsEverythingIsText) {
  EXPECT_THAT(read(std::make_unique<TextReader>(), "<tool_call>{}", 1),
              ElementsAre(AnswerPart{Kind::kText, "<tool_call>{}", ""}));
}

TEST(MarkedCallReader, ACallThatWasCutOffIsOne) {
  EXPECT_THAT(read(reader_of_calls(CallForm::kHermes), "<tool_call> {\"name\": \"g\"}", 1),
              ElementsAre(AnswerPart{Kind::kCall, "{\"name\": \"g\"}", ""}));
  EXPECT_THAT(read(reader_of_calls(CallForm::kHermes), "a <tool_c", 1),
              ElementsAre(AnswerPart{Kind::kText, "a <tool_c", ""}));
}

TEST(HarmonyReader, TellsThoughtsCallsAndTextWhereverTheTextIsCut) {
  const std::string text =
      "<|channel|>analysis<|message|>think < hard<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.look "
      "<|constrain|>json<|message|>{\"a\": "
      "1}<|call|><|start|>assistant<|channel|>final<|message|>done<|return|>";
  for (unsigned seed = 0; seed < 200; ++seed)
    EXPECT_THAT(
        read(std::make_unique<HarmonyReader>(), text, seed),
        ElementsAre(AnswerPart{Kind::kThought, "think < hard", ""},
                    AnswerPart{Kind::kCall, "{\"a\": 1}", "look"}, AnswerPart{Kind::kText, "done", ""}))
        << seed;
}

TEST(HarmonyReader, AnAnswerInNoChannelIsText) {
  EXPECT_THAT(read(std::make_unique<HarmonyReader>(), "{\"a\": 1}", 2),
              ElementsAre(AnswerPart{Kind::kText, "{\"a\": 1}", ""}));
}

TEST(MarkedCallReader, SpacesBeforeACallAreNoTextWhereverItIsCut) {
  const std::string call = R"({"name": "f", "arguments": {}})";
  for (unsigned seed = 0; seed < 50; ++seed) {
    EXPECT_THAT(read(reader_of_calls(CallForm::kHermes), "one \n\n<tool_call>" + call, seed),
                ElementsAre(AnswerPart{Kind::kText, "one", ""}, AnswerPart{Kind::kCall, call, ""}));
    EXPECT_THAT(read(reader_of_calls(CallForm::kHermes), "\n<tool_call>" + call + "</tool_call>\n", seed),
                ElementsAre(AnswerPart{Kind::kCall, call, ""}));
    EXPECT_THAT(read(reader_of_calls(CallForm::kHermes), "one \n", seed),
                ElementsAre(AnswerPart{Kind::kText, "one \n", ""}));
  }
}

TEST(LlamaReader, AnAnswerThatBeginsWithAnObjectIsCalls) {
  const std::string first = R"({"name": "f", "parameters": {"a": "}{\"", "b": [1, {}]}})";
  const std::string second = R"({"name": "g", "arguments": {}})";
  for (unsigned seed = 0; seed < 50; ++seed) {
    for (const char* head : {"", "<|python_tag|>", " \n<|python_tag|>"})
      EXPECT_THAT(read(reader_of_calls(CallForm::kLlama), head + first + "; " + second, seed),
                  ElementsAre(AnswerPart{Kind::kCall, first, ""}, AnswerPart{Kind::kCall, second, ""}));
    for (const char* text : {"I say {\"name\": \"f\", \"parameters\": {}}", "{\"a\": 1} ends",
                             "{\"name\": \"f\"", "<|py", "{{", "{\"name\": 1, \"parameters\": {}}"})
      EXPECT_THAT(read(reader_of_calls(CallForm::kLlama), text, seed),
                  ElementsAre(AnswerPart{Kind::kText, text, ""}));
  }
  EXPECT_THAT(read(reader_of_calls(CallForm::kLlama), second + " and a text", 3),
              ElementsAre(AnswerPart{Kind::kCall, second, ""}, AnswerPart{Kind::kText, " and a text", ""}));
}

TEST(MistralReader, CallsAreAListOrNames) {
  const std::string one = R"({"name": "f", "arguments": {"a": "]"}})",
                    two = R"({"name": "g", "arguments": {}})";
  for (unsigned seed = 0; seed < 50; ++seed) {
    EXPECT_THAT(
        read(reader_of_calls(CallForm::kMistral), "Wait. [TOOL_CALLS] [" + one + ", " + two + "]", seed),
        ElementsAre(AnswerPart{Kind::kText, "Wait.", ""}, AnswerPart{Kind::kCall, one, ""},
                    AnswerPart{Kind::kCall, two, ""}));
    EXPECT_THAT(read(reader_of_calls(CallForm::kMistral),
                     R"([TOOL_CALLS]f{"a": 1}[TOOL_CALLS]g[ARGS]{"b": [2]})", seed),
                ElementsAre(AnswerPart{Kind::kCall, R"({"a": 1})", "f"},
                            AnswerPart{Kind::kCall, R"({"b": [2]})", "g"}));
    for (const char* text :
         {"a [TOOL] b", "[TOOL_CALLS][{\"name\": 1}]", "[TOOL_CALLS]f[AR", "[TOOL_CALLS]", "[TOOL_CALLS]{}"})
      EXPECT_THAT(read(reader_of_calls(CallForm::kMistral), text, seed),
                  ElementsAre(AnswerPart{Kind::kText, text, ""}));
  }
}

std::unique_ptr<AnswerReader> thinking(bool inside) {
  return std::make_unique<ThoughtReader>(ThoughtMarks{"<think>", "</think>"}, inside,
                                         reader_of_calls(CallForm::kHermes));
}

TEST(ThoughtReader, WhatIsBetweenTheMarksIsReasoning) {
  const std::string call = R"({"name": "f", "arguments": {}})";
  for (unsigned seed = 0; seed < 50; ++seed) {
    EXPECT_THAT(
        read(thinking(false), "\n<think>a < b </thin</think>so<tool_call>" + call + "</tool_call>", seed),
        ElementsAre(AnswerPart{Kind::kThought, "a < b </thin", ""}, AnswerPart{Kind::kText, "so", ""},
                    AnswerPart{Kind::kCall, call, ""}));
    EXPECT_THAT(read(thinking(true), "a</think>b", seed),
                ElementsAre(AnswerPart{Kind::kThought, "a", ""}, AnswerPart{Kind::kText, "b", ""}));
    EXPECT_THAT(read(thinking(true), "a </th", seed), ElementsAre(AnswerPart{Kind::kThought, "a </th", ""}));
    EXPECT_THAT(read(thinking(false), "no <think>thought</think>", seed),
                ElementsAre(AnswerPart{Kind::kText, "no <think>thought</think>", ""}));
    EXPECT_THAT(read(thinking(false), "<thi", seed), ElementsAre(AnswerPart{Kind::kText, "<thi", ""}));
  }
}

TEST(MarkedCallReader, ArgumentsMayStandBetweenTags) {
  const AnswerPart call{Kind::kCall, "", "f", {{"a", "one\ntwo"}, {"b", "3"}}};
  const AnswerPart none{Kind::kCall, "", "g", {}};
  for (unsigned seed = 0; seed < 50; ++seed) {
    EXPECT_THAT(
        read(reader_of_calls(CallForm::kHermes),
             "So.\n<tool_call>\n<function=f>\n<parameter=a>\none\ntwo\n</parameter>\n<parameter=b>\n3\n"
             "</parameter>\n</function>\n</tool_call>",
             seed),
        ElementsAre(AnswerPart{Kind::kText, "So.", ""}, call));
    EXPECT_THAT(
        read(reader_of_calls(CallForm::kSeed),
             "<seed:tool_call>\n<function=f>\n<parameter=a>one\ntwo</parameter>\n<parameter=b>3</parameter>\n"
             "</function>\n</seed:tool_call>",
             seed),
        ElementsAre(call));
    EXPECT_THAT(read(reader_of_calls(CallForm::kMiniMax),
                     "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"a\">one\ntwo</parameter>\n"
                     "<parameter name=\"b\">3</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n"
                     "</minimax:tool_call>",
                     seed),
                ElementsAre(call, none));
    EXPECT_THAT(
        read(reader_of_calls(CallForm::kGlm),
             "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>one\ntwo</arg_value>\n<arg_key>b</arg_key>\n"
             "<arg_value>3</arg_value>\n</tool_call><tool_call>g</tool_call>",
             seed),
        ElementsAre(call, none));
    for (const char* text : {"<tool_call>g</tool_call>", "<tool_call><function=f g></function></tool_call>"})
      EXPECT_THAT(read(reader_of_calls(CallForm::kHermes), text, seed),
                  ElementsAre(AnswerPart{Kind::kText, text, ""}));
  }
}

TEST(MarkedCallReader, CallsMayStandBetweenTokensOfTheirOwn) {
  const AnswerPart f{Kind::kCall, R"({"a": "<|"})", "f"}, g{Kind::kCall, "{}", "g"};
  for (unsigned seed = 0; seed < 50; ++seed) {
    EXPECT_THAT(read(reader_of_calls(CallForm::kDeepSeek),
                     "So.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"a\":"
                     " \"<|\"}\n```"
                     "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>g<｜tool▁sep｜>{}<｜tool▁call▁end｜><"
                     "｜tool▁calls▁end｜>",
                     seed),
                ElementsAre(AnswerPart{Kind::kText, "So.", ""}, f, g));
    EXPECT_THAT(
        read(reader_of_calls(CallForm::kKimi),
             "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
             "{\"a\": \"<|\"}<|tool_call_end|><|tool_call_begin|>functions.g:1<|tool_call_argument_begin|>{}"
             "<|tool_call_end|><|tool_calls_section_end|>",
             seed),
        ElementsAre(f, g));
    const char* none =
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{<｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    EXPECT_THAT(read(reader_of_calls(CallForm::kDeepSeek), none, seed),
                ElementsAre(AnswerPart{Kind::kText, none, ""}));
  }
}

// Texts of marks and their pieces in any order: where a text is cut changes nothing of what is read, and of
// text that is no mark nothing is lost.
TEST(AnswerReaders, ReadTheSameWhereverATextIsCut) {
  const std::vector<std::string> pieces = {"<tool_call>",
                                           "</tool_call>",
                                           "<tool_",
                                           "[TOOL_CALLS]",
                                           "[TOOL",
                                           "[ARGS]",
                                           "<|python_tag|>",
                                           "<|py",
                                           "<think>",
                                           "</think>",
                                           "</thi",
                                           "{\"name\": \"f\", \"arguments\": {}}",
                                           "{\"name\": \"g\", \"parameters\": {\"a\": [1]}}",
                                           "{",
                                           "}",
                                           "[",
                                           "]",
                                           "\"",
                                           "\\",
                                           ";",
                                           ", ",
                                           " ",
                                           "\n",
                                           "f",
                                           "word",
                                           "{\"a\": \"}\"}"};
  const std::vector<std::function<std::unique_ptr<AnswerReader>()>> readers = {
      [] { return reader_of_calls(CallForm::kHermes); },
      [] { return reader_of_calls(CallForm::kLlama); },
      [] { return reader_of_calls(CallForm::kMistral); },
      [] { return reader_of_calls(CallForm::kGlm); },
      [] { return reader_of_calls(CallForm::kKimi); },
      [] { return thinking(false); },
      [] { return thinking(true); },
      [] { return std::make_unique<HarmonyReader>(); },
  };
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {
    std::string text;
    for (size_t count = random() % 9; count > 0; --count) text += pieces[random() % pieces.size()];
    for (size_t r = 0; r < readers.size(); ++r) {
      const AnswerParts whole = read(readers[r](), text, 1);
      for (unsigned seed = 2; seed < 5; ++seed)
        ASSERT_EQ(read(readers[r](), text, seed), whole) << "reader " << r << " of " << text;
    }
  }
}

}  // namespace
}  // namespace opentrn::serving
