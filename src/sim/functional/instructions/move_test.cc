// Data movement: DMA, copies, transposes, gathers.
#include "base/random.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::move_tests {
namespace {

using isa::Indirect;
using isa::IndirectKind;
using isa::Opcode;
using isa::Operand;
using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

constexpr int64_t kError = 0, kSkip = 1;

class DmaTest : public ::testing::Test {
 protected:
  TestKernel k;
  void dma_copy(const Operand& dst, const Operand& src, int64_t oob = kError) {
    k.run(Opcode::kDmaCopy, {dst, src}, {word(int64_t{0}), word(oob), word(int64_t{0})});
  }
  void dma_transpose(const Operand& dst, const Operand& src, std::initializer_list<int64_t> axes,
                     int64_t oob = kError) {
    k.run(Opcode::kDmaTranspose, {dst, src},
          {word(k.list(axes)), word(int64_t{0}), word(int64_t{0}), word(oob)});
  }
};

TEST_F(DmaTest, CopyReshapesRowMajorAndCasts) {
  const Tile src = k.filled(k.hbm(2, 3), {1, 2, 3, 4, 5.5f, 6});
  const Tile dst = k.sbuf(3, 2, DType::kInt32);
  dma_copy(k.op(dst), k.op(src));
  EXPECT_EQ(k.get_integers(dst)[0], 1);
  EXPECT_EQ(k.get_integers(dst)[3], 4);
  const Tile half = k.sbuf(2, 3, DType::kBFloat16);
  dma_copy(k.op(half), k.op(src));
  EXPECT_EQ(k.get(half), (Floats{1, 2, 3, 4, 5.5f, 6}));
}

TEST_F(DmaTest, CopyOfEqualTypesKeepsBits) {
  const Tile src = k.hbm(1, 1), dst = k.sbuf(1, 1);
  const uint32_t signalling_nan = 0x7f800001;
  std::memcpy(k.core.buffer(k.program, src.id)->data(), &signalling_nan, 4);
  k.core.buffer(src.id)->mark_all_initialised();
  dma_copy(k.op(dst), k.op(src));
  uint32_t bits;
  std::memcpy(&bits, k.core.buffer(dst.id)->data(), 4);
  EXPECT_EQ(bits, signalling_nan);
}

TEST_F(DmaTest, CopyWithATransposingPattern) {
  const Tile src = k.filled(k.hbm(2, 3), {1, 2, 3, 4, 5, 6}), dst = k.sbuf(3, 2);
  dma_copy(k.op(dst), k.op(src, 0, {{1, 3}, {3, 2}}));
  EXPECT_EQ(k.get(dst), (Floats{1, 4, 2, 5, 3, 6}));
}

TEST_F(DmaTest, LargeCopiesGiveTheSameBytesOnAnyNumberOfThreads) {
  ThreadPool pool(2);
  TestKernel parallel(Generation::kV3, &pool);
  Floats values(128 * 2048);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 9973);
  const auto copy = [&](TestKernel& kernel) {
    const Tile src = kernel.filled(kernel.hbm(128, 2048), values), dst = kernel.sbuf(128, 2048);
    const Tile narrow = kernel.sbuf(128, 2048, DType::kBFloat16), turned = kernel.hbm(2048, 128);
    const auto plain = {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})};
    kernel.run(Opcode::kDmaCopy, {kernel.op(dst), kernel.op(src)}, plain);
    kernel.run(Opcode::kDmaCopy, {kernel.op(narrow), kernel.op(dst)}, plain);
    kernel.run(Opcode::kDmaCopy, {kernel.op(turned, 0, {{1, 128}, {128, 2048}}), kernel.op(dst)}, plain);
    Floats all = kernel.get(dst);
    for (const Tile& t : {narrow, turned})
      for (float v : kernel.get(t)) all.push_back(v);
    return all;
  };
  EXPECT_EQ(copy(parallel), copy(k));
}

