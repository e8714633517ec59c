#include "numerics/alu.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/fault.h"
#include "base/random.h"
#include "numerics/power.h"
#include "numerics/simd_targets.h"

namespace opentrn::numerics {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

std::vector<AluOp> float_ops() {
  std::vector<AluOp> ops;
  for (int i = 0; i < kAluOpCount; ++i) {
    if (!is_bitvec(static_cast<AluOp>(i))) ops.push_back(static_cast<AluOp>(i));
  }
  return ops;
}

// Ordinary numbers, small integers (so that values meet), special values, any bits.
std::vector<float> mixed_row(uint64_t seed, size_t n) {
  const float special[] = {0.0f, -0.0f, kInfinity, -kInfinity, kNan,           -kNan,
                           1.0f, -1.0f, 0x1p-149f, -0x1p-130f, 0x1.fffffep127f};
  SplitMix64 rng(seed);
  std::vector<float> row(n);
  for (float& x : row) {
    switch (rng.below(4)) {
      case 0: x = static_cast<float>(rng.uniform() * 8 - 4); break;
      case 1: x = static_cast<float>(static_cast<int>(rng.below(7)) - 3); break;
      case 2: x = special[rng.below(std::size(special))]; break;
      default: x = std::bit_cast<float>(rng.next32());
    }
  }
  return row;
}

uint32_t bits(float x) { return std::bit_cast<uint32_t>(x); }

class AluSimd : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { force_simd_target(GetParam()); }
  void TearDown() override { force_simd_target(""); }
};
INSTANTIATE_TEST_SUITE_P(Simd, AluSimd, testing::ValuesIn(simd_targets()),
                         [](const auto& info) { return info.param; });

// Both operators in one pass: the bits of one after the other, or nothing done.
TEST_P(AluSimd, ScalarTensorTensorIsBothOperatorsInTurn) {
  constexpr size_t kRows = 3, kN = 203, kPitch = 211;
  const std::vector<float> a = mixed_row(1, kRows * kPitch), b = mixed_row(2, kRows * kPitch);
  const float scalars[] = {1.5f, kNan, -0.0f};
  int in_one_pass = 0;
  for (const AluOp op0 : float_ops()) {
    for (const AluOp op1 : float_ops()) {
      for (int reversed = 0; reversed < 4; ++reversed) {
        const bool reverse0 = reversed & 1, reverse1 = reversed & 2;
        std::vector<float> out = b, first(kRows * kPitch), expected = b;
        if (!alu_scalar_tensor_tensor(op0, op1, {a.data(), kPitch}, {scalars, 1}, reverse0,
                                      {out.data(), kPitch}, reverse1, {out.data(), kPitch}, kRows, kN)) {
          EXPECT_TRUE(std::ranges::equal(out, b, {}, bits, bits));
          continue;
        }
        ++in_one_pass;
        alu_tensor_scalar(op0, {a.data(), kPitch}, {scalars, 1}, reverse0, {first.data(), kPitch}, kRows, kN);
        const FloatRows left{first.data(), kPitch}, right{expected.data(), kPitch};
        alu_tensor_tensor(op1, reverse1 ? right : left, reverse1 ? left : right, {expected.data(), kPitch},
                          kRows, kN);
        EXPECT_TRUE(std::ranges::equal(out, expected, {}, bits, bits))
            << name(op0) << " " << name(op1) << " " << reversed;
      }
    }
  }
  EXPECT_EQ(in_one_pass, 48);  // sums, products, differences and extremes, with a sum, product or difference
}

TEST_P(AluSimd, RowsEqualTheReferenceBitForBit) {
  const size_t n = 2011;
  const std::vector<float> a = mixed_row(1, n), b = mixed_row(2, n);
  std::vector<float> out(n), by_scalar(n), reversed(n);
  for (const AluOp op : float_ops()) {
    const float scalar = b[static_cast<size_t>(op)];
    alu_tensor_tensor(op, a.data(), b.data(), out.data(), n);
    alu_tensor_scalar(op, a.data(), scalar, false, by_scalar.data(), n);
    alu_tensor_scalar(op, a.data(), scalar, true, reversed.data(), n);
    for (size_t i = 0; i < n; ++i) {
      ASSERT_EQ(bits(out[i]), bits(alu(op, a[i], b[i]))) << name(op) << " " << a[i] << " " << b[i];
      ASSERT_EQ(bits(by_scalar[i]), bits(alu(op, a[i], scalar))) << name(op);
      ASSERT_EQ(bits(reversed[i]), bits(alu(op, scalar, a[i]))) << name(op);
    }
  }
}

