#include "collectives/training.h"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>

#include <fmt/format.h>

#include "base/fault.h"
#include "collectives/training_plans.h"

namespace opentrn::collectives {

namespace {

constexpr int64_t kBlockStepsMax = 4'000'000;  // of the run of a block: about 1 GB
constexpr int64_t kOpsMax = 1'000'000;
constexpr int64_t kLongest = 4'320'000'000'000'000'000;  // ps: 50 days

struct Interval {
  int64_t begin_ps = 0, end_ps = 0;
};

// Overlapping ones joined.
std::vector<Interval> joined(std::vector<Interval> all) {
  std::ranges::sort(all, {}, &Interval::begin_ps);
  std::vector<Interval> out;
  for (const Interval& one : all)
    if (!out.empty() && one.begin_ps <= out.back().end_ps)
      out.back().end_ps = std::max(out.back().end_ps, one.end_ps);
    else
      out.push_back(one);
  return out;
}

int64_t length(const std::vector<Interval>& joined) {
  int64_t sum = 0;
  for (const Interval& one : joined) sum += one.end_ps - one.begin_ps;
  return sum;
}

// The part of an interval in which none of `busy` is: sorted, not overlapping.
int64_t outside(const Interval& one, const std::vector<Interval>& busy) {
  int64_t left = one.end_ps - one.begin_ps;
  auto at = std::ranges::upper_bound(busy, one.begin_ps, {}, &Interval::end_ps);
  for (; at != busy.end() && at->begin_ps < one.end_ps; ++at)
    left -= std::min(at->end_ps, one.end_ps) - std::max(at->begin_ps, one.begin_ps);
  return left;
}

// The steps of a block in their order, repeats written out.
void flatten(const std::vector<TrainingStep>& steps, std::vector<const TrainingStep*>& out) {
  for (const TrainingStep& step : steps)
    for (int64_t i = 0; i < step.repeat; ++i) {
      if (!step.steps.empty()) {
        flatten(step.steps, out);
        continue;
      }
      if (static_cast<int64_t>(out.size()) >= kOpsMax)
        throw Fault(FaultKind::kInput, "fabric.job", fmt::format("a block of more than {} steps", kOpsMax),
                    "several blocks, each with its repeat: what a block repeats is simulated once");
      out.push_back(&step);
    }
}

// Something that happens once in the run of a block.
struct Op {
  const TrainingStep* step = nullptr;
  int32_t kind = -1;  // TrainingPlans::kinds; -1: compute without memory, or a wait
  int32_t end = 0;    // the step of the graph with which it ends
  std::vector<int32_t> after;
};

// The steps of one run of a block as one graph, of copies of the steps of each kind.
class BlockGraph {
 public:
  BlockGraph(const TimingGraph& kinds, const std::vector<std::vector<int32_t>>& steps_of_kind,
             const std::map<std::string, int32_t>& kind_of)
      : kinds_(kinds), steps_of_kind_(steps_of_kind), kind_of_(kind_of) {
    graph_.network = kinds.network;
    graph_.way_first = kinds.way_first;
    graph_.hops = kinds.hops;
    graph_.way_latency_ps = kinds.way_latency_ps;
    graph_.ranks = kinds.ranks;
    nowhere_ = graph_.add_way({}, 0);
    local_.resize(kinds.steps.size());
  }

  void add(std::span<const TrainingStep* const> steps) {
    for (const TrainingStep* step : steps) add(*step);
  }

  GraphTimes run() const { return simulate(graph_); }
  const std::vector<Op>& ops() const { return ops_; }

 private:
  void add(const TrainingStep& step) {
    Op op{&step, -1, 0, {}};
    if (const auto found = kind_of_.find(key_of(step)); found != kind_of_.end()) op.kind = found->second;
    if (last_ >= 0) op.after.push_back(last_);
    if (step.waits && beside_ >= 0) op.after.push_back(beside_);
    if (step.beside && beside_ >= 0) op.after.push_back(beside_);
    if (op.kind >= 0) copy_steps(op);
    std::vector<int32_t> ends = op.kind >= 0 ? sinks_ : std::vector<int32_t>{};
    if (step.compute_ps > 0)
      ends.push_back(add_step({.begin_ps = step.compute_ps, .way = nowhere_}, op.after));
    if (ends.empty()) ends = op.after;
    op.end = add_step({.way = nowhere_}, ends);
    (step.beside ? beside_ : last_) = op.end;
    if (static_cast<int64_t>(graph_.steps.size()) > kBlockStepsMax)
      throw Fault(FaultKind::kInput, "fabric.job",
                  fmt::format("a block with more than {} steps over links beside others", kBlockStepsMax),
                  "waits between them, or several blocks: what follows a wait is simulated by itself");
    ops_.push_back(std::move(op));
  }

