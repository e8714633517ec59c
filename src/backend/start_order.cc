#include "backend/start_order.h"

#include <algorithm>
#include <array>
#include <limits>

namespace opentrn::backend {

using isa::Engine;
using isa::InstructionIndex;

std::vector<InstructionIndex> by_start(const LargeVector<double>& start,
                                       const std::vector<EngineChoice>& choices) {
  std::array<LargeVector<InstructionIndex>, isa::kEngineCount> queues;
  std::array<size_t, isa::kEngineCount> sizes{};
  for (const EngineChoice& choice : choices) ++sizes[static_cast<size_t>(choice.engine)];
  for (size_t e = 0; e < queues.size(); ++e) queues[e].reserve(sizes[e]);
  for (InstructionIndex i = 0; i < start.size(); ++i)
    queues[static_cast<size_t>(choices[i].engine)].push_back(i);
  std::ranges::stable_sort(queues[static_cast<size_t>(Engine::kDma)], {},
                           [&](InstructionIndex i) { return start[i]; });
  struct Head {
    double start;
    const InstructionIndex *at, *end;
    bool operator<(const Head& other) const {
      return start < other.start || (start == other.start && *at < *other.at);
    }
  };
  std::array<Head, isa::kEngineCount> heads;
  size_t count = 0;
  for (const auto& queue : queues)
    if (!queue.empty()) heads[count++] = {start[queue[0]], queue.data(), queue.data() + queue.size()};
  std::vector<InstructionIndex> order;
  order.reserve(start.size());
  while (count > 0) {
    size_t first = 0;
    for (size_t h = 1; h < count; ++h)
      if (heads[h] < heads[first]) first = h;
    double until = std::numeric_limits<double>::infinity();  // when another engine may come first
    for (size_t h = 0; h < count; ++h)
      if (h != first) until = std::min(until, heads[h].start);
    Head& head = heads[first];
    do order.push_back(*head.at++);
    while (head.at != head.end && start[*head.at] < until);
    if (head.at != head.end)
      head.start = start[*head.at];
    else
      head = heads[--count];
  }
  return order;
}

}  // namespace opentrn::backend
