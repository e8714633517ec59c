// What a process tells the tools of its simulated cores: one file of fixed layout, shared in memory.
//
// The process that holds cores writes (presence.h); neuron-ls, neuron-monitor and the simulated device tree
// read (registry.h). Counters only grow, are eight bytes and aligned, so that a reader sees each whole; two
// counters may be of different moments. All numbers are of this host's byte order: a record never leaves it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace opentrn::device {

inline constexpr char kRecordMagic[8] = {'O', 'T', 'R', 'N', 'R', 'U', 'N', '1'};
inline constexpr uint32_t kRecordVersion = 2;
inline constexpr uint32_t kRecordCoresMax = 4096;
inline constexpr uint32_t kRecordModels = 64;
inline constexpr uint32_t kRecordLatencies = 512;
inline constexpr uint64_t kUnknown = UINT64_MAX;

// How an execution ended, by the names of AWS's execution_summary. Numerical errors are not looked for.
enum class Outcome : uint32_t { kCompleted, kCompletedWithError, kIncorrectInput, kCount };
inline constexpr size_t kOutcomes = static_cast<size_t>(Outcome::kCount);

// Device memory by those of AWS's categories that are counted here, in bytes.
enum class Memory : uint32_t { kConstants, kModelCode, kScratchpad, kTensors, kCount };
inline constexpr size_t kMemories = static_cast<size_t>(Memory::kCount);

using Counter = std::atomic<uint64_t>;
static_assert(sizeof(Counter) == 8 && Counter::is_always_lock_free);

struct CoreRecord {
  uint64_t index;          // logical NeuronCore of the instance
  Counter busy_ns[2];      // predicted time that each physical core executed
  Counter elapsed_ns;      // predicted time of the executions, whichever core was busy
  Counter simulating_ns;   // time of this host that the timed executions took
  Counter timed, untimed;  // executions with a predicted time, and without one
  Counter flops;           // of the timed executions, on the Tensor engine
  Counter loads;           // models
  Counter outcomes[kOutcomes];
  Counter memory[kMemories];  // now
  Counter memory_peak[kMemories];
  Counter last_ns;  // predicted time of the last timed execution
};

struct ModelRecord {
  Counter id;  // 0: the slot is free
  Counter core;
  Counter constants, code, scratchpad;  // bytes of device memory
  uint64_t digest;
  char name[72];
};

struct LatencyRecord {
  Counter end_ns;     // CLOCK_MONOTONIC
  Counter total_ns;   // predicted, with the launch
  Counter device_ns;  // predicted
};

struct Record {
  char magic[8];
  uint32_t version;
  uint32_t cores;  // CoreRecords behind this
  uint64_t bytes;  // of the file
  uint64_t pid;
  uint64_t start_ticks;  // of the process, /proc/PID/stat: another one may have the number later
  uint32_t physical_cores_per_core;
  uint32_t is_tool;  // a monitor: holds no cores
  char tag[256];     // NEURON_PROCESS_TAG
  char command[1024];
  char instance[64];
  char runtime_version[32];
  // CLOCK_MONOTONIC until which somebody wants predicted times; the reader sets it.
  Counter watched_until_ns;
  Counter latency_count;
  LatencyRecord latencies[kRecordLatencies];  // a ring
  ModelRecord models[kRecordModels];
};

inline size_t record_bytes(uint32_t cores) { return sizeof(Record) + cores * sizeof(CoreRecord); }
inline CoreRecord* cores_of(Record* record) { return reinterpret_cast<CoreRecord*>(record + 1); }
inline const CoreRecord* cores_of(const Record* record) {
  return reinterpret_cast<const CoreRecord*>(record + 1);
}

}  // namespace opentrn::device
