#include "compiler/lowering/registers.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <random>

#include <gtest/gtest.h>

namespace opentrn::compiler {
namespace {

constexpr AluOp kOps[] = {AluOp::kAdd,       AluOp::kSubtract, AluOp::kMultiply,    AluOp::kMaximum,
                          AluOp::kMinimum,   AluOp::kEqual,    AluOp::kNotEqual,    AluOp::kLess,
                          AluOp::kLessEqual, AluOp::kGreater,  AluOp::kGreaterEqual};

int64_t result_of(AluOp op, int64_t a, int64_t b) {
  switch (op) {
    case AluOp::kAdd: return a + b;
    case AluOp::kSubtract: return a - b;
    case AluOp::kMultiply: return a * b;
    case AluOp::kMaximum: return std::max(a, b);
    case AluOp::kMinimum: return std::min(a, b);
    case AluOp::kEqual: return a == b;
    case AluOp::kNotEqual: return a != b;
    case AluOp::kLess: return a < b;
    case AluOp::kLessEqual: return a <= b;
    case AluOp::kGreater: return a > b;
    default: return a >= b;
  }
}

// The smallest interval with the results of all pairs.
TEST(Registers, IntervalsAreThoseOfAllPairs) {
  for (const AluOp op : kOps)
    for (int64_t a = -3; a <= 3; ++a)
      for (int64_t b = a; b <= 3; ++b)
        for (int64_t c = -3; c <= 3; ++c)
          for (int64_t d = c; d <= 3; ++d) {
            int64_t low = std::numeric_limits<int64_t>::max(), high = std::numeric_limits<int64_t>::min();
            for (int64_t x = a; x <= b; ++x)
              for (int64_t y = c; y <= d; ++y) {
                low = std::min(low, result_of(op, x, y));
                high = std::max(high, result_of(op, x, y));
              }
            ASSERT_EQ(interval_of(op, {a, b}, {c, d}), (Interval{low, high}))
                << static_cast<int>(op) << " of [" << a << ", " << b << "], [" << c << ", " << d << "]";
          }
}

TEST(Registers, WhatMayWrapIsNotKnown) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  EXPECT_EQ(interval_of(AluOp::kAdd, {0, kMost}, {0, 1}), std::nullopt);
  EXPECT_EQ(interval_of(AluOp::kAdd, {0, kMost}, {0, 0}), (Interval{0, kMost}));
  EXPECT_EQ(interval_of(AluOp::kSubtract, {-kMost - 1, 0}, {0, 1}), std::nullopt);
  EXPECT_EQ(interval_of(AluOp::kMultiply, {-65'536, 65'536}, {0, 65'536}), std::nullopt);
  EXPECT_EQ(interval_of(AluOp::kMaximum, {0, kMost + 1}, {0, 1}), std::nullopt);  // no 32-bit number
  EXPECT_EQ(interval_of(AluOp::kBitwiseXor, {0, 1}, {0, 1}), std::nullopt);
}

class Sequencer : public testing::Test {
 protected:
  isa::RegisterId counter(int64_t low, int64_t high) {
    const isa::RegisterId id = emitter_.new_register();
    registers_.holds(id, {low, high});
    return id;
  }
  size_t instructions() const { return program_->size(); }

  std::shared_ptr<isa::Program> program_ = std::make_shared<isa::Program>();
  Emitter emitter_{program_, Generation::kV3};
  Registers registers_{emitter_};
};

TEST_F(Sequencer, WhatIsKnownTakesNoInstruction) {
  const Registers::Value i = counter(0, 59);
  EXPECT_EQ(registers_.clamped(i, 0, 59), i);
  EXPECT_EQ(registers_.clamped(i, -4, 100), i);
  EXPECT_EQ(registers_.clamped(i, 70, 80), Registers::Value(int64_t{70}));
  EXPECT_EQ(registers_.alu(AluOp::kLess, i, int64_t{0}), Registers::Value(int64_t{0}));
  EXPECT_EQ(registers_.alu(AluOp::kMultiply, i, int64_t{1}), i);
  EXPECT_EQ(registers_.alu(AluOp::kAdd, int64_t{0}, i), i);
  EXPECT_EQ(registers_.alu(AluOp::kAdd, int64_t{40}, int64_t{2}), Registers::Value(int64_t{42}));
  EXPECT_EQ(instructions(), 0u);
}

TEST_F(Sequencer, WhatIsNotKnownTakesOne) {
  const Registers::Value i = counter(0, 59), unknown = emitter_.new_register();
  EXPECT_NE(registers_.clamped(i, 0, 58), i);
  EXPECT_EQ(instructions(), 1u);
  const Registers::Value back = registers_.alu(AluOp::kSubtract, int64_t{59}, i);
  EXPECT_EQ(registers_.interval(back), (Interval{0, 59}));
  EXPECT_EQ(registers_.clamped(back, 0, 59), back);
  EXPECT_EQ(instructions(), 2u);
  EXPECT_EQ(registers_.interval(registers_.clamped(unknown, 0, 9)), (Interval{0, 9}));
  EXPECT_EQ(instructions(), 4u);
}

}  // namespace
}  // namespace opentrn::compiler
