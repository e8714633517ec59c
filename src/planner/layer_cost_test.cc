#include "planner/layer_cost.h"

#include <gtest/gtest.h>

#include "planner/hf_config.h"

namespace opentrn::planner {
namespace {

const Machine& a100() {
  static const Machine machine = machine_of(arch::default_tables(), "p4d.24xlarge", 1);
  return machine;
}

TEST(LayerCost, NoProductBeatsTheChip) {
  const Rates& rates = a100().rates;
  for (const double m : {64.0, 100.0, 2048.0, 4000.0, 65536.0})
    for (const double n : {64.0, 1000.0, 12288.0})
      for (const double k : {64.0, 1024.0, 8192.0}) {
        const double flops = 2 * m * n * k;
        EXPECT_GE(product_s(rates, Precision::kBf16, m, n, k), flops / rates.matmul[0]);
        EXPECT_GE(product_s(rates, Precision::kBf16, m, n, k),
                  2 * (m * k + k * n + m * n) / rates.memory_bytes_s);
      }
}

TEST(LayerCost, LargeProductsReachTheMeasuredMaximum) {
  const Rates& rates = a100().rates;
  const double n = 16384, flops = 2 * n * n * n;
  EXPECT_LT(product_s(rates, Precision::kBf16, n, n, n), 1.06 * flops / rates.matmul[0]);
}

TEST(LayerCost, TilesAndWavesCostWholeOnes) {
  const Rates& rates = a100().rates;
  // 108 tiles of 256 x 128 are one wave of 108 multiprocessors; one more column of tiles begins a second.
  const double one = product_s(rates, Precision::kBf16, 256 * 12, 128 * 9, 16384);
  const double two = product_s(rates, Precision::kBf16, 256 * 12, 128 * 10, 16384);
  EXPECT_GT(two, 1.3 * one);
  // A width that is no multiple of 64 loads shorter lines.
  EXPECT_GT(product_s(rates, Precision::kBf16, 8192, 1800, 14400),
            1.3 * product_s(rates, Precision::kBf16, 8192, 1792, 14400));
}

TEST(LayerCost, MoreWorkTakesLonger) {
  Job job{.model = model_named(arch::default_tables(), "Llama-2-7B"), .seq = 4096, .global_batch = 8};
  const Stack stack = stack_of(arch::default_tables(), "megatron-core");
  Layout layout{.tp = 2};
  const BlockTime one = block_s(job, a100(), stack, layout, false);
  layout.micro_batch = 2;
  EXPECT_GT(block_s(job, a100(), stack, layout, false).forward, 1.5 * one.forward);
  EXPECT_GT(one.backward, 1.5 * one.forward);
  job.seq = 8192;
  layout.micro_batch = 1;
  EXPECT_GT(block_s(job, a100(), stack, layout, false).attention_inside, 3 * one.attention_inside);
}

// Queries meet s / 2 keys in the mean, and with a window w - w^2 / 2 s: fewer only at the begin.
TEST(LayerCost, AWindowIsFullOfKeysBehindItsBegin) {
  Job job{.model = model_named(arch::default_tables(), "Llama-2-7B"), .seq = 8192, .global_batch = 8};
  Stack stack = stack_of(arch::default_tables(), "megatron-core");
  stack.balances_context = true;
  const auto inside = [&](const Job& of, const Layout& layout) {
    return block_s(of, a100(), stack, layout, false).attention_inside;
  };
  Job windowed = job;
  windowed.model.window = 1024;
  windowed.model.window_layers = windowed.model.layers;
  EXPECT_NEAR(inside(windowed, {}) / inside(job, {}), 960.0 / 4096, 1e-9);
  windowed.model.window_layers = windowed.model.layers / 2;
  EXPECT_NEAR(inside(windowed, {}) / inside(job, {}), (960.0 + 4096) / 2 / 4096, 1e-9);
  windowed.model.window = 8192;
  EXPECT_DOUBLE_EQ(inside(windowed, {}), inside(job, {}));
  // The last of four ranks has queries from 6144 on: all meet a whole window, and 7168 keys without one.
  stack.balances_context = false;
  windowed.model.window_layers = windowed.model.layers;
  windowed.model.window = 1024;
  EXPECT_NEAR(inside(windowed, {.cp = 4}) / inside(job, {.cp = 4}), 1024.0 / 7168, 1e-9);
}

}  // namespace
}  // namespace opentrn::planner
