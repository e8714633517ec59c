// Tests of what on-chip memory a run held, on traces small enough to check by hand.
#include "profile/high_water.h"

#include <gtest/gtest.h>

#include <utility>

#include "arch/tables.h"

namespace opentrn::profile {
namespace {

using isa::Opcode;

const arch::NeuronCore& limits() { return arch::default_tables().neuron_core(Generation::kV3); }

// A program under construction, and the trace of its run.
class TimedRun {
 public:
  TimedRun() {
    const auto track = [this](trace::TrackKind kind, isa::Engine engine) {
      return recorder_.add_track({kind, engine, 0, 0, 0});
    };
    sync_ = track(trace::TrackKind::kEngine, isa::Engine::kSync);
    vector_ = track(trace::TrackKind::kEngine, isa::Engine::kVector);
    queue_ = track(trace::TrackKind::kDmaQueue, isa::Engine::kSync);
  }

  isa::TensorId tile(isa::MemorySpace space, int64_t rows, int64_t bytes, int64_t offset,
                     std::optional<isa::InstructionIndex> loop = {}, int32_t partition = 0) {
    isa::Tensor tensor;
    tensor.space = space;
    tensor.dtype = DType::kUint8;
    tensor.rows = rows;
    tensor.row_elements = bytes;
    tensor.loop = loop;
    executable_.placements.push_back({true, {partition, offset}});
    return program_->add_tensor(tensor);
  }
  // Behind those so far.
  isa::TensorId sbuf(int64_t rows, int64_t bytes, std::optional<isa::InstructionIndex> loop = {}) {
    return tile(isa::MemorySpace::kSbuf, rows, bytes, std::exchange(free_, free_ + bytes), loop);
  }

  isa::InstructionIndex append(Opcode opcode, isa::Engine engine, isa::TensorId tensor) {
    isa::Operand operand;
    operand.kind = isa::OperandKind::kAccess;
    operand.tensor = tensor;
    operand.pattern = program_->intern_pattern(isa::Pattern());
    const auto at = program_->append(opcode, engine, std::vector{operand}, {}, 0);
    executable_.schedule.push_back({.instruction = at, .engine = engine});
    return at;
  }
  isa::InstructionIndex on_vector(isa::TensorId tensor) {
    return append(Opcode::kMemset, isa::Engine::kVector, tensor);
  }
  void at(isa::InstructionIndex instruction, double start_ns, double end_ns) {
    recorder_.add_event(
        {.start_ns = start_ns, .end_ns = end_ns, .track = vector_, .instruction = instruction});
  }
  void transfer(isa::InstructionIndex instruction, double trigger_ns, double start_ns, double end_ns) {
    recorder_.add_event(
        {.start_ns = trigger_ns, .end_ns = trigger_ns + 1, .track = sync_, .instruction = instruction});
    recorder_.add_event(
        {.start_ns = start_ns, .end_ns = end_ns, .track = queue_, .instruction = instruction});
  }
  void iteration(isa::InstructionIndex loop, double start_ns, double end_ns) {
    recorder_.add_iteration({.start_ns = start_ns, .end_ns = end_ns, .loop = loop});
  }

  HighWater high_water() {
    executable_.program = program_;
    return profile::high_water(recorder_.trace(), 0, executable_, limits());
  }

