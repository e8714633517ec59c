#include <fmt/format.h>

#include "decoder/program.h"

namespace opentrn::decoder {

std::string Bucket::text() const {
  const char* last = chooses ? ", token chosen" : "";
  if (tokens == 1) return fmt::format("decode {} x {}{}", sequences, context, last);
  return fmt::format("{} {} x {} / {}{}", every_token ? "score" : "prefill", sequences, tokens, context,
                     last);
}

bool experts_taken_are_read(const Config& config, const Bucket& bucket) {
  // What is gathered is read, written and read again.
  return bucket.tokens == 1 && 3 * bucket.sequences * config.experts_taken <= config.experts;
}

bool has_last(const Bucket& bucket) { return bucket.tokens > 1 && !bucket.every_token; }

}  // namespace opentrn::decoder
