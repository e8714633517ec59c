// Loops of the device.
#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

// -- loop_begin
constexpr OperandSlot kLoopBeginOperands[] = {out("register", 0, kAcceptsRegister),
                                              in("lower", 0, kAcceptsRegister | kAcceptsImmediate),
                                              in("upper", 0, kAcceptsRegister | kAcceptsImmediate)};
constexpr AttributeSlot kLoopBeginAttributes[] = {{"step", K::kInt}, {"match", K::kInt}};
constexpr Constraint kLoopBeginConstraints[] = {
    {"loop_begin.C1", "step is positive.", "nki.language.dynamic_range, step"}};

void check_loop_begin(const Check& c) {
  const int64_t step = c.integer(slot::loop::kAStep);
  if (step < 1) c.fail(1, fmt::format("step is {}; it must be positive", step));
}

}  // namespace

constexpr InstructionDefinition loop_begin = {
    .opcode = Opcode::kLoopBegin,
    .name = "loop_begin",
    .engines = kNoEngine,
    .first_generation = Generation::kV2,
    .operands = kLoopBeginOperands,
    .attributes = kLoopBeginAttributes,
    .traits = kEffects,
    .constraints = kLoopBeginConstraints,
    .check = check_loop_begin,
};

namespace {

// -- loop_end
constexpr OperandSlot kLoopEndOperands[] = {out("register", 0, kAcceptsRegister)};

}  // namespace

constexpr InstructionDefinition loop_end = {
    .opcode = Opcode::kLoopEnd,
    .name = "loop_end",
    .engines = kNoEngine,
    .first_generation = Generation::kV2,
    .operands = kLoopEndOperands,
    .attributes = kLoopBeginAttributes,
    .traits = kEffects,
};

namespace {

// -- while_begin
constexpr OperandSlot kWhileBeginOperands[] = {in("condition", 0, kAcceptsRegister)};
constexpr AttributeSlot kWhileBeginAttributes[] = {{"match", K::kInt}};

}  // namespace

constexpr InstructionDefinition while_begin = {
    .opcode = Opcode::kWhileBegin,
    .name = "while_begin",
    .engines = kNoEngine,
    .first_generation = Generation::kV2,
    .operands = kWhileBeginOperands,
    .attributes = kWhileBeginAttributes,
    .traits = kEffects,
};

constexpr InstructionDefinition while_end = {
    .opcode = Opcode::kWhileEnd,
    .name = "while_end",
    .engines = kNoEngine,
    .first_generation = Generation::kV2,
    .operands = kWhileBeginOperands,
    .attributes = kWhileBeginAttributes,
    .traits = kEffects,
};

}  // namespace opentrn::isa::instructions
