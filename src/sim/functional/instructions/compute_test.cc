// Element-wise instructions, reductions, scans, activations, selections, searches, statistics.
#include <cmath>

#include "sim/functional/test_kernel.h"

namespace opentrn::sim::compute_tests {
namespace {

using isa::Opcode;
using isa::Operand;
using isa::ReduceCmd;
using Floats = std::vector<float>;
using Integers = std::vector<int64_t>;

const isa::AttributeWord kNo = word(int64_t{0}), kYes = word(int64_t{1}), kNone = word(int64_t{-1});

// Rows of many short runs: every second element, elements side by side, one for all of a run, a run for all.
TEST(TensorTensor, RunsOfAFewElements) {
  const std::vector<std::array<isa::Dim, 2>> grids{
      {{{16, 8}, {2, 6}}}, {{{8, 8}, {1, 6}}}, {{{1, 8}, {0, 6}}}, {{{0, 8}, {1, 6}}}, {{{1, 8}, {16, 6}}}};
  for (const auto& first : grids)
    for (const auto& second : grids) {
      TestKernel k;
      std::vector<float> values(2 * 128);
      for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 101);
      const Tile a = k.sbuf_of(2, 128, values), b = k.sbuf_of(2, 128, values);
      const Tile out = k.sbuf_of(2, 128, std::vector<float>(values.size(), -1.0f));
      const auto grid = [&](const Tile& tile, int64_t offset, const std::array<isa::Dim, 2>& dims) {
        return k.op(tile, offset, {{128, 2}, dims[0], dims[1]});
      };
      const std::array<isa::Dim, 2>& to = grids[0];
      k.run(Opcode::kTensorTensor, {grid(out, 1, to), grid(a, 0, first), grid(b, 3, second)},
            {word(AluOp::kSubtract)});
      std::vector<float> expected(values.size(), -1.0f);
      const auto place = [](size_t p, size_t offset, const std::array<isa::Dim, 2>& dims, size_t i,
                            size_t j) {
        return p * 128 + offset + i * static_cast<size_t>(dims[0].step) +
               j * static_cast<size_t>(dims[1].step);
      };
      for (size_t p = 0; p < 2; ++p)
        for (size_t i = 0; i < 8; ++i)
          for (size_t j = 0; j < 6; ++j)
            expected[place(p, 1, to, i, j)] =
                values[place(p, 0, first, i, j)] - values[place(p, 3, second, i, j)];
      EXPECT_EQ(k.get(out), expected);
    }
}

TEST(TensorTensor, ComputesInFloat32AndRoundsOnce) {
  TestKernel k;
  const Tile a = k.sbuf_of(1, 3, {1, 256, -3}, DType::kBFloat16), b = k.sbuf_of(1, 3, {2, 1, 3});
  const Tile dst = k.sbuf(1, 3, DType::kBFloat16);
  k.run(Opcode::kTensorTensor, {k.op(dst), k.op(a), k.op(b)}, {word(AluOp::kAdd)});
  EXPECT_EQ(k.get(dst), (Floats{3, 256, 0}));
}

TEST(TensorTensor, Int32IsExactOnGpSimdAndNotOnVectorOrInPsum) {
  TestKernel k;
  const Tile one = k.sbuf_of(1, 1, {1}, DType::kInt32), dst = k.sbuf(1, 1, DType::kInt32);
  const Tile big = k.sbuf_of(1, 1, {16777216}, DType::kInt32);
  const auto add = [&](const Tile& a, isa::Engine engine) {
    k.run(Opcode::kTensorTensor, {k.op(dst), k.op(a), k.op(one)}, {word(AluOp::kAdd)}, engine);
    return k.get_integers(dst)[0];
  };
  EXPECT_EQ(add(big, isa::Engine::kUnknown), 16777217);
  EXPECT_EQ(add(big, isa::Engine::kGpSimd), 16777217);
  EXPECT_EQ(add(big, isa::Engine::kVector), 16777216);
  const Tile in_psum = k.filled(k.psum(1, 1, DType::kInt32), {16777216});
  EXPECT_EQ(add(in_psum, isa::Engine::kUnknown), 16777216);
}

TEST(TensorTensor, BitVectorOperatorsKeepBits) {
  TestKernel k;
  const Tile a = k.sbuf_of(1, 2, {12, 255}, DType::kUint8), b = k.sbuf_of(1, 2, {10, 1}, DType::kUint8);
  const Tile dst = k.sbuf(1, 2, DType::kUint8), f = k.sbuf_of(1, 2, {1, 2});
  k.run(Opcode::kTensorTensor, {k.op(dst), k.op(a), k.op(b)}, {word(AluOp::kBitwiseXor)});
  EXPECT_EQ(k.get_integers(dst), (Integers{6, 254}));
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kTensorTensor, {k.op(dst), k.op(a), k.op(f)}, {word(AluOp::kBitwiseOr)});
            }).label(),
            "tensor_tensor.bitvec_dtype");
  EXPECT_EQ(
      fault_of([&] {
        k.run(Opcode::kTensorTensor, {k.op(dst), k.op(a), k.op(b, 0, {{2, 1}, {1, 1}})}, {word(AluOp::kAdd)});
      }).label(),
      "tensor_tensor.shape");
}

