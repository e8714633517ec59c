// How often loops run: constants, register arithmetic on constants, or what the caller says.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "isa/program.h"
#include "sim/timing/simulate.h"

namespace opentrn::sim::timing {

// Registers as far as they can be known without values from memory.
class RegisterTracker {
 public:
  explicit RegisterTracker(const isa::Program& program)
      : program_(program), known_(program.register_count()), truth_(program.register_count()) {}
  // Follows one register instruction; what it cannot follow becomes unknown.
  void follow(const isa::Instruction& in);
  void set(isa::RegisterId id, std::optional<int64_t> value) { known_[id] = value; }
  std::optional<int64_t> value(const isa::Operand& operand) const;
  // The operand is what a comparison gave: 0 or 1, if nothing else is known.
  bool is_truth(const isa::Operand& operand) const;

 private:
  const isa::Program& program_;
  std::vector<std::optional<int64_t>> known_;
  std::vector<bool> truth_;
};

// Iterations of the loop that begins at `begin`, entered for the `entry`-th time. kInput when nothing tells.
int64_t trip_count(const isa::Program& program, isa::InstructionIndex begin, int64_t entry,
                   const RegisterTracker& registers, const SimulateOptions& options);

}  // namespace opentrn::sim::timing
