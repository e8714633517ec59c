#include "arch/stated.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace opentrn::arch {

Generation stand_in(Generation generation) {
  return generation == Generation::kV1 ? Generation::kV2 : generation;
}

std::vector<std::string> assumptions(const Tables& tables, Generation generation) {
  const Generation from = stand_in(generation);
  std::vector<std::string> stated, texts;
  if (from != generation)
    texts.push_back(
        fmt::format("instructions, their rules and cycles and the memories are those of {}, at the rates "
                    "that AWS publishes of {}",
                    name(from), name(generation)));
  for (const Fact* fact : tables.facts().under(fmt::format("timing.{}.instruction", table_key(generation))))
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
