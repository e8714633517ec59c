#include "decoder/exchange.h"

#include <fmt/format.h>

#include "base/fault.h"
#include "collectives/summary.h"
#include "fabric/platform.h"

namespace opentrn::decoder {

double exchange_us(const ExchangeSizes& sizes, const Bucket& bucket, graph::ElementType element,
                   int64_t ranks, const std::string& instance, opentrn::Generation generation) {
  if (ranks == 1) return 0;
  if (instance.empty())
    throw Fault(FaultKind::kInput, "decoder.ranks",
                fmt::format("{} ranks exchange sums over the links of an instance", ranks),
                "name the instance: trn1.32xlarge");
  const arch::Tables& tables = arch::default_tables();
  const fabric::Platform platform = fabric::Platform::make(tables, instance, 1);
  if (platform.generation() != generation)
    throw Fault(FaultKind::kInput, "decoder.ranks",
                fmt::format("{} has NeuronCore-{}, and the programs are for NeuronCore-{}", instance,
                            table_key(platform.generation()), table_key(generation)),
                "a target and an instance of one generation");
  const collectives::RankCores cores = collectives::place_ranks(platform, static_cast<int>(ranks), 1, 1);
  const auto us = [&](collectives::Kind kind, int64_t bytes) {
    return collectives::summary_of(tables, platform, cores,
                                   {kind, DType::kUint8, bytes, static_cast<int>(ranks), ""})
        .us;
  };
  const auto element_bytes = static_cast<int64_t>(graph::storage_bytes(element));
  const double sum = us(collectives::Kind::kAllReduce, element_bytes * bucket.rows() * sizes.hidden);
  const int64_t results = bucket.every_token ? bucket.rows() : bucket.sequences;
  return 2 * static_cast<double>(sizes.layers) * sum +
         us(collectives::Kind::kAllGather, static_cast<int64_t>(sizeof(float)) * results * sizes.vocabulary);
}

}  // namespace opentrn::decoder
