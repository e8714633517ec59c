#include "isa/instructions/row.h"

#include <algorithm>

namespace opentrn::isa::instructions {

void bit_patterns(const Check& c, int number, std::initializer_list<int> slots) {
  for (int slot : slots)
    if (c.has_tile(slot) && !kBitPatterns.has(c.tile(slot).dtype())) [[unlikely]]
      c.fail(number,
             fmt::format("{} is {}; bit-vector operators take integers", c.slot_name(slot),
                         name(c.tile(slot).dtype())),
             "view the tile as an integer type");
}

void no_scatter_into_psum_on_scalar(const Check& c, int number, int dst) {
  if (c.indirect(dst, IndirectKind::kTensor) && c.tile(dst).in_psum())
    c.fail(number, "the Scalar engine cannot scatter into PSUM", "scatter into SBUF");
}

bool reduce_cmd_is(const Check& c, int slot, std::initializer_list<ReduceCmd> allowed) {
  return std::ranges::find(allowed, static_cast<ReduceCmd>(c.integer(slot))) != allowed.end();
}

}  // namespace opentrn::isa::instructions
