// Physical execution equals program order, and wrong schedules are caught.
#include "sim/functional/physical.h"

#include <cstring>

#include "base/random.h"
#include "isa/definitions.h"
#include "sim/functional/race_detector.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::physical_tests {
namespace {

using isa::Engine;
using isa::Executable;
using isa::InstructionIndex;
using isa::Opcode;
using isa::Operand;

// A schedule by the simplest rules: one stream per engine, each tensor at a place of its own, and a wait for
// every earlier instruction that shares a tensor. Loop markers wait for everything and everything waits for
// them.
Executable schedule(const isa::Program& program, uint64_t seed) {
  SplitMix64 random(seed);
  Executable out;
  out.program = std::shared_ptr<const isa::Program>(&program, [](const isa::Program*) {});
  const Engine engines[] = {Engine::kVector, Engine::kScalar, Engine::kGpSimd,
                            Engine::kTensor, Engine::kDma,    Engine::kSync};
  for (Engine engine : engines) out.streams.push_back({engine, 0});
  std::array<int64_t, 3> next{};  // SBUF, PSUM, HBM
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id) {
    const isa::Tensor& tensor = program.tensor(id);
    const size_t memory = tensor.space == isa::MemorySpace::kSbuf   ? 0
                          : tensor.space == isa::MemorySpace::kPsum ? 1
                                                                    : 2;
    out.placements.push_back({true, {0, next[memory]}});
    next[memory] +=
        (isa::is_on_chip(tensor.space) ? tensor.row_bytes() : tensor.bytes()) + 4 * random.below(8);
  }
  std::vector<std::vector<isa::TensorId>> touched(program.size());
  for (InstructionIndex i = 0; i < program.size(); ++i) {
    const isa::Instruction& in = program.instruction(i);
    for (const Operand& op : program.operands(in)) {
      if (!op.is_access()) continue;
      touched[i].push_back(op.tensor);
      if (op.indirect != 0 && program.indirect(op).index.is_access())
        touched[i].push_back(program.indirect(op).index.tensor);
    }
    const bool control = isa::is_control(in.opcode);
    isa::ScheduledInstruction entry;
    entry.instruction = i;
    entry.stream = static_cast<isa::StreamId>(control ? 5 : random.below(5));
    entry.engine = out.streams[entry.stream].engine;
    entry.waits = static_cast<uint32_t>(out.waits.size());
    for (InstructionIndex j = 0; j < i; ++j) {
      bool shares = control || isa::is_control(program.instruction(j).opcode);
      for (isa::TensorId a : touched[i])
        for (isa::TensorId b : touched[j]) shares |= a == b;
      if (shares) out.waits.push_back(j);
    }
    entry.wait_count = static_cast<uint32_t>(out.waits.size()) - entry.waits;
    out.schedule.push_back(entry);
  }
  return out;
}

PhysicalOptions seeded(uint64_t seed) {
  PhysicalOptions options;
  options.seed = seed;
  return options;
}

// Random element-wise work on eight tiles, copied to HBM at the end.
struct RandomKernel {
  TestKernel k;
  std::vector<Tile> tiles;
  Tile out;

