// Products of the Tensor engine. Opcodes with their numbers, and slots; see isa/opcode.h.
#pragma once

#define OPENTRN_MATMUL_INSTRUCTIONS(X) \
  X(kNcMatmul, nc_matmul, 12)          \
  X(kNcMatmulMx, nc_matmul_mx, 13)     \
  X(kNcMatmulSparse, nc_matmul_sparse, 14)

namespace opentrn::isa::slot {

namespace nc_matmul {
enum { kDst, kStationary, kMoving };
// accumulate: -1 automatic, 0 overwrite, 1 accumulate. tile_*: 0 rows means no tiling.
enum {
  kAAccumulate,
  kAIsStationaryOneZero,
  kAIsMovingOneZero,
  kAIsTranspose,
  kATileRow,
  kATileColumn,
  kATileRows,
  kATileColumns,
  kAPerfMode
};
}  // namespace nc_matmul
namespace nc_matmul_mx {
enum { kDst, kStationary, kMoving, kStationaryScale, kMovingScale };
enum { kAAccumulate, kATileRow, kATileColumn, kATileRows, kATileColumns };
}  // namespace nc_matmul_mx
// Structured sparsity on the stationary side; `pattern` is M*100+N for M:N.
namespace nc_matmul_sparse {
enum { kDst, kStationary, kMoving, kIndices };
enum { kAAccumulate, kAPattern };
}  // namespace nc_matmul_sparse

}  // namespace opentrn::isa::slot