  int32_t add_step(const TimedStep& step, const std::vector<int32_t>& after) {
    graph_.steps.push_back(step);
    graph_.waits.items.insert(graph_.waits.items.end(), after.begin(), after.end());
    graph_.waits.close();
    return static_cast<int32_t>(graph_.steps.size()) - 1;
  }

  void copy_steps(const Op& op) {
    const auto& steps = steps_of_kind_[static_cast<size_t>(op.kind)];
    std::vector<bool> has_reader(steps.size());
    const auto base = static_cast<int32_t>(graph_.steps.size());
    for (size_t i = 0; i < steps.size(); ++i) local_[static_cast<size_t>(steps[i])] = static_cast<int32_t>(i);
    std::vector<int32_t> waits;
    for (const int32_t at : steps) {
      TimedStep step = kinds_.steps[static_cast<size_t>(at)];
      waits.clear();
      for (const int32_t before : kinds_.waits.of(at)) {
        const int32_t local = local_[static_cast<size_t>(before)];
        has_reader[static_cast<size_t>(local)] = true;
        waits.push_back(base + local);
      }
      if (waits.empty()) {
        // What a rank needs until others may write to it counts from when it comes to the collective.
        step.begin_ps += step.ready_ps;
        waits = op.after;
      }
      step.ready_ps = 0;
      add_step(step, waits);
    }
    sinks_.clear();
    for (size_t i = 0; i < steps.size(); ++i)
      if (!has_reader[i]) sinks_.push_back(base + static_cast<int32_t>(i));
  }

  const TimingGraph& kinds_;
  const std::vector<std::vector<int32_t>>& steps_of_kind_;
  const std::map<std::string, int32_t>& kind_of_;
  TimingGraph graph_;
  std::vector<Op> ops_;
  std::vector<int32_t> local_, sinks_;
  int32_t nowhere_ = 0, last_ = -1, beside_ = -1;
};

void check(const TrainingStep& step) {
  const auto refuse = [&](const char* what) {
    throw Fault(FaultKind::kInput, "fabric.job",
                fmt::format("a step{} {}", step.name.empty() ? "" : " '" + step.name + "'", what),
                "compute, a collective with 'over' and 'bytes', 'wait', or 'repeat' with 'steps'");
  };
  const int roles = (step.compute_ps > 0) + step.kind.has_value() + step.waits + !step.steps.empty();
  if (roles != 1) refuse(roles == 0 ? "does nothing" : "does several things");
  if (step.repeat < 1 || step.repeat > kOpsMax) refuse("is repeated less than once, or too often");
  if (step.beside && !step.kind) refuse("runs beside others and is not a collective");
  if (step.compute_ps < 0 || step.compute_ps > kLongest / kOpsMax || step.hbm_bytes < 0 ||
      (step.hbm_bytes > 0 && step.compute_ps == 0))
    refuse("has memory traffic or a time that is none");
  if (step.kind && step.over.empty()) refuse("is a collective over no axis");
  for (const TrainingStep& one : step.steps) check(one);
}

class Timer {
 public:
  Timer(const arch::Tables& tables, const TrainingJob& job, Extent extent)
      : job_(job), in_parts_(extent != Extent::kAllSteps), plans_(training_plans(tables, job, extent)) {
    if (extent != Extent::kAllSteps)
      if (auto classes = classes_of(plans_.graph)) graph_ = std::move(classes->quotient);
    if (graph_.steps.empty()) graph_ = plans_.graph;
    steps_of_kind_.resize(plans_.kinds.size());
    for (size_t step = 0; step < graph_.steps.size(); ++step)
      steps_of_kind_[static_cast<size_t>(graph_.steps[step].kind)].push_back(static_cast<int32_t>(step));
    for (size_t kind = 0; kind < plans_.kinds.size(); ++kind)
      kind_of_[key_of(plans_.kinds[kind].step)] = static_cast<int32_t>(kind);
  }

  TrainingTime run() {
    TrainingTime out;
    out.ranks = plans_.ranks;
    out.written = plans_.written;
    out.units_written = plans_.units;
    out.classes = static_cast<int64_t>(graph_.steps.size());
    for (TrainingKind& kind : plans_.kinds)
      if (kind.step.kind) kind.use.alone_ps = alone_ps(&kind.step);
    for (const TrainingBlock& block : job_.blocks) {
      BlockTime time = run(block);
      if (time.ps > (kLongest - out.end_ps) / block.repeat)
        throw Fault(FaultKind::kInput, "fabric.job", "a job of more than 50 days", "one step of training");
      out.end_ps += time.end_ps();
      out.compute_ps += time.compute_ps * block.repeat;
      out.exposed_ps += time.exposed_ps * block.repeat;
      out.blocks.push_back(std::move(time));
    }
    for (TrainingKind& kind : plans_.kinds)
      if (kind.step.kind) {
        kind.use.mean_ps /= static_cast<double>(kind.use.count);
        out.collectives.push_back(std::move(kind.use));
      }
    return out;
  }

