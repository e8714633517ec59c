// What the instructions of a kind read and write, looked up once for the kind, in flat tables.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/access.h"
#include "isa/kinds.h"

namespace opentrn::backend {

// One access of the instructions of a kind: its footprint where its operand has no offset, and how an offset
// moves it.
struct KindAccess {
  Footprint footprint;
  int64_t row_elements = 0;  // of the operand's dtype; 0: the tensor has no rows
  int64_t element_bytes = 1;
  uint32_t number = 0;  // among those of all kinds
  uint8_t slot = 0;     // of its operand
  isa::MemorySpace space = isa::MemorySpace::kSbuf;
  bool reads = false;
  bool writes = false;

  struct Move {
    int32_t rows = 0;   // further down than the footprint
    int64_t bytes = 0;  // further on
  };
  Move move_by(int64_t offset) const {
    if (static_cast<uint64_t>(offset) < static_cast<uint64_t>(row_elements))
      return {0, offset * element_bytes};
    const int64_t row = row_elements > 0 ? offset / row_elements : 0;
    return {static_cast<int32_t>(row), (offset - row * row_elements) * element_bytes};
  }
};

class KindAccesses {
 public:
  // Footprints point into `footprints`, which outlives this.
  KindAccesses(const isa::Program& program, const isa::Kinds& kinds, FootprintReader& footprints);

  // Whether instructions of the kind name neither registers nor addresses known at run time. Others are for
  // AccessReader, and have no accesses here.
  bool is_plain(uint32_t kind) const { return of_kind_[kind].is_plain; }
  // Those that only read come first.
  std::span<const KindAccess> of(uint32_t kind) const {
    return {accesses_.data() + of_kind_[kind].begin, of_kind_[kind].count};
  }

 private:
  struct OfKind {
    uint32_t begin = 0, count = 0;
    bool is_plain = true;
  };
  void add(const isa::Program& program, const isa::Instruction& instruction, FootprintReader& footprints);

  std::vector<OfKind> of_kind_;
  std::vector<KindAccess> accesses_;
};

}  // namespace opentrn::backend