TEST_P(AluSimd, RowsApartEqualRowsAlone) {
  constexpr size_t kRows = 5, kN = 37, kPitch = 64;
  const std::vector<float> a = mixed_row(3, kRows * kPitch), b = mixed_row(4, kRows * kPitch);
  for (const AluOp op : float_ops()) {
    std::vector<float> out(kRows * kPitch, 7.5f), expected = out;
    alu_tensor_tensor(op, {a.data(), kPitch}, {b.data(), 0}, {out.data(), kPitch}, kRows, kN);
    for (size_t r = 0; r < kRows; ++r)
      alu_tensor_tensor(op, a.data() + r * kPitch, b.data(), expected.data() + r * kPitch, kN);
    for (size_t i = 0; i < out.size(); ++i)
      ASSERT_EQ(bits(out[i]), bits(expected[i])) << name(op) << " " << i;
  }
}

TEST_P(AluSimd, RowsWithScalarsOfTheirOwnEqualRowsAlone) {
  constexpr size_t kRows = 5, kN = 37, kPitch = 64;
  const std::vector<float> a = mixed_row(3, kRows * kPitch), scalars = mixed_row(4, kRows);
  for (const AluOp op : float_ops()) {
    for (const bool reverse : {false, true}) {
      for (const size_t step : {0, 1}) {
        std::vector<float> out(kRows * kPitch, 7.5f), expected = out;
        alu_tensor_scalar(op, {a.data(), kPitch}, {scalars.data(), step}, reverse, {out.data(), kPitch},
                          kRows, kN);
        for (size_t r = 0; r < kRows; ++r)
          for (size_t i = 0; i < kN; ++i) {
            const float x = a[r * kPitch + i], y = scalars[r * step];
            expected[r * kPitch + i] = reverse ? alu(op, y, x) : alu(op, x, y);
          }
        for (size_t i = 0; i < out.size(); ++i)
          ASSERT_EQ(bits(out[i]), bits(expected[i])) << name(op) << " " << reverse << " " << i;
      }
    }
  }
}

// The order that alu.h writes down, literally.
float reduce_reference(AluOp op, std::vector<float> row) {
  const AluOp inner = op == AluOp::kSubtract ? AluOp::kAdd : op;
  std::vector<float> p(row.begin(), row.begin() + static_cast<long>(std::min(row.size(), kReduceLanes)));
  for (size_t i = kReduceLanes; i < row.size(); ++i)
    p[i % kReduceLanes] = alu(inner, p[i % kReduceLanes], row[i]);
  for (size_t w = 16; w > 0; w /= 2) {
    for (size_t j = 0; j + w < p.size() && j < w; ++j) p[j] = alu(inner, p[j], p[j + w]);
    p.resize(std::min(p.size(), w));
  }
  return p[0];
}

TEST_P(AluSimd, RowsAreReducedAsEachAlone) {
  constexpr size_t kRows = 70, kPitch = 150;
  std::vector<float> a = mixed_row(5, kRows * kPitch);
  for (size_t i = 0; i < a.size() / 2; ++i)
    a[i] = std::isfinite(a[i]) && std::fabs(a[i]) < 1e6f ? a[i] : 1.5f;
  const std::vector<float> init = mixed_row(6, kRows);
  for (const AluOp op : float_ops()) {
    if (!is_reduction(op) && op != AluOp::kAbsMax && op != AluOp::kAbsMin) continue;
    for (const size_t n : {1, 7, 31, 32, 33, 64, 129}) {
      std::vector<float> out(kRows), from_init = init;
      alu_reduce_rows(op, {a.data(), kPitch}, kRows, n, out.data());
      alu_reduce_rows(op, from_init.data(), {a.data(), kPitch}, kRows, n, from_init.data());
      for (size_t r = 0; r < kRows; ++r) {
        const float* const row = a.data() + r * kPitch;
        ASSERT_EQ(bits(out[r]), bits(alu_reduce(op, row, n))) << name(op) << " n " << n << " row " << r;
        ASSERT_EQ(bits(from_init[r]), bits(alu_reduce(op, init[r], row, n))) << name(op) << " n " << n;
      }
    }
  }
}