// Halves and bytes of words, as they lie in them, by every operator that joins bits.
TEST(TensorTensor, JoinsBitsOfPartsOfWords) {
  for (const DType dtype : {DType::kUint8, DType::kInt8, DType::kUint16, DType::kInt16}) {
    const int64_t high = is_signed_integer(dtype) ? -3 : 200;
    const Integers x{12, high, 5, 1, 77, 0}, y{10, 1, high, 7, 3, 9};
    for (const AluOp op : {AluOp::kBitwiseAnd, AluOp::kBitwiseOr, AluOp::kBitwiseXor}) {
      TestKernel k;
      const Tile a = k.sbuf_of(2, 6, {12.f, float(high), 5, 1, 77, 0, 12.f, float(high), 5, 1, 77, 0}, dtype);
      const Tile b = k.sbuf_of(2, 6, {10, 1, float(high), 7, 3, 9, 10, 1, float(high), 7, 3, 9}, dtype);
      const Tile whole = k.sbuf_of(2, 6, std::vector<float>(12, 1), dtype),
                 parts = k.sbuf_of(2, 6, std::vector<float>(12, 1), dtype);
      k.run(Opcode::kTensorTensor, {k.op(whole), k.op(a), k.op(b)}, {word(op)});
      // Every other element of b beside a's, backwards through a's places in dst.
      k.run(Opcode::kTensorTensor,
            {k.op(parts, 1, {{6, 2}, {2, 3}}), k.op(a, 0, {{6, 2}, {2, 3}}), k.op(b, 1, {{6, 2}, {2, 3}})},
            {word(op)});
      const auto joined = [&](int64_t p, int64_t q) {
        return op == AluOp::kBitwiseAnd ? p & q : op == AluOp::kBitwiseOr ? p | q : p ^ q;
      };
      Integers all, some;
      for (int row = 0; row < 2; ++row)
        for (size_t i = 0; i < 6; ++i) {
          all.push_back(joined(x[i], y[i]));
          some.push_back(i % 2 == 0 ? 1 : joined(x[i - 1], y[i]));
        }
      EXPECT_EQ(k.get_integers(whole), all) << name(dtype) << " " << name(op);
      EXPECT_EQ(k.get_integers(parts), some) << name(dtype) << " " << name(op);
    }
  }
}

