// The numbers of one timed run, without the events: what a report's first page shows.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/generation.h"
#include "isa/memory.h"

namespace opentrn::trace {

// What a run can be bound by. Time on the critical path is attributed to exactly one of these.
enum class Resource : uint8_t {
  kTensor,
  kVector,
  kScalar,
  kGpSimd,
  kSync,         // an engine was working
  kDmaEngines,   // DMA engines moving or handling descriptors at their own rate
  kHbm,          // DMA slowed by the HBM bandwidth limit
  kDmaLatency,   // trigger to first byte, last byte to semaphore
  kDescriptors,  // descriptor generation (hardware or GpSimd)
  kSemaphore,    // signalling between engines, and pipeline latency until a result is visible
  kPort,         // a shared SBUF or PSUM port
  kPeer,         // the other core of the logical core
  kCollective,   // a collective: other ranks that were late, links, its steps
};
inline constexpr int kResourceCount = static_cast<int>(Resource::kCollective) + 1;
std::string_view name(Resource resource);  // "HBM bandwidth"
Resource resource_of(isa::Engine engine);

// What flops are counted under; `dense` peaks of the chip page use the same names.
enum class FlopKind : uint8_t { kBf16, kFp8, kMx, kFp32, kSparse, kTranspose, kOther };
inline constexpr int kFlopKindCount = static_cast<int>(FlopKind::kOther) + 1;
std::string_view name(FlopKind kind);  // "bf16"

struct EngineTotals {
  double busy_ns = 0;          // occupied by instructions
  double stall_engine_ns = 0;  // idle, the next instruction waiting for another engine
  double stall_dma_ns = 0;     // idle, waiting for a DMA
  double stall_other_ns = 0;   // idle, waiting for its own result, a port or the peer core
  int64_t instructions = 0;
};

struct DmaTotals {
  int64_t transfers = 0;    // DMA instructions
  int64_t descriptors = 0;  // contiguous pieces moved
  int64_t bytes = 0;        // written by all DMA
  int64_t hbm_bytes_read = 0;
  int64_t hbm_bytes_written = 0;
  double active_ns = 0;       // at least one DMA engine of any core busy
  double engine_busy_ns = 0;  // summed over DMA engines
  double efficiency = 0;      // bytes / (engine_busy_ns * peak rate of one engine)
};

struct Summary {
  std::string program;
  Generation generation = Generation::kV3;
  int cores = 1;
  double total_ns = 0;   // kernel on the device, first issue to last completion
  double launch_ns = 0;  // launch and preamble; not in total_ns
  double timed_extra_ns =
      0;  // what a timed launch on a device takes beyond total_ns (nki.benchmark's nc_latency)
  int64_t instructions = 0;                               // executed, loops counted per iteration
  std::array<EngineTotals, isa::kEngineCount> engines{};  // by isa::Engine, summed over cores
  DmaTotals dma;
  std::array<double, kFlopKindCount> flops{};        // Tensor engine, by kind
  double vector_flops = 0;                           // element operations of vector, scalar and gpsimd
  double tensor_peak_flops_per_ns = 0;               // BF16, one core: for utilisation
  double hbm_peak_bytes_per_ns = 0;                  // of the HBM stack, whoever of its cores runs
  double sbuf_bytes_moved = 0;                       // read and written by engines
  std::array<double, kResourceCount> bound_by_ns{};  // parts of the critical path; they add up to total_ns
  double extrapolated_ns = 0;  // part of total_ns that came from steady-state loops, not from stepping

  double tensor_flops() const;             // without transposes
  double model_flops_utilization() const;  // tensor_flops / (peak * total * cores)
  double hbm_utilization() const;          // bytes read and written / (peak of the stack * total)
  Resource bound_by() const;               // the largest part
};

}  // namespace opentrn::trace