TEST(Alu, SubtractingARowStartsFromItsFirstElement) {
  const std::vector<float> row = {5, 3, 1, 7};
  EXPECT_EQ(alu_reduce(AluOp::kSubtract, row.data(), 4), -6);
  EXPECT_EQ(alu_reduce(AluOp::kSubtract, row.data(), 1), 5);
  EXPECT_EQ(alu_reduce(AluOp::kSubtract, 10, row.data(), 4), -6);
}

TEST_P(AluSimd, ReductionsFollowTheWrittenOrder) {
  for (const AluOp op : float_ops()) {
    if (!is_reduction(op) && op != AluOp::kAbsMax && op != AluOp::kAbsMin) continue;
    for (const size_t n : {1, 2, 5, 16, 31, 32, 33, 64, 100, 515}) {
      for (uint64_t seed = 0; seed < 4; ++seed) {
        std::vector<float> row = mixed_row(seed, n);
        if (seed % 2 == 0) {
          for (float& x : row) x = std::isfinite(x) && std::fabs(x) < 1e6f ? x : 1.5f;
        }
        const float expected =
            alu(op, 2.5f,
                n == 1 && op != AluOp::kAbsMax && op != AluOp::kAbsMin ? alu(AluOp::kBypass, row[0], 0)
                                                                       : reduce_reference(op, row));
        ASSERT_EQ(bits(alu_reduce(op, 2.5f, row.data(), n)), bits(expected)) << name(op) << " n " << n;
      }
    }
  }
}

TEST(Alu, ScanFollowsItsRecurrence) {
  const size_t n = 300;
  const std::vector<float> d0 = mixed_row(5, n), d1 = mixed_row(6, n);
  std::vector<float> out(n);
  for (const AluOp op0 : float_ops()) {
    for (const AluOp op1 : {AluOp::kAdd, AluOp::kMultiply, AluOp::kMaximum, AluOp::kMinimum, AluOp::kSubtract,
                            AluOp::kBypass, AluOp::kLogicalAnd}) {
      for (int reverse = 0; reverse < 4; ++reverse) {
        const bool reverse0 = (reverse & 1) != 0, reverse1 = (reverse & 2) != 0;
        alu_scan(op0, op1, d0.data(), d1.data(), 0.5f, out.data(), n, reverse0, reverse1);
        float r = 0.5f;
        for (size_t i = 0; i < n; ++i) {
          const float inner = reverse0 ? alu(op0, r, d0[i]) : alu(op0, d0[i], r);
          r = reverse1 ? alu(op1, d1[i], inner) : alu(op1, inner, d1[i]);
          ASSERT_EQ(bits(out[i]), bits(r)) << name(op0) << " " << name(op1) << " element " << i;
        }
      }
    }
  }
}

TEST_P(AluSimd, ScansOfManyRowsAreScansOfEach) {
  for (const size_t rows : {1, 3, 16, 37}) {
    for (const size_t n : {1, 4, 7, 64, 129}) {
      const size_t pitch = n + 3;
      const std::vector<float> d0 = mixed_row(5, rows * pitch), d1 = mixed_row(6, rows * pitch),
                               initial = mixed_row(7, rows);
      for (const AluOp op0 : float_ops()) {
        for (const AluOp op1 : {AluOp::kAdd, AluOp::kMultiply, AluOp::kMaximum, AluOp::kMinimum,
                                AluOp::kSubtract, AluOp::kBypass}) {
          for (int reverse = 0; reverse < 4; ++reverse) {
            const bool reverse0 = (reverse & 1) != 0, reverse1 = (reverse & 2) != 0;
            std::vector<float> out = d1, expected(n);  // in place
            alu_scan_rows(op0, op1,
                          {rows, n, d0.data(), pitch, out.data(), pitch, initial.data(), out.data(), pitch},
                          reverse0, reverse1);
            for (size_t p = 0; p < rows; ++p) {
              alu_scan(op0, op1, d0.data() + p * pitch, d1.data() + p * pitch, initial[p], expected.data(), n,
                       reverse0, reverse1);
              for (size_t i = 0; i < pitch; ++i)
                ASSERT_EQ(bits(out[p * pitch + i]), bits(i < n ? expected[i] : d1[p * pitch + i]))
                    << name(op0) << " " << name(op1) << " row " << p << " of " << rows << " element " << i;
            }
          }
        }
      }
    }
  }
}

