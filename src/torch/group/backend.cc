#include "torch/group/backend.h"

#include <algorithm>
#include <sstream>
#include <thread>

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include "torch/device.h"
#include "torch/group/call.h"
#include "torch/group/record.h"
#include "torch/group/work.h"

namespace opentrn::torch_device {

namespace {

runtime::CollectiveFunction the_function = nullptr;
thread_local double the_stretch = 1;

int64_t world_of(const Backend::Setting& setting, int rank) {
  const auto i = static_cast<size_t>(rank);
  return i < setting.ranks.size() ? setting.ranks[i] : rank;
}

// Throws where the rank does not come within the timeout, or cannot come.
void wait_for_introduction(const c10::intrusive_ptr<c10d::Store>& store, const Backend::Setting& setting,
                           int rank, const std::string& line) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  const std::string key = "opentrn/" + std::to_string(rank);
  const auto began = std::chrono::steady_clock::now();
  const int64_t own = world_of(setting, setting.rank);
  WaitOnBoard on_board(own, "the making of group " + setting.name + line, true);
  while (!store->check({key})) {
    // As far as another group tells which process that is.
    const auto known = Rendezvous::known(own, world_of(setting, rank));
    TORCH_CHECK_WITH(DistBackendError, !known || !known->process.has_ended(), "process group neuron ",
                     setting.name, ": rank ", setting.rank, " waits for rank ", rank, " (process ",
                     known->process.pid, "), which has ended and has not made the group", line);
    const std::string error = on_board.look([&] { return known ? Missing{{*known}, false} : Missing{}; });
    if (!error.empty()) C10_THROW_ERROR(DistBackendError, error);
    TORCH_CHECK_WITH(DistBackendError, std::chrono::steady_clock::now() - began < setting.timeout,
                     "process group neuron ", setting.name, ": rank ", setting.rank, " has waited ",
                     setting.timeout.count() / 1000, " s for rank ", rank, ", which has not made the group",
                     line);
    std::this_thread::sleep_for(kPause);
    service_interrupts();
  }
}

Rendezvous::Exchange through(const c10::intrusive_ptr<c10d::Store>& store, const Backend::Setting& setting) {
  return [&](const Rendezvous::Introduction& own) {
    store->set("opentrn/" + std::to_string(setting.rank), own.text());
    note_rank_of_thread(world_of(setting, setting.rank));
    const std::string line = calling_line();
    std::vector<Rendezvous::Introduction> all;
    for (int rank = 0; rank < setting.size; ++rank) {
      wait_for_introduction(store, setting, rank, line);
      all.push_back(Rendezvous::Introduction::read(store->get_to_str("opentrn/" + std::to_string(rank))));
    }
    return all;
  };
}

}  // namespace

void set_collective_function(runtime::CollectiveFunction function) { the_function = function; }

void stretch_collectives(double factor) { the_stretch = factor; }

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, const Setting& setting)
    : c10d::Backend(setting.rank, setting.size),
      options_(c10::make_intrusive<Options>("neuron", setting.timeout)),
      rendezvous_({setting.name, setting.rank, setting.size, setting.ranks}, setting.core, setting.device,
                  the_function, through(store, setting)) {
  note_rank_of_thread(rank_of_world());
  init();
}

double now_ns(c10::DeviceIndex device) { return stream_time_ns(current_stream(device)); }

Deadline Backend::deadline(std::chrono::milliseconds timeout) const {
  const bool is_stated = timeout.count() > 0;
  return {std::chrono::steady_clock::now() + (is_stated ? timeout : options_->timeout), !is_stated};
}

c10::Stream Backend::stream(c10::DeviceIndex device) {
  const std::lock_guard lock(mutex_);
  const auto found = streams_.find(device);
  return found != streams_.end() ? found->second : streams_.emplace(device, new_stream(device)).first->second;
}

// ---- collectives
// -----------------------------------------------------------------------------------------------

CommsRecord Backend::record(const char* name, const Moved& moved) {
  return {*this, rendezvous_.members(), rendezvous_.posted(), name, moved};
}