TEST_F(DmaTest, VectorOffsetGathersRows) {
  const Tile src = k.filled(k.hbm(4, 2), {0, 1, 10, 11, 20, 21, 30, 31});
  const Tile index = k.sbuf_of(3, 1, {2, 0, 3}, DType::kUint32);
  const Tile dst = k.sbuf(3, 2);
  const Operand rows =
      k.indirect(k.op(src, 0, {{2, 3}, {1, 2}}),
                 {.kind = IndirectKind::kVector, .dim = 0, .index = k.op(index), .stride = 2, .bound = 4});
  dma_copy(k.op(dst), rows);
  EXPECT_EQ(k.get(dst), (Floats{20, 21, 0, 1, 30, 31}));
}

TEST_F(DmaTest, IndicesOutOfBoundsFaultOrAreSkipped) {
  const Tile src = k.filled(k.hbm(4, 2), {0, 1, 10, 11, 20, 21, 30, 31});
  const Tile index = k.sbuf_of(3, 1, {2, 4, -1}, DType::kInt32);
  const Tile dst = k.sbuf_of(3, 2, {-1, -2, -3, -4, -5, -6});
  const Operand rows =
      k.indirect(k.op(src, 0, {{2, 3}, {1, 2}}),
                 {.kind = IndirectKind::kVector, .dim = 0, .index = k.op(index), .stride = 2, .bound = 4});
  EXPECT_EQ(fault_of([&] { dma_copy(k.op(dst), rows); }).label(), "dma_copy.index_out_of_bounds");
  dma_copy(k.op(dst), rows, kSkip);
  EXPECT_EQ(k.get(dst), (Floats{20, 21, -3, -4, -5, -6}));
  // Scatter.
  const Tile out = k.filled(k.hbm(4, 2), Floats(8, 0));
  const Operand targets =
      k.indirect(k.op(out, 0, {{2, 3}, {1, 2}}),
                 {.kind = IndirectKind::kVector, .dim = 0, .index = k.op(index), .stride = 2, .bound = 4});
  dma_copy(targets, k.op(dst), kSkip);
  EXPECT_EQ(k.get(out), (Floats{0, 0, 0, 0, 20, 21, 0, 0}));
}

TEST_F(DmaTest, ScalarOffsetFromATile) {
  const Tile src = k.filled(k.hbm(4, 2), {0, 1, 10, 11, 20, 21, 30, 31});
  const Tile index = k.sbuf_of(1, 1, {3}, DType::kInt32), dst = k.sbuf_of(1, 2, {-1, -1});
  const Indirect how{.kind = IndirectKind::kScalar, .index = k.op(index), .stride = 2, .bound = 4};
  dma_copy(k.op(dst), k.indirect(k.op(src, 0, {{2, 1}, {1, 2}}), how));
  EXPECT_EQ(k.get(dst), (Floats{30, 31}));
  k.set(index, {9});
  dma_copy(k.op(dst), k.indirect(k.op(src, 0, {{2, 1}, {1, 2}}), how), kSkip);
  EXPECT_EQ(k.get(dst), (Floats{30, 31}));
  EXPECT_EQ(fault_of([&] {
              dma_copy(k.op(dst), k.indirect(k.op(src, 0, {{2, 1}, {1, 2}}), how));
            }).label(),
            "dma_copy.index_out_of_bounds");
}

TEST_F(DmaTest, ShapesAndRepeatedWritesAreRefused) {
  const Tile src = k.sbuf_of(1, 4, {1, 2, 3, 4}), dst = k.hbm(1, 4);
  EXPECT_EQ(fault_of([&] { dma_copy(k.op(dst, 0, {{1, 3}}), k.op(src)); }).label(), "dma_copy.shape");
  EXPECT_EQ(fault_of([&] {
              dma_copy(k.op(dst, 0, {{0, 2}, {1, 2}}), k.op(src));
            }).label(),
            "dma_copy.dst_overlap");
}

