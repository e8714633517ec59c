#include "collectives/timing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <tuple>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "fabric/flows.h"

namespace opentrn::collectives {

namespace {

constexpr double kPsPerUs = 1e6;
constexpr double kBytesPerGb = 1e9;

// A step of one of the runs, numbered through all of them.
struct Task {
  int32_t run = 0, rank = 0, step = 0;
  int32_t pending =
      0;  // waits, the step before it on the channel, and the arrivals of all ranks that it touches
};

class Simulation {
 public:
  Simulation(const fabric::Platform& platform, std::span<const Run> runs)
      : platform_(platform), runs_(runs), flows_(platform.network()) {
    number_tasks();
    link_tasks();
  }

  Timing run() {
    release_arrivals();
    while (left_ > 0) {
      interrupt::poll();
      const int64_t flow_end = flows_.next_end();
      const int64_t event = events_.empty() ? INT64_MAX : std::get<0>(events_.top());
      const int64_t now = std::min(flow_end, event);
      if (now == INT64_MAX) stuck();
      for (const fabric::FlowId flow : flows_.advance(now))
        moved(task_of_flow_[static_cast<size_t>(flow)], now);
      while (!events_.empty() && std::get<0>(events_.top()) == now) {
        const auto [at, what, index] = events_.top();
        events_.pop();
        if (what == What::kArrival)
          arrive(index, now);
        else if (what == What::kStart)
          start(index, now);
        else
          end(index, now);
      }
    }
    return result();
  }

 private:
  enum class What : uint8_t { kArrival, kStart, kEnd };
  using Event = std::tuple<int64_t, What, int32_t>;  // of which rank or task

  const Step& step_of(const Task& task) const {
    return runs_[static_cast<size_t>(task.run)]
        .plan->steps[static_cast<size_t>(task.rank)][static_cast<size_t>(task.step)];
  }
  const Run& run_of(const Task& task) const { return runs_[static_cast<size_t>(task.run)]; }

  void number_tasks() {
    for (size_t run = 0; run < runs_.size(); ++run) {
      const Plan& plan = *runs_[run].plan;
      first_rank_.push_back(static_cast<int32_t>(rank_tasks_.size()));
      for (size_t rank = 0; rank < plan.steps.size(); ++rank) {
        rank_tasks_.push_back(static_cast<int32_t>(tasks_.size()));
        for (size_t step = 0; step < plan.steps[rank].size(); ++step)
          tasks_.push_back(
              {static_cast<int32_t>(run), static_cast<int32_t>(rank), static_cast<int32_t>(step), 0});
      }
    }
    rank_tasks_.push_back(static_cast<int32_t>(tasks_.size()));
    left_ = tasks_.size();
    times_.resize(tasks_.size());
    rank_end_.resize(rank_tasks_.size() - 1);
    last_burst_.resize(rank_end_.size());
    burst_.resize(tasks_.size());
    moves_from_.resize(tasks_.size());
    continues_.resize(tasks_.size());
  }

  int32_t rank_index(int32_t run, int32_t rank) const { return first_rank_[static_cast<size_t>(run)] + rank; }
  int32_t task_index(int32_t run, StepRef at) const {
    return rank_tasks_[static_cast<size_t>(rank_index(run, at.rank))] + at.step;
  }

