#include "planner/pipeline_events.h"

#include <algorithm>

#include "base/fault.h"

namespace opentrn::planner {
namespace {

struct Work {
  bool backward = false;
  int64_t micro = 0;
  int chunk = 0;
};

// What a stage does, in order: forwards until the pipeline is full, then one of each, then the backwards
// left.
std::vector<Work> order_of(int stage, int stages, int chunks, int64_t micro_batches) {
  const int64_t all = micro_batches * chunks;
  const int64_t lead =
      chunks > 1 ? int64_t{stages - stage - 1} * 2 + int64_t{chunks - 1} * stages : stages - stage - 1;
  const int64_t warm = std::min(all, lead);
  const auto work = [&](int64_t index, bool backward) {
    const int64_t round = int64_t{stages} * chunks;
    if (chunks == 1) return Work{backward, index, 0};
    const int chunk = static_cast<int>(index % round / stages);
    return Work{backward, index / round * stages + index % stages, backward ? chunks - 1 - chunk : chunk};
  };
  std::vector<Work> order;
  for (int64_t i = 0; i < warm; ++i) order.push_back(work(i, false));
  for (int64_t i = warm; i < all; ++i) {
    order.push_back(work(i, false));
    order.push_back(work(i - warm, true));
  }
  for (int64_t i = all - warm; i < all; ++i) order.push_back(work(i, true));
  return order;
}

}  // namespace

double simulate_pipeline_s(const std::vector<StageTime>& stages, int chunks, int64_t micro_batches,
                           double send_s, std::vector<PipelineEvent>* events) {
  const int depth = static_cast<int>(stages.size()), virtual_stages = depth * chunks;
  constexpr double kNever = -1;
  // When the pass of a micro-batch through a virtual stage (chunk * depth + stage) ended.
  std::vector<std::vector<double>> forward(micro_batches, std::vector<double>(virtual_stages, kNever)),
      backward = forward;
  std::vector<std::vector<Work>> orders;
  for (int i = 0; i < depth; ++i) orders.push_back(order_of(i, depth, chunks, micro_batches));
  std::vector<size_t> next(depth, 0);
  std::vector<double> free(depth, 0);
  const double hop = depth > 1 ? send_s : 0;
  bool moved = true;
  while (moved) {
    moved = false;
    for (int i = 0; i < depth; ++i) {
      while (next[i] < orders[i].size()) {
        const Work work = orders[i][next[i]];
        const int at = work.chunk * depth + i;
        double ready = 0;
        if (!work.backward && at > 0) ready = forward[work.micro][at - 1];
        if (work.backward)
          ready = at + 1 < virtual_stages ? backward[work.micro][at + 1] : forward[work.micro][at];
        if (ready == kNever) break;
        const bool sent = work.backward ? at + 1 < virtual_stages : at > 0;
        const double start = std::max(free[i], ready + (sent ? hop : 0));
        free[i] = start + (work.backward ? stages[i].backward : stages[i].forward) / chunks;
        (work.backward ? backward : forward)[work.micro][at] = free[i];
        if (events != nullptr) events->push_back({i, work.chunk, work.micro, work.backward, start, free[i]});
        ++next[i];
        moved = true;
      }
    }
  }
  for (int i = 0; i < depth; ++i)
    OPENTRN_CHECK(next[i] == orders[i].size(), "the schedule of stage {} stops at {} of {}", i, next[i],
                  orders[i].size());
  return std::ranges::max(free);
}

}  // namespace opentrn::planner