TEST_F(DmaTest, TransposeOfTwoThreeAndFourDimensions) {
  const Tile src = k.filled(
      k.hbm(2, 12), {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  const Tile two = k.sbuf(12, 2);
  dma_transpose(k.op(two), k.op(src), {1, 0});
  EXPECT_EQ(k.get(two)[2 * 5 + 1], 17);
  // [2, 3, 4] -> [4, 3, 2]
  const Tile three = k.sbuf(4, 6);
  dma_transpose(k.op(three, 0, {{6, 4}, {2, 3}, {1, 2}}), k.op(src, 0, {{12, 2}, {4, 3}, {1, 4}}), {2, 1, 0});
  EXPECT_EQ(k.get(three)[3 * 6 + 2 * 2 + 1], 12 + 2 * 4 + 3);
  // [2, 3, 2, 2] -> [2, 3, 2, 2] with (3, 1, 2, 0)
  const Tile four = k.sbuf(2, 12);
  dma_transpose(k.op(four, 0, {{12, 2}, {4, 3}, {2, 2}, {1, 2}}),
                k.op(src, 0, {{12, 2}, {4, 3}, {2, 2}, {1, 2}}), {3, 1, 2, 0});
  EXPECT_EQ(k.get(four)[1 * 12 + 2 * 4 + 1 * 2 + 0], 0 * 12 + 2 * 4 + 1 * 2 + 1);
  EXPECT_EQ(fault_of([&] { dma_transpose(k.op(two), k.op(src), {0, 1}); }).label(), "dma_transpose.axes");
}

TEST_F(DmaTest, TransposeGathersRowsFirst) {
  const Tile src = k.filled(k.hbm(4, 2), {0, 1, 10, 11, 20, 21, 30, 31});
  const Tile index = k.sbuf_of(2, 2, {3, 1, 0, 2}, DType::kUint32);  // flattened partition first: 3 0 1 2
  const Tile dst = k.sbuf(2, 4);
  const Operand rows =
      k.indirect(k.op(src, 0, {{2, 4}, {1, 2}}),
                 {.kind = IndirectKind::kVector, .dim = 0, .index = k.op(index), .stride = 2, .bound = 4});
  dma_transpose(k.op(dst), rows, {1, 0});
  EXPECT_EQ(k.get(dst), (Floats{30, 0, 10, 20, 31, 1, 11, 21}));
}

TEST_F(DmaTest, ComputeAddsInFloat32AndRoundsOnce) {
  const Tile a = k.sbuf_of(1, 2, {256, 1}, DType::kBFloat16), b = k.sbuf_of(1, 2, {1, 2}, DType::kBFloat16),
             c = k.sbuf_of(1, 2, {1, 3}, DType::kBFloat16), dst = k.hbm(1, 2, DType::kBFloat16);
  k.run(Opcode::kDmaCompute, {k.op(dst), k.op(a), k.op(b), k.op(c)},
        {word(AluOp::kAdd), word(int64_t{1}), word(kError)});
  EXPECT_EQ(k.get(dst), (Floats{258, 6}));  // 256 + 1 alone would round to 256
}

TEST_F(DmaTest, ComputeScattersIntoRows) {
  const Tile table = k.filled(k.hbm(3, 2), {1, 2, 3, 4, 5, 6});
  const Tile index = k.sbuf_of(2, 1, {2, 0}, DType::kInt32), add = k.sbuf_of(2, 2, {10, 20, 30, 40});
  const Indirect how{.kind = IndirectKind::kVector, .dim = 0, .index = k.op(index), .stride = 2, .bound = 3};
  const Operand rows = k.indirect(k.op(table, 0, {{2, 2}, {1, 2}}), how);
  k.run(Opcode::kDmaCompute, {rows, rows, k.op(add)}, {word(AluOp::kAdd), word(int64_t{1}), word(kError)});
  EXPECT_EQ(k.get(table), (Floats{31, 42, 3, 4, 15, 26}));
  k.set(index, {1, 1});
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kDmaCompute, {rows, rows, k.op(add)},
                    {word(AluOp::kAdd), word(int64_t{1}), word(kError)});
            }).label(),
            "dma_compute.unique_indices");
}

TEST(TensorCopy, IntegersStayExactExceptOnTheScalarEngineOfV2) {
  for (const Generation generation : {Generation::kV2, Generation::kV3}) {
    TestKernel k(generation);
    const Tile src = k.sbuf(1, 1, DType::kInt32), dst = k.sbuf(1, 1, DType::kInt32);
    k.set(src, {16777216});
    k.run(Opcode::kTensorTensor, {k.op(src), k.op(src), k.op(k.sbuf_of(1, 1, {1}, DType::kInt32))},
          {word(AluOp::kAdd)});
    k.run(Opcode::kTensorCopy, {k.op(dst), k.op(src)}, {}, isa::Engine::kScalar);
    EXPECT_EQ(k.get_integers(dst)[0], generation == Generation::kV2 ? 16777216 : 16777217);
  }
}

