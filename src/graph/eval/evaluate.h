// The reference evaluator: runs a function of a module, op by op, with plain loops.
//
// It is the oracle of the compiler: slow, obvious, written from stablehlo/docs/spec.md. Arithmetic is done
// in the op's element type: integers wrap, floats are computed in double and rounded once per op to
// nearest even, complex numbers on pairs. Where the spec leaves a choice (order of a reduction) it
// goes in row-major order; matrix products and convolutions sum as accumulator.h says. Sizes of dynamic
// dimensions are known here: every value has a static type. Transcendental functions are the host C
// library's double ones, rounded once: f64 results may differ in the last place between hosts.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "graph/literal.h"
#include "graph/module.h"

namespace opentrn::graph::eval {

struct Token {};
struct RuntimeValue;
using RuntimeTuple = std::shared_ptr<const std::vector<RuntimeValue>>;
struct RuntimeValue {
  std::variant<Literal, Token, RuntimeTuple> value;

  const Literal& literal() const;  // internal fault when it is none
};

// One process of a run of several (stablehlo/docs/spec.md, "Execution"): its place in the grid, and the
// rendezvous point of the collectives.
class Process;

// Runs a custom call; nullopt when it does not know the target, which is then refused by name.
using CustomCallHandler = std::function<std::optional<std::vector<RuntimeValue>>(
    const Op& op, const Module& module, std::span<const RuntimeValue> operands)>;

// Runs a custom call that a device has a program for: an NKI kernel or a custom operator. `results`: the
// types that the program states; operands have those stated for them, under Options::float64 too. nullopt: it
// knows no such call.
using DeviceCallHandler = std::function<std::optional<std::vector<RuntimeValue>>(
    const Op& op, std::span<const Type> results, std::span<const RuntimeValue> operands)>;

// Sees every op's results, after it ran: for tracing, and for finding the first divergent op.
using Observer =
    std::function<void(const Function& function, OpId op, std::span<const RuntimeValue> results)>;

struct Options {
  CustomCallHandler custom_call = {};
  DeviceCallHandler device_call;  // runtime::evaluate_device_call, where there is a device
  Observer observer = {};
  // Floating-point values are computed and kept in f64 whatever their type says: the yardstick of `diff`.
  bool float64 = false;
  // Where infeed ops take their values (without the token) and outfeed ops leave theirs; called from
  // several threads under evaluate_parallel. An infeed without a source is a fault; outfeeds are dropped.
  std::function<std::vector<RuntimeValue>()> infeed = {};
  std::function<void(std::span<const RuntimeValue>)> outfeed = {};
  // A while loop that runs longer is a fault, not a hang. Nested calls are limited to kCallDepthMax
  // (interpreter.h): StableHLO has no recursion.
  int64_t while_trips_max = 100'000'000;
};

// The module has passed verify(): a malformed one may end in an internal fault. Arguments must have the
// parameters' types (a dynamic dimension takes any size within its bound). Input fault on a mismatch,
// kNotModelled for an op outside the spec's semantics (by name).
std::vector<RuntimeValue> evaluate(const Module& module, const Function& function,
                                   std::span<const RuntimeValue> arguments, const Options& options = {});

// All processes of a num_replicas x num_partitions grid at once; arguments[process], process =
// replica * num_partitions + partition. Collectives meet inside.
std::vector<std::vector<RuntimeValue>> evaluate_parallel(const Module& module,
                                                         std::span<const Function* const> functions,
                                                         int64_t num_replicas, int64_t num_partitions,
                                                         std::span<const std::vector<RuntimeValue>> arguments,
                                                         const Options& options = {});

}  // namespace opentrn::graph::eval