// Rows a power of two apart are copied to panels, each operand's by itself.
TEST_P(AluSimd, ScansOfRowsOfAnyPitch) {
  constexpr size_t kRows = 16, kN = 200;
  const std::vector<float> d0 = mixed_row(5, kRows * 256), d1 = mixed_row(6, kRows * 256),
                           initial = mixed_row(7, kRows);
  for (int mask = 0; mask < 8; ++mask) {
    const auto pitch = [&](int bit) { return mask >> bit & 1 ? size_t{256} : kN + 16; };
    const size_t pitch0 = pitch(0), pitch1 = pitch(1), pitch_out = pitch(2);
    std::vector<float> out(kRows * pitch_out, 7.5f), expected = out;
    alu_scan_rows(AluOp::kMultiply, AluOp::kAdd,
                  {kRows, kN, d0.data(), pitch0, d1.data(), pitch1, initial.data(), out.data(), pitch_out});
    for (size_t p = 0; p < kRows; ++p)
      alu_scan(AluOp::kMultiply, AluOp::kAdd, d0.data() + p * pitch0, d1.data() + p * pitch1, initial[p],
               expected.data() + p * pitch_out, kN);
    for (size_t i = 0; i < out.size(); ++i) ASSERT_EQ(bits(out[i]), bits(expected[i])) << mask << " " << i;
  }
}

TEST(Alu, MaximumAndMinimumPropagateNan) {
  EXPECT_TRUE(std::isnan(alu(AluOp::kMaximum, kNan, 1)));
  EXPECT_TRUE(std::isnan(alu(AluOp::kMaximum, 1, kNan)));
  EXPECT_TRUE(std::isnan(alu(AluOp::kMinimum, 1, kNan)));
}

TEST(Alu, AbsMaxReturnsTheSignedOperand) {
  EXPECT_EQ(alu(AluOp::kAbsMax, -5, 3), -5);
  EXPECT_EQ(alu(AluOp::kAbsMin, -5, 3), 3);
}

TEST(Alu, ModTakesTheDivisorsSignAndFmodTheDividends) {
  EXPECT_EQ(alu(AluOp::kMod, -7, 3), 2);
  EXPECT_EQ(alu(AluOp::kFmod, -7, 3), -1);
  EXPECT_EQ(alu(AluOp::kMod, 7, -3), -2);
  EXPECT_TRUE(std::isnan(alu(AluOp::kMod, 1, 0)));
}

TEST(Alu, SubnormalsAreKept) {
  EXPECT_EQ(alu(AluOp::kMultiply, 0x1p-126f, 0.5f), 0x1p-127f);
  EXPECT_EQ(alu(AluOp::kAdd, 0x1p-149f, 0x1p-149f), 0x1p-148f);
}

TEST(Alu, BitOperatorsAreRefusedOnFloats) {
  const float x = 1;
  float out;
  EXPECT_THROW(alu_tensor_tensor(AluOp::kBitwiseAnd, &x, &x, &out, 1), Fault);
  EXPECT_THROW(alu_reduce(AluOp::kDivide, 0, &x, 1), Fault);
}

