// What of a kernel's result nothing ever wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fault.h"
#include "nki/tensor_view.h"

namespace opentrn::nki {

struct UnwrittenElements {
  int64_t count = 0;
  std::vector<int64_t> first;  // index in the view, row-major
  SourceLocation made;         // where the kernel made the tensor; not known() for an array of the host
  std::string moved;           // the move that brought unwritten elements here, in words; or empty
};

// Nothing when every element was written, which a count tells. Executes what is pending. `view` has no index
// of the run.
std::optional<UnwrittenElements> unwritten_elements(const TensorView& view);

}  // namespace opentrn::nki