// A number for each run of a row, on either side, as broadcasts along the last dimension are read.
TEST(TensorTensor, TakesOneNumberForEachRun) {
  TestKernel k;
  const Tile x = k.sbuf_of(2, 6, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  const Tile numbers = k.sbuf_of(2, 2, {10, 20, 30, 40}), dst = k.sbuf(2, 6);
  const Operand each = k.op(numbers, 0, {{2, 2}, {1, 2}, {0, 3}});
  k.run(Opcode::kTensorTensor,
        {k.op(dst, 0, {{6, 2}, {3, 2}, {1, 3}}), k.op(x, 0, {{6, 2}, {3, 2}, {1, 3}}), each},
        {word(AluOp::kSubtract)});
  EXPECT_EQ(k.get(dst), (Floats{-9, -8, -7, -16, -15, -14, -23, -22, -21, -30, -29, -28}));
  k.run(Opcode::kTensorTensor,
        {k.op(dst, 0, {{6, 2}, {3, 2}, {1, 3}}), each, k.op(x, 0, {{6, 2}, {3, 2}, {1, 3}})},
        {word(AluOp::kSubtract)});
  EXPECT_EQ(k.get(dst), (Floats{9, 8, 7, 16, 15, 14, 23, 22, 21, 30, 29, 28}));
  k.run(Opcode::kTensorTensor, {k.op(dst, 0, {{6, 2}, {3, 2}, {1, 3}}), each, each}, {word(AluOp::kAdd)});
  EXPECT_EQ(k.get(dst), (Floats{20, 20, 20, 40, 40, 40, 60, 60, 60, 80, 80, 80}));
}

// Windows of images, whose runs are rows of a block: each partition's scalar is that of all its runs, and the
// sum may be the tile that is read.
TEST(ScalarTensorTensor, WindowsHaveTheScalarOfTheirPartition) {
  TestKernel k;
  const Tile image =
      k.sbuf_of(2, 12, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22});
  const Tile weight = k.sbuf_of(2, 1, {2, -1});
  const Tile sum = k.sbuf_of(2, 4, {100, 200, 300, 400, 10, 20, 30, 40});
  // Two rows of two pixels of the image's three rows of four.
  k.run(Opcode::kScalarTensorTensor,
        {k.op(sum), k.op(image, 1, {{12, 2}, {4, 2}, {1, 2}}), k.op(weight), k.op(sum)},
        {word(AluOp::kMultiply), word(AluOp::kAdd), kNo, kNo});
  EXPECT_EQ(k.get(sum), (Floats{102, 204, 310, 412, 8, 16, 20, 28}));
  // Back into a window of the image, whose other pixels stay.
  k.run(Opcode::kTensorScalar,
        {k.op(image, 1, {{12, 2}, {4, 2}, {1, 2}}), k.op(sum), k.op(weight), Operand::none()},
        {word(AluOp::kAdd), kNo, kNone, kNo});
  EXPECT_EQ(k.get(image), (Floats{0, 104, 206, 3, 4, 312, 414, 7,  8,  9,  10, 11,
                                  0, 7,   15,  6, 8, 19,  27,  14, 16, 18, 20, 22}));
  k.run(
      Opcode::kActivation,
      {k.op(sum), k.op(image, 1, {{12, 2}, {4, 2}, {1, 2}}), k.op(weight), Operand::imm(1), Operand::none()},
      {word(ActivationFunction::kRelu), word(AluOp::kAdd), word(ReduceCmd::kIdle)});
  EXPECT_EQ(k.get(sum), (Floats{106, 208, 314, 416, 6, 14, 18, 26}));
}

// The same over more partitions than runs, which are gone through run by run, and over fewer.
TEST(ScalarTensorTensor, WindowsOfAnyFormAreRunByRun) {
  for (const int64_t partitions : {1, 2, 3, 5, 40})
    for (const int64_t runs : {2, 3, 4})
      for (const int64_t run : {5, 300}) {
        const int64_t columns = (runs + 1) * (run + 3), elements = runs * run;
        Floats pixels, weights, numbers, sums;
        for (int64_t i = 0; i < partitions * columns; ++i) pixels.push_back(float(i % 251));
        for (int64_t p = 0; p < partitions; ++p) weights.push_back(float(p - 2));
        for (int64_t i = 0; i < partitions * runs; ++i) numbers.push_back(float(i % 7));
        for (int64_t i = 0; i < partitions * elements; ++i) sums.push_back(float(i % 13));
        TestKernel k;
        const Tile image = k.sbuf_of(partitions, columns, pixels), weight = k.sbuf_of(partitions, 1, weights);
        const Tile number = k.sbuf_of(partitions, runs, numbers), sum = k.sbuf_of(partitions, elements, sums);
        const Tile less = k.sbuf(partitions, elements);
        const Operand window = k.op(image, 2, {{columns, partitions}, {run + 3, runs}, {1, run}});
        k.run(Opcode::kScalarTensorTensor, {k.op(sum), window, k.op(weight), k.op(sum)},
              {word(AluOp::kMultiply), word(AluOp::kAdd), kNo, kNo});
        k.run(Opcode::kTensorTensor,
              {k.op(less, 0, {{elements, partitions}, {run, runs}, {1, run}}),
               k.op(sum, 0, {{elements, partitions}, {run, runs}, {1, run}}),
               k.op(number, 0, {{runs, partitions}, {1, runs}, {0, run}})},
              {word(AluOp::kSubtract)});
        Floats expected_sum, expected_less;
        for (int64_t p = 0; p < partitions; ++p)
          for (int64_t i = 0; i < elements; ++i) {
            const int64_t at = 2 + i / run * (run + 3) + i % run;
            expected_sum.push_back(pixels[size_t(p * columns + at)] * weights[size_t(p)] +
                                   sums[size_t(p * elements + i)]);
            expected_less.push_back(expected_sum.back() - numbers[size_t(p * runs + i / run)]);
          }
        EXPECT_EQ(k.get(sum), expected_sum) << partitions << " " << runs << " " << run;
        EXPECT_EQ(k.get(less), expected_less) << partitions << " " << runs << " " << run;
      }
}

