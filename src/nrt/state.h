// What libnrt keeps between calls: whether it is open, the machine, and which objects are alive.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "nrt/hbm.h"
#include "nrt/include/nrt/nrt.h"
#include "runtime/settings.h"

namespace opentrn::nrt {

// A call that did not succeed: becomes its status and the thread's last message.
struct Refused {
  NRT_STATUS status;
  std::string message;
};

// The simulated machine as the environment names it; a trn2.48xlarge where it names none.
struct Machine {
  runtime::Settings settings;
  uint32_t total_cores = 0;  // logical
  int64_t hbm_per_core = 0;  // bytes
  std::string arch_name;     // "NCv3"
  int cores_per_device = 0;  // physical
  int hbms = 0;              // of a device; 1 where a chip has memory of another kind
  uint64_t hbm_bytes = 0;    // of each

  // The HBM beside a logical core. Refused NRT_RESOURCE where this host has no room for it.
  Hbm& hbm_of_core(int core) const;
};
// Input fault where the environment names none.
Machine machine_of_environment();

class State {
 public:
  static State& instance();

  std::recursive_mutex mutex;  // of everything here and of what handles point to; not held while a model runs

  void open();
  void close();
  // Throw Refused: not open; no such object; no such core.
  void expect_open() const;
  void expect(const void* object, const char* what) const;
  // Index among the visible cores.
  size_t core_at(int64_t vnc) const;
  const Machine& machine() const { return *machine_; }

  // Objects by their address. A deleter runs at nrt_close(), or when release() is called.
  void adopt(void* object, std::shared_ptr<void> owner);
  std::shared_ptr<void> owner_of(const void* object) const;
  bool release(const void* object);

  // HBM of a visible core. Refused NRT_RESOURCE where it has not so many bytes left.
  void take_hbm(size_t core, int64_t bytes, const char* what);
  void give_hbm(size_t core, int64_t bytes);
  int64_t hbm_used(size_t core) const { return used_.at(core); }
  uint64_t epoch() const { return epoch_; }  // of nrt_init()
  bool is_open() const { return phase_ == Phase::kOpen; }

  std::vector<int> models_on_core;
  uint32_t last_model_id = 10'000;

 private:
  enum class Phase : uint8_t { kNever, kOpen, kClosed };
  Phase phase_ = Phase::kNever;
  uint64_t epoch_ = 0;
  std::optional<Machine> machine_;
  std::map<const void*, std::shared_ptr<void>> objects_;
  std::vector<int64_t> used_;
};

// Connections of nrt_build_global_comm().
void leave_groups();
// Those of nrt_async_sendrecv_*. The state's mutex is not held: threads end.
void leave_peers();

// Streams of nrt_debug_client_connect().
void leave_streams();

// The status of `body`, which may throw anything; null, closed and dead handles are its to find.
NRT_STATUS refused(const char* function, NRT_STATUS status, std::string message) noexcept;
NRT_STATUS answer_exception(const char* function, bool executing) noexcept;
const char* last_message() noexcept;

template <typename Body>
NRT_STATUS answer(const char* function, Body&& body) noexcept {
  try {
    body();
    return NRT_SUCCESS;
  } catch (const Refused& error) {
    return refused(function, error.status, error.message);
  } catch (...) {
    return answer_exception(function, false);
  }
}

template <typename Pointer>
void expect_given(Pointer* pointer, const char* name) {
  if (pointer == nullptr) throw Refused{NRT_INVALID, std::string(name) + " is null"};
}

}  // namespace opentrn::nrt