 private:
  std::shared_ptr<isa::Program> program_ = std::make_shared<isa::Program>();
  isa::Executable executable_;
  trace::Recorder recorder_;
  int64_t free_ = 0;
  uint32_t sync_ = 0, vector_ = 0, queue_ = 0;
};

TEST(HighWater, TensorsCountFromTheirFirstAccessToTheEndOfTheirLast) {
  TimedRun run;
  const auto a = run.sbuf(128, 1000), b = run.sbuf(128, 100), c = run.sbuf(128, 10);
  const auto write_a = run.on_vector(a), read_a = run.on_vector(a), use_b = run.on_vector(b),
             use_c = run.on_vector(c);
  run.at(write_a, 0, 10);
  run.at(use_b, 20, 30);  // before its turn, while `a` waits for its reader
  run.at(read_a, 40, 50);
  run.at(use_c, 50, 60);  // from the moment on at which `a` is free
  EXPECT_EQ(run.high_water().sbuf_bytes_per_partition, 1100);
}

TEST(HighWater, ATransferHoldsItsTileWhileItMovesNotFromItsTrigger) {
  TimedRun run;
  const auto a = run.sbuf(128, 1000), b = run.sbuf(128, 100);
  const auto load = run.append(Opcode::kDmaCopy, isa::Engine::kDma, a);
  const auto use = run.on_vector(b);
  run.transfer(load, 0, 30, 40);
  run.at(use, 10, 20);
  EXPECT_EQ(run.high_water().sbuf_bytes_per_partition, 1000);
}

TEST(HighWater, FewRowsTakeAPartOfThePartitions) {
  TimedRun run;
  const auto a = run.on_vector(run.sbuf(32, 400)), b = run.on_vector(run.sbuf(64, 400));
  run.at(a, 0, 10);
  run.at(b, 0, 10);
  EXPECT_EQ(run.high_water().sbuf_bytes_per_partition, 300);  // a quarter and a half
}

// A tensor is loaded part by part into the room of one that is still read elsewhere.
TEST(HighWater, BytesThatTwoTensorsCoverAtOnceAreCountedOnce) {
  TimedRun run;
  const auto sbuf = [&](int64_t bytes, int64_t offset) {
    return run.on_vector(run.tile(isa::MemorySpace::kSbuf, 128, bytes, offset));
  };
  const auto a = sbuf(1000, 0), b = sbuf(1000, 200), c = sbuf(100, 1150);
  run.at(a, 0, 12);
  run.at(b, 10, 22);
  run.at(c, 11, 13);
  EXPECT_EQ(run.high_water().sbuf_bytes_per_partition, 1250);
}

TEST(HighWater, TensorsOfOtherPartitionsLieBesideOneAnother) {
  TimedRun run;
  const auto low = run.on_vector(run.tile(isa::MemorySpace::kSbuf, 96, 400, 0)),
             high = run.on_vector(run.tile(isa::MemorySpace::kSbuf, 32, 400, 0, {}, 96));
  run.at(low, 0, 10);
  run.at(high, 0, 10);
  EXPECT_EQ(run.high_water().sbuf_bytes_per_partition, 400);
}

TEST(HighWater, WhatALoopMakesLivesForAnIteration) {
  TimedRun run;
  const isa::InstructionIndex loop = 7;
  const auto kept = run.sbuf(128, 1), early = run.sbuf(128, 100, loop), late = run.sbuf(128, 1000, loop);
  const auto use_kept = run.on_vector(kept), use_early = run.on_vector(early), use_late = run.on_vector(late);
  for (const double start : {0.0, 100.0}) {
    run.at(use_early, start + 10, start + 20);
    run.at(use_late, start + 30, start + 40);
    run.at(use_kept, start + 50, start + 60);
    run.iteration(loop, start, start + 100);
  }
  EXPECT_EQ(run.high_water().sbuf_bytes_per_partition, 1001);  // of the second iteration; never all three
}

TEST(HighWater, PsumCountsBanksThatHoldSomething) {
  TimedRun run;
  const int64_t bank = limits().psum_bank_bytes_per_partition;
  const auto psum = [&](int64_t bytes, int64_t offset) {
    return run.on_vector(run.tile(isa::MemorySpace::kPsum, 128, bytes, offset));
  };
  const auto shared = psum(bank / 2, 0), beside = psum(bank / 2, bank / 2), wide = psum(2 * bank, 4 * bank);
  run.at(shared, 0, 10);
  run.at(beside, 5, 15);
  run.at(wide, 0, 20);
  EXPECT_EQ(run.high_water().psum_banks, 3);
}

}  // namespace
}  // namespace opentrn::profile
