#include <algorithm>

#include "fabric/platform_state.h"

namespace opentrn::fabric {

namespace {

// Looks for cycles from vertex 0 in order of the vertices' numbers, so that the result does not depend on the
// order of neighbours. A server has 16 chips at most.
class Search {
 public:
  explicit Search(const std::vector<std::vector<int>>& neighbours)
      : n_(static_cast<int>(neighbours.size())),
        free_(neighbours.size(), std::vector<bool>(neighbours.size())) {
    for (int a = 0; a < n_; ++a)
      for (int b : neighbours[static_cast<size_t>(a)]) edge(a, b, true);
  }

  std::vector<std::vector<int>> run(int count) {
    std::vector<std::vector<int>> out;
    // As many as there are, up to `count`.
    for (; count > 0 && out.empty(); --count) {
      found_.clear();
      if (cycles(count)) out = found_;
    }
    return out;
  }

 private:
  void edge(int a, int b, bool free) {
    free_[static_cast<size_t>(a)][static_cast<size_t>(b)] = free;
    free_[static_cast<size_t>(b)][static_cast<size_t>(a)] = free;
  }
  bool is_free(int a, int b) const { return free_[static_cast<size_t>(a)][static_cast<size_t>(b)]; }

  bool cycles(int count) {
    if (count == 0) return true;
    std::vector<int> way = {0};
    std::vector<bool> visited(static_cast<size_t>(n_));
    visited[0] = true;
    return extend(way, visited, count);
  }

  bool extend(std::vector<int>& way, std::vector<bool>& visited, int count) {
    const int at = way.back();
    if (static_cast<int>(way.size()) == n_) {
      // One of the two directions is enough.
      if (!is_free(at, 0) || (n_ > 2 && way[1] > at)) return false;
      const std::vector<int> whole = way;
      edge(at, 0, false);
      found_.push_back(whole);
      if (cycles(count - 1)) return true;
      found_.pop_back();
      edge(at, 0, true);
      return false;
    }
    for (int next = 1; next < n_; ++next) {
      if (visited[static_cast<size_t>(next)] || !is_free(at, next)) continue;
      // The edge of a cycle of two is used in both directions; it closes itself.
      if (n_ > 2) edge(at, next, false);
      visited[static_cast<size_t>(next)] = true;
      way.push_back(next);
      if (extend(way, visited, count)) return true;
      way.pop_back();
      visited[static_cast<size_t>(next)] = false;
      edge(at, next, true);
    }
    return false;
  }

  int n_;
  std::vector<std::vector<bool>> free_;
  std::vector<std::vector<int>> found_;
};

}  // namespace

std::vector<std::vector<int>> disjoint_cycles(const std::vector<std::vector<int>>& neighbours, int count) {
  if (neighbours.size() < 2) return {};
  return Search(neighbours).run(count);
}

std::vector<std::vector<int>> staircases(int side) {
  std::vector<std::vector<int>> out(2);
  for (int row = 0; row < side; ++row)
    for (int i = 0; i < side; ++i) {
      const int column = (i + (side - 1) * row) % side;
      out[0].push_back(side * row + column);
      out[1].push_back(side * column + row);
    }
  return out;
}

std::vector<std::vector<int>> Platform::cycles(std::vector<int> chips) const {
  std::sort(chips.begin(), chips.end());
  chips.erase(std::unique(chips.begin(), chips.end()), chips.end());
  std::vector<std::vector<int>> among(chips.size());
  for (size_t i = 0; i < chips.size(); ++i)
    for (int other : neighbours(chips[i])) {
      const auto found = std::lower_bound(chips.begin(), chips.end(), other);
      if (found != chips.end() && *found == other)
        among[i].push_back(static_cast<int>(found - chips.begin()));
    }
  // A chip has one port to its switch, which a second cycle would share.
  const int count = state_->rule == Rule::kTorus && chips.size() > 2 ? 2 : 1;
  const std::vector<int>& sizes = state_->server_grid.sizes;
  const bool is_square = state_->rule == Rule::kTorus && state_->server_grid.closed && sizes.size() == 2 &&
                         sizes[0] == sizes[1] && sizes[0] > 2;
  if (is_square && static_cast<int>(chips.size()) == sizes[0] * sizes[1]) return staircases(sizes[0]);
  std::vector<std::vector<int>> out = disjoint_cycles(among, count);
  for (std::vector<int>& cycle : out)
    for (int& at : cycle) at = chips[static_cast<size_t>(at)];
  return out;
}

}  // namespace opentrn::fabric
