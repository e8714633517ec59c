#include "collectives/timing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "base/units.h"
#include "collectives/alike_ranks.h"
#include "collectives/coordinates.h"
#include "collectives/pipeline.h"

namespace opentrn::collectives {

namespace {

// Where the units lie that those of a plan's displacements lead to, seen from one unit: few are used, by many
// steps.
class Displaced {
 public:
  Displaced() = default;
  explicit Displaced(const SymmetricPlan& plan) : group_(plan.hierarchy), units_(plan.units()) {
    used_.clear();
    std::set<int32_t> used = {0};
    for (const auto* lists : {&plan.toward, &plan.waits_toward})
      for (const auto& list : *lists) used.insert(list.begin(), list.end());
    at_.assign(static_cast<size_t>(units_), -1);
    for (const int32_t by : used) {
      at_[static_cast<size_t>(by)] = static_cast<int32_t>(used_.size());
      used_.push_back(by);
    }
    leads_to_.resize(used_.size());
  }

  int32_t units() const { return units_; }
  void see_from(int32_t unit) {
    for (size_t i = 0; i < used_.size(); ++i) leads_to_[i] = group_.add(unit, used_[i]);
  }
  int32_t operator()(int32_t by) const {
    return leads_to_[static_cast<size_t>(at_[static_cast<size_t>(by)])];
  }

 private:
  Coordinates group_{Hierarchy{}};
  int32_t units_ = 1;
  std::vector<int32_t> used_ = {0}, at_ = {0}, leads_to_ = {0};  // at_: by displacement, where in the others
};

// The steps of all runs, numbered one behind the other, as a graph. A run of all units has those of the first
// unit first: what is close on the fabric is close in memory.
class GraphBuilder {
 public:
  GraphBuilder(const fabric::Platform& platform, std::span<const Run> runs)
      : platform_(platform), runs_(runs) {}

  TimingGraph build() {
    graph_.network = {{}, platform_.network().links};
    number_steps();
    for (int32_t run = 0; run < static_cast<int32_t>(runs_.size()); ++run) {
      const SymmetricPlan* all = runs_[static_cast<size_t>(run)].all_units;
      displaced_ = all ? Displaced(*all) : Displaced();
      for (unit_ = 0; unit_ < displaced_.units(); ++unit_) {
        if (all) displaced_.see_from(unit_);
        for (int32_t rank = 0; rank < ranks_of_unit(run); ++rank) add_rank(run, rank);
      }
    }
    return std::move(graph_);
  }

  // The graph of a plan of one rank of each unit: a class of ranks and a step of the plan for each class of
  // steps, a link for each class of links. Nothing where no classes are found.
  std::optional<RankClasses> build_alike(TimingGraph& out) {
    const Run& run = runs_[0];
    alike_ = run.alike_ranks;
    const auto steps = static_cast<int32_t>(run.plan->steps[0].size());
    rank_steps_.assign(1, 0);
    const WaysOfRanks ways = ways_of_ranks();
    auto found = rank_classes(ways, platform_.network());
    if (!found) return std::nullopt;
    class_of_rank_ = found->of_rank;
    for (const int32_t link : found->first_link)
      graph_.network.links.push_back(platform_.network().links[static_cast<size_t>(link)]);
    const auto classes = static_cast<int32_t>(found->first_rank.size());
    if (int64_t{classes} * steps > std::numeric_limits<int32_t>::max()) return std::nullopt;
    if (!add_ways(ways, *found)) return std::nullopt;
    rank_steps_.clear();
    for (int32_t c = 0; c < classes; ++c) rank_steps_.push_back(c * steps);
    graph_.ranks = classes;
    for (int32_t c = 0; c < classes; ++c) {
      seen_from_ = found->first_rank[static_cast<size_t>(c)];
      add_rank(0, 0);
    }
    out = std::move(graph_);
    return found;
  }