Backend::WorkPtr Backend::start(Call call) {
  const Moved moved = moved_by(call);
  const CommsRecord profiled = record(recorded_name(call.type), moved);
  auto pending = std::make_shared<Pending>();
  pending->device = device_of(call);
  pending->type = call.type;
  pending->what = call.post.what;
  pending->targets = call.targets;
  pending->results = call.results;
  pending->divisor = call.is_average ? getSize() : 1;
  call.post.arrival_ns = now_ns(pending->device);
  call.post.stretch = the_stretch;
  call.post.line = calling_line();
  note_rank_of_thread(rank_of_world());
  for (;;) {  // the call whose row this one takes is done first: nobody may have waited for it
    std::shared_ptr<Pending> oldest;
    {
      const std::lock_guard lock(mutex_);
      if (outstanding_.empty() ||
          rendezvous_.posted() - outstanding_.front()->call < Rendezvous::kOutstanding)
        break;
      oldest = outstanding_.front();
    }
    complete(*oldest, {});
  }
  const std::lock_guard lock(mutex_);
  Arena& arena = Arena::own();
  pending->input = call.post.input = arena.allocate(call.input_bytes);
  pending->output = call.post.output = arena.allocate(call.output_bytes);
  for (const Part& part : call.sources) copy_in(part, arena.base() + pending->input);
  pending->call = rendezvous_.post(call.post);
  outstanding_.push_back(pending);
  // The event shows what a rank brings, or what comes where it brings nothing.
  const Tensors& shown = moved.sources.empty() ? moved.targets : moved.sources;
  return noted(c10::make_intrusive<Work>(self(), pending, shown));
}

// Whether this thread is the one that finishes it.
bool Backend::take(Pending& pending) {
  const std::lock_guard lock(mutex_);
  return !std::exchange(pending.is_taken, true);
}

void Backend::finish(Pending& pending) {
  {
    const std::lock_guard lock(mutex_);
    Arena& arena = Arena::own();
    try {
      pending.end_ns = rendezvous_.end_ns(pending.call);
      for (const Part& part : pending.targets) copy_out(part, arena.base() + pending.output);
    } catch (...) {
      pending.error = std::current_exception();
    }
    arena.release(pending.input);
    arena.release(pending.output);
  }
  settle(pending);
}

// Without the mutex: the program that divides may need Python's lock, which somebody else may hold who waits
// for the mutex.
void Backend::settle(Pending& pending) {
  if (pending.divisor != 1 && !pending.error) {
    try {
      const at::AutoDispatchBelowADInplaceOrView guard;
      for (const Part& part : pending.targets) at::Tensor(part.tensor).div_(pending.divisor);
    } catch (...) {
      pending.error = std::current_exception();
    }
  }
  const std::lock_guard lock(mutex_);
  const auto is_it = [&](const auto& each) { return each.get() == &pending; };
  std::erase_if(outstanding_, is_it);
  std::erase_if(receiving_, is_it);
  pending.is_done = true;
}

std::vector<std::shared_ptr<Backend::Pending>> Backend::before(const Pending& pending) {
  std::vector<std::shared_ptr<Pending>> found;
  if (!pending.is_message) return found;
  const std::lock_guard lock(mutex_);
  for (const auto& each : receiving_) {
    if (each.get() == &pending) break;
    const bool is_same_source = each->from < 0 || pending.from < 0 || each->from == pending.from;
    if (is_same_source && each->tag == pending.tag) found.push_back(each);
  }
  return found;
}

void Backend::complete_one(Pending& pending, std::chrono::milliseconds timeout) {
  if (pending.is_done) return;
  if (pending.is_message) {
    const Rendezvous::Received received =
        rendezvous_.receive(pending.from, pending.tag, pending.what, deadline(timeout), service_interrupts);
    if (take(pending)) return finish_received(pending, received);
  } else {
    rendezvous_.wait(pending.call, pending.what, deadline(timeout), service_interrupts);
    if (take(pending)) return finish(pending);
  }
  while (!pending.is_done) std::this_thread::sleep_for(std::chrono::microseconds(50));  // another thread does
}

