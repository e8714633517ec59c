#include "sim/ranks/launch.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

#include "base/activity.h"
#include "base/fault.h"
#include "collectives/ongoing.h"
#include "collectives/predict.h"

namespace opentrn::sim::ranks {

namespace {

using timing::HbmStack;
using timing::LogicalCore;

constexpr Ps kNot = -1;           // has not happened
constexpr size_t kTimedAnew = 8;  // so many that share links are cheaper folded, from the start of the first
constexpr Ps kPiece = 1'000'000;  // of 1 us: how finely what a step takes of a stack is spread

class Simulation {
 public:
  Simulation(const arch::Tables& tables, const fabric::Platform& platform,
             const collectives::RankCores& cores, std::span<const Rank> ranks,
             std::span<const Collective> collectives, const arch::DmaPackets& packets)
      : of_collectives_(packets.of_collectives()),
        platform_(platform),
        cores_(cores),
        ranks_(ranks),
        collectives_(collectives) {
    const arch::TimingTable& table = tables.timing(platform.generation());
    add_stacks(table);
    result_.collectives.resize(collectives.size());
    for (size_t i = 0; i < collectives.size(); ++i) prepare(tables, collectives[i], result_.collectives[i]);
    for (const CollectiveTimes& one : result_.collectives) used_.push_back(used_by(one));
    order_.resize(collectives.size());
    waiting_.resize(collectives.size());
    yielding_.resize(collectives.size());
    held_up_.resize(collectives.size());
    for (size_t r = 0; r < ranks.size(); ++r) add_rank(table, r);
  }

  Result run() {
    const Activity activity("following ranks in time");
    while (true) {
      const auto next = std::ranges::min_element(
          next_, {}, [](Ps at) { return at >= 0 ? at : std::numeric_limits<Ps>::max(); });
      const Ps at = *next >= 0 ? *next : std::numeric_limits<Ps>::max();
      if (!ends_.empty() && std::get<0>(*ends_.begin()) <= at) {
        if (!hold_up(std::get<1>(*ends_.begin()), std::get<0>(*ends_.begin()))) deliver();
        continue;
      }
      if (*next < 0) break;
      step(static_cast<size_t>(next - next_.begin()));
    }
    if (std::ranges::any_of(next_, [](Ps at) { return at != LogicalCore::kDone; }))
      throw Fault(FaultKind::kProgram, "timing.deadlock",
                  "ranks wait for collectives that others never trigger",
                  "call them in the same order on every rank");
    for (const auto& core : running_) result_.ranks.push_back(core->finish());
    return std::move(result_);
  }

 private:
  struct Queue {  // of the CC-cores of a core
    size_t front = 0;
    Ps free = 0;
  };
  struct Member {
    size_t collective, member;
  };
  // Collectives that share links or cores, or are joined by others that do; by their starts.
  struct Together {
    std::vector<size_t> collectives;
    std::optional<collectives::OngoingRuns> ongoing;  // of many
    std::vector<size_t> first_run;                    // in it, of each
  };
  using Microseconds = std::map<std::pair<HbmStack*, Ps>, double>;  // bytes by stack and microsecond
  // Bytes of a collective that a stack moves where kernels leave room for them.
  struct Yielding {
    HbmStack* stack;
    Ps at;
    double bytes;
  };

  void add_stacks(const arch::TimingTable& table) {
    cores_per_stack_ = timing::cores_per_hbm_stack(table);
    for (int core = 0; core < platform_.cores(); ++core) {
      const int stack = core / cores_per_stack_;
      stack_of_link_.emplace(platform_.hbm(core), stack);
    }
    for (const auto& own : cores_)
      if (auto& stack = stacks_[own.at(0) / cores_per_stack_]; !stack)
        stack = std::make_unique<HbmStack>(table);
  }

  void prepare(const arch::Tables& tables, const Collective& one, CollectiveTimes& times) const {
    const size_t ranks = one.group.size();
    times.triggered.assign(ranks, kNot);
    times.arrived.assign(ranks, kNot);
    times.ended.assign(ranks, kNot);
    collectives::RankCores cores;
    for (const int rank : one.group) {
      const auto& own = cores_.at(static_cast<size_t>(rank));
      cores.push_back(one.of_one_core ? std::vector{own.at(static_cast<size_t>(one.core))} : own);
    }
    const collectives::Layout layout = collectives::layout_of(platform_, cores);
    times.plans.reserve(one.requests.size());  // runs point to them
    for (const collectives::Request& request : one.requests) {
      const auto choice = collectives::choose_on(tables, platform_, request, cores, layout);
      times.algorithms.push_back(choice.algorithm.name);
      times.why.push_back(choice.why);
      times.plans.push_back(choice.algorithm.plan(request, layout));
      times.runs.push_back({&times.plans.back(),
                            collectives::costs_of(tables, platform_.generation(), choice.algorithm.name),
                            cores,
                            {},
                            std::max(0, one.priority)});
    }
  }

