// Sizes of a language model's programs, where the user states none.
#pragma once

#include <cstdint>
#include <vector>

namespace opentrn::server {

// Positions of a block: 4 KiB of one head of 64 16-bit values, which DMA moves at its full rate.
inline constexpr int32_t kBlockTokens = 32;

struct ProgramSizes {
  std::vector<int32_t> sequences, tokens, contexts;  // each ascending
};
// For so many positions and answers at once. guesses: of a step, for which there is a size with the newest
// token in front of them.
ProgramSizes program_sizes(int32_t context, int32_t sequences, int32_t guesses = 0);

// Whole blocks of as many positions as were asked for, and the model was made for. Input fault
// generate.context for too few.
int64_t whole_context(int64_t asked, int64_t trained);

}  // namespace opentrn::server
