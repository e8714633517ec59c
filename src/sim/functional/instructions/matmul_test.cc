#include "numerics/matmul.h"
#include "base/random.h"
#include "numerics/mx.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::matmul_tests {
namespace {

using isa::Opcode;
using isa::Operand;
using Floats = std::vector<float>;

constexpr int64_t kAutomatic = -1, kOverwrite = 0, kAdd = 1;

class MatmulTest : public ::testing::Test {
 protected:
  TestKernel k;
  void matmul(TestKernel& kernel, Operand dst, Operand stationary, Operand moving, int64_t accumulate,
              bool transpose = false, int64_t perf_mode = 0) {
    const auto zero = word(int64_t{0});
    kernel.run(
        Opcode::kNcMatmul, {dst, stationary, moving},
        {word(accumulate), zero, zero, word(int64_t{transpose}), zero, zero, zero, zero, word(perf_mode)},
        isa::Engine::kTensor);
  }
};

TEST_F(MatmulTest, IsStationaryTransposedTimesMoving) {
  const Tile a = k.sbuf_of(2, 3, {1, 2, 3, 4, 5, 6}, DType::kBFloat16),
             b = k.sbuf_of(2, 2, {1, 10, 100, 1000}, DType::kBFloat16);
  const Tile dst = k.psum(3, 2);
  matmul(k, k.op(dst), k.op(a), k.op(b), kOverwrite);
  EXPECT_EQ(k.get(dst), (Floats{401, 4010, 502, 5020, 603, 6030}));
  matmul(k, k.op(dst), k.op(a), k.op(b), kAdd);
  EXPECT_EQ(k.get(dst)[0], 802);
}

TEST_F(MatmulTest, AutomaticOverwritesFirstThenAccumulatesPerElement) {
  const Tile one = k.sbuf_of(1, 1, {1}), b = k.sbuf_of(1, 4, {1, 2, 3, 4});
  const Tile dst = k.psum(1, 4);
  matmul(k, k.op(dst, 0, {{4, 1}, {1, 2}}), k.op(one), k.op(b, 0, {{4, 1}, {1, 2}}), kAutomatic);
  matmul(k, k.op(dst), k.op(one), k.op(b), kAutomatic);  // two elements written, two not
  EXPECT_EQ(k.get(dst), (Floats{2, 4, 3, 4}));
  matmul(k, k.op(dst), k.op(one), k.op(b), kAutomatic);
  EXPECT_EQ(k.get(dst), (Floats{3, 6, 6, 8}));
}

TEST_F(MatmulTest, AccumulatingOntoPsumThatNoMatmulWroteIsAFault) {
  const Tile a = k.sbuf_of(1, 1, {1}), dst = k.psum(1, 1);
  EXPECT_EQ(fault_of([&] { matmul(k, k.op(dst), k.op(a), k.op(a), kAdd); }).label(),
            "nc_matmul.accumulate_uninitialised");
  k.run(Opcode::kMemset, {k.op(dst), Operand::imm(5)});
  EXPECT_EQ(fault_of([&] { matmul(k, k.op(dst), k.op(a), k.op(a), kAdd); }).label(),
            "nc_matmul.accumulate_uninitialised");
  // After another engine wrote it, automatic starts over on v3 and accumulates on v4.
  matmul(k, k.op(dst), k.op(a), k.op(a), kAutomatic);
  EXPECT_EQ(k.get(dst), (Floats{1}));
  TestKernel v4(Generation::kV4);
  const Tile a4 = v4.sbuf_of(1, 1, {1}), dst4 = v4.psum(1, 1);
  v4.run(Opcode::kMemset, {v4.op(dst4), Operand::imm(5)});
  matmul(v4, v4.op(dst4), v4.op(a4), v4.op(a4), kAdd);
  EXPECT_EQ(v4.get(dst4), (Floats{6}));
}

TEST_F(MatmulTest, TransposeModeMovesBitsEitherWay) {
  const Tile data = k.sbuf_of(2, 3, {1, INFINITY, 3, 4, 5, 6}, DType::kBFloat16);
  const Tile identity = k.sbuf_of(2, 2, {1, 0, 0, 1}, DType::kBFloat16), dst = k.psum(3, 2, DType::kBFloat16);
  matmul(k, k.op(dst), k.op(data), k.op(identity), kOverwrite, true);
  EXPECT_EQ(k.get(dst), (Floats{1, 4, INFINITY, 5, 3, 6}));
  const Tile same = k.psum(2, 3, DType::kBFloat16);
  matmul(k, k.op(same), k.op(identity), k.op(data), kOverwrite, true);
  EXPECT_EQ(k.get(same), (Floats{1, INFINITY, 3, 4, 5, 6}));
  EXPECT_EQ(
      fault_of([&] { matmul(k, k.op(k.psum(3, 3)), k.op(data), k.op(data), kOverwrite, true); }).label(),
      "nc_matmul.is_transpose");
}

TEST_F(MatmulTest, DoubleRowContractsOverTheFirstFreeDimensionToo) {
  // Two partitions, two values each: [K=2][2][M=1] and [K=2][2][N=2].
  const Tile a = k.sbuf_of(2, 2, {1, 2, 3, 4}, DType::kFloat8E4M3),
             b = k.sbuf_of(2, 4, {1, 2, 3, 4, 5, 6, 7, 8}, DType::kFloat8E4M3);
  const Tile dst = k.psum(1, 2);
  matmul(k, k.op(dst), k.op(a, 0, {{2, 2}, {1, 2}, {1, 1}}), k.op(b, 0, {{4, 2}, {2, 2}, {1, 2}}), kOverwrite,
         false, 1);
  const Floats product = {1 * 1 + 2 * 3 + 3 * 5 + 4 * 7, 1 * 2 + 2 * 4 + 3 * 6 + 4 * 8};
  EXPECT_EQ(k.get(dst), product);
  // The same within wider tiles.
  const Tile wide_a = k.sbuf_of(2, 3, {1, 2, 9, 3, 4, 9}, DType::kFloat8E4M3),
             wide_b = k.sbuf_of(2, 5, {9, 1, 2, 3, 4, 9, 5, 6, 7, 8}, DType::kFloat8E5M2);
  matmul(k, k.op(dst), k.op(wide_a, 0, {{3, 2}, {1, 2}, {1, 1}}), k.op(wide_b, 1, {{5, 2}, {2, 2}, {1, 2}}),
         kOverwrite, false, 1);
  EXPECT_EQ(k.get(dst), product);
}

TEST_F(MatmulTest, ShapesMustAgree) {
  const Tile a = k.sbuf_of(2, 2, {1, 2, 3, 4}), b = k.sbuf_of(1, 2, {1, 2}), dst = k.psum(2, 2);
  EXPECT_EQ(fault_of([&] { matmul(k, k.op(dst), k.op(a), k.op(b), kOverwrite); }).label(), "nc_matmul.shape");
}

TEST_F(MatmulTest, FullTileEqualsTheReferenceOnAnyNumberOfThreads) {
  ThreadPool pool(2);
  for (ThreadPool* threads : {static_cast<ThreadPool*>(nullptr), &pool}) {
    TestKernel kernel(Generation::kV3, threads);
    SplitMix64 random(7);
    Floats a(128 * 128), b(128 * 512), expected(128 * 512);
    for (float& x : a) x = static_cast<float>(random.uniform() - 0.5);
    for (float& x : b) x = static_cast<float>(random.uniform() - 0.5);
    const Tile s = kernel.sbuf_of(128, 128, a, DType::kBFloat16),
               m = kernel.sbuf_of(128, 512, b, DType::kBFloat16);
    const Tile dst = kernel.psum(128, 512);
    matmul(kernel, kernel.op(dst), kernel.op(s), kernel.op(m), kAutomatic);
    matmul(kernel, kernel.op(dst), kernel.op(s), kernel.op(m), kAutomatic);
    a = kernel.get(s);
    b = kernel.get(m);
    for (bool accumulate : {false, true})
      numerics::matmul_tile_reference(
          {{a.data(), 128}, {b.data(), 512}, expected.data(), 128, 128, 512, 512, accumulate});
    EXPECT_EQ(kernel.get(dst), expected);
  }
}

TEST_F(MatmulTest, Bfloat16PsumRoundsAfterEveryAccumulation) {
  TestKernel v4(Generation::kV4);
  const Tile one = v4.sbuf_of(1, 1, {1}, DType::kBFloat16), b = v4.sbuf_of(1, 1, {256}, DType::kBFloat16);
  const Tile dst = v4.psum(1, 1, DType::kBFloat16);
  matmul(v4, v4.op(dst), v4.op(one), v4.op(b), kOverwrite);
  matmul(v4, v4.op(dst), v4.op(one), v4.op(one), kAdd);
  EXPECT_EQ(v4.get(dst), (Floats{256}));
}

TEST(QuantizeMx, ThenMatmulMxGivesTheProductOfExactValues) {
  TestKernel k(Generation::kV4);
  // Values that MXFP8 holds exactly: small integers.
  Floats a(32 * 8), b(32 * 16);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(static_cast<int>(i * 7 % 9) - 4);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(static_cast<int>(i * 5 % 7) - 3);
  const Tile a_src = k.sbuf_of(32, 8, a, DType::kBFloat16), b_src = k.sbuf_of(32, 16, b, DType::kBFloat16);
  const Tile a_q = k.sbuf(32, 2, DType::kFloat8E4M3FnX4), b_q = k.sbuf(32, 4, DType::kFloat8E4M3FnX4);
  const Tile a_scale = k.sbuf(32, 2, DType::kUint8), b_scale = k.sbuf(32, 4, DType::kFloat8E8M0Fnu);
  const Tile dst = k.psum(2, 4);
  const auto zero = word(int64_t{0});
  k.run(Opcode::kQuantizeMx, {k.op(a_q), k.op(a_src), k.op(a_scale)}, {zero});
  k.run(Opcode::kQuantizeMx, {k.op(b_q), k.op(b_src), k.op(b_scale)}, {zero});
  k.run(Opcode::kNcMatmulMx, {k.op(dst), k.op(a_q), k.op(b_q), k.op(a_scale), k.op(b_scale)},
        {zero, zero, zero, zero, zero});
  const Floats out = k.get(dst);
  for (int m = 0; m < 2; ++m)
    for (int n = 0; n < 4; ++n) {
      float sum = 0;
      for (int p = 0; p < 32; ++p)
        for (int j = 0; j < 4; ++j) sum += a[p * 8 + m * 4 + j] * b[p * 16 + n * 4 + j];
      EXPECT_EQ(out[m * 4 + n], sum) << m << " " << n;
    }
}

TEST(NcMatmulSparse, TagsChooseTheRowsOfMoving) {
  TestKernel k;
  // 2:4: groups of two partitions, four positions; moving [2, 2, 1] holds positions 0..3.
  const Tile stationary = k.sbuf_of(2, 4, {1, 2, 3, 4, 10, 20, 30, 40});
  const Tile moving = k.sbuf_of(2, 2, {1, 2, 3, 4});
  // Column m of stationary: tags of its two kept values.
  const auto packed = [](int a, int b, int c, int d) {
    return static_cast<float>(a | b << 4 | c << 8 | d << 12);
  };
  const Tile tags = k.sbuf_of(2, 1, {packed(0, 0, 1, 2), packed(1, 3, 2, 3)}, DType::kUint16);
  const Tile dst = k.psum(4, 1);
  k.run(Opcode::kNcMatmulSparse,
        {k.op(dst), k.op(stationary), k.op(moving, 0, {{2, 2}, {1, 2}, {1, 1}}), k.op(tags)},
        {word(int64_t{0}), word(int64_t{204})});
  EXPECT_EQ(k.get(dst), (Floats{1 * 1 + 10 * 2, 2 * 1 + 20 * 4, 3 * 2 + 30 * 3, 4 * 3 + 40 * 4}));
}

TEST(NcMatmulSparse, ATagStandsOnceInAGroup) {
  TestKernel k;
  const Tile stationary = k.sbuf_of(2, 4, {1, 2, 3, 4, 10, 20, 30, 40});
  const Tile moving = k.sbuf_of(2, 2, {1, 2, 3, 4});
  // Both values of column 2 say position 2.
  const auto packed = [](int a, int b, int c, int d) {
    return static_cast<float>(a | b << 4 | c << 8 | d << 12);
  };
  const Tile tags = k.sbuf_of(2, 1, {packed(0, 0, 2, 2), packed(1, 3, 2, 3)}, DType::kUint16);
  const Tile dst = k.psum(4, 1);
  try {
    k.run(Opcode::kNcMatmulSparse,
          {k.op(dst), k.op(stationary), k.op(moving, 0, {{2, 2}, {1, 2}, {1, 1}}), k.op(tags)},
          {word(int64_t{0}), word(int64_t{204})});
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kProgram);
    EXPECT_NE(std::string(fault.what()).find("tag 2 at [1, 2] stands twice"), std::string::npos)
        << fault.what();
  }
}

}  // namespace
}  // namespace opentrn::sim::matmul_tests
