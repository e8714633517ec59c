// From logits to a token, with the rules and the order of vLLM: the mask of a grammar and the bias of tokens,
// then penalties, then temperature, min-p, top-k and top-p. Log probabilities are those of the logits as they
// come.
//
// Logits that are not finite are an input fault `decoder.overflow`: a value of the model overflowed.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"

namespace opentrn::decoder {

struct SamplingParams {
  double temperature = 1;         // 0: greedy, the first of the largest logits
  int32_t top_k = 0;              // 0: all
  double top_p = 1;               // the fewest tokens whose probabilities reach it
  double min_p = 0;               // of the largest probability
  double repetition_penalty = 1;  // divides positive and multiplies negative logits of tokens seen
  double frequency_penalty = 0;   // taken away for each time that a token was given
  double presence_penalty = 0;    // taken away once
  int32_t logprobs = -1;          // of so many of the likeliest tokens; -1: not even of the token itself
  std::vector<std::pair<int32_t, float>> bias;
};

struct SampledToken {
  int32_t token = -1;
  double logprob = 0;                           // 0 where none was asked for
  int32_t rank = 0;                             // 1: the likeliest; 0 where none was asked for
  std::vector<std::pair<int32_t, double>> top;  // likeliest first
};

// Throws a fault `decoder.sampling` for parameters that are none.
void check(const SamplingParams& params);

// What is left to draw from: tokens, ascending, and their probabilities. `mask`: a bit for each token,
// 32 in a word, as grammars give it; empty: all are allowed. Fault `decoder.sampling` when none is.
std::vector<std::pair<int32_t, double>> candidates(const SamplingParams& params,
                                                   std::span<const float> logits,
                                                   std::span<const int32_t> prompt,
                                                   std::span<const int32_t> output,
                                                   std::span<const uint32_t> mask = {});

// What the model says of a token: its log probability and its rank, and of the `top` likeliest ones theirs.
SampledToken scored(std::span<const float> logits, int32_t token, int32_t top);

// A number of [0, 1) is drawn, whatever the parameters; the token is the first whose probability, with those
// of the tokens in front of it, passes it. Programs that draw on the device do the same (drawn.h).
SampledToken sample(const SamplingParams& params, std::span<const float> logits,
                    std::span<const int32_t> prompt, std::span<const int32_t> output,
                    std::span<const uint32_t> mask, SplitMix64& random);

}  // namespace opentrn::decoder
