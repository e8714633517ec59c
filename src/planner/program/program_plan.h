// Meshes and cuts for a program of the user's on one machine: what is estimated of every way that is tried,
// and what the best ways take when each device's part is compiled and timed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/contributors.h"
#include "planner/machine.h"
#include "planner/program/program.h"
#include "spmd/annotations.h"

namespace opentrn::planner::program {

// One way to spread a program over devices.
struct Way {
  spmd::Mesh mesh;
  std::vector<std::string> cuts;  // of each axis, in words: "input0[0]"
  bool shards_state = false;      // state is cut over dp as well, and gathered where it is used (ZeRO)
  std::vector<spmd::Annotation> annotations;
  // By the rates of the planner's tables, one op after another: what the ways that are compiled are chosen
  // by.
  double estimated_s = 0;
  double argument_bytes = 0;  // that a device holds before it begins

  std::string mesh_text() const;  // "dp=2,tp=4"
};

// The same, compiled.
struct Compiled {
  Way way;
  double step_s = 0, low_s = 0, high_s = 0;  // the interval: both bands of the timing model, propagated
  double compute_s = 0, collectives_s = 0, exposed_s = 0;
  std::vector<Contributor> contributors;  // widest first
  double argument_bytes = 0, memory_bytes = 0;
  bool fits = false;
  std::string bound_by, host_reason;
  struct Collective {
    std::string name;
    int64_t count = 0, bytes = 0;  // bytes: that a device brings, all together
  };
  std::vector<Collective> collectives;
  std::vector<std::string> shardings;  // of inputs, weights and results that are cut: "input0=dp,-"
  double mfu = 0;                      // of the machine's peak; 0 where loops with unknown ends hide the work
};

struct Asked {
  size_t compiled = 4;             // ways to compile
  std::optional<int> dp, tp;       // fixed degrees
  std::string mesh;                // or the whole mesh
  std::vector<std::string> shard;  // with its annotations; then nothing is searched
  std::optional<int> lnc;
};

struct Found {
  std::vector<Compiled> plans;       // that fit, fastest first
  std::vector<Compiled> too_large;   // compiled, and more than a device has
  std::vector<std::string> refused;  // ways that the compiler does not take: why, each reason once
  size_t tried = 0;                  // ways that were estimated
  std::vector<Dimensions> dimensions;
};

// Deterministic. Input faults: annotations (spmd/annotations.h); "plan.program" where no way has the fixed
// degrees, or the machine is no Neuron one or more than one.
Found plan_program(const arch::Tables& tables, const Program& program, const Machine& machine,
                   const Asked& asked);

}  // namespace opentrn::planner::program
