// Operand resolution, checks, registers and loops.
#include "sim/functional/core.h"

#ifdef __SSE__
#include <immintrin.h>
#endif

#include "base/thread_pool.h"
#include "sim/functional/context.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::core_tests {
namespace {

using isa::Indirect;
using isa::IndirectKind;
using isa::Opcode;
using isa::Operand;
using ::testing::Test;

TEST(Bodies, EveryOpcodeIsExecuted) {
  for (const isa::InstructionDefinition& row : isa::definitions())
    EXPECT_TRUE(is_executed(row.opcode)) << row.name;
}

TEST(Checks, UninitialisedReadNamesElementOperandAndLine) {
  TestKernel k;
  const Tile src = k.sbuf(2, 4), dst = k.sbuf(2, 1);
  k.run(Opcode::kMemset, {k.op(src, 0, {{4, 2}, {1, 3}}), Operand::imm(1)});
  const Fault fault = fault_of([&] {
    k.run(Opcode::kTensorReduce, {k.op(dst), k.op(src)},
          {word(AluOp::kAdd), word(int64_t{1}), word(int64_t{0})});
  });
  EXPECT_EQ(fault.label(), "sim.uninitialised_read");
  EXPECT_EQ(fault.kind(), FaultKind::kProgram);
  EXPECT_NE(fault.message().find("element [0, 3]"), std::string::npos) << fault.what();
  EXPECT_EQ(fault.location().line, 2);
  EXPECT_NE(std::string(fault.what()).find("data: float32[2, 4] of 't0'"), std::string::npos) << fault.what();
}

TEST(Checks, UninitialisedReadsCanBeAllowed) {
  TestKernel k(Generation::kV3, nullptr, {.uninitialised_reads = false});
  const Tile src = k.sbuf(2, 4), dst = k.sbuf(2, 4);
  EXPECT_NO_THROW(k.run(Opcode::kTensorCopy, {k.op(dst), k.op(src)}));
}

TEST(Checks, BoundsOfRowsAndOfTheRowLength) {
  TestKernel k;
  const Tile t = k.sbuf(4, 8);
  const auto label = [&](int64_t offset, std::initializer_list<isa::Dim> dims) {
    return fault_of([&] { k.run(Opcode::kMemset, {k.op(t, offset, dims), Operand::imm(0)}); }).label();
  };
  EXPECT_EQ(label(0, {{8, 5}, {1, 8}}), "memset.bounds");
  EXPECT_EQ(label(1, {{8, 4}, {1, 8}}), "memset.bounds");  // runs into the next row
  EXPECT_EQ(label(-1, {{8, 1}, {1, 1}}), "memset.bounds");
  EXPECT_EQ(label(0, {{8, 4}, {3, 4}}), "memset.bounds");
  EXPECT_EQ(label(0, {{7, 4}, {1, 2}}), "memset.partition_step");
  EXPECT_EQ(label(0, {{8, 4}, {int64_t{1} << 62, 3}}), "memset.bounds");
  EXPECT_EQ(label(int64_t{1} << 62, {{8, 4}, {1, 1}}), "memset.bounds");
  EXPECT_EQ(label(0, {{8, 4}, {1, 0}}), "memset.operand");
  EXPECT_EQ(label(0, {{0, 4096}, {1, 1}}), "memset.tile_size");
}

#ifdef __SSE__
TEST(Core, KeepsSubnormalNumbersWhereItsCallerDoesNot) {
  constexpr unsigned kFlushToZero = 0x8040;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(before | kFlushToZero);
  ThreadPool pool(2);  // its threads begin with the settings of this one
  TestKernel k(Generation::kV3, &pool);
  constexpr int64_t kColumns = 4096;
  const Tile src = k.sbuf_of(128, kColumns, std::vector<float>(128 * kColumns, 1e-38f)),
             dst = k.sbuf(128, kColumns);
  k.run(Opcode::kTensorScalar, {k.op(dst), k.op(src), Operand::imm(0.125), {}},
        {word(AluOp::kMultiply), word(int64_t{0}), word(int64_t{-1}), word(int64_t{0})});
  const unsigned after = _mm_getcsr();
  _mm_setcsr(before);
  EXPECT_EQ(after & kFlushToZero, kFlushToZero);
  EXPECT_EQ(k.get(dst), std::vector<float>(128 * kColumns, 1e-38f * 0.125f));
}
#endif

TEST(Checks, MalformedProgramsAreFaults) {
  TestKernel k;
  const Tile t = k.sbuf(2, 2);
  Operand bad_tensor = k.op(t);
  bad_tensor.tensor = 77;
  EXPECT_THROW(k.run(Opcode::kMemset, {bad_tensor, Operand::imm(0)}), Fault);
  Operand bad_pattern = k.op(t);
  bad_pattern.pattern = 7777;
  EXPECT_THROW(k.run(Opcode::kMemset, {bad_pattern, Operand::imm(0)}), Fault);
  Operand bad_indirect = k.op(t);
  bad_indirect.indirect = 99;
  EXPECT_THROW(k.run(Opcode::kMemset, {bad_indirect, Operand::imm(0)}), Fault);
  EXPECT_THROW(k.run(Opcode::kMemset, {k.op(t)}), Fault);
  EXPECT_THROW(k.run(Opcode::kTensorTensor, {k.op(t), k.op(t), k.op(t)}), Fault);  // attributes missing
  EXPECT_THROW(k.run(Opcode::kTensorTensor, {k.op(t), k.op(t), k.op(t)}, {word(int64_t{200})}), Fault);
  EXPECT_THROW(k.run(Opcode::kMemset, {Operand::reg(1), Operand::imm(0)}), Fault);
}

TEST(Checks, InputsCannotBeWritten) {
  TestKernel k;
  const Tile input = k.hbm(1, 4), tile = k.sbuf_of(1, 4, {1, 2, 3, 4});
  const std::vector<float> host(4, 0.5f);
  k.core.bind(input.id, Buffer::wrap_read_only(host.data(), 16));
  const Fault fault = fault_of([&] {
    k.run(Opcode::kDmaCopy, {k.op(input), k.op(tile)},
          {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  });
  EXPECT_EQ(fault.label(), "sim.read_only");
}

TEST(Checks, ABoundBufferMustHaveTheSizeOfItsTensor) {
  TestKernel k;
  const Tile t = k.hbm(1, 4);
  k.core.bind(t.id, Buffer::allocate(15));
  EXPECT_EQ(fault_of([&] { k.core.buffer(k.program, t.id); }).label(), "sim.bound_size");
}

TEST(Checks, NanOriginNamesTheFirstInstruction) {
  TestKernel k(Generation::kV3, nullptr, {.nan_origin = true});
  const Tile a = k.sbuf_of(1, 2, {1, INFINITY}), b = k.sbuf(1, 2), c = k.sbuf(1, 2);
  k.run(Opcode::kTensorCopy, {k.op(b), k.op(a)});
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kTensorTensor, {k.op(c), k.op(a), k.op(b)}, {word(AluOp::kSubtract)});
            }).label(),
            "sim.nan_origin");
  EXPECT_NO_THROW(k.run(Opcode::kTensorCopy, {k.op(b), k.op(c)}));  // NaN came in
}

