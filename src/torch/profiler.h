// torch.profiler's events of the device: what ran, from where on this host, and for how long on the simulated
// core.
#pragma once

#include <atomic>
#include <memory>

#include <c10/core/Stream.h>

#include "torch/device.h"

namespace opentrn::torch_device {

// Makes the device known to PyTorch's profiler; once.
void register_profiler();

inline std::atomic<bool> profiler_runs = false;
inline bool is_profiled() { return profiler_runs.load(std::memory_order_relaxed); }

// Notes what the calling thread handed to a stream just now.
void profile(c10::Stream stream, std::shared_ptr<Timed> what);

}  // namespace opentrn::torch_device