 private:
  int64_t alone_ps(const TrainingStep* step) { return time_of(std::span(&step, 1)).block.ps; }

  static GraphTimes ended(GraphTimes times) {
    if (times.not_carried > 0)
      throw Fault(FaultKind::kProgram, "collectives.link_down",
                  fmt::format("{} transfers have no link that carries them", times.not_carried),
                  "see that no link on their way is down");
    return times;
  }

  // Steps from when nothing is under way until nothing is.
  struct PartTime {
    struct Use {
      int32_t kind = 0;
      int64_t ps = 0, exposed_ps = 0;
    };
    BlockTime block;
    std::vector<Use> uses;
  };

  // The number of steps, of the first ones, behind which nothing is under way.
  size_t length_of_part(std::span<const TrainingStep* const> steps) const {
    if (!in_parts_) return steps.size();
    bool beside = false;
    for (size_t i = 0; i < steps.size(); ++i) {
      beside = (beside || steps[i]->beside) && !steps[i]->waits;
      if (!beside) return i + 1;
    }
    return steps.size();
  }

  BlockTime run(const TrainingBlock& block) {
    std::vector<const TrainingStep*> steps;
    flatten(block.steps, steps);
    BlockTime out{.name = block.name, .repeat = block.repeat};
    for (std::span<const TrainingStep* const> left = steps; !left.empty();) {
      const size_t length = length_of_part(left);
      const PartTime& part = time_of(left.first(length));
      left = left.subspan(length);
      out.ps += part.block.ps;
      out.compute_ps += part.block.compute_ps;
      out.collectives_ps += part.block.collectives_ps;
      out.exposed_ps += part.block.exposed_ps;
      for (const PartTime::Use& one : part.uses) {
        CollectiveUse& use = plans_.kinds[static_cast<size_t>(one.kind)].use;
        use.count += block.repeat;
        use.mean_ps += static_cast<double>(one.ps) * static_cast<double>(block.repeat);
        use.exposed_ps += one.exposed_ps * block.repeat;
      }
    }
    return out;
  }

  const PartTime& time_of(std::span<const TrainingStep* const> steps) {
    std::string key;
    for (const TrainingStep* step : steps) {
      key += key_of(*step);
      if (steps.size() > 1) key += step->beside ? " beside;" : step->waits ? " waits;" : ";";
    }
    const auto [found, is_new] = parts_.try_emplace(key);
    if (is_new) found->second = simulated(steps);
    return found->second;
  }

  PartTime simulated(std::span<const TrainingStep* const> steps) const {
    BlockGraph graph(graph_, steps_of_kind_, kind_of_);
    graph.add(steps);
    const GraphTimes times = ended(graph.run());
    PartTime out;
    std::vector<Interval> compute, collectives;
    std::vector<std::pair<const Op*, Interval>> uses;
    for (const Op& op : graph.ops()) {
      Interval interval{0, times.steps[static_cast<size_t>(op.end)].end_ps};
      for (const int32_t before : op.after)
        interval.begin_ps = std::max(interval.begin_ps, times.steps[static_cast<size_t>(before)].end_ps);
      out.block.ps = std::max(out.block.ps, interval.end_ps);
      if (op.step->compute_ps > 0) {
        out.block.compute_ps += op.step->compute_ps;
        compute.push_back(interval);
      }
      if (!op.step->kind) continue;
      collectives.push_back(interval);
      uses.emplace_back(&op, interval);
    }
    compute = joined(std::move(compute));
    collectives = joined(std::move(collectives));
    out.block.collectives_ps = length(collectives);
    for (const Interval& one : collectives) out.block.exposed_ps += outside(one, compute);
    for (const auto& [op, interval] : uses)
      out.uses.push_back({op->kind, interval.end_ps - interval.begin_ps, outside(interval, compute)});
    return out;
  }

  const TrainingJob& job_;
  const bool in_parts_;
  TrainingPlans plans_;
  TimingGraph graph_;  // of all kinds, folded
  std::vector<std::vector<int32_t>> steps_of_kind_;
  std::map<std::string, int32_t> kind_of_;
  std::unordered_map<std::string, PartTime> parts_;
};

}  // namespace

TrainingTime training_time(const arch::Tables& tables, const TrainingJob& job, Extent extent) {
  if (job.blocks.empty())
    throw Fault(FaultKind::kInput, "fabric.job", "a job without blocks", "at least one block with steps");
  for (const TrainingBlock& block : job.blocks) {
    if (block.repeat < 1 || block.repeat > kOpsMax || block.steps.empty())
      throw Fault(FaultKind::kInput, "fabric.job",
                  fmt::format("block '{}' has no steps, or no number of repeats", block.name),
                  "steps, and a repeat of at least 1");
    for (const TrainingStep& step : block.steps) check(step);
  }
  return Timer(tables, job, extent).run();
}

}  // namespace opentrn::collectives
