#include "sim/timing/simulate.h"

#include <gtest/gtest.h>

#include <numeric>

#include "backend/compile.h"
#include "backend/sample_programs.h"
#include "base/random.h"
#include "sim/timing/reference_run.h"

namespace opentrn::sim::timing {
namespace {

using backend::ProgramBuilder;
using isa::Engine;

isa::Executable compiled(std::shared_ptr<const isa::Program> program, Generation generation) {
  return backend::compile(std::move(program), {.generation = generation});
}

TimingResult timed(std::shared_ptr<const isa::Program> program, Generation generation,
                   const SimulateOptions& options = {}) {
  return simulate(compiled(std::move(program), generation), arch::timing(generation), nullptr, options);
}

double bound(const TimingResult& result, trace::Resource resource) {
  return result.bound_by_ns[static_cast<size_t>(resource)];
}

// Times are whole picoseconds in both; shared bandwidth is a sum of floating-point parts, added up in another
// order, which may round the other way.
TEST(Simulate, PropertyFastEqualsReferenceForEveryInstruction) {
  for (uint64_t seed = 0; seed < 120; ++seed) {
    for (Generation generation : {Generation::kV2, Generation::kV3, Generation::kV4}) {
      const auto executable = compiled(backend::random_program(seed, 60), generation);
      const TimingResult fast =
          simulate(executable, arch::timing(generation), nullptr, {.keep_instructions = true});
      const ReferenceTimes slow = reference_run(executable, arch::timing(generation));
      for (size_t at = 0; at < executable.schedule.size(); ++at) {
        ASSERT_NEAR(fast.instructions_of[0].start_ns[at], slow.start_ns[at], 0.002)
            << "seed " << seed << " entry " << at;
        ASSERT_NEAR(fast.instructions_of[0].end_ns[at], slow.end_ns[at], 0.002)
            << "seed " << seed << " entry " << at;
      }
      ASSERT_NEAR(fast.total_ns, slow.total_ns, 0.002);
    }
  }
}

// Which DMA engines take part follows from the partitions: all of them, or any range.
std::shared_ptr<const isa::Program> random_transfers(uint64_t seed, int64_t rounds = 0) {
  SplitMix64 random(seed);
  const auto pick = [&](int64_t n) { return static_cast<int64_t>(random.below(static_cast<uint32_t>(n))); };
  ProgramBuilder b;
  const auto dram = b.hbm({128, 512}, DType::kFloat32, "dram", true);
  std::vector<isa::TensorId> tiles;
  for (int i = 0; i < 6; ++i) tiles.push_back(b.sbuf(128, 512, DType::kFloat32));
  const auto counter = b.program().add_register();
  const auto begin = rounds > 0 ? b.loop_begin(counter, 0, rounds) : 0;
  for (int i = 0; i < 60; ++i) {
    const bool whole = random.below(2) == 0;
    const int64_t first = whole ? 0 : pick(128), rows = whole ? 128 : 1 + pick(128 - first);
    const int64_t columns = 1 + pick(512);
    const auto tile = b.part(tiles[static_cast<size_t>(pick(6))], first, rows, 0, columns);
    const auto rows_of_dram = b.part(dram, 0, rows, 0, columns);
    const auto mode = random.below(3) == 0 ? isa::DgeMode::kSwdge : isa::DgeMode::kNone;
    if (random.below(4) != 0)
      b.dma(tile, rows_of_dram, mode);
    else
      b.dma(rows_of_dram, tile, mode);
  }
  if (rounds > 0) b.loop_end(counter, begin);
  return b.take();
}

TEST(Simulate, PropertyFastEqualsReferenceForTransfersOfAnyPartitions) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (Generation generation : {Generation::kV2, Generation::kV3, Generation::kV4}) {
      const auto executable = compiled(random_transfers(seed), generation);
      const TimingResult fast =
          simulate(executable, arch::timing(generation), nullptr, {.keep_instructions = true});
      const ReferenceTimes slow = reference_run(executable, arch::timing(generation));
      for (size_t at = 0; at < executable.schedule.size(); ++at)
        ASSERT_NEAR(fast.instructions_of[0].end_ns[at], slow.end_ns[at], 0.002)
            << "seed " << seed << " entry " << at;
      ASSERT_NEAR(fast.total_ns, slow.total_ns, 0.002);
    }
  }
}

TEST(Simulate, TheCriticalPathAddsUpToTheTotal) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const TimingResult result = timed(backend::random_program(seed, 80), Generation::kV3);
    EXPECT_NEAR(std::accumulate(result.bound_by_ns.begin(), result.bound_by_ns.end(), 0.0), result.total_ns,
                0.01)
        << "seed " << seed;
  }
}

// Copies share the stack and nothing else: never faster than one alone, never slower than one after the
// other.
TEST(Simulate, CopiesOnOneHbmStackShareItsBandwidth) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto transfers = compiled(random_transfers(seed), Generation::kV3);
    const double alone = simulate(transfers, arch::timing(Generation::kV3)).total_ns;
    const double beside = beside_copies_ns(transfers, arch::timing(Generation::kV3));
    EXPECT_GE(beside, alone) << "seed " << seed;
    EXPECT_LE(beside, 2 * alone + 1000) << "seed " << seed;  // bandwidth is shared out by 1,000 ns
  }
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8192, DType::kFloat32);
  b.tensor_tensor(b.all(x), b.all(x), b.all(x), AluOp::kAdd, Engine::kVector);
  const auto computes = compiled(b.take(), Generation::kV3);
  EXPECT_EQ(beside_copies_ns(computes, arch::timing(Generation::kV3)),
            simulate(computes, arch::timing(Generation::kV3)).total_ns);
  ProgramBuilder other;
  const auto y = other.sbuf(128, 8192, DType::kFloat32);
  other.tensor_tensor(other.all(y), other.all(y), other.all(y), AluOp::kAdd, Engine::kVector);
  EXPECT_EQ(beside_copies_ns(compiled(other.take(), Generation::kV2), arch::timing(Generation::kV2)), 0);
}

