// Views of NKI 0.1: what an index, a part, another shape or another dtype make of one.
//
// A view is for every remaining dimension a stride and a count over the flat memory of one block, in which
// one partition is as long as its free elements, which is what an access pattern of the machine takes. Every
// index that a kernel can write ends in that form or is refused. In front of the partition a tensor has a
// grid of blocks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "isa/program.h"
#include "nki/index_expression.h"

namespace opentrn::nki {

// A dimension of the grid of blocks: those that remain, or the one that is chosen.
struct TileBlock {
  IndexRange range;
  bool is_open = false;

  bool operator==(const TileBlock&) const = default;
};

// An index that leaves its dimension unless a mask narrows it: constant + sum of step * i, in 0 .. size - 1.
struct IndexLimit {
  int64_t constant = 0;
  std::vector<int64_t> steps;  // of each dimension of the view
  int64_t size = 0;

  bool operator==(const IndexLimit&) const = default;
};

// Says in words which view or tensor is meant, for a message.
using Describe = std::function<std::string()>;

struct TileView {
  bool on_chip = false;
  std::vector<TileBlock> blocks;
  int64_t offset = 0;  // elements
  std::vector<isa::Dim> dims;
  std::vector<IndexLimit> limits;

  size_t open_blocks() const;
  Shape shape() const;
  int64_t size() const;
  bool operator==(const TileView&) const = default;
};

// Fault "nki.index_bounds" where a limit is passed. `tensor` says whose dimension it is.
void check_limits(const TileView& view, const Describe& tensor);

// -- indices. Faults: "nki.index", "nki.index_bounds", "nki.view".

struct NewAxis {};
struct IndexSlice {
  std::optional<int64_t> start, stop, step;
};
// An IndexRange is nl.ds().
using IndexKey = std::variant<int64_t, IndexSlice, IndexRange, NewAxis>;

// The elements that a slice takes of `size`; Fault for none.
IndexRange range_of(const IndexSlice& slice, int64_t size, const Describe& view);

TileView indexed(const TileView& base, std::span<const IndexKey> keys, const Describe& view);

// An expression for each dimension, broadcast to `shape`; null for one that a tile indexes when the program
// runs.
TileView indexed(const TileView& base, std::span<const IndexExpression* const> keys, const Shape& shape,
                 const Describe& view);

// -- other views of the same elements. Faults: "nki.shape", "nki.view".

// The part in a box, without a check of what its limits leave.
TileView part_of(const TileView& view, const IndexBox& box);
TileView permuted(const TileView& view, std::span<const int64_t> axes);
// Dimensions of size one repeated with a stride of 0; the rank may grow behind the partition.
TileView broadcast(const TileView& view, const Shape& shape, const Describe& text);
// -1 stands for the size that is left. On chip the partition stays.
TileView reshaped(const TileView& view, Shape sizes, const Describe& text);
TileView with_dims_of_one(const TileView& view, std::span<const int64_t> axes);
// The same bytes in elements of another size: the last dimension is scaled. `dtype` names the new one.
TileView reinterpreted(const TileView& view, int64_t old_bytes, int64_t new_bytes, const std::string& dtype,
                       const Describe& text);

}  // namespace opentrn::nki
