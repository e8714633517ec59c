// Physical execution: an isa::Executable on one SBUF, PSUM and HBM as flat memories, its streams
// interleaved at random.
//
// The same instruction bodies run as in Core; only the tensors lie where the backend placed them. At each
// step one stream whose next instruction has all its waits complete is chosen by a seeded generator, and
// that instruction runs to its end. A schedule that is right gives the bits of program order for every seed.
// One that is not gives other bits for some seed, or is caught whatever the seed:
// - "sim.race": two accesses to a byte, at least one a write, that neither stream order nor waits order;
// - "sim.clobbered": a tensor's byte was last written through another tensor at the same place;
// - "sim.placement": a tensor without a place, or one that reaches outside its memory;
// - "sim.loop_order": an instruction outside a loop ran inside it, or the other way round.
//
// This is a checker, not the fast path: bound buffers are copied in and out, and race detection keeps 12
// bytes per byte of memory in use. sendrecv and core_barrier need a second core and are refused.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/thread_pool.h"
#include "isa/executable.h"
#include "sim/functional/core.h"

namespace opentrn::sim {

struct Binding {
  isa::TensorId tensor;
  std::shared_ptr<Buffer> buffer;  // copied in before and, where writable, out after the run
};

struct PhysicalOptions {
  uint64_t seed = 0;
  bool detect_races = true;
  CheckOptions checks;
  std::optional<uint64_t> stochastic_rounding;  // as Core::set_stochastic_rounding
  int64_t memory_bytes_max = int64_t{4} << 30;  // of the three memories together, shadows included
};

struct PhysicalReport {
  int64_t instructions_executed = 0;
  int64_t choices = 0;  // steps at which more than one stream could go on
};

PhysicalReport run_executable(const isa::Executable& executable, std::span<const Binding> bindings,
                              const PhysicalOptions& options = {}, ThreadPool* pool = nullptr);

}  // namespace opentrn::sim
