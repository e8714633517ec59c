#include "compiler/lowering/tiling.h"

#include <algorithm>

#include "compiler/lowering/emitter.h"
#include "cost/usual.h"

namespace opentrn::compiler {

using cost::TensorMode;

// A number of partitions that divides all rows, where one is near, leaves nothing over.
std::vector<RunsOfRows> cut_into_runs(int64_t rows, int64_t most) {
  int64_t partitions = kPartitions;
  for (int64_t n = kPartitions; 4 * n >= 3 * kPartitions; --n)
    if (rows % n == 0) {
      partitions = n;
      break;
    }
  const int64_t each = std::max<int64_t>(1, rows / partitions), count = tiles(each, tiles(each, most));
  std::vector<RunsOfRows> runs;
  for (int64_t begin = 0; begin < rows;) {
    const int64_t here = std::min(count, (rows - begin) / partitions);
    runs.push_back({begin, here > 0 ? partitions : rows - begin, std::max<int64_t>(1, here)});
    begin += runs.back().runs * runs.back().count;
  }
  return runs;
}

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

bool pays_as_wide_rows(Generation generation, const RowsOfChain& chain) {
  const cost::UsualCosts& costs = cost::default_costs(generation).usual;
  const int64_t elements = chain.rows * chain.columns;
  const int64_t now = tiles(chain.rows, kPartitions) * tiles(chain.columns, chain.widest),
                wide = tiles(elements, kPartitions * chain.widest);
  // What an instruction takes whatever its columns are.
  const double fixed_ns = costs.busy_ns(isa::Opcode::kTensorTensor, isa::Engine::kVector, 0);
  const double saved_ns = fixed_ns * static_cast<double>(chain.ops * (now - wide));
  // Each tensor goes out and in again; of the two transfers one is hidden by the ops of another tile.
  const int64_t bytes_a_partition = 4 * tiles(elements, kPartitions);
  const double latency_ns = costs.dma_latency_ns();
  const double moved_ns = latency_ns + costs.transfer_ns(kPartitions, bytes_a_partition) + latency_ns;
  return saved_ns > moved_ns * static_cast<double>(chain.tensors);
}

}  // namespace opentrn::compiler
