// The processes of a program with jax.distributed: who they are, and how bytes go between them.
//
// They find each other by the store for keys that JAX's coordinator keeps. What programs exchange goes over
// TCP connections of their own, each between two processes, which begin with a secret from the store. On one
// host they are on its loopback interface.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace opentrn::pjrt {

// The coordinator's store. get() waits for a key; both throw a Fault.
struct Store {
  std::function<std::string(const std::string& key, std::chrono::milliseconds timeout)> get;
  std::function<void(const std::string& key, const std::string& value)> put;
};

class Processes {
 public:
  // Meets the others. `about`: what must be the same in all ("trn2.48xlarge, 2 cores each"); `cores`: of
  // this process. Faults: "pjrt.absent" for one that does not come in time, "pjrt.mismatch" for one that is
  // about something else.
  Processes(int own, int count, const Store& store, const std::string& about, const std::vector<int>& cores);
  ~Processes();
  Processes(const Processes&) = delete;
  Processes& operator=(const Processes&) = delete;

  int own() const { return own_; }
  int count() const { return static_cast<int>(cores_.size()); }
  const std::vector<std::vector<int>>& cores() const { return cores_; }  // by process

  // Gives `mine` to each of the processes `with` (which has this one), and returns theirs, in that order.
  // `what`: the place in the program, the same in all: else "pjrt.mismatch". "pjrt.absent" for one that has
  // ended, or says nothing for OPENTRN_PEER_TIMEOUT_S seconds. After an error nothing is exchanged any more.
  // One thread at a time.
  std::vector<std::string> exchange(const std::vector<int>& with, const std::string& what, std::string mine);

 private:
  struct Peer;
  void listen_and_publish(const Store& store, const std::string& about, const std::vector<int>& cores);
  void connect_all(const Store& store, const std::string& about);
  [[noreturn]] void fail(const char* label, const std::string& what, const std::string& hint);

  int own_;
  std::chrono::milliseconds timeout_;
  std::vector<std::vector<int>> cores_;
  std::vector<int> sockets_;  // by process; -1: none
  int listener_ = -1;
  std::string secret_, broken_;  // broken_: the error after which nothing is exchanged
};

}  // namespace opentrn::pjrt
