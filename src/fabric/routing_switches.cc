#include "fabric/routing.h"

namespace opentrn::fabric {

namespace {

void join(Wiring& wiring, int a, int b, WireKind kind) {
  wiring.wires.push_back({a, b, kind});
  wiring.wires.push_back({b, a, kind});
}

// The links between the chips of the same place in the racks, each with the next.
void join_racks(Wiring& wiring, const Grid& grid) {
  const int racks = grid.sizes[0], per_rack = grid.chips() / racks;
  for (int rack = 0; rack + 1 < racks; ++rack)
    for (int chip = 0; chip < per_rack; ++chip)
      join(wiring, rack * per_rack + chip, (rack + 1) * per_rack + chip, WireKind::kRack);
}

// The first part of a way: to the chip of the same place in the destination's rack.
Way to_rack(const Grid& grid, int from, int to) {
  const int per_rack = grid.chips() / grid.sizes[0];
  Way way{{from}, kWholeShare};
  while (way.vertices.back() / per_rack != to / per_rack)
    way.vertices.push_back(way.vertices.back() + (to / per_rack > from / per_rack ? per_rack : -per_rack));
  return way;
}

}  // namespace

// Axes: rack, server of the rack, sled, side. Two switches a rack, left and right.
Wiring paired_switches_wiring(const Grid& grid) {
  const int chips = grid.chips(), racks = grid.sizes[0];
  Wiring out{chips + 2 * racks, {}};
  for (int chip = 0; chip < chips; ++chip) {
    const int side = chip % 2, rack = chip / (chips / racks);
    if (side == 0) join(out, chip, chip + 1, WireKind::kNear);
    join(out, chip, chips + 2 * rack + side, WireKind::kSwitch);
  }
  join_racks(out, grid);
  return out;
}

std::vector<Way> paired_switches_ways(const Grid& grid, int from, int to) {
  const int chips = grid.chips(), per_rack = chips / grid.sizes[0];
  Way way = to_rack(grid, from, to);
  if (way.vertices.back() % 2 != to % 2) way.vertices.push_back(way.vertices.back() ^ 1);
  if (way.vertices.back() != to) {
    way.vertices.push_back(chips + 2 * (to / per_rack) + to % 2);
    way.vertices.push_back(to);
  }
  return {way};
}

// Axes: rack, server of the rack, chip. The switches of the servers stand before those of the racks.
Wiring two_level_switch_wiring(const Grid& grid) {
  const int chips = grid.chips(), racks = grid.sizes[0], servers = racks * grid.sizes[1];
  Wiring out{chips + servers + (grid.sizes[1] > 1 ? racks : 0), {}};
  for (int chip = 0; chip < chips; ++chip) {
    join(out, chip, chips + chip / grid.sizes[2], WireKind::kNear);
    if (grid.sizes[1] > 1) join(out, chip, chips + servers + chip / (chips / racks), WireKind::kSwitch);
  }
  join_racks(out, grid);
  return out;
}

std::vector<Way> two_level_switch_ways(const Grid& grid, int from, int to) {
  const int chips = grid.chips(), racks = grid.sizes[0], servers = racks * grid.sizes[1];
  Way way = to_rack(grid, from, to);
  const int at = way.vertices.back(), server = to / grid.sizes[2];
  if (at != to) {
    way.vertices.push_back(at / grid.sizes[2] == server ? chips + server
                                                        : chips + servers + to / (chips / racks));
    way.vertices.push_back(to);
  }
  return {way};
}

}  // namespace opentrn::fabric