void Backend::complete(Pending& pending, std::chrono::milliseconds timeout) {
  note_rank_of_thread(rank_of_world());
  for (const auto& each : before(pending)) complete_one(*each, timeout);
  complete_one(pending, timeout);
}

bool Backend::try_complete_one(Pending& pending) {
  if (pending.is_done) return true;
  if (pending.is_message) {
    const auto received = rendezvous_.find(pending.from, pending.tag);
    if (!received || !take(pending)) return false;
    finish_received(pending, *received);
  } else {
    if (!rendezvous_.is_done(pending.call) || !take(pending)) return false;
    finish(pending);
  }
  return true;
}

bool Backend::try_complete(Pending& pending) {
  for (const auto& each : before(pending))
    if (!try_complete_one(*each)) return false;
  return try_complete_one(pending);
}

void Backend::startCoalescing() {
  is_coalescing_ = true;
  coalesced_.clear();
}

Backend::WorkPtr Backend::endCoalescing() {
  is_coalescing_ = false;
  return c10::make_intrusive<WorkOfAll>(std::exchange(coalesced_, {}));
}

Backend::WorkPtr Backend::noted(WorkPtr work) {
  if (is_coalescing_) coalesced_.push_back(work);
  return work;
}

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Reduction reduction(options.reduceOp, tensors, "all_reduce");
  Call call(c10d::OpType::ALLREDUCE, "all_reduce", reduction, tensors);
  call.take(reduction.brought(tensors));
  call.give(tensors);
  call.post.bytes = call.input_bytes;
  return start(std::move(call));
}

Backend::WorkPtr Backend::allreduce_coalesced(Tensors& tensors,
                                              const c10d::AllreduceCoalescedOptions& options) {
  return allreduce(tensors, options);
}

Backend::WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const Reduction reduction(options.reduceOp, tensors, "reduce");
  Call call(c10d::OpType::REDUCE, "reduce", reduction, tensors);
  call.root(options.rootRank, getSize());
  call.take(reduction.brought(tensors));
  call.post.bytes = call.input_bytes;
  if (getRank() == options.rootRank) call.give(tensors);
  return start(std::move(call));
}

Backend::WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  Call call(c10d::OpType::BROADCAST, "broadcast", tensors);
  call.root(options.rootRank, getSize());
  if (getRank() == options.rootRank) call.take(tensors);
  call.give(tensors);
  call.post.bytes = call.output_bytes;
  return start(std::move(call));
}

Backend::WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions&) {
  Call call(c10d::OpType::_ALLGATHER_BASE, "all_gather", {input});
  check_sizes(call, output, getSize() * input.numel(), input.scalar_type());
  call.take({input});
  call.give({output});
  call.post.bytes = call.input_bytes;
  return start(std::move(call));
}

Backend::WorkPtr Backend::allgather(TensorLists& outputs, Tensors& inputs, const c10d::AllgatherOptions&) {
  TORCH_CHECK(inputs.size() == 1 && outputs.size() == 1, "all_gather takes one tensor of each rank");
  check_count(outputs[0], getSize(), "all_gather");
  const bool is_even = std::ranges::all_of(
      outputs[0], [&](const at::Tensor& each) { return each.numel() == inputs[0].numel(); });
  if (is_even) {
    Call call(c10d::OpType::ALLGATHER, "all_gather", inputs);
    for (const at::Tensor& each : outputs[0]) check_sizes(call, each, each.numel(), inputs[0].scalar_type());
    call.take(inputs);
    call.give(outputs[0]);
    call.post.bytes = call.input_bytes;
    return start(std::move(call));
  }
  Call call(c10d::OpType::ALLGATHER, "all_gather_v", inputs, Call::kOwnSizes);
  call.take(inputs);
  call.give(outputs[0]);
  call.post.sends = {call.input_bytes};
  call.post.receives = bytes_of(outputs[0]);
  return start(std::move(call));
}