TEST(TensorScalar, TwoOperatorsReversedAndVectorOperands) {
  TestKernel k;
  const Tile data = k.sbuf_of(2, 2, {1, 2, 3, 4}), v = k.sbuf_of(2, 1, {10, 100}), dst = k.sbuf(2, 2);
  k.run(Opcode::kTensorScalar, {k.op(dst), k.op(data), Operand::imm(1), k.op(v)},
        {word(AluOp::kSubtract), kYes, word(AluOp::kMultiply), kNo});
  EXPECT_EQ(k.get(dst), (Floats{0, -10, -200, -300}));
  k.run(Opcode::kTensorScalar, {k.op(dst), k.op(data), k.op(v), Operand::none()},
        {word(AluOp::kAdd), kNo, kNone, kNo});
  EXPECT_EQ(k.get(dst), (Floats{11, 12, 103, 104}));
  const Tile bits = k.sbuf_of(1, 2, {6, 9}, DType::kInt32);
  k.run(Opcode::kTensorScalar, {k.op(bits), k.op(bits), Operand::imm(3), Operand::imm(1)},
        {word(AluOp::kBitwiseAnd), kNo, word(AluOp::kLeftShift), kNo});
  EXPECT_EQ(k.get_integers(bits), (Integers{4, 2}));
}

TEST(ScalarTensorTensor, IsTheTwoStepsAlsoInPlace) {
  TestKernel k;
  const Tile data = k.sbuf_of(1, 3, {1, 2, 3}), b = k.sbuf_of(1, 3, {10, 20, 30});
  k.run(Opcode::kScalarTensorTensor, {k.op(b), k.op(data), Operand::imm(2), k.op(b)},
        {word(AluOp::kMultiply), word(AluOp::kSubtract), kNo, kYes});
  EXPECT_EQ(k.get(b), (Floats{8, 16, 24}));
}

TEST(Reciprocal, IsOneOverX) {
  TestKernel k;
  const Tile t = k.sbuf_of(1, 3, {2, -4, 0});
  k.run(Opcode::kReciprocal, {k.op(t), k.op(t)});
  EXPECT_EQ(k.get(t), (Floats{0.5f, -0.25f, INFINITY}));
}

TEST(TensorReduce, TrailingAxesNegateAndBits) {
  TestKernel k;
  const Tile data = k.sbuf_of(1, 6, {1, 2, 3, 4, 5, 6}), rows = k.sbuf(1, 2), all = k.sbuf(1, 1);
  const Operand shaped = k.op(data, 0, {{6, 1}, {3, 2}, {1, 3}});
  k.run(Opcode::kTensorReduce, {k.op(rows), shaped}, {word(AluOp::kAdd), word(int64_t{1}), kYes});
  EXPECT_EQ(k.get(rows), (Floats{-6, -15}));
  k.run(Opcode::kTensorReduce, {k.op(all), shaped}, {word(AluOp::kMaximum), word(int64_t{2}), kNo});
  EXPECT_EQ(k.get(all), (Floats{6}));
  const Tile bits = k.sbuf_of(1, 3, {1, 4, 4}, DType::kUint16), bit = k.sbuf(1, 1, DType::kUint16);
  k.run(Opcode::kTensorReduce, {k.op(bit), k.op(bits)}, {word(AluOp::kBitwiseXor), word(int64_t{1}), kNo});
  EXPECT_EQ(k.get_integers(bit), (Integers{1}));
}

TEST(TensorScalarReduce, KeepsARunningResult) {
  TestKernel k;
  const Tile data = k.sbuf_of(2, 2, {1, 2, 3, 4}), dst = k.sbuf(2, 2), sum = k.sbuf(2, 1);
  const auto run = [&](ReduceCmd cmd, Operand res, Operand init, bool negate) {
    k.run(Opcode::kTensorScalarReduce, {k.op(dst), k.op(data), Operand::imm(10), res, init},
          {word(AluOp::kMultiply), kNo, word(AluOp::kAdd), word(cmd), word(int64_t{negate})});
  };
  EXPECT_EQ(fault_of([&] { run(ReduceCmd::kReduce, k.op(sum), Operand::none(), false); }).label(),
            "sim.undefined_accumulator");
  run(ReduceCmd::kResetReduce, Operand::none(), Operand::none(), false);
  run(ReduceCmd::kReduce, k.op(sum), Operand::none(), true);
  EXPECT_EQ(k.get(dst), (Floats{10, 20, 30, 40}));
  EXPECT_EQ(k.get(sum), (Floats{-60, -140}));
  run(ReduceCmd::kLoadReduce, k.op(sum), Operand::imm(1000), false);
  EXPECT_EQ(k.get(sum), (Floats{1030, 1070}));
}