  void add_rank(const arch::TimingTable& table, size_t r) {
    const Rank& rank = ranks_[r];
    running_.push_back(std::make_unique<LogicalCore>(rank.cores, table, rank.sink, rank.options,
                                                     stacks_.at(cores_[r].at(0) / cores_per_stack_).get()));
    queues_.emplace_back(rank.cores.size());
    for (size_t core = 0; core < rank.collectives.size(); ++core) {
      std::vector<timing::CollectiveCopies> copies;
      for (const Copies& one : rank.collectives[core]) copies.push_back(one.tensors);
      running_[r]->set_collectives(core, copies);
    }
    next_.push_back(running_[r]->next());
  }

  void step(size_t r) {
    running_[r]->step();
    for (size_t core = 0; core < ranks_[r].collectives.size(); ++core) {
      Ps at = 0;
      for (int32_t own = 0; (own = running_[r]->take_trigger(core, &at)) >= 0;) {
        const Member member = member_of(r, core, static_cast<size_t>(own));
        result_.collectives[member.collective].triggered[member.member] = at;
        look_at_queue(r, core);
      }
    }
    next_[r] = running_[r]->next();
  }

  Member member_of(size_t r, size_t core, size_t own) const {
    const size_t number = ranks_[r].collectives[core][own].collective;
    const auto& group = collectives_[number].group;
    return {number, static_cast<size_t>(std::ranges::find(group, static_cast<int>(r)) - group.begin())};
  }

  // The collective at the head of a queue has arrived once it was triggered.
  void look_at_queue(size_t r, size_t core) {
    const Queue& queue = queues_[r][core];
    if (queue.front == ranks_[r].collectives[core].size()) return;
    const Member member = member_of(r, core, queue.front);
    CollectiveTimes& times = result_.collectives[member.collective];
    const Ps triggered = times.triggered[member.member];
    if (triggered < 0 || times.arrived[member.member] >= 0) return;
    times.arrived[member.member] = std::max(triggered, queue.free);
    if (std::ranges::all_of(times.arrived, [](Ps at) { return at >= 0; })) start(member.collective);
  }

  // With all that it shares links or cores with. Those that have ended count, too, as long as others that
  // they slowed are under way.
  void start(size_t number) {
    Together& together = join(number);
    const Ps now = started(number);
    if (together.collectives.size() > kTimedAnew) {
      go_on(together, now);
    } else {
      std::vector<collectives::Run> runs;
      for (const size_t one : together.collectives)
        for (collectives::Run& run : runs_of(one)) runs.push_back(std::move(run));
      collectives::Timing timing = collectives::time_of(platform_, runs);
      size_t next = 0;
      for (const size_t one : together.collectives) {
        auto& times = result_.collectives[one].times;
        times.clear();
        while (times.size() < result_.collectives[one].runs.size())
          times.push_back(std::move(timing.runs[next++]));
        foresee(one, now);
      }
    }
    take_memory(number);
  }

  // Nothing flows before the last rank has come.
  Ps started(size_t number) const { return *std::ranges::max_element(result_.collectives[number].arrived); }
  std::vector<collectives::Run> runs_of(size_t number) const {
    std::vector<collectives::Run> runs = result_.collectives[number].runs;
    for (collectives::Run& run : runs)
      run.arrivals_ps.assign(result_.collectives[number].arrived.size(), started(number));
    return runs;
  }

  // The last one joins the simulation of the others. Where it starts before one of them, or several lists
  // have become one, that begins anew.
  void go_on(Together& together, Ps now) {
    if (!together.ongoing || together.ongoing->now_ps() > now) {
      together.ongoing.emplace(platform_);
      together.first_run.clear();
      std::ranges::stable_sort(together.collectives, {}, [&](size_t one) { return started(one); });
    }
    for (size_t i = together.first_run.size(); i < together.collectives.size(); ++i) {
      together.first_run.push_back(together.ongoing->size());
      together.ongoing->join(runs_of(together.collectives[i]), started(together.collectives[i]));
    }
    for (size_t i = 0; i < together.collectives.size(); ++i) {
      const size_t one = together.collectives[i];
      if (waiting_[one] == 0 && one != together.collectives.back()) continue;
      auto& times = result_.collectives[one].times;
      times.clear();
      for (size_t run = 0; run < result_.collectives[one].runs.size(); ++run)
        times.push_back(together.ongoing->time(together.first_run[i] + run));
      foresee(one, now);
    }
  }

