// What an instruction touches: the rectangles of its operands, and the state of the engines.
//
// Bounds only, from the Program alone: an access that the simulator cannot bound covers its whole tensor, and
// an instruction that it cannot read at all (a malformed one, user code, a print) is marked `alone`.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/program.h"
#include "isa/traits.h"

namespace opentrn::sim {

struct Access {
  isa::TensorId tensor = 0;
  bool writes = false;
  int64_t row_begin = 0, row_end = 0;    // partitions; one row for HBM
  int64_t byte_begin = 0, byte_end = 0;  // of a row

  bool overlaps(const Access& other) const {
    return row_begin < other.row_end && other.row_begin < row_end && byte_begin < other.byte_end &&
           other.byte_begin < byte_end;
  }
  bool covers(const Access& other) const {
    return row_begin <= other.row_begin && other.row_end <= row_end && byte_begin <= other.byte_begin &&
           other.byte_end <= byte_end;
  }
};

using enum isa::EngineStatePart;
using isa::engine_state_used;
using isa::kEngineStateParts;

struct AccessList {
  std::vector<Access> accesses;
  uint8_t engine_state = 0;  // isa::EngineStatePart, all read and written
  bool alone = false;
  int64_t work = 0;  // rough time, in element operations
};

// Fills `list`, whose memory is reused.
void read_accesses(const isa::Program& program, const isa::Instruction& in, AccessList& list);

}  // namespace opentrn::sim