TEST(TensorScalarCumulative, ContinuesAcrossCalls) {
  TestKernel k;
  const Tile src = k.sbuf_of(1, 3, {1, 2, 3}), dst = k.sbuf(1, 3);
  const auto run = [&](ReduceCmd cmd) {
    k.run(Opcode::kTensorScalarCumulative, {k.op(dst), k.op(src), Operand::imm(1), Operand::imm(5)},
          {word(AluOp::kAdd), word(AluOp::kAdd), word(cmd), kNo});
    return k.get(dst);
  };
  EXPECT_EQ(run(ReduceCmd::kResetReduce), (Floats{2, 5, 9}));
  EXPECT_EQ(run(ReduceCmd::kReduce), (Floats{11, 14, 18}));
  EXPECT_EQ(run(ReduceCmd::kLoadReduce), (Floats{7, 10, 14}));
}

TEST(TensorTensorScan, IsALinearRecurrence) {
  TestKernel k;
  const Tile a = k.sbuf_of(1, 3, {2, 3, 4}), b = k.sbuf_of(1, 3, {1, 1, 1}), dst = k.sbuf(1, 3);
  k.run(Opcode::kTensorTensorScan, {k.op(dst), k.op(a), k.op(b), Operand::imm(1)},
        {word(AluOp::kMultiply), word(AluOp::kAdd), kNo, kNo});
  EXPECT_EQ(k.get(dst), (Floats{3, 10, 41}));
}

TEST(TensorPartitionReduce, SumAverageAndBits) {
  TestKernel k;
  const Tile data = k.sbuf_of(3, 2, {1, 2, 3, 4, 5, 9}), dst = k.sbuf(1, 2);
  k.run(Opcode::kTensorPartitionReduce, {k.op(dst), k.op(data)}, {word(AluOp::kAdd)});
  EXPECT_EQ(k.get(dst), (Floats{9, 15}));
  k.run(Opcode::kTensorPartitionReduce, {k.op(dst), k.op(data)}, {word(AluOp::kAverage)});
  EXPECT_EQ(k.get(dst), (Floats{3, 5}));
  const Tile bits = k.sbuf_of(2, 1, {5, 6}, DType::kUint8), bit = k.sbuf(1, 1, DType::kUint8);
  k.run(Opcode::kTensorPartitionReduce, {k.op(bit), k.op(bits)}, {word(AluOp::kBitwiseAnd)});
  EXPECT_EQ(k.get_integers(bit), (Integers{4}));
}

TEST(Activation, ScaleBiasAndReduceRegisters) {
  TestKernel k;
  const Tile data = k.sbuf_of(2, 2, {1, 2, -3, 4}), bias = k.sbuf_of(2, 1, {0, 1}), dst = k.sbuf(2, 2),
             sum = k.sbuf(2, 1);
  const auto run = [&](ReduceCmd cmd, Operand res) {
    k.run(Opcode::kActivation, {k.op(dst), k.op(data), k.op(bias), Operand::imm(2), res},
          {word(ActivationFunction::kRelu), word(AluOp::kAdd), word(cmd)});
  };
  run(ReduceCmd::kIdle, Operand::none());
  EXPECT_EQ(k.get(dst), (Floats{2, 4, 0, 9}));
  run(ReduceCmd::kResetReduce, Operand::none());
  run(ReduceCmd::kReduce, k.op(sum));
  EXPECT_EQ(k.get(sum), (Floats{12, 18}));
  k.run(Opcode::kActivationReduce, {k.op(dst), k.op(data), Operand::none(), Operand::imm(1), k.op(sum)},
        {word(ActivationFunction::kSquare), word(AluOp::kAdd), word(ReduceCmd::kIdle)});
  EXPECT_EQ(k.get(sum), (Floats{5, 25}));
}

