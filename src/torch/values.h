// Calls that torch refuses for the values of their arguments: a mask that chooses other places than there are
// values for, weights that are none. The device's programs do not ask.
#pragma once

#include <string>

#include <ATen/core/ivalue.h>

namespace opentrn::torch_device {

enum class Asks {
  kNothing,
  kIndexPut,
  kMaskedScatter,
  kMultinomial,
  kIndexSelect,
  kRandom,
  kHistogram,
  kPut
};

// name: of an op, "aten::index_put".
Asks asks_of(const std::string& name);

// arguments: of a call of such an op. c10::Error, in the CPU's words, where its values cannot be.
void hold_values(Asks asks, c10::ArrayRef<c10::IValue> arguments);

}  // namespace opentrn::torch_device
