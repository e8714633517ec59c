// The ABI's element types and graph's.
#pragma once

#include "graph/element_type.h"
#include "pjrt/abi.h"

namespace opentrn::pjrt {

// Fault{kNotModelled} for a type that one side lacks (tokens, 1-bit integers, tf32).
graph::ElementType element_of(abi::ElementType type);
abi::ElementType abi_type_of(graph::ElementType element);

}  // namespace opentrn::pjrt
