// Collectives of a step's weights, among the steps that wait for them.
#pragma once

#include <vector>

#include "planner/compiled/collective_waits.h"
#include "planner/compiled/waiting_steps.h"

namespace opentrn::planner::compiled {

// When the optimizer reads the last sum, as a share of its own time [assumed: decision 0193].
inline constexpr double kLastSumReadAt = 0.5;

// What becomes of weights and their gradients: gathered, summed, updated.
class Weights {
 public:
  // `inside`: where cores of a rank have gradients of their own sequences.
  Weights(const MicroBatchPasses& passes, const Layout& layout, Steps& steps, bool sums, InsideRank inside)
      : passes_(passes),
        steps_(steps),
        inside_(inside),
        group_{int64_t{layout.dp} * layout.cp, layout.tp},
        of_experts_(group_),
        gathers_(sums && layout.zero >= 3),
        sums_(sums),
        scatters_(layout.zero >= 1),
        gathers_updated_(layout.zero == 1 || layout.zero == 2),
        all_bytes_(passes.embedding_bytes + passes.position_bytes + passes.output_bytes) {
    const auto add = [&](const HalfPasses& half, int layers) {
      for (const WeightTensor& each : half.weights) all_bytes_ += layers * each.bytes;
    };
    const int others = passes.layers - passes.dense;
    add(passes.attention, passes.layers);
    add(passes.mlp, others);
    add(passes.dense_mlp, passes.dense);
    all_bytes_ += passes.layers * passes.modulation_bytes;
    if (!passes.experts) return;
    all_bytes_ += others * passes.experts->router_bytes;
    add(passes.experts->shared, others);
    of_experts_ = {group_.ranks / passes.experts->ranks, group_.stride * passes.experts->ranks};
  }

  // Where weights lie in parts.
  Value gathered(double bytes) { return gathered(group_, bytes); }
  // Of a half, as its pieces read them: one after the other.
  Touches gathered(const HalfPasses& half) {
    Touches reads;
    for (size_t i = 0; i < half.weights.size(); ++i)
      reads.push_back(
          {gathered(group_of(half), half.weights[i].bytes), double(i) / double(half.weights.size())});
    return reads;
  }

  void sum(Value gradient, double bytes) { sum(group_, gradient, bytes); }
  void sum(const HalfPasses& half, Value gradient, double bytes) { sum(group_of(half), gradient, bytes); }
  size_t count() const { return summed_.size(); }
  Value last() const { return summed_.empty() ? Value() : summed_.back().value; }

  // Where no piece updates weights, the optimizer goes tensor by tensor through the first `until` sums; what
  // is whole elsewhere is gathered from then on.
  void update(size_t until) {
    const PieceTime& all = passes_.optimizer;
    if (!sums_ || passes_.updates || all.seconds <= 0) return;
    for (; updated_ < until; ++updated_) {
      const auto& [sum, own, group] = summed_[updated_];
      const double share = own / all_bytes_;
      const Value updated = steps_.made_by(share * all, {{sum, 0}});
      if (gathers_updated_) steps_.collective(Kind::kAllGather, group, own, updated);
    }
  }
  // Those of the embedding, and all that no piece has updated.
  void update_rest() {
    if (!sums_) return;
    if (!passes_.updates) return update(count());
    steps_.part(passes_.optimizer, {{last(), kLastSumReadAt}}, {});
  }

 private:
  // Ranks that have a half's weights: of experts, fewer.
  Group group_of(const HalfPasses& half) const {
    return passes_.experts && &half == &passes_.mlp ? of_experts_ : group_;
  }
  Value gathered(Group group, double bytes) {
    return gathers_ && bytes > 0 ? steps_.collective(Kind::kAllGather, group, bytes, {}) : Value();
  }
  void sum(Group group, Value gradient, double bytes) {
    if (inside_.meeting_s > 0)
      gradient = steps_.collective(Kind::kAllReduce, {}, 0, gradient, inside_.summed_s(bytes));
    if (!sums_) return;
    const Kind kind = scatters_ ? Kind::kReduceScatter : Kind::kAllReduce;
    summed_.push_back({steps_.collective(kind, group, bytes, gradient), bytes, group});
  }

  struct Summed {
    Value value;
    double bytes = 0;  // of the weight
    Group group;
  };

  const MicroBatchPasses& passes_;
  Steps& steps_;
  const InsideRank inside_;
  Group group_, of_experts_;
  bool gathers_, sums_, scatters_, gathers_updated_;
  double all_bytes_;
  size_t updated_ = 0;
  std::vector<Summed> summed_;  // gradients
};

}  // namespace opentrn::planner::compiled
