// What engines compute from unwritten memory.
#include <algorithm>
#include <optional>

#include "base/random.h"
#include "sim/functional/core.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::spoilt_tests {
namespace {

using isa::Opcode;
using isa::Operand;

using Integers = std::vector<int64_t>;

// Elements of `tile` that count as unwritten, row by row.
Integers unwritten(TestKernel& k, Tile tile) {
  const auto buffer = k.core.buffer(k.program, tile.id);
  Integers elements;
  const int64_t bytes = size_bytes(tile.dtype);
  for (int64_t i = 0; i < tile.rows * tile.columns; ++i)
    if (!buffer->initialised().test_all(i * bytes, bytes)) elements.push_back(i);
  return elements;
}

void add(TestKernel& k, Tile dst, Tile a, Tile b) {
  k.run(Opcode::kTensorTensor, {k.op(dst), k.op(a), k.op(b)}, {word(AluOp::kAdd)});
}
// dst = data * column, one value per partition.
void scale(TestKernel& k, Tile dst, Tile data, Tile column) {
  k.run(Opcode::kTensorScalar, {k.op(dst), k.op(data), k.op(column), {}},
        {word(AluOp::kMultiply), word(int64_t{0}), word(int64_t{-1}), word(int64_t{0})});
}
void sum(TestKernel& k, Tile column, Tile data) {
  k.run(Opcode::kTensorReduce, {k.op(column), k.op(data)},
        {word(AluOp::kAdd), word(int64_t{1}), word(int64_t{0})});
}

TEST(Spoilt, ElementByElement) {
  TestKernel k;
  const Tile gap = with_a_gap(k), other = k.sbuf_of(4, 3, std::vector<float>(12, 2)), out = k.sbuf(4, 3);
  add(k, out, other, gap);
  EXPECT_EQ(unwritten(k, out), Integers{5});
  k.run(Opcode::kReciprocal, {k.op(out), k.op(other)});
  EXPECT_EQ(unwritten(k, out), Integers{});
  k.run(Opcode::kReciprocal, {k.op(gap), k.op(gap)});
  EXPECT_EQ(unwritten(k, gap), Integers{5});
}

TEST(Spoilt, AValuePerPartitionSpoilsItsLane) {
  TestKernel k;
  const Tile data = k.sbuf_of(4, 3, std::vector<float>(12, 2)), column = k.sbuf(4, 1), out = k.sbuf(4, 3);
  k.run(Opcode::kMemset, {k.op(column, 0, {{1, 3}, {1, 1}}), Operand::imm(1)});
  scale(k, out, data, column);
  EXPECT_EQ(unwritten(k, out), (Integers{9, 10, 11}));
}

TEST(Spoilt, AReductionIsThatOfItsLane) {
  TestKernel k;
  const Tile gap = with_a_gap(k), column = k.sbuf(4, 1);
  sum(k, column, gap);
  EXPECT_EQ(unwritten(k, column), Integers{1});
}

TEST(Spoilt, WhatMixesLanesFails) {
  TestKernel k;
  const Tile gap = with_a_gap(k), out = k.psum(3, 3);
  const Fault fault = fault_of([&] {
    k.run(Opcode::kNcMatmul, {k.op(out), k.op(gap), k.op(gap)},
          {word(int64_t{0}), word(int64_t{0}), word(int64_t{0}), word(int64_t{0}), word(int64_t{0}),
           word(int64_t{0}), word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  });
  EXPECT_EQ(fault.label(), "sim.uninitialised_read");
}

// From NeuronCore-v4 on, products may be added to what another engine wrote.
TEST(Spoilt, NoProductAccumulatesOntoIt) {
  TestKernel k(Generation::kV4);
  const Tile gap = with_a_gap(k), sums = k.psum(4, 3);
  const Tile left = k.sbuf_of(2, 4, std::vector<float>(8, 1)),
             right = k.sbuf_of(2, 3, std::vector<float>(6, 1));
  k.run(Opcode::kReciprocal, {k.op(sums), k.op(gap)});
  const Fault fault = fault_of([&] {
    k.run(Opcode::kNcMatmul, {k.op(sums), k.op(left), k.op(right)},
          {word(int64_t{1}), word(int64_t{0}), word(int64_t{0}), word(int64_t{0}), word(int64_t{0}),
           word(int64_t{0}), word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  });
  EXPECT_EQ(fault.label(), "nc_matmul.accumulate_uninitialised") << fault.what();
}

TEST(Spoilt, WhereNothingGoodComesOfItItFails) {
  TestKernel k;
  const Tile nothing = k.sbuf(4, 3), out = k.sbuf(4, 3), column = k.sbuf(4, 1), first = k.sbuf(4, 3);
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kReciprocal, {k.op(out), k.op(nothing)});
            }).label(),
            "sim.uninitialised_read");
  k.run(Opcode::kMemset, {k.op(first, 0, {{3, 4}, {1, 2}}), Operand::imm(1)});
  EXPECT_EQ(fault_of([&] { sum(k, column, first); }).label(), "sim.uninitialised_read");
}

TEST(Spoilt, TheFaultNamesTheInstructionThatComputed) {
  TestKernel k;
  const Tile gap = with_a_gap(k), out = k.sbuf(4, 3), result = k.hbm(4, 3);
  k.run(Opcode::kReciprocal, {k.op(out), k.op(gap)});
  const Fault fault = fault_of([&] {
    k.run(Opcode::kDmaCopy, {k.op(result), k.op(out)},
          {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  });
  EXPECT_NE(fault.message().find("element [1, 2] of 't1', which nothing has written (reciprocal computed it "
                                 "from 't0' at kernel.py:5)"),
            std::string::npos)
      << fault.what();
}

// A kernel's tiles: some begin written in part, the others not at all.
struct Tiles {
  std::vector<Tile> wide, columns;
};
constexpr int64_t kRows = 5, kColumns = 4;

Tiles tiles_of(TestKernel& k) {
  Tiles tiles;
  for (int i = 0; i < 4; ++i) tiles.wide.push_back(k.sbuf(kRows, kColumns));
  for (int i = 0; i < 2; ++i) tiles.columns.push_back(k.sbuf(kRows, 1));
  return tiles;
}

// Values of the parts that are written; `rest` is what the memory of the others holds, written for
// all the checks know when it is given.
void begin(TestKernel& k, const Tiles& tiles, SplitMix64& random, std::optional<float> rest) {
  for (const Tile& tile : tiles.wide) {
    if (rest) k.set(tile, std::vector<float>(static_cast<size_t>(kRows * kColumns), *rest));
    for (int64_t i = 0; i < kRows * kColumns; ++i)
      if (random.next32() % 8 != 0)
        k.run(Opcode::kMemset,
              {k.op(tile, i, {{kColumns, 1}, {1, 1}}), Operand::imm(1.0 + random.next32() % 7)});
  }
  for (const Tile& tile : tiles.columns) k.set(tile, std::vector<float>(static_cast<size_t>(kRows), 1.5f));
}

void step(TestKernel& k, const Tiles& tiles, SplitMix64& random) {
  const auto wide = [&] { return tiles.wide[random.next32() % tiles.wide.size()]; };
  const auto column = [&] { return tiles.columns[random.next32() % tiles.columns.size()]; };
  const Tile a = wide(), b = wide(), dst = wide(), one = column();
  switch (random.next32() % 4) {
    case 0: return add(k, dst, a, b);
    case 1: return scale(k, dst, a, one);
    case 2: return sum(k, one, a);
    default:
      k.run(Opcode::kActivation, {k.op(dst), k.op(a), {}, Operand::imm(1), {}},
            {word(ActivationFunction::kTanh), word(int64_t{-1}), word(isa::ReduceCmd::kIdle)});
  }
}

// Two runs in which unwritten memory holds different values: what differs in the end must count as unwritten.
TEST(Spoilt, PropertyNothingThatCountsAsWrittenDependsOnUnwrittenMemory) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    TestKernel checked, low, high;
    const Tiles tiles = tiles_of(checked);
    tiles_of(low), tiles_of(high);
    const auto started = [seed](TestKernel& k, const Tiles& of, std::optional<float> rest) {
      SplitMix64 random(seed);
      begin(k, of, random, rest);
      return random;
    };
    SplitMix64 a = started(checked, tiles, {}), b = started(low, tiles, 0.25f),
               c = started(high, tiles, -3.0f);
    try {
      for (int i = 0; i < 6; ++i) {
        step(checked, tiles, a);
        step(low, tiles, b);
        step(high, tiles, c);
      }
    } catch (const Fault& fault) {
      ASSERT_EQ(fault.label(), "sim.uninitialised_read") << fault.what();
      continue;  // nothing good came of it; the runs are not alike from there on
    }
    for (const auto& group : {tiles.wide, tiles.columns})
      for (const Tile& tile : group) {
        const auto one = low.get(tile), other = high.get(tile), mine = checked.get(tile);
        const Integers missing = unwritten(checked, tile);
        for (int64_t i = 0; i < tile.rows * tile.columns; ++i) {
          if (std::ranges::find(missing, i) != missing.end()) continue;
          const auto at = static_cast<size_t>(i);
          ASSERT_EQ(one[at], other[at]) << "seed " << seed << " tile " << tile.id << " element " << i;
          ASSERT_EQ(mine[at], one[at]) << "seed " << seed << " tile " << tile.id << " element " << i;
          ++compared;
        }
      }
  }
  EXPECT_GT(compared, 5000);
}

}  // namespace
}  // namespace opentrn::sim::spoilt_tests
