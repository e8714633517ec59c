#include "compiler/lowering/tiling.h"

#include <algorithm>

#include "compiler/lowering/emitter.h"

namespace opentrn::compiler {

double transfer_ns(const arch::TimingTable& timing, int64_t partitions, int64_t bytes) {
  const double engines = timing.constant("dma_engines");
  const double moved =
      static_cast<double>(partitions * bytes) / (engines * timing.constant("dma_engine_gb_s"));
  const double described =
      static_cast<double>(partitions) / engines * timing.constant("dma_descriptor_min_ns");
  return std::max(moved, described) + timing.constant("dma_transfer_extra_ns");
}

double matmul_ns(const arch::TimingTable& timing, int64_t columns, int64_t element_bytes) {
  const arch::InstructionCost& cost = timing.cost("nc_matmul");
  const bool fp32 = element_bytes == 4 && cost.has_mode("fp32");
  return cost.mode(fp32 ? "fp32" : "default").cycles({.elements = static_cast<double>(columns)}) /
         timing.clock_ghz("tensor");
}

namespace {

double blocks(int64_t n, int64_t size) { return static_cast<double>((n + size - 1) / size); }

// Of one panel of `columns` beside one block of rows.
double panel_matmul_ns(const arch::TimingTable& timing, const ProductSize& size, int64_t columns) {
  const int64_t whole = columns / kPsumBankColumns, rest = columns % kPsumBankColumns;
  double ns = static_cast<double>(whole) * matmul_ns(timing, kPsumBankColumns, size.right_element_bytes);
  if (rest > 0) ns += matmul_ns(timing, rest, size.right_element_bytes);
  // fp8 by fp8: two blocks of the contraction in one instruction.
  const bool doubles = size.left_element_bytes == 1 && size.right_element_bytes == 1 &&
                       timing.cost("nc_matmul").has_mode("double_row");
  return ns * blocks(size.contracted, doubles ? 2 * kPartitions : kPartitions);
}

}  // namespace

double product_ns(const arch::TimingTable& timing, const ProductSize& size, int64_t panel, bool keeps_left) {
  const int64_t rest = size.columns % panel;
  const double whole = static_cast<double>(size.columns / panel), panels = blocks(size.columns, panel);
  const double row_blocks = blocks(size.rows, kPartitions), k_blocks = blocks(size.contracted, kPartitions);
  const auto right_ns = [&](int64_t columns) {
    return k_blocks * transfer_ns(timing, kPartitions, columns * size.right_element_bytes);
  };
  const double left_ns =
      k_blocks * transfer_ns(timing, kPartitions, std::min(size.rows, kPartitions) * size.left_element_bytes);
  double tensor = whole * panel_matmul_ns(timing, size, panel), right = whole * right_ns(panel);
  if (rest > 0) tensor += panel_matmul_ns(timing, size, rest), right += right_ns(rest);
  tensor *= row_blocks;
  const double left = row_blocks * left_ns * (keeps_left ? 1 : panels);
  const double first = left_ns + (size.right_waits ? right_ns(std::min(panel, size.columns)) : 0);
  const double batches = static_cast<double>(size.batches);
  return streamed_ns(first, batches * (right + left), batches * tensor);
}

}  // namespace opentrn::compiler
