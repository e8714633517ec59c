#include "torch/group/work.h"

#include <algorithm>

#include <ATen/core/jit_type.h>

#include "torch/device.h"
#include "torch/group/record.h"

namespace opentrn::torch_device {

namespace {

using c10::ivalue::Future;

// Its event is recorded on the stream of the collectives: whoever waits for the future goes on, in simulated
// time, when the collective has ended.
c10::intrusive_ptr<Future> future_of(const Backend::Tensors& results, std::optional<c10::Stream> stream,
                                     const std::exception_ptr& error) {
  std::vector<c10::Device> devices;
  if (stream) devices.push_back(stream->device());
  auto future = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), devices);
  if (error) {
    future->setError(error);
    return future;
  }
  struct Current {
    explicit Current(std::optional<c10::Stream> stream) {
      if (stream) before = exchange_stream(*stream);
    }
    ~Current() {
      if (before) exchange_stream(*before);
    }
    std::optional<c10::Stream> before;
  } const current(stream);
  future->markCompleted(c10::IValue(results));
  return future;
}

}  // namespace

namespace {
thread_local bool events_are_silent = false;
}

SilentEvents::SilentEvents() : before_(std::exchange(events_are_silent, true)) {}
SilentEvents::~SilentEvents() { events_are_silent = before_; }

Backend::Work::Work(c10::intrusive_ptr<Backend> backend, std::shared_ptr<Pending> pending,
                    const Tensors& shown)
    : c10d::Work(backend->getRank(), pending->type, events_are_silent ? nullptr : title_of(pending->type),
                 shown),
      backend_(std::move(backend)),
      pending_(std::move(pending)) {}

void Backend::Work::end_event() {
  const std::lock_guard lock(mutex_);
  if (const auto end = std::exchange(recordFunctionEndCallback_, nullptr)) end();
}

bool Backend::Work::isCompleted() {
  if (!backend_->try_complete(*pending_)) return false;
  end_event();
  return true;
}

void Backend::Work::synchronize() {
  if (pending_->is_done) stream_wait_until(current_stream(pending_->device), pending_->end_ns);
}

bool Backend::Work::wait(std::chrono::milliseconds timeout) {
  const CommsRecord record = backend_->record("wait", {});
  backend_->complete(*pending_, timeout);
  end_event();
  if (pending_->error) std::rethrow_exception(pending_->error);
  if (pending_->type != c10d::OpType::SEND) synchronize();  // a send's tensor is free at once
  return true;
}

c10::intrusive_ptr<Future> Backend::Work::getFuture() {
  if (future_) return future_;
  std::exception_ptr error;
  try {
    backend_->complete(*pending_, {});
    end_event();
    error = pending_->error;
  } catch (...) {
    error = std::current_exception();
  }
  const c10::Stream stream = backend_->stream(pending_->device);
  if (!error) stream_wait_until(stream, pending_->end_ns);
  return future_ = future_of(pending_->results, stream, error);
}

void WorkOfAll::end_event() {
  const std::lock_guard lock(mutex_);
  if (const auto end = std::exchange(recordFunctionEndCallback_, nullptr)) end();
}

bool WorkOfAll::isCompleted() {
  if (!std::ranges::all_of(works_, [](const auto& each) { return each->isCompleted(); })) return false;
  end_event();
  return true;
}
bool WorkOfAll::isSuccess() const {
  return std::ranges::all_of(works_, [](const auto& each) { return each->isSuccess(); });
}
void WorkOfAll::synchronize() {
  for (const auto& each : works_) each->synchronize();
}
bool WorkOfAll::wait(std::chrono::milliseconds timeout) {
  for (const auto& each : works_) each->wait(timeout);
  end_event();
  return true;
}
Backend::Tensors WorkOfAll::result() {
  Backend::Tensors all;
  for (const auto& each : works_)
    for (const at::Tensor& tensor : each->result()) all.push_back(tensor);
  return all;
}

c10::intrusive_ptr<Future> WorkOfAll::getFuture() {
  if (future_) return future_;
  std::exception_ptr error;
  try {
    wait(kNoTimeout);  // the caller's stream waits too: nothing says which calls end last
  } catch (...) {
    error = std::current_exception();
  }
  const Backend::Tensors all = result();
  std::optional<c10::Stream> stream;
  if (!all.empty()) stream = current_stream(all[0].device().index());
  return future_ = future_of(all, stream, error);
}

}  // namespace opentrn::torch_device
