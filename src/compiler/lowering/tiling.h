// Sizes of tiles by a cost model: what cost/ says of transfers and products, added up for one kernel.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/generation.h"

namespace opentrn::compiler {

// How many tiles of `size` hold `n`, the last one perhaps in part.
inline int64_t tiles(int64_t n, int64_t size) { return (n + size - 1) / size; }
// Rows [begin, begin + runs * count), a run of `count` in each of so many partitions.
struct RunsOfRows {
  int64_t begin, runs, count;
};
// So many rows as runs of at most `most`, as few tiles as hold them; what is left over is a tile of its own.
std::vector<RunsOfRows> cut_into_runs(int64_t rows, int64_t most);
// A tile of `bytes` in each of `partitions`, a descriptor for each of them.
double transfer_ns(Generation generation, int64_t partitions, int64_t bytes);
// One instruction of the Tensor engine over so many columns.
double matmul_ns(Generation generation, int64_t columns, int64_t element_bytes);
// So many element-wise ops over `rows` of `columns`, a tile of 128 rows at a time, which read and write
// `tensors` of this size; a tile has at most `widest` columns.
struct RowsOfChain {
  int64_t ops, tensors, rows, columns, widest;
};
// Whether they are faster on fewer tiles of `widest` columns, although the tensors then go through memory.
bool pays_as_wide_rows(Generation generation, const RowsOfChain& chain);
// Double buffered: `load_ns` of transfers, of which the first take `first_ns` and all else waits for, beside
// `compute_ns`.
inline double streamed_ns(double first_ns, double load_ns, double compute_ns) {
  return first_ns + std::max(compute_ns, load_ns - first_ns);
}

// Products of [rows, contracted] by [contracted, columns], one after another.
struct ProductSize {
  int64_t rows, contracted, columns;
  int64_t left_element_bytes, right_element_bytes;
  int64_t batches = 1;
  bool right_waits = true;  // its first panel is on its way only once the product may begin
};

// Nanoseconds of the product with panels of so many columns on the right. `keeps_left`: the left operand is
// loaded once, else for every panel.
double product_ns(Generation generation, const ProductSize& size, int64_t panel, bool keeps_left);

}  // namespace opentrn::compiler
