// Which chips are wired to which.
//
// A topology is a rule, not a list: a torus of any number of dimensions (a ring is a torus of one), or
// a switched fabric of nested groups in which every chip reaches every other. Chip ids count along the
// last dimension first, as neuron-ls does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "arch/fact.h"

namespace opentrn::arch {

struct Topology {
  std::string name;                      // "torus_4x4"
  Spec<std::string> rule;                // "single", "torus" or "switch"
  Spec<std::vector<double>> dimensions;  // torus: chips per axis; switch: groups from outer to inner

  int chips() const;
  // Directly wired chips, in neuron-ls order: the previous chip along each axis, then the next. For a
  // switch, the chips of the same innermost group. kInput when `chip` is out of range.
  std::vector<int> neighbours(int chip) const;
  // Links (torus) or switch levels (switch) on the shortest way.
  int distance(int from, int to) const;

 private:
  std::vector<int> sizes() const;
  std::vector<int> coordinates(int chip) const;
  int id(const std::vector<int>& coordinates) const;
};

}  // namespace opentrn::arch
