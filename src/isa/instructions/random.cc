// Random numbers and the generators' states.
#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

constexpr int64_t kXorwowWordsGpSimd = 6, kXorwowWordsVector = 24;
constexpr DTypes kIntegers = {DType::kInt8,  DType::kInt16,  DType::kInt32,
                              DType::kUint8, DType::kUint16, DType::kUint32};

void random_state(const Check& c, int slot) {
  const Tile& tile = c.tile(slot);
  c.dtype_in(1, slot, kUint32);
  const bool vector = c.in.engine == Engine::kVector;
  c.elements(2, slot, vector ? kXorwowWordsVector : kXorwowWordsGpSimd);
  if (vector && !c.can.vector_random_state)
    c.fail(3, "the Vector engine has a readable state from NeuronCore-v4 on", "use engine.gpsimd");
  const bool psum_possible = c.in.opcode == Opcode::kRandGetState && c.can.vector_random_state && vector;
  if (tile.in_psum() && !psum_possible)
    c.fail(4, fmt::format("{} is in PSUM; it must be in SBUF", c.slot_name(slot)));
}

// -- dropout
constexpr OperandSlot kDropoutOperands[] = {out("dst"), in("data"), in("prob", kOnChip, kScalarOrVector)};
constexpr Parameter kDropoutParameters[] = {operand("dst", 0), operand("data", 1), operand("prob", 2),
                                            name()};
constexpr Constraint kDropoutConstraints[] = {
    {"dropout.C1", "dst and data have the same partitions and elements per partition.",
     "nki.isa.dropout, dst"},
    {"dropout.C2", "dst and data have the same type.", "nki.isa.dropout, last paragraph"},
    {"dropout.C3", "prob is a number or a [P, 1] tile.", "nki.isa.dropout, prob"},
    {"dropout.C4", "prob is float32 for integer data, and a float otherwise.",
     "nki.isa.dropout, 'data type of prob has restrictions'"}};

void check_dropout(const Check& c) {
  using namespace slot::dropout;
  c.same_shape(1, kDst, kData);
  c.same_dtype(2, kDst, kData);
  c.vector_of(3, kProb, kData);
  c.dtype_in(4, kProb, is_integer(c.tile(kData).dtype()) ? kFp32 : kFloats);
}

}  // namespace

constexpr InstructionDefinition dropout = {
    .opcode = Opcode::kDropout,
    .name = "dropout",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kDropoutOperands,
    .traits = kDraws,
    .signature = {Engine::kVector, kDropoutParameters},
    .summary = "dst = data with each element replaced by 0 with probability prob; no rescaling.",
    .constraints = kDropoutConstraints,
    .check = check_dropout,
};

namespace {

// -- rng
constexpr OperandSlot kRngOperands[] = {out("dst")};
constexpr Parameter kRngParameters[] = {operand("dst", 0), engine(), name()};
constexpr Constraint kRngConstraints[] = {
    {"rng.C1", "dst is an integer type of up to 32 bits.", "nki.isa.rng, 'Data types'"},
    {"rng.C2", "GpSimd generates random numbers from NeuronCore-v3 on.", "nki.isa.rng, 'Constraints'"}};

void check_rng(const Check& c) {
  using namespace slot::rng;
  c.dtype_in(1, kDst, kIntegers);
  if (c.in.engine == Engine::kGpSimd && !c.can.gpsimd_random)
    c.fail(2, "GpSimd generates random numbers from NeuronCore-v3 on", "use engine.vector");
}

}  // namespace

constexpr InstructionDefinition rng = {
    .opcode = Opcode::kRng,
    .name = "rng",
    .engines = kOnVector | kOnGpSimd,
    .first_generation = Generation::kV2,
    .operands = kRngOperands,
    .traits = kDraws,
    .signature = {Engine::kVector, kRngParameters},
    .summary = "Fill an integer dst with random bits, the low bits of one 32-bit value per element.",
    .constraints = kRngConstraints,
    .check = check_rng,
};

namespace {

// -- set_rng_seed
constexpr OperandSlot kSetRngSeedOperands[] = {in("src_seeds")};
constexpr Parameter kSetRngSeedParameters[] = {operand("src_seeds", 0), name()};
constexpr Constraint kSetRngSeedConstraints[] = {
    {"set_rng_seed.C1", "src_seeds is one 32-bit value.", "nki.isa.set_rng_seed, 'Tile size'"}};

void check_set_rng_seed(const Check& c) {
  const Tile& seeds = c.tile(slot::set_rng_seed::kSrcSeeds);
  if (seeds.total() != 1 || size_bytes(seeds.dtype()) != 4)
    c.fail(1, fmt::format("src_seeds is {} elements of {}; one of 32 bits is needed", seeds.total(),
                          name(seeds.dtype())));
}

}  // namespace

constexpr InstructionDefinition set_rng_seed = {
    .opcode = Opcode::kSetRngSeed,
    .name = "set_rng_seed",
    .engines = kOnVector,
    .first_generation = Generation::kV2,
    .operands = kSetRngSeedOperands,
    .traits = kDraws,
    .signature = {Engine::kVector, kSetRngSeedParameters},
    .summary = "Seed the Vector engine's generator from a [1, 1] tile of 32 bits.",
    .constraints = kSetRngSeedConstraints,
    .check = check_set_rng_seed,
};