TEST(Activate2, ThreeStages) {
  TestKernel k(Generation::kV4);
  const Tile data = k.sbuf_of(1, 3, {1, 2, 3}), dst = k.sbuf(1, 3), best = k.sbuf(1, 1);
  k.run(Opcode::kActivate2,
        {k.op(dst), k.op(data), Operand::imm(2), Operand::imm(5), Operand::imm(0.5), k.op(best)},
        {word(ActivationFunction::kPrelu), word(AluOp::kMultiply), word(AluOp::kSubtract), kNo, kNo,
         word(AluOp::kMaximum), word(ReduceCmd::kResetReduce)});
  EXPECT_EQ(k.get(dst), (Floats{-1.5f, -0.5f, 1}));
  EXPECT_EQ(k.get(best), (Floats{1}));
}

TEST(Exponential, SumsOnTheVectorEngineAndIdleUndefinesTheSum) {
  TestKernel k(Generation::kV4);
  const Tile src = k.sbuf_of(1, 2, {3, 3}), dst = k.sbuf(1, 2), sum = k.sbuf(1, 1);
  const auto run = [&](ReduceCmd cmd, Operand res) {
    k.run(Opcode::kExponential, {k.op(dst), k.op(src), Operand::imm(3), res, Operand::imm(0)}, {word(cmd)});
  };
  run(ReduceCmd::kResetReduce, k.op(sum));
  EXPECT_EQ(k.get(dst), (Floats{1, 1}));
  EXPECT_EQ(k.get(sum), (Floats{2}));
  run(ReduceCmd::kIdle, Operand::none());
  EXPECT_EQ(fault_of([&] { run(ReduceCmd::kReduce, k.op(sum)); }).label(), "sim.undefined_accumulator");
}

TEST(SelectReduce, WhereAndMaximum) {
  TestKernel k;
  const Tile p = k.sbuf_of(1, 3, {1, 0, 2}, DType::kUint8), t = k.sbuf_of(1, 3, {1, 2, 3}),
             dst = k.sbuf(1, 3), best = k.sbuf(1, 1);
  k.run(Opcode::kSelectReduce, {k.op(dst), k.op(p), k.op(t), Operand::imm(-7), k.op(best)},
        {word(ReduceCmd::kResetReduce), word(AluOp::kMaximum), kNo});
  EXPECT_EQ(k.get(dst), (Floats{1, -7, 3}));
  EXPECT_EQ(k.get(best), (Floats{3}));
  k.run(Opcode::kSelectReduce, {k.op(dst), k.op(p), k.op(t), Operand::imm(-7), Operand::none()},
        {word(ReduceCmd::kIdle), word(AluOp::kMaximum), kYes});
  EXPECT_EQ(k.get(dst), (Floats{-7, 2, -7}));
}

TEST(RangeSelect, KeepsPositionsInsideBounds) {
  TestKernel k;
  const Tile t = k.sbuf_of(1, 4, {1, 2, 3, 4}), low = k.sbuf_of(1, 1, {11}), high = k.sbuf_of(1, 1, {13});
  const Tile dst = k.sbuf(1, 4), best = k.sbuf(1, 1);
  k.run(Opcode::kRangeSelect, {k.op(dst), k.op(t), k.op(low), k.op(high), k.op(best)},
        {word(AluOp::kGreaterEqual), word(AluOp::kLess), word(ReduceCmd::kResetReduce), word(AluOp::kMaximum),
         word_real(10), word_real(-3.4028235e+38)});
  EXPECT_EQ(k.get(dst), (Floats{-3.4028235e+38f, 2, 3, -3.4028235e+38f}));
  EXPECT_EQ(k.get(best), (Floats{3}));
}

TEST(IotaAndAffineSelect, AffineValues) {
  TestKernel k;
  const Tile i = k.sbuf(2, 4, DType::kInt32), f = k.sbuf(2, 4);
  k.run(Opcode::kIota, {k.op(i)}, {word(k.list({10, 2, -1, 2})), word(int64_t{5}), word(int64_t{100})});
  EXPECT_EQ(k.get_integers(i), (Integers{5, 4, 15, 14, 105, 104, 115, 114}));
  k.run(Opcode::kIota, {k.op(f)}, {word(k.list({1, 4})), word(int64_t{0}), word(int64_t{0})});
  EXPECT_EQ(k.get(f), (Floats{0, 1, 2, 3, 0, 1, 2, 3}));
  // Causal: keep column <= partition.
  k.run(
      Opcode::kAffineSelect, {k.op(f), k.op(f)},
      {word(k.list({-1, 4})), word(int64_t{1}), word(int64_t{0}), word_real(-9), word(AluOp::kGreaterEqual)});
  EXPECT_EQ(k.get(f), (Floats{0, -9, -9, -9, 0, 1, -9, -9}));
}

