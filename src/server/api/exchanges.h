// The APIs that an exchange can be of.
#pragma once

#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "server/api/exchange.h"

namespace opentrn::server::api {

// The last responses, with the conversation that led to them and the answer at its end.
class ResponseStore {
 public:
  explicit ResponseStore(size_t most) : most_(most) {}

  struct Row {
    std::string id;
    Json response;
    std::vector<Message> messages;
  };
  void put(Row row);                            // the oldest goes
  const Row& get(const std::string& id) const;  // refused where it is unknown
  void remove(const std::string& id);

 private:
  size_t most_;
  std::list<Row> rows_;  // the oldest first
  std::unordered_map<std::string, std::list<Row>::iterator> by_id_;
};

std::unique_ptr<Exchange> open_chat(const ServedModel& served, Json body, Shown shown);
std::unique_ptr<Exchange> open_completion(const ServedModel& served, Json body, Shown shown);
std::unique_ptr<Exchange> open_messages(const ServedModel& served, Json body, Shown shown);
std::unique_ptr<Exchange> open_responses(const ServedModel& served, Json body, Shown shown,
                                         ResponseStore& store);

// What OpenAI's chat and completions share.
class OpenAi : public Exchange {
 public:
  std::string begin(const std::vector<std::string>& echoed) override;
  std::string close() override;
  Json whole() override;

 protected:
  // Of answers: how ids begin, what the whole and the chunks of a stream are called, and the fields they
  // have.
  struct Form {
    const char *id, *whole, *chunk;
    bool chunks_have_fingerprint, has_service_tier;
  };
  OpenAi(const ServedModel& served, Json body, Shown shown, const Form& form);

  // What a stream has of an answer before its first token; null: nothing.
  virtual Json first_choice(size_t answer) = 0;
  virtual Json whole_choice(size_t answer) = 0;

  static constexpr double kLeastLogprob = -9999;  // JSON has no infinity

  std::optional<int64_t> most_tokens(int64_t prompt_tokens) const override;
  int64_t prompt_logprobs() const override { return count_field("prompt_logprobs", -1); }
  Json usage() const;
  bool tells_usage() const { return field(field(body_, "stream_options"), "include_usage") == true; }
  bool tells_usage_always() const {
    return tells_usage() && field(field(body_, "stream_options"), "continuous_usage_stats") == true;
  }
  // The fields of every chunk and of the whole answer; with a fingerprint or not.
  Json head(const char* object, bool fingerprinted) const;
  std::string chunk(Json choice) const;
  std::string fingerprint() const { return "opentrn-" + served_.version; }
  void expect_stream() const;  // refused: options of a stream without one
  // Of OpenAI's response_format, or else of vLLM's structured_outputs.
  std::optional<Grammar> grammar_of_format() const;
  // A token as log probabilities name it.
  std::string shown_text(int32_t token) const;
  // vLLM's prompt_logprobs, where they are asked for.
  void add_prompt_logprobs(Json& choice, const Answer& answer) const;
  void add_token_ids(Json& choice, const std::vector<ScoredToken>& tokens) const;

  const Form& form_;
  const std::string id_;             // of the client's request_id, where it gives one
  std::vector<std::string> echoed_;  // texts of the prompts, where they are to be repeated

 private:
  std::optional<Grammar> structured_outputs() const;
};

}  // namespace opentrn::server::api