  // Puts a collective that starts to those that use a link or a core of it, and those to each other.
  Together& join(size_t number) {
    std::set<size_t> met;
    for (const int64_t used : used_[number])
      if (const auto found = user_.find(used); found != user_.end()) met.insert(found->second);
    const size_t to = met.empty() ? next_together_++ : *met.begin();
    Together& together = together_[to];
    for (const size_t other : met) {
      if (other == to) continue;
      const auto& more = together_[other].collectives;
      together.collectives.insert(together.collectives.end(), more.begin(), more.end());
      together.ongoing.reset();
      for (auto& [used, by] : user_)
        if (by == other) by = to;
      together_.erase(other);
    }
    if (met.size() > 1)
      std::ranges::stable_sort(together.collectives, {}, [&](size_t one) { return order_[one]; });
    together.collectives.push_back(number);
    order_[number] = next_order_++;
    for (const int64_t used : used_[number]) user_[used] = to;
    waiting_[number] = result_.collectives[number].ended.size();
    return together;
  }
  // Those that no longer matter: everything that they share links or cores with has ended.
  void forget(size_t number) {
    const size_t of = user_.at(used_[number].front());
    if (std::ranges::any_of(together_.at(of).collectives, [&](size_t one) { return waiting_[one] > 0; }))
      return;
    together_.erase(of);
    std::erase_if(user_, [&](const auto& one) { return one.second == of; });
  }

  // Links, and cores as negative numbers; sorted.
  std::vector<int64_t> used_by(const CollectiveTimes& times) const {
    std::set<int64_t> used;
    for (const collectives::Run& run : times.runs)
      for (const auto& cores : run.cores)
        for (const int core : cores) used.insert(-1 - int64_t{core});
    const collectives::TimingGraph graph = collectives::timing_graph(platform_, times.runs);
    for (const collectives::TimedStep& step : graph.steps)
      for (const fabric::Hop& hop : graph.hops_of(step.way)) used.insert(int64_t{hop.link});
    return {used.begin(), used.end()};
  }
  // Ends that nobody has been told yet, by the times of its runs.
  void foresee(size_t number, Ps now) {
    CollectiveTimes& times = result_.collectives[number];
    for (size_t m = 0; m < times.ended.size(); ++m) {
      Ps end = now;
      for (const collectives::RunTime& run : times.times)
        end = std::max(end, run.ends_ps[m] + held_up_[number]);
      const auto known = ends_.find({times.ended[m], number, m});
      if (times.ended[m] >= 0 && known == ends_.end()) continue;
      if (known != ends_.end()) ends_.erase(known);
      times.ended[m] = end;
      ends_.emplace(end, number, m);
    }
  }

  // What the steps read and write in HBM is not there for the kernels.
  void take_memory(size_t number) {
    const CollectiveTimes& times = result_.collectives[number];
    const collectives::TimingGraph graph = collectives::timing_graph(platform_, times.runs);
    size_t next = 0;
    for (const collectives::RunTime& time : times.times)
      for (const auto& steps : time.steps)
        for (const collectives::StepTime& step : steps) {
          const collectives::TimedStep& of = graph.steps[next++];
          for (const fabric::Hop& hop : graph.hops_of(of.way)) {
            const auto link = stack_of_link_.find(hop.link);
            if (link == stack_of_link_.end() || of.bytes == 0) continue;
            if (const auto stack = stacks_.find(link->second); stack != stacks_.end())
              take(number, *stack->second, step,
                   static_cast<double>(of.bytes) * hop.share / fabric::kWholeShare);
          }
        }
  }
  void take(size_t number, HbmStack& stack, const collectives::StepTime& step, double bytes) {
    const Ps pieces = std::max<Ps>(1, (step.end_ps - step.start_ps) / kPiece);
    const double all = bytes / static_cast<double>(pieces);
    const auto first = static_cast<int64_t>(all * of_collectives_);
    for (Ps piece = 0; piece < pieces; ++piece) {
      const Ps at = step.start_ps + piece * kPiece;
      if (first > 0) stack.reserve(at, first);
      of_collectives_at_[{&stack, at / kPiece}] += static_cast<double>(first);
      if (of_collectives_ < 1) yielding_[number].push_back({&stack, at, all * (1 - of_collectives_)});
    }
  }

