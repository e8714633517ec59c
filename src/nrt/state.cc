#include "nrt/state.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

#include <fmt/format.h>

#include "arch/arch.h"
#include "base/fault.h"
#include "device/presence.h"
#include "nrt/include/nrt/opentrn.h"
#include "runtime/accounting.h"

namespace opentrn::nrt {

namespace {

constexpr const char* kDefaultInstance = "trn2.48xlarge";
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr && *value != 0) return value;
  if (std::strcmp(name, "NEURON_PLATFORM_TARGET_OVERRIDE") == 0) return kDefaultInstance;
  return std::nullopt;
}

struct Place {
  std::string chip;
  int chips = 1;
};

Place place_of(const std::string& target) {
  const arch::Tables& tables = arch::default_tables();
  if (const arch::Instance* instance = tables.find_instance(target)) return {instance->chip, instance->chips};
  if (const arch::UltraServer* server = tables.find_ultraserver(target))
    return {server->chip, server->servers * server->chips_per_server};
  return {target, 1};
}

thread_local std::string t_message;

bool is_told() {
  const char* level = std::getenv("NEURON_RT_LOG_LEVEL");
  return level == nullptr || (std::strcmp(level, "NONE") != 0 && std::strcmp(level, "none") != 0);
}

NRT_STATUS status_of(const Fault& fault, bool executing) {
  switch (fault.kind()) {
    case FaultKind::kInput: return executing ? NRT_EXEC_BAD_INPUT : NRT_INVALID;
    case FaultKind::kCapacity: return NRT_RESOURCE;
    case FaultKind::kProgram: return executing ? NRT_EXEC_COMPLETED_WITH_ERR : NRT_INVALID;
    default: return NRT_FAILURE;
  }
}

}  // namespace

Machine machine_of_environment() {
  Machine machine;
  machine.settings = runtime::read_settings(variable);
  const Place place = place_of(machine.settings.target);
  const arch::Chip& chip = arch::chip(place.chip);
  const int lnc = machine.settings.physical_cores_per_core, per_chip = int{chip.cores} / lnc;
  machine.total_cores = static_cast<uint32_t>(per_chip * place.chips);
  // A chip alone stands for as many as are asked for.
  machine.total_cores = std::max(machine.total_cores, static_cast<uint32_t>(machine.settings.cores.size()));
  machine.hbm_per_core = static_cast<int64_t>(chip.memory_gib * kGiB / per_chip);
  machine.arch_name = fmt::format("NCv{}", version(machine.settings.generation));
  machine.cores_per_device = chip.cores;
  machine.hbms = std::max(1, int{chip.hbm_stacks});
  machine.hbm_bytes = static_cast<uint64_t>(chip.memory_gib * kGiB / machine.hbms);
  return machine;
}

Hbm& Machine::hbm_of_core(int core) const {
  const int physical = core * settings.physical_cores_per_core;
  const int index = physical % cores_per_device * hbms / cores_per_device;
  return hbm_of(settings.target, physical / cores_per_device, index, hbm_bytes);
}

State& State::instance() {
  static State& instance = *new State;  // never destroyed: threads may call while the process ends
  return instance;
}

void State::open() {
  const std::lock_guard lock(mutex);
  if (phase_ == Phase::kOpen)
    throw Refused{NRT_INVALID, "the runtime is open already: nrt_close() comes first"};
  machine_ = machine_of_environment();
  used_.assign(machine_->settings.cores.size(), 0);
  models_on_core.assign(machine_->settings.cores.size(), 0);
  phase_ = Phase::kOpen;
  ++epoch_;
  runtime::hold_cores(machine_->settings);
}

void State::close() {
  std::map<const void*, std::shared_ptr<void>> dying;
  {
    const std::lock_guard lock(mutex);
    if (phase_ != Phase::kOpen) return;
    dying.swap(objects_);
  }
  leave_groups();
  leave_peers();
  leave_streams();
  dying.clear();  // gives back what they hold of the cores
  const std::lock_guard lock(mutex);
  phase_ = Phase::kClosed;
}

void State::expect_open() const {
  if (phase_ == Phase::kNever) throw Refused{NRT_UNINITIALIZED, "nrt_init() has not been called"};
  if (phase_ == Phase::kClosed) throw Refused{NRT_CLOSED, "nrt_close() has been called"};
}

void State::expect(const void* object, const char* what) const {
  if (object == nullptr) throw Refused{NRT_INVALID, fmt::format("the {} is null", what)};
  if (!objects_.contains(object))
    throw Refused{NRT_INVALID_HANDLE, fmt::format("{} is no {}, or not any more", object, what)};
}

size_t State::core_at(int64_t vnc) const {
  const size_t count = machine_->settings.cores.size();
  if (vnc < 0 || vnc >= static_cast<int64_t>(count))
    throw Refused{NRT_INVALID,
                  fmt::format("core {}: this process has the visible cores 0 to {}", vnc, count - 1)};
  return static_cast<size_t>(vnc);
}

void State::adopt(void* object, std::shared_ptr<void> owner) { objects_[object] = std::move(owner); }

std::shared_ptr<void> State::owner_of(const void* object) const { return objects_.at(object); }

bool State::release(const void* object) { return objects_.erase(object) > 0; }

void State::take_hbm(size_t core, int64_t bytes, const char* what) {
  const int64_t left = machine_->hbm_per_core - used_[core];
  if (bytes > left)
    throw Refused{NRT_RESOURCE, fmt::format("{} of {} bytes: core {} has {} of {} bytes of HBM left", what,
                                            bytes, core, left, machine_->hbm_per_core)};
  used_[core] += bytes;
}

void State::give_hbm(size_t core, int64_t bytes) { used_[core] -= bytes; }

NRT_STATUS refused(const char* function, NRT_STATUS status, std::string message) noexcept {
  try {
    t_message = fmt::format("{}: {}", function, message);
    if (is_told()) fmt::print(stderr, "opentrn: {} ({})\n", t_message, nrt_get_status_as_str(status));
  } catch (...) {
    t_message.clear();
  }
  return status;
}

NRT_STATUS answer_exception(const char* function, bool executing) noexcept {
  try {
    try {
      throw;
    } catch (const Refused& error) {
      return refused(function, error.status, error.message);
    } catch (const Fault& fault) {
      const bool beyond = executing && fault.message().find("out of bounds") != std::string::npos;
      return refused(function, beyond ? NRT_EXEC_OOB : status_of(fault, executing), fault.what());
    } catch (const std::bad_alloc&) {
      return refused(function, NRT_RESOURCE, "this host has no memory left");
    } catch (const std::exception& error) {
      return refused(function, NRT_FAILURE, error.what());
    }
  } catch (...) {
    return NRT_FAILURE;
  }
}

const char* last_message() noexcept { return t_message.c_str(); }

}  // namespace opentrn::nrt
