#include "server/api/answer_format.h"

#include <gtest/gtest.h>

#include "base/fault.h"

namespace opentrn::server::api {
namespace {

using serving::CallForm;

AnswerFormat format_of(std::string_view chat_template, std::vector<std::string> special = {}) {
  return answer_format(chat_template, "auto", "auto", special);
}

TEST(AnswerFormat, IsWhatTheTemplateHasMarksOf) {
  const AnswerFormat plain = format_of("{{ messages }}");
  EXPECT_FALSE(plain.thoughts || plain.channels || plain.has_markers);
  EXPECT_EQ(plain.calls, CallForm::kHermes);
  const AnswerFormat qwen = format_of("{{ c.split('</think>')[-1] }}<think>\n<tool_call>{{ t }}</tool_call>");
  EXPECT_EQ(qwen.thoughts->open, "<think>");
  EXPECT_EQ(qwen.calls, CallForm::kHermes);
  EXPECT_FALSE(qwen.has_markers);
  EXPECT_EQ(format_of("<seed:think></seed:think>").thoughts->close, "</seed:think>");
  EXPECT_EQ(format_of("'Environment: ipython'").calls, CallForm::kLlama);
  EXPECT_TRUE(format_of("<|channel|>final<|message|>").channels);
  EXPECT_EQ(format_of("<tool_call>{name}<arg_key>").calls, CallForm::kGlm);
  EXPECT_EQ(format_of("<minimax:tool_call><invoke").calls, CallForm::kMiniMax);
  EXPECT_EQ(format_of("<seed:tool_call><function=").calls, CallForm::kSeed);
  EXPECT_EQ(format_of("'<｜tool▁calls▁begin｜>'").calls, CallForm::kDeepSeek);
  EXPECT_EQ(format_of("<|tool_calls_section_begin|>").calls, CallForm::kKimi);
}

TEST(AnswerFormat, AMarkThatIsASpecialTokenMustBeInTheText) {
  EXPECT_FALSE(format_of("[TOOL_CALLS]", {"<s>"}).has_markers);
  EXPECT_TRUE(format_of("[TOOL_CALLS]", {"<s>", "[TOOL_CALLS]"}).has_markers);
  EXPECT_TRUE(format_of("</think>", {"</think>"}).has_markers);
  EXPECT_TRUE(format_of("<|channel|><|message|>").has_markers);
}

TEST(AnswerFormat, NamesOfParsersGoBeforeTheTemplate) {
  const AnswerFormat named = answer_format("</think><tool_call>", "mistral", "llama3_json", {});
  EXPECT_EQ(named.thoughts->open, "[THINK]");
  EXPECT_EQ(named.calls, CallForm::kLlama);
  EXPECT_FALSE(answer_format("</think>", "none", "auto", {}).thoughts);
  EXPECT_THROW(answer_format("", "hermes", "auto", {}), Fault);
  EXPECT_THROW(answer_format("", "auto", "none", {}), Fault);
  EXPECT_EQ(to_string(named), "reasoning in [THINK], calls as llama3_json");
}

TEST(AnswerFormat, APromptMayEndInAThought) {
  const serving::ThoughtMarks marks{"<think>", "</think>"};
  EXPECT_TRUE(ends_inside("a<think>b</think>c<think>\n", marks));
  EXPECT_FALSE(ends_inside("a<think>b</think>", marks));
  EXPECT_FALSE(ends_inside("a", marks));
}

}  // namespace
}  // namespace opentrn::server::api
