// What a call gives back: when it is done, and its future.
#pragma once

#include <atomic>
#include <exception>

#include "torch/group/call.h"

namespace opentrn::torch_device {

struct Backend::Pending {
  c10d::OpType type = c10d::OpType::UNKNOWN;
  std::string what;
  std::vector<Part> targets;
  Tensors results;
  int divisor = 1;  // of an average
  // A collective.
  uint64_t call = 0, input = Arena::kNothing, output = Arena::kNothing;
  // A message that is to come.
  bool is_message = false;
  int from = -1, tag = 0, source = -1;
  double arrival_ns = 0;

  c10::DeviceIndex device = 0;  // that the tensors are on
  bool is_taken = false;        // a thread is about to finish it; under the mutex of the backend
  std::atomic<bool> is_done = false;
  double end_ns = 0;
  std::exception_ptr error;
};

class Backend::Work final : public c10d::Work {
 public:
  Work(c10::intrusive_ptr<Backend> backend, std::shared_ptr<Pending> pending, const Tensors& shown);
  ~Work() override { end_event(); }
  bool isCompleted() override;
  bool isSuccess() const override { return pending_->is_done && !pending_->error; }
  std::exception_ptr exception() const override { return pending_->error; }
  int sourceRank() const override { return pending_->source; }
  Tensors result() override { return pending_->results; }
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void end_event();  // of the profiler

  c10::intrusive_ptr<Backend> backend_;
  std::shared_ptr<Pending> pending_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// While it lives, calls that this thread begins have no event of their own.
class SilentEvents {
 public:
  SilentEvents();
  ~SilentEvents();
  SilentEvents(const SilentEvents&) = delete;
  SilentEvents& operator=(const SilentEvents&) = delete;

 private:
  bool before_;
};

// Of several calls.
class WorkOfAll final : public c10d::Work {
 public:
  explicit WorkOfAll(std::vector<Backend::WorkPtr> works)
      : c10d::Work(-1, c10d::OpType::COALESCED), works_(std::move(works)) {}
  // One event of a profiler's for all of them, whose own ones are silent (SilentEvents).
  WorkOfAll(std::vector<Backend::WorkPtr> works, const char* title, const Backend::Tensors& shown)
      : c10d::Work(-1, c10d::OpType::COALESCED, title, shown), works_(std::move(works)) {}
  ~WorkOfAll() override { end_event(); }
  bool isCompleted() override;
  bool isSuccess() const override;
  Backend::Tensors result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  void end_event();

  std::vector<Backend::WorkPtr> works_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

}  // namespace opentrn::torch_device
