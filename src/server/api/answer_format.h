// How a model's answers are read: what of them is reasoning, and what calls of tools.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serving/answer_reader.h"

namespace opentrn::server::api {

struct AnswerFormat {
  bool channels = false;                          // OpenAI's Harmony format
  std::optional<serving::ThoughtMarks> thoughts;  // where the model reasons before it answers
  serving::CallForm calls = serving::CallForm::kHermes;
  bool has_markers = false;  // special tokens are among the marks, and must be in the text
};

// For a reader: "channels", or marks of reasoning and the form of calls.
std::string to_string(const AnswerFormat& format);

// By vLLM's names of parsers; "auto" is what the chat template has marks of, "none" of reasoning leaves it in
// the answer. special: the tokenizer's special tokens. Input fault serve.settings for a name that is none.
AnswerFormat answer_format(std::string_view chat_template, std::string_view reasoning_parser,
                           std::string_view tool_call_parser, const std::vector<std::string>& special);

// Whether a prompt ends in a thought that has no end.
bool ends_inside(std::string_view prompt, const serving::ThoughtMarks& marks);

// forced: the answer is one call, by a grammar; open: it may hold some. `prompt`: the text before it.
std::unique_ptr<serving::AnswerReader> reader_of(const AnswerFormat& format, bool forced, bool open,
                                                 std::string_view prompt);

}  // namespace opentrn::server::api