TEST(Simulate, InstructionsOfOneEngineDoNotOverlapAndWaitsAreKept) {
  const auto executable = compiled(backend::random_program(11, 200), Generation::kV3);
  const TimingResult result =
      simulate(executable, arch::timing(Generation::kV3), nullptr, {.keep_instructions = true});
  const InstructionTimes& times = result.instructions_of[0];
  for (size_t at = 0; at < executable.schedule.size(); ++at)
    for (uint32_t wait : executable.waits_of(executable.schedule[at]))
      EXPECT_GE(times.start_ns[at], times.end_ns[wait]);
}

// One element per instruction, each needing the one before: 189 ns from start to start on Trn1 (perf guide).
TEST(Published, DependentScalarInstructionsOnV2StartEvery189ns) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 1, DType::kFloat32);
  for (int i = 0; i < 10; ++i) b.activation(b.all(x), b.all(x), ActivationFunction::kCopy);
  const auto executable = compiled(b.take(), Generation::kV2);
  const auto result =
      simulate(executable, arch::timing(Generation::kV2), nullptr, {.keep_instructions = true});
  const double interval = result.instructions_of[0].start_ns[5] - result.instructions_of[0].start_ns[4];
  EXPECT_NEAR(interval, 189, 1);
}

TEST(Published, TensorTensorOf8192Fp32ColumnsOnV2Takes15us) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8192, DType::kFloat32), y = b.sbuf(128, 8192, DType::kFloat32);
  b.tensor_tensor(b.all(y), b.all(x), b.all(y), AluOp::kAdd, Engine::kVector);
  const TimingResult result = timed(b.take(), Generation::kV2);
  EXPECT_NEAR(result.total_ns / 14987, 1, 0.02);
}

// design-rmsnorm-quant.rst, profile of phase 3: 16384 elements from bf16 to fp8, 95.57 to 104.35 us.
TEST(Published, QuantisingARowOf16384ToFp8OnV3Takes8800ns) {
  ProgramBuilder b;
  const auto x = b.sbuf(80, 16384, DType::kBFloat16), y = b.sbuf(80, 16384, DType::kFloat8E4M3);
  b.tensor_scalar(b.all(y), b.all(x), 2, AluOp::kMultiply, Engine::kVector);
  EXPECT_NEAR(timed(b.take(), Generation::kV3).total_ns / 8780, 1, 0.02);
}

// The same, phase 2: scalar_tensor_tensor of 512 elements with gamma in PSUM; 32 of them from 56.4 to 77.2
// us.
TEST(Published, ApplyingGammaFromPsumOnV3Starts32TimesIn21us) {
  ProgramBuilder b;
  const auto scale = b.sbuf(80, 1, DType::kFloat32);
  const auto x = b.sbuf(80, 16384, DType::kBFloat16);
  const auto gamma = b.psum(80, 512);
  for (int i = 0; i < 32; ++i)
    b.append(isa::Opcode::kScalarTensorTensor,
             {b.part(x, 0, 80, i * 512, 512), b.part(x, 0, 80, i * 512, 512), b.all(scale), b.all(gamma)},
             {static_cast<int64_t>(AluOp::kMultiply), static_cast<int64_t>(AluOp::kMultiply), 0, 0});
  EXPECT_NEAR(timed(b.take(), Generation::kV3).total_ns / 20800, 1, 0.1);
}

// From one start to the next of instructions that wait for nothing: what public profiles of Trn2 show
// (fusion-profiles in sources.toml; the medians of 25, 51, 28, 25 and 22 instructions).
class ProfiledOnV3 : public ::testing::Test {
 protected:
  isa::Operand sbuf(int64_t columns) { return b_.all(b_.sbuf(128, columns, DType::kFloat32)); }
  isa::Operand psum(int64_t columns) { return b_.all(b_.psum(128, columns)); }
  void by_column(isa::Operand dst, isa::Operand data) {
    b_.append(isa::Opcode::kTensorScalar, {dst, data, sbuf(1), {}},
              {static_cast<int64_t>(AluOp::kMultiply), 0, -1, 0}, Engine::kVector);
  }
  double interval_ns() {
    const auto executable = compiled(b_.take(), Generation::kV3);
    const auto result =
        simulate(executable, arch::timing(Generation::kV3), nullptr, {.keep_instructions = true});
    const auto& start = result.instructions_of[0].start_ns;
    return start[2] - start[1];
  }
  ProgramBuilder b_;
};

TEST_F(ProfiledOnV3, ExponentialsOf512FromPsumStartEvery570ns) {
  for (int i = 0; i < 3; ++i) b_.activation(sbuf(512), psum(512), ActivationFunction::kExp);
  EXPECT_NEAR(interval_ns(), 570, 3);
}

TEST_F(ProfiledOnV3, ExponentialsOf512InSbufStartEvery612ns) {
  for (int i = 0; i < 3; ++i) b_.activation(sbuf(512), sbuf(512), ActivationFunction::kExp);
  EXPECT_NEAR(interval_ns(), 612, 3);
}

TEST_F(ProfiledOnV3, ScalingOf128FromPsumByAColumnStartsEvery268ns) {
  for (int i = 0; i < 3; ++i) by_column(sbuf(128), psum(128));
  EXPECT_NEAR(interval_ns(), 268, 8);
}

TEST_F(ProfiledOnV3, ScalingOf512InSbufByAColumnStartsEvery396ns) {
  for (int i = 0; i < 3; ++i) by_column(sbuf(512), sbuf(512));
  EXPECT_NEAR(interval_ns(), 396, 8);
}

TEST_F(ProfiledOnV3, ReductionsOf512InSbufStartEvery603ns) {
  for (int i = 0; i < 3; ++i)
    b_.append(isa::Opcode::kTensorReduce, {sbuf(1), sbuf(512)}, {static_cast<int64_t>(AluOp::kMaximum), 1, 0},
              Engine::kVector);
  EXPECT_NEAR(interval_ns(), 603, 5);
}

