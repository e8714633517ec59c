#include "collectives/layout.h"

#include <algorithm>
#include <map>
#include <set>

#include "collectives/rules.h"

namespace opentrn::collectives {

namespace {

// Places within each server, sorted.
std::map<int, std::vector<std::pair<int, int>>> places_by_server(const Layout& layout) {
  std::map<int, std::vector<std::pair<int, int>>> places;
  for (const Layout::Rank& rank : layout.ranks) places[rank.server].emplace_back(rank.chip, rank.slot);
  for (auto& [server, list] : places) std::ranges::sort(list);
  return places;
}

void add_server(Layout& layout, int server, int ranks, int per_chip) {
  for (int i = 0; i < ranks; ++i) layout.ranks.push_back({server, i / per_chip, i % per_chip});
}

}  // namespace

int Layout::servers() const { return static_cast<int>(places_by_server(*this).size()); }

bool Layout::symmetric() const {
  const auto places = places_by_server(*this);
  if (places.empty()) return true;
  const auto& first = places.begin()->second;
  std::map<int, int> per_chip;
  for (const auto& [chip, slot] : first) ++per_chip[chip];
  return std::ranges::all_of(places, [&](const auto& entry) { return entry.second == first; }) &&
         std::ranges::all_of(per_chip,
                             [&](const auto& entry) { return entry.second == per_chip.begin()->second; });
}

std::vector<std::vector<int>> Layout::ranks_by_server() const {
  std::map<int, std::vector<int>> by_server;
  for (int i = 0; i < static_cast<int>(ranks.size()); ++i)
    by_server[ranks[static_cast<size_t>(i)].server].push_back(i);
  std::vector<std::vector<int>> lists;
  for (auto& [server, list] : by_server) {
    std::ranges::sort(list, {}, [&](int rank) { return ranks[static_cast<size_t>(rank)]; });
    lists.push_back(std::move(list));
  }
  return lists;
}

namespace {

void check_passes(const Layout& layout) {
  if (layout.passes.empty()) return;
  std::map<int, std::set<int>> slots;  // of each chip
  for (const Layout::Rank& place : layout.ranks) slots[layout.chip_in_instance(place)].insert(place.slot);
  bool fits = layout.passes.size() == layout.cycles.size();
  for (size_t c = 0; fits && c < layout.cycles.size(); ++c) {
    fits = layout.passes[c].size() == layout.cycles[c].size();
    for (size_t i = 0; fits && i < layout.cycles[c].size(); ++i) {
      const std::vector<int>& order = layout.passes[c][i];
      const std::set<int> passed(order.begin(), order.end());
      fits = passed.size() == order.size() && passed == slots[layout.cycles[c][i]];
    }
  }
  if (!fits) refuse(Rule::kLayout, "the passes of a cycle are not the slots of each of its chips once");
}

}  // namespace

void check(const Layout& layout, int ranks) {
  if (layout.ranks.size() != static_cast<size_t>(ranks))
    refuse(Rule::kLayout, "the layout has {} places for {} ranks", layout.ranks.size(), ranks);
  std::set<Layout::Rank> places;
  std::set<int> chips;
  for (const Layout::Rank& place : layout.ranks) {
    if (place.server < 0 || place.chip < 0 || place.slot < 0)
      refuse(Rule::kLayout, "server {} chip {} slot {} is not a place", place.server, place.chip, place.slot);
    if (!places.insert(place).second)
      refuse(Rule::kLayout, "two ranks stand on server {} chip {} slot {}", place.server, place.chip,
             place.slot);
    if (!layout.adapters.empty() && place.chip >= static_cast<int>(layout.adapters.size()))
      refuse(Rule::kLayout, "chip {} has no adapter", place.chip);
    chips.insert(layout.chip_in_instance(place));
  }
  if (layout.chips_of_instance < 0)
    refuse(Rule::kLayout, "{} chips of an instance", layout.chips_of_instance);
  if (layout.rows < 1 || layout.columns < 1)
    refuse(Rule::kLayout, "a grid of {} x {} chips", layout.rows, layout.columns);
  for (const std::vector<int>& cycle : layout.cycles) {
    const std::set<int> passed(cycle.begin(), cycle.end());
    if (passed.size() != cycle.size() || passed != chips)
      refuse(Rule::kLayout, "a cycle of {} chips does not pass each of the {} chips with ranks once",
             cycle.size(), chips.size());
  }
  check_passes(layout);
}

Layout simple_layout(int ranks, int per_chip) { return simple_servers(1, ranks, per_chip); }

Layout simple_servers(int servers, int ranks_per_server, int per_chip) {
  Layout layout;
  for (int server = 0; server < servers; ++server) add_server(layout, server, ranks_per_server, per_chip);
  const int chips = (ranks_per_server + per_chip - 1) / per_chip;
  layout.cycles.emplace_back();
  for (int chip = 0; chip < chips; ++chip) layout.cycles[0].push_back(chip);
  layout.columns = chips;
  return layout;
}

Layout torus_layout(int per_chip, int servers) {
  constexpr int kChips = 16;
  Layout layout;
  for (int server = 0; server < servers; ++server) add_server(layout, server, kChips * per_chip, per_chip);
  // Chip 4 * row + column. Row by row to the right, one column further in each row; and the same with rows
  // and columns exchanged: together they use each link of the torus once in each direction.
  layout.rows = layout.columns = 4;
  layout.cycles.resize(2);
  for (int i = 0; i < kChips; ++i) {
    const int row = i / 4, column = (i % 4 + 3 * row) % 4;
    layout.cycles[0].push_back(4 * row + column);
    layout.cycles[1].push_back(4 * column + row);
  }
  return layout;
}

}  // namespace opentrn::collectives
