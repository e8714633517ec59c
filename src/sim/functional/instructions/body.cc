#include "sim/functional/instructions/body.h"

#include <array>

namespace opentrn::sim {

namespace {

constexpr auto kBodies = [] {
  std::array<Body, isa::kOpcodeCount> found{};
#define OPENTRN_PLACE(opcode, name, number) found.at(number) = bodies::name;
  OPENTRN_INSTRUCTIONS_WITH_BODY(OPENTRN_PLACE)
#undef OPENTRN_PLACE
  return found;
}();

}  // namespace

Body body(isa::Opcode opcode) { return kBodies[static_cast<size_t>(opcode)]; }

bool is_executed(isa::Opcode opcode) {
  return body(opcode) != nullptr || isa::is_control(opcode) || isa::is_exchange(opcode);
}

}  // namespace opentrn::sim
