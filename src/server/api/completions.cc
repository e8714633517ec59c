// OpenAI's completions, with vLLM's additions.
#include <algorithm>

#include <fmt/format.h>

#include "server/api/exchanges.h"

namespace opentrn::server::api {

namespace {

constexpr int64_t kUsualTokens = 16;  // OpenAI's default

class Completion : public OpenAi {
 public:
  Completion(const ServedModel& served, Json body, Shown shown)
      : OpenAi(served, std::move(body), std::move(shown), kForm) {
    if (!field(body_, "suffix").is_null()) throw Refusal(400, "suffix is not supported", "suffix");
    if (const int64_t n = count_field("n", 1); count_field("best_of", n) != n)
      throw Refusal(400, "best_of other than n is not supported", "best_of");
    if (echoes() && !field(body_, "logprobs").is_null())
      throw Refusal(400, "echo together with logprobs is not supported", "echo");
    expect_stream();
    inputs_ = prompts_of(body_["prompt"], "prompt");
    grammar_ = grammar_of_format();
  }

 protected:
  Json first_choice(size_t answer) override {
    shown_characters_.push_back(characters(echo_of(answer)));
    return echoes() ? choice_of(answer, echo_of(answer), {}, 0, nullptr) : Json();
  }
  Json whole_choice(size_t answer) override {
    const Answer& given = answers_[answer];
    return choice_of(answer, echo_of(answer) + given.text, given.tokens, characters(echo_of(answer)),
                     given.finish);
  }
  std::optional<int64_t> most_tokens(int64_t prompt_tokens) const override {
    return count_field("max_tokens",
                       std::min(kUsualTokens, std::max<int64_t>(1, served_.context - prompt_tokens)));
  }
  int64_t logprobs() const override { return count_field("logprobs", -1); }
  bool converses() const override { return false; }

  std::string told(size_t answer, const Part& part) override {
    const std::string events =
        chunk(choice_of(answer, part.text, part.tokens, shown_characters_[answer], nullptr));
    shown_characters_[answer] += characters(part.text);
    return events;
  }
  std::string told_end(size_t answer) override {
    return chunk(choice_of(answer, "", {}, shown_characters_[answer], answers_[answer].finish));
  }

 private:
  static constexpr Form kForm{.id = "cmpl-",
                              .whole = "text_completion",
                              .chunk = "text_completion",
                              .chunks_have_fingerprint = false,
                              .has_service_tier = false};

  std::string echo_of(size_t answer) const {
    return echoed_.empty() ? std::string() : echoed_[answers_[answer].prompt];
  }

  Json logprobs_of(const std::vector<ScoredToken>& tokens, int64_t offset) const {
    if (field(body_, "logprobs").is_null()) return nullptr;
    Json texts = Json::array(), own = Json::array(), tops = Json::array(), offsets = Json::array();
    for (const ScoredToken& token : tokens) {
      const std::string text = shown_text(token.number);
      const double logprob = std::max(token.logprob, kLeastLogprob);
      Json top = Json::object();
      for (const auto& [number, value] : token.top) top[shown_text(number)] = std::max(value, kLeastLogprob);
      top[text] = logprob;
      texts.push_back(text);
      own.push_back(logprob);
      tops.push_back(std::move(top));
      offsets.push_back(offset);
      offset += characters(shown_(token.number).first);
    }
    return Json{{"tokens", texts}, {"token_logprobs", own}, {"top_logprobs", tops}, {"text_offset", offsets}};
  }

  Json choice_of(size_t index, const std::string& text, const std::vector<ScoredToken>& tokens,
                 int64_t offset, const Json& finish) const {
    Json row{{"index", index},
             {"text", text},
             {"finish_reason", finish},
             {"logprobs", logprobs_of(tokens, offset)}};
    add_token_ids(row, tokens);
    return row;
  }

  std::vector<int64_t> shown_characters_;  // of each answer
};

}  // namespace

std::unique_ptr<Exchange> open_completion(const ServedModel& served, Json body, Shown shown) {
  return std::make_unique<Completion>(served, std::move(body), std::move(shown));
}

}  // namespace opentrn::server::api