// How long Vector waits with copies that follow an fp32 one, while GpSimd is at work.
double waits_beside_gpsimd_ns(DType dtype) {
  ProgramBuilder b;
  const auto first = b.sbuf(128, 256, DType::kFloat32), second = b.sbuf(128, 256, DType::kFloat32);
  const auto x = b.sbuf(128, 2048, dtype), y = b.sbuf(128, 2048, dtype);
  b.memset(b.all(b.sbuf(128, 16384, DType::kFloat32)), Engine::kGpSimd);
  b.copy(b.all(second), b.all(first), Engine::kVector);
  for (int i = 0; i < 4; ++i) b.copy(b.all(y), b.all(x), Engine::kVector);
  return timed(b.take(), Generation::kV3).engines[static_cast<size_t>(Engine::kVector)].stall_other_ns;
}

// trainium2_arch.rst: Vector's performance mode, which copies of fp32 have not, uses a bus shared with
// GpSimd.
TEST(Published, FastModesOfVectorWaitForGpSimdOnV3) {
  EXPECT_GT(waits_beside_gpsimd_ns(DType::kBFloat16), 10'000);
  EXPECT_EQ(waits_beside_gpsimd_ns(DType::kFloat32), 0);
}

double elements_per_cycle_on_v4(DType in, DType out, Engine engine) {
  constexpr int64_t kColumns = 32768;
  constexpr double kClockGhz = 1.2;
  ProgramBuilder b;
  const auto x = b.sbuf(128, kColumns, in), y = b.sbuf(128, kColumns, out);
  constexpr int kTimes = 8;
  for (int i = 0; i < kTimes; ++i) b.tensor_scalar(b.all(y), b.all(x), 2, AluOp::kMultiply, engine);
  const double ns = timed(b.take(), Generation::kV4).engines[static_cast<size_t>(engine)].busy_ns;
  return 128.0 * kColumns * kTimes / (ns * kClockGhz);
}

// trainium3_arch.rst, data-path widths: Vector 512 BF16/FP16/FP8 per cycle and 256 of other types, Scalar 256
// and 128. In fp32 tensor_scalar reads one element per lane and cycle, by the instruction's own formula.
TEST(Published, V4MovesFp8AtTheRateOf16Bits) {
  for (DType in : {DType::kBFloat16, DType::kFloat16, DType::kFloat8E4M3, DType::kFloat8E5M2})
    for (DType out : {DType::kBFloat16, DType::kFloat8E4M3, DType::kFloat8E4M3Fn}) {
      EXPECT_NEAR(elements_per_cycle_on_v4(in, out, Engine::kVector) / 512, 1, 0.02);
      EXPECT_NEAR(elements_per_cycle_on_v4(in, out, Engine::kScalar) / 256, 1, 0.02);
    }
  for (DType other : {DType::kFloat32, DType::kInt32, DType::kUint8}) {
    EXPECT_LT(elements_per_cycle_on_v4(other, other, Engine::kVector), 257);
    EXPECT_LT(elements_per_cycle_on_v4(other, DType::kFloat8E4M3, Engine::kScalar), 129);
  }
}

double copy_or_sum_ns_on_v4(DType dtype, bool from_psum, bool sum, Engine engine) {
  ProgramBuilder b;
  const auto x = from_psum ? b.psum(128, 512, dtype) : b.sbuf(128, 512, dtype);
  const auto y = b.sbuf(128, 512, dtype);
  if (sum)
    b.tensor_tensor(b.all(y), b.all(x), b.all(y), AluOp::kAdd, engine);
  else
    b.tensor_scalar(b.all(y), b.all(x), 2, AluOp::kMultiply, engine);
  return timed(b.take(), Generation::kV4).engines[static_cast<size_t>(engine)].busy_ns;
}

TEST(Published, V4RunsFp8InTheModesOfFp16) {
  for (bool from_psum : {false, true})
    for (bool sum : {false, true})
      EXPECT_EQ(copy_or_sum_ns_on_v4(DType::kFloat8E4M3, from_psum, sum, Engine::kVector),
                copy_or_sum_ns_on_v4(DType::kFloat16, from_psum, sum, Engine::kVector));
}

// fused_mamba.rst: mamba_v2 keeps VectorE active for 1.57 ms. In each of its 32 x 16 rounds it multiplies 512
// columns twice with a row in PSUM, scans and accumulates them; delta * u and zeroing come once per 16.
TEST(Published, TheVectorWorkOfMambaV2Takes1570us) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 512, DType::kFloat32), y = b.sbuf(128, 512, DType::kFloat32),
             sum = b.sbuf(128, 512, DType::kFloat32);
  const auto row = b.psum(128, 512);
  for (int tile = 0; tile < 32; ++tile) {
    b.memset(b.all(sum), Engine::kVector);
    b.tensor_tensor(b.all(y), b.all(x), b.all(x), AluOp::kMultiply, Engine::kVector);
    for (int state = 0; state < 16; ++state) {
      b.tensor_tensor(b.all(y), b.all(x), b.all(row), AluOp::kMultiply, Engine::kVector);
      b.tensor_tensor(b.all(y), b.all(x), b.all(row), AluOp::kMultiply, Engine::kVector);
      for (const auto tensor : {y, sum})  // a scan costs what an addition does
        b.tensor_tensor(b.all(tensor), b.all(tensor), b.all(x), AluOp::kAdd, Engine::kVector);
    }
  }
  const TimingResult result = timed(b.take(), Generation::kV2);
  EXPECT_NEAR(result.engines[static_cast<size_t>(Engine::kVector)].busy_ns / 1.57e6, 1, 0.04);
}

// ---- Every published DMA measurement (category `dma` of the rows that fidelity/run.py reads)

