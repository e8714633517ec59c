// Several prompts answered together, without a scheduler: prompts are read one after the other, then every
// step gives a token of each that is not finished.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "decoder/engine.h"
#include "decoder/sampler.h"

namespace opentrn::decoder {

struct Request {
  std::vector<int32_t> prompt;
  int64_t tokens_max = 0;            // new ones
  std::vector<int32_t> stop_tokens;  // each ends the answer, and is its last token
  Sampling sampling;
};

enum class Finish : uint8_t { kNot, kStop, kLength };

struct NewToken {
  size_t request = 0;
  int32_t token = 0;
  Finish finish = Finish::kNot;
};

struct GenerationStep {
  Bucket bucket;                 // the program that ran
  std::vector<NewToken> tokens;  // none in the middle of a long prompt
};

class Generation {
 public:
  // `engine` outlives it, and is used by nobody else meanwhile. Input fault decoder.request for a prompt that
  // is empty, or beyond the model's context; capacity fault decoder.pool where the pool is too small for all.
  Generation(Engine& engine, std::vector<Request> requests);

  bool done() const { return active_ == 0; }
  // One run of a program. An internal fault when done.
  GenerationStep step();

 private:
  struct State {
    Request request;
    Sampler sampler;
    std::vector<int32_t> blocks;
    size_t read = 0;    // tokens of the prompt whose keys are in the pool
    int64_t given = 0;  // new tokens
    int32_t last = 0;   // the newest of them
    bool finished = false;
    bool in_prompt() const { return read < request.prompt.size(); }
  };
  NewToken sampled(size_t number, std::span<const float> logits);
  GenerationStep read_prompt(size_t number);
  GenerationStep decode();

  Engine& engine_;
  std::vector<State> states_;
  size_t active_ = 0;
};

}  // namespace opentrn::decoder
