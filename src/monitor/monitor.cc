#include "monitor/monitor.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "device/registry.h"
#include "monitor/metrics.h"

namespace opentrn::monitor {

namespace {

constexpr double kNs = 1e-9;
constexpr std::chrono::seconds kWatchMin{15};

Json group_of(const std::string& type, const Machine& machine, const Moment& from, const Moment& to) {
  if (type == "neuroncore_counters") return neuroncore_counters(machine, from, to);
  if (type == "execution_stats") return execution_stats(from, to);
  if (type == "memory_used") return memory_used(machine, from, to);
  return runtime_vcpu_usage(from, to);
}

// One group of a process: the moment of its last collection and what that said.
struct Collected {
  Moment last;
  Json value;
};

struct Followed {
  std::map<std::string, Collected> groups;
};

}  // namespace

struct Monitor::State {
  Machine machine;
  MonitorConfig config;
  std::map<std::pair<size_t, std::string>, uint64_t>
      due;  // entry (the last: the host's), group -> monotonic ns
  std::map<std::pair<uint64_t, uint64_t>, Followed> processes;  // by number and start
  HostUsage host;
  std::map<std::string, uint64_t> system_at;
  std::map<std::string, Json> system;
  double longest_s = 0;

  template <typename Visit>
  void each_group(Visit visit) {
    for (size_t i = 0; i < config.runtimes.size(); ++i)
      for (const MetricGroup& group : config.runtimes[i].metrics) visit(i, group);
    for (const MetricGroup& group : config.system) visit(config.runtimes.size(), group);
  }

  // The first entry whose filter takes the tag; nothing where none does.
  std::optional<size_t> entry_of(const device::Process& process) const {
    if (process.is_tool) return std::nullopt;
    for (size_t i = 0; i < config.runtimes.size(); ++i)
      if (!config.runtimes[i].tag || std::regex_search(process.tag, *config.runtimes[i].tag)) return i;
    return std::nullopt;
  }

  Json report_of(size_t entry, const device::Process& process,
                 const std::set<std::pair<size_t, std::string>>& now_due, uint64_t now) {
    Followed& followed = processes[{process.pid, process.start_ticks}];
    const Moment moment{now, process, process_usage(process.pid)};
    Json report;
    for (const MetricGroup& group : config.runtimes[entry].metrics) {
      auto [found, is_new] = followed.groups.try_emplace(group.type);
      Collected& collected = found->second;
      if (is_new) {
        collected.last = moment;  // what it did before is not of this period
        collected.value = group_of(group.type, machine, moment, moment);
      } else if (now_due.contains({entry, group.type})) {
        collected.value = group_of(group.type, machine, collected.last, moment);
        collected.last = moment;
      }
      report[group.type] = collected.value;
    }
    return {{"pid", process.pid},
            {"address", ""},
            {"neuron_runtime_tag", process.tag},
            {"error", ""},
            {"report", std::move(report)}};
  }

  void collect_system(const std::string& type, uint64_t now) {
    const double period = static_cast<double>(now - system_at[type]) * kNs;
    system_at[type] = now;
    if (type == "memory_info") system[type] = memory_info_group(period);
    if (type == "neuron_hw_counters") system[type] = hardware_counters(period, machine);
    if (type != "vcpu_usage") return;
    HostUsage usage = host_usage();
    system[type] = monitor::vcpu_usage(period, host, usage);
    host = std::move(usage);
  }
};

Monitor::Monitor(Machine machine, MonitorConfig config) : state_(std::make_unique<State>()) {
  state_->machine = std::move(machine);
  state_->config = std::move(config);
  const uint64_t now = device::monotonic_ns();
  state_->host = host_usage();
  state_->each_group([&](size_t entry, const MetricGroup& group) {
    state_->due[{entry, group.type}] = now + static_cast<uint64_t>(group.period_s / kNs);
    state_->longest_s = std::max(state_->longest_s, group.period_s);
  });
  for (const MetricGroup& group : state_->config.system) state_->system_at[group.type] = now;
  // From here on the processes tell predicted times, and each has a first moment.
  report();
}

Monitor::~Monitor() = default;

double Monitor::wait_s() const {
  uint64_t first = UINT64_MAX;
  for (const auto& [group, at] : state_->due) first = std::min(first, at);
  const uint64_t now = device::monotonic_ns();
  if (state_->due.empty()) return 5;  // no groups at all: reports of the machine alone
  return first > now ? static_cast<double>(first - now) * kNs : 0;
}

std::string Monitor::report() {
  const auto watch = std::chrono::duration_cast<std::chrono::nanoseconds>(
      std::chrono::duration<double>(2 * state_->longest_s) + kWatchMin);
  const device::Listing listing = device::list_processes(watch);
  const uint64_t now = device::monotonic_ns();
  std::set<std::pair<size_t, std::string>> now_due;
  state_->each_group([&](size_t entry, const MetricGroup& group) {
    uint64_t& at = state_->due[{entry, group.type}];
    if (at > now) return;
    at = now + static_cast<uint64_t>(group.period_s / kNs);
    now_due.insert({entry, group.type});
    if (entry == state_->config.runtimes.size()) state_->collect_system(group.type, now);
  });
  Json runtimes = Json::array();
  std::set<std::pair<uint64_t, uint64_t>> alive;
  for (const device::Process& process : listing.processes)
    if (const auto entry = state_->entry_of(process)) {
      runtimes.push_back(state_->report_of(*entry, process, now_due, now));
      alive.insert({process.pid, process.start_ticks});
    }
  std::erase_if(state_->processes, [&](const auto& followed) { return !alive.contains(followed.first); });
  Json system = Json::object();
  for (const auto& [type, value] : state_->system) system[type] = value;
  const Json whole{{"neuron_runtime_data", std::move(runtimes)},
                   {"system_data", std::move(system)},
                   {"instance_info", instance_info(state_->machine)},
                   {"neuron_hardware_info", hardware_info(state_->machine)}};
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace opentrn::monitor
