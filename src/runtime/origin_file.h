// isa::Origin as bytes of a .neuron file (CBOR).
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "isa/origin.h"

namespace opentrn::runtime {

std::vector<uint8_t> encode(const isa::Origin& origin);
// Input fault when it is malformed, or names instructions that a program of `instructions` has not.
isa::Origin decode_origin(std::string_view bytes, size_t instructions);

}  // namespace opentrn::runtime
