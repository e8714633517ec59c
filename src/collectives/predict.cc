#include "collectives/predict.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "collectives/algorithms.h"
#include "collectives/choose.h"
#include "collectives/repeat.h"

namespace opentrn::collectives {

namespace {

[[noreturn]] void refuse_ranks(const std::string& message, const std::string& hint) {
  throw Fault(FaultKind::kInput, "collectives.ranks", message, hint);
}

}  // namespace

RankCores place_ranks(const fabric::Platform& platform, int ranks, int cores_per_rank, int servers) {
  const int cores_per_server = platform.chips_per_server() * platform.cores_per_chip();
  const bool equally = servers != 0;
  if (cores_per_rank < 1 || platform.cores_per_chip() % cores_per_rank != 0)
    refuse_ranks(fmt::format("{} physical cores a rank, of the {} of a chip", cores_per_rank,
                             platform.cores_per_chip()),
                 "--lnc 1 or 2, as the chip has it");
  if (servers == 0) servers = (ranks * cores_per_rank + cores_per_server - 1) / cores_per_server;
  if (servers < 1 || servers > platform.servers())
    refuse_ranks(fmt::format("{} servers, of {}", servers, platform.servers()), "more of them with --nodes");
  if (ranks < 1 || (equally && ranks % servers != 0))
    refuse_ranks(fmt::format("{} ranks on {} servers: not the same number on each", ranks, servers),
                 "a number of ranks that divides by the servers");
  const int room = cores_per_server / cores_per_rank;
  const int per_server = equally ? ranks / servers : room;
  if (per_server > room)
    refuse_ranks(fmt::format("{} ranks on a server of {} that has room for {} ({} physical cores each)",
                             per_server, platform.name(), room, cores_per_rank),
                 "fewer ranks, more nodes, or --lnc 1");
  RankCores cores;
  for (int rank = 0; rank < ranks; ++rank) {
    const int first = rank / per_server * cores_per_server + rank % per_server * cores_per_rank;
    auto& own = cores.emplace_back();
    for (int core = 0; core < cores_per_rank; ++core) own.push_back(first + core);
  }
  return cores;
}

fabric::Platform platform_for(const arch::Tables& tables, Generation generation, int ranks,
                              int cores_per_rank) {
  struct Machine {
    int cores = 0;
    std::string name;
  };
  std::vector<Machine> machines, instances;
  for (const arch::Instance& instance : tables.instances()) {
    const arch::Chip& chip = tables.chip(instance.chip);
    if (chip.generation == generation && instance.topology.known())
      instances.push_back({instance.chips * int{chip.cores}, instance.name});
  }
  machines = instances;
  for (const arch::UltraServer& server : tables.ultraservers()) {
    const arch::Chip& chip = tables.chip(server.chip);
    if (chip.generation == generation)
      machines.push_back({server.servers * server.chips_per_server * int{chip.cores}, server.name});
  }
  if (instances.empty())
    throw Fault(FaultKind::kNotModelled, "collectives.machine",
                fmt::format("no machine of {} is known", table_key(generation)), "another target");
  const int needed = ranks * cores_per_rank;
  const auto by_cores = [](const Machine& a, const Machine& b) { return a.cores < b.cores; };
  std::ranges::stable_sort(machines, by_cores);
  for (const Machine& machine : machines)
    if (machine.cores >= needed) return fabric::Platform::make(tables, machine.name);
  const Machine& largest = *std::ranges::max_element(instances, by_cores);
  return fabric::Platform::make(tables, largest.name, (needed + largest.cores - 1) / largest.cores);
}

fabric::Platform machine_of(const arch::Tables& tables, const std::string& target, Generation generation,
                            int ranks, int cores_per_rank) {
  if (tables.find_instance(target) != nullptr || tables.find_ultraserver(target) != nullptr)
    return fabric::Platform::make(tables, target);
  return platform_for(tables, generation, ranks, cores_per_rank);
}

Layout layout_of(const fabric::Platform& platform, const RankCores& cores) {
  Layout layout;
  const int joined = platform.servers_per_unit();
  std::map<std::pair<int, int>, int> slots;  // taken on each chip
  std::map<int, std::set<int>> chips;        // with ranks, of each server of the layout
  for (const std::vector<int>& own : cores) {
    const fabric::Place place = platform.place(own.at(0));
    const int server = place.server / joined;
    const int chip = place.server % joined * platform.chips_per_server() + place.chip;
    layout.ranks.push_back({server, chip, slots[{server, chip}]++});
    chips[server].insert(chip);
  }
  const std::set<int>& first = chips.begin()->second;
  const bool same = std::ranges::all_of(chips, [&](const auto& entry) { return entry.second == first; });
  const bool one_server = *first.rbegin() < platform.chips_per_server();
  if (same && one_server) layout.cycles = platform.cycles(std::vector<int>(first.begin(), first.end()));
  layout.columns = static_cast<int>(first.size());
  if (one_server && platform.rows() * platform.columns() == layout.columns) {
    layout.rows = platform.rows();
    layout.columns = platform.columns();
  }
  return layout;
}

Planned plan_of(const arch::Tables& tables, const fabric::Platform& platform, const Job& job) {
  const Layout layout = layout_of(platform, job.cores);
  Planned made;
  check(job.request);
  check(layout, job.request.ranks);
  if (job.algorithm.empty()) {
    const Choice choice = choose(tables, platform.generation(), job.request, layout);
    made.algorithm = choice.algorithm.name;
    made.why = choice.why;
    made.plan = choice.algorithm.plan(job.request, layout);
  } else {
    made.algorithm = job.algorithm;
    made.why = "it was asked for";
    made.plan = make_plan(job.algorithm, job.request, layout);
  }
  if (job.repeats != 1) made.plan = repeated(made.plan, job.repeats);
  return made;
}

Predictions predict(const arch::Tables& tables, const fabric::Platform& platform, std::span<const Job> jobs) {
  (void)costs_of(tables, platform.generation(), "");  // which says what is not known of a generation
  Predictions out;
  std::vector<Run> runs;
  out.jobs.reserve(jobs.size());  // runs point to the plans
  for (const Job& job : jobs) {
    Prediction& made = out.jobs.emplace_back(Prediction{plan_of(tables, platform, job), {}});
    runs.push_back(
        {&made.plan, costs_of(tables, platform.generation(), made.algorithm), job.cores, {}, job.priority});
  }
  Timing timing = time_of(platform, runs);
  out.end_ps = timing.end_ps();
  for (size_t i = 0; i < jobs.size(); ++i) out.jobs[i].time = std::move(timing.runs[i]);
  out.carried = std::move(timing.carried);
  return out;
}

std::vector<std::string> basis_of(const arch::Tables& tables, const fabric::Platform& platform) {
  std::map<arch::Confidence, std::vector<std::string>> by_confidence;
  const auto add = [&](const arch::Fact& fact) {
    auto& keys = by_confidence[fact.confidence];
    if (std::ranges::find(keys, fact.key) == keys.end()) keys.push_back(fact.key);
  };
  for (const arch::Fact* fact :
       tables.facts().under(fmt::format("collective_time.{}", table_key(platform.generation()))))
    add(*fact);
  for (int kind = 0; kind <= static_cast<int>(fabric::LinkClass::kHbm); ++kind)
    for (const arch::Fact* fact : platform.facts(static_cast<fabric::LinkClass>(kind))) add(*fact);
  std::vector<std::string> lines;
  for (const auto& [confidence, keys] : by_confidence)
    lines.push_back(fmt::format("{}: {}", arch::to_string(confidence), fmt::join(keys, ", ")));
  return lines;
}

}  // namespace opentrn::collectives
