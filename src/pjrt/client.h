// The client: devices, their memories, and the thread that works for them.
//
// A device is a logical NeuronCore with one memory, its share of HBM. Devices are their own descriptions:
// what PJRT asks of either is fixed when the client is made.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/fork.h"
#include "pjrt/abi.h"
#include "pjrt/processes.h"
#include "pjrt/usage.h"
#include "pjrt/worker.h"
#include "runtime/settings.h"
#include "spmd/shardy.h"

namespace opentrn::pjrt {

using runtime::Settings;
// Names and numbers as PJRT wants them: the text stays where it is.
class NamedValues {
 public:
  void add(std::string name, std::string value);
  void add(std::string name, int64_t value);
  void add(std::string name, double value);
  void add(std::string name, std::vector<int64_t> value);
  const abi::NamedValue* data() const { return values_.data(); }
  size_t size() const { return values_.size(); }

 private:
  abi::NamedValue& next(std::string name, abi::ValueKind kind);

  std::list<std::string> texts_;
  std::list<std::vector<int64_t>> lists_;
  std::vector<abi::NamedValue> values_;
};

struct Memory {
  int id = 0;
  Device* device = nullptr;
  std::string debug_text, text;
};

struct Device {
  Client* client = nullptr;
  int id = 0;
  int core = 0;  // its number on the machine: local hardware id
  int process = 0;
  bool is_own = true;  // of this process
  std::string kind;    // "NC_v3"
  std::string debug_text, text;
  NamedValues attributes;
  Memory memory;
  Memory* memories[1] = {&memory};
  Device* self[1] = {this};

  // HBM in use by live buffers.
  std::mutex mutex;
  int64_t bytes_limit = 0, bytes_in_use = 0, bytes_peak = 0, allocations = 0, largest_allocation = 0;

  // Fault{kCapacity} when the device's HBM has no room for it.
  void take(int64_t bytes);
  void give_back(int64_t bytes);
};

struct Topology {
  Client* client = nullptr;
};

struct Client {
  // `processes`: where there are several, of which this is one.
  explicit Client(Settings settings, std::unique_ptr<Processes> processes = nullptr);
  // The framework gives up its client when no array of it is left, at the latest at the end of the process.
  // Nobody reads then what is still under way, so it is abandoned; OPENTRN_USAGE and OPENTRN_CHECK tell of
  // every run and wait for it. Effects (host callbacks, prints) are awaited by JAX before.
  ~Client();

  Settings settings;
  std::string platform_version;
  std::unique_ptr<Processes> processes;
  int process() const { return processes ? processes->own() : 0; }
  std::vector<std::unique_ptr<Device>> owned_devices;
  std::vector<Device*> devices;      // of all processes, in their order
  std::vector<Device*> own_devices;  // of this one
  std::vector<Memory*> memories;     // of those
  Topology topology;
  Usage usage;
  spmd::Shardy& shardy = spmd::Shardy::of_process();
  // Of the devices that ever had most.
  int64_t bytes_peak() const;
  // Waits for what is under way.
  void drain();
  // In the child of a fork, which has no copy of the worker's thread: a Fault instead of a wait without end.
  bool forked() const { return born != fork_generation(); }
  void expect_not_forked() const;
  const uint64_t born = fork_generation();
  // The client of this process; null when there is none. JAX has one.
  static Client* current();

  std::unique_ptr<Worker> worker = std::make_unique<Worker>();

 private:
  void add_device(int process, int core);
};

inline constexpr std::string_view kPlatform = "neuron";
inline constexpr std::string_view kMemoryKind = "device";

// What PJRT_Plugin_Attributes tells: versions of the programs that are taken.
const NamedValues& plugin_attributes();

}  // namespace opentrn::pjrt