TEST(AluInt, WrapsInTheTypesWidth) {
  EXPECT_EQ(alu_int(AluOp::kAdd, DType::kInt32, 0x7fffffff, 1), -0x80000000ll);
  EXPECT_EQ(alu_int(AluOp::kSubtract, DType::kUint32, 0, 1), 0xffffffff);
  EXPECT_EQ(alu_int(AluOp::kMultiply, DType::kInt32, 65536, 65536), 0);
  EXPECT_EQ(alu_int(AluOp::kMultiply, DType::kInt32, 123456789, 1), 123456789);  // not an fp32 number
  EXPECT_EQ(alu_int(AluOp::kInvert, DType::kUint8, 0x0f, 0), 0xf0);
  EXPECT_EQ(alu_int(AluOp::kGreater, DType::kUint32, 0xffffffff, 1), 1);
  EXPECT_EQ(alu_int(AluOp::kGreater, DType::kInt32, -1, 1), 0);
  EXPECT_EQ(alu_int(AluOp::kMaximum, DType::kUint64, -1, 1), -1);  // 2^64 - 1 as its bit pattern
}

// What alu_int() gives, number by number.
TEST(AluInt, ReductionsAreThoseOfTheirSteps) {
  SplitMix64 random(29);
  for (const DType dtype : {DType::kInt8, DType::kUint16, DType::kInt32, DType::kUint32, DType::kInt64})
    for (const AluOp op : {AluOp::kAdd, AluOp::kBitwiseAnd, AluOp::kBitwiseOr, AluOp::kBitwiseXor,
                           AluOp::kMultiply, AluOp::kMaximum, AluOp::kMinimum})
      for (size_t n = 0; n < 70; n += 1 + n / 3) {
        std::vector<int64_t> numbers(n + 1);
        for (int64_t& each : numbers)
          each = alu_int(AluOp::kBypass, dtype, static_cast<int64_t>(random.next()), 0);
        int64_t expected = numbers[0];
        for (size_t i = 1; i <= n; ++i) expected = alu_int(op, dtype, expected, numbers[i]);
        EXPECT_EQ(alu_reduce_int(op, dtype, numbers[0], numbers.data() + 1, n), expected)
            << name(op) << " " << name(dtype) << " n " << n;
      }
}

TEST(AluInt, ShiftsKeepToTheWidth) {
  EXPECT_EQ(alu_int(AluOp::kRightShift, DType::kInt32, -1, 28), 15);
  EXPECT_EQ(alu_int(AluOp::kArithmeticRightShift, DType::kInt32, -256, 4), -16);
  EXPECT_EQ(alu_int(AluOp::kArithmeticRightShift, DType::kUint32, 0x80000000, 31), 0xffffffff);
  EXPECT_EQ(alu_int(AluOp::kLeftShift, DType::kInt32, 1, 31), -0x80000000ll);
  EXPECT_EQ(alu_int(AluOp::kLeftShift, DType::kInt32, 1, 32), 0);
  EXPECT_EQ(alu_int(AluOp::kRightShift, DType::kUint8, 0x80, 7), 1);
}

TEST(AluInt, UndocumentedResultsAreFaults) {
  EXPECT_THROW(alu_int(AluOp::kDivide, DType::kInt32, 1, 0), Fault);
  EXPECT_THROW(alu_int(AluOp::kPower, DType::kInt32, 2, -1), Fault);
  EXPECT_THROW(alu_int(AluOp::kRsqrt, DType::kInt32, 2, 0), Fault);
  EXPECT_EQ(alu_int(AluOp::kDivide, DType::kInt32, -0x80000000ll, -1), -0x80000000ll);
}

TEST(Power, AgreesWithLibmInDoublePrecision) {
  SplitMix64 rng(3);
  int differences = 0;
  for (int i = 0; i < 200000; ++i) {
    const float x = std::bit_cast<float>(rng.next32() & 0x7fffffffu);
    const auto y = static_cast<float>((rng.uniform() - 0.5) * (rng.below(2) != 0 ? 4 : 300));
    if (!std::isfinite(x)) continue;
    differences += bits(power(x, y)) != bits(static_cast<float>(std::pow(static_cast<double>(x), y)));
  }
  EXPECT_LE(differences, 2);
}

