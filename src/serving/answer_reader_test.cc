#include "serving/answer_reader.h"

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
template <typename Reader>
AnswerParts read(Reader reader, std::string_view text, unsigned seed) {
  std::mt19937 random(seed);
  AnswerParts parts;
  while (!text.empty()) {
    const size_t count = std::min<size_t>(text.size(), 1 + random() % 9);
    join(parts, reader.add(text.substr(0, count)));
    text.remove_prefix(count);
  }
  join(parts, reader.rest());
  return parts;
}

TEST(ToolReader, FindsCallsWhereverTheTextIsCut) {
  const std::string call = R"({"name": "f", "arguments": {"a": [1, "<"]}})";
  const std::string text =
      "So <be> it<tool_call>\n" + call + "\n</tool_call>\n<tool_call>no call</tool_call>end";
  for (unsigned seed = 0; seed < 200; ++seed)
    EXPECT_THAT(read(ToolReader(false, true), text, seed),
                ElementsAre(AnswerPart{Kind::kText, "So <be> it", ""}, AnswerPart{Kind::kCall, call, ""},
                            AnswerPart{Kind::kText, "<tool_call>no call</tool_call>end", ""}))
        << seed;
}

TEST(ToolReader, AForcedAnswerIsOneCall) {
  const std::string call = R"({"name": "f"})";
  EXPECT_THAT(read(ToolReader(true, false), call, 1), ElementsAre(AnswerPart{Kind::kCall, call, ""}));
  EXPECT_TRUE(read(ToolReader(true, false), "{}", 1).empty());
}

TEST(ToolReader, WithoutToolsEverythingIsText) {
  EXPECT_THAT(read(ToolReader(false, false), "<tool_call>{}", 1),
              ElementsAre(AnswerPart{Kind::kText, "<tool_call>{}", ""}));
}

TEST(ToolReader, ACallThatWasCutOffIsOne) {
  EXPECT_THAT(read(ToolReader(false, true), "<tool_call> {\"name\": \"g\"}", 1),
              ElementsAre(AnswerPart{Kind::kCall, "{\"name\": \"g\"}", ""}));
  EXPECT_THAT(read(ToolReader(false, true), "a <tool_c", 1),
              ElementsAre(AnswerPart{Kind::kText, "a <tool_c", ""}));
}

TEST(HarmonyReader, TellsThoughtsCallsAndTextWhereverTheTextIsCut) {
  const std::string text =
      "<|channel|>analysis<|message|>think < hard<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.look "
      "<|constrain|>json<|message|>{\"a\": "
      "1}<|call|><|start|>assistant<|channel|>final<|message|>done<|return|>";
  for (unsigned seed = 0; seed < 200; ++seed)
    EXPECT_THAT(read(HarmonyReader(), text, seed), ElementsAre(AnswerPart{Kind::kThought, "think < hard", ""},
                                                               AnswerPart{Kind::kCall, "{\"a\": 1}", "look"},
                                                               AnswerPart{Kind::kText, "done", ""}))
        << seed;
}

TEST(HarmonyReader, AnAnswerInNoChannelIsText) {
  EXPECT_THAT(read(HarmonyReader(), "{\"a\": 1}", 2), ElementsAre(AnswerPart{Kind::kText, "{\"a\": 1}", ""}));
}

}  // namespace
}  // namespace opentrn::serving
