#include "fabric/min_cut.h"

#include <algorithm>
#include <queue>

namespace opentrn::fabric {

int CutGraph::add_vertex() {
  first_.push_back(-1);
  return static_cast<int>(first_.size()) - 1;
}

int CutGraph::add_edge(int from, int to, int64_t capacity) {
  const int edge = static_cast<int>(edges_.size());
  edges_.push_back({to, first_[static_cast<size_t>(from)], capacity, 0});
  first_[static_cast<size_t>(from)] = edge;
  edges_.push_back({from, first_[static_cast<size_t>(to)], 0, 0});
  first_[static_cast<size_t>(to)] = edge + 1;
  return edge;
}

void CutGraph::set_capacity(int edge, int64_t capacity) {
  edges_[static_cast<size_t>(edge)].capacity = capacity;
}

bool CutGraph::levels(int from, int to) {
  level_.assign(first_.size(), -1);
  level_[static_cast<size_t>(from)] = 0;
  std::queue<int> queue;
  queue.push(from);
  while (!queue.empty()) {
    const int at = queue.front();
    queue.pop();
    for (int e = first_[static_cast<size_t>(at)]; e >= 0; e = edges_[static_cast<size_t>(e)].next) {
      const Edge& edge = edges_[static_cast<size_t>(e)];
      if (edge.free == 0 || level_[static_cast<size_t>(edge.to)] >= 0) continue;
      level_[static_cast<size_t>(edge.to)] = level_[static_cast<size_t>(at)] + 1;
      queue.push(edge.to);
    }
  }
  return level_[static_cast<size_t>(to)] >= 0;
}

int64_t CutGraph::push(int at, int to, int64_t most) {
  if (at == to || most == 0) return most;
  for (int& e = at_[static_cast<size_t>(at)]; e >= 0; e = edges_[static_cast<size_t>(e)].next) {
    Edge& edge = edges_[static_cast<size_t>(e)];
    if (edge.free == 0 || level_[static_cast<size_t>(edge.to)] != level_[static_cast<size_t>(at)] + 1)
      continue;
    const int64_t got = push(edge.to, to, std::min(most, edge.free));
    if (got == 0) continue;
    edge.free -= got;
    edges_[static_cast<size_t>(e ^ 1)].free += got;
    return got;
  }
  return 0;
}

// Dinic's algorithm.
int64_t CutGraph::max_flow(int from, int to) {
  for (Edge& edge : edges_) edge.free = edge.capacity;
  int64_t sum = 0;
  while (levels(from, to)) {
    at_ = first_;
    while (const int64_t got = push(from, to, INT64_MAX)) sum += got;
  }
  return sum;
}

}  // namespace opentrn::fabric
