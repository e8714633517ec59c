// Reduction of elements as the DMA engines do it in collectives.
//
// Floating point is read as fp32, reduced left to right in fp32, and rounded once to the element's type when
// it is written [doc: nki.isa.dma_compute adds in fp32; assumed for the other operators, and that collectives
// do as dma_compute does]. Integers are reduced in their own width and wrap [assumed: dma_compute would go
// through fp32, in which sums above 2^24 are not exact]. bool adds as "or" and multiplies as "and", as
// StableHLO's i1 does. float64, which no engine has, is reduced in float64.
#pragma once

#include <cstddef>
#include <span>

#include "collectives/request.h"

namespace opentrn::collectives {

// to = sources[0] op sources[1] op ..., `bytes` of whole elements each. `to` may be any of the sources.
void reduce_elements(Reduction reduction, DType dtype, std::span<const std::byte* const> sources,
                     std::byte* to, size_t bytes);

}  // namespace opentrn::collectives
