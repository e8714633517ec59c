// Where the ranks of a group stand, as far as algorithms care: which share a chip, a server, which rings
// there are. Made from a fabric::Platform, or by hand in tests.
#pragma once

#include <vector>

namespace opentrn::collectives {

struct Layout {
  struct Rank {
    int server = 0;
    int chip = 0;  // within the server
    int slot = 0;  // within the chip: 0, 1, ... of the ranks of this group on it
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  std::vector<Rank> ranks;
  // Closed ways through chips that hold ranks of the group, as rings use them, within each server (the same
  // in all): chips in order; each is walked in both directions. Empty: a ring goes by the ranks' numbers.
  std::vector<std::vector<int>> cycles;
  // Of each of them and each chip on it: the slots of its ranks in the order in which a ring passes them,
  // from those at the link that it comes by to those at the link that it leaves by. Empty: by number, as
  // where any core of a chip reaches any link.
  std::vector<std::vector<std::vector<int>>> passes;
  // Chips of a server as a grid, for algorithms by axes: 4, 4 on a torus; 1, n elsewhere.
  int rows = 1, columns = 1;
  // Not 0: a server is an UltraServer, of instances of so many chips, of which each that has ranks has them
  // at the same chips. Cycles, passes and the grid are then those of each instance, and number its chips from
  // 0. Cables join a chip to those of its number in the next instance and the one before, round the
  // UltraServer.
  int chips_of_instance = 0;
  // Of each chip of a server, by number: the adapter by which it reaches other servers. Empty: not known, or
  // there is one server; each chip may have its own.
  std::vector<int> adapters;

  int instance(const Rank& rank) const { return chips_of_instance > 0 ? rank.chip / chips_of_instance : 0; }
  int chip_in_instance(const Rank& rank) const {
    return chips_of_instance > 0 ? rank.chip % chips_of_instance : rank.chip;
  }
  int servers() const;
  // The same number of ranks on each server, and on each chip that has any, at the same chips and slots.
  bool symmetric() const;
  // The ranks of each server, by chip and slot: [server][index]. Servers in order of their numbers.
  std::vector<std::vector<int>> ranks_by_server() const;
};

// An input fault (collectives.layout) when two ranks stand in one place, a cycle is none, or the number of
// ranks is not that of the request.
void check(const Layout& layout, int ranks);

// All ranks on one server, `per_chip` on each chip, chips in order, in a ring.
Layout simple_layout(int ranks, int per_chip = 1);
// The same on each of `servers`.
Layout simple_servers(int servers, int ranks_per_server, int per_chip = 1);
// The 4x4 torus of Trn1 and Trn2, `per_chip` ranks on each of the 16 chips of each server: two cycles that
// share no link.
Layout torus_layout(int per_chip, int servers = 1);

}  // namespace opentrn::collectives