std::shared_ptr<const isa::Program> loads(int copies, int64_t rows, int64_t bytes, isa::DgeMode mode,
                                          int64_t row_stride = 0) {
  ProgramBuilder b;
  const auto in = b.hbm({rows, std::max(bytes, row_stride)}, DType::kUint8, "in");
  for (int i = 0; i < copies; ++i) {
    const auto tile = b.sbuf(rows, bytes, DType::kUint8);
    b.dma(b.all(tile), b.part(in, 0, rows, 0, bytes), mode);
  }
  return b.take();
}
double semaphore_update_ns() { return arch::timing(Generation::kV3).constant("dma_transfer_extra_ns"); }

// DMA overview: [4, 4096] BF16 uses one engine, 32 KiB in 1416 ns.
TEST(Published, FourRowsOf8KiBMoveThroughOneDmaEngine) {
  const TimingResult result = timed(loads(1, 4, 8192, isa::DgeMode::kNone), Generation::kV3);
  EXPECT_NEAR((result.dma.engine_busy_ns - semaphore_update_ns()) / 1416, 1, 0.01);
  EXPECT_NEAR(result.total_ns, 950 + result.dma.engine_busy_ns + 305, 1);
  EXPECT_EQ(result.dma.descriptors, 4);
}

// DMA overview: [128, 128] BF16 keeps each of 16 engines 97 ns; 468 ns from the first to the last; GpSimd's
// trigger to the first data 739 ns; 316 ns from the last data to the engine that waits.
TEST(Published, EightDescriptorsOf256BytesKeepAnEngine97nsAndTheQueue468) {
  const TimingResult result = timed(loads(1, 128, 256, isa::DgeMode::kSwdge), Generation::kV3);
  EXPECT_NEAR(result.dma.engine_busy_ns / 16 - semaphore_update_ns(), 97, 1);
  const arch::TimingTable& table = arch::timing(Generation::kV3);
  const double start = table.constant("dma_swdge_start_latency_ns"),
               completion = table.constant("dma_completion_latency_ns");
  EXPECT_NEAR(start / 739, 1, 0.1);
  EXPECT_NEAR(completion / 316, 1, 0.05);
  EXPECT_NEAR((result.total_ns - start - completion) / 468, 1, 0.1);
}

// DMA overview, "DMA throughput varying bytes per partition": relative to 32 KiB. The transfers of that page
// are GpSimd's.
TEST(Published, DmaThroughputAgainstBytesPerPartitionFollowsTheCurveOnV3) {
  const arch::Curve& curve = arch::timing(Generation::kV3).curve("dma_efficiency_by_bytes_per_partition");
  const auto throughput = [](double bytes) {
    const auto time = [&](int copies) {
      return timed(loads(copies, 128, static_cast<int64_t>(bytes), isa::DgeMode::kSwdge), Generation::kV3)
          .total_ns;
    };
    return 128 * bytes / (time(5) - time(4));
  };
  const double full = throughput(32768);
  EXPECT_NEAR(full / 368, 1, 0.01);
  for (size_t i = 0; i < curve.x.size(); ++i)
    EXPECT_NEAR(throughput(curve.x[i]) / full, curve.y[i], 0.035) << curve.x[i] << " B";
}

// DMA bandwidth guide: 17, 23 and 33 GB/s for one engine, 272, 368 and 528 for 16.
TEST(Published, DmaEnginesReachTheirPeakOnLongDescriptors) {
  for (const auto& [generation, one] :
       {std::pair{Generation::kV2, 17.0}, {Generation::kV3, 23.0}, {Generation::kV4, 33.0}}) {
    for (const int engines : {1, 16}) {
      const auto time = [&](int copies) {
        return timed(loads(copies, 8 * engines, 32768, isa::DgeMode::kNone), generation).total_ns;
      };
      const double rate = 8 * engines * 32768 / (time(3) - time(2));
      EXPECT_NEAR(rate / (one * engines), 1, 0.02) << version(generation) << ", " << engines;
    }
  }
}

// Performance guide: 7 ns for an element of 4 bytes on Trn1.
TEST(Published, ElementsOfFourBytesTakeSevenNanosecondsOnV2) {
  ProgramBuilder b;
  const auto in = b.hbm({1024, 128}, DType::kFloat32, "in");
  const auto tile = b.sbuf(128, 1024, DType::kFloat32);
  isa::Operand transposed = b.all(in);
  isa::Pattern columns;
  columns.rank = 2;
  columns.dims[0] = {.step = 1, .count = 128};
  columns.dims[1] = {.step = 128, .count = 1024};
  transposed.pattern = b.program().intern_pattern(columns);
  b.dma(b.all(tile), transposed, isa::DgeMode::kNone);
  const TimingResult result = timed(b.take(), Generation::kV2);
  EXPECT_EQ(result.dma.descriptors, 128 * 1024);
  EXPECT_NEAR(result.dma.engine_busy_ns / static_cast<double>(result.dma.descriptors), 7, 0.1);
}

// The load of one tile of `rows` partitions from 128 rows of HBM.
double transposed_load_ns(int64_t rows) {
  ProgramBuilder b;
  const auto in = b.hbm({128, rows}, DType::kFloat32, "in");
  const auto tile = b.sbuf(rows, 128, DType::kFloat32);
  isa::Operand transposed = b.all(in);
  isa::Pattern columns;
  columns.rank = 2;
  columns.dims[0] = {.step = 1, .count = rows};
  columns.dims[1] = {.step = rows, .count = 128};
  transposed.pattern = b.program().intern_pattern(columns);
  b.dma(b.all(tile), transposed, isa::DgeMode::kNone);
  return timed(b.take(), Generation::kV2).total_ns;
}

// autocomp's sd-attention step2 moves 96 tiles of 64 partitions element by element, 8192 elements each, in
// 434 us: at 7 ns that is 12.7 engines at least, where 64 partitions are served by eight.
TEST(Published, ATransposingTransferUsesAllEnginesWhateverItsPartitions) {
  const double bare_ns = 950 + 305;
  EXPECT_NEAR(transposed_load_ns(64) - bare_ns, 64 * 128 * 7 / 16.0, 10);
  EXPECT_NEAR(transposed_load_ns(128) - bare_ns, 128 * 128 * 7 / 16.0, 10);
}

