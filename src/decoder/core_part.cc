#include "decoder/core_part.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::decoder {

CorePart core_part(const Config& config, const Bucket& bucket, int64_t cores, int cores_per_rank,
                   StepOptions options) {
  if (cores > 1) options.vocabulary = config.vocabulary;
  if (cores_per_rank < 1 || cores % cores_per_rank != 0)
    throw Fault(FaultKind::kInput, "decoder.ranks",
                fmt::format("{} cores are no ranks of {}", cores, cores_per_rank));
  const bool share_heads =
      cores > config.heads && cores_per_rank > 1 && cores / cores_per_rank <= config.heads &&
      config.head_features % (2 * cores_per_rank) == 0 && config.turned_features % (2 * cores_per_rank) == 0;
  if (!share_heads) return {part_of(config, cores), bucket, options};
  Config counted = config;  // a head counts once for each core that has a part of it
  counted.heads *= cores_per_rank;
  counted.kv_heads *= cores_per_rank;
  CorePart part{part_of(counted, cores), bucket, options};
  const bool by_tokens = bucket.tokens > 1 && bucket.tokens % cores_per_rank == 0 && !bucket.every_token &&
                         config.experts == 0 && options.sequence_ranks <= bucket.rows();
  if (by_tokens) {
    part.bucket.tokens /= cores_per_rank;
    part.options.cores_per_head = cores_per_rank;
    part.options.sequence_ranks = std::max<int64_t>(1, options.sequence_ranks / cores_per_rank);
  } else {
    part.config.head_features /= cores_per_rank;
    part.config.turned_features /= cores_per_rank;
    for (auto* divisors :
         {&part.config.rope_divisors, &part.config.rope_divisors_beyond, &part.config.local_rope_divisors})
      if (!divisors->empty()) divisors->resize(divisors->size() / static_cast<size_t>(cores_per_rank));
  }
  return part;
}

}  // namespace opentrn::decoder
