// The largest flow between two vertices of a graph, which is its smallest cut.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opentrn::fabric {

class CutGraph {
 public:
  explicit CutGraph(int vertices) : first_(static_cast<size_t>(vertices), -1) {}
  int add_vertex();
  // The edge's number.
  int add_edge(int from, int to, int64_t capacity);
  void set_capacity(int edge, int64_t capacity);
  // From nothing, each time.
  int64_t max_flow(int from, int to);

 private:
  struct Edge {
    int to, next;
    int64_t capacity, free;
  };
  bool levels(int from, int to);
  int64_t push(int at, int to, int64_t most);

  std::vector<int> first_, level_, at_;
  std::vector<Edge> edges_;  // each is followed by its reverse
};

}  // namespace opentrn::fabric
