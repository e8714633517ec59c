// Memory layouts, as XLA writes them: "{1,0}", the dimensions from the fastest to the slowest.
//
// Arrays lie row-major on the device, and nothing else is to be had: a program that asks for another layout
// is refused by name.
#pragma once

#include <string>
#include <string_view>

#include "graph/module.h"

namespace opentrn::pjrt {

std::string row_major(int64_t rank);
// kNotModelled fault for the first argument or result whose `mhlo.layout_mode` is neither "default", "auto"
// nor row-major.
void check_layouts(const graph::Function& entry, std::string_view program);

}  // namespace opentrn::pjrt