 private:
  // Of each rank of the unit and each kind of its steps' ways.
  WaysOfRanks ways_of_ranks() {
    const Run& run = runs_[0];
    const auto& list = run.plan->steps[0];
    std::vector<std::pair<Move, const Step*>> kinds;
    for (size_t i = 0; i < list.size(); ++i) {
      const Move move = move_of(run, 0, i);
      set_key(run, move, list[i]);
      const auto [found, is_new] = ways_.try_emplace(key_, static_cast<int32_t>(kinds.size()));
      if (is_new) kinds.emplace_back(move, &list[i]);
      kind_of_step_.push_back(found->second);
    }
    WaysOfRanks ways;
    ways.ranks = alike_->ranks_alike;
    ways.kinds = static_cast<int32_t>(kinds.size());
    std::set<int32_t> displacements;
    for (const auto* lists : {&alike_->toward, &alike_->waits_toward})
      for (const int32_t by : lists->at(0)) displacements.insert(alike_->rank_of(by));
    ways.displacements.assign(displacements.begin(), displacements.end());
    for (seen_from_ = 0; seen_from_ < ways.ranks; ++seen_from_)
      for (const auto& [move, step] : kinds) {
        interrupt::poll();
        const fabric::Path path = make_path(0, move, *step);
        ways.add(path.hops, path.latency_ps);
      }
    return ways;
  }

  // Of each class of ranks and each kind. False where numbers do not fit.
  bool add_ways(const WaysOfRanks& ways, const RankClasses& found) {
    std::vector<fabric::Hop> hops;
    for (size_t sort = 0; sort < found.loads.size(); ++sort) {
      int64_t common = 0;
      for (const RankClasses::Load& load : found.loads[sort]) common = std::gcd(common, load.share);
      multiplicity_.push_back(std::max<int64_t>(common, 1));
      hops.clear();
      for (const RankClasses::Load& load : found.loads[sort]) {
        if (load.share / multiplicity_.back() > std::numeric_limits<int32_t>::max()) return false;
        hops.push_back({load.link, static_cast<int32_t>(load.share / multiplicity_.back())});
      }
      const auto kinds = static_cast<size_t>(ways.kinds);
      const auto rank = static_cast<size_t>(found.first_rank[sort / kinds]);
      graph_.add_way(hops, ways.latency_ps[rank * kinds + sort % kinds]);
    }
    kinds_ = ways.kinds;
    return true;
  }

  int32_t ranks_of_unit(int32_t run) const {
    return static_cast<int32_t>(runs_[static_cast<size_t>(run)].plan->steps.size());
  }
  int32_t rank_index(int32_t run, int32_t rank) const {
    return alike_ ? class_of_rank_[static_cast<size_t>(rank)] : first_rank_[static_cast<size_t>(run)] + rank;
  }
  // Of all units, of a rank in the unit that is being added, and in the one that a displacement leads to.
  int32_t here(int32_t run, int32_t rank) const {
    return alike_ ? seen_from_ : unit_ * ranks_of_unit(run) + rank;
  }
  int32_t there(int32_t run, int32_t rank, int32_t by) const {
    if (alike_) return seen_from_ ^ alike_->rank_of(by);
    return displaced_(by) * ranks_of_unit(run) + rank;
  }

  void number_steps() {
    int32_t steps = 0;
    size_t waits = 0;
    for (int32_t run = 0; run < static_cast<int32_t>(runs_.size()); ++run) {
      const Run& of = runs_[static_cast<size_t>(run)];
      first_rank_.push_back(static_cast<int32_t>(rank_steps_.size()));
      const int32_t units = of.all_units ? of.all_units->units() : 1;
      for (int32_t unit = 0; unit < units; ++unit)
        for (const std::vector<Step>& list : of.plan->steps) {
          rank_steps_.push_back(steps);
          steps += static_cast<int32_t>(list.size());
        }
      for (const auto& pool : of.plan->wait_pool) waits += pool.size() * static_cast<size_t>(units);
    }
    graph_.ranks = static_cast<int32_t>(rank_steps_.size());
    graph_.steps.reserve(static_cast<size_t>(steps));
    graph_.waits.first.reserve(static_cast<size_t>(steps) + 1);
    graph_.waits.items.reserve(waits + static_cast<size_t>(steps));  // and the step before on the channel
  }

