// Calls of the user's Python from a program: the custom call @opentrn.callback, which OpenTrn's lowering of
// JAX's callbacks makes (python/opentrn/jax/callbacks.py).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/eval/evaluate.h"
#include "graph/module.h"
#include "spmd/run/host_calls.h"

namespace opentrn::pjrt {

// The interface that jax_callbacks.py gives its function through, by ctypes: change both.
struct HostArray {
  const char* element;  // "f32", "i1"
  int64_t rank;
  const int64_t* dims;
  int64_t bytes;
  void* data;  // row-major; a result's is filled by the call
};
// 0: well. Otherwise `error` has the exception's text, ended by a null.
using HostCall = int (*)(const char* key, int64_t operand_count, const HostArray* operands,
                         int64_t result_count, HostArray* results, char* error, int64_t error_size);
// Null, before Python ends: returns when the last call has come back; later ones are faults.
void set_host_call(HostCall call);

// Compares a module on the device with float64, op by op (opentrn.model.diff). Fault with the first op whose
// error rounding does not explain.
void check_on_host(const graph::Module& module, std::span<const graph::Literal> arguments);

bool is_host_call(const graph::Op& op);
// A host call that is made once for all devices, each of which has the whole operands and gets the results.
bool is_for_all_devices(const graph::Op& op);

// As graph::eval::CustomCallHandler. Input fault with the exception's text where the Python function raises.
std::optional<std::vector<graph::eval::RuntimeValue>> call_host(
    const graph::Op& op, const graph::Module& module, std::span<const graph::eval::RuntimeValue> operands);

// The four for programs of several devices.
spmd::HostCalls host_calls();

}  // namespace opentrn::pjrt
