#include "monitor/metrics.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include <unistd.h>

#include <fmt/format.h>

namespace opentrn::monitor {

namespace {

using device::CoreState;
using device::Memory;
using device::Outcome;

constexpr double kNs = 1e-9;

double seconds(const Moment& from, const Moment& to) {
  return static_cast<double>(to.at_ns - from.at_ns) * kNs;
}

double rounded(double percent) { return std::round(percent * 100) / 100; }

// The core at the first moment; zeros where the process did not hold it.
CoreState before(const Moment& from, uint64_t index) {
  for (const CoreState& core : from.process.cores)
    if (core.index == index) return core;
  CoreState none;
  none.index = index;
  return none;
}

// Counters only grow; what a damaged record says backwards counts as nothing.
uint64_t grown(uint64_t from, uint64_t to) { return to >= from ? to - from : 0; }

std::string core_version(const Machine& machine) {
  const bool doubled = machine.physical_cores_per_core == 2;
  return fmt::format("v{}{}", machine.generation, doubled ? "d" : "");
}

Json core_counters(const Machine& machine, const CoreState& a, const CoreState& b, double period) {
  const double simulated = static_cast<double>(grown(a.elapsed_ns, b.elapsed_ns)) * kNs;
  const double simulating = static_cast<double>(grown(a.simulating_ns, b.simulating_ns)) * kNs;
  const double span = std::max(period - simulating, 0.0) + simulated;
  const int physical = machine.physical_cores_per_core;
  double sum = 0;
  Json parts;
  for (int i = 0; i < physical; ++i) {
    const double busy = static_cast<double>(grown(a.busy_ns[i], b.busy_ns[i])) * kNs;
    const double percent = span > 0 ? 100 * busy / span : 0;
    sum += percent;
    parts[fmt::format("nc_v{}.{}", machine.generation,
                      b.index * static_cast<uint64_t>(physical) + static_cast<uint64_t>(i))] = {
        {"neuroncore_utilization", rounded(percent)}};
  }
  Json out{
      {"neuroncore_utilization", rounded(sum / physical)},
      {"flops", span > 0 ? static_cast<uint64_t>(static_cast<double>(grown(a.flops, b.flops)) / span) : 0}};
  if (physical == 2) out[core_version(machine)] = std::move(parts);
  return out;
}

Json percentiles(std::vector<double> values) {
  if (values.empty()) return nullptr;
  std::sort(values.begin(), values.end());
  Json out;
  for (const int percent : {0, 1, 25, 50, 75, 99, 100}) {  // the nearest rank
    const double rank = std::ceil(percent / 100.0 * static_cast<double>(values.size()));
    out[fmt::format("p{}", percent)] = values[static_cast<size_t>(std::max(rank, 1.0)) - 1];
  }
  return out;
}

uint64_t total_outcome(const device::Process& process, Outcome outcome) {
  uint64_t sum = 0;
  for (const CoreState& core : process.cores) sum += core.outcomes[static_cast<size_t>(outcome)];
  return sum;
}

Json host_breakdown(uint64_t application) {
  return {{"application_memory", application}, {"constants", 0}, {"dma_buffers", 0}, {"tensors", 0}};
}

Json loaded_model(const Machine& machine, const device::LoadedModel& model) {
  Json breakdown{{"constants", model.constants}};
  if (model.code != device::kUnknown) breakdown["model_code"] = model.code;
  const Device* device = machine.device_of(model.core);
  Json subgraph{
      {"memory_used_bytes",
       {{"host", 0},
        {"neuron_device", model.constants + (model.code == device::kUnknown ? 0 : model.code)},
        {"usage_breakdown", {{"host", host_breakdown(0)}, {"neuron_device", std::move(breakdown)}}}}},
      {"neuroncore_index", model.core}};
  if (device) subgraph["neuron_device_index"] = device->index;
  Json loaded{{"name", model.name},
              {"model_id", model.id},
              {"is_running", false},
              {"subgraphs", {{"sg_00", std::move(subgraph)}}}};
  if (model.digest != 0) loaded["uuid"] = fmt::format("{:032x}", model.digest);
  return loaded;
}

Json usage_between(const CpuTicks& from, const CpuTicks& to) {
  double sum = 0;
  for (int i = 0; i < 7; ++i) sum += static_cast<double>(grown(from.ticks[i], to.ticks[i]));
  Json out;
  for (int i = 0; i < 7; ++i)
    out[kCpuNames[i]] =
        sum > 0 ? rounded(100 * static_cast<double>(grown(from.ticks[i], to.ticks[i])) / sum) : 0.0;
  return out;
}

}  // namespace

Json neuroncore_counters(const Machine& machine, const Moment& from, const Moment& to) {
  Json cores = Json::object();
  std::string error;
  for (const CoreState& core : to.process.cores) {
    const CoreState a = before(from, core.index);
    const uint64_t untimed = grown(a.untimed, core.untimed);
    if (untimed == 0) {
      cores[std::to_string(core.index)] = core_counters(machine, a, core, seconds(from, to));
    } else if (error.empty()) {
      error = fmt::format("{} executions on core {} have no predicted time", untimed, core.index);
    }
  }
  return {{"period", seconds(from, to)}, {"neuroncores_in_use", std::move(cores)}, {"error", error}};
}

Json execution_stats(const Moment& from, const Moment& to) {
  const auto count = [&](Outcome outcome) {
    return grown(total_outcome(from.process, outcome), total_outcome(to.process, outcome));
  };
  std::vector<double> totals, devices;
  for (const device::Latency& latency : to.process.latencies) {
    if (latency.end_ns <= from.at_ns || latency.end_ns > to.at_ns) continue;
    totals.push_back(static_cast<double>(latency.total_ns) * kNs);
    devices.push_back(static_cast<double>(latency.device_ns) * kNs);
  }
  return {
      {"period", seconds(from, to)},
      {"error_summary",
       {{"generic", count(Outcome::kCompletedWithError)},
        {"transient", 0},
        {"model", 0},
        {"runtime", 0},
        {"hardware", 0}}},
      {"execution_summary",
       {{"completed", count(Outcome::kCompleted)},
        {"completed_with_err", count(Outcome::kCompletedWithError)},
        {"timed_out", 0},
        {"incorrect_input", count(Outcome::kIncorrectInput)},
        {"failed_to_queue", 0}}},
      {"latency_stats", {{"total_latency", percentiles(totals)}, {"device_latency", percentiles(devices)}}},
      {"error", ""}};
}

Json memory_used(const Machine& machine, const Moment& from, const Moment& to) {
  constexpr std::pair<Memory, const char*> kNames[] = {{Memory::kConstants, "constants"},
                                                       {Memory::kModelCode, "model_code"},
                                                       {Memory::kScratchpad, "model_shared_scratchpad"},
                                                       {Memory::kTensors, "tensors"}};
  uint64_t total = 0;
  Json cores = Json::object();
  const bool unknown_code = std::any_of(to.process.models.begin(), to.process.models.end(),
                                        [](const auto& model) { return model.code == device::kUnknown; });
  for (const CoreState& core : to.process.cores) {
    Json row;
    for (const auto& [kind, name] : kNames) {
      const uint64_t bytes = core.memory[static_cast<size_t>(kind)];
      total += bytes;
      if (kind == Memory::kModelCode && unknown_code) continue;
      // Whoever never had one does not count them.
      if (kind == Memory::kTensors && core.memory_peak[static_cast<size_t>(kind)] == 0) continue;
      row[name] = bytes;
    }
    cores[std::to_string(core.index)] = std::move(row);
  }
  Json models = Json::array();
  for (const device::LoadedModel& model : to.process.models) models.push_back(loaded_model(machine, model));
  const uint64_t host = to.usage ? to.usage->resident_bytes : 0;
  return {{"period", seconds(from, to)},
          {"neuron_runtime_used_bytes",
           {{"host", host},
            {"neuron_device", total},
            {"usage_breakdown",
             {{"host", host_breakdown(host)}, {"neuroncore_memory_usage", std::move(cores)}}}}},
          {"loaded_models", std::move(models)},
          {"error", to.usage ? "" : "the process is gone"}};
}

Json runtime_vcpu_usage(const Moment& from, const Moment& to) {
  const double ticks = seconds(from, to) * static_cast<double>(sysconf(_SC_CLK_TCK)) *
                       static_cast<double>(sysconf(_SC_NPROCESSORS_ONLN));
  const bool known = from.usage && to.usage && ticks > 0;
  const auto share = [&](uint64_t a, uint64_t b) {
    return rounded(100 * static_cast<double>(grown(a, b)) / ticks);
  };
  Json usage = nullptr;
  if (known)
    usage = {{"user", share(from.usage->user_ticks, to.usage->user_ticks)},
             {"system", share(from.usage->system_ticks, to.usage->system_ticks)}};
  return {
      {"period", seconds(from, to)}, {"vcpu_usage", usage}, {"error", known ? "" : "the process is gone"}};
}

Json vcpu_usage(double period_s, const HostUsage& from, const HostUsage& to) {
  Json each = Json::object();
  for (size_t i = 0; i < std::min(from.each.size(), to.each.size()); ++i)
    each[std::to_string(i)] = usage_between(from.each[i], to.each[i]);
  return {{"period", period_s},
          {"average_usage", usage_between(from.all, to.all)},
          {"usage_data", std::move(each)},
          {"context_switch_count", grown(from.context_switches, to.context_switches)},
          {"error", ""}};
}

Json memory_info_group(double period_s) {
  auto info = memory_info();
  return {{"period", period_s},
          {"memory_total_bytes", info["MemTotal"]},
          {"memory_used_bytes", info["MemTotal"] - info["MemAvailable"]},
          {"swap_total_bytes", info["SwapTotal"]},
          {"swap_used_bytes", info["SwapTotal"] - info["SwapFree"]},
          {"error", ""}};
}

Json hardware_counters(double period_s, const Machine& machine) {
  Json devices = Json::array();
  for (const Device& device : machine.devices)
    devices.push_back({{"neuron_device_index", device.index},
                       {"mem_ecc_corrected", 0},
                       {"mem_ecc_uncorrected", 0},
                       {"sram_ecc_uncorrected", 0},
                       {"sram_ecc_corrected", 0}});
  return {{"period", period_s}, {"neuron_devices", std::move(devices)}, {"error", ""}};
}

Json instance_info(const Machine& machine) {
  return {{"instance_name", ""},
          {"instance_id", machine.instance_id},
          {"instance_type", machine.instance_type},
          {"instance_availability_zone", ""},
          {"instance_availability_zone_id", ""},
          {"instance_region", ""},
          {"ami_id", ""},
          {"subnet_id", ""},
          {"error", "a simulated machine: there is no instance metadata"}};
}

Json hardware_info(const Machine& machine) {
  std::string type = machine.chip;
  std::transform(type.begin(), type.end(), type.begin(), [](unsigned char c) { return std::tolower(c); });
  Json info{{"neuron_device_type", type}};
  // AWS's guide to neuron-monitor has it of this chip; no page tells it of others.
  if (type == "trainium2") info["neuron_device_version"] = "v4";
  info["neuroncore_version"] = core_version(machine);
  info["neuron_device_count"] = machine.devices.size();
  info["neuron_device_memory_size"] = machine.memory_bytes;
  info["neuroncore_per_device_count"] = machine.devices.empty() ? 0 : machine.devices[0].cores.size();
  if (machine.has_logical_cores) info["logical_neuroncore_config"] = machine.physical_cores_per_core;
  info["error"] = "";
  return info;
}

}  // namespace opentrn::monitor
