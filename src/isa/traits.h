// Traits of an instruction: what it does beside computing its values, as the scheduler, the passes before it
// and the functional model need to know it. A row of the instruction table states them once.
#pragma once

#include <cstdint>

namespace opentrn::isa {

class Program;
struct Instruction;

// What an element of a result depends on.
enum class Mixing : uint8_t {
  kNone,             // element i of the sources
  kElementsOfALane,  // elements of its own partition
  kLanes,            // anything; the careful answer
};

// What an engine keeps from one instruction to the next, as a mask.
enum EngineStatePart : uint8_t { kVectorAccumulators = 1, kScalarAccumulators = 2, kRandomState = 4 };
inline constexpr int kEngineStateParts = 3;

struct EngineStateUse {
  uint8_t parts = 0;  // EngineStatePart, all read and written
  // Attribute slot of the reduce command, and operand slot of the reduced result; -1 for none.
  int8_t command = -1;
  int8_t result = -1;
  // Only an instruction whose command is not idle, or that has the result, uses the state.
  bool optional = false;
  // Accumulators are reset before they are used, whatever the command.
  bool resets = false;
};

enum TraitFlag : uint8_t {
  // Its effects reach beyond its operands and its engine: other cores, user code, the host, the flow of
  // control.
  // Nothing may be moved across it.
  kAlone = 1,
  // It waits for another core of the launch.
  kSynchronisesCores = 2,
  // Its destination holds its source, converted to the destination's format.
  kCopies = 4,
  // Row i of its destination needs row i of its sources only, or the same rows for all of them, and its body
  // in
  // the functional model can be run a band of rows at a time.
  kByRows = 8,
  // Several of them on adjacent columns are one of them on all of those columns.
  kMergeable = 16,
};

struct Traits {
  uint8_t flags = 0;               // TraitFlag
  Mixing mixing = Mixing::kLanes;  // where no engine state is used
  EngineStateUse state = {};

  constexpr bool has(TraitFlag flag) const { return (flags & flag) != 0; }
  constexpr bool elementwise() const { return mixing == Mixing::kNone; }
};

// The parts of its engine's state that an instruction may read or write; a mask of EngineStatePart.
uint8_t engine_state_used(const Program& program, const Instruction& in);

// What elements of its results depend on, its reduce command included. Indirect accesses are not looked at.
Mixing mixing(const Program& program, const Instruction& in);

}  // namespace opentrn::isa
