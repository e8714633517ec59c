#include "collectives/pipeline.h"

#include <algorithm>
#include <array>
#include <compare>
#include <limits>
#include <map>

#include "base/interrupt.h"

namespace opentrn::collectives {

namespace {

constexpr int32_t kNone = -1;
constexpr int32_t kOtherKinds = 2 * kPhases;  // that tell_phases_apart() gives

// Of a queue or of a class of queues: a step or a class of steps for each phase.
using OfPhases = std::array<int32_t, kPhases>;
constexpr OfPhases kNothing = {kNone, kNone, kNone};

// The first and the last step of each phase on each queue.
struct Ends {
  std::vector<OfPhases> first, last;  // [queue]

  explicit Ends(const PartSteps& steps) {
    const int32_t queues = steps.queue.empty() ? 0 : *std::ranges::max_element(steps.queue) + 1;
    first.assign(static_cast<size_t>(queues), kNothing);
    last = first;
    for (size_t step = 0; step < steps.queue.size(); ++step) {
      const auto queue = static_cast<size_t>(steps.queue[step]),
                 phase = static_cast<size_t>(steps.phase[step]);
      if (first[queue][phase] == kNone) first[queue][phase] = static_cast<int32_t>(step);
      last[queue][phase] = static_cast<int32_t>(step);
    }
  }
  bool begins(const PartSteps& steps, size_t step) const {
    return first[static_cast<size_t>(steps.queue[step])][static_cast<size_t>(steps.phase[step])] ==
           static_cast<int32_t>(step);
  }
};

// Of a step: the classes that end the phases of its queue, where it begins one.
struct Beginning {
  bool begins = false;
  OfPhases ends = kNothing;
  bool is_local = false;
  int8_t phase = 0;
  friend auto operator<=>(const Beginning&, const Beginning&) = default;
};

class Beginnings {
 public:
  Beginnings(const std::vector<int32_t>& of_step, const PartSteps& steps)
      : of_step_(of_step), steps_(steps), ends_(steps) {}

  Beginning of(size_t step) const {
    Beginning own{ends_.begins(steps_, step), kNothing, steps_.is_local[step], steps_.phase[step]};
    if (own.begins)
      for (size_t phase = 0; phase < kPhases; ++phase)
        if (const int32_t last = ends_.last[static_cast<size_t>(steps_.queue[step])][phase]; last != kNone)
          own.ends[phase] = of_step_[static_cast<size_t>(last)];
    return own;
  }

  // Nothing where steps of a class differ.
  std::optional<std::vector<Beginning>> of_classes(size_t classes) const {
    std::vector<Beginning> found(classes);
    std::vector<bool> seen(classes);
    for (size_t step = 0; step < of_step_.size(); ++step) {
      interrupt::poll();
      const Beginning own = of(step);
      const auto c = static_cast<size_t>(of_step_[step]);
      if (seen[c] && found[c] != own) return std::nullopt;
      seen[c] = true;
      found[c] = own;
    }
    return found;
  }

 private:
  const std::vector<int32_t>& of_step_;
  const PartSteps& steps_;
  const Ends ends_;
};

}  // namespace

std::vector<PartPhase> order_of_phases(int parts) {
  std::vector<PartPhase> order;
  for (int turn = 0; turn < parts + kPhases - 1; ++turn)
    for (int phase = kPhases - 1; phase >= 0; --phase)
      if (const int part = turn - phase; part >= 0 && part < parts) order.push_back({part, phase});
  return order;
}

void tell_phases_apart(TimingGraph& graph, const PartSteps& steps) {
  const Ends ends(steps);
  for (size_t step = 0; step < graph.steps.size(); ++step) {
    graph.steps[step].kind = 2 * steps.phase[step] + (steps.is_local[step] ? 1 : 0);
    if (ends.begins(steps, step)) graph.steps[step].begin_ps = steps.step_ps;
  }
}

bool tell_queues_apart(TimingGraph& graph, const std::vector<int32_t>& of_step, const PartSteps& steps) {
  const Beginnings beginnings(of_step, steps);
  const auto classes = static_cast<size_t>(of_step.empty() ? 0 : *std::ranges::max_element(of_step) + 1);
  if (beginnings.of_classes(classes)) return false;
  std::map<Beginning, int32_t> kinds;
  for (size_t step = 0; step < graph.steps.size(); ++step)
    if (const Beginning own = beginnings.of(step); own.begins)
      graph.steps[step].kind =
          kOtherKinds + kinds.try_emplace(own, static_cast<int32_t>(kinds.size())).first->second;
  return true;
}

std::optional<TimingGraph> pipelined(const TimingGraph& classes, const std::vector<int32_t>& of_step,
                                     const PartSteps& steps, int parts) {
  const size_t count = classes.steps.size();
  if (count * static_cast<size_t>(parts) > static_cast<size_t>(std::numeric_limits<int32_t>::max()))
    return std::nullopt;
  const auto found = Beginnings(of_step, steps).of_classes(count);
  if (!found) return std::nullopt;
  const std::vector<PartPhase> order = order_of_phases(parts);

  TimingGraph out;
  out.network = classes.network;
  out.way_first = classes.way_first;
  out.hops = classes.hops;
  out.way_latency_ps = classes.way_latency_ps;
  out.ranks = classes.ranks;
  out.steps.reserve(count * static_cast<size_t>(parts));
  out.waits.first.reserve(out.steps.capacity() + 1);
  out.waits.items.reserve((classes.waits.items.size() + count / 4) * static_cast<size_t>(parts));
  for (int part = 0; part < parts; ++part) {
    // The parts' phases that a queue has had before each phase of this part, the newest first.
    std::array<std::vector<PartPhase>, kPhases> before;
    for (size_t at = 0; at < order.size(); ++at)
      if (order[at].part == part)
        before[static_cast<size_t>(order[at].phase)].assign(order.rend() - static_cast<ptrdiff_t>(at),
                                                            order.rend());
    const auto number = [&](int of_part, int32_t step) {
      return of_part * static_cast<int32_t>(count) + step;
    };
    for (size_t c = 0; c < count; ++c) {
      interrupt::poll();
      TimedStep step = classes.steps[c];
      for (const int32_t wait : classes.waits.of(static_cast<int32_t>(c)))
        out.waits.items.push_back(number(part, wait));
      const Beginning& own = (*found)[c];
      if (own.begins)
        for (const PartPhase& earlier : before[static_cast<size_t>(own.phase)]) {
          const int32_t last = own.ends[static_cast<size_t>(earlier.phase)];
          if (last == kNone) continue;
          out.waits.items.push_back(number(earlier.part, last));
          // Moves within a rank, one behind the other, are descriptors of one request.
          if (own.is_local && (*found)[static_cast<size_t>(last)].is_local) step.begin_ps = 0;
          break;
        }
      out.waits.close();
      out.steps.push_back(step);
    }
  }
  return out;
}

}  // namespace opentrn::collectives
