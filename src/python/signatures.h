// The Python signature of every nki.isa call: parameter order and defaults (NKI 0.6.0 stub), and
// which slot of the instruction each parameter fills. The kinds of the slots come from
// isa/definitions.h, so this table holds only what Python adds.
#pragma once

#include <span>
#include <string_view>

#include "isa/definitions.h"
#include "numerics/ops.h"

namespace opentrn::python {

enum class Target : uint8_t {
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
  kIgnored,       // accepted for old kernels; has no effect on values or time
};

struct Parameter {
  std::string_view name;
  Target target;
  int slot = 0;
  bool required = false;
  bool default_is_none = true;  // as Python shows it
  double default_value = 0;     // immediate of an operand, or the attribute's number
};

struct Signature {
  isa::Opcode opcode;
  isa::Engine default_engine;
  std::span<const Parameter> parameters;
};

std::span<const Signature> signatures();

}  // namespace opentrn::python
