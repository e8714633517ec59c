#include "runtime/accounting.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "base/fork.h"
#include "device/presence.h"
#include "device/registry.h"
#include "runtime/inspect.h"
#include "runtime/timing.h"

namespace opentrn::runtime {

namespace {

constexpr size_t kProgramsMax = 4096;

// A program that was executed, while it lives. `time` is that of a run with these trips.
struct Known {
  std::weak_ptr<const isa::Program> program;
  bool is_timed = false;
  std::optional<device::Predicted> time;
  LoopTrips trips;
};

// Never destroyed: threads may execute while the process ends.
struct Programs {
  ForkSafeMutex mutex;
  std::unordered_map<const isa::Program*, Known> known;
};
Programs& programs() {
  static Programs& instance = *new Programs;
  return instance;
}

bool same(const LoopTrips& a, const LoopTrips& b) {
  const auto same_run = [](const auto& x, const auto& y) {
    return x.iterations == y.iterations && x.entries == y.entries;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return x.first == y.first && std::equal(x.second.runs.begin(), x.second.runs.end(), y.second.runs.begin(),
                                            y.second.runs.end(), same_run);
  });
}

void forget_dead(Programs& all) {
  for (auto it = all.known.begin(); it != all.known.end();) {
    if (!it->second.program.expired()) {
      ++it;
      continue;
    }
    device::unload(it->first);
    it = all.known.erase(it);
  }
}

// Bytes of HBM that are neither inputs, outputs nor constants.
uint64_t scratchpad_of(const Model& model) {
  const auto is_port = [&](isa::TensorId id) {
    const auto same = [&](const auto& port) { return port.tensor == id; };
    return std::any_of(model.inputs.begin(), model.inputs.end(), same) ||
           std::any_of(model.outputs.begin(), model.outputs.end(), same) ||
           std::any_of(model.constants.begin(), model.constants.end(), same);
  };
  int64_t bytes = 0;
  for (size_t i = 0; i < model.program->tensor_count(); ++i) {
    const auto id = static_cast<isa::TensorId>(i);
    const isa::Tensor& tensor = model.program->tensor(id);
    if (tensor.space != isa::MemorySpace::kSbuf && tensor.space != isa::MemorySpace::kPsum && !is_port(id))
      bytes += tensor.bytes();
  }
  return static_cast<uint64_t>(bytes);
}

void remember(const Model& model) {
  Programs& all = programs();
  const std::lock_guard lock(all.mutex);
  const auto found = all.known.find(model.program.get());
  if (found != all.known.end() && !found->second.program.expired()) return;
  forget_dead(all);
  if (all.known.size() >= kProgramsMax) return;
  all.known[model.program.get()].program = model.program;
  device::load({model.program.get(), "model", 0, static_cast<uint64_t>(model.constant_bytes()),
                device::kUnknown, scratchpad_of(model)});
}

std::optional<device::Predicted> predict(const Model& model, const LoopTrips& trips) {
  try {
    const trace::Summary summary = timed(model, trips);
    device::Predicted out;
    out.total_ns = static_cast<uint64_t>(summary.total_ns);
    out.launch_ns = static_cast<uint64_t>(summary.launch_ns);
    out.flops = static_cast<uint64_t>(summary.tensor_flops());
    for (int core = 0; core < std::min(summary.cores, 2); ++core) out.busy_ns[core] = out.total_ns;
    return out;
  } catch (const Fault&) {
    return std::nullopt;  // the timing model cannot tell: counted as an execution without a time
  }
}

// Of this program with these trips; nullopt where nobody asks, or knows.
std::optional<device::Predicted> time_of(const Model& model, const LoopTrips& trips, bool inspected) {
  if (!inspected && !device::wants_times()) return std::nullopt;
  Programs& all = programs();
  {
    const std::lock_guard lock(all.mutex);
    const auto found = all.known.find(model.program.get());
    if (found == all.known.end()) return std::nullopt;
    if (found->second.is_timed && same(found->second.trips, trips)) return found->second.time;
  }
  const std::optional<device::Predicted> time = predict(model, trips);
  const std::lock_guard lock(all.mutex);
  Known& known = all.known[model.program.get()];
  known.is_timed = true;
  known.time = time;
  known.trips = trips;
  return time;
}

uint64_t since_epoch_ns() {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                   std::chrono::system_clock::now().time_since_epoch())
                                   .count());
}

void hold_of_environment() {
  // Once for a process: what the environment says does not change.
  static std::atomic<uint64_t> asked{UINT64_MAX};
  if (asked.exchange(fork_generation()) == fork_generation()) return;
  try {
    hold_cores(settings_of_environment());
  } catch (const Fault&) {
    return;  // an environment that names no machine: whoever needs it says so
  }
}

}  // namespace

void hold_cores(const Settings& settings) {
  device::hold({settings.target, settings.cores, settings.physical_cores_per_core, false});
}

Accounted::Accounted(const Model& model) : model_(model), begin_ns_(device::monotonic_ns()) {
  const bool inspected = is_inspected();
  if (!device::is_listed()) hold_of_environment();
  if (device::is_listed() || inspected) remember(model);
}

void Accounted::completed(const LoopTrips& trips) {
  const bool inspected = is_inspected();
  if (!device::is_listed() && !inspected) return;
  const uint64_t host_ns = device::monotonic_ns() - begin_ns_;
  const uint64_t end_ns = inspected ? since_epoch_ns() : 0;
  const auto time = time_of(model_, trips, inspected);
  device::executed(device::Outcome::kCompleted, host_ns, time ? &*time : nullptr);
  if (inspected) note_inspected({model_, trips, end_ns - host_ns, end_ns, time ? &*time : nullptr});
}

void Accounted::failed(FaultKind kind) {
  if (is_inspected()) note_inspected_failure(model_);
  device::executed(
      kind == FaultKind::kInput ? device::Outcome::kIncorrectInput : device::Outcome::kCompletedWithError,
      device::monotonic_ns() - begin_ns_, nullptr);
}

}  // namespace opentrn::runtime
