// What a search may vary about a lowering (compiler/search.h).
#pragma once

#include <cstdint>

namespace opentrn::compiler {

struct Choices {
  double kept_share = 1.0;          // of the room that kernels leave in SBUF, for values that stay there
  bool arranged = true;             // values are kept as products read them (lowering/arrangements.cc)
  int64_t panel_bytes = 64 * 1024;  // of a partition, for what a product streams
};

}  // namespace opentrn::compiler
