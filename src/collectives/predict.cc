#include "collectives/predict.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "base/units.h"
#include "collectives/algorithms.h"
#include "collectives/choose.h"
#include "collectives/repeat.h"

namespace opentrn::collectives {

namespace {

[[noreturn]] void refuse_ranks(const std::string& message, const std::string& hint) {
  throw Fault(FaultKind::kInput, "collectives.ranks", message, hint);
}

// The pairs of cores of the chip at `at` of a cycle, from the one with the link that the cycle comes by to
// the one with the link that it leaves by. Between them are those of the other cycle, in its direction: what
// maps the cycles of a torus to themselves or to each other maps these orders so too.
std::vector<int> pairs_along(const fabric::Platform& platform, const std::vector<std::vector<int>>& cycles,
                             size_t cycle, size_t at) {
  const auto ports = [&](size_t of) {
    const std::vector<int>& chips = cycles[of];
    const auto here = static_cast<size_t>(std::ranges::find(chips, cycles[cycle][at]) - chips.begin());
    const size_t n = chips.size();
    return std::pair(platform.port(chips[here], chips[(here + n - 1) % n]),
                     platform.port(chips[here], chips[(here + 1) % n]));
  };
  const auto [comes, leaves] = ports(cycle);
  std::vector<int> order = {comes};
  const auto add = [&](int pair) {
    if (pair != leaves && std::ranges::find(order, pair) == order.end()) order.push_back(pair);
  };
  for (size_t other = 0; other < cycles.size(); ++other) {
    if (other == cycle) continue;
    add(ports(other).first);
    add(ports(other).second);
  }
  for (int pair = 0; pair < platform.pairs_per_chip(); ++pair) add(pair);
  order.push_back(leaves);
  return order;
}

// Layout::passes; nothing where any core reaches any link, or where slots are not at the same pairs
// everywhere.
std::vector<std::vector<std::vector<int>>> passes_of(const fabric::Platform& platform, const RankCores& cores,
                                                     const Layout& layout) {
  std::map<std::pair<int, int>, int> pairs;  // of chips and slots
  for (size_t rank = 0; rank < cores.size(); ++rank) {
    const Layout::Rank& at = layout.ranks[rank];
    const int pair = platform.place(cores[rank].at(0)).seng;
    if (!pairs.try_emplace({layout.chip_in_instance(at), at.slot}, pair).second &&
        pairs[{layout.chip_in_instance(at), at.slot}] != pair)
      return {};
  }
  std::vector<std::vector<std::vector<int>>> passes;
  for (size_t cycle = 0; cycle < layout.cycles.size(); ++cycle) {
    const std::vector<int>& chips = layout.cycles[cycle];
    auto& of = passes.emplace_back();
    for (size_t at = 0; at < chips.size(); ++at) {
      if (platform.port(chips[at], chips[(at + 1) % chips.size()]) < 0) return {};
      auto& slots = of.emplace_back();
      for (const int pair : pairs_along(platform, layout.cycles, cycle, at))
        for (auto found = pairs.lower_bound({chips[at], 0});
             found != pairs.end() && found->first.first == chips[at]; ++found)
          if (found->second == pair && std::ranges::find(slots, found->first.second) == slots.end())
            slots.push_back(found->first.second);
    }
  }
  return passes;
}

// Layout::adapters, as bytes of the first rank's server leave by them; nothing where ranks are on one server,
// or no adapter is between them.
std::vector<int> adapters_of(const fabric::Platform& platform, const RankCores& cores, const Layout& layout) {
  const auto server = [&](size_t rank) { return layout.ranks[rank].server; };
  size_t elsewhere = 0;
  while (elsewhere < cores.size() && server(elsewhere) == server(0)) ++elsewhere;
  const bool has_adapters = std::ranges::any_of(platform.network().links, [](const fabric::Link& link) {
    return link.kind == fabric::LinkClass::kEfa;
  });
  if (elsewhere == cores.size() || !has_adapters) return {};
  std::vector<int> adapters;
  for (size_t rank = 0; rank < cores.size(); ++rank) {
    const auto chip = static_cast<size_t>(layout.ranks[rank].chip);
    if (adapters.size() <= chip) adapters.resize(chip + 1, -1);
    if (server(rank) != server(0) || adapters[chip] >= 0) continue;
    for (const fabric::Hop& hop : platform.path(cores[rank].at(0), cores[elsewhere].at(0)).hops)
      if (platform.network().links[static_cast<size_t>(hop.link)].kind == fabric::LinkClass::kEfa) {
        adapters[chip] = hop.link;
        break;
      }
    if (adapters[chip] < 0) return {};
  }
  return adapters;
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
  std::map<int, std::set<int>> chips;        // with ranks, of each server of the layout, or instance
  if (platform.alike_instances() > 1) layout.chips_of_instance = platform.chips_per_server();
  for (const std::vector<int>& own : cores) {
    const fabric::Place place = platform.place(own.at(0));
    const int server = place.server / joined;
    const int chip = place.server % joined * platform.chips_per_server() + place.chip;
    layout.ranks.push_back({server, chip, slots[{server, chip}]++});
    if (layout.chips_of_instance > 0)
      chips[place.server].insert(place.chip);
    else
      chips[server].insert(chip);
  }
  const std::set<int>& first = chips.begin()->second;
  const bool same = std::ranges::all_of(chips, [&](const auto& entry) { return entry.second == first; });
  const bool one_server = *first.rbegin() < platform.chips_per_server();
  if (!same) layout.chips_of_instance = 0;
  if (same && one_server) layout.cycles = platform.cycles(std::vector<int>(first.begin(), first.end()));
  layout.passes = passes_of(platform, cores, layout);
  layout.adapters = adapters_of(platform, cores, layout);
  layout.columns = static_cast<int>(first.size());
  if (one_server && platform.rows() * platform.columns() == layout.columns) {
    layout.rows = platform.rows();
    layout.columns = platform.columns();
  }
  return layout;
}

namespace {

// No flat ring is faster: a hop of a ring begins when the one before has ended, and each server's adapters
// carry the part of all ranks but those of the next server, once in each pass.
int64_t flat_ring_ps_min(const arch::Tables& tables, const fabric::Platform& platform, const Request& request,
                         const Layout& layout) {
  const Costs costs = costs_of(tables, platform.generation(), "flat_ring");
  const int passes = request.kind == Kind::kAllReduce ? 2 : 1;
  const auto hops = static_cast<double>(passes) * (request.ranks - 1);
  const auto bytes = static_cast<double>(std::max(input_bytes(request, 0), output_bytes(request, 0)));
  const std::set<int> adapters(layout.adapters.begin(), layout.adapters.end());
  double rate = 0;
  for (const fabric::Link& link : platform.network().links)
    if (link.kind == fabric::LinkClass::kEfa) rate = std::max(rate, static_cast<double>(link.bytes_per_s));
  const double latency = hops * static_cast<double>(costs.step_ps);
  if (adapters.empty() || rate == 0) return std::llround(latency);
  const double passed = bytes * passes * (1.0 - 1.0 / layout.servers());
  return std::llround(std::max(latency, passed / (rate * static_cast<double>(adapters.size())) * kPsPerS));
}

int64_t alone_ps(const arch::Tables& tables, const fabric::Platform& platform, const Algorithm& algorithm,
                 const Request& request, const RankCores& cores, const Layout& layout) {
  const Plan plan = algorithm.plan(request, layout);
  const Run run{&plan, costs_of(tables, platform.generation(), algorithm.name), cores, {}, 0};
  return time_of(platform, std::span(&run, 1)).end_ps();
}

}  // namespace

Choice choose_on(const arch::Tables& tables, const fabric::Platform& platform, const Request& request,
                 const RankCores& cores, const Layout& layout) {
  Choice choice = choose(tables, platform.generation(), request, layout);
  if (!choice.rival) return choice;
  const Algorithm rival = *choice.rival;
  choice.rival.reset();
  const int64_t own = alone_ps(tables, platform, choice.algorithm, request, cores, layout);
  const int64_t least = rival.name == "flat_ring" ? flat_ring_ps_min(tables, platform, request, layout) : 0;
  const int64_t other = least < own ? alone_ps(tables, platform, rival, request, cores, layout) : least;
  const auto us = [](int64_t ps) { return static_cast<double>(ps) / kPsPerUs; };
  const std::string named =
      rival.name == choice.algorithm.name ? "with meshes within servers it" : rival.name;
  choice.why += fmt::format(", in {:.1f} us; {} takes {}{:.1f}", us(own), named,
                            least < own ? "" : "at least ", us(other));
  if (other < own) {
    choice.algorithm = rival;
    choice.why += ": " + rival.name;
  }
  return choice;
}

Planned plan_of(const arch::Tables& tables, const fabric::Platform& platform, const Job& job) {
  const Layout layout = layout_of(platform, job.cores);
  Planned made;
  check(job.request);
  check(layout, job.request.ranks);
  if (job.algorithm.empty()) {
    const Choice choice = choose_on(tables, platform, job.request, job.cores, layout);
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

std::vector<float> busy_links(const fabric::Platform& platform, const Predictions& predictions) {
  const auto& links = platform.network().links;
  std::vector<float> busy(links.size());
  const double seconds = static_cast<double>(predictions.end_ps) / kPsPerS;
  for (size_t link = 0; link < links.size() && link < predictions.carried.size() && seconds > 0; ++link)
    if (links[link].bytes_per_s > 0)
      busy[link] =
          static_cast<float>(std::min(1.0, static_cast<double>(predictions.carried[link]) /
                                               (static_cast<double>(links[link].bytes_per_s) * seconds)));
  return busy;
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
