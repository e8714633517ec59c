#include "backend/passes/vectorise_loops.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "backend/compile.h"
#include "backend/sample_programs.h"

// That values stay the same is tested by `opentrn_fuzz --only schedule`.

namespace opentrn::backend {
namespace {

using isa::Opcode;
using isa::Operand;
using isa::TensorId;

constexpr int64_t kBankBytes = 2048;

int64_t count(const isa::Program& program, Opcode opcode) {
  return std::ranges::count(program.instructions(), opcode, &isa::Instruction::opcode);
}
int64_t columns(const isa::Program& program, const isa::Instruction& in, int slot) {
  return program.pattern(program.operand(in, slot)).elements_per_partition();
}
const isa::Instruction& first(const isa::Program& program, Opcode opcode) {
  return *std::ranges::find(program.instructions(), opcode, &isa::Instruction::opcode);
}

struct Kernel {
  ProgramBuilder builder;
  TensorId source = builder.sbuf(128, 4096, DType::kFloat32);
  TensorId result = builder.sbuf(128, 4096, DType::kFloat32);

  // `body` in every iteration of a loop.
  template <typename Body>
  std::shared_ptr<const isa::Program> loop(int64_t iterations, Body body, bool independent = true) {
    isa::Program& program = builder.program();
    isa::IterationId now = program.begin_written_loop({isa::kNoIteration, independent});
    for (int64_t i = 0; i < iterations; ++i) {
      if (i > 0) now = program.next_iteration(program.loop_of(now));
      program.set_iteration(now);
      body(i);
    }
    program.set_iteration(isa::kNoIteration);
    return builder.take();
  }
  Operand of(TensorId tensor, int64_t column, int64_t width) {
    return builder.part(tensor, 0, 128, column, width);
  }
  void reduce(const Operand& dst, const Operand& data) {
    builder.append(Opcode::kTensorReduce, {dst, data}, {static_cast<int64_t>(AluOp::kAdd), 1, 0});
  }
  // What neuronx-cc makes of autocomp's conv1d: three products, and their sum.
  std::shared_ptr<const isa::Program> convolution(int64_t iterations) {
    const TensorId filter = builder.sbuf(128, 3, DType::kFloat32);
    return loop(iterations, [&](int64_t i) {
      const TensorId products = builder.sbuf(128, 3, DType::kFloat32);
      builder.tensor_tensor(builder.all(products), of(source, i, 3), builder.all(filter), AluOp::kMultiply);
      reduce(of(result, i, 1), builder.all(products));
    });
  }
};

TEST(VectoriseLoops, ALoopThatFitsInABankBecomesOneOfEachInstruction) {
  const auto program = Kernel().convolution(64);
  const auto merged = vectorise_iterations(program, kBankBytes);
  ASSERT_EQ(merged->size(), 2u);
  const isa::Instruction& product = merged->instruction(0);
  EXPECT_EQ(columns(*merged, product, isa::slot::tensor_tensor::kDst), 192);
  // The windows overlap; the filter is the same for all.
  const isa::Pattern& windows = merged->pattern(merged->operand(product, isa::slot::tensor_tensor::kData1));
  EXPECT_EQ(windows.dims[1], (isa::Dim{1, 64}));
  EXPECT_EQ(windows.dims[2], (isa::Dim{1, 3}));
  const isa::Pattern& filter = merged->pattern(merged->operand(product, isa::slot::tensor_tensor::kData2));
  EXPECT_EQ(filter.dims[1], (isa::Dim{0, 64}));
  EXPECT_EQ(columns(*merged, merged->instruction(1), isa::slot::tensor_reduce::kDst), 64);
}

TEST(VectoriseLoops, AsManyAsFitOrNone) {
  const auto long_loop = Kernel().convolution(2048);  // 170 would fit
  EXPECT_EQ(vectorise_iterations(long_loop, kBankBytes), long_loop);
  const auto divisible = Kernel().convolution(340);
  EXPECT_EQ(vectorise_iterations(divisible, kBankBytes)->size(), 4u);
}

TEST(VectoriseLoops, CopiesOutOfPsumWaitForABankOfProducts) {
  Kernel k;
  const TensorId stationary = k.builder.sbuf(128, 128, DType::kFloat32);
  const auto program = k.loop(8, [&](int64_t i) {
    const TensorId product = k.builder.psum(128, 128);
    k.builder.matmul(k.builder.all(product), k.builder.all(stationary), k.of(k.source, 128 * i, 128), false);
    k.builder.copy(k.of(k.result, 128 * i, 128), k.builder.all(product));
  });
  const auto merged = vectorise_iterations(program, kBankBytes);
  EXPECT_EQ(count(*merged, Opcode::kNcMatmul), 8);
  EXPECT_EQ(count(*merged, Opcode::kTensorCopy), 2);
  const isa::Instruction& copy = first(*merged, Opcode::kTensorCopy);
  EXPECT_EQ(columns(*merged, copy, isa::slot::tensor_copy::kSrc), 512);
  const Operand& last_of_bank = merged->operand(merged->instruction(3), isa::slot::nc_matmul::kDst);
  EXPECT_EQ(last_of_bank.tensor, merged->operand(copy, isa::slot::tensor_copy::kSrc).tensor);
  EXPECT_EQ(last_of_bank.offset, 3 * 128);
  EXPECT_EQ(compile(merged, {}).psum_banks_used, 1);  // at once
}

TEST(VectoriseLoops, ALoopThatIsNotSaidToBeIndependentStays) {
  Kernel k;
  const auto program = k.loop(
      8, [&](int64_t i) { k.builder.copy(k.of(k.result, 8 * i, 8), k.of(k.source, 8 * i, 8)); }, false);
  EXPECT_EQ(vectorise_iterations(program, kBankBytes), program);
}

TEST(VectoriseLoops, AResultThatTheNextIterationReadsStays) {
  Kernel k;
  const auto chain =
      k.loop(8, [&](int64_t i) { k.builder.copy(k.of(k.source, 8 * i + 8, 8), k.of(k.source, 8 * i, 8)); });
  EXPECT_EQ(vectorise_iterations(chain, kBankBytes), chain);
  // Each statement by itself could be merged, but the second feeds the first of the next iteration.
  Kernel two;
  const auto crossed = two.loop(8, [&](int64_t i) {
    two.builder.copy(two.of(two.result, 8 * i, 8), two.of(two.source, 8 * i, 8));
    two.builder.tensor_scalar(two.of(two.source, 8 * i + 8, 8), two.of(two.result, 8 * i, 8), 2);
  });
  EXPECT_EQ(vectorise_iterations(crossed, kBankBytes), crossed);
}

TEST(VectoriseLoops, AnAccumulationStaysBesideWhatIsMerged) {
  Kernel k;
  const TensorId sum = k.builder.sbuf(128, 8, DType::kFloat32);
  const auto program = k.loop(8, [&](int64_t i) {
    const TensorId square = k.builder.sbuf(128, 8, DType::kFloat32);
    k.builder.tensor_tensor(k.builder.all(square), k.of(k.source, 8 * i, 8), k.of(k.source, 8 * i, 8),
                            AluOp::kMultiply);
    k.builder.tensor_tensor(k.builder.all(sum), k.builder.all(sum), k.builder.all(square), AluOp::kAdd);
  });
  EXPECT_EQ(vectorise_iterations(program, kBankBytes)->size(), 9u);
}

TEST(VectoriseLoops, WithoutMarksNothingIsKnown) {
  Kernel k;
  for (int64_t i = 0; i < 8; ++i) k.builder.copy(k.of(k.result, 8 * i, 8), k.of(k.source, 8 * i, 8));
  const std::shared_ptr<const isa::Program> program = k.builder.take();
  EXPECT_EQ(vectorise_iterations(program, kBankBytes), program);
}

}  // namespace
}  // namespace opentrn::backend
