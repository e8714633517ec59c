// The next token from a row of logits: greedy, or drawn as vLLM and transformers draw.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace opentrn::decoder {

struct Sampling {
  double temperature = 0;  // 0: the largest logit, the first of equal ones
  int64_t top_k = 0;       // of the largest logits; 0: all
  double top_p = 1;        // the fewest of the most likely ones that have this much probability together
  double min_p = 0;        // of the most likely one's probability, at least
  uint64_t seed = 0;
};

// Tokens of one sequence. The same seed draws the same numbers, one for each token, whatever other sequences
// do.
class Sampler {
 public:
  // Input fault decoder.sampling for a value out of range.
  explicit Sampler(const Sampling& sampling);
  int32_t next(std::span<const float> logits);

 private:
  Sampling sampling_;
  SplitMix64 random_;
  struct Candidate {
    float logit;
    int32_t token;
  };
  std::vector<Candidate> candidates_;
};

}  // namespace opentrn::decoder