  void add_rank(int32_t run_index, int32_t rank) {
    const Run& run = runs_[static_cast<size_t>(run_index)];
    const Plan& plan = *run.plan;
    const SymmetricPlan* all = alike_ ? alike_ : run.all_units;
    const auto r = static_cast<size_t>(rank);
    const int32_t own = rank_index(run_index, here(run_index, rank));
    if (!alike_) ways_.clear();  // no two ranks have one
    last_.assign(static_cast<size_t>(plan.channels), -1);
    const auto& list = plan.steps[r];
    for (size_t i = 0; i < list.size(); ++i) {
      interrupt::poll();
      const Step& step = list[i];
      const Move move = move_of(run, rank, i);
      TimedStep timed;
      const auto index = static_cast<int32_t>(graph_.steps.size());
      for (uint32_t w = step.waits.begin; w < step.waits.begin + step.waits.count; ++w) {
        const StepRef& wait = plan.wait_pool[r][w];
        const int32_t of = there(run_index, wait.rank, all ? all->waits_toward[r][w] : 0);
        graph_.waits.items.push_back(rank_steps_[static_cast<size_t>(rank_index(run_index, of))] + wait.step);
      }
      int32_t& before = last_.at(static_cast<size_t>(step.channel));
      // Moves within a rank, one behind the other, are descriptors of one request.
      bool continues = false;
      if (before >= 0) {
        graph_.waits.items.push_back(before);
        const auto of_rank = before - rank_steps_[static_cast<size_t>(own)];
        continues = move.is_local && move_of(run, rank, static_cast<size_t>(of_rank)).is_local;
      }
      before = index;
      graph_.waits.close();
      timed.bytes = step.bytes;
      timed.begin_ps = continues ? 0 : run.costs.step_ps;
      timed.ready_ps = ready_ps(run, rank, step);
      timed.bytes_per_s_max = limit_of(run, rank, step, move.is_local);
      timed.packet_bytes = move.is_local ? 0 : run.costs.packet_bytes;
      timed.bursts = timed.packet_bytes > 0;
      timed.priority = run.priority;
      timed.rank = own;
      if (run.alike) timed.multiplicity = timed.at_rank = (*run.alike)[r][i];
      if (alike_) {
        timed.way = own * kinds_ + kind_of_step_[i];
        timed.multiplicity = multiplicity_[static_cast<size_t>(timed.way)];
      } else {
        timed.way = way_of(run_index, move, step);
      }
      graph_.steps.push_back(timed);
    }
  }

  // All ranks that the step touches have arrived.
  static int64_t ready_ps(const Run& run, int32_t rank, const Step& step) {
    const auto arrival = [&](int32_t at) {
      return run.arrivals_ps.empty() ? 0 : run.arrivals_ps.at(static_cast<size_t>(at));
    };
    int64_t ready = std::max(arrival(rank), arrival(step.peer));
    for (const At& source : run.plan->more_sources(rank, step)) ready = std::max(ready, arrival(source.rank));
    if (const At* second = run.plan->second_target(rank, step))
      ready = std::max(ready, arrival(second->rank));
    return ready + run.costs.start_ps;
  }

  struct Move {
    int32_t rank = 0, toward = 0;  // of the unit, and the displacement of the unit that it writes to
    Away away = Away::kHere;
    bool is_local = false;
  };
  Move move_of(const Run& run, int32_t rank, size_t step) const {
    const auto r = static_cast<size_t>(rank);
    Move move{rank, 0, run.away ? (*run.away)[r][step] : Away::kHere, false};
    if (alike_)
      move.toward = alike_->rank_of(alike_->toward[r][step]);
    else if (run.all_units)
      move.toward = run.all_units->toward[r][step];
    move.is_local = run.plan->steps[r][step].peer == rank && move.toward == 0 && move.away == Away::kHere;
    return move;
  }

  // Ways repeat: those of a rank are told by the ranks that a step touches.
  int32_t way_of(int32_t run_index, const Move& move, const Step& step) {
    set_key(runs_[static_cast<size_t>(run_index)], move, step);
    const auto [found, is_new] = ways_.try_emplace(key_, 0);
    if (is_new) {
      const fabric::Path path = make_path(run_index, move, step);
      found->second = graph_.add_way(path.hops, path.latency_ps);
    }
    return found->second;
  }

  void set_key(const Run& run, const Move& move, const Step& step) {
    key_.assign({step.peer, move.toward, static_cast<int32_t>(move.away),
                 reduces(run, move.rank, step) && !move.is_local});
    for (const At& source : run.plan->more_sources(move.rank, step)) key_.push_back(source.rank);
    if (const At* second = run.plan->second_target(move.rank, step)) key_.push_back(~second->rank);
  }

