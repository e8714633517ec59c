#include "arch/topology.h"

#include <algorithm>
#include <numeric>

namespace opentrn::arch {

std::vector<int> Topology::sizes() const {
  std::vector<int> out;
  for (double size : dimensions.value()) out.push_back(static_cast<int>(size));
  return out;
}

int Topology::chips() const {
  const std::vector<int> n = sizes();
  return std::accumulate(n.begin(), n.end(), 1, [](int a, int b) { return a * b; });
}

std::vector<int> Topology::coordinates(int chip) const {
  if (chip < 0 || chip >= chips())
    throw Fault(FaultKind::kInput, "arch.name", fmt::format("chip {} is not in topology '{}'", chip, name),
                fmt::format("use 0 to {}", chips() - 1));
  std::vector<int> n = sizes();
  std::vector<int> out(n.size());
  for (size_t axis = n.size(); axis-- > 0;) {
    out[axis] = chip % n[axis];
    chip /= n[axis];
  }
  return out;
}

int Topology::id(const std::vector<int>& coordinates) const {
  const std::vector<int> n = sizes();
  int out = 0;
  for (size_t axis = 0; axis < n.size(); ++axis) out = out * n[axis] + coordinates[axis];
  return out;
}

namespace {

void add_once(std::vector<int>& list, int chip) {
  if (std::find(list.begin(), list.end(), chip) == list.end()) list.push_back(chip);
}

}  // namespace

bool Topology::switched() const {
  return rule.value() == "paired_switches" || rule.value() == "two_level_switch";
}

std::vector<int> Topology::neighbours(int chip) const {
  const std::vector<int> at = coordinates(chip);
  const std::vector<int> n = sizes();
  std::vector<int> out;
  if (switched()) {
    for (int other = 0; other < chips(); ++other)
      if (distance(chip, other) == 1) out.push_back(other);
    return out;
  }
  const bool closed = rule.value() != "chain";
  for (int step : {-1, 1}) {
    for (size_t axis = 0; axis < n.size(); ++axis) {
      std::vector<int> next = at;
      next[axis] = at[axis] + step;
      if (!closed && (next[axis] < 0 || next[axis] >= n[axis])) continue;
      next[axis] = (next[axis] + n[axis]) % n[axis];
      if (const int other = id(next); other != chip) add_once(out, other);
    }
  }
  return out;
}

// One link to the other rack; within a rack one switch, and before it the link of the sled where the chips
// are on different switches.
int Topology::switched_distance(const std::vector<int>& a, const std::vector<int>& b) const {
  const int racks = a[0] != b[0] ? 1 : 0;
  if (rule.value() == "two_level_switch") return racks + (a[1] != b[1] || a[2] != b[2] ? 1 : 0);
  const bool other_sled = a[1] != b[1] || a[2] != b[2];
  return racks + (a[3] != b[3] ? 1 : 0) + (other_sled ? 1 : 0);
}

int Topology::distance(int from, int to) const {
  const std::vector<int> a = coordinates(from), b = coordinates(to), n = sizes();
  if (switched()) return switched_distance(a, b);
  int links = 0;
  for (size_t axis = 0; axis < n.size(); ++axis) {
    const int along = std::abs(a[axis] - b[axis]);
    links += rule.value() == "chain" ? along : std::min(along, n[axis] - along);
  }
  return links;
}

}  // namespace opentrn::arch