  // When bytes are through that a collective has left at `from`: its share of each microsecond is there for
  // it, and what kernels leave. Transfers of kernels that are known already stay; later ones find it taken.
  Ps pass(HbmStack& stack, Ps from, double bytes) const {
    double left = bytes;
    Ps at = from;
    for (; left > 0;) {
      const cost::BandwidthSlices::Bytes there = stack.bytes_at(at);
      const double whole = there.taken + there.left;
      const Ps next = (at / kPiece + 1) * kPiece;
      const double rate = std::max(there.left, of_collectives_ * whole) / static_cast<double>(kPiece);
      const double here = std::min(left, rate * static_cast<double>(next - at));
      left -= here;
      at = left > 0 ? next : at + static_cast<Ps>(here / rate + 0.5);
    }
    stack.reserve(from, static_cast<int64_t>(bytes));
    return at;
  }

  // Whether a collective that would end for somebody at `end` ends later for all who are not through, as
  // kernels have left no room for all of its bytes. Until then no kernel can take more of what has been.
  bool hold_up(size_t number, Ps end) {
    Microseconds wanted;
    std::erase_if(yielding_[number], [&](const Yielding& one) {
      if (one.at >= end) return false;
      wanted[{one.stack, one.at / kPiece}] += one.bytes;
      return true;
    });
    std::map<HbmStack*, double> left;
    for (const auto& [where, bytes] : wanted) {
      const cost::BandwidthSlices::Bytes there = where.first->bytes_at(where.second * kPiece);
      const double of_kernels = std::max(0.0, there.taken - of_collectives_at_[where]);
      left[where.first] += std::min(of_kernels, std::max(0.0, bytes - there.left));
    }
    Ps later = end;
    for (const auto& [stack, bytes] : left)
      if (bytes >= 1) later = std::max(later, pass(*stack, end, bytes));
    if (later == end) return false;
    held_up_[number] += later - end;
    std::set<std::tuple<Ps, size_t, size_t>> moved;
    std::erase_if(ends_, [&](const auto& one) {
      const auto [at, of, m] = one;
      if (of != number) return false;
      result_.collectives[number].ended[m] = at + (later - end);
      moved.emplace(at + (later - end), of, m);
      return true;
    });
    ends_.merge(moved);
    return true;
  }

  void deliver() {
    const auto [end, number, m] = *ends_.begin();
    ends_.erase(ends_.begin());
    const Collective& one = collectives_[number];
    const CollectiveTimes& times = result_.collectives[number];
    const auto r = static_cast<size_t>(one.group[m]);
    const auto core = static_cast<size_t>(one.core);
    Queue& queue = queues_[r][core];
    running_[r]->complete(core, static_cast<int32_t>(queue.front), end,
                          one.label + " (" + times.algorithms[0] + ")");
    ++queue.front;
    queue.free = end;
    if (--waiting_[number] == 0) forget(number);
    look_at_queue(r, core);
    next_[r] = running_[r]->next();
  }

  const double of_collectives_;  // of an HBM stack, at most
  const fabric::Platform& platform_;
  const collectives::RankCores& cores_;
  const std::span<const Rank> ranks_;
  const std::span<const Collective> collectives_;
  Result result_;
  int cores_per_stack_ = 1;
  std::map<int, std::unique_ptr<HbmStack>> stacks_;
  std::map<fabric::LinkId, int> stack_of_link_;
  std::vector<std::unique_ptr<LogicalCore>> running_;
  std::vector<std::vector<Queue>> queues_;  // [rank][core]
  std::vector<Ps> next_;                    // [rank]: LogicalCore::next()
  std::map<size_t, Together> together_;     // collectives under way, and those that slowed them
  std::map<int64_t, size_t> user_;          // of a link or core (used_by()): of together_
  size_t next_together_ = 0, next_order_ = 0;
  std::vector<size_t> order_, waiting_;     // [collective]: of starts; how many have not been told its end
  std::vector<std::vector<int64_t>> used_;  // [collective]: see used_by()
  std::vector<std::vector<Yielding>> yielding_;    // [collective]: of what has not ended yet
  Microseconds of_collectives_at_;                 // that go before kernels' bytes
  std::vector<Ps> held_up_;                        // [collective]: by kernels' traffic
  std::set<std::tuple<Ps, size_t, size_t>> ends_;  // foreseen: when, collective, member
};

}  // namespace

Result simulate(const arch::Tables& tables, const fabric::Platform& platform,
                const collectives::RankCores& cores, std::span<const Rank> ranks,
                std::span<const Collective> collectives, const arch::DmaPackets& packets) {
  return Simulation(tables, platform, cores, ranks, collectives, packets).run();
}

}  // namespace opentrn::sim::ranks
