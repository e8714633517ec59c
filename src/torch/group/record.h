// What torch.profiler shows of a call of the group: `neuron:all_reduce` from the call to its end, as of
// PyTorch's own backends, and the record of its sizes (`record_param_comms`) that tools for traces read.
#pragma once

#include <optional>

#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>

#include "torch/group/call.h"

namespace opentrn::torch_device {

// "neuron:all_reduce"; a null pointer where torch has no name. Lives as long as the process.
const char* title_of(c10d::OpType type);
Backend::Moved moved_by(const Backend::Call& call);

// While it lives, torch's record of a call of `backend`; nothing where nobody profiles.
class CommsRecord {
 public:
  CommsRecord(const Backend& backend, const Members& members, uint64_t number, const char* name,
              const Backend::Moved& moved);
  CommsRecord(const CommsRecord&) = delete;
  CommsRecord& operator=(const CommsRecord&) = delete;

 private:
  std::optional<c10::DebugInfoGuard> info_;
  std::vector<c10::IValue> inputs_;  // the function's, which holds no copy
  std::optional<at::RecordFunction> function_;
};

// The name of a collective in such a record.
const char* recorded_name(c10d::OpType type);

}  // namespace opentrn::torch_device
