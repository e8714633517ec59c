// Who chooses the tokens of a step, and how: the host, of logits, or the step's program.
#pragma once

#include <array>
#include <cstdint>
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

// What a program that draws is told of a row, in fp32: the columns of its argument `sampling`.
enum SamplingColumn : uint8_t { kInverseTemperature, kMinP, kPoint, kTopK, kTopP };
inline constexpr size_t kSamplingColumns = 5;
using SamplingRow = std::array<float, kSamplingColumns>;
// `point`: the number of [0, 1) that sample() would draw.
SamplingRow sampling_row(const SamplingParams& params, double point, int64_t vocabulary);

}  // namespace opentrn::decoder
