// The graph compiler: graph::Module to isa::Program.
//
//   phases of passes (pipeline/phases.h) -> plan (lowering/plan.h) -> device kernels (lowering/)
//
// The program is then like any other: backend::compile() schedules it, sim/functional runs it, sim/timing
// times it.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "compiler/lowering/constant.h"
#include "compiler/options.h"
#include "compiler/pipeline/pass.h"
#include "graph/literal.h"
#include "graph/module.h"
#include "isa/origin.h"
#include "isa/program.h"

namespace opentrn::compiler {

// A tensor of the program that is an input or a result of the model.
struct Port {
  isa::TensorId tensor;
  graph::Type type;
  std::string name;  // the model's own where it has one (ONNX), else input0, output0, ...
};

struct CompiledModule {
  std::shared_ptr<isa::Program> program;
  std::vector<Port> inputs, outputs;
  std::vector<Constant> constants;
  PassCounts passes;
  isa::Origin origin;     // of every instruction
  std::string narrowing;  // what is stated in 64 bits and computed in 32, in words (narrowing.h)
};

// The entry as the kernels are made from it: after the passes, in terms that the evaluator knows.
graph::Module prepare(const graph::Module& module, const Options& options = {});

// Verifies and compiles the module's entry. Fault{kNotModelled, "compiler.no_lowering"} names the first op
// without a device kernel; kInput faults are the model's.
CompiledModule compile(const graph::Module& module, const Options& options = {});

// Bytes of HBM that a compiled program's tensors take where they take most: `always` (ports, constants) from
// begin to end, others from their first use to their last.
int64_t hbm_bytes_at_most(const isa::Program& program, std::span<const isa::TensorId> always);

// What of a model is supported, without compiling it.
struct OpCoverage {
  std::string op;
  int64_t count = 0;
  int64_t emulated = 0;     // done as other ops, or in the 32 bits that stand for the model's 64
  int64_t unsupported = 0;  // no device kernel
  double flops = 0;         // cost.h
  // Of the first unsupported, else of the first emulated, else of the first one.
  std::string example;  // operand and result types
  SourceLocation where;
};
std::vector<OpCoverage> coverage(const graph::Module& module);

// Elements of a host array as a device stores them, and back (device_type.h): 64-bit integers and f64
// lose half of their bits.
std::vector<std::byte> to_device(const graph::Literal& literal);
// The first 64-bit integer that 32 bits do not hold, as text; nullopt where there is none.
std::optional<std::string> beyond_device(const graph::Literal& literal);
// True when both have the same bytes.
bool same_on_device(graph::ElementType element);
graph::Literal from_device(const graph::Type& type, std::span<const std::byte> bytes);

}  // namespace opentrn::compiler
