// Random numbers and the generators' states. Opcodes with their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_RANDOM_INSTRUCTIONS(X) \
  X(kDropout, dropout, 41)             \
  X(kRng, rng, 42)                     \
  X(kSetRngSeed, set_rng_seed, 43)     \
  X(kRandSetState, rand_set_state, 44) \
  X(kRandGetState, rand_get_state, 45) \
  X(kRand2, rand2, 46)

namespace opentrn::isa::slot {

namespace dropout {
enum { kDst, kData, kProb };
}  // namespace dropout
namespace rng {
enum { kDst };
}  // namespace rng
namespace set_rng_seed {
enum { kSrcSeeds };
}  // namespace set_rng_seed
namespace rand_set_state {
enum { kSrcSeeds };
}  // namespace rand_set_state
namespace rand_get_state {
enum { kDst };
}  // namespace rand_get_state
namespace rand2 {
enum { kDst, kMin, kMax };
}  // namespace rand2

}  // namespace opentrn::isa::slot
