// Messages between the processes that share the ranks of a launch.
//
// A message has a sender, a receiver and bytes; those of a pair arrive in the order in which they were sent.
// Nothing waits for ever: what does not come in time is a Fault that says what was waited for.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace opentrn::mpi {

// What a process does while it waits, for errors: "all_reduce of 1024 B, step 5 of rank 3". Asked for only
// when there is something to say.
using Doing = std::function<std::string()>;
using Deadline = std::chrono::steady_clock::time_point;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int process() const = 0;
  virtual int processes() const = 0;
  // Of one wait.
  virtual std::chrono::milliseconds timeout() const = 0;

  // Does not wait for the receiver.
  virtual void send(int to, std::vector<std::byte> message) = 0;
  // The next message of that process, which has exactly this size; false when it has not come by then. `who`
  // of the processes for errors: "process 2 (ranks 4 to 5)".
  virtual bool receive(int from, std::span<std::byte> message, Deadline deadline, const Doing& doing) = 0;
  // Whether receive() has something to take from that process, without waiting.
  virtual bool has_come(int from) = 0;
  // Bytes that this process has sent and that have not left it.
  virtual size_t unsent() = 0;
  // Until everything that this process sent has left it.
  virtual void flush(const Doing& doing) = 0;
};

}  // namespace opentrn::mpi
