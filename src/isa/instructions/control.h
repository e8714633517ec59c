// Loops of the device. Opcodes with their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_CONTROL_INSTRUCTIONS(X) \
  X(kLoopBegin, loop_begin, 52)         \
  X(kLoopEnd, loop_end, 53)             \
  X(kWhileBegin, while_begin, 54)       \
  X(kWhileEnd, while_end, 55)

namespace opentrn::isa::slot {

namespace loop {
enum { kRegister, kLower, kUpper };
enum { kAStep, kAMatch };
}  // namespace loop
namespace while_loop {
enum { kCondition };
enum { kAMatch };
}  // namespace while_loop

}  // namespace opentrn::isa::slot