  static bool is_network(fabric::LinkClass kind) {
    return kind == fabric::LinkClass::kPcie || kind == fabric::LinkClass::kEfa ||
           kind == fabric::LinkClass::kSpine || kind == fabric::LinkClass::kCore;
  }

  // All that the step moves at once: from its sources, to its targets.
  fabric::Path make_path(int32_t run_index, const Move& move, const Step& step) const {
    const Run& run = runs_[static_cast<size_t>(run_index)];
    const int32_t rank = here(run_index, move.rank);
    fabric::Path path;
    const auto add = [&](int32_t from, int32_t to, Away how_far, double factor) {
      const auto& cores = run.cores.at(static_cast<size_t>(from));
      fabric::Path part = path_between(cores.at(0), run.cores.at(static_cast<size_t>(to)).at(0), how_far);
      path.latency_ps = std::max(path.latency_ps, part.latency_ps);
      for (const fabric::Hop& hop : part.hops) {
        // A logical core's DMA rings are those of all its cores.
        const fabric::LinkClass kind = platform_.network().links[static_cast<size_t>(hop.link)].kind;
        const bool rings = kind == fabric::LinkClass::kDmaRings;
        // What one unit puts on the links of its pod, all of the pod do.
        const int units = how_far == Away::kOtherPod && kind == fabric::LinkClass::kCore
                              ? platform_.one_in() * run.instances
                              : 1;
        // Sums are made by the DMA engines of the rank: the network takes what has been summed.
        const double times = is_network(kind) ? 1.0 : factor;
        const double share = hop.share * times / (rings ? static_cast<double>(cores.size()) : 1.0);
        add_hop(path, {hop.link, static_cast<int32_t>(std::lround(share)) * units});
      }
    };
    add(rank, there(run_index, step.peer, move.toward), move.away,
        reduces(run, move.rank, step) && !move.is_local ? run.costs.reduction_factor : 1.0);
    for (const At& source : run.plan->more_sources(move.rank, step)) {
      if (source.rank != move.rank)
        add(here(run_index, source.rank), rank, Away::kHere, 1.0);
      else
        add_hop(path, {platform_.hbm(run.cores[static_cast<size_t>(rank)].at(0)), fabric::kWholeShare});
    }
    if (const At* second = run.plan->second_target(move.rank, step))
      add(rank, there(run_index, second->rank, move.toward), move.away, 1.0);
    return path;
  }

  fabric::Path path_between(int from, int to, Away away) const {
    if (away == Away::kHere) return platform_.path(from, to);
    if (away > Away::kOtherPod)
      return path_to_instance(from, to, static_cast<int>(away) - static_cast<int>(Away::kOtherPod));
    const fabric::Path whole = platform_.path(from, to + platform_.cores() / platform_.units());
    fabric::Path path;
    path.latency_ps = whole.latency_ps;
    for (fabric::Hop hop : whole.hops) {
      const fabric::Link& link = platform_.network().links[static_cast<size_t>(hop.link)];
      if (link.kind == fabric::LinkClass::kCore && away == Away::kOtherUnit) {
        path.latency_ps -= link.latency_ps;
        continue;
      }
      if (link.kind != fabric::LinkClass::kCore) hop.link %= platform_.links_per_unit();
      path.hops.push_back(hop);  // a link may be there twice: shares are rounded one by one
    }
    return path;
  }

  // Links of other instances are those of the first one that stand for them.
  fabric::Path path_to_instance(int from, int to, int instance) const {
    const int cores = platform_.chips_per_server() * platform_.cores_per_chip();
    fabric::Path path = platform_.path(from, to + instance * cores);
    for (fabric::Hop& hop : path.hops) hop.link = first_of_alike(hop.link);
    return path;
  }
  fabric::LinkId first_of_alike(fabric::LinkId link) const {
    fabric::LinkId first = link;
    for (int by = 1; by < platform_.alike_instances(); ++by)
      first = std::min(first, platform_.seen_from(by, link));
    return first;
  }