TEST(Memset, FillsEveryKindOfType) {
  TestKernel k;
  const Tile f = k.sbuf(2, 3, DType::kBFloat16), i = k.sbuf(2, 3, DType::kInt32),
             u = k.sbuf(1, 2, DType::kUint8);
  k.run(Opcode::kMemset, {k.op(f), Operand::imm(-1.5)});
  k.run(Opcode::kMemset, {k.op(i), Operand::imm(-2147483648.0)});
  k.run(Opcode::kMemset, {k.op(u), Operand::imm(255)});
  EXPECT_EQ(k.get(f), Floats(6, -1.5f));
  EXPECT_EQ(k.get_integers(i), Integers(6, -2147483648));
  EXPECT_EQ(k.get_integers(u), Integers(2, 255));
  EXPECT_EQ(fault_of([&] { k.run(Opcode::kMemset, {k.op(u), Operand::imm(256)}); }).label(), "memset.value");
  const Tile packed = k.sbuf(1, 2, DType::kFloat8E4M3FnX4);
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kMemset, {k.op(packed), Operand::imm(1)});
            }).label(),
            "memset.value");
}

TEST(TensorCopyPredicated, CopiesWhereThePredicateHolds) {
  TestKernel k;
  const Tile dst = k.sbuf_of(1, 4, {1, 2, 3, 4}), src = k.sbuf_of(1, 4, {10, 20, 30, 40});
  const Tile where = k.sbuf_of(1, 4, {1, 0, 0, 7}, DType::kUint8);
  k.run(Opcode::kTensorCopyPredicated, {k.op(dst), k.op(src), k.op(where)}, {word(int64_t{0})});
  EXPECT_EQ(k.get(dst), (Floats{10, 2, 3, 40}));
  k.run(Opcode::kTensorCopyPredicated, {k.op(dst), Operand::imm(-1), k.op(where)}, {word(int64_t{1})});
  EXPECT_EQ(k.get(dst), (Floats{10, -1, -1, 40}));
}

TEST(TensorCopyPredicated, RowsWithAndWithoutGapsAreChosenAlike) {
  constexpr int64_t kRows = 5, kColumns = 37;
  SplitMix64 random(3);
  std::vector<float> old, fresh, truth;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    old.push_back(static_cast<float>(i));
    fresh.push_back(static_cast<float>(-i));
    truth.push_back(static_cast<float>(random.below(3)));
  }
  for (const DType type : {DType::kUint8, DType::kUint32}) {
    for (const int64_t reverse : {0, 1}) {
      for (const bool constant : {false, true}) {
        TestKernel k;
        const Tile src = k.sbuf_of(kRows, kColumns, fresh), where = k.sbuf_of(kRows, kColumns, truth, type);
        const Tile dense = k.sbuf_of(kRows, kColumns, old), apart = k.sbuf(kRows, 2 * kColumns);
        const Operand every_second = k.op(apart, 0, {{2 * kColumns, kRows}, {2, kColumns}});
        k.run(Opcode::kMemset, {k.op(apart), Operand::imm(0)});
        k.run(Opcode::kTensorCopy, {every_second, k.op(dense)});
        for (const Operand& to : {k.op(dense), every_second})
          k.run(Opcode::kTensorCopyPredicated, {to, constant ? Operand::imm(-1) : k.op(src), k.op(where)},
                {word(reverse)});
        const std::vector<float> found = k.get(dense), slow = k.get(apart);
        for (size_t i = 0; i < found.size(); ++i) {
          const bool chosen = (truth[i] != 0) != (reverse != 0);
          ASSERT_EQ(found[i], chosen ? (constant ? -1.0f : fresh[i]) : old[i]);
          const size_t row = i / kColumns, column = i % kColumns;
          ASSERT_EQ(found[i], slow[row * 2 * kColumns + 2 * column]);
        }
      }
    }
  }
}

