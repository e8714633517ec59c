// One step of an engine: which tokens of which requests go through the model together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serving/request.h"

namespace opentrn::serving {

enum class Phase : uint8_t { kIdle, kPrefill, kDecode, kMixed };

const char* to_string(Phase phase);

// What a request contributes. Its block table is Request::blocks.
struct StepEntry {
  Request* request;
  int32_t tokens;           // that are computed in this step
  int32_t computed_before;  // whose keys and values are in the cache already
  bool prefill;             // some of them belong to the prompt, or are read again after a preemption
  bool samples;             // a token follows: nothing of the request remains to be prefilled
  int32_t drafts = 0;       // the last ones of `tokens`, which are guesses: Request::drafts
};

struct Step {
  int64_t number = 0;
  Phase phase = Phase::kIdle;
  std::vector<StepEntry> entries;  // in the order in which they were scheduled
  std::vector<Request*> preempted;
  int64_t tokens = 0;
  // The compiled program, of policies that have any: rows and tokens per row as padded; 0: none.
  int32_t seqs_bucket = 0, tokens_bucket = 0, context_bucket = 0;

  bool empty() const { return entries.empty(); }
  // Tokens that the device computes, padding included.
  int64_t padded_tokens() const {
    if (phase == Phase::kPrefill && tokens_bucket > 0) return tokens_bucket;
    if (phase == Phase::kDecode && seqs_bucket > 0) return int64_t{seqs_bucket} * tokens_bucket;
    return tokens;
  }
  // By AWS's names of buckets: "prefill_s512", "decode_b8", "decode_b8_c2048"; "" without buckets. With
  // guesses "verify_b8_t4" and "verify_b8_t4_c2048": so many tokens of each request.
  std::string program() const;
};

}  // namespace opentrn::serving
