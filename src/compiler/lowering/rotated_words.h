// Rotations of words: (x << n) | (x >> 32 - n). Shifts and operators on bits are the Vector engine's alone,
// three passes over the words. The Scalar engine knows numbers only, exactly up to 24 bits, and takes what is
// one inside a word; where it writes bytes or halves of the result nothing is left to be joined:
//
//   n = 16        the halves change places
//   n = 8, 24     a byte goes from one end of the word to the other
//   n < 16        the upper half over 2^(16 - n), cut to a whole number, is what comes in from the right
//   n > 16        the same by n - 16, with the halves changing places
#pragma once

#include <map>
#include <optional>

#include "compiler/lowering/emitter.h"
#include "compiler/lowering/plan.h"
#include "compiler/lowering/step_rules.h"
#include "graph/module.h"

namespace opentrn::compiler {

struct Rotation {
  graph::ValueId word;
  int left;  // in (0, 32)
};

// The rotation that an or of two shifts of one word is.
std::optional<Rotation> rotation_of(const graph::Function& function, const graph::Op& op);

// Writes them, of one kernel.
class RotatedWords {
 public:
  explicit RotatedWords(Emitter& emitter) : emitter_(emitter) {}
  // dst is not the word's place.
  void emit(const Tile& dst, const Tile& word, int left);

 private:
  void emit_cut(const Tile& dst, const Tile& half, int drop);

  Emitter& emitter_;
  std::map<double, Tile> biases_;
};

}  // namespace opentrn::compiler
