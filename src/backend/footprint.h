// Which bytes an operand touches, as seen by the allocator and the dependency analysis.
//
// A footprint is a rectangle -- rows [row_begin, row_end) and, in each row, bytes
// [byte_begin, byte_end) -- plus the steps inside it. Rows are partitions on chip; an HBM tensor is one
// row of bytes. The rectangle is a bound: `dense` says that every byte of it is touched. Addresses only
// known at run time widen it to what they can reach, the whole tensor if nothing bounds them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "isa/program.h"

namespace opentrn::backend {

// Steps of a pattern along a row, in elements, largest first; innermost steps that only continue a
// contiguous run are folded into it.
struct Steps {
  struct Step {
    int64_t elements = 0;  // > 0
    int64_t count = 0;     // > 1
  };
  std::array<Step, isa::kMaxRank> steps{};
  uint8_t count = 0;
  int64_t run_elements = 1;  // contiguous elements at each position
};

struct Footprint {
  int32_t row_begin = 0;
  int32_t row_end = 0;
  int64_t byte_begin = 0;
  int64_t byte_end = 0;
  const Steps* steps = nullptr;  // null: nothing is known of the inside
  int32_t element_bytes = 1;
  bool dense = false;
  // What a register moves begins in this rectangle, and ends as many bytes further on as it is moved by: what
  // the same number moves lies as it would without it. `moved_by` names that number; 0: it has no name, or
  // there is none. `unmoved_end` is 0 where more than a register's number is not known.
  uint64_t moved_by = 0;
  int64_t unmoved_end = 0;
  const Steps* unmoved_steps = nullptr;
  bool unmoved_dense = false;

  Footprint unmoved() const {
    Footprint f = *this;
    f.moved_by = 0;
    f.byte_end = unmoved_end;
    f.steps = unmoved_steps;
    f.dense = unmoved_dense;
    return f;
  }

  // Nothing inside the rectangle is known to be left out: may_overlap() takes all of it for touched.
  bool solid() const { return moved_by == 0 && (dense || steps == nullptr); }

  // Whatever may overlap `other` may overlap this too.
  bool covers(const Footprint& other) const {
    if (moved_by != 0) return moved_by == other.moved_by && unmoved().covers(other.unmoved());
    const bool same = steps != nullptr && steps == other.steps && element_bytes == other.element_bytes &&
                      byte_begin == other.byte_begin;
    return row_begin <= other.row_begin && other.row_end <= row_end &&
           (same || (solid() && byte_begin <= other.byte_begin && other.byte_end <= byte_end));
  }
};

// False only when no byte can be common. Exact for equal rectangles of one row pitch, such as column
// tiles of a matrix; otherwise it may say true for interleaved patterns that never meet.
bool may_overlap(const Footprint& a, const Footprint& b);

// Bytes of operands of a finished program. Footprints point into it, so it must outlive them.
class FootprintReader {
 public:
  explicit FootprintReader(const isa::Program& program)
      : program_(program), on_chip_(program.pattern_count()), flat_(program.pattern_count()) {}
  // Rows and bytes are relative to the tensor.
  Footprint read(const isa::Operand& operand);

 private:
  struct Shape {
    bool known = false;
    bool dense = false;                              // along a row
    int64_t row_min = 0, row_max = 0, row_step = 0;  // elements; on chip only
    int64_t free_min = 0, free_max = 0;
    Steps steps;
  };
  const Shape& shape_of(isa::PatternId pattern, bool on_chip);
  void widen(const isa::Operand& operand, Footprint& footprint) const;

  const isa::Program& program_;
  std::vector<Shape> on_chip_, flat_;  // by PatternId
};

}  // namespace opentrn::backend