TEST(Tensors, ReleasedMemoryIsUninitialisedAgain) {
  TestKernel k;
  const Tile a = k.sbuf_of(1, 4, {1, 2, 3, 4}), b = k.sbuf(1, 4);
  k.core.release(a.id);
  EXPECT_EQ(k.core.tensor_bytes_in_use(), 0);
  EXPECT_EQ(fault_of([&] {
              k.run(Opcode::kTensorCopy, {k.op(b), k.op(a)});
            }).label(),
            "sim.uninitialised_read");
}

// As a kernel's Python does, whose names keep tiles until the next iteration binds them anew.
TEST(Tensors, ReleasesNamedLateHappenAfterTheLastUse) {
  TestKernel k;
  const Tile sum = k.sbuf(1, 256);
  k.emit(Opcode::kMemset, {k.op(sum), Operand::imm(0)});
  std::vector<Core::Release> releases;
  std::vector<Tile> tiles;
  for (int i = 0; i < 20; ++i) {
    tiles.push_back(k.sbuf(1, 256));
    k.emit(Opcode::kMemset, {k.op(tiles.back()), Operand::imm(1)});
    k.emit(Opcode::kTensorTensor, {k.op(sum), k.op(sum), k.op(tiles.back())}, {word(AluOp::kAdd)});
  }
  const auto end = static_cast<isa::InstructionIndex>(k.program.size());
  for (const Tile& tile : tiles) releases.emplace_back(end - 1, tile.id);
  k.core.run(k.program, 0, end, releases);
  EXPECT_EQ(k.get(sum)[255], 20.0f);
  EXPECT_EQ(k.core.tensor_bytes_in_use(), 1024);
  EXPECT_LE(k.core.tensor_bytes_peak(), 2 * 1024);
}

