#include "nrt/exec_callback.h"

#include <charconv>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include <fmt/format.h>

#include "nrt/include/nrt/nrt_experimental.h"
#include "nrt/state.h"

namespace opentrn::nrt {

namespace {

constexpr const char* kInflight = "NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS";

struct ExecCallback {
  std::mutex mutex;
  NRT_ASYNC_EXEC_STATUS_CALLBACK function = nullptr;
  void* params = nullptr;
  uint64_t last_job = 0;
};
ExecCallback& exec_callback() {
  static ExecCallback& instance =
      *new ExecCallback;  // never destroyed: threads may execute while the process ends
  return instance;
}

}  // namespace

bool executes_asynchronously() {
  const char* text = std::getenv(kInflight);
  if (text == nullptr || *text == 0) return false;
  uint32_t count = 0;
  const char* end = text + std::strlen(text);
  if (const auto read = std::from_chars(text, end, count); read.ec != std::errc() || read.ptr != end)
    throw Refused{NRT_INVALID, fmt::format("{} has '{}'; a number was expected", kInflight, text)};
  return count > 0;
}

void post_execution(const nrt_model& model, NRT_STATUS status) noexcept {
  NRT_ASYNC_EXEC_STATUS_CALLBACK function = nullptr;
  void* params = nullptr;
  uint64_t job = 0;
  {
    const std::lock_guard lock(exec_callback().mutex);
    function = exec_callback().function;
    params = exec_callback().params;
    job = ++exec_callback().last_job;
  }
  if (function != nullptr) function(params, model.id, static_cast<uint32_t>(model.core), job, status);
}

}  // namespace opentrn::nrt

using opentrn::nrt::answer;
using opentrn::nrt::expect_given;
using opentrn::nrt::State;

extern "C" {

NRT_STATUS nrt_register_async_exec_callback(NRT_ASYNC_EXEC_STATUS_CALLBACK callback, void* params) {
  return answer("nrt_register_async_exec_callback", [&] {
    expect_given(callback, "the callback");
    const std::lock_guard lock(opentrn::nrt::exec_callback().mutex);
    opentrn::nrt::exec_callback().function = callback;
    opentrn::nrt::exec_callback().params = params;
  });
}

// An execution is done when the call that asks for it returns: there is never one to wait for.
NRT_STATUS nrt_async_drain_queued_execs(int32_t vnc) {
  return answer("nrt_async_drain_queued_execs", [&] {
    State& state = State::instance();
    const std::lock_guard lock(state.mutex);
    state.expect_open();
    static_cast<void>(state.core_at(vnc));
  });
}

}  // extern "C"
