// The Python signature of an nki.isa call: the order of its parameters and their defaults (NKI 0.6.0 stub),
// and which slot of the instruction each parameter fills. What kind of value a slot takes stands with the
// slot.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "isa/memory.h"

namespace opentrn::isa {

enum class ParameterRole : uint8_t {
  kOperand,    // fills an operand slot
  kAttribute,  // fills an attribute slot
  kEngine,
  kName,
  kTilePosition,  // (row, column) into two attribute slots, the first given
  kAxis,          // reduced axes: becomes a count of trailing dimensions
  kAxes,          // transpose axes: None means reversed for rank <= 3
  kSources,       // a list of tensors into the repeating operand slot
  kScales,        // dma_compute: None or all ones
  kResultType,    // the type of dst, said again: another one is a fault
  kGpSimdDma,     // sendrecv: True is dma_engine=gpsimd_dma, as NKI 0.2 said it
  kIgnored,       // accepted; has no effect on values
};

struct Parameter {
  std::string_view name;
  ParameterRole role;
  int slot = 0;
  bool required = false;
  bool default_is_none = true;  // as Python shows it
  double default_value = 0;     // immediate of an operand, or the attribute's number
  bool untimed = false;  // given, it has no effect on the time where the device's may differ: told once
};

struct Signature {
  Engine default_engine = Engine::kUnknown;
  std::span<const Parameter> parameters = {};  // empty: no Python function makes the instruction
  bool in_nki = true;                          // false: the function is opentrn.custom_op's, nki.isa has none
};

}  // namespace opentrn::isa