TEST(Tensors, RunningAWholeProgramReleasesAfterTheLastUse) {
  TestKernel k;
  std::vector<Tile> chain;
  for (int i = 0; i < 20; ++i) chain.push_back(k.sbuf(1, 256));
  const Tile out = k.hbm(1, 256);
  k.program.tensor(out.id).is_output = true;
  k.emit(Opcode::kMemset, {k.op(chain[0]), Operand::imm(3)});
  for (size_t i = 1; i < chain.size(); ++i) k.emit(Opcode::kTensorCopy, {k.op(chain[i]), k.op(chain[i - 1])});
  k.emit(Opcode::kDmaCopy, {k.op(out), k.op(chain.back())},
         {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  EXPECT_EQ(k.core.run(k.program), k.program.size());
  EXPECT_EQ(k.get(out)[255], 3.0f);
  EXPECT_LE(k.core.tensor_bytes_peak(), 2 * 1024);
}

TEST(Overlap, ShiftedCopyReadsEverythingFirst) {
  TestKernel k;
  const Tile t = k.sbuf_of(1, 6, {0, 1, 2, 3, 4, 5});
  k.run(Opcode::kTensorCopy, {k.op(t, 1, {{6, 1}, {1, 5}}), k.op(t, 0, {{6, 1}, {1, 5}})});
  EXPECT_EQ(k.get(t), (std::vector<float>{0, 0, 1, 2, 3, 4}));
  k.run(Opcode::kTensorScalar,
        {k.op(t, 0, {{6, 1}, {1, 5}}), k.op(t, 1, {{6, 1}, {1, 5}}), Operand::imm(10), Operand::none()},
        {word(AluOp::kAdd), word(int64_t{0}), word(int64_t{-1}), word(int64_t{0})});
  EXPECT_EQ(k.get(t), (std::vector<float>{10, 11, 12, 13, 14, 4}));
}

TEST(Access, StridesBroadcastsAndReinterpretation) {
  TestKernel k;
  const Tile src = k.sbuf_of(2, 6, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const Tile dst = k.sbuf(2, 6);
  // Every second column, each repeated twice.
  k.run(Opcode::kTensorCopy, {k.op(dst), k.op(src, 0, {{6, 2}, {2, 3}, {0, 2}})});
  EXPECT_EQ(k.get(dst), (std::vector<float>{0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10}));
  // The bits of 1.0f, seen as two uint16.
  const Tile one = k.sbuf_of(1, 1, {1.0f}), halves = k.sbuf(1, 2, DType::kUint16);
  Operand bits = k.op(one, 0, {{2, 1}, {1, 2}});
  bits.dtype = DType::kUint16;
  k.run(Opcode::kTensorCopy, {k.op(halves), bits});
  EXPECT_EQ(k.get_integers(halves), (std::vector<int64_t>{0x0000, 0x3f80}));
}

TEST(Registers, LoadMoveStoreAndArithmeticWrapTo32Bits) {
  TestKernel k;
  const Tile cell = k.sbuf_of(1, 1, {7}, DType::kInt32), out = k.sbuf(1, 1, DType::kInt32);
  const isa::RegisterId a = k.program.add_register(), b = k.program.add_register();
  k.run(Opcode::kRegisterLoad, {Operand::reg(a), k.op(cell)});
  EXPECT_EQ(k.core.register_value(a), 7);
  k.run(Opcode::kRegisterMove, {Operand::reg(b), Operand::imm(2147483647)});
  k.run(Opcode::kRegisterAlu, {Operand::reg(b), Operand::reg(b), Operand::reg(a)}, {word(AluOp::kAdd)});
  EXPECT_EQ(k.core.register_value(b), -2147483642);
  k.run(Opcode::kRegisterStore, {k.op(out), Operand::reg(b)});
  EXPECT_EQ(k.get_integers(out)[0], -2147483642);
}

TEST(Registers, ReadingOneThatNothingHasSetIsAFault) {
  TestKernel k;
  const Tile out = k.sbuf(1, 1, DType::kInt32);
  const isa::RegisterId unset = k.program.add_register(), other = k.program.add_register();
  const auto label = [&](Opcode opcode, std::initializer_list<Operand> operands) {
    return fault_of([&] { k.run(opcode, operands); }).label();
  };
  EXPECT_EQ(label(Opcode::kRegisterStore, {k.op(out), Operand::reg(unset)}), "sim.uninitialised_read");
  EXPECT_EQ(label(Opcode::kRegisterMove, {Operand::reg(other), Operand::reg(unset)}),
            "sim.uninitialised_read");
  TestKernel unchecked(Generation::kV3, nullptr, {.uninitialised_reads = false});
  const Tile cell = unchecked.sbuf(1, 1, DType::kInt32);
  unchecked.run(Opcode::kRegisterStore, {unchecked.op(cell), Operand::reg(unchecked.program.add_register())});
  EXPECT_EQ(unchecked.get_integers(cell)[0], 0);
}

// Tiles that are written as a whole before anyone reads them are not filled first; what others read is the
// same.
TEST(FreshMemory, ReadsAsNanAndFourWhereNothingWasWritten) {
  TestKernel k(Generation::kV3, nullptr, {.uninitialised_reads = false, .fill_fresh_memory = true});
  const auto nan_of = [](const std::vector<float>& values) {
    std::vector<bool> found;
    for (const float value : values) found.push_back(std::isnan(value));
    return found;
  };
  const Tile whole = k.sbuf(2, 4), half = k.sbuf(2, 4), never = k.sbuf(2, 4), onto = k.sbuf(2, 4);
  const Tile numbers = k.sbuf(2, 4, DType::kInt32), some = k.sbuf(2, 4, DType::kInt32);
  const Tile repeated = k.sbuf(2, 4), out = k.sbuf(2, 4), out_of_half = k.sbuf(2, 4);
  k.run(Opcode::kMemset, {k.op(whole), Operand::imm(1)});
  EXPECT_EQ(k.get(whole), std::vector<float>(8, 1.0f));
  k.run(Opcode::kMemset, {k.op(half, 0, {{4, 2}, {2, 2}}), Operand::imm(1)});
  k.run(Opcode::kTensorCopy, {k.op(out_of_half), k.op(half)});
  EXPECT_EQ(nan_of(k.get(out_of_half)), (std::vector<bool>{0, 1, 0, 1, 0, 1, 0, 1}));
  k.run(Opcode::kTensorCopy, {k.op(out), k.op(never)});
  EXPECT_EQ(nan_of(k.get(out)), std::vector<bool>(8, true));
  // In place: the source is read before the whole is written.
  k.run(Opcode::kTensorCopy, {k.op(onto), k.op(onto)});
  EXPECT_EQ(nan_of(k.get(onto)), std::vector<bool>(8, true));
  EXPECT_EQ(k.get_integers(numbers), std::vector<int64_t>(8, 4));
  k.run(Opcode::kMemset, {k.op(some, 2, {{4, 2}, {1, 2}}), Operand::imm(1)});
  EXPECT_EQ(k.get_integers(some), (std::vector<int64_t>{4, 4, 1, 1, 4, 4, 1, 1}));
  // As many elements as the tile has, all of them the first of a row.
  k.run(Opcode::kMemset, {k.op(repeated, 0, {{4, 2}, {0, 4}}), Operand::imm(1)});
  EXPECT_EQ(nan_of(k.get(repeated)), (std::vector<bool>{0, 1, 1, 1, 0, 1, 1, 1}));
}

TEST(FreshMemory, ProductsFillWhatTheyDoNotOverwrite) {
  TestKernel k(Generation::kV3, nullptr,
               {.uninitialised_reads = false, .fill_fresh_memory = true, .psum_accumulation = false});
  const Tile ones = k.sbuf_of(1, 4, {1, 1, 1, 1});
  const isa::AttributeWord zero = word(int64_t{0});
  const auto product = [&](const Operand& dst, int64_t columns, int64_t accumulate) {
    k.run(Opcode::kNcMatmul, {dst, k.op(ones, 0, {{4, 1}, {1, 2}}), k.op(ones, 0, {{4, 1}, {1, columns}})},
          {word(accumulate), zero, zero, zero, zero, zero, zero, zero, zero}, isa::Engine::kTensor);
  };
  const Tile whole = k.psum(2, 4), part = k.psum(2, 4), onto = k.psum(2, 4);
  product(k.op(whole), 4, 0);
  EXPECT_EQ(k.get(whole), std::vector<float>(8, 1.0f));
  product(k.op(part, 0, {{4, 2}, {1, 3}}), 3, 0);
  const std::vector<float> values = k.get(part);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(std::isnan(values[i]), i % 4 == 3);
  product(k.op(onto), 4, 1);
  for (const float value : k.get(onto)) EXPECT_TRUE(std::isnan(value));
}

TEST(Loops, NestedCountsAndScalarOffsets) {
  TestKernel k;
  const Tile t = k.sbuf_of(1, 12, std::vector<float>(12, 0));
  const isa::RegisterId i = k.program.add_register(), j = k.program.add_register(),
                        at = k.program.add_register();
  const auto outer = k.loop_begin(i, Operand::imm(0), Operand::imm(3));
  const auto inner = k.loop_begin(j, Operand::imm(0), Operand::imm(4), 2);
  k.emit(Opcode::kRegisterAlu, {Operand::reg(at), Operand::reg(i), Operand::imm(4)},
         {word(AluOp::kMultiply)});
  k.emit(Opcode::kRegisterAlu, {Operand::reg(at), Operand::reg(at), Operand::reg(j)}, {word(AluOp::kAdd)});
  const Operand cell =
      k.indirect(k.op(t, 0, {{12, 1}, {1, 1}}),
                 {.kind = IndirectKind::kScalar, .index = Operand::reg(at), .stride = 1, .bound = 12});
  k.emit(Opcode::kRegisterStore, {cell, Operand::reg(at)});
  k.loop_end(j, inner, 2);
  k.loop_end(i, outer);
  EXPECT_EQ(k.core.run(k.program), k.program.size());
  EXPECT_EQ(k.get(t), (std::vector<float>{0, 0, 2, 0, 4, 0, 6, 0, 8, 0, 10, 0}));
}

TEST(Loops, AStepBeyondTheEndRunsOnce) {
  TestKernel k;
  const isa::RegisterId i = k.program.add_register(), count = k.program.add_register();
  k.core.set_register(count, 0);
  const auto begin = k.loop_begin(i, Operand::imm(0), Operand::imm(5), INT64_MAX);
  k.emit(Opcode::kRegisterAlu, {Operand::reg(count), Operand::reg(count), Operand::imm(1)},
         {word(AluOp::kAdd)});
  k.loop_end(i, begin, INT64_MAX);
  EXPECT_EQ(k.core.run(k.program), k.program.size());
  EXPECT_EQ(k.core.register_value(count), 1);
}

TEST(Loops, ARangeMayEndInsideALoop) {
  TestKernel k;
  const isa::RegisterId i = k.program.add_register(), sum = k.program.add_register();
  k.core.set_register(sum, 0);
  const auto begin = k.loop_begin(i, Operand::imm(1), Operand::imm(5));
  k.core.run(k.program, 0, 1);
  k.emit(Opcode::kRegisterAlu, {Operand::reg(sum), Operand::reg(sum), Operand::reg(i)}, {word(AluOp::kAdd)});
  k.core.run(k.program, 1, 2);
  k.loop_end(i, begin);
  EXPECT_EQ(k.core.run(k.program, 2, 3), 3u);
  EXPECT_EQ(k.core.register_value(sum), 1 + 2 + 3 + 4);
}

// A tile that the body makes; `written` says whether each iteration writes it before reading it.
void read_tile_of_the_body(bool written) {
  TestKernel k;
  const isa::RegisterId i = k.program.add_register(), j = k.program.add_register();
  isa::Tensor made;
  made.rows = 1, made.row_elements = 2, made.shape = {1, 2}, made.loop = 0;
  const Tile t = {k.program.add_tensor(made), 1, 2, DType::kFloat32}, out = k.sbuf(1, 2);
  const auto begin = k.loop_begin(i, Operand::imm(0), Operand::imm(2));
  // Without `written`: in the first iteration only, as i < 1 - i there.
  const auto inner = k.loop_begin(j, written ? Operand::imm(0) : Operand::reg(i), Operand::imm(1));
  k.emit(Opcode::kMemset, {k.op(t), Operand::imm(3)});
  k.loop_end(j, inner);
  k.emit(Opcode::kTensorCopy, {k.op(out), k.op(t)});
  k.loop_end(i, begin);
  k.core.run(k.program);
  EXPECT_EQ(k.get(out), (std::vector<float>{3, 3}));
}

TEST(Loops, ATensorOfTheBodyIsNewInEachIteration) {
  read_tile_of_the_body(true);
  EXPECT_EQ(fault_of([] { read_tile_of_the_body(false); }).label(), "sim.uninitialised_read");
}

TEST(Loops, TripsAreCounted) {
  TestKernel k;
  const isa::RegisterId i = k.program.add_register(), j = k.program.add_register();
  const auto outer = k.loop_begin(i, Operand::imm(0), Operand::imm(3));
  const auto inner = k.loop_begin(j, Operand::imm(1), Operand::reg(i));
  k.loop_end(j, inner);
  k.loop_end(i, outer);
  k.core.run(k.program);
  const auto& trips = k.core.trip_counts();
  ASSERT_EQ(trips.at(outer).runs.size(), 1u);
  EXPECT_EQ(trips.at(outer).runs[0].iterations, 3);
  ASSERT_EQ(trips.at(inner).runs.size(), 2u);  // 0, 0, 1
  EXPECT_EQ(trips.at(inner).runs[0].entries, 2);
  EXPECT_EQ(trips.at(inner).runs[1].iterations, 1);
}

TEST(Loops, NoTripsAndWhile) {
  TestKernel k;
  const isa::RegisterId i = k.program.add_register(), n = k.program.add_register(),
                        count = k.program.add_register();
  k.core.set_register(count, 0);
  const auto begin = k.loop_begin(i, Operand::imm(5), Operand::imm(5));
  k.emit(Opcode::kRegisterMove, {Operand::reg(count), Operand::imm(100)});
  k.loop_end(i, begin);
  k.emit(Opcode::kRegisterMove, {Operand::reg(n), Operand::imm(6)});
  const auto loop = k.emit(Opcode::kWhileBegin, {Operand::reg(n)}, {word(int64_t{0})});
  k.emit(Opcode::kRegisterAlu, {Operand::reg(n), Operand::reg(n), Operand::imm(2)}, {word(AluOp::kSubtract)});
  k.emit(Opcode::kRegisterAlu, {Operand::reg(count), Operand::reg(count), Operand::imm(1)},
         {word(AluOp::kAdd)});
  const auto end = k.emit(Opcode::kWhileEnd, {Operand::reg(n)}, {word(int64_t{loop})});
  k.program.set_attribute(loop, isa::slot::while_loop::kAMatch, word(int64_t{end}));
  EXPECT_EQ(k.core.run(k.program), k.program.size());
  EXPECT_EQ(k.core.register_value(count), 3);
}

TEST(Loops, AnEndlessWhileIsAFault) {
  TestKernel k(Generation::kV3, nullptr, {.while_iterations_max = 1000});
  const isa::RegisterId n = k.program.add_register();
  k.emit(Opcode::kRegisterMove, {Operand::reg(n), Operand::imm(1)});
  const auto loop = k.emit(Opcode::kWhileBegin, {Operand::reg(n)}, {word(int64_t{0})});
  const auto end = k.emit(Opcode::kWhileEnd, {Operand::reg(n)}, {word(int64_t{loop})});
  k.program.set_attribute(loop, isa::slot::while_loop::kAMatch, word(int64_t{end}));
  EXPECT_EQ(fault_of([&] { k.core.run(k.program); }).label(), "sim.while_iterations");
}

TEST(Loops, AnEndWithoutItsBeginIsAFault) {
  TestKernel k;
  const isa::RegisterId i = k.program.add_register();
  const auto begin = k.loop_begin(i, Operand::imm(0), Operand::imm(2));
  k.loop_end(i, begin);
  EXPECT_EQ(fault_of([&] { k.core.run(k.program, 1, 2); }).label(), "loop_end.nesting");
}

TEST(DevicePrint, GivesTextShapeAndValues) {
  TestKernel k;
  const Tile t = k.sbuf_of(2, 2, {1, 2.5f, -3, 4});
  std::string seen;
  k.core.set_print_callback([&](const PrintEvent& event) {
    EXPECT_EQ(event.shape, (std::vector<int64_t>{2, 2}));
    EXPECT_EQ(event.dtype, DType::kFloat32);
    seen = event.formatted;
  });
  k.run(Opcode::kDevicePrint, {k.op(t)}, {word(int64_t{k.program.intern_string("scores")})});
  EXPECT_EQ(seen, "scores\n[[1, 2.5],\n [-3, 4]]");
}

}  // namespace
}  // namespace opentrn::sim::core_tests
