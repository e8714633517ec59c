// Spoilt: the results that an engine computes from unwritten memory while its other lanes compute good ones.
//
// A lane works for itself, so a kernel may compute with a tile of which it filled some rows or columns, and
// take those alone from the result. What is computed from unwritten elements is unwritten, too: whoever
// stores it where others see it, or mixes lanes, fails. See docs/decisions/0014-unwritten-memory.md.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/functional/view.h"

namespace opentrn::sim {

class Context;

class Spoilt {
 public:
  // Takes note of the unwritten elements of a source. False when they are a fault where they are read: the
  // instruction mixes lanes, or nothing good can come of it as no lane (of an element-wise instruction: no
  // element) is written.
  bool note(const Context& cx, const View& source, int slot);
  bool any() const { return !lanes_.empty(); }
  // Makes of a destination unwritten what was computed from such elements.
  void spoil(Context& cx, const View& destination) const;

 private:
  std::vector<bool> lanes_;     // by partition, with any unwritten element
  std::vector<bool> elements_;  // of all lanes, row by row, where the result has one for each; else empty
  int64_t elements_per_lane_ = 0;
  int slot_ = 0;
};

}  // namespace opentrn::sim
