#include <algorithm>
#include <array>

#include <gtest/gtest.h>

#include "backend/compile.h"
#include "backend/passes/common_subexpressions.h"
#include "backend/passes/content.h"
#include "backend/passes/psum_evictions.h"
#include "backend/passes/renaming.h"
#include "backend/passes/residency.h"
#include "backend/passes/written_parts.h"
#include "backend/sample_programs.h"

// That values stay the same is tested by `opentrn_fuzz --only schedule`, which runs what these passes make.

namespace opentrn::backend {
namespace {

using isa::MemorySpace;
using isa::Opcode;
using isa::TensorId;

constexpr int64_t kPartitions = 128;

int64_t count_of(const isa::Program& program, Opcode opcode) {
  return std::ranges::count(program.instructions(), opcode, &isa::Instruction::opcode);
}

// Every round at its own source line would hide what belongs together, so all rounds share lines.
struct Rounds {
  ProgramBuilder builder;
  TensorId in = builder.hbm({128, 256}, DType::kFloat32, "in");
  TensorId out = builder.hbm({128, 256}, DType::kFloat32, "out", true);
};

// Loads a tile, squares it, and stores the square, `rounds` times.
std::shared_ptr<const isa::Program> squares(int rounds, int64_t columns = 256) {
  Rounds r;
  for (int i = 0; i < rounds; ++i) {
    const TensorId x = r.builder.sbuf(128, columns, DType::kFloat32);
    const TensorId y = r.builder.sbuf(128, columns, DType::kFloat32);
    r.builder.dma(r.builder.all(x), r.builder.part(r.in, 0, 128, 0, columns));
    r.builder.tensor_tensor(r.builder.all(y), r.builder.all(x), r.builder.all(x), AluOp::kMultiply);
    r.builder.dma(r.builder.part(r.out, 0, 128, 0, columns), r.builder.all(y));
  }
  return r.builder.take();
}

TEST(Content, EqualHistoriesGiveEqualContents) {
  const auto program = squares(2);
  const auto contents = final_contents(*program);
  EXPECT_EQ(contents[2], contents[4]);
  EXPECT_EQ(contents[3], contents[5]);
  EXPECT_NE(contents[2], contents[3]);
}

TEST(Content, AWriteToTheSourceMakesALaterLoadDifferent) {
  Rounds r;
  const TensorId a = r.builder.sbuf(128, 256, DType::kFloat32);
  const TensorId b = r.builder.sbuf(128, 256, DType::kFloat32);
  r.builder.dma(r.builder.all(a), r.builder.all(r.out));
  r.builder.dma(r.builder.all(r.out), r.builder.all(r.in));
  r.builder.dma(r.builder.all(b), r.builder.all(r.out));
  const auto contents = final_contents(r.builder.program());
  EXPECT_NE(contents[a], contents[b]);
}

TEST(Content, RandomNumbersAreNeverEqual) {
  Rounds r;
  const TensorId a = r.builder.sbuf(128, 8, DType::kUint32);
  const TensorId b = r.builder.sbuf(128, 8, DType::kUint32);
  for (const TensorId id : {a, b}) r.builder.append(Opcode::kRng, {r.builder.all(id)}, {});
  const auto contents = final_contents(r.builder.program());
  EXPECT_NE(contents[a], contents[b]);
}

TEST(CommonSubexpressions, EqualResultsAreComputedOnceAndWhatOnlyFedTheOthersGoes) {
  const auto shared = eliminate_common_subexpressions(squares(4), 196608, kPartitions, {});
  EXPECT_EQ(count_of(*shared, Opcode::kTensorTensor), 1);
  EXPECT_EQ(count_of(*shared, Opcode::kDmaCopy), 1 + 4);
}

TEST(CommonSubexpressions, WhatNobodyReadsGoes) {
  Rounds r;
  const TensorId x = r.builder.sbuf(128, 256, DType::kFloat32),
                 unread = r.builder.sbuf(128, 256, DType::kFloat32);
  r.builder.dma(r.builder.all(x), r.builder.all(r.in));
  r.builder.tensor_scalar(r.builder.all(unread), r.builder.all(x), 2);
  r.builder.tensor_scalar(r.builder.all(unread), r.builder.all(unread), 3);
  r.builder.dma(r.builder.all(r.out), r.builder.all(x));
  const auto live = eliminate_common_subexpressions(r.builder.take(), 196608, kPartitions, {});
  EXPECT_EQ(count_of(*live, Opcode::kTensorScalar), 0);
  EXPECT_EQ(count_of(*live, Opcode::kDmaCopy), 2);
}

TEST(CommonSubexpressions, AResultTooLargeToKeepIsComputedAgain) {
  constexpr int64_t kSbuf = 2000;  // a tile has 1024 B in a partition
  const auto program = squares(4);
  EXPECT_EQ(eliminate_common_subexpressions(program, kSbuf, kPartitions, {}), program);
}

TEST(Content, WhatAddsToAnEnginesAccumulatorIsDoneEveryTime) {
  Rounds r;
  const TensorId x = r.builder.sbuf(128, 256, DType::kFloat32);
  r.builder.dma(r.builder.all(x), r.builder.all(r.in));
  r.builder.activation(r.builder.all(x), r.builder.all(x), ActivationFunction::kRelu);
  const isa::Instruction plain = r.builder.program().instruction(1);
  EXPECT_TRUE(is_pure(r.builder.program(), plain));
  isa::Instruction reducing = plain;
  std::array<isa::AttributeWord, isa::slot::activation::kAReduceCmd + 1> words{};
  words[isa::slot::activation::kAReduceCmd].integer = static_cast<int64_t>(isa::ReduceCmd::kReduce);
  reducing.attributes = r.builder.program().intern_attributes(words);
  EXPECT_FALSE(is_pure(r.builder.program(), reducing));
}

TEST(CommonSubexpressions, ATensorThatChangesAfterItIsReadIsLeftAlone) {
  Rounds r;
  for (int i = 0; i < 2; ++i) {
    const TensorId x = r.builder.sbuf(128, 256, DType::kFloat32);
    r.builder.dma(r.builder.all(x), r.builder.all(r.in));
    r.builder.dma(r.builder.all(r.out), r.builder.all(x));
    r.builder.tensor_scalar(r.builder.all(x), r.builder.all(x), 2);
    r.builder.dma(r.builder.all(r.out), r.builder.all(x));
  }
  const std::shared_ptr<const isa::Program> program = r.builder.take();
  EXPECT_EQ(eliminate_common_subexpressions(program, 196608, kPartitions, {}), program);
}

// `tiles` results that are all read again at the end.
std::shared_ptr<const isa::Program> kept_results(int tiles) {
  Rounds r;
  std::vector<TensorId> results;
  for (int i = 0; i < tiles; ++i) {
    const TensorId x = r.builder.sbuf(128, 256, DType::kFloat32);
    results.push_back(r.builder.sbuf(128, 256, DType::kFloat32));
    r.builder.dma(r.builder.all(x), r.builder.all(r.in));
    r.builder.tensor_scalar(r.builder.all(results.back()), r.builder.all(x), i + 2);
  }
  for (const TensorId id : results) r.builder.dma(r.builder.all(r.out), r.builder.all(id));
  return r.builder.take();
}

TEST(Residency, WhatDoesNotFitIsSavedAndReloaded) {
  const auto program = kept_results(8);
  const auto fitted = fit(program, MemorySpace::kSbuf, 4 * 1024, kPartitions, {});
  ASSERT_TRUE(fitted.has_value());
  EXPECT_GT(fitted->saved_bytes, 0);
  EXPECT_LE(fitted->saved_bytes, fitted->reloaded_bytes);  // one may be brought back too early and go again
  EXPECT_LE(fitted->saved_bytes, 6 * 128 * 1024);          // at least two of eight stay
  EXPECT_EQ(count_of(*fitted->program, Opcode::kTensorScalar), 8);
}

TEST(Residency, WhatFitsIsNotTouched) {
  const auto fitted = fit(kept_results(8), MemorySpace::kSbuf, 64 * 1024, kPartitions, {});
  ASSERT_TRUE(fitted.has_value());
  EXPECT_EQ(fitted->saved_bytes + fitted->reloaded_bytes + fitted->repeated_bytes, 0);
}

TEST(Residency, ALoadedTensorIsLoadedAgainRatherThanSaved) {
  Rounds r;
  std::vector<TensorId> tiles;
  for (int i = 0; i < 8; ++i) {
    tiles.push_back(r.builder.sbuf(128, 256, DType::kFloat32));
    r.builder.dma(r.builder.all(tiles.back()), r.builder.all(r.in));
  }
  for (int pass = 0; pass < 3; ++pass)
    for (const TensorId id : tiles) r.builder.dma(r.builder.all(r.out), r.builder.all(id));
  const auto fitted = fit(r.builder.take(), MemorySpace::kSbuf, 4 * 1024, kPartitions, {});
  ASSERT_TRUE(fitted.has_value());
  EXPECT_EQ(fitted->saved_bytes, 0);
  EXPECT_GT(fitted->repeated_bytes, 0);
}

TEST(Residency, OneInstructionLargerThanTheBudgetCannotBeHelped) {
  EXPECT_FALSE(fit(kept_results(2), MemorySpace::kSbuf, 1024, kPartitions, {}).has_value());
}

TEST(Residency, PsumThatIsReadLaterMovesToSbuf) {
  Rounds r;
  const TensorId a = r.builder.sbuf(128, 128, DType::kBFloat16);
  r.builder.memset(r.builder.all(a));
  std::vector<TensorId> products;
  for (int i = 0; i < 12; ++i) {
    products.push_back(r.builder.psum(128, 512));
    const TensorId b = r.builder.sbuf(128, 512, DType::kBFloat16);
    r.builder.memset(r.builder.all(b));
    r.builder.matmul(r.builder.all(products.back()), r.builder.all(a), r.builder.all(b), false);
  }
  const TensorId sum = r.builder.sbuf(128, 512, DType::kFloat32);
  r.builder.memset(r.builder.all(sum));
  for (const TensorId id : products)
    r.builder.tensor_tensor(r.builder.all(sum), r.builder.all(sum), r.builder.all(id));
  r.builder.dma(r.builder.part(r.out, 0, 128, 0, 256), r.builder.part(sum, 0, 128, 0, 256));
  const std::shared_ptr<const isa::Program> program = r.builder.take();
  EXPECT_THROW(compile(program), Fault);
  const isa::Executable executable = compile(program, {.neuronx_cc = true});
  EXPECT_GE(count_of(*executable.program, Opcode::kTensorCopy), 4);
  EXPECT_EQ(executable.spill_save_bytes + executable.spill_reload_bytes, 0);  // none of it left the chip
}

TEST(WrittenParts, ColumnsGrowTogetherAndAWholeSwallowsItsParts) {
  isa::Tensor tensor;
  tensor.rows = 128;
  tensor.row_elements = 64;
  const auto columns = [&](int64_t first, int64_t count_of) {
    Part part{first, {}, DType::kFloat32};
    part.pattern.rank = 2;
    part.pattern.dims[0] = {64, 128};
    part.pattern.dims[1] = {1, count_of};
    return part;
  };
  WrittenParts written;
  for (const int64_t column : {0, 1, 2, 7, 9, 8}) written.add(tensor, columns(column, 1));
  EXPECT_EQ(written.parts(tensor), (std::vector<Part>{columns(0, 3), columns(7, 3)}));
  written.add(tensor, columns(8, 1));  // again
  EXPECT_EQ(written.parts(tensor).size(), 2u);
  written.add(tensor, columns(0, 64));
  EXPECT_EQ(written.parts(tensor), std::vector<Part>{columns(0, 64)});
}

TEST(WrittenParts, PatternsWithGapsStayAsTheyAre) {
  isa::Tensor tensor;
  tensor.rows = 128;
  tensor.row_elements = 64;
  Part even{0, {}, DType::kFloat32};
  even.pattern.rank = 2;
  even.pattern.dims[0] = {64, 128};
  even.pattern.dims[1] = {2, 32};
  WrittenParts written;
  written.add(tensor, even);
  written.add(tensor, even);
  EXPECT_EQ(written.parts(tensor), std::vector<Part>{even});
}

TEST(Residency, CompileReportsWhatWentToHbm) {
  Rounds r;
  std::vector<TensorId> results;
  for (int i = 0; i < 9; ++i) {  // 9 * 32 KiB of the 192 KiB of a partition
    results.push_back(r.builder.sbuf(128, 8192, DType::kFloat32));
    r.builder.memset(r.builder.all(results.back()));
    r.builder.tensor_scalar(r.builder.all(results.back()), r.builder.all(results.back()), i);
  }
  const TensorId out = r.builder.hbm({128, 8192}, DType::kFloat32, "wide", true);
  for (const TensorId id : results) r.builder.dma(r.builder.all(out), r.builder.all(id));
  const std::shared_ptr<const isa::Program> program = r.builder.take();
  EXPECT_THROW(compile(program), Fault);
  // Spilled and reloaded once each, as many bytes.
  const isa::Executable executable = compile(program, {.neuronx_cc = true});
  EXPECT_GT(executable.spill_save_bytes, 0);
  EXPECT_EQ(executable.spill_save_bytes, executable.spill_reload_bytes);
}

// Loads into one tile, or part of it, over and over.
std::shared_ptr<const isa::Program> reloads(int rounds, int64_t columns) {
  Rounds r;
  const TensorId x = r.builder.sbuf(128, 256, DType::kFloat32), y = r.builder.sbuf(128, 256, DType::kFloat32);
  for (int i = 0; i < rounds; ++i) {
    r.builder.dma(r.builder.part(x, 0, 128, 0, columns), r.builder.part(r.in, 0, 128, 0, columns));
    r.builder.tensor_tensor(r.builder.all(y), r.builder.all(x), r.builder.all(x), AluOp::kMultiply);
    r.builder.dma(r.builder.all(r.out), r.builder.all(y));
  }
  return r.builder.take();
}

TEST(Renaming, EveryLoadOfAWholeTileGetsATensorOfItsOwn) {
  const auto program = reloads(4, 256);
  const auto renamed = rename_reloaded_tiles(program);
  EXPECT_EQ(renamed->tensor_count(), program->tensor_count() + 3);
  EXPECT_EQ(renamed->size(), program->size());
  // The readers follow.
  const auto tile = [&](isa::InstructionIndex i, int slot) {
    return renamed->operand(renamed->instruction(i), slot).tensor;
  };
  for (isa::InstructionIndex round = 0; round < 4; ++round)
    EXPECT_EQ(tile(3 * round, 0), tile(3 * round + 1, 1));
  EXPECT_NE(tile(0, 0), tile(3, 0));
}

TEST(Renaming, ATileFilledInPartOrByAnEngineKeepsItsPlace) {
  const auto partly = reloads(4, 128);
  EXPECT_EQ(rename_reloaded_tiles(partly), partly);
}

TEST(Renaming, WhereThereIsNoRoomTilesKeepTheirPlace) {
  Rounds r;
  const auto in = r.builder.hbm({128, 40000}, DType::kFloat32, "wide");
  const TensorId x = r.builder.sbuf(128, 40000, DType::kFloat32);
  for (int i = 0; i < 2; ++i) {
    r.builder.dma(r.builder.all(x), r.builder.all(in));
    r.builder.dma(r.builder.all(in), r.builder.all(x));
  }
  EXPECT_LE(compile(r.builder.take(), {.look_ahead = usual_look_ahead(false)}).sbuf_bytes_per_partition_used,
            160000);
}

// `count` sums of two products, each in a bank of its own, and then as many copies. `in_turn`: the products
// of one sum before those of the next. `pinned`: the first sum has an address.
struct Sums {
  bool in_turn = true, pinned = false;
};
std::shared_ptr<const isa::Program> products_then_copies(int count_of, Sums how = {}) {
  ProgramBuilder b;
  const TensorId x = b.sbuf(128, 128, DType::kBFloat16), y = b.sbuf(128, 512, DType::kBFloat16);
  b.memset(b.all(x));
  b.memset(b.all(y));
  std::vector<TensorId> sums;
  for (int i = 0; i < count_of; ++i) sums.push_back(b.psum(128, 512));
  if (how.pinned) b.program().tensor(sums[0]).address = isa::Address{0, 0};
  for (int i = 0; i < 2 * count_of; ++i) {
    const int sum = how.in_turn ? i / 2 : i % count_of;
    const bool accumulates = how.in_turn ? i % 2 == 1 : i >= count_of;
    b.matmul(b.all(sums[static_cast<size_t>(sum)]), b.all(x), b.all(y), accumulates);
  }
  for (TensorId sum : sums) b.copy(b.all(b.sbuf(128, 512, DType::kFloat32)), b.all(sum));
  return b.take();
}

TEST(PsumEvictions, EachSumLeavesBehindItsLastProduct) {
  const auto hoisted = hoist_psum_evictions(products_then_copies(3, {.in_turn = false}));
  std::vector<Opcode> opcodes;
  for (const isa::Instruction& in : hoisted->instructions()) opcodes.push_back(in.opcode);
  constexpr auto kSet = Opcode::kMemset, kSum = Opcode::kNcMatmul, kCopy = Opcode::kTensorCopy;
  EXPECT_EQ(opcodes, (std::vector{kSet, kSet, kSum, kSum, kSum, kSum, kCopy, kSum, kCopy, kSum, kCopy}));
}

TEST(PsumEvictions, WhatStaysIsTheProgramItself) {
  const auto in_place = products_then_copies(1);
  EXPECT_EQ(hoist_psum_evictions(in_place), in_place);
  const auto hoisted = hoist_psum_evictions(products_then_copies(2, {.pinned = true}));
  EXPECT_EQ(hoisted->instruction(4).opcode, Opcode::kNcMatmul);  // the pinned sum stays
  EXPECT_EQ(hoisted->instruction(6).opcode, Opcode::kTensorCopy);
}

TEST(PsumEvictions, ACopyOfTwoSumsWaitsForBothAndForReadersOfItsDestination) {
  ProgramBuilder b;
  const TensorId x = b.sbuf(128, 128, DType::kBFloat16);
  const TensorId one = b.psum(128, 128), two = b.psum(128, 128), out = b.sbuf(128, 128, DType::kFloat32);
  b.memset(b.all(x));
  b.matmul(b.all(one), b.all(x), b.all(x), false);                                    // 1
  b.memset(b.all(out));                                                               // 2
  b.copy(b.all(b.sbuf(128, 128, DType::kFloat32)), b.all(out));                       // 3
  b.matmul(b.all(two), b.all(x), b.all(x), false);                                    // 4
  b.memset(b.all(b.sbuf(128, 128, DType::kFloat32)));                                 // 5
  b.copy(b.all(out), b.all(one));                                                     // 6: behind 3
  b.tensor_tensor(b.all(b.sbuf(128, 128, DType::kFloat32)), b.all(two), b.all(out));  // 7: behind 4
  const auto hoisted = hoist_psum_evictions(b.take());
  std::vector<Opcode> opcodes;
  for (const isa::Instruction& in : hoisted->instructions()) opcodes.push_back(in.opcode);
  constexpr auto kSet = Opcode::kMemset, kSum = Opcode::kNcMatmul, kCopy = Opcode::kTensorCopy;
  EXPECT_EQ(opcodes, (std::vector{kSet, kSum, kSet, kCopy, kCopy, kSum, Opcode::kTensorTensor, kSet}));
}

TEST(PsumEvictions, MoreSumsThanBanksAreCompiled) {
  EXPECT_NO_THROW(compile(products_then_copies(12)));
  EXPECT_THROW(compile(products_then_copies(12, {.in_turn = false})), Fault);
  ProgramBuilder b;  // nothing can leave early
  const TensorId out = b.sbuf(128, 512, DType::kFloat32);
  std::vector<TensorId> sums;
  for (int i = 0; i < 9; ++i) b.memset(b.all(sums.emplace_back(b.psum(128, 512))));
  b.tensor_tensor(b.all(sums[0]), b.all(sums[0]), b.all(sums[8]));
  for (TensorId sum : sums) b.tensor_tensor(b.all(sums[0]), b.all(sums[0]), b.all(sum));
  b.copy(b.all(out), b.all(sums[0]));
  EXPECT_THROW(compile(b.take()), Fault);
}

}  // namespace
}  // namespace opentrn::backend
