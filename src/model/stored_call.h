// A call of a framework's op whose program lies in the cache: what an entry's facts say of it, held to the
// call.
//
// The facts say how the call's tensors are those of the program. An entry is data, and a foreign one may say
// anything: it is taken only where every memory that the call hands over is what the program reads and
// writes, so that a wrong one gives wrong values and touches nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace opentrn::model {

// A tensor of the call.
struct CallTensor {
  std::vector<int64_t> shape;
  std::vector<int64_t>
      memory_shape;     // its dimensions as they lie in memory, those of one element's stride as 1
  std::string element;  // StableHLO's name
  bool is_number = false;
  bool is_dense = true;  // its elements fill memory, each in a place of its own
};

// An argument of the program: kind "tensor", "scalar" (a tensor of no dimension, in another type) or
// "number".
struct CallInput {
  std::string kind;
  int64_t place = 0;  // among the tensors, or the numbers
  std::string dtype;  // the framework's name; empty of a tensor, which keeps its own
};

// A result; places are numbers of tensors or of results, -1: none.
struct CallOutput {
  int64_t target = -1;       // the tensor that it is written to
  int64_t copied_from = -1;  // the tensor that it is
  std::vector<int64_t> sizes, strides;
  std::string dtype;
  bool is_in_order = true;                    // its elements lie one after the other, in `order`
  std::optional<std::vector<int64_t>> order;  // of its dimensions in memory, the slowest first
  int64_t repeats = -1;                       // the earlier result that it equals
};

// What the op gives: kind "output" or "argument" of one place, "list" of outputs, or "none".
struct CallReturn {
  std::string kind;
  std::vector<int64_t> places;
};

struct StoredCall {
  bool draws = false;  // the program's last input is the state of a random generator
  std::vector<CallInput> inputs;
  std::vector<CallOutput> outputs;
  std::vector<CallReturn> returned;
};

using NamedPort = std::tuple<std::string, std::string, std::vector<int64_t>>;  // name, element, shape

// What a call is held to.
struct Call {
  std::span<const CallTensor> tensors;
  int64_t numbers = 0;  // of its numbers, how many are inputs
  std::span<const NamedPort> inputs, outputs;
  const std::map<std::string, std::string>& elements;  // of the framework's names of types, StableHLO's
};

// The facts of JSON text; nothing where they are none, or not of this call and this program.
std::optional<StoredCall> stored_call(std::string_view facts, const Call& call);

}  // namespace opentrn::model
