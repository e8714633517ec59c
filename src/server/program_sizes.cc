#include "server/program_sizes.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "base/fault.h"
#include "serving/buckets.h"

namespace opentrn::server {

namespace {

constexpr int32_t kTokens[] = {16, 64, 128, 256, 512};
constexpr int32_t kFewestPositions = 64;
constexpr int32_t kFirstContext = 128;  // as NxD Inference's buckets of positions begin

}  // namespace

ProgramSizes program_sizes(int32_t context, int32_t sequences, int32_t guesses) {
  ProgramSizes sizes;
  sizes.sequences = serving::power_of_two_buckets(1, sequences);
  std::ranges::copy_if(kTokens, std::back_inserter(sizes.tokens),
                       [&](int32_t size) { return size <= context; });
  sizes.contexts = serving::power_of_two_buckets(std::min(kFirstContext, context), context);
  if (guesses <= 0 || sizes.tokens.empty()) return sizes;
  const auto size = static_cast<int32_t>(std::bit_ceil(static_cast<uint32_t>(guesses) + 1));
  if (size >= sizes.tokens.back() || std::ranges::find(sizes.tokens, size) != sizes.tokens.end())
    return sizes;
  sizes.tokens.insert(std::ranges::lower_bound(sizes.tokens, size), size);
  return sizes;
}

int64_t whole_context(int64_t asked, int64_t trained) {
  const int64_t context = std::min(asked, trained) / kBlockTokens * kBlockTokens;
  if (context < kFewestPositions)
    throw Fault(FaultKind::kInput, "generate.context",
                fmt::format("a context of {} positions, of at most {}; {} are the fewest", asked, trained,
                            kFewestPositions));
  return context;
}

}  // namespace opentrn::server
