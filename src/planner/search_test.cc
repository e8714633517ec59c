#include "planner/search.h"

#include <map>
#include <set>
#include <utility>

#include <gtest/gtest.h>

#include "planner/hf_config.h"
#include "planner/recost.h"
#include "planner/stated_layers.h"

namespace opentrn::planner::search_tests {
namespace {

const arch::Tables& tables() { return arch::default_tables(); }

struct Case {
  const char* model;
  const char* instance;
  int count;
  double seq, batch;
};

class Search : public testing::TestWithParam<Case> {
 protected:
  SearchResult run(bool cut) const {
    const Case& each = GetParam();
    const Job job{.model = model_named(tables(), each.model), .seq = each.seq, .global_batch = each.batch};
    const Machine machine = machine_of(tables(), each.instance, each.count);
    SearchOptions options;
    options.top = 12;
    options.cut = cut;
    return search(job, machine, stack_of(tables(), default_stack(machine.kind)), options);
  }
};

void expect_same(const std::vector<Estimate>& a, const std::vector<Estimate>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].layout, b[i].layout) << to_string(a[i].layout) << " against " << to_string(b[i].layout);
    EXPECT_EQ(a[i].step_s, b[i].step_s);
  }
}

TEST_P(Search, CutsLoseNothing) {
  const SearchResult cut = run(true), all = run(false);
  EXPECT_EQ(cut.legal, all.legal);
  EXPECT_EQ(all.evaluated, all.legal);
  EXPECT_LT(cut.evaluated, all.evaluated);
  expect_same(cut.best, all.best);
  expect_same(cut.front, all.front);
  ASSERT_EQ(cut.nearest.has_value(), all.nearest.has_value());
  if (cut.nearest) {
    EXPECT_EQ(cut.nearest->memory.total(), all.nearest->memory.total());
  }
}

TEST_P(Search, TheFrontIsWhatNothingBeats) {
  const SearchResult result = run(true);
  for (const Estimate& a : result.front)
    for (const Estimate& b : result.front)
      EXPECT_FALSE(a.step_s < b.step_s && a.memory.total() < b.memory.total()) << to_string(b.layout);
  for (const Estimate& plan : result.best) EXPECT_TRUE(plan.fits);
  if (!result.best.empty()) {
    EXPECT_EQ(result.best.front().layout, result.front.front().layout);
  }
}

TEST_P(Search, NoPlanIsFasterThanItsBound) {
  const Case& each = GetParam();
  const Job job{.model = model_named(tables(), each.model), .seq = each.seq, .global_batch = each.batch};
  const Machine machine = machine_of(tables(), each.instance, each.count);
  const Stack stack = stack_of(tables(), default_stack(machine.kind));
  for_each_layout(job, machine, stack, {}, [&](const Layout& layout) {
    EXPECT_EQ(illegal_because(job, machine, layout), "");
    EXPECT_LE(least_step_s(job, machine, stack, layout), evaluate(job, machine, stack, layout).step_s)
        << to_string(layout);
  });
}

INSTANTIATE_TEST_SUITE_P(Jobs, Search,
                         testing::Values(Case{"Llama-3.1-70B", "p5.48xlarge", 8, 8192, 128},
                                         Case{"GPT-3 175B", "p4d.24xlarge", 32, 2048, 512},
                                         Case{"Mixtral-8x7B", "p5.48xlarge", 4, 4096, 96},
                                         Case{"Llama-2-7B", "trn1.32xlarge", 4, 4096, 256},
                                         Case{"Llama-3.1-8B", "trn2.48xlarge", 1, 32768, 32}));

TEST(StatedLayers, ReplaceTheCurvesWhereTheyAreStated) {
  const Job job{.model = model_named(tables(), "Llama-3.1-8B"), .seq = 8192, .global_batch = 64};
  const Machine machine = machine_of(tables(), "p5.48xlarge", 2);
  const Stack stack = stack_of(tables(), "megatron-core");
  StatedLayers stated("tp,cp,sp,micro_batch,forward_us,backward_us,output_us\n4,1,1,1,1000,2000,500\n",
                      "x.csv");
  SearchOptions options;
  options.fixed.tp = 4;
  options.fixed.pp = 1;
  options.fixed.zero = 1;
  options.fixed.recompute = Recompute::kNone;
  SearchResult result = search(job, machine, stack, options);
  const Recost done = recost(job, machine, stack, 100, stated, result);
  EXPECT_EQ(done.plans, 1u);
  EXPECT_EQ(result.best[0].layers, "stated");
  // 16 micro-batches of 32 blocks, and what adds gradients up.
  EXPECT_NEAR(result.best[0].time.compute, 16 * (32 * 3e-3 + 500e-6), 0.05 * result.best[0].time.compute);
  EXPECT_THROW(StatedLayers("tp,cp\n1,2\n", "x.csv"), Fault);
  EXPECT_THROW(
      StatedLayers("tp,cp,sp,micro_batch,forward_us,backward_us,output_us\n4,1,2,1,1,1,1\n", "x.csv"), Fault);
}

