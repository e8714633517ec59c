// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void register_load(Draft& d) { d.operands = {Operand::reg(d.program.add_register()), d.sbuf(kI32, {1, 1})}; }

void register_move(Draft& d) { d.operands = {Operand::reg(d.program.add_register()), Operand::imm(3)}; }

void register_store(Draft& d) { d.operands = {d.sbuf(kI32, {1, 1}), Operand::reg(d.program.add_register())}; }

void register_alu(Draft& d) {
  d.operands = {Operand::reg(d.program.add_register()), Operand::imm(3), Operand::imm(4)};
  d.attributes = {word(AluOp::kAdd)};
}

}  // namespace drafts

std::vector<Case> registers_cases() {
  return {
      {"register_load.C1", Opcode::kRegisterLoad,
       [](Draft& d) {
         using namespace slot::register_load;
         d.shape(kSrc, {1, 2});
       }},
      {"register_store.C1", Opcode::kRegisterStore,
       [](Draft& d) {
         using namespace slot::register_store;
         d.shape(kDst, {1, 2});
       }},
  };
}

}  // namespace opentrn::isa
