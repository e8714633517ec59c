// Several prompts answered together, without a scheduler: prompts are read one after the other, then every
// step gives a token of each that is not finished.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decoder/draft_model.h"
#include "decoder/engine.h"
#include "decoder/sampler.h"

namespace opentrn::decoder {

struct Request {
  std::vector<int32_t> prompt;
  int64_t tokens_max = 0;            // new ones
  std::vector<int32_t> stop_tokens;  // each ends the answer, and is its last token
  SamplingParams sampling;
  uint64_t seed = 0;
};

// Prompt lookup (Saxena 2023): the newest tokens are looked for in what stands in front of them, and what
// followed there is guessed to follow again. One step gives the logits behind all guesses; one after the
// other a token is chosen behind each of them, and the first that is not the guess is the last one.
struct Speculation {
  int64_t tokens = 0;                 // guesses of a step, at most; 0: none
  int64_t longest = 4, shortest = 2;  // tokens that are looked for; of the longest match the latest place
};
// What followed, at most `most` tokens; none where nothing matches.
std::vector<int32_t> guesses(std::span<const int32_t> text, const Speculation& speculation, int64_t most);

enum class Finish : uint8_t { kNot, kStop, kLength };

struct NewToken {
  size_t request = 0;
  int32_t token = 0;
  Finish finish = Finish::kNot;
};

struct GenerationStep {
  Bucket bucket;                     // the program that ran
  std::vector<NewToken> tokens;      // none in the middle of a long prompt
  std::vector<Bucket> drafted = {};  // the draft model's, which ran behind it
};

class Generation {
 public:
  // `engine` outlives it, and is used by nobody else meanwhile. Input fault decoder.request for a prompt that
  // is empty, or beyond the model's context, and for speculation beyond the largest bucket of tokens;
  // capacity fault decoder.pool where the pool is too small for all. `draft`: of a smaller model of the same
  // tokens or an EAGLE head of the model, which makes the guesses in place of looking; as `engine`.
  Generation(Engine& engine, std::vector<Request> requests, Speculation speculation = {},
             Engine* draft = nullptr);
  Generation(const Generation&) = delete;
  Generation& operator=(const Generation&) = delete;

  bool done() const { return active_ == 0; }
  // One run of a program. An internal fault when done.
  GenerationStep step();
  // So far: tokens that were guessed, and those that were right.
  int64_t guessed() const { return guessed_; }
  int64_t right() const { return right_; }

 private:
  struct State {
    Request request;
    SplitMix64 random;
    std::vector<int32_t> blocks;
    size_t read = 0;                 // tokens of the prompt whose keys are in the pool
    int64_t given = 0;               // new tokens
    std::vector<int32_t> text = {};  // the prompt and the new tokens
    bool finished = false;
    std::unique_ptr<DraftState> draft = {};
    std::vector<std::byte> features = {};  // of the text but its last token, for an EAGLE head
    std::vector<int32_t> proposed = {};    // by the draft model, to follow the text
    bool in_prompt() const { return read < request.prompt.size(); }
  };
  NewToken sampled(size_t number, std::span<const float> logits);
  std::vector<int32_t> guesses_of(const State& state) const;
  void keep_features(State& state, const StepResult& result, size_t first, size_t count) const;
  std::vector<Bucket> propose();
  GenerationStep read_prompt(size_t number);
  GenerationStep decode();
  // The newest token of each, and guesses behind it.
  GenerationStep decode(const std::vector<size_t>& numbers, const std::vector<std::vector<int32_t>>& tokens);
  int64_t room(const State& state) const;

  Engine& engine_;
  Speculation speculation_;
  std::optional<DraftModel> draft_;
  int64_t guessed_ = 0, right_ = 0;
  std::vector<State> states_;
  size_t active_ = 0;
};

}  // namespace opentrn::decoder
