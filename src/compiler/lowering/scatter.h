// What the scatter's kernel takes (scatter.cc); longer ones become a loop (passes/expand_long_scatter.cc).
#pragma once

#include <cstdint>

namespace opentrn::compiler {

// Windows that are unrolled, and elements of one.
inline constexpr int64_t kScatterWindowsMax = 4096;
inline constexpr int64_t kScatterWindowElementsMax = 8192;

}  // namespace opentrn::compiler
