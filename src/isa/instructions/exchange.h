// What the two cores of a logical NeuronCore do together. Opcodes with their numbers, and slots; see
// isa/opcode.h.
#pragma once

#define OPENTRN_EXCHANGE_INSTRUCTIONS(X) \
  X(kSendRecv, sendrecv, 10)             \
  X(kCoreBarrier, core_barrier, 11)

namespace opentrn::isa::slot {

namespace sendrecv {
enum { kDst, kSrc };
enum { kASendToRank, kARecvFromRank, kAPipeId, kADmaEngine };
}  // namespace sendrecv
namespace core_barrier {
enum { kData };
enum { kACores };
}  // namespace core_barrier

}  // namespace opentrn::isa::slot
