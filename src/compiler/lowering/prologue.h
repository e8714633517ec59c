// Element-wise ops between memory and an operand of a product or a convolution: computed on the operand's
// tiles as they are loaded (Group::prologues of plan.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "compiler/lowering/emitter.h"
#include "compiler/lowering/matrix.h"
#include "graph/module.h"

namespace opentrn::compiler {

class Lowering;

// A rectangle of a matrix.
struct Rectangle {
  int64_t row_begin = 0, rows = 0, column_begin = 0, columns = 0;
};

class Prologue {
 public:
  // `ops` make what lies behind this operand of the consumer.
  Prologue(Lowering& lowering, std::span<const graph::OpId> ops, graph::OpId consumer, size_t operand);

  // What the ops read of memory, each with the operand's dimensions; broadcasts are steps of 0.
  const std::vector<View>& views() const { return views_; }
  // The first of them that has every element.
  size_t main() const { return main_; }
  // The operand as it lies in memory, as its readers would see it: the elements are main()'s.
  const View& shape() const { return views_[main_]; }
  // Every one has every element: an instruction may take any of them.
  bool all_full() const;

  // The ops on a rectangle of matrices that show views() in order; into: where it should go, if somewhere.
  Tile compute(std::span<const Matrix> inputs, const Rectangle& at,
               const std::optional<Tile>& into = std::nullopt);
  // The ops on tiles of all of views().
  Tile compute(std::span<const Tile> inputs, const std::optional<Tile>& into = std::nullopt);
  // Other matrices follow: tiles of rows that are equal, and of single columns, are loaded again.
  void forget() { held_.clear(); }

 private:
  struct Loaded {
    Tile tile;
    bool column;  // one number per row
  };
  Loaded load(size_t input, const Matrix& matrix, const Rectangle& at);
  Tile run(std::span<const Loaded> inputs, int64_t rows, int64_t columns, const std::optional<Tile>& into);

  Lowering& lowering_;
  std::vector<graph::OpId> ops_;
  graph::OpId consumer_;
  std::vector<graph::ValueId> values_;
  std::vector<View> views_;
  size_t main_ = 0;
  std::map<std::tuple<size_t, int64_t, int64_t>, Loaded> held_;  // by input, row and column
};

}  // namespace opentrn::compiler
