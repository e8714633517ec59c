#include "decoder/exchange.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "arch/timing_table.h"
#include "base/fault.h"
#include "collectives/summary.h"
#include "fabric/platform.h"

namespace opentrn::decoder {

namespace {

constexpr int64_t kLogitBytes = sizeof(float), kChoiceBytes = kLogitBytes + sizeof(int32_t);

void check_sharing(const Sharing& sharing, const fabric::Platform& platform, opentrn::Generation generation) {
  if (platform.generation() != generation)
    throw Fault(FaultKind::kInput, "decoder.ranks",
                fmt::format("{} has NeuronCore-{}, and the programs are for NeuronCore-{}", sharing.instance,
                            table_key(platform.generation()), table_key(generation)),
                "a target and an instance of one generation");
  if (sharing.cores_per_rank == 1) return;
  if (sharing.cores_per_rank != 2 || !arch::core_features(generation).logical_cores)
    throw Fault(FaultKind::kInput, "decoder.ranks",
                fmt::format("logical cores of {} physical ones on NeuronCore-{}", sharing.cores_per_rank,
                            table_key(generation)),
                "2 from Trainium2 on, else 1");
  OPENTRN_CHECK(sharing.cores % sharing.cores_per_rank == 0, "{} cores are no logical ones", sharing.cores);
}

}  // namespace

double exchange_us(const ExchangeSizes& sizes, const Bucket& bucket, graph::ElementType element,
                   const Sharing& sharing, opentrn::Generation generation) {
  if (sharing.cores == 1) return 0;
  if (sharing.instance.empty())
    throw Fault(FaultKind::kInput, "decoder.ranks",
                fmt::format("{} ranks exchange sums over the links of an instance", sharing.cores),
                "name the instance: trn1.32xlarge");
  const arch::Tables& tables = arch::default_tables();
  const fabric::Platform platform = fabric::Platform::make(tables, sharing.instance, 1);
  check_sharing(sharing, platform, generation);
  const auto us = [&](collectives::Kind kind, int64_t bytes, int64_t ranks, int cores_per_rank) {
    if (ranks == 1) return 0.0;
    const auto count = static_cast<int>(ranks);
    return collectives::summary_of(tables, platform,
                                   collectives::place_ranks(platform, count, cores_per_rank, 1),
                                   {kind, DType::kUint8, bytes, count, ""})
        .us;
  };
  const int64_t ranks = sharing.cores / sharing.cores_per_rank;
  const auto element_bytes = static_cast<int64_t>(graph::storage_bytes(element));
  const int64_t bytes = element_bytes * bucket.rows() * sizes.hidden;
  const double sum = us(collectives::Kind::kReduceScatter, bytes, sharing.cores_per_rank, 1) +
                     us(collectives::Kind::kAllReduce, bytes, ranks, sharing.cores_per_rank);
  // A gather's bytes are those of all ranks.
  const int64_t gathered =
      bucket.choice == Choice::kLikeliest ? ranks * kChoiceBytes : kLogitBytes * sizes.vocabulary;
  return 2 * static_cast<double>(sizes.layers) * sum +
         us(collectives::Kind::kAllGather, bucket.results() * gathered, ranks, sharing.cores_per_rank);
}

double results_us(const Bucket& bucket, int64_t vocabulary) {
  const int64_t bytes = bucket.results() * (bucket.chooses() ? kChoiceBytes : kLogitBytes * vocabulary);
  const double gb_s = arch::default_tables().facts().spec<double>("runtime.host_transfer_gb_s");
  return static_cast<double>(bytes) / gb_s / 1e3;
}

int cores_on_stack(opentrn::Generation generation, int64_t cores) {
  const auto most = static_cast<int64_t>(arch::timing(generation).constant("hbm_cores_per_stack"));
  return static_cast<int>(std::clamp<int64_t>(cores, 1, most));
}

}  // namespace opentrn::decoder
