#pragma once

#include <cstdint>

namespace opentrn::compiler {

// Which fp32 operations are computed in a narrower type: auto_cast.cc.
enum class AutoCastMode : uint8_t { kNone, kMatmult, kAll };

}  // namespace opentrn::compiler
