// Indices out of range. The device's programs hold them to be in range; torch's CPU refuses them, and CUDA's
// kernels stop at an assertion.
#pragma once

#include <string>

#include <ATen/core/ivalue.h>

namespace opentrn::torch_device {

// Which argument of an op has indices, and of what: along a dimension, the same with negative ones counted
// from the end, a list with one for each dimension, rows of a table, elements of a flat tensor, classes.
enum class Places { kNone, kAlong, kAlongFromEnd, kListed, kRows, kFlat, kClasses };

// name: of an op, "aten::gather".
Places places_of(const std::string& name);

// arguments: of a call of such an op.
bool has_places_out_of_range(Places places, c10::ArrayRef<c10::IValue> arguments);

}  // namespace opentrn::torch_device