// The tiled matmuls of autocomp's trace on Trn1 (20.99 and 11.8 ms), and the tutorial's best (6.97 ms).
TEST(Published, MatmulLadderOnV2) {
  EXPECT_NEAR(timed(backend::matmul_hoist_load({}), Generation::kV2).total_ns / 20.99e6, 1, 0.05);
  EXPECT_NEAR(timed(backend::matmul_block_free({}), Generation::kV2).total_ns / 11.8e6, 1, 0.05);
  EXPECT_NEAR(timed(backend::matmul_fully_blocked({}), Generation::kV2).total_ns / 6.97e6, 1, 0.08);
}

// The same kernels in the tutorial of 2024, whose compiler made a transfer twice as long: 42.96 and 22.07 ms.
TEST(Published, MatmulLadderOnV2WithAnOlderCompiler) {
  const auto tables =
      arch::load_tables({.files = {}, .settings = {"timing.v2.constant.dma_transfer_min_ns=1200"}});
  const auto total_ns = [&](std::shared_ptr<const isa::Program> program) {
    const isa::Executable executable =
        backend::compile(std::move(program), {.generation = Generation::kV2, .tables = tables.get()});
    return simulate(executable, tables->timing(Generation::kV2)).total_ns;
  };
  EXPECT_NEAR(total_ns(backend::matmul_hoist_load({})) / 42.96e6, 1, 0.05);
  EXPECT_NEAR(total_ns(backend::matmul_block_free({})) / 22.07e6, 1, 0.05);
}

// The kernel-optimisation guide on Trn2: FP32, 28.30 ms and 99.5% Tensor activity.
TEST(Published, Fp32MatmulOnV3) {
  const TimingResult result =
      timed(backend::matmul_fully_blocked({4096, 8192, 8192, DType::kFloat32}, 8, 2, 8), Generation::kV3);
  EXPECT_NEAR(result.total_ns / 28.30e6, 1, 0.02);
  EXPECT_GT(result.engines[static_cast<size_t>(Engine::kTensor)].busy_ns / result.total_ns, 0.97);
  EXPECT_EQ(result.bound_by(), trace::Resource::kTensor);
}

TEST(Simulate, AnUnusedHbmBoundIsNotOnTheCriticalPathOfOneCore) {
  const TimingResult result = timed(backend::stream_tiles(64, 8192, DType::kFloat32), Generation::kV3);
  EXPECT_EQ(bound(result, trace::Resource::kHbm), 0);
  EXPECT_EQ(result.bound_by(), trace::Resource::kDmaEngines);
}

// Streaming on one core: 374 GB/s; on the two cores of an HBM stack: 649 GB/s together.
TEST(Published, TwoCoresOfAStackShareItsBandwidth) {
  const auto executable = compiled(backend::stream_tiles(64, 8192, DType::kFloat32), Generation::kV3);
  const isa::Executable* const cores[] = {&executable, &executable};
  const TimingResult both = simulate(cores, arch::timing(Generation::kV3));
  const double rate =
      static_cast<double>(both.dma.hbm_bytes_read + both.dma.hbm_bytes_written) / both.total_ns;
  EXPECT_NEAR(rate / 649, 1, 0.03);
  EXPECT_GT(bound(both, trace::Resource::kHbm), 0);
  EXPECT_EQ(both.cores, 2);
}

TEST(Simulate, CoresMeetAtABarrier) {
  const auto program = [](int copies) {
    ProgramBuilder b;
    const auto x = b.sbuf(128, 8192, DType::kFloat32), y = b.sbuf(128, 8192, DType::kFloat32);
    const auto shared = b.hbm({128, 16}, DType::kFloat32, "shared", true);
    for (int i = 0; i < copies; ++i) b.copy(b.all(y), b.all(x), Engine::kGpSimd);
    const auto list = b.program().intern_list(std::vector<int64_t>{0, 1});
    b.append(isa::Opcode::kCoreBarrier, {b.all(shared)}, {static_cast<int64_t>(list)}, Engine::kGpSimd);
    return compiled(b.take(), Generation::kV3);
  };
  const auto quick = program(1), slow = program(10);
  const isa::Executable* const cores[] = {&quick, &slow};
  const TimingResult both =
      simulate(cores, arch::timing(Generation::kV3), nullptr, {.keep_instructions = true});
  EXPECT_EQ(both.instructions_of[0].end_ns.back(), both.instructions_of[1].end_ns.back());
  EXPECT_EQ(both.instructions_of[0].stall.back(), trace::Stall::kPeer);
}

TEST(Simulate, CoresThatWaitForDifferentMeetingsAreRefused) {
  ProgramBuilder a, b;
  const auto barrier = [](ProgramBuilder& p, bool present) {
    const auto shared = p.hbm({128, 16}, DType::kFloat32, "shared", true);
    const auto list = p.program().intern_list(std::vector<int64_t>{0, 1});
    if (present)
      p.append(isa::Opcode::kCoreBarrier, {p.all(shared)}, {static_cast<int64_t>(list)}, Engine::kGpSimd);
    return compiled(p.take(), Generation::kV3);
  };
  const auto with = barrier(a, true), without = barrier(b, false);
  const isa::Executable* const cores[] = {&with, &without};
  EXPECT_THROW(simulate(cores, arch::timing(Generation::kV3)), Fault);
}

