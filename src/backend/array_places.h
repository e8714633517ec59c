// What matrix products ask of the partitions that their operands get.
//
// Row p of the systolic array is fed by partition p of SBUF, column c writes partition c of PSUM
// (isa/array_placement.h). So the stationary and the moving matrix of a product start on one partition, and
// the operands of a product in a tile of the array lie on the tile's rows and columns. Products that have
// operands in common tie the places of their tensors together: a place chosen for one leaves fewer for the
// others.
#pragma once

#include <cstdint>
#include <vector>

#include "isa/array_placement.h"
#include "isa/program.h"

namespace opentrn::backend {

// What fills more than half of the partitions has one place, whatever products ask for.
class FixedPlaces {
 public:
  explicit FixedPlaces(const isa::Program& program);
  // Whether the access begins in the first row of such a tensor.
  bool holds(const isa::Operand& operand) const { return holds(operand, size_bytes(operand.dtype)); }
  bool holds(const isa::Operand& operand, int64_t element_bytes) const {
    return operand.offset >= 0 && operand.offset * element_bytes < row_bytes_[operand.tensor];
  }

 private:
  std::vector<int64_t> row_bytes_;  // by TensorId; 0: it has several places
};

// Whether the product uses all of the array, so that it asks for no places where FixedPlaces holds both of
// its sources.
bool uses_whole_array(const isa::Program& program, const isa::Instruction& product);

class ArrayPlaces {
 public:
  // kProgram (nc_matmul.C20 to C22 and those of nc_matmul_mx) where two products want one tensor in two
  // places. `moves_rows`: whoever compiles the program moves rows between them, so nothing is asked of these
  // products.
  ArrayPlaces(const isa::Program& program, bool moves_rows);

  // The quadrants on which the tensor can start now.
  isa::QuadrantMask starts(isa::TensorId id);
  // The tensor starts on this quadrant: the ones tied to it have fewer places from now on.
  void choose(isa::TensorId id, int quadrant);
  // Forgets what was chosen.
  void restart() { places_ = possible_; }

 private:
  // The set of tensors tied to one another that a tensor is in. Its place is that of the set plus `shift`
  // quadrants. The places of a set are -3 to 3 and more, counted from kOrigin.
  struct Member {
    isa::TensorId set;
    int shift;
  };
  using Places = uint16_t;
  static constexpr int kOrigin = 3;

  Member member(isa::TensorId id);
  static Places widened(isa::QuadrantMask starts, int shift);
  // False where no place would be left.
  bool limit(isa::TensorId id, isa::QuadrantMask starts);
  bool tie(isa::TensorId a, int64_t a_offset, isa::TensorId b, int64_t b_offset);

  std::vector<Member> parents_;   // by TensorId: towards the set's first tensor
  std::vector<Places> possible_;  // of sets, by their first tensor
  std::vector<Places> places_;    // the same after choose()
};

}  // namespace opentrn::backend