TEST(TensorCopyPredicated, OppositePredicatesFillAFreshTile) {
  TestKernel k;
  const Tile dst = k.sbuf(1, 4), out = k.sbuf(1, 4), where = k.sbuf_of(1, 4, {1, 0, 0, 7}, DType::kUint8);
  k.run(Opcode::kTensorCopyPredicated, {k.op(dst), Operand::imm(1), k.op(where)}, {word(int64_t{0})});
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kTensorReduce, {k.op(out, 0, {{4, 1}, {1, 1}}), k.op(dst)},
                    {word(AluOp::kAdd), word(int64_t{1}), word(int64_t{0})});
            }).label(),
            "sim.uninitialised_read");
  k.run(Opcode::kTensorCopyPredicated, {k.op(dst), Operand::imm(2), k.op(where)}, {word(int64_t{1})});
  k.run(Opcode::kTensorCopy, {k.op(out), k.op(dst)});
  EXPECT_EQ(k.get(out), (Floats{1, 2, 2, 1}));
}

// Where reading `tile` element by element fails: row * columns + column.
Integers unwritten_elements(TestKernel& k, Tile tile) {
  const Tile one = k.sbuf(1, 1);
  Integers elements;
  for (int64_t i = 0; i < tile.rows * tile.columns; ++i) {
    try {
      k.run(Opcode::kReciprocal, {k.op(one), k.op(tile, i, {{tile.columns, 1}, {1, 1}})});
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "sim.uninitialised_read") << fault.what();
      elements.push_back(i);
    }
  }
  return elements;
}

TEST(Unwritten, MovesCarryItElementByElement) {
  TestKernel k;
  const Tile gap = with_a_gap(k);
  const Tile copy = k.sbuf(4, 3, DType::kBFloat16), other = k.sbuf(3, 4), turned = k.sbuf(3, 4);
  k.run(Opcode::kTensorCopy, {k.op(copy), k.op(gap)});
  EXPECT_EQ(unwritten_elements(k, copy), Integers{5});
  k.run(Opcode::kDmaCopy, {k.op(other), k.op(copy)}, {word(int64_t{0}), word(kError), word(int64_t{0})});
  EXPECT_EQ(unwritten_elements(k, other), Integers{5});
  for (const isa::Engine engine : {isa::Engine::kVector, isa::Engine::kTensor}) {
    const Tile to = engine == isa::Engine::kTensor ? k.psum(3, 4) : turned;
    k.run(Opcode::kNcTranspose, {k.op(to), k.op(gap)}, {}, engine);
    EXPECT_EQ(unwritten_elements(k, to), Integers{2 * 4 + 1});
  }
  const Tile by_dma = k.sbuf(3, 4);
  k.run(Opcode::kDmaTranspose, {k.op(by_dma), k.op(gap)},
        {word(k.list({1, 0})), word(int64_t{0}), word(int64_t{0}), word(kError)});
  EXPECT_EQ(unwritten_elements(k, by_dma), Integers{2 * 4 + 1});
  k.run(Opcode::kMemset, {k.op(copy, 5, {{3, 1}, {1, 1}}), Operand::imm(2)});
  EXPECT_EQ(unwritten_elements(k, copy), Integers{});
  k.run(Opcode::kTensorCopy, {k.op(gap), k.op(copy)});
  EXPECT_EQ(unwritten_elements(k, gap), Integers{});
}

TEST(Unwritten, AMoveWithinATileCarriesItOnce) {
  TestKernel k;
  const Tile gap = with_a_gap(k);
  k.run(Opcode::kTensorCopy, {k.op(gap, 0, {{3, 2}, {1, 3}}), k.op(gap, 3, {{3, 2}, {1, 3}})});
  EXPECT_EQ(unwritten_elements(k, gap), Integers{2});
}

TEST(Unwritten, TheFaultOfItsUseNamesTheMove) {
  TestKernel k;
  const Tile gap = with_a_gap(k), copy = k.sbuf(4, 3), out = k.hbm(4, 3);
  k.run(Opcode::kTensorCopy, {k.op(copy), k.op(gap)});
  const Fault fault = fault_of([&] {
    k.run(Opcode::kDmaCopy, {k.op(out), k.op(copy)}, {word(int64_t{0}), word(kError), word(int64_t{0})});
  });
  EXPECT_NE(
      fault.message().find("element [1, 2] of 't1', which nothing has written (tensor_copy moved it there "
                           "from 't0' at kernel.py:5)"),
      std::string::npos)
      << fault.what();
}

