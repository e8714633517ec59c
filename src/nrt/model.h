// Models of libnrt: a loaded container on one core, and its executions.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/type.h"
#include "nrt/include/nrt/nrt.h"
#include "nrt/tensor.h"
#include "runtime/model.h"

struct nrt_model {
  ~nrt_model();

  uint32_t id = 0;
  size_t core = 0;  // among the visible ones
  uint64_t epoch = 0;
  int64_t hbm_bytes = 0;
  opentrn::runtime::Model model;
  std::vector<opentrn::graph::Type> input_types, output_types;

  // Of the last execution; guarded by the state's mutex.
  bool executed = false;
  opentrn::runtime::LoopTrips trips;
  std::optional<double> predicted_ns;  // of these trips, once asked for
};

namespace opentrn::nrt {

std::shared_ptr<nrt_model> model_at(const nrt_model_t* handle);

struct Executed {
  uint64_t begin_ns = 0, end_ns = 0;  // of this host, CLOCK_MONOTONIC
};
// What nrt_execute and its like answer. `is_asynchronous`: each execution is told to the callback of
// nrt_register_async_exec_callback(), as it is where the environment asks for that (exec_callback.h).
NRT_STATUS run_and_answer(const char* function, nrt_model_t* model, const nrt_tensor_set_t* inputs,
                          nrt_tensor_set_t* outputs, int count, bool is_asynchronous) noexcept;
// Throws Refused and Fault.
Executed execute(nrt_model& model, const nrt_tensor_set_t* inputs, nrt_tensor_set_t* outputs);

// On the device; nullopt where the timing model cannot tell.
std::optional<double> predicted_ns(nrt_model& model);

}  // namespace opentrn::nrt
