// By which rules the next token of a request is chosen, and which tokens a step computes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "decoder/choice.h"
#include "decoder/sampler.h"
#include "server/job.h"
#include "serving/step.h"

namespace opentrn::server {

// The request's own parameters, with what must not follow yet: stop tokens before it has min_tokens, and the
// last token of a bad word whose others have just been given.
decoder::SamplingParams sampling_of(const Job& job);

// The least that gives the next token. A grammar is known to the host alone.
decoder::Choice choice_of(const Job& job);

// Which tokens the next one may be, by the request's list and its grammar; empty: any.
std::vector<uint32_t> next_mask(const Job& job);
// Tokens that both allow; an empty one allows all.
std::vector<uint32_t> both(std::vector<uint32_t> mask, const std::vector<uint32_t>& other);

// A bit for each token of the vocabulary, 32 in a word, as grammars give it; empty for no tokens: all are
// allowed. Input fault decoder.sampling for a token that is none.
std::vector<uint32_t> mask_of(std::span<const int32_t> allowed, int64_t vocabulary);

// Whether the entry computes logits that say something of the prompt's tokens, where that is asked for.
bool scores_prompt(const serving::StepEntry& entry);

// Adds to Job::prompt_scores what the logits behind the entry's tokens, a row of the vocabulary for each, say
// of the prompt's next ones. A job whose logits are not finite fails.
void score_prompt(const serving::StepEntry& entry, std::span<const float> logits, int64_t vocabulary);

// The tokens of its request that an entry computes: of the prompt, of the output, and guesses.
std::vector<int32_t> tokens_of(const serving::StepEntry& entry);

}  // namespace opentrn::server
