// What of an answer is text for the user, what a thought, and what a call of a tool, as its text comes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace opentrn::serving {

struct AnswerPart {
  enum class Kind : uint8_t { kText, kThought, kCall };
  Kind kind = Kind::kText;
  std::string text;  // of a call: its arguments as they were written, or, without a name, an object of name
                     // and arguments
  std::string name;  // of the function that a call names
  // Arguments by their names, where the model writes texts; what they are the tool's schema says.
  std::vector<std::pair<std::string, std::string>> values{};

  bool operator==(const AnswerPart&) const = default;
};
using AnswerParts = std::vector<AnswerPart>;

class AnswerReader {
 public:
  virtual ~AnswerReader() = default;
  virtual AnswerParts add(std::string_view text) = 0;  // what more text makes certain
  virtual AnswerParts rest() = 0;                      // what is left at the end
  virtual int64_t calls() const = 0;                   // that were read
  virtual bool thinks() const { return false; }        // whether what comes now is reasoning
};

// Text and nothing else.
class TextReader final : public AnswerReader {
 public:
  AnswerParts add(std::string_view text) override;
  AnswerParts rest() override { return {}; }
  int64_t calls() const override { return 0; }
};

// An answer that is one call, {"name": ..., "arguments": {...}}, as a grammar makes it.
class OneCallReader final : public AnswerReader {
 public:
  AnswerParts add(std::string_view text) override;
  AnswerParts rest() override;
  int64_t calls() const override { return calls_; }

 private:
  std::string held_;
  int64_t calls_ = 0;
};

// Calls between marks: JSON in the form of Hermes' models, `<tool_call>{"name": ..., "arguments":
// {...}}</tool_call>`, or arguments between tags (tagged_calls.h).
class MarkedCallReader final : public AnswerReader {
 public:
  explicit MarkedCallReader(std::string open = "<tool_call>", std::string close = "</tool_call>",
                            bool has_bare_names = false)
      : open_(std::move(open)), close_(std::move(close)), has_bare_names_(has_bare_names) {}
  AnswerParts add(std::string_view text) override;
  AnswerParts rest() override;
  int64_t calls() const override { return calls_; }

 private:
  void add_text(AnswerParts& parts, std::string_view text) const;
  // False where the text is no call.
  bool add_call(AnswerParts& parts, std::string_view body);

  std::string open_, close_;
  bool has_bare_names_;
  std::string held_;
  int64_t calls_ = 0;
};

// Calls as Llama 3 and 4 write them: an answer that begins with `{`, or with `<|python_tag|>` before it, is
// calls
// {"name": ..., "parameters": {...}} with `;` between them.
class LlamaReader final : public AnswerReader {
 public:
  AnswerParts add(std::string_view text) override;
  AnswerParts rest() override;
  int64_t calls() const override { return calls_; }

 private:
  enum class State : uint8_t { kStart, kCalls, kText };
  void read_start();
  void read_calls(AnswerParts& parts);

  State state_ = State::kStart;
  std::string held_;
  int64_t calls_ = 0;
};

// Calls as Mistral's models write them: `[TOOL_CALLS]` before a list of {"name": ..., "arguments": {...}}, or
// before `NAME{...}` or `NAME[ARGS]{...}`, as later ones have it.
class MistralReader final : public AnswerReader {
 public:
  AnswerParts add(std::string_view text) override;
  AnswerParts rest() override;
  int64_t calls() const override { return calls_; }

 private:
  bool read_call(AnswerParts& parts);

  bool in_calls_ = false;
  std::string held_;
  int64_t calls_ = 0;
};

// OpenAI's Harmony format, as gpt-oss writes it. A message is
// `<|start|>assistant<|channel|>NAME<|message|>TEXT<|end|>`; the prompt ends behind `assistant`. Channel
// analysis is the model's reasoning; commentary with `to=functions.NAME` is a call, whose arguments are the
// text; other commentary and final are for the user (github.com/openai/harmony, docs/format.md).
class HarmonyReader final : public AnswerReader {
 public:
  AnswerParts add(std::string_view text) override;  // special tokens included
  AnswerParts rest() override;
  int64_t calls() const override { return calls_; }
  bool thinks() const override { return !header_ && channel_ == "analysis" && call_.empty(); }

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

// Marks of reasoning before an answer.
struct ThoughtMarks {
  std::string open, close;

  bool operator==(const ThoughtMarks&) const = default;
};

// Reasoning between marks, and then what another reader reads. A prompt may end inside of a thought.
class ThoughtReader final : public AnswerReader {
 public:
  ThoughtReader(ThoughtMarks marks, bool begins_inside, std::unique_ptr<AnswerReader> answer);
  AnswerParts add(std::string_view text) override;
  AnswerParts rest() override;
  int64_t calls() const override { return answer_->calls(); }
  bool thinks() const override { return state_ == State::kInside; }

 private:
  enum class State : uint8_t { kStart, kInside, kAnswer };
  bool read_start();
  bool read_thought(AnswerParts& parts);

  ThoughtMarks marks_;
  State state_;
  std::string held_;
  std::unique_ptr<AnswerReader> answer_;
};

// In which form a model writes its calls.
enum class CallForm : uint8_t { kHermes, kLlama, kMistral, kGlm, kMiniMax, kSeed, kDeepSeek, kKimi };

// A reader of answers that may hold calls in this form.
std::unique_ptr<AnswerReader> reader_of_calls(CallForm form);

}  // namespace opentrn::serving