TEST(Simulate, VectorAndGpSimdTakeTurnsOnSbufOnV2Only) {
  const auto program = [] {
    ProgramBuilder b;
    const auto x = b.sbuf(128, 4096, DType::kFloat32), y = b.sbuf(128, 4096, DType::kFloat32),
               z = b.sbuf(128, 4096, DType::kFloat32);
    b.copy(b.all(y), b.all(x), Engine::kVector);  // which has no fast mode: those share a bus with GpSimd
    b.tensor_scalar(b.all(z), b.all(x), 2, AluOp::kMultiply, Engine::kGpSimd);
    return b.take();
  };
  const auto overlap = [&](Generation generation) {
    const auto executable = compiled(program(), generation);
    const auto times = simulate(executable, arch::timing(generation), nullptr, {.keep_instructions = true})
                           .instructions_of[0];
    return std::max(times.start_ns[0], times.start_ns[1]) == 0;
  };
  EXPECT_FALSE(overlap(Generation::kV2));
  EXPECT_TRUE(overlap(Generation::kV3));
}

TEST(Simulate, TheTensorClockRampsUpAfterIdlingOnV3) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 128, DType::kBFloat16), y = b.sbuf(128, 512, DType::kBFloat16);
  const auto acc = b.psum(128, 512);
  for (int i = 0; i < 40; ++i) b.matmul(b.all(acc), b.all(x), b.all(y), i > 0);
  const auto executable = compiled(b.take(), Generation::kV3);
  const auto times = simulate(executable, arch::timing(Generation::kV3), nullptr, {.keep_instructions = true})
                         .instructions_of[0];
  const double first = times.start_ns[1] - times.start_ns[0], late = times.start_ns[39] - times.start_ns[38];
  EXPECT_NEAR(late, 512 / 2.4, 0.1);
  EXPECT_GT(first, 1.9 * late);
}

// NeuronCore-v4 runs a transpose beside another one or a product: "close to double performance on long chains
// of transposes" (trainium3_arch.rst, Background Transpose).
TEST(Simulate, TransposesRunBesideOtherWorkOnV4Only) {
  const auto interval = [](const arch::Tables& tables, Generation generation) {
    ProgramBuilder b;
    const auto x = b.sbuf(128, 128, DType::kFloat32);
    const auto y = b.psum(128, 128, DType::kFloat32);
    for (int i = 0; i < 400; ++i)
      b.append(isa::Opcode::kNcTranspose, {b.all(y), b.all(x)}, {}, Engine::kTensor);
    const auto executable = compiled(b.take(), generation);
    const auto times = simulate(executable, tables.timing(generation), nullptr, {.keep_instructions = true})
                           .instructions_of[0];
    return (times.start_ns[399] - times.start_ns[199]) / 200;
  };
  const arch::Tables& tables = arch::default_tables();
  const double v3 = interval(tables, Generation::kV3);
  EXPECT_NEAR(v3, 256 / 2.4, 0.1);  // fp32: two cycles a column
  EXPECT_NEAR(interval(tables, Generation::kV4), v3 / 2, 0.1);
  const auto off = arch::load_tables({{}, {"timing.v4.constant.background_transpose=false"}});
  EXPECT_NEAR(interval(*off, Generation::kV4), v3, 0.1);
  const auto slower = arch::load_tables({{}, {"timing.v4.constant.background_transpose_rate=1.5"}});
  EXPECT_NEAR(interval(*slower, Generation::kV4), v3 / 1.5, 0.5);
}

TEST(Simulate, ATransposeInTheBackgroundDelaysNoProduct) {
  const auto total = [](Generation generation, bool transposes) {
    ProgramBuilder b;
    const auto x = b.sbuf(128, 128, DType::kBFloat16), y = b.sbuf(128, 512, DType::kBFloat16);
    const auto acc = b.psum(128, 512), turned = b.psum(128, 128, DType::kBFloat16);
    for (int i = 0; i < 200; ++i) {
      b.matmul(b.all(acc), b.all(x), b.all(y), i > 0);
      if (transposes) b.append(isa::Opcode::kNcTranspose, {b.all(turned), b.all(x)}, {}, Engine::kTensor);
    }
    return timed(b.take(), generation).total_ns;
  };
  EXPECT_NEAR(total(Generation::kV4, true), total(Generation::kV4, false), 300);
  EXPECT_GT(total(Generation::kV3, true), total(Generation::kV3, false) + 200 * 128 / 2.4 * 0.9);
}

TEST(Simulate, LaunchIsReportedApartFromTheKernel) {
  const TimingResult result = timed(backend::stream_tiles(1, 64, DType::kFloat32), Generation::kV3);
  EXPECT_GT(result.launch_ns, 0);
  EXPECT_LT(result.total_ns, result.launch_ns);
}

std::shared_ptr<const isa::Program> looped(int64_t rounds, int unrolled) {
  ProgramBuilder b;
  const auto in = b.hbm({128, 512}, DType::kFloat32, "in"),
             out = b.hbm({128, 512}, DType::kFloat32, "out", true);
  const auto x = b.sbuf(128, 512, DType::kFloat32), y = b.sbuf(128, 512, DType::kFloat32);
  const auto counter = b.program().add_register();
  const auto body = [&] {
    b.dma(b.all(x), b.all(in));
    b.activation(b.all(y), b.all(x), ActivationFunction::kExp);
    b.dma(b.all(out), b.all(y));
  };
  if (unrolled > 0) {
    for (int i = 0; i < unrolled; ++i) body();
    return b.take();
  }
  const auto begin = b.loop_begin(counter, 0, rounds);
  body();
  b.loop_end(counter, begin);
  return b.take();
}

TEST(Loops, LongLoopsAreExtrapolatedFromSteadyRounds) {
  const TimingResult few = timed(looped(3, 0), Generation::kV3),
                     many = timed(looped(1'000'000, 0), Generation::kV3);
  EXPECT_EQ(few.extrapolated_ns, 0);
  EXPECT_GT(many.extrapolated_ns, 0);
  EXPECT_NEAR(many.total_ns / 1e6, few.total_ns / 3, few.total_ns / 3 * 0.5);
  EXPECT_EQ(many.dma.transfers, 2'000'000);
  EXPECT_NEAR(std::accumulate(many.bound_by_ns.begin(), many.bound_by_ns.end(), 0.0) / many.total_ns, 1,
              1e-6);
}

