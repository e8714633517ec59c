// The matrix product of one Tensor Engine tile.
//
// For every (m, n):  s = 0;  for k = 0, 1, ..., K-1:  s = fma(stationary[k][m], moving[k][n], s);
// then acc[m][n] = s, or acc[m][n] + s. One rounding per fused multiply-add, strictly in the order of
// the array's rows, as partial sums flow down a systolic array. [assumed: fp32 with one rounding per
// row; the public pages say fp32 accumulation and no more]
// A result that is NaN is the quiet NaN 0x7fc00000.
//
// The same bits on every host, vector width and split into ranges; operands of bf16 go by pair_products.h
// where that is faster.
#pragma once

#include <cstddef>

#include "numerics/dtype.h"

namespace opentrn::numerics {

// A matrix in rows of fp32, or of bf16, fp16 or fp8, which are widened on the way in; other types are
// refused.
struct MatmulOperand {
  const void* data;
  size_t pitch;  // elements between rows
  DType dtype = DType::kFloat32;
  // Of `moving` only: its columns are those from first_column on, and lie in runs of `run` columns whose
  // beginnings are run_pitch elements apart, as the pixels of an image with a border do. 0: one run.
  int run = 0;
  size_t run_pitch = 0;
  int first_column = 0;

  // Where a column's element of the first row lies, in elements.
  size_t offset(int column) const {
    const int at = first_column + column;
    if (run == 0) return static_cast<size_t>(at);
    return static_cast<size_t>(at / run) * run_pitch + static_cast<size_t>(at % run);
  }
};

// `acc` must not overlap the operands.
struct MatmulTile {
  MatmulOperand stationary;  // K x M
  MatmulOperand moving;      // K x N
  float* acc;                // M x N
  int K, M, N;
  size_t acc_pitch;  // floats between rows
  bool accumulate;
};
// Whether a MatmulOperand of this type is read as it lies. Of fp8 only where products go by pairs: elsewhere
// each call widens all of it, and who makes several calls does that once before.
bool is_matmul_operand(DType dtype);
void matmul_tile(const MatmulTile& tile);
// Only rows [m_begin, m_end) of acc and columns [n_begin, n_end): for sharing a tile between threads.
void matmul_tile_range(const MatmulTile& tile, int m_begin, int m_end, int n_begin, int n_end);

void matmul_tile(const float* stationary, const float* moving, float* acc, int K, int M, int N, size_t lds,
                 size_t ldm, size_t lda, bool accumulate);

// The contract in three loops.
void matmul_tile_reference(const MatmulTile& tile);

}  // namespace opentrn::numerics
