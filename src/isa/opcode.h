// The instruction set: opcodes and the slots of their operands and attributes.
//
// One opcode per nki.isa call that reaches an engine, plus control flow. Each family has a header
// isa/instructions/<family>.h with its opcodes and its slots, and a source file beside it with everything
// else that is stated of an instruction: roles and kinds of the slots, engines, traits, Python signature,
// constraints.
//
// The number of an opcode is what files hold: it never changes, and a new instruction takes the next free
// one. Slots are positions, one namespace per instruction: operand slots first, attribute slots (kA...)
// second. "Scalar or vector" operands are an immediate or a [P, 1] access.
#pragma once

#include <cstdint>

#include "isa/instructions/activation.h"
#include "isa/instructions/control.h"
#include "isa/instructions/copy.h"
#include "isa/instructions/dma.h"
#include "isa/instructions/elementwise.h"
#include "isa/instructions/exchange.h"
#include "isa/instructions/host.h"
#include "isa/instructions/matmul.h"
#include "isa/instructions/quantize.h"
#include "isa/instructions/random.h"
#include "isa/instructions/reduce.h"
#include "isa/instructions/registers.h"
#include "isa/instructions/scan.h"
#include "isa/instructions/search.h"
#include "isa/instructions/select.h"

// X(opcode, name, number) for every instruction of a family that ...
// ... has a body in the functional model,
#define OPENTRN_INSTRUCTIONS_WITH_BODY(X) \
  OPENTRN_ACTIVATION_INSTRUCTIONS(X)      \
  OPENTRN_COPY_INSTRUCTIONS(X)            \
  OPENTRN_DMA_INSTRUCTIONS(X)             \
  OPENTRN_ELEMENTWISE_INSTRUCTIONS(X)     \
  OPENTRN_HOST_INSTRUCTIONS(X)            \
  OPENTRN_MATMUL_INSTRUCTIONS(X)          \
  OPENTRN_QUANTIZE_INSTRUCTIONS(X)        \
  OPENTRN_RANDOM_INSTRUCTIONS(X)          \
  OPENTRN_REDUCE_INSTRUCTIONS(X)          \
  OPENTRN_SCAN_INSTRUCTIONS(X)            \
  OPENTRN_SEARCH_INSTRUCTIONS(X)          \
  OPENTRN_SELECT_INSTRUCTIONS(X)
// ... is executed by the sequencer of a core,
#define OPENTRN_SEQUENCER_INSTRUCTIONS(X) \
  OPENTRN_CONTROL_INSTRUCTIONS(X)         \
  OPENTRN_REGISTERS_INSTRUCTIONS(X)
// ... exists. The two cores together execute those of OPENTRN_EXCHANGE_INSTRUCTIONS.
#define OPENTRN_INSTRUCTIONS(X)     \
  OPENTRN_INSTRUCTIONS_WITH_BODY(X) \
  OPENTRN_SEQUENCER_INSTRUCTIONS(X) \
  OPENTRN_EXCHANGE_INSTRUCTIONS(X)

namespace opentrn::isa {

enum class Opcode : uint8_t {
#define OPENTRN_OPCODE(opcode, name, number) opcode = number,
  OPENTRN_INSTRUCTIONS(OPENTRN_OPCODE)
#undef OPENTRN_OPCODE
};

#define OPENTRN_ONE_MORE(opcode, name, number) +1
inline constexpr int kOpcodeCount = 0 OPENTRN_INSTRUCTIONS(OPENTRN_ONE_MORE);
#undef OPENTRN_ONE_MORE

// Values of the enumerated attributes; they equal those of the nki.isa enums.
enum class ReduceCmd : uint8_t { kIdle = 0, kReset = 1, kReduce = 2, kResetReduce = 3, kLoadReduce = 4 };
enum class DgeMode : uint8_t { kUnknown = 0, kSwdge = 1, kHwdge = 2, kNone = 3 };
enum class OobMode : uint8_t { kError = 0, kSkip = 1 };
enum class DmaEngine : uint8_t { kDma = 1, kGpSimdDma = 2 };
enum class MatmulPerfMode : uint8_t { kNone = 0, kDoubleRow = 1 };

#define OPENTRN_IS(instruction, name, number) || opcode == Opcode::instruction
constexpr bool is_control(Opcode opcode) { return false OPENTRN_SEQUENCER_INSTRUCTIONS(OPENTRN_IS); }
constexpr bool is_dma(Opcode opcode) { return false OPENTRN_DMA_INSTRUCTIONS(OPENTRN_IS); }
constexpr bool is_matmul(Opcode opcode) { return false OPENTRN_MATMUL_INSTRUCTIONS(OPENTRN_IS); }
constexpr bool is_exchange(Opcode opcode) { return false OPENTRN_EXCHANGE_INSTRUCTIONS(OPENTRN_IS); }
#undef OPENTRN_IS
constexpr bool opens_loop(Opcode opcode) {
  return opcode == Opcode::kLoopBegin || opcode == Opcode::kWhileBegin;
}
constexpr bool closes_loop(Opcode opcode) {
  return opcode == Opcode::kLoopEnd || opcode == Opcode::kWhileEnd;
}
constexpr bool is_loop_marker(Opcode opcode) { return opens_loop(opcode) || closes_loop(opcode); }

}  // namespace opentrn::isa
