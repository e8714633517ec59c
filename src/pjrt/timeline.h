// The timeline of simulated devices for jax.profiler: which programs ran, and what each did on its core.
//
// Collected while a profile is being taken; told as an XSpace, the message that JAX's profiler writes to
// *.xplane.pb: one plane per NeuronCore with a line of programs, one of the model's ops, and one for each
// engine and DMA queue. A program is placed where this host began it and is as long as the timing model says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "pjrt/program.h"

namespace opentrn::pjrt {

class Timeline {
 public:
  // The one of this process: PJRT's profiler knows no client.
  static Timeline& instance();

  bool wanted() const { return wanted_; }
  // `begun_ns`: of the Unix epoch. `cores`: physical ids, in the order of the program's devices.
  void add(std::shared_ptr<const Program> program, std::vector<int> cores, int64_t begun_ns);

  void begin();
  void end() { wanted_ = false; }
  // A serialised tensorflow.profiler.XSpace of what was added since begin().
  std::string xspace() const;

 private:
  struct Run {
    std::shared_ptr<const Program> program;
    std::vector<int> cores;
    int64_t begun_ns;
  };

  std::atomic<bool> wanted_ = false;
  mutable std::mutex mutex_;
  std::vector<Run> runs_;
};

}  // namespace opentrn::pjrt