// 2^57 ps are 40 hours; without the refusal the sums wrap to below 0 (63 bits of ps are 107 days).
TEST(Loops, ALoopLongerThanTimeIsCountedIsRefused) {
  const double round_ns = timed(looped(1'000'000, 0), Generation::kV3).total_ns / 1e6;
  const auto rounds = static_cast<int64_t>(30 * 3600e9 / round_ns);
  EXPECT_NEAR(timed(looped(rounds, 0), Generation::kV3).total_ns, 30 * 3600e9, 30 * 36e9);
  for (const int64_t more : {2 * rounds, INT64_MAX}) {
    try {
      timed(looped(1000, 0), Generation::kV3, {.trip_counts = {{0, more}}});
      ADD_FAILURE() << more;
    } catch (const Fault& fault) {
      EXPECT_EQ(fault.label(), "timing.too_long");
    }
  }
}

// 300 rounds of a load and of 200 activations: one instruction a round is enough to make the path one
// resource.
std::shared_ptr<const isa::Program> nested() {
  ProgramBuilder b;
  const auto in = b.hbm({128, 64}, DType::kFloat32, "in");
  const auto x = b.sbuf(128, 64, DType::kFloat32);
  const auto outer = b.program().add_register(), inner = b.program().add_register();
  const auto outer_begin = b.loop_begin(outer, 0, 300);
  b.dma(b.all(x), b.all(in));
  const auto inner_begin = b.loop_begin(inner, 0, 200);
  b.activation(b.all(x), b.all(x), ActivationFunction::kExp);
  b.loop_end(inner, inner_begin);
  b.loop_end(outer, outer_begin);
  return b.take();
}

TEST(Loops, TheTraceCountsRoundsThatWereNotStepped) {
  trace::Recorder recorder;
  const TimingResult result =
      simulate(compiled(nested(), Generation::kV3), arch::timing(Generation::kV3), &recorder);
  const trace::Trace trace = recorder.take();
  EXPECT_LT(trace.events.size(), 20'000u);
  int64_t on_engines = 0, activations = 0, loads = 0;
  for (const trace::Event& event : trace.events) {
    const bool engine = trace.tracks[event.track].kind == trace::TrackKind::kEngine;
    on_engines += engine ? event.times : 0;
    loads += engine ? 0 : event.times;
    activations += event.opcode == isa::Opcode::kActivation ? event.times : 0;
  }
  EXPECT_EQ(activations, 300 * 200);
  EXPECT_EQ(loads, 300);
  EXPECT_EQ(on_engines, result.instructions);
  double critical_ns = 0;
  for (const trace::CriticalSegment& segment : trace.critical_path) {
    EXPECT_GE(segment.end_ns, segment.start_ns);
    critical_ns += static_cast<double>(segment.times) * (segment.end_ns - segment.start_ns);
  }
  EXPECT_NEAR(critical_ns / result.total_ns, 1, 1e-9);
}

// The transfers of a round have the ids of the round before: a walk back that takes one for the other goes in
// circles. The walk itself counts its steps and refuses more of them than there are instructions.
TEST(Loops, PropertyTheCriticalPathOfTransfersStaysInItsRound) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    for (Generation generation : {Generation::kV2, Generation::kV3, Generation::kV4}) {
      const TimingResult result = timed(random_transfers(seed, 5), generation);
      EXPECT_NEAR(
          std::accumulate(result.bound_by_ns.begin(), result.bound_by_ns.end(), 0.0) / result.total_ns, 1,
          1e-6)
          << "seed " << seed;
    }
  }
}

// Two cores load at once; while at least one DMA engine of either has work is no longer than the run.
TEST(Simulate, TimeWithDmaActiveIsOfBothCoresTogether) {
  const auto one = compiled(backend::stream_tiles(16, 2048, DType::kFloat32), Generation::kV3);
  const auto alone = simulate(one, arch::timing(Generation::kV3));
  const isa::Executable* const two[] = {&one, &one};
  const auto both = simulate(two, arch::timing(Generation::kV3));
  EXPECT_EQ(both.dma.bytes, 2 * alone.dma.bytes);
  EXPECT_GE(both.dma.active_ns, alone.dma.active_ns);
  EXPECT_LE(both.dma.active_ns, both.total_ns);
  EXPECT_EQ(both.hbm_peak_bytes_per_ns, 725);  // of the stack they share: 2.9 TB/s in four
  EXPECT_EQ(alone.hbm_peak_bytes_per_ns, 725);
}

TEST(Loops, ARunTimeTripCountMustBeGiven) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kFloat32), y = b.sbuf(128, 8, DType::kFloat32);
  const auto bound_register = b.program().add_register(), counter = b.program().add_register();
  b.append(isa::Opcode::kRegisterLoad, {isa::Operand::reg(bound_register), b.part(x, 0, 1, 0, 1)}, {});
  b.append(isa::Opcode::kLoopBegin,
           {isa::Operand::reg(counter), isa::Operand::imm(0), isa::Operand::reg(bound_register)}, {1, 3});
  b.activation(b.all(y), b.all(x), ActivationFunction::kExp);
  b.loop_end(counter, 1);
  const auto program = b.take();
  EXPECT_THROW(timed(program, Generation::kV3), Fault);
  const TimingResult given = timed(program, Generation::kV3, {.trip_counts = {{1, 5}}});
  EXPECT_EQ(given.engines[static_cast<size_t>(Engine::kScalar)].instructions, 5);
  const TimingResult observed = timed(program, Generation::kV3, {.observed_trips = {{1, {{5, 1}}}}});
  EXPECT_EQ(observed.total_ns, given.total_ns);
}

