// Graphs compiled for one core, and their values on host literals.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/options.h"
#include "graph/literal.h"
#include "graph/module.h"
#include "runtime/model.h"
#include "runtime/settings.h"
#include "runtime/timing.h"
#include "spmd/run/host_calls.h"
#include "spmd/run/parts.h"
#include "trace/trace.h"

namespace opentrn::spmd {

// HBM that one logical core may use: its share of its chip's.
int64_t hbm_bytes_of_core(const runtime::Settings& settings);

struct DeviceOptions {
  compiler::Options compiler;
  uint64_t rounding_seed = 0;  // where compiler.stochastic_rounding
  bool check = false;          // settings.h
  Parts* parts = nullptr;      // takes, or gives, what is compiled; never null
  HostCalls host;
};

// A graph compiled for one core. Any number of threads.
class DeviceProgram {
 public:
  explicit DeviceProgram(Parts::SharedModel model) : model_(std::move(model)) {}

  const runtime::Model& model() const { return *model_; }
  // `results`: the types of what comes out.
  std::vector<graph::Literal> run(std::span<const graph::Type> results,
                                  std::span<const graph::Literal> arguments) const;

  // What the timing model says of the last run, beside the same on `copies` - 1 other cores of the HBM stack.
  struct Predicted {
    std::optional<runtime::PortTimes> times;
    std::string why;  // there are none
  };
  Predicted predicted(int copies = 1) const;
  // The same with every event, of a core that has its stack alone. Faults of runtime::timed.
  trace::Trace timeline() const;

 private:
  runtime::LoopTrips trips() const;

  Parts::SharedModel model_;
  mutable std::mutex mutex_;
  mutable runtime::LoopTrips trips_;            // of the last run
  mutable std::map<int, Predicted> predicted_;  // of these trips, by the copies
};

// Faults of compiler::compile.
std::unique_ptr<DeviceProgram> compile_for_device(const graph::Module& module, const DeviceOptions& options);

}  // namespace opentrn::spmd
