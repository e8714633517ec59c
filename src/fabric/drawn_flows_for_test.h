// Flows drawn at random, and what a class of flows says of them: for tests that compare such classes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "fabric/flows.h"

namespace opentrn::fabric::for_test {

class Draw {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}
  int operator()(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool one_in(int n) { return (*this)(1, n) == 1; }

 private:
  std::mt19937 random_;
};

struct Begin {
  int64_t at_ps = 0;
  Flow flow;
};

// A network, and what starts on it when.
struct DrawnFlows {
  Network network;
  std::vector<Begin> begins;  // by time
};

inline int64_t drawn_bytes(Draw& draw) { return draw.one_in(12) ? 0 : int64_t{draw(1, 40)} * 25'000; }

inline Link drawn_link(Draw& draw) {
  return {0, 1, draw.one_in(40) ? 0 : int64_t{draw(1, 100)} * 1'000'000'000, 0, LinkClass::kHbm};
}

inline Flow drawn_flow(Draw& draw, int links) {
  Flow out;
  for (int link = 0; link < links; ++link)
    if (draw(0, links / 2) == 0)
      out.hops.push_back({link, draw.one_in(3) ? kWholeShare / draw(1, 4) : kWholeShare});
  out.bytes = drawn_bytes(draw);
  if (draw.one_in(5)) out.bytes_per_s_max = int64_t{draw(1, 20)} * 500'000'000;
  out.priority = draw.one_in(4) ? draw(0, 2) : 0;
  out.weight = draw.one_in(4) ? draw(1, 8) : 1;
  out.multiplicity = draw.one_in(6) ? draw(2, 5) : 1;
  return out;
}

struct History {
  std::vector<std::pair<int64_t, FlowId>> ends;
  std::vector<int64_t> carried;  // over each link, at each time
  friend bool operator==(const History&, const History&) = default;
};

template <typename TheFlows>
History history_of(const DrawnFlows& c, TheFlows& flows) {
  History out;
  for (size_t next = 0;;) {
    const int64_t begin = next < c.begins.size() ? c.begins[next].at_ps : INT64_MAX;
    const int64_t now = std::min(begin, flows.next_end());
    if (now == INT64_MAX) return out;
    for (const FlowId id : flows.advance(now)) out.ends.emplace_back(now, id);
    for (; next < c.begins.size() && c.begins[next].at_ps == now; ++next)
      flows.start(now, c.begins[next].flow);
    for (size_t link = 0; link < c.network.links.size(); ++link)
      out.carried.push_back(flows.carried(static_cast<LinkId>(link)));
  }
}

}  // namespace opentrn::fabric::for_test