// As measured on Trainium 1: 1.4 us from an iteration to the next, and nothing where there is no next one.
TEST(Loops, SequencersJumpBackBetweenIterations) {
  const auto looped_memset = [](int64_t rounds) {
    ProgramBuilder b;
    const auto x = b.sbuf(128, 64, DType::kFloat32);
    const auto counter = b.program().add_register();
    const auto begin = b.loop_begin(counter, 0, rounds);
    b.memset(b.all(x), Engine::kVector);
    b.loop_end(counter, begin);
    return b.take();
  };
  for (const Generation generation : {Generation::kV2, Generation::kV3}) {
    const double jump = arch::timing(generation).constant("loop_jump_ns");
    const auto ns = [&](int64_t rounds) { return timed(looped_memset(rounds), generation).total_ns; };
    EXPECT_LT(ns(1) - ns(0), jump);
    EXPECT_NEAR(ns(2) - ns(1), ns(1) - ns(0) + jump, 100);
    EXPECT_NEAR(ns(3) - ns(2), ns(2) - ns(1), 1e-3);
    EXPECT_NEAR(ns(100'001) - ns(100'000), ns(3) - ns(2), 1e-3);
    const TimingResult result = timed(looped_memset(3), generation);
    EXPECT_GT(result.bound_by_ns[static_cast<size_t>(trace::Resource::kSync)], 2 * jump);
  }
}

TEST(Loops, ALoopThatDoesNotRunHoldsNobodyUp) {
  const TimingResult none = timed(looped(0, 0), Generation::kV3), one = timed(looped(1, 0), Generation::kV3);
  EXPECT_EQ(none.dma.transfers, 0);
  EXPECT_LT(none.total_ns, one.total_ns);
  ProgramBuilder b;
  const auto x = b.sbuf(128, 8, DType::kFloat32), y = b.sbuf(128, 8, DType::kFloat32);
  const auto counter = b.program().add_register();
  const auto begin = b.loop_begin(counter, 0, 0);
  b.memset(b.all(x));
  b.loop_end(counter, begin);
  b.copy(b.all(y), b.all(x));  // waits for what does not run
  EXPECT_EQ(timed(b.take(), Generation::kV3).engines[static_cast<size_t>(Engine::kSync)].instructions, 1);
}

TEST(Simulate, AnInstructionWithoutASourcedCostIsRefusedByName) {
  ProgramBuilder b;
  const auto x = b.sbuf(128, 64, DType::kInt32), y = b.sbuf(128, 64, DType::kInt32);
  b.append(isa::Opcode::kNonzeroWithCount, {b.all(y), b.all(x)}, {0, 0});
  try {
    timed(b.take(), Generation::kV3);
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kNotModelled);
    EXPECT_EQ(fault.label(), "nonzero_with_count");
  }
}

TEST(Trace, HoldsEveryInstructionOnItsTrackWithoutOverlap) {
  const auto executable = compiled(backend::stream_tiles(8, 512, DType::kFloat32), Generation::kV3);
  trace::Recorder recorder;
  const TimingResult result =
      simulate(executable, arch::timing(Generation::kV3), &recorder, {.dma_engine_tracks = true});
  const trace::Trace trace = recorder.take();
  std::vector<double> free(trace.tracks.size(), 0);
  size_t on_engines = 0, transfers = 0;
  for (const trace::Event& event : trace.events) {
    const trace::Track& track = trace.tracks[event.track];
    EXPECT_LE(event.start_ns, event.end_ns);
    EXPECT_LE(event.end_ns, result.total_ns);
    on_engines += track.kind == trace::TrackKind::kEngine;
    transfers += track.kind == trace::TrackKind::kDmaQueue;
    if (track.kind != trace::TrackKind::kEngine) continue;  // transfers share DMA engines
    EXPECT_GE(event.start_ns + 0.01, free[event.track]) << trace.strings[track.name];
    free[event.track] = event.start_ns + event.busy_ns;
  }
  EXPECT_EQ(on_engines, executable.schedule.size());
  EXPECT_EQ(transfers, 16u);
  EXPECT_FALSE(trace.critical_path.empty());
  EXPECT_EQ(trace.summary.total_ns, result.total_ns);
}

TEST(WhatIf, AFasterTableMakesAFasterRun) {
  const auto program = backend::stream_tiles(64, 8192, DType::kFloat32);
  arch::Overrides overrides;
  overrides.settings = {"neuron_core.v3.dma_engine_gb_s=46", "timing.v3.constant.hbm_sustained_gb_s=2000"};
  const auto tables = arch::load_tables(overrides);
  const auto executable = compiled(program, Generation::kV3);
  const double normal = simulate(executable, arch::timing(Generation::kV3)).total_ns;
  const double faster = simulate(executable, tables->timing(Generation::kV3)).total_ns;
  EXPECT_NEAR(normal / faster, 1.9, 0.05);  // not 2: the time per descriptor stays
}

// The chain of what waited for what stays when the order does; so the run cannot lose more than the chain.
TEST(WhatIf, InOneOrderAFasterResourceGainsAtMostItsPartOfTheCriticalPath) {
  const auto executable = compiled(backend::stream_tiles(64, 2048, DType::kFloat32), Generation::kV3);
  const TimingResult normal = simulate(executable, arch::timing(Generation::kV3));
  const auto with = [&](const std::string& setting) {
    arch::Overrides overrides;
    overrides.settings = {setting};
    return simulate(executable, arch::load_tables(overrides)->timing(Generation::kV3)).total_ns;
  };
  EXPECT_GE(with("neuron_core.v3.scalar_clock_ghz=2.4"),
            normal.total_ns - bound(normal, trace::Resource::kScalar) / 2);
  EXPECT_GE(with("timing.v3.constant.hwdge_instruction_ns=300"),
            normal.total_ns - bound(normal, trace::Resource::kDescriptors) / 2);
  EXPECT_DOUBLE_EQ(with("neuron_core.v3.tensor_clock_ghz=4.8"), normal.total_ns);  // runs nothing
}

}  // namespace
}  // namespace opentrn::sim::timing
