// The instruction table: what each opcode is called, which engines and generations have it, and what
// its operand and attribute slots mean. The printer, the parser, the checker, the NKI bindings and
// the status pages are all derived from this table.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "isa/memory.h"
#include "isa/opcode.h"

namespace opentrn::isa {

enum class Role : uint8_t { kIn, kOut, kInOut };

// What may stand in an operand slot, as a mask.
enum Accepts : uint8_t {
  kAcceptsAccess = 1,
  kAcceptsImmediate = 2,
  kAcceptsRegister = 4,
  kAcceptsNone = 8,       // optional
  kAcceptsIndirect = 16,  // v4 `.indirect()` gather/scatter
  kRepeats = 32,          // last slot only: any number of operands
};

using SpaceMask = uint8_t;
constexpr SpaceMask mask(MemorySpace space) { return static_cast<SpaceMask>(1u << static_cast<int>(space)); }
inline constexpr SpaceMask kInSbuf = mask(MemorySpace::kSbuf);
inline constexpr SpaceMask kInPsum = mask(MemorySpace::kPsum);
inline constexpr SpaceMask kInHbm =
    mask(MemorySpace::kHbm) | mask(MemorySpace::kPrivateHbm) | mask(MemorySpace::kSharedHbm);
inline constexpr SpaceMask kOnChip = kInSbuf | kInPsum;
inline constexpr SpaceMask kDmaSpaces = kInSbuf | kInHbm;

struct OperandSlot {
  std::string_view name;
  Role role;
  uint8_t accepts;
  SpaceMask spaces;
};

enum class AttributeKind : uint8_t {
  kInt,
  kBool,
  kReal,
  kAluOp,
  kOptionalAluOp,
  kActivation,
  kIntList,
  kReduceCmd,
  kDgeMode,
  kOobMode,
  kDmaEngine,
  kPerfMode,
  kMxScaleRule,
  kString,
};
// kOptionalAluOp holds -1 for None.

struct AttributeSlot {
  std::string_view name;
  AttributeKind kind;
};

struct InstructionDefinition {
  Opcode opcode;
  std::string_view name;  // that of nki.isa
  EngineMask engines;     // engines that can run it on some generation; 0 for control
  int first_generation;   // NeuronCore version; constraints.cc refines per engine
  std::span<const OperandSlot> operands;
  std::span<const AttributeSlot> attributes;
};

const InstructionDefinition& definition(Opcode opcode);
std::span<const InstructionDefinition> definitions();
std::optional<Opcode> opcode_from_name(std::string_view name);
inline std::string_view name(Opcode opcode) { return definition(opcode).name; }

constexpr bool is_control(Opcode opcode) {
  return opcode >= Opcode::kRegisterLoad && opcode <= Opcode::kWhileEnd;
}
constexpr bool is_dma(Opcode opcode) {
  return opcode == Opcode::kDmaCopy || opcode == Opcode::kDmaTranspose || opcode == Opcode::kDmaCompute;
}
constexpr bool is_matmul(Opcode opcode) {
  return opcode == Opcode::kNcMatmul || opcode == Opcode::kNcMatmulMx || opcode == Opcode::kNcMatmulSparse;
}

}  // namespace opentrn::isa
