// The dimensions of an access that matter to where its elements lie.
#pragma once

#include <vector>

#include "isa/program.h"

namespace opentrn::sim {

// Dimensions from `first` on of more than one element, neighbours without gaps as one.
inline std::vector<isa::Dim> merged_dims(const isa::Pattern& pattern, int first = 0) {
  std::vector<isa::Dim> dims;
  for (int d = first; d < pattern.rank; ++d) {
    const isa::Dim& dim = pattern.dims[static_cast<size_t>(d)];
    if (dim.count == 1) continue;
    if (!dims.empty() && dims.back().step == dim.step * dim.count)
      dims.back() = {dim.step, dims.back().count * dim.count};
    else
      dims.push_back(dim);
  }
  return dims;
}

}  // namespace opentrn::sim
