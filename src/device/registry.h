// The folder of records: which processes of this user hold simulated cores, and what they did.
//
// The folder is OPENTRN_RUN_DIR, else $XDG_RUNTIME_DIR/opentrn, else opentrn-UID in the system's folder for
// temporary files. It is of mode 0700 and owned by the user; a folder that others may write to, or a link, is
// refused. A record is named by the process's number.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/record.h"

namespace opentrn::device {

// Of the environment; no folder where OPENTRN_RUN_DIR is "off".
std::optional<std::filesystem::path> run_folder();
// Makes the folder. Input fault "device.run_folder" where it cannot be, or is not safe.
void make_run_folder(const std::filesystem::path& folder);

struct CoreState {
  uint64_t index = 0;
  uint64_t busy_ns[2]{}, elapsed_ns = 0, simulating_ns = 0, timed = 0, untimed = 0, flops = 0, loads = 0;
  uint64_t outcomes[kOutcomes]{};
  uint64_t memory[kMemories]{}, memory_peak[kMemories]{};
  uint64_t last_ns = 0;
};

struct LoadedModel {
  uint64_t id = 0, core = 0, constants = 0, code = 0, scratchpad = 0, digest = 0;
  std::string name;
};

struct Latency {
  uint64_t end_ns = 0, total_ns = 0, device_ns = 0;
};

// One process at one moment. Texts are UTF-8 without control characters.
struct Process {
  uint64_t pid = 0, start_ticks = 0;
  bool is_tool = false;
  uint32_t physical_cores_per_core = 1;
  std::string tag, command, instance, runtime_version;
  std::vector<CoreState> cores;
  std::vector<LoadedModel> models;
  std::vector<Latency> latencies;  // oldest first

  bool holds(uint64_t core) const;
};

// A record's bytes, which may be anything. Input fault "device.record" for what is none.
Process parse_record(std::span<const std::byte> bytes, const std::string& name);

// The live processes, by number. Records of processes that are gone are passed over and removed; damaged ones
// are passed over and named in `damaged`. Faults of an unsafe folder; none where there is no folder.
// `watch`: asks each process for predicted times, so long from now.
struct Listing {
  std::vector<Process> processes;
  std::vector<std::string> damaged;
};
Listing list_processes(std::chrono::nanoseconds watch = {});

// One of them; nullopt where no live process of that number is listed. Faults as above.
std::optional<Process> find_process(uint64_t pid);

// Of /proc/PID/stat; nullopt when there is no such process.
std::optional<uint64_t> start_ticks_of(uint64_t pid);
uint64_t monotonic_ns();

}  // namespace opentrn::device
