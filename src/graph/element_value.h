// One element of a Literal as a number, and back: for the text form, for shape arithmetic and for
// constant folding. Slow and exact; complex elements go by their parts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "graph/element_type.h"

namespace opentrn::graph {

// `element` is i1, an integer or index. Reads the storage_bytes() of an element; unsigned 64-bit values
// above INT64_MAX come out as their bit pattern.
int64_t load_integer(ElementType element, const std::byte* bytes);
// Keeps the low bits, sign- or zero-extended to the storage bytes.
void store_integer(ElementType element, int64_t value, std::byte* bytes);

// `element` is a float.
double load_real(ElementType element, const std::byte* bytes);
// Rounds once to nearest even; what is too large becomes infinity, NaN where there is no infinity, the
// largest value where there is neither. FNUZ formats have no negative zero.
void store_real(ElementType element, double value, std::byte* bytes);

// The bits of an element of at most 64 bits, zero-extended, and back.
uint64_t load_bits(ElementType element, const std::byte* bytes);
void store_bits(ElementType element, uint64_t bits, std::byte* bytes);

}  // namespace opentrn::graph
