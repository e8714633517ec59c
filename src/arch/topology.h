// Which chips are wired to which.
//
// A topology is a rule, not a list: a torus of any number of dimensions (a ring is a torus of one), a chain,
// or one of the two switched fabrics of Trn3, which tables/fabric.toml describes. Chip ids count along the
// last dimension first, as neuron-ls does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/fact.h"

namespace opentrn::arch {

struct Topology {
  std::string name;                      // "torus_4x4"
  Spec<std::string> rule;                // "single", "torus", "chain", "paired_switches", "two_level_switch"
  Spec<std::vector<double>> dimensions;  // torus: chips per axis; switches: groups from outer to inner

  int chips() const;
  // Chips that are wired to this one directly or by one switch. In neuron-ls order on a torus and a chain:
  // the previous chip along each axis, then the next; by number elsewhere. kInput when `chip` is out of
  // range.
  std::vector<int> neighbours(int chip) const;
  // Links and switches on the shortest way.
  int distance(int from, int to) const;
  bool switched() const;

  std::vector<int> sizes() const;
  std::vector<int> coordinates(int chip) const;
  int id(const std::vector<int>& coordinates) const;

 private:
  int switched_distance(const std::vector<int>& from, const std::vector<int>& to) const;
};

}  // namespace opentrn::arch
