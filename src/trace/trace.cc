#include "trace/trace.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::trace {

std::string_view name(Stall stall) {
  constexpr std::string_view kNames[] = {"none",
                                         "waiting for another engine",
                                         "waiting for DMA",
                                         "waiting for its own result",
                                         "waiting for a shared port",
                                         "waiting for DMA queue or engines",
                                         "HBM bandwidth shared",
                                         "waiting for the other core",
                                         "generating descriptors",
                                         "waiting for a collective"};
  static_assert(std::size(kNames) == kStallCount);
  return kNames[static_cast<size_t>(stall)];
}

std::string_view name(Resource resource) {
  constexpr std::string_view kNames[] = {"Tensor engine", "Vector engine", "Scalar engine", "GpSimd engine",
                                         "Sync engine",   "DMA engines",   "HBM bandwidth", "DMA latency",
                                         "descriptors",   "semaphores",    "shared port",   "other core",
                                         "collectives"};
  static_assert(std::size(kNames) == kResourceCount);
  return kNames[static_cast<size_t>(resource)];
}

std::string_view name(FlopKind kind) {
  constexpr std::string_view kNames[] = {"bf16", "fp8", "mx", "fp32", "sparse", "transpose", "other"};
  static_assert(std::size(kNames) == kFlopKindCount);
  return kNames[static_cast<size_t>(kind)];
}

Resource resource_of(isa::Engine engine) {
  switch (engine) {
    case isa::Engine::kTensor: return Resource::kTensor;
    case isa::Engine::kVector: return Resource::kVector;
    case isa::Engine::kScalar: return Resource::kScalar;
    case isa::Engine::kGpSimd: return Resource::kGpSimd;
    case isa::Engine::kSync: return Resource::kSync;
    case isa::Engine::kDma: return Resource::kDmaEngines;
    case isa::Engine::kUnknown: break;
  }
  throw Fault(FaultKind::kInternal, "", "an instruction was timed without an engine");
}

double Summary::tensor_flops() const {
  double sum = 0;
  for (int kind = 0; kind < kFlopKindCount; ++kind)
    if (static_cast<FlopKind>(kind) != FlopKind::kTranspose) sum += flops[static_cast<size_t>(kind)];
  return sum;
}

double Summary::model_flops_utilization() const {
  const double peak = tensor_peak_flops_per_ns * total_ns * cores;
  return peak > 0 ? tensor_flops() / peak : 0;
}

double Summary::hbm_utilization() const {
  const double peak = hbm_peak_bytes_per_ns * total_ns;
  return peak > 0 ? static_cast<double>(dma.hbm_bytes_read + dma.hbm_bytes_written) / peak : 0;
}

Resource Summary::bound_by() const {
  return static_cast<Resource>(std::max_element(bound_by_ns.begin(), bound_by_ns.end()) -
                               bound_by_ns.begin());
}

std::string Iteration::skipped_text() const {
  return fmt::format("{} iteration{} like the one before, not drawn", skipped, skipped == 1 ? "" : "s");
}

void Recorder::add_iteration(const Iteration& iteration) {
  trace_.iterations.push_back(iteration);
  if (iteration.skipped == 0) return;
  for (auto event = trace_.events.rbegin(); event != trace_.events.rend(); ++event) {
    if (trace_.tracks[event->track].core != iteration.core) continue;
    if (event->start_ns < iteration.start_ns) break;
    event->times *= iteration.skipped + 1;
  }
}

void Recorder::finish(const Summary& summary, std::vector<CriticalSegment> critical_path) {
  trace_.program = summary.program;
  trace_.generation = summary.generation;
  trace_.cores = summary.cores;
  trace_.summary = summary;
  trace_.critical_path = std::move(critical_path);
}

}  // namespace opentrn::trace