TEST(Unwritten, MayNotLeaveNorBeAllThatMoves) {
  TestKernel k;
  const Tile gap = with_a_gap(k), fresh = k.sbuf(4, 3), copy = k.sbuf(4, 3);
  const auto label_of_copy = [&](Tile to, Tile from) {
    return fault_of([&] {
             k.run(Opcode::kDmaCopy, {k.op(to), k.op(from)},
                   {word(int64_t{0}), word(kError), word(int64_t{0})});
           })
        .label();
  };
  EXPECT_EQ(label_of_copy(k.tile(isa::MemorySpace::kSharedHbm, 4, 3), gap), "sim.uninitialised_read");
  EXPECT_EQ(label_of_copy(copy, fresh), "sim.uninitialised_read");
  const Tile spilled = k.tile(isa::MemorySpace::kPrivateHbm, 4, 3);
  k.run(Opcode::kDmaCopy, {k.op(spilled), k.op(gap)}, {word(int64_t{0}), word(kError), word(int64_t{0})});
  k.run(Opcode::kDmaCopy, {k.op(copy), k.op(spilled)}, {word(int64_t{0}), word(kError), word(int64_t{0})});
  EXPECT_EQ(unwritten_elements(k, copy), Integers{5});
}

TEST(Unwritten, TheMatrixMultiplyTransposeOfTheFirstChipUsesWhatItMoves) {
  TestKernel k(Generation::kV2);
  const Tile gap = with_a_gap(k), to = k.psum(3, 4);
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kNcTranspose, {k.op(to), k.op(gap)}, {}, isa::Engine::kTensor);
            }).label(),
            "sim.uninitialised_read");
}

TEST(NcTranspose, Fp8BecomesSixteenBitElements) {
  TestKernel k;
  const Tile src = k.sbuf_of(1, 2, {1, -2}, DType::kFloat8E4M3), dst = k.psum(2, 1, DType::kUint16);
  k.run(Opcode::kNcTranspose, {k.op(dst), k.op(src)}, {}, isa::Engine::kTensor);
  EXPECT_EQ(k.get_integers(dst), (Integers{0x38, 0xc0}));
}

TEST(NcTranspose, MovesBits) {
  TestKernel k;
  const Tile src = k.sbuf_of(2, 3, {1, INFINITY, 3, 4, 5, 6}, DType::kBFloat16),
             dst = k.psum(3, 2, DType::kBFloat16);
  k.run(Opcode::kNcTranspose, {k.op(dst), k.op(src)}, {}, isa::Engine::kTensor);
  EXPECT_EQ(k.get(dst), (Floats{1, 4, INFINITY, 5, 3, 6}));
}

TEST(NcTranspose, OnTheTensorEngineOfV2InfinitySpreads) {
  TestKernel k(Generation::kV2);
  const Tile src = k.sbuf_of(2, 2, {1, INFINITY, 3, 4}), dst = k.psum(2, 2);
  k.run(Opcode::kNcTranspose, {k.op(dst), k.op(src)}, {}, isa::Engine::kTensor);
  const Floats out = k.get(dst);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[2], INFINITY);
  EXPECT_TRUE(std::isnan(out[3]));
}

TEST(NcStreamShuffle, PermutesQuadrantsAndLeaves255) {
  TestKernel k;
  Floats values(64);
  for (int i = 0; i < 64; ++i) values[i] = static_cast<float>(i);
  const Tile t = k.sbuf_of(64, 1, values);
  std::vector<int64_t> mask(32);
  for (int i = 0; i < 32; ++i) mask[i] = (i + 31) % 32;
  mask[5] = 255;
  k.run(Opcode::kNcStreamShuffle, {k.op(t), k.op(t)}, {word(int64_t{k.program.intern_list(mask)})});
  const Floats out = k.get(t);
  EXPECT_EQ(out[0], 31);
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(out[5], 5);
  EXPECT_EQ(out[32], 63);
}

