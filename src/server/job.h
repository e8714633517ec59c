// A request of a live server: what the scheduler knows of it, and how its tokens are chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "decoder/draft_model.h"
#include "decoder/sampler.h"
#include "serving/request.h"

namespace opentrn::server {

// What a client asks for.
struct JobParams {
  std::vector<int32_t> prompt;
  int32_t max_tokens = 1;
  int32_t min_tokens = 0;            // no stop token before so many
  std::vector<int32_t> stop_tokens;  // the answer ends with the first of them
  decoder::SamplingParams sampling;
  uint64_t seed = 0;
  int32_t adapter = 0;            // 0: the model's own weights
  int64_t priority = 0;           // lower numbers first; only where the scheduler goes by them
  std::string cache_salt;         // requests of another salt have no prefix in common with this one; "": none
  std::vector<uint32_t> allowed;  // of every token, a bit for each of the vocabulary; empty: all are
  std::vector<uint32_t> mask;     // of the first token by a grammar; empty: no grammar
  bool has_grammar = false;       // which says what may follow when it is asked
  std::vector<std::vector<int32_t>> bad_words;  // tokens that must not follow each other
  int32_t prompt_logprobs = -1;  // of each token of the prompt, and so many of the likeliest; -1: none
};

// What the names of a request's blocks begin with.
inline serving::BlockHash variant_of(int32_t adapter, std::string_view salt) {
  serving::BlockHash name;
  if (adapter == 0 && salt.empty()) return name;
  name = serving::chained(name, static_cast<uint64_t>(adapter));
  for (const char letter : salt) name = serving::chained(name, static_cast<uint8_t>(letter));
  return name;
}

struct Job final : serving::Request {
  explicit Job(JobParams params)
      : sampling(std::move(params.sampling)),
        stop_tokens(std::move(params.stop_tokens)),
        min_tokens(params.min_tokens),
        random(params.seed),
        allowed(std::move(params.allowed)),
        mask(std::move(params.mask)),
        has_grammar(params.has_grammar),
        bad_words(std::move(params.bad_words)),
        prompt_logprobs(params.prompt_logprobs) {
    prompt_tokens = static_cast<int32_t>(params.prompt.size());
    max_tokens = params.max_tokens;
    content.tokens = std::move(params.prompt);
    adapter = params.adapter;
    priority = params.priority;
    skips_prefix_cache = params.prompt_logprobs >= 0;
    variant = variant_of(params.adapter, params.cache_salt);
  }

  decoder::SamplingParams sampling;
  std::vector<int32_t> stop_tokens;
  int32_t min_tokens;
  SplitMix64 random;
  std::vector<uint32_t> allowed;  // of every token
  std::vector<uint32_t> mask;     // of the next token, by its grammar
  bool has_grammar = false;       // whose mask comes when a token is chosen
  std::vector<std::vector<int32_t>> bad_words;
  int32_t prompt_logprobs;
  // What the model says of the prompt's tokens, as far as they are computed; of the first one nothing.
  std::vector<decoder::SampledToken> prompt_scores;
  std::string failure;  // why no token could be given; the request ends with it

  // Of a server with a draft model: what it guesses to follow the newest token, and what it has read.
  std::vector<int32_t> proposed;
  std::vector<std::byte> features;  // of computed tokens, for an EAGLE head
  std::unique_ptr<decoder::DraftState> draft;

  // Predicted time of the device and of its host: of the steps that the request was part of; and, counted
  // over all steps since the server began, at the request's arrival, first and last token.
  serving::Ps own = 0;
  serving::Ps device_arrival = 0, device_first = -1, device_last = -1;
};

}  // namespace opentrn::server
