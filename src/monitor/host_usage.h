// What /proc tells of this host: vCPUs, memory, and the CPU time of a process.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opentrn::monitor {

// Ticks since the start, by AWS's names: user nice system idle io_wait irq soft_irq.
struct CpuTicks {
  uint64_t ticks[7]{};
};
inline constexpr const char* kCpuNames[7] = {"user", "nice", "system", "idle", "io_wait", "irq", "soft_irq"};

struct HostUsage {
  CpuTicks all;
  std::vector<CpuTicks> each;
  uint64_t context_switches = 0;
};
HostUsage host_usage();

struct ProcessUsage {
  uint64_t user_ticks = 0, system_ticks = 0;
  uint64_t resident_bytes = 0;
};
std::optional<ProcessUsage> process_usage(uint64_t pid);

// In bytes, by the names of /proc/meminfo.
std::map<std::string, uint64_t> memory_info();

}  // namespace opentrn::monitor