TEST(NcStreamShuffle, SpreadsARowAndMarksOnlyWhatItWrites) {
  TestKernel k;
  Floats values(64 * 3);
  for (int i = 0; i < 64 * 3; ++i) values[i] = static_cast<float>(i);
  const Tile src = k.sbuf_of(64, 3, values), dst = k.sbuf(64, 3);
  std::vector<int64_t> mask(32, 2);
  mask[7] = 255;
  k.run(Opcode::kNcStreamShuffle, {k.op(dst), k.op(src)}, {word(int64_t{k.program.intern_list(mask)})});
  const auto row = [&](int64_t p) {
    const Tile copy = k.sbuf(1, 3);
    k.run(Opcode::kTensorCopy, {k.op(copy), k.op(dst, 3 * p, {{3, 1}, {1, 3}})});
    return k.get(copy);
  };
  EXPECT_EQ(row(0), (Floats{6, 7, 8}));
  EXPECT_EQ(row(31), (Floats{6, 7, 8}));
  EXPECT_EQ(row(32), (Floats{34 * 3, 34 * 3 + 1, 34 * 3 + 2}));
  EXPECT_EQ(fault_of([&] { row(7); }).label(), "sim.uninitialised_read");
}

TEST(LocalGather, SharesIndicesWithinSixteenPartitions) {
  TestKernel k;
  Floats values(16 * 4), index(16);
  for (int i = 0; i < 64; ++i) values[i] = static_cast<float>(i);
  for (int i = 0; i < 16; ++i) index[i] = static_cast<float>(i % 3);
  const Tile src = k.sbuf_of(16, 4, values), idx = k.sbuf_of(16, 1, index, DType::kUint16),
             dst = k.sbuf(16, 8);
  k.run(Opcode::kLocalGather, {k.op(dst), k.op(src), k.op(idx)}, {word(int64_t{2}), word(int64_t{4})});
  const Floats out = k.get(dst);
  // Partition 1 holds 4 5 6 7; indices 0 1 2 0, two elements each.
  EXPECT_EQ(Floats(out.begin() + 8, out.begin() + 16), (Floats{4, 5, 5, 6, 6, 7, 4, 5}));
}

TEST(NcNGather, PicksWithinThePartition) {
  TestKernel k;
  const Tile data = k.sbuf_of(2, 3, {1, 2, 3, 4, 5, 6}), idx = k.sbuf_of(2, 2, {2, 0, 1, 1}, DType::kUint32);
  const Tile dst = k.sbuf(2, 2);
  k.run(Opcode::kNcNGather, {k.op(dst), k.op(data), k.op(idx)});
  EXPECT_EQ(k.get(dst), (Floats{3, 1, 5, 5}));
  k.set(idx, {3, 0, 0, 0});
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kNcNGather, {k.op(dst), k.op(data), k.op(idx)});
            }).label(),
            "nc_n_gather.index_out_of_bounds");
}

// Offsets of a group of 16 partitions: index[i % 16, i / 16].
TEST(TensorIndirection, GathersAndScattersAlongTheFreeAxis) {
  TestKernel k(Generation::kV4);
  Floats values(16 * 4), index(16, 0);
  for (int i = 0; i < 64; ++i) values[i] = static_cast<float>(i);
  index[0] = 3, index[1] = 1;
  const Tile src = k.sbuf_of(16, 4, values), idx = k.sbuf_of(16, 1, index, DType::kUint32),
             dst = k.sbuf(16, 2);
  const Indirect how{.kind = IndirectKind::kTensor, .dim = 1, .index = k.op(idx), .stride = 1, .bound = 4};
  k.run(Opcode::kTensorCopy, {k.op(dst), k.indirect(k.op(src, 0, {{4, 16}, {1, 2}}), how)});
  const Floats out = k.get(dst);
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 1);
  EXPECT_EQ(out[2], 7);
  const Tile target = k.sbuf_of(16, 4, Floats(64, 0));
  k.run(Opcode::kTensorCopy, {k.indirect(k.op(target, 0, {{4, 16}, {1, 2}}), how), k.op(dst)});
  EXPECT_EQ(k.get(target)[3], 3);
  EXPECT_EQ(k.get(target)[1], 1);
  EXPECT_EQ(k.get(target)[0], 0);
}

}  // namespace
}  // namespace opentrn::sim::move_tests
