// One request to a language model's server and what is answered, in the words of an API: OpenAI's chat,
// completions and responses with vLLM's additions, and Anthropic's messages.
//
// An exchange reads a body whose fields have been checked one by one (types, ranges), says what to compute,
// takes what comes of each answer, and writes the answer as one JSON document or as events of a stream. It
// knows nothing of sockets, tokenizers, templates and grammars: the caller has those, in Python.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/api/answer_format.h"
#include "server/api/conversation.h"
#include "server/api/json_text.h"
#include "serving/answer_reader.h"

namespace opentrn::server::api {

// What a server tells of its model.
struct ServedModel {
  std::string name;
  std::map<std::string, int32_t> adapters{};  // by the names that requests give
  int64_t context = 0;                        // positions
  Json defaults{};                            // of sampling, by vLLM's names
  std::vector<int32_t> stop_tokens{};         // that end an answer and are not shown
  bool structured = true;                     // whether requests may have grammars
  int64_t max_logprobs = 20;
  bool by_priority = false;  // the scheduler goes by requests' priorities
  AnswerFormat answers{};
  TemplateFacts chat_template{};
  Json template_variables = Json::object();  // of the chat template, where a request does not state them
  std::string version{};                     // of OpenTrn
};
ServedModel served_model(const Json& facts);
// Refused for another model than this one, and none of its adapters.
void expect_model(const ServedModel& served, std::string_view name);

// A token with its log probability and the likeliest ones.
struct ScoredToken {
  int32_t number = 0;
  double logprob = 0;
  std::vector<std::pair<int32_t, double>> top{};
  int32_t rank = 0;  // 1: the likeliest; 0: nothing is known of it
};
// The text of a token, and its bytes.
using Shown = std::function<std::pair<std::string, std::string>(int32_t)>;

// How a request went: seconds of predicted device time.
struct AnswerEnd {
  int32_t cached_tokens = 0;
  double first_token_s = 0, end_s = 0, own_s = 0;
};
// What a step gave to an answer.
struct AnswerDelta {
  std::string text;
  std::vector<ScoredToken> tokens{};
  std::string finish{};  // "stop", "length"
  Json stop_reason{};    // the string or token that ended it, where it was not the model's own
  std::optional<AnswerEnd> end{};
  std::vector<ScoredToken> prompt{};  // with the first token, where they are asked for
};

// One answer as far as it is given.
struct Answer {
  size_t prompt = 0;
  std::unique_ptr<serving::AnswerReader> reader;
  std::string text{}, reasoning{};
  int64_t reasoning_tokens = 0;
  std::vector<Call> calls{};
  std::vector<ScoredToken> prompt_scores{};
  std::vector<ScoredToken> tokens{};   // the one that ended it included
  std::vector<ScoredToken> waiting{};  // those behind the last part
  std::string finish{};
  Json stop_reason{};
  std::optional<AnswerEnd> end{};
};
// More of it: a text, a thought or a call, and the tokens since the last part.
struct Part {
  serving::AnswerPart::Kind kind;
  std::string text;
  std::optional<Call> call{};
  std::vector<ScoredToken> tokens{};
};

// ("json", schema), ("regex", text), ("lark", text) or ("choice", texts).
using Grammar = std::pair<std::string, Json>;

class Exchange {
 public:
  Exchange(const ServedModel& served, Json body, Shown shown);
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // What the prompts are: a conversation, a text, or a list of tokens.
  const std::vector<Json>& inputs() const { return inputs_; }
  const std::optional<Grammar>& grammar() const { return grammar_; }
  bool streams() const { return field(body_, "stream") == true; }
  bool echoes() const { return field(body_, "echo") == true; }

  // Of `count` tokens of a prompt those that are kept, as [first, last), by `truncate_prompt_tokens`.
  std::pair<int64_t, int64_t> kept_tokens(int64_t count) const;

  // For each answer the place of its prompt and how its tokens are chosen (server::JobParams's names, and
  // `stop`, `include_stop`, `markers`; bad words are texts). `texts`: of prompts that a template wrote, else
  // "". Refused where a prompt has no place in the model.
  std::vector<std::pair<size_t, Json>> plan(const std::vector<int64_t>& prompt_tokens,
                                            const std::vector<std::string>& texts);

  // Of a stream: events as they go out. `echoed`: the prompts' texts, where echoes().
  virtual std::string begin(const std::vector<std::string>& echoed) = 0;
  std::string take(size_t answer, AnswerDelta delta);
  virtual std::string close() = 0;  // when all answers have ended
  // An error in the middle of a stream, as this API writes it.
  virtual std::string failed(const Json& error);

  // Of all of it at once, when all answers have ended.
  virtual Json whole() = 0;
  Json predicted() const;  // milliseconds of device time; empty before the first answer ends

 protected:
  std::string text_field(std::string_view name) const { return field(body_, name).get<std::string>(); }
  bool flag(std::string_view name) const { return field(body_, name) == true; }
  int64_t count_field(std::string_view name, int64_t usual) const;

  // How many tokens an answer to a prompt may have as the body says, if it does.
  virtual std::optional<int64_t> most_tokens(int64_t prompt_tokens) const = 0;
  virtual int64_t logprobs() const { return -1; }
  virtual int64_t prompt_logprobs() const { return -1; }
  virtual Json stop_strings() const;
  virtual bool converses() const { return true; }
  // Whether reasoning and calls are looked for in answers. A grammar leaves no place for them.
  bool reads_marks() const { return converses() && !grammar_; }
  // What goes out for a part of an answer, and for its end.
  virtual std::string told(size_t answer, const Part& part) = 0;
  virtual std::string told_end(size_t) { return ""; }

  int64_t prompt_tokens() const;  // of all prompts
  int64_t cached_tokens() const;
  int64_t given_tokens() const;  // of all answers
  int64_t reasoning_tokens() const;
  std::string event(const Json& row) const;        // data alone
  std::string named_event(const Json& row) const;  // with its type's name
  // One after another; operands of + are made in any order.
  static std::string in_order(std::initializer_list<std::string> events);

  const ServedModel& served_;
  const Json body_;
  const Shown shown_;
  std::vector<Json> inputs_;
  std::vector<int64_t> prompt_tokens_;
  Json params_{};  // of the first answer, as plan() made them
  std::optional<Grammar> grammar_;
  Tools tools_;
  std::vector<Answer> answers_;
  const int64_t created_;

 private:
  Json params_of(int64_t prompt_tokens) const;
};

class ResponseStore;
// kind: chat, completions, messages or responses. `served` and `store` outlive it.
std::unique_ptr<Exchange> open_exchange(std::string_view kind, const ServedModel& served, Json body,
                                        Shown shown, ResponseStore& store);

int64_t now_s();  // since 1970

// Texts and lists of tokens of OpenAI's `prompt` or `input`, whose name is `param`.
std::vector<Json> prompts_of(const Json& prompt, const std::string& param);

}  // namespace opentrn::server::api
