// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void dropout(Draft& d) {
  d.same(2);
  d.operands.push_back(Operand::imm(0.5));
}

void rng(Draft& d) { d.operands = {d.sbuf(kU32, {64, 16})}; }

void set_rng_seed(Draft& d) { d.operands = {d.sbuf(kU32, {1, 1})}; }

void rand_set_state(Draft& d) { d.operands = {d.sbuf(kU32, {64, 6})}; }

void rand_get_state(Draft& d) { rand_set_state(d); }

void rand2(Draft& d) { d.operands = {d.sbuf(kF32, {64, 16}), Operand::imm(0.0), Operand::imm(1.0)}; }

}  // namespace drafts

std::vector<Case> random_cases() {
  return {
      {"dropout.C1", Opcode::kDropout,
       [](Draft& d) {
         using namespace slot::dropout;
         d.shape(kDst, {64, 1});
       }},
      {"dropout.C2", Opcode::kDropout,
       [](Draft& d) {
         using namespace slot::dropout;
         d.dtype(kDst, DType::kBFloat16);
       }},
      {"dropout.C3", Opcode::kDropout,
       [](Draft& d) {
         using namespace slot::dropout;
         d.operands[kProb] = d.operands[kData];
       }},
      {"dropout.C4", Opcode::kDropout,
       [](Draft& d) {
         using namespace slot::dropout;
         d.operands[kProb] = d.tile(MemorySpace::kSbuf, DType::kInt32, {64, 1});
       }},
      {"rng.C1", Opcode::kRng,
       [](Draft& d) {
         using namespace slot::rng;
         d.dtype(kDst, DType::kFloat32);
       }},
      {"rng.C2", Opcode::kRng,
       [](Draft& d) {
         using namespace slot::rng;
         d.generation = Generation::kV2;
         d.engine = Engine::kGpSimd;
       }},
      {"set_rng_seed.C1", Opcode::kSetRngSeed,
       [](Draft& d) {
         using namespace slot::set_rng_seed;
         d.shape(kSrcSeeds, {2, 1});
       }},
      {"rand_set_state.C1", Opcode::kRandSetState,
       [](Draft& d) {
         using namespace slot::rand_set_state;
         d.dtype(kSrcSeeds, DType::kInt32);
       }},
      {"rand_set_state.C2", Opcode::kRandSetState,
       [](Draft& d) {
         using namespace slot::rand_set_state;
         d.shape(kSrcSeeds, {64, 24});
       }},
      {"rand_set_state.C3", Opcode::kRandSetState,
       [](Draft& d) {
         using namespace slot::rand_set_state;
         d.engine = Engine::kVector;
         d.shape(kSrcSeeds, {64, 24});
       }},
      {"rand_set_state.C4", Opcode::kRandSetState,
       [](Draft& d) {
         using namespace slot::rand_set_state;
         d.space(kSrcSeeds, MemorySpace::kPsum);
       }},
      {"rand_get_state.C1", Opcode::kRandGetState,
       [](Draft& d) {
         using namespace slot::rand_get_state;
         d.dtype(kDst, DType::kInt32);
       }},
      {"rand_get_state.C2", Opcode::kRandGetState,
       [](Draft& d) {
         using namespace slot::rand_get_state;
         d.shape(kDst, {64, 24});
       }},
      {"rand_get_state.C3", Opcode::kRandGetState,
       [](Draft& d) {
         using namespace slot::rand_get_state;
         d.engine = Engine::kVector;
         d.shape(kDst, {64, 24});
       }},
      {"rand_get_state.C4", Opcode::kRandGetState,
       [](Draft& d) {
         using namespace slot::rand_get_state;
         d.space(kDst, MemorySpace::kPsum);
       }},
      {"rand2.C1", Opcode::kRand2,
       [](Draft& d) {
         using namespace slot::rand2;
         d.dtype(kDst, DType::kFloat8E5M2x4);
       }},
      {"rand2.C2", Opcode::kRand2,
       [](Draft& d) {
         using namespace slot::rand2;
         d.operands[kMin] = d.operands[kDst];
       }},
      {"rand2.C3", Opcode::kRand2,
       [](Draft& d) {
         using namespace slot::rand2;
         d.number(kMax, 0);
       }},
  };
}

}  // namespace opentrn::isa
