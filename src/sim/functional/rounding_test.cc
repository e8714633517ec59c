// Stochastic rounding of engines' results: unbiased, reproducible, and not of DMA.
#include <algorithm>
#include <cmath>

#include "sim/functional/test_kernel.h"

namespace opentrn::sim::rounding_tests {
namespace {

using isa::Opcode;
using isa::Operand;

constexpr int64_t kRows = 128, kColumns = 512;
// An eighth of the way from 1 to the next bfloat16.
constexpr float kValue = 1.0f + 0x1p-10f, kNext = 1.0f + 0x1p-7f;

struct Copies {
  TestKernel k;
  Tile wide, narrow;

  explicit Copies(std::optional<uint64_t> seed, ThreadPool* pool = nullptr) : k(Generation::kV3, pool) {
    k.core.set_stochastic_rounding(seed);
    wide = k.sbuf_of(kRows, kColumns, std::vector<float>(kRows * kColumns, kValue));
    narrow = k.sbuf(kRows, kColumns, DType::kBFloat16);
  }
  std::vector<float> copy() {
    k.run(Opcode::kTensorCopy, {k.op(narrow), k.op(wide)});
    return k.get(narrow);
  }
};

double share_of(const std::vector<float>& values, float value) {
  return static_cast<double>(std::count(values.begin(), values.end(), value)) /
         static_cast<double>(values.size());
}

TEST(StochasticRounding, IsUnbiasedBetweenNeighbours) {
  Copies copies(1);
  const auto values = copies.copy();
  // Six standard deviations of 65536 draws.
  EXPECT_NEAR(share_of(values, kNext), 0.125, 6 * std::sqrt(0.125 * 0.875 / (kRows * kColumns)));
  EXPECT_EQ(share_of(values, kNext) + share_of(values, 1.0f), 1.0);
}

TEST(StochasticRounding, IsOffUnlessAskedFor) {
  Copies copies(std::nullopt);
  EXPECT_EQ(share_of(copies.copy(), 1.0f), 1.0);
}

TEST(StochasticRounding, SeedInstructionAndRepetitionDecide) {
  Copies first(1), again(1), other(2);
  const auto values = first.copy();
  EXPECT_EQ(values, again.copy());
  EXPECT_NE(values, other.copy());
  EXPECT_NE(values, first.copy()) << "another instruction drew the same";
}

TEST(StochasticRounding, IterationsDrawAfresh) {
  Copies copies(1);
  TestKernel& k = copies.k;
  const Tile sum = k.sbuf_of(kRows, kColumns, std::vector<float>(kRows * kColumns, 0.0f));
  const isa::RegisterId counter = k.program.add_register();
  const auto begin = k.loop_begin(counter, Operand::imm(0), Operand::imm(64));
  k.emit(Opcode::kTensorCopy, {k.op(copies.narrow), k.op(copies.wide)});
  k.emit(Opcode::kTensorTensor, {k.op(sum), k.op(sum), k.op(copies.narrow)}, {word(AluOp::kAdd)});
  k.loop_end(counter, begin);
  k.core.run(k.program);
  // Every element's own mean comes near the value: the largest of 65536 binomials lies within six deviations.
  const double deviation = std::sqrt(64 * 0.125 * 0.875) * 0x1p-7;
  for (const float value : k.get(sum)) EXPECT_NEAR(value, 64.0 * kValue, 6 * deviation + 1e-4);
}

TEST(StochasticRounding, ThreadsDoNotMatter) {
  ThreadPool pool(4);
  Copies alone(9), shared(9, &pool);
  EXPECT_EQ(alone.copy(), shared.copy());
}

TEST(StochasticRounding, DmaRoundsToNearest) {
  Copies copies(1);
  TestKernel& k = copies.k;
  k.run(Opcode::kDmaCopy, {k.op(copies.narrow), k.op(copies.wide)},
        {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  EXPECT_EQ(share_of(k.get(copies.narrow), 1.0f), 1.0);
}

TEST(StochasticRounding, WhatIsRepresentableStays) {
  Copies copies(3);
  copies.k.set(copies.wide, std::vector<float>(kRows * kColumns, -1.5f));
  EXPECT_EQ(share_of(copies.copy(), -1.5f), 1.0);
}

}  // namespace
}  // namespace opentrn::sim::rounding_tests
