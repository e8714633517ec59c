// Masks that say where values go: whether there are as many values as the mask chooses places. The device's
// programs do not ask, as their sizes do not depend on values.
#pragma once

#include <string>

#include <ATen/core/ivalue.h>

namespace opentrn::torch_device {

enum class Masked { kNot, kIndexPut, kMaskedScatter };

// name: of an op, "aten::index_put".
Masked masked_by(const std::string& name);

// arguments: of a call of such an op. c10::Error, in the CPU's words, where its values do not fit its mask.
void hold_mask(Masked masked, c10::ArrayRef<c10::IValue> arguments);

}  // namespace opentrn::torch_device
