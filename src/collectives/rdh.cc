// RDH, recursive halving and doubling: pairs along one axis of a hypercube exchange all that they have
// gathered, then pairs along the next axis. Chips are its corners: the 4x4 torus is a cube of four
// dimensions, as the four positions of a ring are the corners of a square. Ranks of one chip exchange what
// they have in a stage of their own, by mesh: after the cube when gathering, before it when reducing.
//
// The ranks of a chip take the axes in turn, each beginning with another, so that they are never all on one
// link [assumed: AWS says that ranks contend for links "only [...] in some of the cases", and shows the order
// of one].
//
// Reducing, a rank keeps what it receives on each axis apart, and sums it with its own where that is sent or
// written next [assumed: AWS documents that it is summed, not when].
#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "collectives/two_level.h"

namespace opentrn::collectives {

namespace {

// Neighbours on a ring of 2^n positions differ in one bit of this; for 4 also the ends do.
int gray(int position) { return position ^ (position >> 1); }

bool is_power_of_two(size_t count) { return std::has_single_bit(count); }

// Members by chip, in order of slots.
std::vector<std::vector<int>> members_by_chip(const Layout& layout, const std::vector<int>& members) {
  std::map<std::pair<int, int>, std::vector<int>> chips;
  for (size_t i = 0; i < members.size(); ++i) {
    const Layout::Rank& rank = layout.ranks[static_cast<size_t>(members[i])];
    chips[{rank.server, rank.chip}].push_back(static_cast<int>(i));
  }
  std::vector<std::vector<int>> lists;
  for (auto& [chip, list] : chips) {
    std::ranges::sort(list, {}, [&](int i) {
      return layout.ranks[static_cast<size_t>(members[static_cast<size_t>(i)])].slot;
    });
    lists.push_back(std::move(list));
  }
  return lists;
}

// The member at each corner of the cube. On chips that fill a grid of powers of two, in each of 2^n instances
// of an UltraServer, bits are steps along its axes and along the cables, which go round; else the bits of the
// member's number. The lowest bit is the axis that gathering begins with: `turn` counts from the first.
std::vector<int> corners(const Layout& layout, const Exchange& exchange) {
  const std::vector<int>& members = exchange.members;
  std::set<int> rows, columns, instances, servers;
  const auto place = [&](size_t i) { return layout.ranks[static_cast<size_t>(members[i])]; };
  const auto row = [&](size_t i) { return layout.chip_in_instance(place(i)) / layout.columns; };
  const auto column = [&](size_t i) { return layout.chip_in_instance(place(i)) % layout.columns; };
  for (size_t i = 0; i < members.size(); ++i) {
    servers.insert(place(i).server);
    instances.insert(layout.instance(place(i)));
    rows.insert(row(i));
    columns.insert(column(i));
  }
  std::vector<int> at(members.size());
  const int axes = std::bit_width(members.size()) - 1, turn = axes > 0 ? exchange.turn % axes : 0;
  const auto turned = [&](int corner) {
    return (corner >> turn | corner << (axes - turn)) & (static_cast<int>(members.size()) - 1);
  };
  const bool is_grid =
      servers.size() == 1 && instances.size() * rows.size() * columns.size() == members.size() &&
      is_power_of_two(instances.size()) && is_power_of_two(rows.size()) && is_power_of_two(columns.size());
  const auto position = [](const std::set<int>& all, int one) {
    return gray(static_cast<int>(std::distance(all.begin(), all.find(one))));
  };
  for (size_t i = 0; i < members.size(); ++i) {
    const int of_instance = position(instances, layout.instance(place(i))) * static_cast<int>(rows.size()),
              of_row = (of_instance + position(rows, row(i))) * static_cast<int>(columns.size());
    at[static_cast<size_t>(turned(is_grid ? of_row + position(columns, column(i)) : static_cast<int>(i)))] =
        static_cast<int>(i);
  }
  return at;
}

// The axes, and moves within the rank.
int cube_channels(const Layout&, const std::vector<int>&) { return 2; }

void gather_on_cube(Builder& builder, const Layout& layout, const Exchange& exchange) {
  const std::vector<int> at = corners(layout, exchange);
  const int size = static_cast<int>(at.size());
  for (int axis = 0; 1 << axis < size; ++axis)
    for (int corner = 0; corner < size; ++corner) {
      const int from = at[static_cast<size_t>(corner)], to = at[static_cast<size_t>(corner ^ 1 << axis)];
      copy_ranges(builder, exchange.first_channel, exchange, exchange.source, from, to,
                  exchange.parts[static_cast<size_t>(from)]);
      Ranges gathered;
      for (int other = corner >> axis << axis; other < ((corner >> axis) + 1) << axis; ++other) {
        const Ranges& part = exchange.parts[static_cast<size_t>(at[static_cast<size_t>(other)])];
        if (other != corner) gathered.insert(gathered.end(), part.begin(), part.end());
      }
      copy_ranges(builder, exchange.first_channel, exchange, exchange.target, from, to,
                  joined_ranges(std::move(gathered)));
    }
  keep_own_parts(builder, exchange, exchange.first_channel + 1);
}

void reduce_on_cube(Builder& builder, const Layout& layout, const Exchange& exchange) {
  const std::vector<int> at = corners(layout, exchange);
  const int size = static_cast<int>(at.size()), axes = std::bit_width(at.size()) - 1;
  int64_t largest = 0;
  for (const Ranges& part : exchange.parts) largest = std::max(largest, bytes_of(part));
  // What is received along each axis: the parts of all corners that are still to be halved.
  std::vector<int64_t> received;
  for (int axis = 0; axis < axes; ++axis) received.push_back(builder.scratch(largest << axis));
  // `packed` bytes into the part of corner `owner`, as received along an axis.
  const auto slot = [&](int axis, int owner, int64_t packed) {
    return Slice{Buffer::kScratch,
                 received[static_cast<size_t>(axis)] + (owner & ((1 << axis) - 1)) * largest + packed};
  };
  // Sends or keeps the sum of the part of `owner` as far as `corner` has it, with all received along the axes
  // above.
  const auto sum_to = [&](int corner, int owner, int axis, auto target) {
    const int member = at[static_cast<size_t>(corner)], rank = exchange.members[static_cast<size_t>(member)];
    int64_t packed = 0;
    for (const Range& range : exchange.parts[static_cast<size_t>(at[static_cast<size_t>(owner)])]) {
      std::vector<At> sources = {{rank, exchange.source(member, range.offset)}};
      for (int above = axes - 1; above > axis; --above) sources.push_back({rank, slot(above, owner, packed)});
      builder.combine(exchange.first_channel, sources, target(range, packed), range.bytes);
      packed += range.bytes;
    }
  };
  for (int axis = axes - 1; axis >= 0; --axis)
    for (int corner = 0; corner < size; ++corner) {
      const int partner = corner ^ 1 << axis;
      const int to = exchange.members[static_cast<size_t>(at[static_cast<size_t>(partner)])];
      for (int owner = partner >> axis << axis; owner < ((partner >> axis) + 1) << axis; ++owner)
        sum_to(corner, owner, axis, [&](const Range&, int64_t packed) {
          return At{to, slot(axis, owner, packed)};
        });
    }
  for (int corner = 0; corner < size; ++corner) {
    const int member = at[static_cast<size_t>(corner)];
    sum_to(corner, corner, -1, [&](const Range& range, int64_t) {
      return At{exchange.members[static_cast<size_t>(member)], exchange.target(member, range.offset)};
    });
  }
}

const ExchangeAlgorithm& cube_exchange() {
  static const ExchangeAlgorithm kCube{"rdh", {}, cube_channels, gather_on_cube, reduce_on_cube};
  return kCube;
}

TwoLevel two_levels_of(const Layout& layout, const std::vector<int>& members) {
  return {members_by_chip(layout, members), &cube_exchange(), &mesh_exchange()};
}

std::string why_not_rdh(const Layout& layout, const std::vector<int>& members) {
  const auto chips = members_by_chip(layout, members);
  if (!is_power_of_two(chips.size())) return fmt::format("{} chips are not a power of two", chips.size());
  for (const auto& chip : chips)
    if (chip.size() != chips[0].size()) return "the chips have different numbers of ranks";
  return "";
}

}  // namespace

const ExchangeAlgorithm& rdh_exchange() {
  static const ExchangeAlgorithm kRdh{
      "rdh", why_not_rdh,
      [](const Layout& layout, const std::vector<int>& members) {
        return channels_of(two_levels_of(layout, members), layout, members);
      },
      [](Builder& builder, const Layout& layout, const Exchange& exchange) {
        gather_two_level(builder, layout, exchange, two_levels_of(layout, exchange.members));
      },
      [](Builder& builder, const Layout& layout, const Exchange& exchange) {
        reduce_two_level(builder, layout, exchange, two_levels_of(layout, exchange.members));
      }};
  return kRdh;
}

}  // namespace opentrn::collectives
