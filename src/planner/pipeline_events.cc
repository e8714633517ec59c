#include "planner/pipeline_events.h"

#include <algorithm>

#include "base/fault.h"

namespace opentrn::planner {
namespace {

constexpr double kNever = -1;

class Run {
 public:
  Run(const Order& order, const std::vector<StageTime>& stages, double send_s,
      std::vector<PipelineEvent>* events)
      : order_(order), stages_(stages), send_s_(stages.size() > 1 ? send_s : 0), events_(events) {
    for (size_t stream = 0; stream < order.path.size(); ++stream)
      forward_.emplace_back(order.micro_batches[stream],
                            std::vector<double>(order.path[stream].size(), kNever));
    backward_ = forward_;
    free_.assign(stages.size(), 0);
    live_.assign(stages.size(), 0);
    next_.assign(stages.size(), 0);
  }

  PipelineRun run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < order_.ranks.size(); ++rank)
        while (next_[rank] < order_.ranks[rank].size() && step(rank)) {
          ++next_[rank];
          moved = true;
        }
    }
    for (size_t rank = 0; rank < order_.ranks.size(); ++rank)
      OPENTRN_CHECK(next_[rank] == order_.ranks[rank].size(), "the schedule of stage {} stops at {} of {}",
                    rank, next_[rank], order_.ranks[rank].size());
    return {std::ranges::max(free_), double(most_) / order_.passes_per_rank};
  }

 private:
  // When a pass may start; kNever where what it needs has not run.
  double ready(bool backward, int stream, int at, int64_t micro) const {
    const std::vector<int>& path = order_.path[stream];
    const int last = static_cast<int>(path.size()) - 1;
    if (!backward && at == 0) return 0;
    const int from = backward ? (at == last ? at : at + 1) : at - 1;
    const double end = (backward && at != last ? backward_ : forward_)[stream][micro][from];
    return end == kNever ? kNever : end + (path[from] == path[at] ? 0 : send_s_);
  }

  bool step(size_t rank) {
    const Pass& pass = order_.ranks[rank][next_[rank]];
    const bool is_pair = pass.kind == PassKind::kPair, is_forward = pass.kind == PassKind::kForward;
    double start = free_[rank];
    if (pass.kind != PassKind::kWeight) {
      const double first = ready(!is_forward && !is_pair, pass.stream, pass.at, pass.micro);
      const double second = is_pair ? ready(true, pass.stream2, pass.at2, pass.micro2) : 0;
      if (first == kNever || second == kNever) return false;
      start = std::max({start, first, second});
    }
    const StageTime& time = stages_[rank];
    double seconds = 0;
    switch (pass.kind) {
      case PassKind::kForward: seconds = time.forward; break;
      case PassKind::kInput: seconds = time.backward - time.weight; break;
      case PassKind::kWeight: seconds = time.weight; break;
      case PassKind::kBackward: seconds = time.backward; break;
      case PassKind::kPair: seconds = time.forward + time.backward; break;
    }
    const double end = start + seconds / order_.passes_per_rank;
    free_[rank] = end;
    if (is_forward || is_pair) {
      forward_[pass.stream][pass.micro][pass.at] = end;
      most_ = std::max(most_, ++live_[rank]);
    }
    if (pass.kind == PassKind::kInput || pass.kind == PassKind::kBackward)
      backward_[pass.stream][pass.micro][pass.at] = end;
    if (is_pair) backward_[pass.stream2][pass.micro2][pass.at2] = end;
    if (pass.kind == PassKind::kWeight || pass.kind == PassKind::kBackward || is_pair) --live_[rank];
    tell(static_cast<int>(rank), pass, start, end);
    return true;
  }

  void tell(int rank, const Pass& pass, double start, double end) const {
    if (events_ == nullptr) return;
    const auto chunk = [&](int stream, int at) {
      return order_.path.size() > 1 ? stream : at / static_cast<int>(stages_.size());
    };
    const bool is_pair = pass.kind == PassKind::kPair;
    events_->push_back({rank, chunk(pass.stream, pass.at), pass.micro,
                        is_pair ? PassKind::kForward : pass.kind, start, end});
    if (is_pair)
      events_->push_back({rank, chunk(pass.stream2, pass.at2), pass.micro2, PassKind::kBackward, start, end});
  }

  const Order& order_;
  const std::vector<StageTime>& stages_;
  double send_s_;
  std::vector<PipelineEvent>* events_;
  std::vector<std::vector<std::vector<double>>> forward_, backward_;  // ends, by stream, micro-batch, stage
  std::vector<double> free_;
  std::vector<int> live_;
  std::vector<size_t> next_;
  int most_ = 0;
};

}  // namespace

PipelineRun run_pipeline(Schedule schedule, const std::vector<StageTime>& stages, int chunks,
                         int64_t micro_batches, double send_s, std::vector<PipelineEvent>* events) {
  const Order order = order_of(schedule, static_cast<int>(stages.size()), chunks, micro_batches);
  return Run(order, stages, send_s, events).run();
}

double simulate_pipeline_s(const std::vector<StageTime>& stages, int chunks, int64_t micro_batches,
                           double send_s, std::vector<PipelineEvent>* events) {
  return run_pipeline(Schedule::k1F1B, stages, chunks, micro_batches, send_s, events).end_s;
}

}  // namespace opentrn::planner
