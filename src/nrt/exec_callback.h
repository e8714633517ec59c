// Who is told how asynchronous executions end (nrt_register_async_exec_callback).
#pragma once

#include "nrt/model.h"

namespace opentrn::nrt {

// Whether nrt_execute() tells the callback: NEURON_RT_ASYNC_EXEC_MAX_INFLIGHT_REQUESTS is above 0. AWS has
// taken this mode out of its release 2.31; programs that were written for it find it here. Refused
// NRT_INVALID for no number.
bool executes_asynchronously();

// An execution of the model has ended so. No lock is held: the callback may call the library.
void post_execution(const nrt_model& model, NRT_STATUS status) noexcept;

}  // namespace opentrn::nrt