  static void add_hop(fabric::Path& path, fabric::Hop hop) {
    const auto same = std::ranges::find(path.hops, hop.link, &fabric::Hop::link);
    if (same == path.hops.end())
      path.hops.push_back(hop);
    else
      same->share += hop.share;
  }

  // Of how many parts the step makes a sum.
  static int64_t addends(const Run& run, int32_t rank, const Step& step) {
    return static_cast<int64_t>(run.plan->more_sources(rank, step).size()) + 1 + (step.reduces ? 1 : 0);
  }
  static bool reduces(const Run& run, int32_t rank, const Step& step) { return addends(run, rank, step) > 1; }

  // What the engines of the rank can do, whatever the links allow.
  static int64_t limit_of(const Run& run, int32_t rank, const Step& step, bool is_local) {
    const Costs& costs = run.costs;
    if (is_local)
      return reduces(run, rank, step) && costs.local_reduction_bytes_per_s > 0
                 ? costs.local_reduction_bytes_per_s / addends(run, rank, step)
                 : fabric::kNoLimit;
    if (costs.channel_bytes_per_s == 0) return fabric::kNoLimit;
    const double factor = reduces(run, rank, step) ? costs.reduction_factor : 1.0;
    return std::llround(static_cast<double>(costs.channel_bytes_per_s) / factor);
  }

