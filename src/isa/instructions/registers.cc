// Registers of the sequencers.
#include "isa/instructions/row.h"

namespace opentrn::isa::instructions {

namespace {

// -- register_load
constexpr OperandSlot kRegisterLoadOperands[] = {out("dst", 0, kAcceptsRegister),
                                                 in("src", kOnChip | kInHbm)};
constexpr Constraint kRegisterLoadConstraints[] = {
    {"register_load.C1", "src is one element of up to 32 bits.", "nki.isa.register_load, src"}};

void check_register_load(const Check& c) {
  const Tile& src = c.tile(slot::register_load::kSrc);
  if (src.total() != 1 || size_bytes(src.dtype()) > 4)
    c.fail(1, fmt::format("src has {} elements of {}; a register takes one of up to 32 bits", src.total(),
                          name(src.dtype())));
}

}  // namespace

constexpr InstructionDefinition register_load = {
    .opcode = Opcode::kRegisterLoad,
    .name = "register_load",
    .engines = kNoEngine,
    .first_generation = Generation::kV2,
    .operands = kRegisterLoadOperands,
    .traits = kEffects,
    .constraints = kRegisterLoadConstraints,
    .check = check_register_load,
};

namespace {

// -- register_move
constexpr OperandSlot kRegisterMoveOperands[] = {out("dst", 0, kAcceptsRegister),
                                                 in("src", 0, kAcceptsRegister | kAcceptsImmediate)};

}  // namespace

constexpr InstructionDefinition register_move = {
    .opcode = Opcode::kRegisterMove,
    .name = "register_move",
    .engines = kNoEngine,
    .first_generation = Generation::kV2,
    .operands = kRegisterMoveOperands,
    .traits = kEffects,
};

namespace {

// -- register_store
constexpr OperandSlot kRegisterStoreOperands[] = {out("dst", kOnChip | kInHbm),
                                                  in("src", 0, kAcceptsRegister)};
constexpr Constraint kRegisterStoreConstraints[] = {
    {"register_store.C1", "dst is one element of up to 32 bits.", "nki.isa.register_store, dst"}};

void check_register_store(const Check& c) {
  const Tile& dst = c.tile(slot::register_store::kDst);
  if (dst.total() != 1 || size_bytes(dst.dtype()) > 4)
    c.fail(1, fmt::format("dst has {} elements of {}; a register gives one of up to 32 bits", dst.total(),
                          name(dst.dtype())));
}

}  // namespace

constexpr InstructionDefinition register_store = {
    .opcode = Opcode::kRegisterStore,
    .name = "register_store",
    .engines = kNoEngine,
    .first_generation = Generation::kV2,
    .operands = kRegisterStoreOperands,
    .traits = kEffects,
    .constraints = kRegisterStoreConstraints,
    .check = check_register_store,
};

namespace {

// -- register_alu
constexpr OperandSlot kRegisterAluOperands[] = {out("dst", 0, kAcceptsRegister),
                                                in("a", 0, kAcceptsRegister | kAcceptsImmediate),
                                                in("b", 0, kAcceptsRegister | kAcceptsImmediate)};
constexpr AttributeSlot kRegisterAluAttributes[] = {{"op", K::kAluOp}};

}  // namespace

constexpr InstructionDefinition register_alu = {
    .opcode = Opcode::kRegisterAlu,
    .name = "register_alu",
    .engines = kNoEngine,
    .first_generation = Generation::kV2,
    .operands = kRegisterAluOperands,
    .attributes = kRegisterAluAttributes,
    .traits = kEffects,
};

}  // namespace opentrn::isa::instructions