  // Who is told of whose end: pairs (before, after), then as lists one behind the other.
  void link_tasks() {
    std::vector<std::pair<int32_t, int32_t>> edges;
    std::vector<int32_t> last;
    for (int32_t index = 0; index < static_cast<int32_t>(tasks_.size()); ++index) {
      Task& task = tasks_[static_cast<size_t>(index)];
      const Step& step = step_of(task);
      if (task.step == 0) last.assign(static_cast<size_t>(run_of(task).plan->channels), -1);
      int32_t& before = last.at(static_cast<size_t>(step.channel));
      if (before >= 0) {
        edges.emplace_back(before, index);
        continues_[static_cast<size_t>(index)] =
            step.peer == task.rank && step_of(tasks_[static_cast<size_t>(before)]).peer == task.rank;
      }
      before = index;
      const Plan& plan = *run_of(task).plan;
      for (const StepRef& wait : plan.waits(task.rank, step))
        edges.emplace_back(task_index(task.run, wait), index);
      const auto needs = [&](int32_t rank) {
        waiting_for_rank_.emplace_back(rank_index(task.run, rank), index);
      };
      needs(task.rank);
      if (step.peer != task.rank) needs(step.peer);
      for (const At& source : plan.more_sources(task.rank, step))
        if (source.rank != task.rank) needs(source.rank);
      if (const At* second = plan.second_target(task.rank, step)) needs(second->rank);
    }
    for (const auto& [before, after] : edges) ++tasks_[static_cast<size_t>(after)].pending;
    for (const auto& [rank, after] : waiting_for_rank_) ++tasks_[static_cast<size_t>(after)].pending;
    followers_ = lists(tasks_.size(), edges);
    arrivals_ = lists(rank_end_.size(), waiting_for_rank_);
  }

  struct Lists {
    std::vector<int32_t> first, items;
    std::span<const int32_t> of(int32_t key) const {
      const auto at = static_cast<size_t>(key);
      return std::span(items).subspan(static_cast<size_t>(first[at]),
                                      static_cast<size_t>(first[at + 1] - first[at]));
    }
  };
  static Lists lists(size_t keys, const std::vector<std::pair<int32_t, int32_t>>& pairs) {
    Lists out;
    out.first.assign(keys + 1, 0);
    for (const auto& [key, item] : pairs) ++out.first[static_cast<size_t>(key) + 1];
    for (size_t key = 0; key < keys; ++key) out.first[key + 1] += out.first[key];
    out.items.resize(pairs.size());
    std::vector<int32_t> at(out.first.begin(), out.first.end() - 1);
    for (const auto& [key, item] : pairs)
      out.items[static_cast<size_t>(at[static_cast<size_t>(key)]++)] = item;
    return out;
  }

  void release_arrivals() {
    for (size_t run = 0; run < runs_.size(); ++run)
      for (size_t rank = 0; rank < runs_[run].plan->steps.size(); ++rank) {
        const auto& arrivals = runs_[run].arrivals_ps;
        const int64_t at = (arrivals.empty() ? 0 : arrivals.at(rank)) + runs_[run].costs.start_ps;
        const int32_t index = rank_index(static_cast<int32_t>(run), static_cast<int32_t>(rank));
        rank_end_[static_cast<size_t>(index)] = at;
        events_.emplace(at, What::kArrival, index);
      }
  }

  void arrive(int32_t rank, int64_t now) {
    for (const int32_t task : arrivals_.of(rank)) release(task, now);
  }

  void release(int32_t index, int64_t now) {
    Task& task = tasks_[static_cast<size_t>(index)];
    if (--task.pending > 0) return;
    times_[static_cast<size_t>(index)].start_ps = now;
    join_burst(index, task, now);
    const int64_t begin = continues_[static_cast<size_t>(index)] ? 0 : run_of(task).costs.step_ps;
    events_.emplace(now + begin + path_of(task).latency_ps, What::kStart, index);
  }

  void join_burst(int32_t index, const Task& task, int64_t now) {
    const Step& step = step_of(task);
    if (step.peer == task.rank) return;
    LastBurst& last = last_burst_[static_cast<size_t>(rank_index(task.run, task.rank))];
    if (last.at_ps != now) {
      last = {now, static_cast<int32_t>(burst_bytes_.size())};
      burst_bytes_.push_back(0);
    }
    burst_[static_cast<size_t>(index)] = last.number;
    burst_bytes_[static_cast<size_t>(last.number)] += step.bytes;
  }

