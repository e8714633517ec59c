#include "monitor/host_usage.h"

#include <fstream>
#include <sstream>

#include <unistd.h>

#include <fmt/format.h>

namespace opentrn::monitor {

HostUsage host_usage() {
  HostUsage usage;
  std::ifstream file("/proc/stat");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    words >> name;
    if (name == "ctxt") words >> usage.context_switches;
    if (!name.starts_with("cpu")) continue;
    CpuTicks ticks;
    for (uint64_t& value : ticks.ticks) words >> value;
    if (name == "cpu")
      usage.all = ticks;
    else
      usage.each.push_back(ticks);
  }
  return usage;
}

std::optional<ProcessUsage> process_usage(uint64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  const size_t behind = text.rfind(')');  // the name may hold anything
  if (behind == std::string::npos) return std::nullopt;
  std::istringstream words(text.substr(behind + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) words >> skipped;
  ProcessUsage usage;
  words >> usage.user_ticks >> usage.system_ticks;
  for (int i = 0; i < 8; ++i) words >> skipped;  // up to the size in pages, which is skipped too
  uint64_t pages = 0;
  if (!(words >> pages)) return std::nullopt;
  usage.resident_bytes = pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  return usage;
}

std::map<std::string, uint64_t> memory_info() {
  std::map<std::string, uint64_t> info;
  std::ifstream file("/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    uint64_t kib = 0;
    if (words >> name >> kib && !name.empty()) info[name.substr(0, name.size() - 1)] = kib * 1024;
  }
  return info;
}

}  // namespace opentrn::monitor
