// Shardy, which JAX spreads programs over devices with, through jaxlib in a child process
// (python/opentrn/jax/shardy.py): its MLIR has passes that end the process for some programs. Where there is
// none, propagation and partition of our own take its place (propagate.h, partition.h).
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spmd/child.h"

namespace opentrn::spmd {

struct Partition {
  // #sdy.sharding attributes of the arguments and results of main; empty where Shardy leaves one open.
  std::vector<std::string> inputs, outputs;
  std::string local;    // one device's module in portable bytecode; empty where there is none,
  std::string problem;  // and why
  // A value that is cut has a dimension that its devices do not divide, and is whole in `local`.
  bool uneven = false;
};

class Shardy {
 public:
  // The one of this process: all clients ask the same child, which starts with the first question.
  static Shardy& of_process();
  // The child: a Python with jaxlib, and shardy.py. Whoever loads the library says it
  // (python/opentrn/jax/plugin.py); empty: there is none.
  void set_command(std::vector<std::string> command);
  // Thread safe. Nothing when there is no Python with jaxlib, or Shardy fails; stderr says so, once for each
  // cause.
  std::optional<Partition> partition(std::string_view code);

 private:
  std::optional<Partition> ask(std::string_view code);

  std::mutex mutex_;
  std::vector<std::string> command_;
  std::unique_ptr<Child> child_;
  std::string said_;
};

}  // namespace opentrn::spmd
