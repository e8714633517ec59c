// What leaves the engines: user code on GpSimd, and values printed by the host.
#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

// -- custom_op
constexpr OperandSlot kCustomOpOperands[] = {inout("operands", kOnChip | kInHbm, kScalarOrVector | kRepeats)};
constexpr AttributeSlot kCustomOpAttributes[] = {
    {"op", K::kString}, {"outputs", K::kInt}, {"ns", K::kReal}, {"cycles_per_element", K::kReal}};

}  // namespace

constexpr InstructionDefinition custom_op = {
    .opcode = Opcode::kCustomOp,
    .name = "custom_op",
    .engines = kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kCustomOpOperands,
    .attributes = kCustomOpAttributes,
    .traits = kEffects,
};

namespace {

// -- device_print
constexpr OperandSlot kDevicePrintOperands[] = {in("tensor", kOnChip | kInHbm)};
constexpr AttributeSlot kDevicePrintAttributes[] = {{"text", K::kString}};

}  // namespace

constexpr InstructionDefinition device_print = {
    .opcode = Opcode::kDevicePrint,
    .name = "device_print",
    .engines = kNoEngine,
    .first_generation = Generation::kV1,
    .operands = kDevicePrintOperands,
    .attributes = kDevicePrintAttributes,
    .traits = kEffects,
};

}  // namespace opentrn::isa::instructions
