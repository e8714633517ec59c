#include <array>

#include <fmt/format.h>

#include "base/fault.h"
#include "decoder/program.h"

namespace opentrn::decoder {

std::string Bucket::text() const {
  constexpr std::array kLast{"", ", token chosen", ", token drawn", ", token drawn, truncated"};
  const char* last = kLast[static_cast<size_t>(choice)];
  if (tokens == 1) return fmt::format("decode {} x {}{}", sequences, context, last);
  return fmt::format("{} {} x {} / {}{}", every_token ? "score" : "prefill", sequences, tokens, context,
                     last);
}

bool experts_taken_are_read(const Config& config, const Bucket& bucket) {
  // What is gathered is read, written and read again.
  return bucket.tokens == 1 && 3 * bucket.sequences * config.experts_taken <= config.experts;
}

void check(const StepOptions& options, const Config& config, const Bucket& bucket) {
  const int64_t ranks = options.sequence_ranks;
  if (ranks < 1 || (ranks > 1 && (config.experts > 0 || bucket.rows() < ranks)))
    throw Fault(FaultKind::kInput, "decoder.ranks",
                fmt::format("{} rows of a model{} divided by {} ranks", bucket.rows(),
                            config.experts > 0 ? " of experts" : "", ranks),
                "sequence parallelism is for dense models and as many rows as ranks");
  OPENTRN_CHECK(options.cores_per_head == 1 || config.experts == 0, "cores with their own rows of experts");
}

bool has_last(const Bucket& bucket) { return bucket.tokens > 1 && !bucket.every_token; }

}  // namespace opentrn::decoder
