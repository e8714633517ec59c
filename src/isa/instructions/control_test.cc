// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void loop_begin(Draft& d) {
  d.operands = {Operand::reg(d.program.add_register()), Operand::imm(0), Operand::imm(4)};
  d.attributes = {word(1), word(1)};
}

void loop_end(Draft& d) {
  d.operands = {Operand::reg(d.program.add_register())};
  d.attributes = {word(1), word(0)};
}

void while_begin(Draft& d) {
  d.operands = {Operand::reg(d.program.add_register())};
  d.attributes = {word(1)};
}

void while_end(Draft& d) { while_begin(d); }

}  // namespace drafts

std::vector<Case> control_cases() {
  return {
      {"loop_begin.C1", Opcode::kLoopBegin,
       [](Draft& d) {
         using namespace slot::loop;
         d.set(kAStep, 0);
       }},
  };
}

}  // namespace opentrn::isa
