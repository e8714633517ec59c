// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void sendrecv(Draft& d) {
  d.same(2);
  d.attributes = {word(1), word(1), word(0), word(1)};
}

void core_barrier(Draft& d) {
  d.operands = {d.tile(MemorySpace::kSharedHbm, kF32, {64, 16})};
  d.attributes = {d.list({0, 1})};
}

}  // namespace drafts

std::vector<Case> exchange_cases() {
  return {
      {"sendrecv.C1", Opcode::kSendRecv,
       [](Draft& d) {
         using namespace slot::sendrecv;
         d.space(kSrc, MemorySpace::kHbm);
       }},
      {"sendrecv.C2", Opcode::kSendRecv,
       [](Draft& d) {
         using namespace slot::sendrecv;
         d.dtype(kDst, DType::kInt32);
       }},
      {"sendrecv.C3", Opcode::kSendRecv,
       [](Draft& d) {
         using namespace slot::sendrecv;
         d.shape(kDst, {64, 17});
       }},
      {"sendrecv.C4", Opcode::kSendRecv,
       [](Draft& d) {
         using namespace slot::sendrecv;
         d.set(kASendToRank, 2);
       }},
      {"sendrecv.C5", Opcode::kSendRecv,
       [](Draft& d) {
         using namespace slot::sendrecv;
         d.shape(kDst, {64, 257});
         d.shape(kSrc, {64, 257});
         d.set(kADmaEngine, 2);
       }},
      {"core_barrier.C1", Opcode::kCoreBarrier,
       [](Draft& d) {
         using namespace slot::core_barrier;
         d.set_list(kACores, {0, 1, 2});
       }},
  };
}

}  // namespace opentrn::isa
