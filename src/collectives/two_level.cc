#include "collectives/two_level.h"

#include <algorithm>

namespace opentrn::collectives {

namespace {

int index_count(const TwoLevel& levels) { return static_cast<int>(levels.sites[0].size()); }

std::vector<int> ranks_of(const std::vector<int>& chosen, const std::vector<int>& members) {
  std::vector<int> ranks;
  for (const int member : chosen) ranks.push_back(members[static_cast<size_t>(member)]);
  return ranks;
}

// Those of one index, at all sites.
std::vector<int> across(const TwoLevel& levels, int index) {
  std::vector<int> chosen;
  for (const auto& site : levels.sites) chosen.push_back(site[static_cast<size_t>(index)]);
  return chosen;
}

View view_for(const View& view, const std::vector<int>& chosen) {
  return [view, chosen](int member, int64_t position) {
    return view(chosen[static_cast<size_t>(member)], position);
  };
}

// What the members of one index of all sites bring or own together.
Ranges parts_across(const Exchange& exchange, const TwoLevel& levels, int index) {
  Ranges all;
  for (const int member : across(levels, index)) {
    const Ranges& part = exchange.parts[static_cast<size_t>(member)];
    all.insert(all.end(), part.begin(), part.end());
  }
  return joined_ranges(std::move(all));
}

Exchange exchange_within(const Exchange& exchange, const TwoLevel& levels, const std::vector<int>& site) {
  Exchange part;
  part.members = ranks_of(site, exchange.members);
  for (int index = 0; index < index_count(levels); ++index)
    part.parts.push_back(parts_across(exchange, levels, index));
  part.source = view_for(exchange.source, site);
  part.target = view_for(exchange.target, site);
  part.first_channel = exchange.first_channel;
  return part;
}

Exchange exchange_between(const Layout& layout, const Exchange& exchange, const TwoLevel& levels, int index) {
  const std::vector<int> chosen = across(levels, index);
  Exchange part;
  part.members = ranks_of(chosen, exchange.members);
  for (const int member : chosen)
    part.parts.push_back(joined_ranges(exchange.parts[static_cast<size_t>(member)]));
  part.source = view_for(exchange.source, chosen);
  part.target = view_for(exchange.target, chosen);
  part.first_channel =
      exchange.first_channel + levels.within->channels(layout, ranks_of(levels.sites[0], exchange.members));
  part.turn = index;
  return part;
}

}  // namespace

int channels_of(const TwoLevel& levels, const Layout& layout, const std::vector<int>& members) {
  return levels.within->channels(layout, ranks_of(levels.sites[0], members)) +
         levels.between->channels(layout, ranks_of(across(levels, 0), members));
}

void gather_between(Builder& builder, const Layout& layout, const Exchange& exchange,
                    const TwoLevel& levels) {
  for (int index = 0; index < index_count(levels); ++index)
    levels.between->gather(builder, layout, exchange_between(layout, exchange, levels, index));
}

void gather_within(Builder& builder, const Layout& layout, const Exchange& exchange, const TwoLevel& levels) {
  for (const auto& site : levels.sites) {
    Exchange part = exchange_within(exchange, levels, site);
    part.source = part.target;
    levels.within->gather(builder, layout, part);
  }
}

std::vector<View> reduce_within(Builder& builder, const Layout& layout, const Exchange& exchange,
                                const TwoLevel& levels) {
  std::vector<Ranges> owned;
  int64_t largest = 0;
  for (int index = 0; index < index_count(levels); ++index) {
    owned.push_back(parts_across(exchange, levels, index));
    largest = std::max(largest, bytes_of(owned.back()));
  }
  const int64_t offset = builder.scratch(largest);
  std::vector<View> partial;
  for (const Ranges& ranges : owned) partial.push_back(packed_view(offset, ranges));
  for (const auto& site : levels.sites) {
    Exchange part = exchange_within(exchange, levels, site);
    part.target = [&partial](int member, int64_t position) {
      return partial[static_cast<size_t>(member)](member, position);
    };
    levels.within->reduce(builder, layout, part);
  }
  return partial;
}

void reduce_between(Builder& builder, const Layout& layout, const Exchange& exchange, const TwoLevel& levels,
                    const std::vector<View>& partial) {
  for (int index = 0; index < index_count(levels); ++index) {
    Exchange part = exchange_between(layout, exchange, levels, index);
    part.source = partial[static_cast<size_t>(index)];
    levels.between->reduce(builder, layout, part);
  }
}

// One site, or sites of one member, need one level only.
void gather_two_level(Builder& builder, const Layout& layout, const Exchange& exchange,
                      const TwoLevel& levels) {
  if (levels.sites.size() == 1)
    return levels.within->gather(builder, layout, exchange_within(exchange, levels, levels.sites[0]));
  gather_between(builder, layout, exchange, levels);
  if (index_count(levels) > 1) gather_within(builder, layout, exchange, levels);
}

void reduce_two_level(Builder& builder, const Layout& layout, const Exchange& exchange,
                      const TwoLevel& levels) {
  if (levels.sites.size() == 1)
    return levels.within->reduce(builder, layout, exchange_within(exchange, levels, levels.sites[0]));
  if (index_count(levels) == 1)
    return levels.between->reduce(builder, layout, exchange_between(layout, exchange, levels, 0));
  reduce_between(builder, layout, exchange, levels, reduce_within(builder, layout, exchange, levels));
}

}  // namespace opentrn::collectives
