// How fast the backend and the timing model are, in instructions per second, on a straight-line program of
// 77 thousand to 1.2 million instructions (one row of tiles per 128 rows of the output).
#include <benchmark/benchmark.h>

#include "backend/compile.h"
#include "backend/sample_programs.h"
#include "sim/timing/simulate.h"

namespace {

using namespace opentrn;

std::shared_ptr<const isa::Program> matmul_of(const benchmark::State& state) {
  return backend::matmul_fully_blocked({8192, 8192, state.range(0), DType::kBFloat16});
}

void count_instructions(benchmark::State& state, size_t instructions) {
  state.counters["instructions"] = static_cast<double>(instructions);
  state.counters["instructions/s"] =
      benchmark::Counter(static_cast<double>(instructions), benchmark::Counter::kIsIterationInvariantRate);
}

void compile_matmul(benchmark::State& state) {
  const auto program = matmul_of(state);
  for (auto _ : state) benchmark::DoNotOptimize(backend::compile(program, {.generation = Generation::kV3}));
  count_instructions(state, program->size());
}

void time_matmul(benchmark::State& state) {
  const auto executable = backend::compile(matmul_of(state), {.generation = Generation::kV3});
  for (auto _ : state)
    benchmark::DoNotOptimize(sim::timing::simulate(executable, arch::timing(Generation::kV3)));
  count_instructions(state, executable.program->size());
}

void time_tile_stream(benchmark::State& state) {
  const auto executable = backend::compile(backend::stream_tiles(state.range(0), 512, DType::kFloat32),
                                           {.generation = Generation::kV3});
  for (auto _ : state)
    benchmark::DoNotOptimize(sim::timing::simulate(executable, arch::timing(Generation::kV3)));
  count_instructions(state, executable.program->size());
}

BENCHMARK(compile_matmul)->Arg(8192)->Arg(131072)->Unit(benchmark::kMillisecond);
BENCHMARK(time_matmul)->Arg(8192)->Arg(131072)->Unit(benchmark::kMillisecond);
BENCHMARK(time_tile_stream)->Arg(20000)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
