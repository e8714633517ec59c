#include "sim/functional/core_races.h"

#include "sim/functional/core_group.h"
#include "sim/functional/test_kernel.h"

namespace opentrn::sim::core_races_tests {
namespace {

using isa::Opcode;
using isa::Operand;

// One program per core over one shared tensor of 8 fp32, which holds 0 to 7.
struct Pair {
  std::array<TestKernel, 2> kernels;
  CoreGroup group{Generation::kV3, 2};
  std::shared_ptr<Buffer> shared = Buffer::allocate(8 * sizeof(float));
  std::array<Tile, 2> hbm;

  Pair() {
    for (int rank = 0; rank < 2; ++rank) {
      hbm[rank] = kernels[rank].tile(isa::MemorySpace::kSharedHbm, 1, 8);
      group.core(rank).bind(hbm[rank].id, shared);
    }
    for (int i = 0; i < 8; ++i) values()[i] = static_cast<float>(i);
    shared->mark_all_initialised();
  }
  float* values() { return reinterpret_cast<float*>(shared->data()); }

  Tile tile(int rank, std::vector<float> values) {
    TestKernel& k = kernels[rank];
    const Tile t = k.sbuf(1, static_cast<int64_t>(values.size()));
    const auto buffer = group.core(rank).buffer(k.program, t.id);
    std::memcpy(buffer->data(), values.data(), values.size() * sizeof(float));
    buffer->mark_all_initialised();
    return t;
  }
  Operand part(int rank, int64_t offset, int64_t count, int64_t step = 1) {
    return kernels[rank].op(hbm[rank], offset, {{step, count}});
  }
  void copy(int rank, Operand dst, Operand src) {
    kernels[rank].emit(Opcode::kDmaCopy, {dst, src}, {word(int64_t{0}), word(int64_t{0}), word(int64_t{0})});
  }
  void write(int rank, int64_t offset, std::vector<float> values, int64_t step = 1) {
    const Tile from = tile(rank, values);
    copy(rank, part(rank, offset, from.columns, step), kernels[rank].op(from));
  }
  void read(int rank, int64_t offset, int64_t count) {
    TestKernel& k = kernels[rank];
    copy(rank, k.op(k.sbuf(1, count)), part(rank, offset, count));
  }
  void add(int rank, int64_t offset, float value) {
    TestKernel& k = kernels[rank];
    const Operand dst = part(rank, offset, 1);
    k.emit(Opcode::kDmaCompute, {dst, dst, k.op(tile(rank, {value}))},
           {word(AluOp::kAdd), word(int64_t{1}), word(int64_t{0})});
  }
  void meet() {
    for (int rank = 0; rank < 2; ++rank) {
      TestKernel& k = kernels[rank];
      k.emit(Opcode::kCoreBarrier, {k.op(hbm[rank])}, {word(k.list({0, 1}))});
    }
  }
  // Whichever core is first, between rendezvous.
  void run(int first = 0) {
    for (bool waits = false; !waits;) {
      waits = true;
      for (int turn = 0; turn < 2; ++turn) {
        const int rank = turn == 0 ? first : 1 - first;
        if (group.waiting_at(rank)) continue;
        const auto end = static_cast<isa::InstructionIndex>(kernels[rank].program.size());
        const isa::InstructionIndex before = at[rank];
        at[rank] = group.core(rank).run(kernels[rank].program, at[rank], end);
        waits = waits && at[rank] == before;
      }
    }
    group.check_races();
  }
  std::array<isa::InstructionIndex, 2> at{};
};

// Builds the same kernel for each order of the cores.
template <typename Build>
void expect_race(Build&& build) {
  for (const int first : {0, 1}) {
    Pair pair;
    build(pair);
    EXPECT_EQ(fault_of([&] { pair.run(first); }).label(), "sim.core_race") << "core " << first << " first";
  }
}
template <typename Build>
void expect_none(Build&& build) {
  for (const int first : {0, 1}) {
    Pair pair;
    build(pair);
    EXPECT_NO_THROW(pair.run(first)) << "core " << first << " first";
  }
}

TEST(CoreRaces, AReadOfWhatTheOtherCoreChangesNamesBothLines) {
  Pair pair;
  pair.read(0, 0, 4);
  pair.write(1, 0, {5});
  const Fault fault = fault_of([&] { pair.run(); });
  EXPECT_EQ(fault.kind(), FaultKind::kProgram);
  EXPECT_EQ(
      fault.message(),
      "core 1 writes element [0, 0] of 't0', which core 0 (dma_copy, instruction 0, kernel.py:1) reads, and "
      "the cores do not meet in between: what is read depends on which is first");
  EXPECT_EQ(fault.location().line, 1);
  EXPECT_NE(fault.hint().find("nisa.core_barrier"), std::string::npos);
}

TEST(CoreRaces, TheLaterReadNamesTheWrite) {
  Pair pair;
  pair.read(0, 4, 2);
  pair.write(0, 1, {9, 9, 9}, 2);
  pair.read(1, 4, 2);
  EXPECT_EQ(
      fault_of([&] { pair.run(); }).message(),
      "core 1 reads element [0, 5] of 't0', which core 0 (dma_copy, instruction 1, kernel.py:2) writes, and "
      "the cores do not meet in between: what is read depends on which is first");
}

TEST(CoreRaces, DifferentValuesAreARaceWhenTheCoresMeetOrEnd) {
  for (const bool synchronises : {false, true}) {
    Pair pair;
    pair.write(0, 2, {1, 2});
    pair.write(1, 3, {3});
    if (synchronises) pair.meet();
    const Fault fault = fault_of([&] { pair.run(); });
    EXPECT_EQ(fault.label(), "sim.core_race");
    EXPECT_EQ(
        fault.message(),
        "core 0 (dma_copy, instruction 0, kernel.py:1) and core 1 (dma_copy, instruction 0, kernel.py:1) "
        "write different values to element [0, 3] of 't0', and the cores do not meet in between: what is "
        "left depends on which is last");
    EXPECT_EQ(fault.location().line, 1);
  }
}

TEST(CoreRaces, RendezvousOrder) {
  expect_none([](Pair& pair) {
    pair.write(0, 0, {8, 8});
    pair.meet();
    pair.read(1, 0, 2);
    pair.meet();
    pair.write(0, 0, {9});
  });
  expect_race([](Pair& pair) {
    pair.write(0, 0, {8, 8});
    pair.meet();
    pair.read(1, 0, 2);
    pair.write(0, 0, {9});
  });
}

TEST(CoreRaces, EqualValuesMayBeWrittenByBothAndReadBack) {
  expect_none([](Pair& pair) {
    for (const int rank : {0, 1}) {
      pair.write(rank, 0, {8, 9});
      pair.read(rank, 0, 2);
    }
  });
  expect_none([](Pair& pair) {  // zeros first, and nobody reads in between
    for (const int rank : {0, 1}) {
      pair.write(rank, 0, {0, 0});
      pair.write(rank, 0, {8, 9});
    }
  });
  expect_race([](Pair& pair) {  // the other core's zeros may come after the values
    for (const int rank : {0, 1}) {
      pair.write(rank, 0, {0, 0});
      pair.write(rank, 0, {8, 9});
      pair.read(rank, 0, 2);
    }
  });
  expect_none([](Pair& pair) {  // what is there already
    pair.read(0, 0, 8);
    pair.write(1, 3, {3, 4});
  });
}

TEST(CoreRaces, EachCoreItsOwnPart) {
  expect_none([](Pair& pair) {
    for (const int rank : {0, 1}) {
      pair.write(rank, rank, {5, 6, 7, 8}, 2);
      pair.read(rank, rank, 1);
      pair.write(rank, rank, {9});
      pair.add(rank, rank, 1);
    }
  });
}

TEST(CoreRaces, AccumulatingReadsAndWrites) {
  expect_race([](Pair& pair) {
    for (const int rank : {0, 1}) pair.add(rank, 2, 1);
  });
  expect_none([](Pair& pair) {
    for (const int rank : {0, 1}) pair.add(rank, 2, 0);
  });
}

// Core 0 writes rows that a tile names.
Operand scattered(Pair& pair, std::vector<int64_t> rows) {
  TestKernel& k = pair.kernels[0];
  const Tile index = k.sbuf(static_cast<int64_t>(rows.size()), 1, DType::kInt32);
  const auto buffer = pair.group.core(0).buffer(k.program, index.id);
  numerics::store_i64(DType::kInt32, rows.data(), buffer->data(), 1, rows.size());
  buffer->mark_all_initialised();
  const auto count = static_cast<int64_t>(rows.size());
  return k.indirect(
      k.op(pair.hbm[0], 0, {{2, count}, {1, 2}}),
      {.kind = isa::IndirectKind::kVector, .dim = 0, .index = k.op(index), .stride = 2, .bound = 4});
}

TEST(CoreRaces, AddressesOfTheRun) {
  const auto scatter = [](Pair& pair, int64_t read_from) {
    const Operand dst = scattered(pair, {3, 1});
    TestKernel& k = pair.kernels[0];
    pair.copy(0, dst, k.op(pair.tile(0, {9, 9, 9, 9})));
    pair.read(1, read_from, 2);
  };
  expect_none([&](Pair& pair) { scatter(pair, 0); });
  expect_none([&](Pair& pair) { scatter(pair, 4); });
  expect_race([&](Pair& pair) { scatter(pair, 2); });
  expect_race([&](Pair& pair) { scatter(pair, 5); });
  expect_race([](Pair& pair) {  // what a register holds
    TestKernel& k = pair.kernels[0];
    const isa::RegisterId at = k.program.add_register();
    pair.group.core(0).set_register(at, 5);
    const Operand dst =
        k.indirect(k.op(pair.hbm[0], 0, {{1, 1}}),
                   {.kind = isa::IndirectKind::kScalar, .index = Operand::reg(at), .bound = 8});
    pair.copy(0, dst, k.op(pair.tile(0, {9})));
    pair.read(1, 5, 1);
  });
}

TEST(CoreRaces, ReadsBeyondTheListAreKept) {
  expect_race([](Pair& pair) {
    TestKernel& k = pair.kernels[0];
    const isa::RegisterId i = k.program.add_register();
    const Tile to = k.sbuf(1, 1);
    const auto begin = k.loop_begin(i, Operand::imm(0), Operand::imm((1 << 16) + 10));
    pair.copy(0, k.op(to), pair.part(0, 3, 1));
    k.loop_end(i, begin);
    pair.read(0, 5, 1);
    pair.write(1, 3, {9});
  });
}

TEST(CoreRaces, CanBeSwitchedOff) {
  CheckOptions checks;
  checks.core_races = false;
  CoreGroup group(Generation::kV3, 2, nullptr, checks);
  const auto buffer = Buffer::allocate(4);
  group.bind_shared(0, buffer);
  EXPECT_EQ(buffer->shared(), nullptr);
}

TEST(CoreRaces, MemoryThatIsNotWrittenIsNotWatched) {
  CoreGroup group(Generation::kV3, 2);
  const float values[2] = {};
  const auto buffer = Buffer::wrap_read_only(values, sizeof values);
  group.bind_shared(0, buffer);
  EXPECT_EQ(buffer->shared(), nullptr);
}

}  // namespace
}  // namespace opentrn::sim::core_races_tests
