// isa::Origin as bytes of a .neuron file, in the encoding of isa/file_bytes.h.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "isa/origin.h"

namespace opentrn::runtime {

std::vector<std::byte> encode(const isa::Origin& origin);
// Input fault when it is malformed, or names instructions that a program of `instructions` has not.
isa::Origin decode_origin(std::span<const std::byte> bytes, size_t instructions);

}  // namespace opentrn::runtime