  // Paths repeat: most steps go from a rank to a peer and do nothing else.
  const fabric::Path& path_of(const Task& task) {
    const Step& step = step_of(task);
    if (step.places.count > 0) return scratch_ = make_path(task, step);
    const auto key = std::tuple(task.run, task.rank, step.peer, step.reduces);
    const auto found = paths_.find(key);
    return found != paths_.end() ? found->second : paths_.emplace(key, make_path(task, step)).first->second;
  }

  // All that the step moves at once: from its sources, to its targets.
  fabric::Path make_path(const Task& task, const Step& step) const {
    const Run& run = run_of(task);
    fabric::Path path;
    const auto add = [&](int32_t from, int32_t to, double factor) {
      const auto& cores = run.cores.at(static_cast<size_t>(from));
      fabric::Path part = platform_.path(cores.at(0), run.cores.at(static_cast<size_t>(to)).at(0));
      path.latency_ps = std::max(path.latency_ps, part.latency_ps);
      for (const fabric::Hop& hop : part.hops) {
        // A logical core's DMA rings are those of all its cores.
        const bool rings =
            platform_.network().links[static_cast<size_t>(hop.link)].kind == fabric::LinkClass::kDmaRings;
        const double share = hop.share * factor / (rings ? static_cast<double>(cores.size()) : 1.0);
        add_hop(path, {hop.link, static_cast<int32_t>(std::lround(share))});
      }
    };
    add(task.rank, step.peer,
        reduces(task, step) && step.peer != task.rank ? run.costs.reduction_factor : 1.0);
    for (const At& source : run.plan->more_sources(task.rank, step)) {
      if (source.rank != task.rank)
        add(source.rank, task.rank, 1.0);
      else
        add_hop(path, {platform_.hbm(run.cores[static_cast<size_t>(task.rank)].at(0)), fabric::kWholeShare});
    }
    if (const At* second = run.plan->second_target(task.rank, step)) add(task.rank, second->rank, 1.0);
    return path;
  }

  static void add_hop(fabric::Path& path, fabric::Hop hop) {
    const auto same = std::ranges::find(path.hops, hop.link, &fabric::Hop::link);
    if (same == path.hops.end())
      path.hops.push_back(hop);
    else
      same->share += hop.share;
  }

  // Of how many parts the step makes a sum.
  int64_t addends(const Task& task, const Step& step) const {
    return static_cast<int64_t>(run_of(task).plan->more_sources(task.rank, step).size()) + 1 +
           (step.reduces ? 1 : 0);
  }
  bool reduces(const Task& task, const Step& step) const { return addends(task, step) > 1; }

  // What the engines of the rank can do, whatever the links allow.
  int64_t limit_of(const Task& task, const Step& step) const {
    const Costs& costs = run_of(task).costs;
    if (step.peer == task.rank)
      return reduces(task, step) && costs.local_reduction_bytes_per_s > 0
                 ? costs.local_reduction_bytes_per_s / addends(task, step)
                 : fabric::kNoLimit;
    if (costs.channel_bytes_per_s == 0) return fabric::kNoLimit;
    const double factor = reduces(task, step) ? costs.reduction_factor : 1.0;
    return std::llround(static_cast<double>(costs.channel_bytes_per_s) / factor);
  }

  void start(int32_t index, int64_t now) {
    const Task& task = tasks_[static_cast<size_t>(index)];
    const Step& step = step_of(task);
    if (step.bytes == 0) return end(index, now);
    moves_from_[static_cast<size_t>(index)] = now;
    const fabric::FlowId flow =
        flows_.start(now, {path_of(task).hops, step.bytes, limit_of(task, step), run_of(task).priority});
    if (static_cast<size_t>(flow) >= task_of_flow_.size())
      task_of_flow_.resize(static_cast<size_t>(flow) + 1, -1);
    task_of_flow_[static_cast<size_t>(flow)] = index;
  }