TEST(BatchNorm, StatisticsAndTheirAggregation) {
  TestKernel k;
  const Tile data = k.sbuf_of(1, 5, {1, 2, 3, 4, 5}), stats = k.sbuf(1, 6), result = k.sbuf(1, 2);
  k.run(Opcode::kBnStats, {k.op(stats), k.op(data)});
  EXPECT_EQ(k.get(stats), (Floats{3, 3, 8, 2, 3, 2}));
  k.run(Opcode::kBnAggr, {k.op(result), k.op(stats)});
  EXPECT_EQ(k.get(result), (Floats{3, 2}));
}

TEST(Search, EightLargestTheirIndicesAndReplacement) {
  TestKernel k;
  const Tile data = k.sbuf_of(1, 11, {1, 2, 3, 4, 8, 8, 8, 8, 8, 8, 8});
  const Tile best = k.sbuf(1, 8), index = k.sbuf(1, 8, DType::kUint32), out = k.sbuf(1, 11);
  k.run(Opcode::kMax8, {k.op(best), k.op(data)});
  EXPECT_EQ(k.get(best), (Floats{8, 8, 8, 8, 8, 8, 8, 4}));
  const Tile vals = k.sbuf_of(1, 8, {3, 8, 8, 8, 8, 8, 8, 77});
  k.run(Opcode::kNcFindIndex8, {k.op(index), k.op(data), k.op(vals)});
  EXPECT_EQ(k.get_integers(index), (Integers{2, 4, 5, 6, 7, 8, 9, 0xffffffff}));
  // The example of the documentation.
  k.set(vals, {3, 8, 8, 8, 8, 8, 8, 8});
  k.run(Opcode::kNcMatchReplace8, {k.op(out), k.op(data), k.op(vals), k.op(index)}, {word_real(0)});
  EXPECT_EQ(k.get_integers(index), (Integers{2, 10, 9, 8, 7, 6, 5, 4}));
  EXPECT_EQ(k.get(out), (Floats{1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0}));
}

TEST(SequenceBounds, RunsAndPadding) {
  TestKernel k;
  const Tile ids = k.sbuf_of(1, 5, {1, 1, 2, 0, 0}), dst = k.sbuf(1, 10);
  k.run(Opcode::kSequenceBounds, {k.op(dst), k.op(ids)});
  EXPECT_EQ(k.get(dst), (Floats{0, 0, 2, 5, 5, 2, 2, 3, -1, -1}));
}

TEST(NonzeroWithCount, WritesOneRowPerGpSimdCore) {
  TestKernel k;
  Floats values(17 * 8, 1.0f);
  const Floats row = {0, 1, 1, 0, 0, 1, 0, 0};
  std::copy(row.begin(), row.end(), values.begin());
  const Tile src = k.sbuf_of(17, 8, values), dst = k.sbuf_of(17, 9, Floats(17 * 9, -5), DType::kInt32);
  k.run(Opcode::kNonzeroWithCount, {k.op(dst), k.op(src)}, {word(int64_t{16}), word(int64_t{-1})});
  const Integers out = k.get_integers(dst);
  EXPECT_EQ(Integers(out.begin(), out.begin() + 9), (Integers{17, 18, 21, -1, -1, -1, -1, -1, 3}));
  EXPECT_EQ(out[9], -5);          // partition 1 is left alone
  EXPECT_EQ(out[16 * 9 + 8], 8);  // partition 16
}

TEST(Topk, AscendingOverTheSnake) {
  TestKernel k;
  Floats values(16 * 2);
  for (int p = 0; p < 16; ++p)
    values[2 * p] = static_cast<float>(p), values[2 * p + 1] = static_cast<float>(100 - p);
  const Tile src = k.sbuf_of(16, 2, values, DType::kBFloat16);
  const Tile best = k.sbuf(16, 3, DType::kBFloat16), index = k.sbuf(16, 3, DType::kUint32);
  k.run(Opcode::kTopk, {k.op(best), k.op(index), k.op(src)}, {word(int64_t{18})});
  const Floats out = k.get(best);
  EXPECT_EQ(Floats(out.begin(), out.begin() + 3), (Floats{15, 99, 100}));
  EXPECT_EQ(k.get_integers(index)[0], 15);
  EXPECT_EQ(k.get_integers(index)[1], 17);
  EXPECT_EQ(k.get_integers(index)[2], 16);
}

