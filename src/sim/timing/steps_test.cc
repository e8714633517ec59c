#include "sim/timing/steps.h"

#include <gtest/gtest.h>

#include "backend/compile.h"
#include "backend/sample_programs.h"
#include "sim/timing/simulate.h"

namespace opentrn::sim::timing {
namespace {

isa::Executable tiles(uint64_t seed, int64_t rounds, Generation generation) {
  return backend::compile(backend::random_tiles(seed, rounds), {.generation = generation});
}

void expect_same(const InstructionTimes& a, const InstructionTimes& b, uint64_t seed) {
  EXPECT_EQ(a.start_ns, b.start_ns) << "seed " << seed;
  EXPECT_EQ(a.end_ns, b.end_ns) << "seed " << seed;
  EXPECT_EQ(a.stall, b.stall) << "seed " << seed;
  EXPECT_EQ(a.waited_for, b.waited_for) << "seed " << seed;
}

void expect_same(const TimingResult& a, const TimingResult& b, uint64_t seed) {
  EXPECT_EQ(a.total_ns, b.total_ns) << "seed " << seed;
  EXPECT_EQ(a.extrapolated_ns, b.extrapolated_ns) << "seed " << seed;
  EXPECT_EQ(a.bound_by_ns, b.bound_by_ns) << "seed " << seed;
  EXPECT_EQ(a.flops, b.flops) << "seed " << seed;
  EXPECT_EQ(a.vector_flops, b.vector_flops) << "seed " << seed;
  EXPECT_EQ(a.sbuf_bytes_moved, b.sbuf_bytes_moved) << "seed " << seed;
  EXPECT_EQ(a.dma.active_ns, b.dma.active_ns) << "seed " << seed;
  EXPECT_EQ(a.dma.engine_busy_ns, b.dma.engine_busy_ns) << "seed " << seed;
  for (size_t e = 0; e < a.engines.size(); ++e) {
    EXPECT_EQ(a.engines[e].busy_ns, b.engines[e].busy_ns) << "seed " << seed << " engine " << e;
    EXPECT_EQ(a.engines[e].stall_engine_ns, b.engines[e].stall_engine_ns)
        << "seed " << seed << " engine " << e;
    EXPECT_EQ(a.engines[e].stall_dma_ns, b.engines[e].stall_dma_ns) << "seed " << seed << " engine " << e;
    EXPECT_EQ(a.engines[e].stall_other_ns, b.engines[e].stall_other_ns) << "seed " << seed << " engine " << e;
  }
  ASSERT_EQ(a.critical_path.size(), b.critical_path.size()) << "seed " << seed;
  for (size_t i = 0; i < a.critical_path.size(); ++i) {
    EXPECT_EQ(a.critical_path[i].start_ns, b.critical_path[i].start_ns) << "seed " << seed;
    EXPECT_EQ(a.critical_path[i].instruction, b.critical_path[i].instruction) << "seed " << seed;
    EXPECT_EQ(a.critical_path[i].resource, b.critical_path[i].resource) << "seed " << seed;
  }
  ASSERT_EQ(a.instructions_of.size(), b.instructions_of.size());
  for (size_t core = 0; core < a.instructions_of.size(); ++core)
    expect_same(a.instructions_of[core], b.instructions_of[core], seed);
}

// With a trace every instruction is started in time order.
TEST(Steps, PropertyInstructionsStartedBeforeTheirTurnHaveTheSameTimes) {
  const SimulateOptions options{.keep_instructions = true};
  for (uint64_t seed = 0; seed < 80; ++seed) {
    for (const Generation generation : {Generation::kV2, Generation::kV3, Generation::kV4}) {
      const isa::Executable one = tiles(seed, seed % 3 * 4, generation);
      const isa::Executable other = tiles(seed + 1000, seed % 3 * 4, generation);
      const isa::Executable* const both[] = {&one, &other};
      for (const size_t cores : {size_t{1}, size_t{2}}) {
        const std::span<const isa::Executable* const> run(both, cores);
        trace::Recorder recorder;
        expect_same(simulate(run, arch::timing(generation), nullptr, options),
                    simulate(run, arch::timing(generation), &recorder, options), seed);
      }
    }
  }
}

// Nor do the times of transfers depend on it where one engine starts all of them.
TEST(Steps, TransfersOfOneEngineStartedBeforeTheirTurnHaveTheSameTimes) {
  const SimulateOptions options{.keep_instructions = true};
  for (const auto& program :
       {backend::stream_tiles(60, 512, DType::kFloat32), backend::stream_tiles(200, 12, DType::kBFloat16),
        backend::matmul_block_free({512, 1024, 1024, DType::kBFloat16}, 2, 2)}) {
    for (const Generation generation : {Generation::kV2, Generation::kV3}) {
      const isa::Executable executable = backend::compile(program, {.generation = generation});
      trace::Recorder recorder;
      expect_same(simulate(executable, arch::timing(generation), nullptr, options),
                  simulate(executable, arch::timing(generation), &recorder, options), 0);
    }
  }
}

void expect_costs_of_each(const isa::Executable& executable, const Machine& machine) {
  const isa::Program& program = *executable.program;
  Steps steps(executable, machine);
  for (uint32_t at = 0; at < executable.schedule.size(); ++at) {
    const isa::ScheduledInstruction& entry = executable.schedule[at];
    const isa::Instruction& in = program.instruction(entry.instruction);
    if (entry.engine == isa::Engine::kDma) {
      const DmaWork work = machine.costs.of_transfer(program, in, executable.placements, steps.patterns());
      EXPECT_EQ(steps.transfer(at).first_engine, work.first_engine);
      EXPECT_EQ(steps.transfer(at).last_engine, work.last_engine);
      EXPECT_EQ(steps.transfer(at).first_busy, work.first_busy);
      EXPECT_EQ(steps.transfer(at).middle_busy, work.middle_busy);
      EXPECT_EQ(steps.transfer(at).last_busy, work.last_busy);
      EXPECT_EQ(steps.transfer(at).hbm_read, work.hbm_read);
      EXPECT_EQ(steps.transfer(at).hbm_written, work.hbm_written);
      continue;
    }
    const InstructionCost cost = machine.costs.of(program, in, entry.engine, steps.patterns());
    EXPECT_EQ(steps.kind(at).cost.busy, cost.busy);
    EXPECT_EQ(steps.kind(at).cost.stream, cost.stream);
    EXPECT_EQ(steps.kind(at).cost.tensor.multiply, cost.tensor.multiply);
    EXPECT_EQ(steps.kind(at).cost.tensor.flops, cost.tensor.flops);
    EXPECT_EQ(steps.kind(at).cost.fast_mode, cost.fast_mode);
    EXPECT_EQ(steps.kind(at).cost.uses_psum, cost.uses_psum);
    EXPECT_EQ(steps.kind(at).cost.sbuf_bytes, cost.sbuf_bytes);
  }
}

TEST(Steps, PropertyAKindCostsWhatEachOfItsInstructionsCosts) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    for (const Generation generation : {Generation::kV2, Generation::kV3, Generation::kV4}) {
      const Machine machine(arch::timing(generation));
      expect_costs_of_each(tiles(seed, seed % 2, generation), machine);
      expect_costs_of_each(backend::compile(backend::random_program(seed, 100), {.generation = generation}),
                           machine);
    }
  }
}

}  // namespace
}  // namespace opentrn::sim::timing
