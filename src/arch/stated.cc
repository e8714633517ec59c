#include "arch/stated.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"

namespace opentrn::arch {

namespace {

// Of the values that some generation leaves unknown: what the backend and the timing model read.
constexpr std::array kCoreValues = {"partitions",
                                    "sbuf_bytes_per_partition",
                                    "psum_bytes_per_partition",
                                    "psum_banks",
                                    "psum_bank_bytes_per_partition",
                                    "tensor_rows",
                                    "tensor_columns",
                                    "tensor_clock_ghz",
                                    "vector_clock_ghz",
                                    "scalar_clock_ghz",
                                    "vector_gpsimd_share_sbuf_port",
                                    "vector_scalar_share_psum_port",
                                    "dma_engines",
                                    "dma_engine_gb_s"};

std::vector<const Fact*> needed(const Tables& tables, Generation generation) {
  std::vector<const Fact*> facts;
  for (const char* name : kCoreValues)
    facts.push_back(&tables.facts().at(fmt::format("neuron_core.{}.{}", table_key(generation), name)));
  for (const Fact* fact : tables.facts().under(fmt::format("timing.{}.constant", table_key(generation))))
    facts.push_back(fact);
  return facts;
}

}  // namespace

Generation stand_in(Generation generation) {
  return generation == Generation::kV1 ? Generation::kV2 : generation;
}

std::vector<std::string> unstated(const Tables& tables, Generation generation) {
  std::vector<std::string> keys;
  for (const Fact* fact : needed(tables, generation))
    if (!fact->known()) keys.push_back(fact->key);
  return keys;
}

void expect_stated(const Tables& tables, Generation generation) {
  const std::vector<std::string> keys = unstated(tables, generation);
  if (keys.empty()) return;
  std::string settings;
  for (const std::string& key : keys) settings += fmt::format(" --set {}=<value>", key);
  throw Fault(FaultKind::kUnspecified, fmt::format("neuron_core.{}", table_key(generation)),
              fmt::format("no public source gives {} needed values", keys.size()),
              fmt::format("state them for a what-if run:{}; or leave the time out (--no-time)", settings));
}

std::vector<std::string> assumptions(const Tables& tables, Generation generation) {
  const Generation from = stand_in(generation);
  std::vector<const Fact*> facts =
      tables.facts().under(fmt::format("timing.{}.instruction", table_key(generation)));
  std::vector<std::string> stated, texts;
  if (from != generation) {
    texts.push_back(
        fmt::format("instructions, their rules and their cycles are those of {}: AWS publishes none for {}",
                    name(from), name(generation)));
    const std::vector<const Fact*> of_machine = needed(tables, generation);
    facts.insert(facts.end(), of_machine.begin(), of_machine.end());
  }
  for (const Fact* fact : facts)
    if (fact->known() && !default_tables().facts().at(fact->key).known())
      stated.push_back(fmt::format("{} = {}", fact->key, to_string(fact->value)));
  if (!stated.empty()) texts.push_back(fmt::format("stated by the user: {}", fmt::join(stated, ", ")));
  return texts;
}

bool has_engine(const TimingTable& table, std::string_view engine) {
  if (engine == "sync") return true;
  const auto engines = table.constant_fact("engines").as<std::vector<std::string>>();
  return std::ranges::find(engines, engine) != engines.end();
}

}  // namespace opentrn::arch
