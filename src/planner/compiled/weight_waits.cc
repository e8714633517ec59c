#include "planner/compiled/weight_waits.h"

#include "arch/dma_packets.h"
#include "arch/timing_table.h"
#include "planner/communication.h"
#include "spmd/schedule.h"

namespace opentrn::planner::compiled {
namespace {

using spmd::ValueNumber;

class StepSchedule {
 public:
  StepSchedule(const Machine& machine, const Layout& layout)
      : machine_(machine),
        group_{layout.dp, layout.tp},
        shards_(layout.zero >= 3),
        scatters_(layout.zero == 1 || layout.zero == 2) {}

  // A value that is there from the beginning where weights are not in parts.
  ValueNumber gathered(double bytes) {
    const ValueNumber value = next_++;
    if (shards_ && bytes > 0)
      add_collective(all_gather_s(machine_, group_, bytes), kPassedOn, bytes, {}, value);
    return value;
  }
  ValueNumber reduced(ValueNumber gradient, double bytes) {
    const ValueNumber value = next_++;
    sums_.emplace_back(value, bytes);
    if (shards_ || scatters_)
      add_collective(all_gather_s(machine_, group_, bytes), kSummed, bytes, {gradient}, value);
    else
      add_collective(all_reduce_s(machine_, group_, bytes), kSummed + kPassedOn, bytes, {gradient}, value);
    return value;
  }

  // `reads`, `writes`: values, and when, as shares of the part's time.
  struct Touch {
    ValueNumber value;
    double at = 0;
  };
  void part(const PieceTime& time, const std::vector<Touch>& reads, const std::vector<Touch>& writes) {
    spmd::Part made;
    made.ns = time.seconds * 1e9;
    made.hbm_bytes = time.hbm_bytes;
    for (const Touch& each : reads) made.reads.push_back({each.value, each.at * made.ns});
    for (const Touch& each : writes) made.writes.push_back({each.value, each.at * made.ns});
    alone_ns_ += made.ns;
    steps_.emplace_back(std::move(made));
  }
  ValueNumber fresh() { return next_++; }

  size_t sums() const { return sums_.size(); }
  bool scatters() const { return scatters_; }
  // Where the optimizer has parts of weights that are whole elsewhere (ZeRO-1 and 2), it goes tensor by
  // tensor, and each is gathered from then on. Of the first `until` sums, those that it has not come to;
  // `optimizer` is all of it, for weights of `bytes`.
  void update_parts(const PieceTime& optimizer, double bytes, size_t until) {
    if (!scatters_ || optimizer.seconds <= 0) return;
    for (; updated_ < until; ++updated_) {
      const auto& [sum, own] = sums_[updated_];
      const ValueNumber updated = fresh(), whole = fresh();
      part({optimizer.seconds * own / bytes, optimizer.hbm_bytes * own / bytes}, {{sum, 0}}, {{updated, 1}});
      add_collective(all_gather_s(machine_, group_, own), kPassedOn, own, {updated}, whole);
    }
  }

  double wait_s() const {
    const arch::TimingTable& table = arch::timing(*machine_.generation);
    constexpr int kStream = 4;
    return (spmd::schedule(
                steps_, {.hbm_bytes_per_ns = table.constant("hbm_bandwidth_gb_s"),
                         .of_collectives = arch::dma_packets(arch::default_tables()).of_collectives(kStream)})
                .end_ns -
            alone_ns_) *
           1e-9;
  }

 private:
  // How often a ring reads or writes what it passes on; its own part it copies.
  static constexpr double kPassedOn = 2, kSummed = 3;

  void add_collective(double seconds, double passes, double bytes, std::vector<ValueNumber> reads,
                      ValueNumber writes) {
    spmd::Collective made;
    made.ns = seconds * 1e9;
    const auto ranks = double(group_.ranks);
    made.hbm_bytes = bytes * (passes * (ranks - 1) + 2) / ranks / machine_.cores_per_rank;
    made.reads = std::move(reads);
    made.writes = {writes};
    steps_.emplace_back(std::move(made));
  }

