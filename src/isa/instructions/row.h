// What the rows of the instruction table are written with. A row stands in the file of its family, with the
// slots, the Python signature, the constraints and their check; definitions.cc collects the rows.
#pragma once

#include <initializer_list>
#include <string_view>

#include "isa/constraints_context.h"
#include "isa/definitions.h"
#include "numerics/ops.h"

namespace opentrn::isa::instructions {

// The rows by their names: `extern`, so that a family's constexpr object can be taken the address of
// elsewhere.
#define OPENTRN_ROW(opcode, name, number) extern const InstructionDefinition name;
OPENTRN_INSTRUCTIONS(OPENTRN_ROW)
#undef OPENTRN_ROW

using constraint::Check;
using constraint::DTypes;
using constraint::kBitPatterns;
using constraint::kFloats;
using constraint::kFp32Class;
using constraint::Limits;
using constraint::limits;
using constraint::Tile;

// -- operands and attributes
inline constexpr uint8_t kTile = kAcceptsAccess;
inline constexpr uint8_t kIndirectTile = kAcceptsAccess | kAcceptsIndirect;
inline constexpr uint8_t kScalarOrVector = kAcceptsAccess | kAcceptsImmediate;
inline constexpr uint8_t kOptionalTile = kAcceptsAccess | kAcceptsNone;
inline constexpr uint8_t kOptionalScalarOrVector = kScalarOrVector | kAcceptsNone;

constexpr OperandSlot in(std::string_view name, SpaceMask spaces = kOnChip, uint8_t accepts = kTile) {
  return {name, Role::kIn, accepts, spaces};
}
constexpr OperandSlot out(std::string_view name, SpaceMask spaces = kOnChip, uint8_t accepts = kTile) {
  return {name, Role::kOut, accepts, spaces};
}
constexpr OperandSlot inout(std::string_view name, SpaceMask spaces = kOnChip, uint8_t accepts = kTile) {
  return {name, Role::kInOut, accepts, spaces};
}

using K = AttributeKind;

// -- engines
inline constexpr EngineMask kOnTensor = mask(Engine::kTensor), kOnScalar = mask(Engine::kScalar),
                            kOnGpSimd = mask(Engine::kGpSimd), kOnVector = mask(Engine::kVector),
                            kOnDma = mask(Engine::kDma), kOnSync = mask(Engine::kSync), kNoEngine = 0;

// -- traits, by what they have in common
inline constexpr Traits kElementwise{kByRows | kMergeable, Mixing::kNone};
inline constexpr Traits kLaneReduction{0, Mixing::kElementsOfALane};
inline constexpr Traits kEffects{kAlone};
inline constexpr Traits kDraws{0, Mixing::kLanes, {kRandomState}};
inline constexpr Traits kVectorReduces{0, Mixing::kLanes, {kVectorAccumulators}};
constexpr EngineStateUse scalar_reduction(int command, int result) {
  return {kScalarAccumulators, static_cast<int8_t>(command), static_cast<int8_t>(result), true};
}

// -- parameters of the Python function
constexpr Parameter operand(std::string_view name, int slot) {
  return {name, ParameterRole::kOperand, slot, true};
}
constexpr Parameter optional(std::string_view name, int slot) {
  return {name, ParameterRole::kOperand, slot};
}
constexpr Parameter scalar(std::string_view name, int slot, double value) {
  return {name, ParameterRole::kOperand, slot, false, false, value};
}
constexpr Parameter attribute(std::string_view name, int slot) {
  return {name, ParameterRole::kAttribute, slot, true};
}
constexpr Parameter attribute(std::string_view name, int slot, double value) {
  return {name, ParameterRole::kAttribute, slot, false, false, value};
}
constexpr Parameter attribute(std::string_view name, int slot, AluOp op) {
  return attribute(name, slot, static_cast<double>(op));
}
constexpr Parameter attribute(std::string_view name, int slot, ReduceCmd command) {
  return attribute(name, slot, static_cast<double>(command));
}
// None in Python, and -1 in the integer attribute.
constexpr Parameter unset(std::string_view name, int slot) {
  return {name, ParameterRole::kAttribute, slot, false, true, -1};
}
constexpr Parameter untimed(Parameter parameter) {
  parameter.untimed = true;
  return parameter;
}
// False unless given.
constexpr Parameter ignored_flag(std::string_view name) {
  return {name, ParameterRole::kIgnored, 0, false, false};
}
constexpr Parameter engine() { return {"engine", ParameterRole::kEngine}; }
constexpr Parameter name() { return {"name", ParameterRole::kName}; }

// -- checks that several families have; `number` is the instruction's own number of its rule
inline constexpr DTypes kFp32 = {DType::kFloat32};
inline constexpr DTypes kUint32 = {DType::kUint32};
inline constexpr DTypes kMxScaleTypes = {DType::kFloat8E8M0Fnu, DType::kUint8};
inline constexpr int64_t kGpSimdCorePartitions = 16;

// Bit-vector operators treat elements as integers.
void bit_patterns(const Check& c, int number, std::initializer_list<int> slots);
void no_scatter_into_psum_on_scalar(const Check& c, int number, int dst);
bool reduce_cmd_is(const Check& c, int slot, std::initializer_list<ReduceCmd> allowed);

}  // namespace opentrn::isa::instructions
