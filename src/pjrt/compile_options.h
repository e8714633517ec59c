// What is read of a serialised CompileOptionsProto. Source of the fields:
// xla/pjrt/proto/compile_options.proto.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/abi.h"

namespace opentrn::pjrt {

struct CompileOptions {
  int replicas = 1, partitions = 1;
  // Device ids by replica, then partition; empty when the caller leaves the choice.
  std::vector<int> devices;
  // jax.jit(compiler_options=...), numbers and booleans as text.
  std::map<std::string, std::string> overrides;
  // XLA's own options that are set and change nothing here, by their names.
  std::vector<std::string> without_effect;
};

// Input fault where the bytes are no such message, or its numbers make no sense; kNotModelled for an option
// that would change what the program computes or is given. Debug options, which JAX always sends, are XLA's
// own.
CompileOptions read_compile_options(std::string_view bytes);
// A serialised DeviceAssignmentProto.
std::string device_assignment(int replicas, int partitions, std::span<const int> devices);

}  // namespace opentrn::pjrt