  const fabric::Platform& platform_;
  std::span<const Run> runs_;
  TimingGraph graph_;
  std::vector<int32_t> first_rank_, rank_steps_;  // [run] -> rank, [rank] -> its first step
  Displaced displaced_;                           // of the run and unit that are being added
  int32_t unit_ = 0;
  // Of a plan of one rank: the rank that it is seen from, and what is known of ranks, steps and ways.
  const SymmetricPlan* alike_ = nullptr;
  int32_t seen_from_ = 0, kinds_ = 0;
  std::vector<int32_t> class_of_rank_, kind_of_step_;
  std::vector<int64_t> multiplicity_;
  std::vector<int32_t> last_;  // [channel] of the rank that is being added
  struct KeyHash {
    size_t operator()(const std::vector<int32_t>& key) const {
      uint64_t hash = 0;
      for (const int32_t value : key) {
        hash = (hash ^ static_cast<uint32_t>(value)) * 0x9e3779b97f4a7c15;
        hash ^= hash >> 32;
      }
      return hash;
    }
  };
  std::vector<int32_t> key_;
  std::unordered_map<std::vector<int32_t>, int32_t, KeyHash> ways_;
};

[[noreturn]] void refuse_stuck(std::span<const Run> runs, const GraphTimes& times,
                               const std::vector<int32_t>* classes) {
  int32_t left = times.never_starts;
  if (left >= 0 && classes) left = static_cast<int32_t>(std::ranges::find(*classes, left) - classes->begin());
  for (const Run& run : runs)
    for (size_t rank = 0; left >= 0 && rank < run.plan->steps.size(); ++rank) {
      const auto steps = static_cast<int32_t>(run.plan->steps[rank].size());
      if (left < steps)
        throw Fault(FaultKind::kProgram, "collectives.deadlock",
                    fmt::format("{}: rank {} step {} never starts: what it waits for never ends",
                                run.plan->algorithm, rank, left),
                    "verify the plan");
      left -= steps;
    }
  throw Fault(FaultKind::kProgram, "collectives.link_down",
              fmt::format("{} transfers have no link that carries them", times.not_carried),
              "see that no link on their way is down");
}

// The times of the steps, and with them those of the ranks. `step_time`: of a step by its number in the run.
template <typename StepTimes>
RunTime times_of_run(const Run& run, const StepTimes& step_time) {
  RunTime of;
  const size_t ranks = run.plan->steps.size();
  for (size_t rank = 0; rank < ranks; ++rank)
    of.ends_ps.push_back((run.arrivals_ps.empty() ? 0 : run.arrivals_ps.at(rank)) + run.costs.start_ps);
  size_t next = 0;
  for (size_t rank = 0; rank < ranks; ++rank) {
    auto& steps = of.steps.emplace_back();
    for (const Step& step : run.plan->steps[rank]) {
      const StepTime time = step_time(next++);
      steps.push_back(time);
      for (const size_t at : {rank, static_cast<size_t>(step.peer)})
        of.ends_ps[at] = std::max(of.ends_ps[at], time.end_ps);
    }
  }
  return of;
}

void put_times(std::span<const Run> runs, const std::vector<StepTime>& times,
               const std::vector<int32_t>* classes, Timing& out) {
  size_t first = 0;
  for (const Run& run : runs) {
    out.runs.push_back(times_of_run(run, [&](size_t step) {
      return times[classes ? static_cast<size_t>((*classes)[first + step]) : first + step];
    }));
    first += run.plan->step_count();
  }
}

int64_t latest(std::span<const int64_t> ends) {
  return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
}

}  // namespace

RunTime run_time(const Run& run, std::span<const StepTime> steps) {
  return times_of_run(run, [&](size_t step) { return steps[step]; });
}

std::vector<std::vector<Away>> away_of(const SymmetricPlan& plan) {
  const std::vector<bool> leaves = plan.leaving_pod();
  const std::vector<int> instances = plan.exchanging_instances();
  const auto how_far = [&](int32_t toward) {
    const auto unit = static_cast<size_t>(plan.unit_of(toward));
    if (unit == 0) return Away::kHere;
    if (instances[unit] > 0) return static_cast<Away>(static_cast<int>(Away::kOtherPod) + instances[unit]);
    return leaves[unit] ? Away::kOtherPod : Away::kOtherUnit;
  };
  std::vector<std::vector<Away>> away;
  for (const auto& list : plan.toward) {
    auto& own = away.emplace_back();
    for (const int32_t toward : list) own.push_back(how_far(toward));
  }
  return away;
}

int64_t RunTime::end_ps() const { return latest(ends_ps); }

int64_t Timing::end_ps() const {
  int64_t last = 0;
  for (const RunTime& run : runs) last = std::max(last, run.end_ps());
  return last;
}

Costs costs_of(const arch::Tables& tables, Generation generation, const std::string& algorithm) {
  const std::string group = fmt::format("collective_time.{}.", table_key(generation));
  const arch::FactTable& facts = tables.facts();
  if (!facts.find(group + "step_us"))
    throw Fault(FaultKind::kNotModelled, "collectives.time",
                fmt::format("nothing is public of what a collective costs on {}", table_key(generation)),
                "use a Trainium or Inferentia2 instance");
  Costs costs;
  costs.step_ps = std::llround(double{facts.spec<double>(group + "step_us")} * kPsPerUs);
  costs.reduction_factor = double{facts.spec<double>(group + "reduction_factor")};
  const auto channel = facts.optional_spec<double>(group + algorithm + ".channel_gb_s");
  const auto packet = facts.optional_spec<double>(group + algorithm + ".packet_bytes");
  if (packet.listed()) {
    costs.packet_bytes = std::llround(double{packet});
    costs.local_reduction_bytes_per_s =
        std::llround(double{facts.spec<double>(group + "local_reduction_gb_s")} * kBytesPerGb);
  }
  const auto start = facts.optional_spec<double>(group + algorithm + ".start_us");
  if (start.listed()) costs.start_ps = std::llround(double{start} * kPsPerUs);
  if (channel.listed()) costs.channel_bytes_per_s = std::llround(double{channel} * kBytesPerGb);
  return costs;
}

TimingGraph timing_graph(const fabric::Platform& platform, std::span<const Run> runs) {
  return GraphBuilder(platform, runs).build();
}

namespace {

struct Simulated {
  std::optional<StepClasses> classes;
  GraphTimes times;
  int64_t steps = 0, classes_count = 0;
  std::vector<int64_t> carried;

