// torch.distributed's backend `neuron`: collectives of tensors that are on NeuronCores.
//
// Values are those of the plans of src/collectives, in their order and formats. A call begins, in simulated
// time, when the last rank has come to it and the group's call before has ended; the stream that waits for it
// goes on when it has ended. So compute between a call and its wait() runs beside it.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "torch/group/rendezvous.h"

namespace opentrn::torch_device {

// What computes collectives; once, before the first group.
void set_collective_function(runtime::CollectiveFunction function);
// Lets signal handlers of Python run, and throws what they raise; module.cc.
void service_interrupts();
// " at train.py:12": the innermost line of Python that is neither torch's nor OpenTrn's; "" without one.
std::string calling_line();

// Collectives that this thread starts from here on take so much longer than alone, for others beside them.
void stretch_collectives(double factor);

class CommsRecord;  // record.h

class Backend final : public c10d::Backend {
 public:
  struct Setting {
    std::string name;
    int rank = 0, size = 1;
    std::vector<int64_t> ranks;  // of the world
    std::chrono::milliseconds timeout{};
    int device = 0, core = 0;  // of the process, and of the machine
  };
  Backend(const c10::intrusive_ptr<c10d::Store>& store, const Setting& setting);
  bool shares_cores() const { return rendezvous_.shares_cores(); }
  const std::vector<int>& cores() const { return rendezvous_.cores(); }

  const std::string getBackendName() const override { return "neuron"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return options_; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void startCoalescing() override;
  c10::intrusive_ptr<c10d::Work> endCoalescing() override;
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return rendezvous_.posted(); }
  c10d::ErrorType getError() override { return c10d::ErrorType::SUCCESS; }

  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
  WorkPtr scatter(Tensors& outputs, TensorLists& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, TensorLists& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int to, int tag) override;
  WorkPtr recv(Tensors& tensors, int from, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;

  struct Call;
  // What is under way: of a collective, or of a message that is to come.
  struct Pending;
  class Work;
  // Until it is done: outputs hold their values then, or it has an error. Streams do not wait. Throws where
  // another rank does not come.
  void complete(Pending& pending, std::chrono::milliseconds timeout);
  // As complete(), without waiting; whether it is done.
  bool try_complete(Pending& pending);
  c10::Stream stream(c10::DeviceIndex device);  // of the collectives, in simulated time
  struct Moved {
    Tensors sources, targets;
  };
  // For profilers, while it lives: a call that moves these.
  CommsRecord record(const char* name, const Moved& moved);

 private:
  WorkPtr start(Call call);
  WorkPtr reduce_to_each(const at::Tensor& output, const Tensors& inputs,
                         const c10d::ReduceScatterOptions& options);
  WorkPtr receive(Tensors& tensors, int from, int tag);
  void complete_one(Pending& pending, std::chrono::milliseconds timeout);
  bool try_complete_one(Pending& pending);
  // What must be done before: receives of the same messages, in the order in which they were called.
  std::vector<std::shared_ptr<Pending>> before(const Pending& pending);
  bool take(Pending& pending);
  void finish(Pending& pending);
  void finish_received(Pending& pending, const Rendezvous::Received& received);
  void settle(Pending& pending);
  c10::intrusive_ptr<Backend> self() {
    return c10::intrusive_ptr<Backend>::unsafe_reclaim_from_nonowning(this);
  }
  WorkPtr noted(WorkPtr work);
  Deadline deadline(std::chrono::milliseconds timeout) const;
  int64_t rank_of_world() const { return rendezvous_.of_world(getRank()).rank; }

  c10::intrusive_ptr<Options> options_;
  Rendezvous rendezvous_;
  std::mutex mutex_;
  std::deque<std::shared_ptr<Pending>> outstanding_;  // collectives, in the order of the calls
  std::deque<std::shared_ptr<Pending>> receiving_;
  std::map<c10::DeviceIndex, c10::Stream> streams_;
  bool is_coalescing_ = false;
  std::vector<WorkPtr> coalesced_;
};

}  // namespace opentrn::torch_device
