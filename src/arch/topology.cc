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
    throw Fault(FaultKind::kInput, "", fmt::format("chip {} is not in topology '{}'", chip, name),
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

std::vector<int> Topology::neighbours(int chip) const {
  const std::vector<int> at = coordinates(chip);
  const std::vector<int> n = sizes();
  std::vector<int> out;
  if (rule.value() == "switch") {
    const int group = n.back();
    const int first = chip / group * group;
    for (int other = first; other < first + group; ++other)
      if (other != chip) out.push_back(other);
    return out;
  }
  for (int step : {-1, 1}) {
    for (size_t axis = 0; axis < n.size(); ++axis) {
      std::vector<int> next = at;
      next[axis] = (at[axis] + step + n[axis]) % n[axis];
      if (const int other = id(next); other != chip) add_once(out, other);
    }
  }
  return out;
}

int Topology::distance(int from, int to) const {
  const std::vector<int> a = coordinates(from), b = coordinates(to), n = sizes();
  if (rule.value() == "switch") {
    for (size_t level = 0; level < n.size(); ++level)
      if (a[level] != b[level]) return static_cast<int>(n.size() - level);
    return 0;
  }
  int links = 0;
  for (size_t axis = 0; axis < n.size(); ++axis) {
    const int along = std::abs(a[axis] - b[axis]);
    links += std::min(along, n[axis] - along);
  }
  return links;
}

}  // namespace opentrn::arch
