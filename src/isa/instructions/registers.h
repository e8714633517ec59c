// Registers of the sequencers. Opcodes with their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_REGISTERS_INSTRUCTIONS(X) \
  X(kRegisterLoad, register_load, 48)     \
  X(kRegisterMove, register_move, 49)     \
  X(kRegisterStore, register_store, 50)   \
  X(kRegisterAlu, register_alu, 51)

namespace opentrn::isa::slot {

namespace register_load {
enum { kDst, kSrc };
}  // namespace register_load
namespace register_move {
enum { kDst, kSrc };
}  // namespace register_move
namespace register_store {
enum { kDst, kSrc };
}  // namespace register_store
namespace register_alu {
enum { kDst, kA, kB };
enum { kAOp };
}  // namespace register_alu

}  // namespace opentrn::isa::slot
