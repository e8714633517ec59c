// Shardy, which JAX spreads programs over devices with, through jaxlib in a child process
// (python/opentrn/jax/shardy.py). Where no Python has jaxlib, programs run whole, which is always right.
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
};

class Shardy {
 public:
  // Thread safe. Nothing when there is no Python with jaxlib, or Shardy fails; stderr says so, once for each
  // cause.
  std::optional<Partition> partition(std::string_view code);

 private:
  std::optional<Partition> ask(std::string_view code);

  std::mutex mutex_;
  std::unique_ptr<Child> child_;
  std::string said_;
};

}  // namespace opentrn::spmd