  const std::vector<int32_t>* of_step() const { return classes ? &classes->of_step : nullptr; }
};

Simulated simulated(TimingGraph graph, Folding folding) {
  Simulated out;
  if (folding == Folding::kByClasses) out.classes = classes_of(graph);
  const TimingGraph& run = out.classes ? out.classes->quotient : graph;
  out.times = simulate(run);
  out.steps = static_cast<int64_t>(graph.steps.size());
  out.classes_count = static_cast<int64_t>(run.steps.size());
  if (!out.classes)
    out.carried = std::move(out.times.carried);
  else if (out.times.not_carried == 0)
    for (const int32_t of : out.classes->of_link)
      out.carried.push_back(out.times.carried[static_cast<size_t>(of)]);
  return out;
}

}  // namespace

Timing time_of(const fabric::Platform& platform, std::span<const Run> runs, Folding folding) {
  Simulated done = simulated(timing_graph(platform, runs), folding);
  if (done.times.not_carried > 0) refuse_stuck(runs, done.times, done.of_step());
  Timing out;
  out.steps = done.steps;
  out.classes = done.classes_count;
  put_times(runs, done.times.steps, done.of_step(), out);
  out.carried = std::move(done.carried);
  return out;
}

namespace {

void refuse_not_carried(const GraphTimes& times) {
  if (times.not_carried > 0)
    throw Fault(FaultKind::kProgram, "collectives.link_down",
                fmt::format("{} transfers have no link that carries them", times.not_carried),
                "see that no link on their way is down");
}

}  // namespace

ClusterTime cluster_time(const fabric::Platform& platform, const Run& run, Folding folding) {
  Simulated done = simulated(timing_graph(platform, std::span(&run, 1)), folding);
  refuse_not_carried(done.times);
  ClusterTime out{run.costs.start_ps, std::move(done.carried), done.steps, done.classes_count};
  for (const StepTime& step : done.times.steps) out.end_ps = std::max(out.end_ps, step.end_ps);
  return out;
}

namespace {

PartSteps steps_of_part(const Run& run, const SymmetricPlan& part) {
  PartSteps out;
  out.step_ps = run.costs.step_ps;
  for (size_t rank = 0; rank < part.unit.steps.size(); ++rank) {
    const auto& list = part.unit.steps[rank];
    const auto& ends = part.phase_ends[rank];
    for (size_t i = 0; i < list.size(); ++i) {
      const auto at = static_cast<int32_t>(i);
      out.phase.push_back(static_cast<int8_t>(at < ends[0] ? 0 : at < ends[1] ? 1 : 2));
      out.queue.push_back(static_cast<int32_t>(rank) * part.unit.channels + list[i].channel);
      out.is_local.push_back(list[i].peer == static_cast<int32_t>(rank) && part.toward[rank][i] == 0);
    }
  }
  return out;
}

}  // namespace

std::optional<ClusterTime> cluster_time_of_parts(const fabric::Platform& platform, const Run& run,
                                                 const SymmetricPlan& part, int parts) {
  TimingGraph graph = timing_graph(platform, std::span(&run, 1));
  const PartSteps steps = steps_of_part(run, part);
  tell_phases_apart(graph, steps);
  constexpr int kTurnsMax = 4;
  auto classes = classes_of(graph);
  for (int turn = 0; classes && tell_queues_apart(graph, classes->of_step, steps); ++turn)
    classes = turn < kTurnsMax ? classes_of(graph) : std::nullopt;
  if (!classes) return std::nullopt;
  const auto all = pipelined(classes->quotient, classes->of_step, steps, parts);
  if (!all) return std::nullopt;
  const GraphTimes times = simulate(*all);
  refuse_not_carried(times);
  ClusterTime out{run.costs.start_ps,
                  {},
                  static_cast<int64_t>(graph.steps.size()),
                  static_cast<int64_t>(all->steps.size())};
  for (const int32_t of : classes->of_link) out.carried.push_back(times.carried[static_cast<size_t>(of)]);
  for (const StepTime& step : times.steps) out.end_ps = std::max(out.end_ps, step.end_ps);
  return out;
}

std::optional<ClusterTime> cluster_time_of_rank(const fabric::Platform& platform, const Run& run) {
  TimingGraph graph;
  const auto classes = GraphBuilder(platform, std::span(&run, 1)).build_alike(graph);
  if (!classes) return std::nullopt;
  const GraphTimes times = simulate(graph);
  refuse_not_carried(times);
  ClusterTime out{run.costs.start_ps,
                  {},
                  static_cast<int64_t>(run.plan->step_count()),
                  static_cast<int64_t>(graph.steps.size())};
  for (const int32_t of : classes->of_link) out.carried.push_back(times.carried[static_cast<size_t>(of)]);
  for (const StepTime& step : times.steps) out.end_ps = std::max(out.end_ps, step.end_ps);
  return out;
}

}  // namespace opentrn::collectives