Backend::WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  const Reduction reduction(options.reduceOp, {input}, "reduce_scatter");
  Call call(c10d::OpType::_REDUCE_SCATTER_BASE, "reduce_scatter", reduction, {input});
  check_sizes(call, input, getSize() * output.numel(), output.scalar_type());
  call.take(reduction.brought({input}));
  call.give({output});
  call.post.bytes = call.input_bytes;
  return start(std::move(call));
}

// Parts of several sizes: to each rank its own, one reduction after the other.
Backend::WorkPtr Backend::reduce_to_each(const at::Tensor& output, const Tensors& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  const at::Tensor& own = inputs[static_cast<size_t>(getRank())];
  TORCH_CHECK(own.numel() == output.numel() && own.scalar_type() == output.scalar_type(),
              "reduce_scatter: the part of rank ", getRank(), " has ", own.numel(), " elements of ",
              own.scalar_type(), " and its output ", output.numel(), " of ", output.scalar_type());
  const SilentEvents silent;
  std::vector<WorkPtr> works;
  for (int rank = 0; rank < getSize(); ++rank) {
    const Tensors part{inputs[static_cast<size_t>(rank)]};
    const Reduction reduction(options.reduceOp, part, "reduce_scatter");
    Call call(c10d::OpType::REDUCE, "reduce", reduction, part);
    call.root(rank, getSize());
    call.take(reduction.brought(part));
    call.post.bytes = call.input_bytes;
    if (rank == getRank()) call.give({output});
    works.push_back(start(std::move(call)));
  }
  return c10::make_intrusive<WorkOfAll>(std::move(works), title_of(c10d::OpType::REDUCE_SCATTER), inputs);
}

Backend::WorkPtr Backend::reduce_scatter(Tensors& outputs, TensorLists& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(outputs.size() == 1 && inputs.size() == 1, "reduce_scatter gives one tensor to each rank");
  check_count(inputs[0], getSize(), "reduce_scatter");
  const bool is_even = std::ranges::all_of(
      inputs[0], [&](const at::Tensor& each) { return each.numel() == inputs[0][0].numel(); });
  if (!is_even) return reduce_to_each(outputs[0], inputs[0], options);
  const Reduction reduction(options.reduceOp, inputs[0], "reduce_scatter");
  Call call(c10d::OpType::REDUCE_SCATTER, "reduce_scatter", reduction, inputs[0]);
  for (const at::Tensor& each : inputs[0])
    check_sizes(call, each, outputs[0].numel(), outputs[0].scalar_type());
  call.take(reduction.brought(inputs[0]));
  call.give(outputs);
  call.post.bytes = call.input_bytes;
  return start(std::move(call));
}

// ---- with parts for each rank
// ------------------------------------------------------------------------------------

Backend::WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<int64_t>& output_splits,
                                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions&) {
  Call call(c10d::OpType::ALLTOALL_BASE, "all_to_all_v", {input}, Call::kOwnSizes);
  TORCH_CHECK(output.scalar_type() == input.scalar_type(), "all_to_all: input is ", input.scalar_type(),
              " and output is ", output.scalar_type());
  call.take({input});
  call.give({output});
  call.post.sends = split_bytes(input, input_splits, getSize(), "input");
  call.post.receives = split_bytes(output, output_splits, getSize(), "output");
  return start(std::move(call));
}

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) {
  check_count(inputs, getSize(), "all_to_all");
  check_count(outputs, getSize(), "all_to_all");
  Call call(c10d::OpType::ALLTOALL, "all_to_all_v", inputs, Call::kOwnSizes);
  call.take(inputs);
  call.give(outputs);
  call.post.sends = bytes_of(inputs);
  call.post.receives = bytes_of(outputs);
  return start(std::move(call));
}

