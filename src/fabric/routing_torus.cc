#include "fabric/routing.h"

#include <numeric>

namespace opentrn::fabric {

int Grid::chips() const {
  return std::accumulate(sizes.begin(), sizes.end(), 1, [](int a, int b) { return a * b; });
}

std::vector<int> Grid::coordinates(int chip) const {
  std::vector<int> out(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 0;) {
    out[axis] = chip % sizes[axis];
    chip /= sizes[axis];
  }
  return out;
}

int Grid::id(const std::vector<int>& at) const {
  int out = 0;
  for (size_t axis = 0; axis < sizes.size(); ++axis) out = out * sizes[axis] + at[axis];
  return out;
}

Wiring torus_wiring(const Grid& grid) {
  Wiring out{grid.chips(), {}};
  for (int chip = 0; chip < out.vertices; ++chip)
    for (size_t axis = 0; axis < grid.sizes.size(); ++axis)
      for (int step : {-1, 1}) {
        const int n = grid.sizes[axis];
        std::vector<int> at = grid.coordinates(chip);
        const int next = at[axis] + step;
        // Round an axis of two there is one wire, not two.
        if ((!grid.closed || n == 2) && (next < 0 || next >= n)) continue;
        if (n == 1) continue;
        at[axis] = (next + n) % n;
        const bool outer = grid.across_instances && axis == 0;
        out.wires.push_back({chip, grid.id(at), outer ? WireKind::kUltraServer : WireKind::kNeuronLink});
      }
  return out;
}

namespace {

// Extends each way along one axis, in both directions where they are equally long.
std::vector<Way> along(const Grid& grid, const std::vector<Way>& ways, size_t axis, int to) {
  const int n = grid.sizes[axis];
  std::vector<Way> out;
  for (const Way& way : ways) {
    const std::vector<int> at = grid.coordinates(way.vertices.back());
    const int forward = grid.closed ? (to - at[axis] + n) % n : to - at[axis];
    std::vector<int> steps;  // signed numbers of links
    if (forward == 0) {
      out.push_back(way);
      continue;
    }
    if (!grid.closed || 2 * forward < n || n == 2)
      steps = {forward};
    else if (2 * forward > n)
      steps = {forward - n};
    else
      steps = {forward, forward - n};
    for (int step : steps) {
      Way longer{way.vertices, way.share / static_cast<int32_t>(steps.size())};
      std::vector<int> next = at;
      for (int i = 0; i < std::abs(step); ++i) {
        next[axis] = (next[axis] + (step > 0 ? 1 : n - 1)) % n;
        longer.vertices.push_back(grid.id(next));
      }
      out.push_back(std::move(longer));
    }
  }
  return out;
}

}  // namespace

std::vector<Way> torus_ways(const Grid& grid, int from, int to) {
  const std::vector<int> target = grid.coordinates(to);
  std::vector<Way> ways = {{{from}, kWholeShare}};
  for (size_t axis = grid.sizes.size(); axis-- > 0;) ways = along(grid, ways, axis, target[axis]);
  return ways;
}

}  // namespace opentrn::fabric
