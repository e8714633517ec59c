// A compiled model, ready to run: a program, what goes in and out, and the constants it reads.
//
// What the graph compiler gives and what a .neuron file holds. One core runs it; values come from
// sim/functional, time from backend and sim/timing, which do not need the values.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "arch/arch.h"
#include "isa/origin.h"
#include "isa/program.h"
#include "sim/functional/buffer.h"
#include "sim/functional/core.h"
#include "sim/functional/direct_operands.h"
#include "sim/functional/run_memory.h"

namespace opentrn::runtime {

// One input or output: an HBM tensor of the program, in the element type that the device stores.
struct Port {
  std::string name;
  isa::TensorId tensor = 0;
  std::string element;  // the model's own element type, "i64"; the device may hold a narrower one
  std::vector<int64_t> shape;
};

struct ConstantData {
  isa::TensorId tensor = 0;
  std::shared_ptr<sim::Buffer> bytes;
  // Where the same bytes lie in a file of the user's; no path when they lie in none.
  std::string file;
  int64_t file_offset = 0;
};

// Engines round fp32 to narrower floats stochastically: the same seed and number of the run give the same
// bits. Runs are counted, so that what is rounded up in one is not rounded up in all.
struct StochasticRounding {
  explicit StochasticRounding(uint64_t from) : seed(from) {}
  const uint64_t seed;
  std::atomic<uint64_t> runs = 0;
};

// What execute() makes of a program when it first runs it.
struct Prepared {
  std::shared_ptr<const isa::Program> of;
  sim::DirectOperands direct;
  sim::RunMemory memory = {};  // of the program that ran last
};

struct Model {
  std::shared_ptr<const isa::Program> program;
  Generation generation = Generation::kV3;
  std::vector<Port> inputs, outputs;
  std::vector<ConstantData> constants;
  isa::Origin origin;                            // what reports are made by; may be empty
  std::string narrowing;                         // compiler/narrowing.h; empty where a file was loaded
  std::shared_ptr<StochasticRounding> rounding;  // to nearest even without it
  std::shared_ptr<Prepared> prepared = std::make_shared<Prepared>();  // execute() alone touches it

  int64_t device_bytes(const Port& port) const { return program->tensor(port.tensor).bytes(); }
  int64_t constant_bytes() const;
};

// How often the loops of a program ran, by the instruction that begins them.
using LoopTrips = std::map<isa::InstructionIndex, sim::TripCounts>;

// Values of one inference: outputs in the order of the ports. Inputs hold device_bytes() each; an input fault
// names the port otherwise. An output that has the tensor of an input is that input's buffer, updated in
// place (compiler::Options::donate_inputs); an input fault "model.donated_input" where it may not be written.
// Deterministic for every number of threads. `trips`: where given, takes how often loops ran, which a timing
// run of a program whose loops depend on values asks for. `places`: empty, or for each output the memory of
// device_bytes() that it is written into, null for fresh memory; no place may overlap an input or another
// place.
std::vector<std::shared_ptr<sim::Buffer>> execute(const Model& model,
                                                  std::span<const std::shared_ptr<sim::Buffer>> inputs,
                                                  LoopTrips* trips = nullptr,
                                                  std::span<void* const> places = {});

// What kernels print (nl.device_print) in executions of this thread goes to `callback` while the scope lives;
// it may be called by other threads. Without a scope, or a callback, nothing is made of it.
class PrintScope {
 public:
  explicit PrintScope(sim::PrintCallback callback);
  ~PrintScope();
  PrintScope(const PrintScope&) = delete;
  PrintScope& operator=(const PrintScope&) = delete;

 private:
  sim::PrintCallback callback_;
  const sim::PrintCallback* outer_;
};

}  // namespace opentrn::runtime