// From all to one, and from one to all: exchanges in which most parts are empty.
Backend::WorkPtr Backend::gather(TensorLists& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  TORCH_CHECK(inputs.size() == 1, "gather takes one tensor of each rank");
  Call call(c10d::OpType::GATHER, "gather", inputs, Call::kOwnSizes);
  call.root(options.rootRank, getSize());
  call.post.kind = "all_to_all_v";
  call.take(inputs);
  call.post.sends.assign(static_cast<size_t>(getSize()), 0);
  call.post.sends[static_cast<size_t>(options.rootRank)] = call.input_bytes;
  call.post.receives.assign(static_cast<size_t>(getSize()), 0);
  if (getRank() == options.rootRank) {
    TORCH_CHECK(outputs.size() == 1, "gather: the root has one list of outputs");
    check_count(outputs[0], getSize(), "gather");
    call.give(outputs[0]);
    call.post.receives = bytes_of(outputs[0]);
  }
  return start(std::move(call));
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, TensorLists& inputs,
                                  const c10d::ScatterOptions& options) {
  TORCH_CHECK(outputs.size() == 1, "scatter gives one tensor to each rank");
  Call call(c10d::OpType::SCATTER, "scatter", outputs, Call::kOwnSizes);
  call.root(options.rootRank, getSize());
  call.post.kind = "all_to_all_v";
  call.give(outputs);
  call.post.receives.assign(static_cast<size_t>(getSize()), 0);
  call.post.receives[static_cast<size_t>(options.rootRank)] = call.output_bytes;
  call.post.sends.assign(static_cast<size_t>(getSize()), 0);
  if (getRank() == options.rootRank) {
    TORCH_CHECK(inputs.size() == 1, "scatter: the root has one list of inputs");
    check_count(inputs[0], getSize(), "scatter");
    call.take(inputs[0]);
    call.post.sends = bytes_of(inputs[0]);
  }
  return start(std::move(call));
}

// ---- several at once
// -----------------------------------------------------------------------------------------

Backend::WorkPtr Backend::allgather_coalesced(TensorLists& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  // As torch has it: outputs[rank][i] is inputs[i] of the rank.
  const SilentEvents silent;
  std::vector<WorkPtr> works;
  for (size_t i = 0; i < inputs.size(); ++i) {
    TensorLists own(1);
    for (Tensors& of_rank : outputs) {
      TORCH_CHECK(of_rank.size() == inputs.size(), "all_gather: ", inputs.size(), " inputs and ",
                  of_rank.size(), " outputs of a rank");
      own[0].push_back(of_rank[i]);
    }
    Tensors input{inputs[i]};
    works.push_back(allgather(own, input, options));
  }
  return c10::make_intrusive<WorkOfAll>(std::move(works), title_of(c10d::OpType::ALLGATHER), inputs);
}

Backend::WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "all_gather: ", inputs.size(), " inputs and ", outputs.size(),
              " outputs");
  const SilentEvents silent;
  std::vector<WorkPtr> works;
  for (size_t i = 0; i < inputs.size(); ++i) works.push_back(_allgather_base(outputs[i], inputs[i], options));
  return c10::make_intrusive<WorkOfAll>(std::move(works), title_of(c10d::OpType::ALLGATHER), inputs);
}

Backend::WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::ReduceScatterOptions& options) {
  TORCH_CHECK(outputs.size() == inputs.size(), "reduce_scatter: ", inputs.size(), " inputs and ",
              outputs.size(), " outputs");
  const SilentEvents silent;
  std::vector<WorkPtr> works;
  for (size_t i = 0; i < inputs.size(); ++i)
    works.push_back(_reduce_scatter_base(outputs[i], inputs[i], options));
  return c10::make_intrusive<WorkOfAll>(std::move(works), title_of(c10d::OpType::REDUCE_SCATTER), inputs);
}

// ---- messages
// --------------------------------------------------------------------------------------------------

