// What the host takes part in while a program of several devices runs, where a framework has such ops: JAX's
// callbacks of Python (src/pjrt/callback.h). Without a framework there are none.
#pragma once

#include <functional>
#include <span>

#include "graph/eval/evaluate.h"
#include "graph/literal.h"
#include "graph/module.h"

namespace opentrn::spmd {

struct HostCalls {
  // Whether an op is a call of the host.
  std::function<bool(const graph::Op& op)> is_call;
  // Whether such a call is made once for all devices, each of which has the whole operands and gets the
  // results.
  std::function<bool(const graph::Op& op)> is_for_all_devices;
  // Makes a call.
  graph::eval::CustomCallHandler call;
  // Compares a module on the device with float64, op by op; a Fault names the first op whose error rounding
  // does not explain. Empty: nothing is compared.
  std::function<void(const graph::Module& module, std::span<const graph::Literal> arguments)> check;
};

}  // namespace opentrn::spmd