TEST(Search, SchedulesInTicksRunBlocksAgain) {
  const Job job{.model = model_named(tables(), "Llama-3.1-8B"), .seq = 4096, .global_batch = 64};
  const Machine machine = machine_of(tables(), "trn1.32xlarge", 2);
  const Stack stack = stack_of(tables(), "opentrn");
  Fixed fixed;
  fixed.schedules = {Schedule::kGPipe, Schedule::k1F1BInTicks};
  std::map<Schedule, int> stages, interleaved;
  for_each_layout(job, machine, stack, fixed, [&](const Layout& layout) {
    EXPECT_EQ(illegal_because(job, machine, layout), "");
    EXPECT_LE(least_step_s(job, machine, stack, layout), evaluate(job, machine, stack, layout).step_s)
        << to_string(layout);
    if (layout.pp == 1) return;
    ++stages[layout.schedule];
    if (layout.vpp > 1) ++interleaved[layout.schedule];
    EXPECT_EQ(layout.recompute, Recompute::kFull);
  });
  EXPECT_EQ(stages.size(), 2);
  EXPECT_GT(stages[Schedule::kGPipe], 0);
  EXPECT_GT(stages[Schedule::k1F1BInTicks], stages[Schedule::kGPipe]);
  EXPECT_EQ(interleaved[Schedule::kGPipe], 0);
  EXPECT_GT(interleaved[Schedule::k1F1BInTicks], 0);
  // Stages that do not divide the layers are as long as the longest, and there is no chunk without a block.
  fixed.pp = 5;
  const Machine five = machine_of(tables(), "trn1.32xlarge", 5);
  Job even = job;
  even.global_batch = 160;
  int uneven = 0;
  for_each_layout(even, five, stack, fixed, [&](const Layout&) { ++uneven; });
  EXPECT_GT(uneven, 0);
  fixed.vpp = 7;
  fixed.schedules = {Schedule::k1F1BInTicks};
  EXPECT_NE(none_legal_because(even, five, fixed).find("35 is more than 32 layers"), std::string::npos);
  fixed.vpp.reset();
  fixed.pp = 2;
  fixed.recompute = Recompute::kNone;
  EXPECT_NE(none_legal_because(job, machine, fixed).find("--recompute full"), std::string::npos);
}

// A global batch of an odd number leaves one copy of the model, of which ZeRO 1 cuts nothing.
TEST(Search, NoTwoPlansSayTheSame) {
  const Job job{.model = model_named(tables(), "Llama-3.1-8B"), .seq = 4096, .global_batch = 255};
  const Machine machine = machine_of(tables(), "trn2.48xlarge", 1);
  SearchOptions options;
  options.top = 20;
  const SearchResult found = search(job, machine, stack_of(tables(), "neuron"), options);
  ASSERT_GT(found.best.size(), 3u);
  std::set<std::pair<double, double>> seen;
  for (const Estimate& each : found.best) {
    if (each.layout.dp == 1) {
      EXPECT_TRUE(each.layout.zero == 0 || each.layout.zero == 3);
    }
    EXPECT_TRUE(seen.emplace(each.step_s, each.memory.total()).second) << to_string(each.layout);
  }
}

// It said that micro-batches were no multiple of pp, which was 1.
TEST(Search, ChunksAreOfOneSchedule) {
  const Job job{.model = model_named(tables(), "Llama-3.1-8B"), .seq = 4096, .global_batch = 256};
  Fixed fixed;
  fixed.vpp = 2;
  fixed.schedules = {Schedule::kZbH1};
  EXPECT_EQ(none_legal_because(job, machine_of(tables(), "trn1.32xlarge", 4), fixed),
            "vpp 2 is of the interleaved 1F1B, and ZB-H1 is asked for");
}

TEST(Search, SaysWhatOneStageHasNoUseFor) {
  Fixed fixed;
  fixed.schedules = {Schedule::kZbInTicks};
  fixed.vpp = 2;
  EXPECT_EQ(unused_because(fixed), "");  // stages are searched
  fixed.pp = 2;
  EXPECT_EQ(unused_because(fixed), "");
  fixed.pp = 1;
  EXPECT_THAT(unused_because(fixed), HasSubstr("pp is 1, and ZB in ticks"));
  fixed.schedules.clear();
  EXPECT_THAT(unused_because(fixed), HasSubstr("pp is 1, and vpp 2"));
  fixed.vpp = 1;
  EXPECT_EQ(unused_because(fixed), "");
}

TEST(Search, FixedDegreesStay) {
  const Job job{.model = model_named(tables(), "Llama-3.1-8B"), .seq = 8192, .global_batch = 64};
  const Machine machine = machine_of(tables(), "p5.48xlarge", 2);
  SearchOptions options;
  options.fixed.tp = 4;
  options.fixed.zero = 1;
  for (const Estimate& plan : search(job, machine, stack_of(tables(), "megatron-core"), options).best) {
    EXPECT_EQ(plan.layout.tp, 4);
    EXPECT_EQ(plan.layout.zero, 1);
  }
}

}  // namespace
}  // namespace opentrn::planner::search_tests
