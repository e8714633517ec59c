#include "backend/footprint.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <utility>

#include "backend/access.h"
#include "backend/kind_accesses.h"
#include "backend/sample_programs.h"
#include "base/random.h"

namespace opentrn::backend {
namespace {

using isa::Dim;
using isa::Operand;
using isa::Pattern;

Pattern pattern_of(std::initializer_list<Dim> dims) {
  Pattern pattern;
  for (const Dim& dim : dims) pattern.dims[pattern.rank++] = dim;
  return pattern;
}

Operand access(isa::Program& program, isa::TensorId tensor, std::initializer_list<Dim> dims,
               int64_t offset = 0, DType dtype = DType::kFloat32) {
  Operand operand;
  operand.kind = isa::OperandKind::kAccess;
  operand.dtype = dtype;
  operand.tensor = tensor;
  operand.pattern = program.intern_pattern(pattern_of(dims));
  operand.offset = offset;
  return operand;
}

isa::Tensor tile(isa::MemorySpace space, int64_t rows, int64_t elements) {
  isa::Tensor tensor;
  tensor.space = space;
  tensor.rows = rows;
  tensor.row_elements = elements;
  return tensor;
}

TEST(Footprint, OnChipRowsArePartitionsAndBytesAreWithinARow) {
  isa::Program program;
  const auto t = program.add_tensor(tile(isa::MemorySpace::kSbuf, 128, 512));
  const Operand operand = access(program, t, {{512, 64}, {1, 128}}, 32 * 512 + 256);
  FootprintReader reader(program);
  const Footprint f = reader.read(operand);
  EXPECT_EQ(f.row_begin, 32);
  EXPECT_EQ(f.row_end, 96);
  EXPECT_EQ(f.byte_begin, 1024);
  EXPECT_EQ(f.byte_end, 1536);
  EXPECT_TRUE(f.dense);
}

TEST(Footprint, ANarrowerTypeSeesTheSameBytes) {
  isa::Program program;
  const auto t = program.add_tensor(tile(isa::MemorySpace::kSbuf, 128, 512));
  const Operand operand = access(program, t, {{1024, 128}, {1, 1024}}, 0, DType::kBFloat16);
  FootprintReader reader(program);
  const Footprint f = reader.read(operand);
  EXPECT_EQ(f.byte_end, 2048);
  EXPECT_EQ(f.row_end, 128);
}

TEST(Footprint, ColumnTilesOfAMatrixDoNotOverlap) {
  isa::Program program;
  const auto t = program.add_tensor(tile(isa::MemorySpace::kHbm, 1, 4096 * 8192));
  const Operand tile = access(program, t, {{8192, 128}, {1, 512}}, 0);
  const Operand beside = access(program, t, {{8192, 128}, {1, 512}}, 512);
  const Operand lower = access(program, t, {{8192, 128}, {1, 512}}, 64 * 8192 + 100);
  FootprintReader reader(program);
  const Footprint left = reader.read(tile), right = reader.read(beside), below = reader.read(lower);
  EXPECT_FALSE(may_overlap(left, right));
  EXPECT_TRUE(may_overlap(left, below));
  EXPECT_FALSE(left.dense);
}

TEST(Footprint, EvenAndOddColumnsDoNotOverlap) {
  isa::Program program;
  const auto t = program.add_tensor(tile(isa::MemorySpace::kSbuf, 128, 512));
  const Operand a = access(program, t, {{512, 128}, {2, 256}}, 0);
  const Operand b = access(program, t, {{512, 128}, {2, 256}}, 1);
  FootprintReader reader(program);
  const Footprint even = reader.read(a), odd = reader.read(b);
  EXPECT_FALSE(may_overlap(even, odd));
}

TEST(Footprint, AnUnboundedRunTimeOffsetIsTheWholeTensor) {
  isa::Program program;
  const auto t = program.add_tensor(tile(isa::MemorySpace::kHbm, 1, 4096));
  isa::Indirect indirect;
  indirect.index = Operand::reg(program.add_register());
  Operand operand = access(program, t, {{1, 16}}, 64);
  operand.indirect = program.add_indirect(indirect);
  FootprintReader reader(program);
  EXPECT_EQ(reader.read(operand).byte_end, 4096 * 4);
  indirect.bound = 3;
  indirect.stride = 16;
  operand.indirect = program.add_indirect(indirect);
  const Footprint bounded = reader.read(operand);
  EXPECT_EQ(bounded.byte_begin, 64 * 4);
  EXPECT_EQ(bounded.byte_end, (64 + 16 + 32) * 4);
}

// The bytes really touched, one by one.
std::set<std::pair<int64_t, int64_t>> bytes_of(const isa::Program& program, const Operand& operand) {
  const isa::Tensor& tensor = program.tensor(operand.tensor);
  const int64_t size = size_bytes(operand.dtype);
  const int64_t row = isa::is_on_chip(tensor.space) ? tensor.row_bytes() / size : tensor.bytes();
  std::set<std::pair<int64_t, int64_t>> bytes;
  const Pattern& pattern = program.pattern(operand);
  const int64_t n = pattern.element_count();
  for (int64_t i = 0; i < n; ++i) {
    int64_t rest = i, at = operand.offset;
    for (int d = pattern.rank - 1; d >= 0; --d) {
      at += rest % pattern.dims[d].count * pattern.dims[d].step;
      rest /= pattern.dims[d].count;
    }
    for (int64_t b = 0; b < size; ++b) bytes.insert({at / row, at % row * size + b});
  }
  return bytes;
}

TEST(Footprint, PropertyNeverDeniesARealOverlapAndDenseMeansAllBytes) {
  SplitMix64 random(7);
  int precise = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    isa::Program program;
    const bool hbm = random.below(2) == 0;
    const auto t = program.add_tensor(
        tile(hbm ? isa::MemorySpace::kHbm : isa::MemorySpace::kSbuf, hbm ? 1 : 4, hbm ? 256 : 64));
    const auto draw = [&] {
      const int64_t step = 1 + random.below(4), count = 1 + random.below(4);
      const int64_t outer = hbm ? int64_t{16} : int64_t{64};
      const int64_t rows = 1 + random.below(3);
      const bool halves = random.below(2) == 0;
      const int64_t unit = halves ? 2 : 1;
      return access(program, t, {{outer * unit, rows}, {step, count}}, random.below(16),
                    halves ? DType::kBFloat16 : DType::kFloat32);
    };
    const Operand a = draw(), b = draw();
    FootprintReader reader(program);
    const Footprint fa = reader.read(a), fb = reader.read(b);
    const auto ba = bytes_of(program, a), bb = bytes_of(program, b);
    bool meet = false;
    for (const auto& byte : ba) meet |= bb.contains(byte);
    if (meet) {
      ASSERT_TRUE(may_overlap(fa, fb)) << "trial " << trial;
    }
    precise += meet == may_overlap(fa, fb);
    const int64_t area = int64_t{fa.row_end - fa.row_begin} * (fa.byte_end - fa.byte_begin);
    if (fa.dense) {
      ASSERT_EQ(static_cast<int64_t>(ba.size()), area) << "trial " << trial;
    }
    for (const auto& [row, byte] : ba) {
      ASSERT_TRUE(row >= fa.row_begin && row < fa.row_end && byte >= fa.byte_begin && byte < fa.byte_end);
    }
  }
  EXPECT_GT(precise, 3000);  // three in four answers are exact on these small strided patterns
}

// What ConflictIndex relies on when it forgets an access that a later one covers.
TEST(Footprint, WhateverMeetsTheCoveredMeetsTheCover) {
  std::mt19937 random(7);
  const auto draw = [&] {
    Footprint f;
    f.row_end = 1;
    f.byte_begin = static_cast<int64_t>(random() % 8);
    f.byte_end = f.byte_begin + 1 + static_cast<int64_t>(random() % 8);
    f.dense = random() % 2 == 0;  // not dense and without steps: an address of run time
    return f;
  };
  int covered = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    const Footprint cover = draw(), old = draw(), later = draw();
    if (!cover.covers(old)) continue;
    ++covered;
    if (may_overlap(later, old)) {
      ASSERT_TRUE(may_overlap(later, cover)) << "trial " << trial;
    }
  }
  EXPECT_GT(covered, 100);
  EXPECT_TRUE(
      (Footprint{.row_end = 1, .byte_end = 8}).covers({.row_end = 1, .byte_begin = 2, .byte_end = 4}));
}

