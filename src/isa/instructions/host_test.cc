// A legal instruction of every opcode of its family, and a case for each of their rules.
#include "isa/constraints_cases.h"

namespace opentrn::isa {

namespace drafts {

void custom_op(Draft& d) {
  d.same(2);
  d.attributes = {word(0), word(1), word_real(-1), word_real(-1)};
}

void device_print(Draft& d) {
  d.operands = {d.sbuf(kF32, {64, 16})};
  d.attributes = {word(0)};
}

}  // namespace drafts

}  // namespace opentrn::isa