  // The last byte has left; it is there when its packet is.
  void moved(int32_t index, int64_t now) {
    const Task& task = tasks_[static_cast<size_t>(index)];
    const int64_t packet = run_of(task).costs.packet_bytes;
    if (packet == 0 || step_of(task).peer == task.rank) return end(index, now);
    // The packets of all that the rank was allowed to move at one time go to all targets in turn.
    const int64_t bytes = burst_bytes_[static_cast<size_t>(burst_[static_cast<size_t>(index)])];
    const double part = std::min(1.0, static_cast<double>(packet) / static_cast<double>(bytes));
    const double last = static_cast<double>(now - moves_from_[static_cast<size_t>(index)]) * part;
    events_.emplace(now + std::llround(last), What::kEnd, index);
  }

  void end(int32_t index, int64_t now) {
    const Task& task = tasks_[static_cast<size_t>(index)];
    times_[static_cast<size_t>(index)].end_ps = now;
    --left_;
    for (const int32_t rank : {task.rank, step_of(task).peer}) {
      int64_t& last = rank_end_[static_cast<size_t>(rank_index(task.run, rank))];
      last = std::max(last, now);
    }
    for (const int32_t after : followers_.of(index)) release(after, now);
  }

  [[noreturn]] void stuck() const {
    for (const Task& task : tasks_)
      if (task.pending > 0)
        throw Fault(FaultKind::kProgram, "collectives.deadlock",
                    fmt::format("{}: rank {} step {} never starts: what it waits for never ends",
                                run_of(task).plan->algorithm, task.rank, task.step),
                    "verify the plan");
    throw Fault(FaultKind::kProgram, "collectives.link_down",
                fmt::format("{} transfers have no link that carries them", left_),
                "see that no link on their way is down");
  }

  Timing result() {
    Timing out;
    for (size_t run = 0; run < runs_.size(); ++run) {
      RunTime& of = out.runs.emplace_back();
      const size_t ranks = runs_[run].plan->steps.size();
      for (size_t rank = 0; rank < ranks; ++rank) {
        const auto index =
            static_cast<size_t>(rank_index(static_cast<int32_t>(run), static_cast<int32_t>(rank)));
        of.ends_ps.push_back(rank_end_[index]);
        of.steps.emplace_back(times_.begin() + rank_tasks_[index], times_.begin() + rank_tasks_[index + 1]);
      }
    }
    for (size_t link = 0; link < platform_.network().links.size(); ++link)
      out.carried.push_back(flows_.carried(static_cast<fabric::LinkId>(link)));
    return out;
  }

  const fabric::Platform& platform_;
  std::span<const Run> runs_;
  fabric::Flows flows_;
  std::vector<Task> tasks_;
  std::vector<StepTime> times_;
  std::vector<int32_t> first_rank_, rank_tasks_;
  std::vector<char> continues_;  // moves within a rank, one behind the other: descriptors of one request
  std::vector<int64_t> rank_end_;
  // What a rank was allowed to move at one time is a burst: [task], its bytes, and the last one of each rank.
  std::vector<int32_t> burst_;
  std::vector<int64_t> burst_bytes_, moves_from_;
  struct LastBurst {
    int64_t at_ps = -1;
    int32_t number = 0;
  };
  std::vector<LastBurst> last_burst_;
  std::vector<std::pair<int32_t, int32_t>> waiting_for_rank_;
  Lists followers_, arrivals_;
  std::map<std::tuple<int32_t, int32_t, int32_t, bool>, fabric::Path> paths_;
  fabric::Path scratch_;  // of a step that no other is like
  std::vector<int32_t> task_of_flow_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  size_t left_ = 0;
};

int64_t latest(std::span<const int64_t> ends) {
  return ends.empty() ? 0 : *std::max_element(ends.begin(), ends.end());
}

}  // namespace

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

Timing time_of(const fabric::Platform& platform, std::span<const Run> runs) {
  return Simulation(platform, runs).run();
}

}  // namespace opentrn::collectives
