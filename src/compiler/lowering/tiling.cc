#include "compiler/lowering/tiling.h"

#include <algorithm>

#include "compiler/lowering/emitter.h"
#include "cost/usual.h"

namespace opentrn::compiler {

using cost::TensorMode;

double transfer_ns(Generation generation, int64_t partitions, int64_t bytes) {
  return cost::default_costs(generation).usual.transfer_ns(partitions, bytes);
}

double matmul_ns(Generation generation, int64_t columns, int64_t element_bytes) {
  const TensorMode mode = element_bytes == 4 ? TensorMode::kFp32 : TensorMode::kDefault;
  return cost::default_costs(generation).usual.product_ns(mode, columns);
}

namespace {

double blocks(int64_t n, int64_t size) { return static_cast<double>((n + size - 1) / size); }

// Of one panel of `columns` beside one block of rows.
double panel_matmul_ns(Generation generation, const ProductSize& size, int64_t columns) {
  const int64_t whole = columns / kPsumBankColumns, rest = columns % kPsumBankColumns;
  double ns = static_cast<double>(whole) * matmul_ns(generation, kPsumBankColumns, size.right_element_bytes);
  if (rest > 0) ns += matmul_ns(generation, rest, size.right_element_bytes);
  // fp8 by fp8: two blocks of the contraction in one instruction.
  const bool doubles = size.left_element_bytes == 1 && size.right_element_bytes == 1 &&
                       cost::default_costs(generation).instructions.has_product(TensorMode::kDoubleRow);
  return ns * blocks(size.contracted, doubles ? 2 * kPartitions : kPartitions);
}

}  // namespace

double product_ns(Generation generation, const ProductSize& size, int64_t panel, bool keeps_left) {
  const int64_t rest = size.columns % panel;
  const double whole = static_cast<double>(size.columns / panel), panels = blocks(size.columns, panel);
  const double row_blocks = blocks(size.rows, kPartitions), k_blocks = blocks(size.contracted, kPartitions);
  const auto right_ns = [&](int64_t columns) {
    return k_blocks * transfer_ns(generation, kPartitions, columns * size.right_element_bytes);
  };
  const double left_ns = k_blocks * transfer_ns(generation, kPartitions,
                                                std::min(size.rows, kPartitions) * size.left_element_bytes);
  double tensor = whole * panel_matmul_ns(generation, size, panel), right = whole * right_ns(panel);
  if (rest > 0) tensor += panel_matmul_ns(generation, size, rest), right += right_ns(rest);
  tensor *= row_blocks;
  const double left = row_blocks * left_ns * (keeps_left ? 1 : panels);
  const double first = left_ns + (size.right_waits ? right_ns(std::min(panel, size.columns)) : 0);
  const double batches = static_cast<double>(size.batches);
  return streamed_ns(first, batches * (right + left), batches * tensor);
}

bool pays_as_wide_rows(int64_t ops, int64_t tensors, int64_t rows, int64_t columns, int64_t widest) {
  // What an instruction takes whatever its columns are (dropout of [2048, 128], 2,120 instructions, takes 175
  // us longer than of [128, 2048], 140 of them); a transfer, out and in, and an element of it.
  constexpr double kInstructionNs = 85, kTransferNs = 4000, kElementNs = 0.03;
  const int64_t now = tiles(rows, kPartitions) * tiles(columns, widest),
                wide = tiles(rows * columns, kPartitions * widest);
  const double saved = kInstructionNs * static_cast<double>(ops * (now - wide));
  const double moved =
      static_cast<double>(tensors) * (kTransferNs + kElementNs * static_cast<double>(rows * columns));
  return saved > moved;
}

}  // namespace opentrn::compiler
