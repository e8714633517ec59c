// What the compiler does to a model before kernels are made: phases, each a few passes, and what holds when a
// phase has ended.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "compiler/pipeline/pass.h"
#include "graph/module.h"

namespace opentrn::compiler {

enum class Phase : uint8_t { kInlined, kTyped, kCanonical, kExpanded, kRecognised, kReady };

struct PhaseRow {
  Phase phase;
  std::string_view name;       // "expanded", as `opentrn opt --stop-after` has it
  std::string_view invariant;  // what holds from its end on
  // The first thing that breaks the invariant, in words; empty where it holds.
  std::string (*broken)(const graph::Function& function, const PassInput& input);
};
std::span<const PhaseRow> phases();
const PhaseRow& row_of(Phase phase);
// Fault{kInput, "compiler.phase"} with the names that there are.
Phase phase_named(std::string_view name);

// Who is told what happens; either may be empty.
struct Observer {
  std::function<void(const Pass& pass, const graph::Function& function, int64_t changes)> after;
  std::function<void(const PhaseRow& phase, const graph::Function& function)> reached;
};

// Verifies the module and gives its entry as it is at the end of the phase. Input faults are the model's.
graph::Function run_until(Phase last, const PassInput& input, PassCounts& counts,
                          const Observer& observer = {});

// The entry after these passes alone, in this order: for tests and `opentrn opt`. The module is verified
// first.
graph::Function run_passes(std::span<const std::string> names, const PassInput& input, PassCounts& counts,
                           const Observer& observer = {});

}  // namespace opentrn::compiler