  RandomKernel(uint64_t seed, bool with_loop) {
    SplitMix64 random(seed);
    const DType dtypes[] = {DType::kFloat32, DType::kBFloat16, DType::kInt32};
    for (int i = 0; i < 8; ++i) {
      tiles.push_back(k.sbuf(16, 12, dtypes[random.below(3)]));
      k.emit(Opcode::kIota, {k.op(tiles.back())},
             {word(k.list({1, 12})), word(int64_t{random.below(9)}), word(int64_t{3})});
    }
    const isa::RegisterId counter = k.program.add_register();
    InstructionIndex begin = 0;
    for (int i = 0; i < 40; ++i) {
      if (with_loop && i == 10) begin = k.loop_begin(counter, Operand::imm(0), Operand::imm(4));
      if (with_loop && i == 30) k.loop_end(counter, begin);
      const auto some = [&] {
        const Tile& t = tiles[random.below(8)];
        return k.op(t, random.below(4), {{12, 16}, {1, 8}});
      };
      const AluOp ops[] = {AluOp::kAdd, AluOp::kSubtract, AluOp::kMaximum};
      k.emit(Opcode::kTensorTensor, {some(), some(), some()}, {word(ops[random.below(3)])}, Engine::kVector);
    }
    out = k.hbm(16 * 8, 12);
    k.program.tensor(out.id).is_output = true;
    for (int i = 0; i < 8; ++i)
      k.emit(Opcode::kDmaCopy,
             {k.op(out, 16 * 12 * i, {{12, 16}, {1, 12}}), k.op(tiles[static_cast<size_t>(i)])},
             {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  }
};

TEST(Physical, EqualsProgramOrderForEverySeed) {
  for (uint64_t seed = 0; seed < 12; ++seed) {
    RandomKernel kernel(seed, seed % 2 == 1);
    kernel.k.core.run(kernel.k.program);
    const std::vector<float> expected = kernel.k.get(kernel.out);
    const Executable executable = schedule(kernel.k.program, seed);
    int64_t choices = 0;
    for (uint64_t order = 0; order < 3; ++order) {
      const auto result = Buffer::allocate(16 * 8 * 12 * 4);
      const Binding bindings[] = {{kernel.out.id, result}};
      choices += run_executable(executable, bindings, seeded(order)).choices;
      EXPECT_EQ(std::memcmp(result->data(), expected.data(), expected.size() * 4), 0)
          << "seed " << seed << " " << order;
    }
    EXPECT_GT(choices, 10) << "the streams were never free to interleave";
  }
}

// What an element draws is decided by the instruction and how often it ran, not by when.
TEST(Physical, StochasticRoundingIsThatOfProgramOrder) {
  RandomKernel nearest(1, true), kernel(1, true);
  nearest.k.core.run(nearest.k.program);
  kernel.k.core.set_stochastic_rounding(5);
  kernel.k.core.run(kernel.k.program);
  const std::vector<float> expected = kernel.k.get(kernel.out);
  EXPECT_NE(expected, nearest.k.get(nearest.out));
  const Executable executable = schedule(kernel.k.program, 1);
  for (uint64_t order = 0; order < 3; ++order) {
    const auto result = Buffer::allocate(16 * 8 * 12 * 4);
    const Binding bindings[] = {{kernel.out.id, result}};
    PhysicalOptions options = seeded(order);
    options.stochastic_rounding = 5;
    run_executable(executable, bindings, options);
    EXPECT_EQ(std::memcmp(result->data(), expected.data(), expected.size() * 4), 0) << order;
  }
}

TEST(Physical, AMissingWaitIsARaceWhateverTheSeed) {
  RandomKernel kernel(3, false);
  Executable executable = schedule(kernel.k.program, 3);
  // The last copy to HBM no longer waits for anything, and runs on a stream of its own.
  executable.streams.push_back({Engine::kDma, 1});
  executable.schedule.back().stream = static_cast<isa::StreamId>(executable.streams.size() - 1);
  executable.schedule.back().wait_count = 0;
  for (uint64_t order = 0; order < 5; ++order) {
    PhysicalOptions options = seeded(order);
    options.checks.uninitialised_reads = false;
    const Fault fault = fault_of([&] { run_executable(executable, {}, options); });
    EXPECT_EQ(fault.label(), "sim.race") << fault.what();
    EXPECT_EQ(fault.kind(), FaultKind::kInternal);
  }
}

TEST(Physical, OverlappingPlacementsAreCaught) {
  TestKernel k;
  const Tile a = k.sbuf(1, 4), b = k.sbuf(1, 4), c = k.sbuf(1, 4);
  k.emit(Opcode::kMemset, {k.op(a), Operand::imm(1)});
  k.emit(Opcode::kMemset, {k.op(b), Operand::imm(2)});
  k.emit(Opcode::kTensorCopy, {k.op(c), k.op(a)});
  Executable executable = schedule(k.program, 0);
  for (auto& entry : executable.schedule) entry.stream = 0;  // ordered, and still wrong
  executable.placements[a.id].address.byte_offset = 0;
  executable.placements[b.id].address.byte_offset = 12;
  executable.placements[c.id].address.byte_offset = 64;
  EXPECT_EQ(fault_of([&] { run_executable(executable, {}); }).label(), "sim.clobbered");
  executable.placements[b.id].address.byte_offset = 16;
  EXPECT_NO_THROW(run_executable(executable, {}));
  executable.placements[b.id].placed = false;
  EXPECT_EQ(fault_of([&] { run_executable(executable, {}); }).label(), "sim.placement");
}

TEST(Physical, AnInstructionThatOvertakesALoopMarkerIsCaught) {
  RandomKernel kernel(1, true);
  Executable executable = schedule(kernel.k.program, 1);
  for (auto& entry : executable.schedule) {
    const bool marker = isa::is_control(kernel.k.program.instruction(entry.instruction).opcode);
    if (marker) entry.wait_count = 0;
  }
  EXPECT_EQ(fault_of([&] { run_executable(executable, {}, seeded(4)); }).label(), "sim.loop_order");
}

TEST(ScheduleOrder, FollowsStreamsAndWaits) {
  isa::Program program;
  for (int i = 0; i < 4; ++i) program.append(Opcode::kRegisterMove, Engine::kSync, {}, {}, 0);
  Executable executable;
  executable.program = std::shared_ptr<const isa::Program>(&program, [](const isa::Program*) {});
  executable.streams = {{Engine::kVector, 0}, {Engine::kScalar, 0}};
  executable.waits = {1};
  executable.schedule.resize(4);
  for (uint32_t i = 0; i < 4; ++i) executable.schedule[i].instruction = i;
  executable.schedule[1].stream = executable.schedule[2].stream = 1;
  executable.schedule[3].wait_count = 1;  // 3 waits for 1
  const ScheduleOrder order(executable);
  EXPECT_TRUE(order.before(0, 3));
  EXPECT_TRUE(order.before(1, 2));
  EXPECT_TRUE(order.before(1, 3));
  EXPECT_FALSE(order.before(2, 3));
  EXPECT_FALSE(order.before(0, 1));
  EXPECT_FALSE(order.before(3, 0));
}

TEST(Shadow, RemembersWhatWasTouchedAndNothingElse) {
  isa::Program program;
  Executable executable;
  executable.program = std::shared_ptr<const isa::Program>(&program, [](const isa::Program*) {});
  executable.streams = {{Engine::kVector, 0}, {Engine::kScalar, 0}};
  executable.schedule.resize(3);
  executable.schedule[1].stream = 1;  // in no order with the others
  const ScheduleOrder order(executable);
  const std::vector<uint32_t> entries = {0, 1, 2};
  constexpr int64_t kMemoryBytes = 26 << 20, kBegin = 70'000, kBytes = 1'500;
  Shadow shadow(order, entries, kMemoryBytes);
  EXPECT_EQ(shadow.bytes_recorded(), 0);
  Conflict conflict{};
  EXPECT_EQ(shadow.foreign_byte(7, 0, kMemoryBytes), -1);
  EXPECT_TRUE(shadow.write(0, 7, kBegin, kBytes, &conflict));
  EXPECT_GE(shadow.bytes_recorded(), kBytes);
  EXPECT_LE(shadow.bytes_recorded(), 2 * kBytes);
  EXPECT_TRUE(shadow.read(2, kBegin, kBytes, &conflict));
  EXPECT_EQ(shadow.foreign_byte(7, kBegin - 10, kBytes + 20), -1);
  EXPECT_EQ(shadow.foreign_byte(8, kBegin - 10, kBytes + 20), kBegin);
  EXPECT_EQ(shadow.owner(kBegin + kBytes - 1), 7u);

  EXPECT_FALSE(shadow.read(1, kBegin - 10, kBytes, &conflict));
  EXPECT_EQ(conflict.byte, kBegin);
  EXPECT_TRUE(conflict.earlier_wrote);
  EXPECT_TRUE(shadow.read(1, kBegin + kBytes, 10, &conflict));
  EXPECT_TRUE(shadow.write(2, 7, kMemoryBytes - 600, 600, &conflict));
  EXPECT_FALSE(shadow.write(1, 7, kMemoryBytes - 1, 1, &conflict));
  EXPECT_EQ(conflict.earlier_entry, 2u);
  EXPECT_EQ(conflict.byte, kMemoryBytes - 1);
  EXPECT_FALSE(shadow.write(2, 7, kBegin + kBytes, 10, &conflict));  // which 1 has read
  EXPECT_FALSE(conflict.earlier_wrote);
}

}  // namespace
}  // namespace opentrn::sim::physical_tests
