// This process among those that hold simulated cores (registry.h).
//
// A process that only writes its record pays some nanoseconds per execution. Predicted times, which the
// timing model has to compute, are made when a monitor asks: wants_times(). Where the folder cannot be used
// the process is simply not listed: nothing of its results depends on that.
#pragma once

#include <cstdint>
#include <memory>
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

struct ModelFacts {
  const void* key = nullptr;  // what the model is known by while it lives
  std::string name;
  uint64_t digest = 0, constants = 0, code = 0, scratchpad = 0;
};
// A model lies on the current core from here to unload(); further calls with a key do nothing.
void load(const ModelFacts& model);
void unload(const void* key);

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

}  // namespace opentrn::device