// What one number moves lies as it would without it; of another's nothing is known but the bounds.
TEST(Footprint, WhatOneRegisterMovesIsComparedAsItLies) {
  isa::Program program;
  const auto t = program.add_tensor(tile(isa::MemorySpace::kHbm, 1, 4096));
  const auto moved = [&](int64_t offset) {
    Operand operand = access(program, t, {{64, 4}, {1, 64}}, offset);
    isa::Indirect indirect;
    indirect.kind = isa::IndirectKind::kScalar;
    indirect.index = Operand::reg(program.add_register());
    indirect.stride = 1;
    indirect.bound = 1025;
    operand.indirect = program.add_indirect(indirect);
    return operand;
  };
  const Operand first = moved(0), second = moved(256);
  FootprintReader reader(program);
  Footprint a = reader.read(first), b = reader.read(second);
  EXPECT_EQ(a.byte_end, 4 * (256 + 1024));
  EXPECT_EQ(a.unmoved_end, 4 * 256);
  EXPECT_TRUE(may_overlap(a, b));
  EXPECT_TRUE(a.covers(a));
  a.moved_by = b.moved_by = 1;
  EXPECT_FALSE(may_overlap(a, b));
  EXPECT_TRUE(may_overlap(a, a));
  EXPECT_TRUE(a.covers(a));
  EXPECT_FALSE(a.covers(b));
  b.moved_by = 2;
  EXPECT_TRUE(may_overlap(a, b));
  EXPECT_FALSE(a.covers(b));
}

