// Who chooses the tokens of a step, and how: the host, of logits, or the step's program.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "decoder/sampler.h"

namespace opentrn::decoder {

// In ascending order of what a program computes; each can choose what those before it can, but the host.
enum class Choice : uint8_t {
  kHost,            // the program gives logits
  kLikeliest,       // the token with the largest logit, the first of equal ones
  kDrawn,           // a token drawn by temperature and min-p, or the likeliest one
  kDrawnTruncated,  // as well by top-k and top-p
};

// "host", "likeliest", "drawn", "drawn-truncated". Input fault decoder.choice for other words.
std::string_view text(Choice choice);
Choice choice_of_text(std::string_view text);

// The least that gives a token by these parameters. The host alone knows penalties, biases and log
// probabilities.
Choice choice_of(const SamplingParams& params);

// What one program has to choose by, so that it gives a token to each of several sequences: the least that
// does. Of what `most` does not reach the host. Without a sequence that wants a token: what programs choose
// anyway.
Choice choice_for_all(std::span<const Choice> wanted, Choice most);

// Whether a program's token is one: the largest logit is finite, and the token no padding of the vocabulary.
bool is_token(int32_t token, float largest_logit, int64_t vocabulary);
// The token; input fault decoder.overflow where it is none.
int32_t expect_token(int32_t token, float largest_logit, int64_t vocabulary);

// What a program that draws is told of a row, in fp32: the columns of its argument `sampling`.
enum SamplingColumn : uint8_t { kInverseTemperature, kMinP, kPoint, kTopK, kTopP };
inline constexpr size_t kSamplingColumns = 5;
using SamplingRow = std::array<float, kSamplingColumns>;
// `point`: the number of [0, 1) that sample() would draw.
SamplingRow sampling_row(const SamplingParams& params, double point, int64_t vocabulary);

}  // namespace opentrn::decoder
