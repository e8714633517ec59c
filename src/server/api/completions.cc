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
    if (only_echoes() && !echoes()) throw Refusal(400, "max_tokens is 0, without echo", "max_tokens");
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
    Json row;
    if (prompt_logprobs() < 0 || !echoes()) {
      row = choice_of(answer, echo_of(answer) + answer_of(given), given.tokens, characters(echo_of(answer)),
                      given.finish);
    } else {
      std::vector<ScoredToken> tokens = given.prompt_scores;
      if (!only_echoes()) std::ranges::copy(given.tokens, std::back_inserter(tokens));
      row = choice_of(answer, echo_of(answer) + answer_of(given), tokens, 0, given.finish);
    }
    add_prompt_logprobs(row, given);
    return row;
  }
  std::optional<int64_t> most_tokens(int64_t prompt_tokens) const override {
    const int64_t usual = std::min(kUsualTokens, std::max<int64_t>(1, served_.context - prompt_tokens));
    return std::max<int64_t>(1, count_field("max_tokens", usual));
  }
  // Those of a prompt that is repeated are those of the answer.
  int64_t prompt_logprobs() const override {
    return std::max(OpenAi::prompt_logprobs(), echoes() ? logprobs() : -1);
  }
  int64_t logprobs() const override { return count_field("logprobs", -1); }
  bool converses() const override { return false; }

  std::string told(size_t answer, const Part& part) override {
    const std::string events = chunk(
        choice_of(answer, only_echoes() ? "" : part.text, part.tokens, shown_characters_[answer], nullptr));
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

  // A token is computed, and not shown.
  bool only_echoes() const { return count_field("max_tokens", kUsualTokens) == 0; }
  std::string answer_of(const Answer& answer) const { return only_echoes() ? std::string() : answer.text; }

  std::string echo_of(size_t answer) const {
    return echoed_.empty() ? std::string() : echoed_[answers_[answer].prompt];
  }

  Json logprobs_of(const std::vector<ScoredToken>& tokens, int64_t offset) const {
    if (field(body_, "logprobs").is_null()) return nullptr;
    Json texts = Json::array(), own = Json::array(), tops = Json::array(), offsets = Json::array();
    for (const ScoredToken& token : tokens) {
      const std::string text = shown_text(token.number);
      texts.push_back(text);
      offsets.push_back(offset);
      const bool is_known = token.rank > 0 || !echoes();
      own.push_back(is_known ? Json(std::max(token.logprob, kLeastLogprob)) : Json());
      Json top = is_known ? Json::object() : Json();
      for (const auto& [number, value] : token.top) top[shown_text(number)] = std::max(value, kLeastLogprob);
      if (is_known) top[text] = own.back();
      tops.push_back(std::move(top));
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