  const Machine& machine_;
  Group group_;
  bool shards_, scatters_;
  size_t updated_ = 0;
  std::vector<std::pair<ValueNumber, double>> sums_;  // of gradients, and bytes of their weights
  ValueNumber next_ = 0;
  double alone_ns_ = 0;
  std::vector<spmd::Step> steps_;
};

using Touches = std::vector<StepSchedule::Touch>;

// Weights of a half as its pieces read them: one after the other.
Touches gathered(StepSchedule& steps, const HalfPasses& half) {
  Touches reads;
  for (size_t i = 0; i < half.weights.size(); ++i)
    reads.push_back({steps.gathered(half.weights[i].bytes), double(i) / double(half.weights.size())});
  return reads;
}

// A backward piece, whose gradients are summed from where they are made; what comes of them.
Touches backward(StepSchedule& steps, const HalfPasses& half, const Touches& reads) {
  Touches made, sums;
  for (const WeightTensor& each : half.weights) made.push_back({steps.fresh(), each.made_at});
  steps.part(half.backward, reads, made);
  for (size_t i = 0; i < made.size(); ++i)
    sums.push_back({steps.reduced(made[i].value, half.weights[i].bytes), 0});
  return sums;
}

// Updates come behind a piece's own work.
Touches updated(Touches sums) {
  constexpr double kBehind = 0.9;
  for (auto& each : sums) each.at = kBehind;
  return sums;
}

Touches joined(Touches a, const Touches& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace

double weights_wait_s(const MicroBatchPasses& passes, const Machine& machine, const Layout& layout) {
  StepSchedule steps(machine, layout);
  const ValueNumber embedding = steps.gathered(passes.embedding_bytes);
  steps.part(passes.embedding, {{embedding, 0}}, {});
  std::vector<std::pair<Touches, Touches>> blocks;  // attention's weights, the MLP's
  for (int i = 0; i < passes.layers; ++i) {
    auto& [attention, mlp] =
        blocks.emplace_back(gathered(steps, passes.attention), gathered(steps, passes.mlp));
    steps.part(passes.attention.forward, attention, {});
    steps.part(passes.mlp.forward, mlp, {});
  }
  const ValueNumber output = passes.output_bytes > 0 ? steps.gathered(passes.output_bytes) : embedding;
  steps.part(passes.logits, {{output, 0}}, {});
  steps.part(passes.shares, {}, {});
  // The product with the activations comes first, then the one with the table.
  const ValueNumber d_output = steps.fresh();
  steps.part(passes.logits_backward, {{output, 0.5}}, {{d_output, 0.5}});
  double all = passes.embedding_bytes + passes.output_bytes;
  for (const auto* half : {&passes.attention, &passes.mlp})
    for (const WeightTensor& each : half->weights) all += passes.layers * each.bytes;
  Touches before;
  if (passes.output_bytes > 0) before = {{steps.reduced(d_output, passes.output_bytes), 0}};
  for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
    const auto& [attention, mlp] = *block;
    if (passes.recompute) {
      steps.part(passes.attention.forward, attention, {});
      steps.part(passes.mlp.forward, mlp, {});
    }
    const auto behind = [&](const Touches& own) {
      return passes.updates ? joined(own, updated(before)) : own;
    };
    size_t known = steps.sums();  // whose piece is over
    before = backward(steps, passes.mlp, behind(mlp));
    steps.update_parts(passes.optimizer, all, known);
    known = steps.sums();
    before = backward(steps, passes.attention, behind(attention));
    steps.update_parts(passes.optimizer, all, known);
  }
  const ValueNumber d_embedding = steps.fresh();
  constexpr double kScattered = 1;
  steps.part(passes.embedding_backward, {}, {{d_embedding, kScattered}});
  const ValueNumber summed = steps.reduced(d_embedding, passes.embedding_bytes);
  if (steps.scatters())
    steps.update_parts(passes.optimizer, all, steps.sums());
  else if (passes.optimizer.seconds > 0)
    steps.part(passes.optimizer, {{summed, 0.5}}, {});
  return steps.wait_s();
}

}  // namespace opentrn::planner::compiled
