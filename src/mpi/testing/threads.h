// Threads of one process as the processes of a launch: messages by memory.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "mpi/transport.h"

namespace opentrn::mpi {

class Mail {
 public:
  void put(int from, int to, std::vector<std::byte> message) {
    const std::lock_guard lock(mutex_);
    boxes_[{from, to}].push_back(std::move(message));
    changed_.notify_all();
  }
  bool take(int from, int to, std::span<std::byte> message, Deadline deadline) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    if (!changed_.wait_until(lock, deadline, [&] { return !box.empty(); })) return false;
    OPENTRN_CHECK(box.front().size() == message.size(), "{} bytes where {} were due", box.front().size(),
                  message.size());
    std::ranges::copy(box.front(), message.begin());
    box.pop_front();
    return true;
  }

  bool has(int from, int to) {
    const std::lock_guard lock(mutex_);
    return !boxes_[{from, to}].empty();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> boxes_;
};

class ThreadTransport final : public Transport {
 public:
  // Stops to receive after `receives_max` messages, as a process that has died.
  ThreadTransport(Mail& mail, int process, int processes, std::chrono::milliseconds timeout,
                  int receives_max = 1 << 30)
      : mail_(mail),
        process_(process),
        processes_(processes),
        timeout_(timeout),
        receives_left_(receives_max) {}

  int process() const override { return process_; }
  int processes() const override { return processes_; }
  std::chrono::milliseconds timeout() const override { return timeout_; }
  void send(int to, std::vector<std::byte> message) override { mail_.put(process_, to, std::move(message)); }
  bool receive(int from, std::span<std::byte> message, Deadline deadline, const Doing&) override {
    if (receives_left_-- == 0) throw Fault(FaultKind::kInternal, "", "this process died");
    return mail_.take(from, process_, message, deadline);
  }
  bool has_come(int from) override { return mail_.has(from, process_); }
  size_t unsent() override { return 0; }
  void flush(const Doing&) override {}

 private:
  Mail& mail_;
  int process_, processes_;
  std::chrono::milliseconds timeout_;
  int receives_left_;
};

// body(process) on a thread each; what each threw, by process: "" when nothing.
inline std::vector<std::string> run_processes(int processes, const std::function<void(int)>& body) {
  std::vector<std::string> said(static_cast<size_t>(processes));
  std::vector<std::thread> threads;
  for (int process = 0; process < processes; ++process)
    threads.emplace_back([&, process] {
      try {
        body(process);
      } catch (const Fault& fault) {
        said[static_cast<size_t>(process)] = fault.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return said;
}

}  // namespace opentrn::mpi