TEST(Random, SameSeedSameNumbers) {
  TestKernel k(Generation::kV4);
  const Tile seed = k.sbuf_of(1, 1, {42}, DType::kInt32);
  const Tile a = k.sbuf(2, 8, DType::kUint32), b = k.sbuf(2, 8, DType::kUint32),
             c = k.sbuf(2, 8, DType::kUint32);
  k.run(Opcode::kSetRngSeed, {k.op(seed)});
  k.run(Opcode::kRng, {k.op(a)});
  k.run(Opcode::kRng, {k.op(b)});
  k.run(Opcode::kSetRngSeed, {k.op(seed)});
  k.run(Opcode::kRng, {k.op(c)});
  EXPECT_EQ(k.get_integers(a), k.get_integers(c));
  EXPECT_NE(k.get_integers(a), k.get_integers(b));
}

TEST(Random, StateRoundTripsOnBothEngines) {
  TestKernel k(Generation::kV4);
  for (const auto& [engine, words] :
       {std::pair{isa::Engine::kGpSimd, 6}, std::pair{isa::Engine::kVector, 24}}) {
    Floats values(static_cast<size_t>(2 * words));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + 1);
    const Tile state = k.sbuf_of(2, words, values, DType::kUint32), read = k.sbuf(2, words, DType::kUint32);
    k.run(Opcode::kRandSetState, {k.op(state)}, {}, engine);
    k.run(Opcode::kRandGetState, {k.op(read)}, {}, engine);
    EXPECT_EQ(k.get_integers(read), k.get_integers(state));
  }
}

TEST(Random, UniformAndDropout) {
  TestKernel k(Generation::kV4);
  const Tile u = k.sbuf(4, 256), d = k.sbuf(4, 256);
  k.run(Opcode::kRand2, {k.op(u), Operand::imm(2), Operand::imm(3)});
  for (float v : k.get(u)) EXPECT_TRUE(v >= 2 && v <= 3);
  k.run(Opcode::kDropout, {k.op(d), k.op(u), Operand::imm(0.25)});
  const Floats dropped = k.get(d), kept = k.get(u);
  int zeros = 0;
  for (size_t i = 0; i < dropped.size(); ++i) {
    EXPECT_TRUE(dropped[i] == 0 || dropped[i] == kept[i]);
    zeros += dropped[i] == 0;
  }
  EXPECT_GT(zeros, 150);  // 256 of 1024 expected, deviation 14
  EXPECT_LT(zeros, 360);
  k.run(Opcode::kDropout, {k.op(d), k.op(u), Operand::imm(1)});
  EXPECT_EQ(k.get(d), Floats(1024, 0));
  k.run(Opcode::kDropout, {k.op(d), k.op(u), Operand::imm(0)});
  EXPECT_EQ(k.get(d), kept);
}

TEST(Threads, ElementwiseAndReductionsDoNotDependOnThem) {
  ThreadPool pool(2);
  const auto results = [](ThreadPool* p) {
    TestKernel k(Generation::kV3, p);
    Floats values(128 * 1000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
    const Tile a = k.sbuf_of(128, 1000, values, DType::kBFloat16), b = k.sbuf_of(128, 1000, values),
               v = k.sbuf(128, 1);
    const Tile dst = k.sbuf(128, 1000), narrow = k.sbuf(128, 1000, DType::kBFloat16), sum = k.sbuf(128, 1);
    k.run(Opcode::kTensorTensor, {k.op(dst), k.op(a), k.op(b)}, {word(AluOp::kMultiply)});
    k.run(Opcode::kTensorReduce, {k.op(v), k.op(dst)},
          {word(AluOp::kAdd), word(int64_t{1}), word(int64_t{0})});
    k.run(Opcode::kActivation, {k.op(narrow), k.op(dst), k.op(v), Operand::imm(0.5), k.op(sum)},
          {word(ActivationFunction::kExp), word(AluOp::kAdd), word(ReduceCmd::kResetReduce)});
    Floats all = k.get(narrow);
    for (float x : k.get(sum)) all.push_back(x);
    return all;
  };
  const Floats one = results(nullptr), two = results(&pool);
  ASSERT_EQ(one.size(), two.size());
  for (size_t i = 0; i < one.size(); ++i)
    ASSERT_EQ(std::bit_cast<uint32_t>(one[i]), std::bit_cast<uint32_t>(two[i])) << i;
}

}  // namespace
}  // namespace opentrn::sim::compute_tests
