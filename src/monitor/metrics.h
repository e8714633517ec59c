// The metric groups of neuron-monitor, each from two moments of a process or of this host.
#pragma once

#include <optional>

#include <nlohmann/json.hpp>

#include "device/registry.h"
#include "monitor/host_usage.h"
#include "monitor/machine.h"

namespace opentrn::monitor {

using Json = nlohmann::ordered_json;

// A process at one moment.
struct Moment {
  uint64_t at_ns = 0;  // CLOCK_MONOTONIC
  device::Process process;
  std::optional<ProcessUsage> usage;
};

// From the first moment to the second; all begin with "period" in seconds and end with "error".
Json neuroncore_counters(const Machine& machine, const Moment& from, const Moment& to);
Json execution_stats(const Moment& from, const Moment& to);
Json memory_used(const Machine& machine, const Moment& from, const Moment& to);
Json runtime_vcpu_usage(const Moment& from, const Moment& to);
Json vcpu_usage(double period_s, const HostUsage& from, const HostUsage& to);
Json memory_info_group(double period_s);
// A simulated device has no such events: all are zero.
Json hardware_counters(double period_s, const Machine& machine);

Json instance_info(const Machine& machine);
Json hardware_info(const Machine& machine);

}  // namespace opentrn::monitor
