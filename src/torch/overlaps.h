// Calls that write into what overlaps: itself, or another operand in part. PyTorch refuses most of them.
#pragma once

#include <string>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>

#include "torch/call.h"

namespace opentrn::torch_device {

// Whether the same memory for a result and an operand may be refused: ops that move elements.
bool refuses_same_memory(const std::string& name);

// Lists that are written are not looked at, as PyTorch does not.
bool has_overlap(const Call& call, bool refuses_same);

// Raises what the CPU raises of such a call, or warns as it does: it is asked with zeros that lie alike.
void hold_overlap(const c10::OperatorHandle& op, c10::ArrayRef<c10::IValue> arguments);

// Copies on the host into a tensor whose dimensions may be expanded. Of elements that share a place the last
// one that differs from what was there counts: an op that the CPU lets do so writes some of them.
void copy_to_shared(const at::Tensor& value, const at::Tensor& to);

}  // namespace opentrn::torch_device
