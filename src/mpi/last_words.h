// What a process says when it is ended from outside while it waits: mpirun sends SIGTERM to all when one of
// them has died, and the others know whom they were waiting for.
#pragma once

#include <chrono>
#include <memory>
#include <string>

namespace opentrn::mpi {

// While it lives, SIGTERM writes `text` to stderr before it ends the process; nothing where the host has a
// handler of its own.
class LastWords {
 public:
  explicit LastWords(const std::string& text);
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

 private:
  bool installed_ = false;
};

// Ends this process with `text` on stderr when it still lives after that time: for calls that cannot be left.
class Watch {
 public:
  Watch(std::chrono::milliseconds limit, const std::string& text);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace opentrn::mpi