Footprint at(Footprint f, const KindAccess::Move& move) {
  f.row_begin += move.rows;
  f.row_end += move.rows;
  f.byte_begin += move.bytes;
  f.byte_end += move.bytes;
  return f;
}

TEST(KindAccesses, PropertyWhatIsLookedUpByKindIsWhatEachInstructionAccesses) {
  size_t compared = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto program = seed % 2 == 0 ? random_program(seed, 100) : random_tiles(seed, 3);
    const isa::Kinds kinds(*program);
    AccessReader plain(*program);
    const KindAccesses by_kind(*program, kinds, plain.footprints());
    for (isa::InstructionIndex i = 0; i < program->size(); ++i) {
      const isa::Instruction& in = program->instruction(i);
      plain.read(in);
      ASSERT_EQ(by_kind.is_plain(kinds.of(i)), plain.registers().empty());
      if (!by_kind.is_plain(kinds.of(i))) continue;
      // Those that only read come first, else in the order of the operands.
      std::vector<Access> wanted = plain.accesses();
      std::ranges::stable_partition(wanted, [](const Access& access) { return !access.writes; });
      const auto found = by_kind.of(kinds.of(i));
      ASSERT_EQ(found.size(), wanted.size());
      for (size_t a = 0; a < wanted.size(); ++a) {
        const isa::Operand& operand = program->operand(in, found[a].slot);
        const Footprint f = at(found[a].footprint, found[a].move_by(operand.offset));
        ASSERT_EQ(operand.tensor, wanted[a].tensor) << "seed " << seed << " instruction " << i;
        ASSERT_EQ(found[a].space, program->tensor(operand.tensor).space);
        ASSERT_EQ(found[a].reads, wanted[a].reads);
        ASSERT_EQ(found[a].writes, wanted[a].writes);
        ASSERT_EQ(f.row_begin, wanted[a].footprint.row_begin) << "seed " << seed << " instruction " << i;
        ASSERT_EQ(f.row_end, wanted[a].footprint.row_end);
        ASSERT_EQ(f.byte_begin, wanted[a].footprint.byte_begin) << "seed " << seed << " instruction " << i;
        ASSERT_EQ(f.byte_end, wanted[a].footprint.byte_end);
        ASSERT_EQ(f.dense, wanted[a].footprint.dense);
        ASSERT_EQ(f.steps, wanted[a].footprint.steps);
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 10'000u);
}

}  // namespace
}  // namespace opentrn::backend
