// Full evaluations of layouts a second, on one core: step time by cause, and memory by cause.
#include <benchmark/benchmark.h>

#include "planner/hf_config.h"
#include "planner/search.h"

namespace {

using namespace opentrn::planner;
using opentrn::arch::default_tables;

struct Setting {
  Job job;
  Machine machine;
  Stack stack;
};

Setting gpt3(int64_t instances) {
  const auto& tables = default_tables();
  return {{.model = model_named(tables, "GPT-3 175B"), .seq = 2048, .global_batch = 4096},
          machine_of(tables, "p5.48xlarge", instances), stack_of(tables, "megatron-core")};
}

void evaluations(benchmark::State& state) {
  const Setting setting = gpt3(512);
  std::vector<Layout> layouts;
  for_each_layout(setting.job, setting.machine, setting.stack, {}, [&](const Layout& layout) { layouts.push_back(layout); });
  for (auto _ : state)
    for (const Layout& layout : layouts)
      benchmark::DoNotOptimize(evaluate(setting.job, setting.machine, setting.stack, layout));
  state.counters["layouts"] = double(layouts.size());
  state.counters["layouts/s"] = benchmark::Counter(double(layouts.size()), benchmark::Counter::kIsIterationInvariantRate);
}

void whole_search(benchmark::State& state) {
  const Setting setting = gpt3(512);
  SearchResult result;
  for (auto _ : state)
    result = search(setting.job, setting.machine, setting.stack, {.cut = state.range(0) != 0});
  state.counters["legal"] = double(result.legal);
  state.counters["evaluated"] = double(result.evaluated);
}

BENCHMARK(evaluations)->Unit(benchmark::kMillisecond);
BENCHMARK(whole_search)->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
