#include "isa/traits.h"

#include "isa/definitions.h"
#include "isa/program.h"

namespace opentrn::isa {

namespace {

ReduceCmd command_of(const Program& program, const Instruction& in, const EngineStateUse& use) {
  return static_cast<ReduceCmd>(program.attribute_int(in, use.command));
}

}  // namespace

uint8_t engine_state_used(const Program& program, const Instruction& in) {
  const EngineStateUse& use = definition(in.opcode).traits.state;
  if (!use.optional) return use.parts;
  const bool idle = command_of(program, in, use) == ReduceCmd::kIdle;
  return !idle || program.operand(in, use.result).present() ? use.parts : 0;
}

Mixing mixing(const Program& program, const Instruction& in) {
  const Traits& traits = definition(in.opcode).traits;
  if (engine_state_used(program, in) == 0) return traits.mixing;
  const EngineStateUse& use = traits.state;
  const bool resets =
      use.resets || (use.command >= 0 && command_of(program, in, use) == ReduceCmd::kResetReduce);
  return resets ? Mixing::kElementsOfALane : Mixing::kLanes;
}

}  // namespace opentrn::isa
