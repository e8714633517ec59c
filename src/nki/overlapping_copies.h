// Element-wise instructions that write an element of a tile before they read it as a source.
//
// `tensor_copy(dst=t[:, 1:], src=t[:, :-1])` moves a tile by one element. Here every operand is read before
// the destination is written. An engine takes elements one after another and has several under way; what it
// makes of such a copy, no public document says. AWS's simulator reads everything first, as here.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "base/fault.h"

namespace opentrn::nki {

class Machine;

// Fault{kUnspecified} "nki.overlap" of the first such instruction, with its line; it is returned and not
// thrown. Looked at are accesses on chip without an index of the run. A source that lies behind the
// destination, as in tensor_copy(dst=t[:, :-1], src=t[:, 1:]), is read before it is written in any order of
// an engine; of a DMA, which has no order, it is found too.
std::optional<Fault> find_overlapping_copy(std::span<const std::shared_ptr<Machine>> machines);

}  // namespace opentrn::nki