namespace {

// -- rand_set_state
constexpr Parameter kRandSetStateParameters[] = {operand("src_seeds", 0), engine(), name()};
constexpr Constraint kRandSetStateConstraints[] = {
    {"rand_set_state.C1", "src_seeds is uint32.", "nki.isa.rand_set_state, 'Data types'"},
    {"rand_set_state.C2", "src_seeds has 6 elements per partition (GpSimd) or 24 (Vector).",
     "nki.isa.rand_set_state, 'Tile size'"},
    {"rand_set_state.C3", "The Vector engine takes a state from NeuronCore-v4 on.",
     "nki.isa.rand_set_state, 'Constraints'"},
    {"rand_set_state.C4", "src_seeds is in SBUF.", "nki.isa.rand_set_state, 'Constraints'"}};

void check_rand_set_state(const Check& c) { random_state(c, slot::rand_set_state::kSrcSeeds); }

}  // namespace

constexpr InstructionDefinition rand_set_state = {
    .opcode = Opcode::kRandSetState,
    .name = "rand_set_state",
    .engines = kOnGpSimd | kOnVector,
    .first_generation = Generation::kV3,
    .operands = kSetRngSeedOperands,
    .traits = kDraws,
    .signature = {Engine::kGpSimd, kRandSetStateParameters},
    .summary = "Load the XORWOW state of lanes 0..P-1 from uint32 [P, 6] (GpSimd) or [P, 24] (Vector).",
    .constraints = kRandSetStateConstraints,
    .check = check_rand_set_state,
};

namespace {

// -- rand_get_state
constexpr OperandSlot kRandGetStateOperands[] = {out("dst")};
constexpr Parameter kRandGetStateParameters[] = {operand("dst", 0), engine(), name()};
constexpr Constraint kRandGetStateConstraints[] = {
    {"rand_get_state.C1", "dst is uint32.", "nki.isa.rand_get_state, 'Data types'"},
    {"rand_get_state.C2", "dst has 6 elements per partition (GpSimd) or 24 (Vector).",
     "nki.isa.rand_get_state, 'Tile size'"},
    {"rand_get_state.C3", "The Vector engine gives its state from NeuronCore-v4 on.",
     "nki.isa.rand_get_state, 'Constraints'"},
    {"rand_get_state.C4", "dst is in SBUF, or in PSUM for the Vector engine of NeuronCore-v4.",
     "nki.isa.rand_get_state, 'Memory types'"}};

void check_rand_get_state(const Check& c) { random_state(c, slot::rand_get_state::kDst); }

}  // namespace

constexpr InstructionDefinition rand_get_state = {
    .opcode = Opcode::kRandGetState,
    .name = "rand_get_state",
    .engines = kOnGpSimd | kOnVector,
    .first_generation = Generation::kV3,
    .operands = kRandGetStateOperands,
    .traits = kDraws,
    .signature = {Engine::kGpSimd, kRandGetStateParameters},
    .summary = "Store the XORWOW state of lanes 0..P-1 as uint32 [P, 6] (GpSimd) or [P, 24] (Vector).",
    .constraints = kRandGetStateConstraints,
    .check = check_rand_get_state,
};

namespace {

// -- rand2
constexpr OperandSlot kRand2Operands[] = {out("dst"), in("min", kOnChip, kScalarOrVector),
                                          in("max", kOnChip, kScalarOrVector)};
constexpr Parameter kRand2Parameters[] = {operand("dst", 0), operand("min", 1), operand("max", 2), name()};
constexpr Constraint kRand2Constraints[] = {
    {"rand2.C1", "dst is a float or an integer of up to 32 bits.", "nki.isa.rand2, 'Data types'"},
    {"rand2.C2", "min and max are numbers or [P, 1] tiles.", "nki.isa.rand2, min"},
    {"rand2.C3", "min is smaller than max.", "nki.isa.rand2, 'Constraints'"}};

void check_rand2(const Check& c) {
  using namespace slot::rand2;
  c.dtype_in(1, kDst, kIntegers | kFloats);
  c.vector_of(2, kMin, kDst);
  c.vector_of(2, kMax, kDst);
  if (c.has_immediate(kMin) && c.has_immediate(kMax) && !(c.immediate(kMin) < c.immediate(kMax)))
    c.fail(3, fmt::format("min is {}, max is {}; min must be smaller", c.immediate(kMin), c.immediate(kMax)));
}

}  // namespace

constexpr InstructionDefinition rand2 = {
    .opcode = Opcode::kRand2,
    .name = "rand2",
    .engines = kOnVector,
    .first_generation = Generation::kV4,
    .operands = kRand2Operands,
    .traits = kDraws,
    .signature = {Engine::kVector, kRand2Parameters},
    .summary = "Uniform float32 values in [min, max), cast to dst (NeuronCore-v4, Vector engine).",
    .constraints = kRand2Constraints,
    .check = check_rand2,
};

}  // namespace opentrn::isa::instructions
