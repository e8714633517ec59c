#include "torch/group/record.h"

#include <array>
#include <utility>

namespace opentrn::torch_device {

namespace {

struct Names {
  c10d::OpType type;
  const char* title;
  const char* recorded;
};

// Titles are those of PyTorch's gloo, records those of its NCCL.
constexpr std::array kNames = {
    Names{c10d::OpType::BROADCAST, "neuron:broadcast", "broadcast"},
    Names{c10d::OpType::ALLREDUCE, "neuron:all_reduce", "allreduce"},
    Names{c10d::OpType::REDUCE, "neuron:reduce", "reduce"},
    Names{c10d::OpType::ALLGATHER, "neuron:all_gather", "all_gather"},
    Names{c10d::OpType::_ALLGATHER_BASE, "neuron:_all_gather_base", "_allgather_base"},
    Names{c10d::OpType::GATHER, "neuron:gather", "gather"},
    Names{c10d::OpType::SCATTER, "neuron:scatter", "scatter"},
    Names{c10d::OpType::REDUCE_SCATTER, "neuron:reduce_scatter", "reduce_scatter"},
    Names{c10d::OpType::_REDUCE_SCATTER_BASE, "neuron:_reduce_scatter_base", "_reduce_scatter_base"},
    Names{c10d::OpType::ALLTOALL_BASE, "neuron:all_to_all", "all_to_allv"},
    Names{c10d::OpType::ALLTOALL, "neuron:all_to_all", "all_to_all"},
    Names{c10d::OpType::SEND, "neuron:send", "send"},
    Names{c10d::OpType::RECV, "neuron:recv", "recv"},
    Names{c10d::OpType::RECVANYSOURCE, "neuron:recvAnySource", "recvAnySource"},
    Names{c10d::OpType::BARRIER, "neuron:barrier", "barrier"},
};

const Names* names_of(c10d::OpType type) {
  for (const Names& each : kNames)
    if (each.type == type) return &each;
  return nullptr;
}

int64_t elements_of(const Backend::Tensors& tensors) {
  int64_t count = 0;
  for (const at::Tensor& each : tensors) count += each.numel();
  return count;
}

// The step from one rank of the world to the next; 0 where it is not the same everywhere.
int stride_of(const std::vector<int64_t>& ranks) {
  if (ranks.size() < 2) return 1;
  for (size_t i = 2; i < ranks.size(); ++i)
    if (ranks[i] - ranks[i - 1] != ranks[1] - ranks[0]) return 0;
  return static_cast<int>(ranks[1] - ranks[0]);
}

}  // namespace

const char* title_of(c10d::OpType type) {
  const Names* const found = names_of(type);
  return found == nullptr ? nullptr : found->title;
}

const char* recorded_name(c10d::OpType type) {
  const Names* const found = names_of(type);
  return found == nullptr ? "" : found->recorded;
}

Backend::Moved moved_by(const Backend::Call& call) {
  Backend::Moved moved;
  for (const Part& part : call.sources) moved.sources.push_back(part.tensor);
  for (const Part& part : call.targets) moved.targets.push_back(part.tensor);
  return moved;
}

CommsRecord::CommsRecord(const Backend& backend, const Members& members, uint64_t number, const char* name,
                         const Backend::Moved& moved) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION);
  if (!callbacks) return;
  const bool is_whole = members.ranks.empty();
  const int start = is_whole ? 0 : static_cast<int>(members.ranks[0]);
  const int stride = is_whole ? 1 : stride_of(members.ranks);
  const at::Tensor* const first = !moved.sources.empty()   ? moved.sources.data()
                                  : !moved.targets.empty() ? moved.targets.data()
                                                           : nullptr;
  const auto group = std::tuple(backend.getGroupUid(), backend.getGroupDesc());
  const std::vector<int64_t> no_splits;
  auto facts = std::make_shared<torch::ParamCommsDebugInfo>(
      group, backend.getRank(), std::string(name), elements_of(moved.sources), elements_of(moved.targets),
      first == nullptr ? at::kByte : first->scalar_type(), no_splits, no_splits, start, stride, members.size);
  facts->setSequenceInfo(static_cast<int64_t>(number), false);
  info_.emplace(c10::DebugInfoKind::PARAM_COMMS_INFO, facts);
  function_.emplace(std::move(*callbacks));
  const auto sequence = std::tuple(static_cast<int64_t>(number), false);
  inputs_.reserve(10);
  inputs_.emplace_back(moved.sources);
  inputs_.emplace_back(sequence);
  inputs_.emplace_back(group);
  inputs_.emplace_back(backend.getRank());
  inputs_.emplace_back(name);
  inputs_.emplace_back(no_splits);
  inputs_.emplace_back(no_splits);
  inputs_.emplace_back(start);
  inputs_.emplace_back(stride);
  inputs_.emplace_back(members.size);
  function_->before(at::kParamCommsCallName,
                    c10::ArrayRef<const c10::IValue>(inputs_.data(), inputs_.size()));
}

}  // namespace opentrn::torch_device
