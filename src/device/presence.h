// This process among those that hold simulated cores (registry.h).
//
// A process that only writes its record pays some nanoseconds per execution. Predicted times, which the
// timing model has to compute, are made when a monitor asks: wants_times(). Where the folder cannot be used
// the process is simply not listed: nothing of its results depends on that.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device/record.h"

namespace opentrn::device {

struct Holder {
  std::string instance;  // "trn2.48xlarge", or a chip
  std::vector<int> cores;
  int physical_cores_per_core = 1;
  bool is_tool = false;
};

// Makes the record of this process, which goes when it ends. The first call decides; a process that was
// forked begins anew.
void hold(const Holder& holder);
// The record goes now, of a process that ends without the C library's end of it.
void leave();
// Whether hold() has been called and the record is there.
bool is_listed();

// The core that what this thread executes counts for: the first held one, unless a Scope says otherwise.
class CoreScope {
 public:
  explicit CoreScope(int core);
  ~CoreScope();
  CoreScope(const CoreScope&) = delete;
  CoreScope& operator=(const CoreScope&) = delete;

 private:
  int outer_;
};

// The cores of a program over several devices, by device, for whoever runs a part of it on this thread.
class CoresScope {
 public:
  explicit CoresScope(const std::vector<int>& cores);  // outlive it
  ~CoresScope();
  CoresScope(const CoresScope&) = delete;
  CoresScope& operator=(const CoresScope&) = delete;
  // Of a device; the current core where no scope names it.
  static int core(size_t device);

 private:
  const std::vector<int>* outer_;
};

// The core that what this thread executes counts for; 0 where none is held and no scope names one.
int current_core();

struct ModelFacts {
  const void* key = nullptr;  // what the model is known by while it lives
  std::string name;
  uint64_t digest = 0, constants = 0, code = 0, scratchpad = 0;
};
// A model lies on the current core from here to unload(); further calls with a key do nothing.
void load(const ModelFacts& model);
void unload(const void* key);

// Bytes of device memory on the current core, of a kind that no model brings along; negative when they are
// freed.
void add_memory(Memory kind, int64_t bytes);

// Whether somebody asks for predicted times now.
bool wants_times();

struct Predicted {
  uint64_t total_ns = 0;   // on the device
  uint64_t launch_ns = 0;  // before it
  uint64_t busy_ns[2]{};   // of the physical cores
  uint64_t flops = 0;
};
// One execution on the current core. `predicted`: null where nobody knows.
void executed(Outcome outcome, uint64_t host_ns, const Predicted* predicted);

// The last one of this thread; executed_again() counts such a one on the current core, which this host did
// not have to simulate: its values are known.
struct Execution {
  Outcome outcome = Outcome::kCompleted;
  std::optional<Predicted> predicted;
};
std::optional<Execution> last_execution();
void executed_again(const Execution& execution);

}  // namespace opentrn::device
