#include "collectives/levels.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "collectives/rules.h"

namespace opentrn::collectives {

namespace {

void add_levels(std::vector<Level>& levels, const std::string& name, int size, bool between_pods) {
  if (size == 1) return;
  if (name != "rdh") {
    levels.push_back({size, name, between_pods});
    return;
  }
  if (!std::has_single_bit(static_cast<unsigned>(size)))
    refuse(Rule::kAlgorithm, "rdh on {} units, which are not a power of two", size);
  for (; size > 1; size /= 2) levels.push_back({2, "ring", between_pods});
}

// AWS documents rdh for 2^n units, else a ring, and mesh for small messages, and no level above that. A ring
// of thousands, or a mesh, would take one step after the other for each of them, so that more than this many
// units become several levels [assumed].
constexpr int kOneLevelMax = 16;

// The size of the next level of `units`: all of them where they are few or, for rdh, 2^n; else their power of
// two, then the largest divisor of few, then the least one.
int level_of(int units, bool mesh) {
  if (units <= kOneLevelMax) return units;
  const int even = units & -units;
  if (!mesh && even > 1) return even;
  for (int size = kOneLevelMax; size > 1; --size)
    if (units % size == 0) return size;
  int size = kOneLevelMax + 1;
  while (units % size != 0) ++size;
  return size;
}

}  // namespace

std::string collective_facts(const arch::Tables& tables, Generation generation) {
  for (const std::string& target : tables.facts().items("collective"))
    if (tables.resolve_target(target) == generation) return fmt::format("collective.{}.", target);
  refuse(Rule::kServes, "{} has no collectives", name(generation));
}

bool is_for_mesh(const arch::Tables& tables, Generation generation, int64_t message) {
  const std::string facts = collective_facts(tables, generation);
  const auto fact = [&](const char* name) { return tables.facts().optional_spec<int64_t>(facts + name); };
  const auto most = fact("mesh_bytes_max");
  return most.known() && message <= most.value();
}

void add_levels_by_default(std::vector<Level>& levels, int units, bool mesh, bool between_pods) {
  for (int left = units; left > 1;) {
    const int size = level_of(left, mesh);
    const bool halves = std::has_single_bit(static_cast<unsigned>(size));
    add_levels(levels, mesh ? "mesh" : halves ? "rdh" : "ring", size, between_pods);
    left /= size;
  }
}

void add_levels_of_ranks(std::vector<Level>& levels, int ranks, bool mesh) {
  // By halves all pairs of the first level would send at once what a ring sends step by step, and those that
  // go between units meet on few adapters: twice the time of a ring for 20 MB on 32 ranks of three
  // trn1.32xlarge.
  const int first = level_of(ranks, true);
  add_levels(levels, mesh ? "mesh" : "ring", first, false);
  add_levels_by_default(levels, ranks / first, mesh, false);
}

std::vector<Level> levels_by_default(int units, int pod_units, bool mesh) {
  std::vector<Level> levels;
  const int inner = pod_units > 0 ? pod_units : units;
  add_levels_by_default(levels, inner, mesh, false);
  add_levels_by_default(levels, units / inner, mesh, true);
  return levels;
}

std::vector<Level> levels_of(const std::string& text, int units, int pod_units) {
  std::vector<Level> levels;
  int64_t product = 1;
  for (size_t at = 0; at <= text.size();) {
    const size_t comma = std::min(text.find(',', at), text.size());
    const std::string one = text.substr(at, comma - at);
    const size_t colon = one.find(':');
    int size = 0;
    const char* end = one.data() + one.size();
    if (colon == std::string::npos || std::from_chars(one.data() + colon + 1, end, size).ptr != end ||
        size < 2)
      refuse(Rule::kAlgorithm, "'{}' is not a level; write ring:49", one);
    const bool between = pod_units > 0 && product >= pod_units;
    if (pod_units > 0 && !between && pod_units % (product * size) != 0)
      refuse(Rule::kAlgorithm, "levels '{}' do not end at the {} units of a pod", text, pod_units);
    add_levels(levels, one.substr(0, colon), size, between);
    product *= size;
    if (product > units) break;
    at = comma + 1;
  }
  if (product != units)
    refuse(Rule::kAlgorithm, "levels '{}' are of {} units together, and there are {}", text, product, units);
  return levels;
}

}  // namespace opentrn::collectives