Backend::WorkPtr Backend::send(Tensors& tensors, int to, int tag) {
  TORCH_CHECK(tensors.size() == 1, "send takes one tensor");
  TORCH_CHECK(to >= 0 && to < getSize(), "send to rank ", to, ": this is rank ", getRank(), " of ",
              getSize());
  const at::Tensor& tensor = tensors[0];
  check_tensor(tensor, "send");
  const CommsRecord profiled = record("send", {tensors, {}});
  auto pending = std::make_shared<Pending>();
  pending->type = c10d::OpType::SEND;
  pending->what = "send to rank " + std::to_string(to);
  pending->results = tensors;
  Message message{.bytes = static_cast<int64_t>(tensor.nbytes()),
                  .arrival_ns = now_ns(tensor.device().index()),
                  .dtype = c10::toString(tensor.scalar_type()),
                  .line = calling_line()};
  {
    const std::lock_guard lock(mutex_);
    message.offset = Arena::own().allocate(message.bytes);
    if (message.bytes > 0) copy_in({tensor, 0}, Arena::own().base() + message.offset);
  }
  note_rank_of_thread(rank_of_world());
  rendezvous_.send(to, tag, message, deadline({}), service_interrupts);
  pending->end_ns = message.arrival_ns + rendezvous_.message_ns(getRank(), to, message.bytes);
  pending->is_done = true;
  return noted(c10::make_intrusive<Work>(self(), pending, tensors));
}

Backend::WorkPtr Backend::receive(Tensors& tensors, int from, int tag) {
  TORCH_CHECK(tensors.size() == 1, "recv takes one tensor");
  TORCH_CHECK(from < getSize(), "recv from rank ", from, ": this is rank ", getRank(), " of ", getSize());
  check_tensor(tensors[0], "recv");
  const CommsRecord profiled = record("recv", {{}, tensors});
  auto pending = std::make_shared<Pending>();
  pending->type = from < 0 ? c10d::OpType::RECVANYSOURCE : c10d::OpType::RECV;
  pending->is_message = true;
  pending->from = from;
  pending->tag = tag;
  std::ostringstream what;
  what << "recv (" << tensors[0].scalar_type() << ' ' << tensors[0].sizes();
  if (from >= 0) what << ", from rank " << from;
  if (tag != 0) what << ", tag " << tag;
  pending->what = what.str() + ")" + calling_line();
  pending->targets = {{tensors[0], 0}};
  pending->results = tensors;
  pending->device = tensors[0].device().index();
  pending->arrival_ns = now_ns(pending->device);
  {
    const std::lock_guard lock(mutex_);
    receiving_.push_back(pending);
  }
  return noted(c10::make_intrusive<Work>(self(), pending, tensors));
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int from, int tag) { return receive(tensors, from, tag); }
Backend::WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) { return receive(tensors, -1, tag); }

void Backend::finish_received(Pending& pending, const Rendezvous::Received& received) {
  const at::Tensor& target = pending.targets[0].tensor;
  const Message& message = received.message;
  pending.source = message.source;
  try {
    if (message.bytes != static_cast<int64_t>(target.nbytes()) ||
        message.dtype != c10::toString(target.scalar_type())) {
      std::ostringstream out;
      out << "process group neuron " << rendezvous_.members().name << ": " << rendezvous_.name_of(getRank())
          << ": " << pending.what << " got a message of rank " << message.source << " of " << message.dtype
          << ", " << message.bytes << " bytes, for " << target.nbytes() << " bytes";
      C10_THROW_ERROR(DistBackendError, out.str());
    }
    if (message.bytes > 0) copy_out(pending.targets[0], received.data);
    pending.end_ns = std::max(pending.arrival_ns, message.arrival_ns) +
                     rendezvous_.message_ns(message.source, getRank(), message.bytes);
  } catch (...) {
    pending.error = std::current_exception();
  }
  rendezvous_.taken(received);
  settle(pending);
}

Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions&) {
  // An all-reduce of one number, which is what the device has; nobody reads it.
  Call call(c10d::OpType::BARRIER, Reduction::sum());
  call.input_bytes = call.output_bytes = call.post.bytes = sizeof(int32_t);
  return start(std::move(call));
}

}  // namespace opentrn::torch_device
