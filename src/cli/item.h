// Anything `describe` can be asked about, found by name: what it is, where its facts stand.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.h"

namespace opentrn::cli {

struct Item {
  std::string kind;  // "instance", "chip", ..., "table" for any other part of the tables
  std::string name;
  std::vector<std::string> prefixes;  // of its facts: "instance.trn2.48xlarge", "price.trn2.48xlarge"
  std::optional<arch::Totals> totals;
  const arch::Topology* topology = nullptr;
  const arch::TimingTable* timing = nullptr;
};

// By name in any letter case, by a target such as "trn2", by a key prefix such as "collective.trn2", or by
// the whole key of one value; kInput with the nearest names otherwise.
Item find_item(const arch::Tables& tables, std::string_view name);

// The facts of a prefix: those below it, or the one it names.
std::vector<const arch::Fact*> facts_of(const arch::Tables& tables, const std::string& prefix);

}  // namespace opentrn::cli