TEST(Power, SpecialValuesFollowC) {
  const float values[] = {0.0f, -0.0f, 1,    -1,        2,          -2,   0.5f,      -0.5f,
                          3,    -3,    1.5f, kInfinity, -kInfinity, kNan, 0x1p-149f, 0x1p127f};
  for (const float x : values) {
    for (const float y : values) {
      const auto expected = static_cast<float>(std::pow(static_cast<double>(x), static_cast<double>(y)));
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(power(x, y))) << x << " " << y;
      } else {
        EXPECT_EQ(bits(power(x, y)), bits(expected)) << x << " " << y;
      }
    }
  }
}

void expect_rows_of_words_as_the_reference() {
  SplitMix64 rng(7);
  const auto number = [&]() -> uint32_t {
    switch (rng.below(4)) {
      case 0: return rng.below(40);
      case 1: return 0u - rng.below(40);
      case 2: return uint32_t{1} << rng.below(32);
      default: return rng.next32();
    }
  };
  const size_t n = 259;
  std::vector<uint32_t> a(n), b(n), out(n);
  for (size_t i = 0; i < n; ++i) a[i] = number(), b[i] = rng.below(5) == 0 ? a[i] : number();
  int taken = 0;
  for (int op_number = 0; op_number < kAluOpCount; ++op_number) {
    const auto op = static_cast<AluOp>(op_number);
    for (const DType dtype : {DType::kInt32, DType::kUint32}) {
      const bool is_signed = dtype == DType::kInt32;
      const auto wide = [&](uint32_t x) { return is_signed ? int64_t{static_cast<int32_t>(x)} : int64_t{x}; };
      EXPECT_EQ(alu_tensor_tensor_int32(op, is_signed, a.data(), b.data(), out.data(), n),
                has_int32_rows(op));
      if (!has_int32_rows(op)) continue;
      ++taken;
      for (size_t i = 0; i < n; ++i)
        ASSERT_EQ(wide(out[i]), alu_int(op, dtype, wide(a[i]), wide(b[i])))
            << name(op) << " " << a[i] << " " << b[i];
      for (const bool reverse : {false, true}) {
        const uint32_t scalar = b[0];
        alu_tensor_scalar_int32(op, is_signed, a.data(), scalar, reverse, out.data(), n);
        std::vector<int64_t> in(n), expected(n);
        for (size_t i = 0; i < n; ++i) in[i] = wide(a[i]);
        alu_tensor_scalar_int(op, dtype, in.data(), wide(scalar), reverse, expected.data(), n);
        for (size_t i = 0; i < n; ++i) ASSERT_EQ(wide(out[i]), expected[i]) << name(op) << " " << a[i];
      }
    }
  }
  EXPECT_GE(taken, 40);
}

// Words as they lie in memory give what the reference gives of int64.
TEST(Alu, RowsOfWordsEqualTheReference) {
  for (const std::string& target : simd_targets()) {
    SCOPED_TRACE(target);
    force_simd_target(target);
    expect_rows_of_words_as_the_reference();
  }
  force_simd_target("");
}

// By 1 remainders have a vector form of their own.
TEST_P(AluSimd, RemaindersByOneHaveTheBitsOfTheScalarForm) {
  std::vector<float> values{0.0f,
                            -0.0f,
                            1.0f,
                            -1.0f,
                            0.5f,
                            -0.5f,
                            1e-30f,
                            -1e-30f,
                            -1e-8f,
                            3.75f,
                            -3.75f,
                            8388607.5f,
                            -8388607.5f,
                            1e30f,
                            -1e30f,
                            -2.0f,
                            std::numeric_limits<float>::infinity(),
                            -std::numeric_limits<float>::infinity(),
                            std::numeric_limits<float>::quiet_NaN(),
                            std::numeric_limits<float>::denorm_min(),
                            -std::numeric_limits<float>::denorm_min()};
  SplitMix64 rng(5);
  for (int i = 0; i < 4000; ++i) values.push_back(std::bit_cast<float>(rng.next32()));
  std::vector<float> out(values.size());
  for (const AluOp op : {AluOp::kMod, AluOp::kFmod}) {
    alu_tensor_scalar(op, values.data(), 1.0f, false, out.data(), values.size());
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(out[i]), std::bit_cast<uint32_t>(alu(op, values[i], 1.0f)))
          << name(op) << " of " << values[i];
  }
}

}  // namespace
}  // namespace opentrn::numerics
