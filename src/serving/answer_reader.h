// What of an answer is text for the user, what a thought, and what a call of a tool, as its text comes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace opentrn::serving {

struct AnswerPart {
  enum class Kind : uint8_t { kText, kThought, kCall };
  Kind kind = Kind::kText;
  std::string text;  // of a call: its arguments as they were written, or, without a name, an object of name
                     // and arguments
  std::string name;  // of the function that a call names

  bool operator==(const AnswerPart&) const = default;
};
using AnswerParts = std::vector<AnswerPart>;

// Calls in the form of Hermes' models: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
class ToolReader {
 public:
  // forced: the answer is a call, without marks; open: it may hold some.
  ToolReader(bool forced, bool open) : forced_(forced), open_(open) {}

  AnswerParts add(std::string_view text);  // what more text makes certain
  AnswerParts rest();                      // what is left at the end
  int64_t calls() const { return calls_; }

 private:
  void add_text(AnswerParts& parts, std::string_view text) const;
  void add_call(AnswerParts& parts, std::string_view body);

  bool forced_, open_;
  std::string held_;
  int64_t calls_ = 0;
};

// OpenAI's Harmony format, as gpt-oss writes it. A message is
// `<|start|>assistant<|channel|>NAME<|message|>TEXT<|end|>`; the prompt ends behind `assistant`. Channel
// analysis is the model's reasoning; commentary with `to=functions.NAME` is a call, whose arguments are the
// text; other commentary and final are for the user (github.com/openai/harmony, docs/format.md).
class HarmonyReader {
 public:
  AnswerParts add(std::string_view text);  // special tokens included
  AnswerParts rest();
  int64_t calls() const { return calls_; }
  // Whether what comes now is reasoning.
  bool thinks() const { return !header_ && channel_ == "analysis" && call_.empty(); }

 private:
  void read_header(std::string& header);
  void read_message(AnswerParts& parts);
  void open(std::string_view header);
  void add_part(AnswerParts& parts, std::string_view text);
  void close(AnswerParts& parts);

  std::string held_;
  std::optional<std::string> header_ = "";  // of a message that has not begun; nothing: in the text of one
  std::string channel_ = "final", call_, arguments_;
  int64_t calls_ = 0;
};

}  // namespace opentrn::serving
