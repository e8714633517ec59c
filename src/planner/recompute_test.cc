#include "planner/recompute.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/check/wording.h"
#include "planner/hf_config.h"
#include "planner/layer_cost.h"
#include "planner/memory.h"
#include "planner/search.h"

namespace opentrn::planner::recompute_tests {
namespace {

using testing::HasSubstr;

const arch::Tables& tables() { return arch::default_tables(); }

struct Recomputed : testing::Test {
  Job job{.model = model_named(tables(), "Llama-2-70B"), .seq = 4096, .global_batch = 128};
  Machine machine = machine_of(tables(), "p5.48xlarge", 8);
  Stack maxtext = stack_of(tables(), "maxtext"), megatron = stack_of(tables(), "megatron-core");

  Layout with(Recompute recompute) const {
    return {.dp = 64, .zero = 3, .recompute = recompute, .micro_batch = 2};
  }
  double kept(Recompute recompute) const {
    return kept_bytes_per_token(job, maxtext, with(recompute), false);
  }
  double again(Recompute recompute) const {
    return *block_s(job, machine, maxtext, with(recompute), false).again;
  }
};

// Llama 2 70B: 8192 wide, 64 heads of 128 by 8 of keys, an MLP of 28672; two bytes each.
TEST_F(Recomputed, APolicyKeepsTheProductsOfItsName) {
  const double h = 8192, keys = 1024, ffn = 28672, qkv = h + 2 * keys;
  EXPECT_DOUBLE_EQ(kept(Recompute::kFull), 2 * h);
  EXPECT_DOUBLE_EQ(kept(Recompute::kSaveOutProj), 2 * (h + h));
  EXPECT_DOUBLE_EQ(kept(Recompute::kSaveQkvProj), 2 * (h + qkv));
  EXPECT_DOUBLE_EQ(kept(Recompute::kSaveDotExceptMlp), 2 * (h + qkv + h));
  EXPECT_DOUBLE_EQ(kept(Recompute::kSaveDotWithContextExceptMlp), 2 * (h + qkv + h + h));
  EXPECT_DOUBLE_EQ(kept(Recompute::kMinimal), 2 * (h + qkv + h + 2 * ffn));
  EXPECT_DOUBLE_EQ(kept(Recompute::kMinimalWithContext), 2 * (h + qkv + h + h + 2 * ffn));
  EXPECT_DOUBLE_EQ(kept(Recompute::kMinimalOffloaded), 2 * h);  // the rest is in the host's memory
}

// What nothing keeps is computed again, each product for as long as it takes alone.
TEST_F(Recomputed, WhatIsNotKeptIsComputedAgain) {
  const double tokens = 2 * 4096, share = maxtext.compute_efficiency;
  const auto product = [&](double in, double out) {
    return product_s(machine.rates, Precision::kBf16, tokens, out, in) / share;
  };
  const double qkv = product(8192, 8192 + 2 * 1024), out = product(8192, 8192), in = product(8192, 2 * 28672);
  const double attention = block_s(job, machine, maxtext, with(Recompute::kNone), false).attention_inside;
  const double rest = again(Recompute::kMinimalWithContext);  // norms, rotations, the activation
  EXPECT_NEAR(again(Recompute::kMinimal), rest + attention, 1e-9);
  EXPECT_NEAR(again(Recompute::kSaveDotWithContextExceptMlp), rest + in, 1e-9);
  EXPECT_NEAR(again(Recompute::kSaveDotExceptMlp), rest + attention + in, 1e-9);
  EXPECT_NEAR(again(Recompute::kSaveQkvProj), rest + attention + out + in, 1e-9);
  EXPECT_NEAR(again(Recompute::kSaveOutProj), rest + attention + qkv + in, 1e-9);
  EXPECT_NEAR(again(Recompute::kFull), rest + attention + qkv + out + in, 1e-9);
  EXPECT_FALSE(block_s(job, machine, megatron, with(Recompute::kFull), false).again);  // all of it
}

TEST_F(Recomputed, WhatIsKeptMoreTakesLessTime) {
  for (const char* name : {"Llama-2-70B", "Mixtral-8x7B", "DeepSeek-V3"}) {
    job.model = model_named(tables(), name);
    const bool experts = job.model.experts > 0;
    const auto at = [&](Recompute recompute) {
      const Layout layout{.tp = 4, .dp = 16, .zero = 1, .sp = true, .recompute = recompute};
      return std::pair(kept_bytes_per_token(job, maxtext, layout, experts),
                       evaluate(job, machine, maxtext, layout).step_s);
    };
    const Recompute order[] = {Recompute::kFull,
                               Recompute::kSaveQkvProj,
                               Recompute::kSaveDotExceptMlp,
                               Recompute::kSaveDotWithContextExceptMlp,
                               Recompute::kMinimalWithContext,
                               Recompute::kNone};
    for (size_t i = 0; i + 1 < std::size(order); ++i) {
      EXPECT_LT(at(order[i]).first, at(order[i + 1]).first) << name << " " << to_string(order[i]);
      EXPECT_GT(at(order[i]).second, at(order[i + 1]).second) << name << " " << to_string(order[i]);
    }
  }
}

TEST_F(Recomputed, WhatIsOnTheHostTakesItsWay) {
  const auto at = [&](Recompute recompute) { return evaluate(job, machine, maxtext, with(recompute)); };
  const Estimate kept = at(Recompute::kSaveQkvProj), away = at(Recompute::kQkvProjOffloaded);
  EXPECT_LT(away.memory.activations, kept.memory.activations);
  EXPECT_GE(away.step_s, kept.step_s);
  machine.host_link_bytes_s /= 1000;
  EXPECT_GT(at(Recompute::kQkvProjOffloaded).step_s, 1.5 * kept.step_s);
}

TEST_F(Recomputed, SomeBlocksAreBetweenNoneAndAll) {
  const auto at = [&](Recompute recompute, int layers) {
    Layout layout{.tp = 8, .pp = 4, .dp = 2, .sp = true, .recompute = recompute};
    layout.recompute_layers = static_cast<int16_t>(layers);
    return evaluate(job, machine, megatron, layout);
  };
  const Estimate none = at(Recompute::kNone, 0), all = at(Recompute::kFull, 0);
  for (const int layers : {1, 5, 10, 20}) {
    const Estimate some = at(Recompute::kFull, layers);
    const double share = layers / 20.0;
    EXPECT_NEAR(some.time.recompute, share * all.time.recompute, 1e-9 * all.time.recompute);
    EXPECT_NEAR(some.memory.activations,
                share * all.memory.activations + (1 - share) * none.memory.activations, 1);
  }
  Layout layout{.tp = 8, .pp = 4, .dp = 2, .recompute = Recompute::kFull, .recompute_layers = 21};
  EXPECT_THAT(illegal_because(job, machine, layout), HasSubstr("21 blocks"));
  layout.recompute = Recompute::kNone;
  EXPECT_THAT(illegal_because(job, machine, layout), HasSubstr("recompute is none"));
}

// The fewest blocks that fit, found by trying all numbers of them.
TEST_F(Recomputed, AsFewBlocksRunAgainAsFit) {
  int found = 0;
  for (const int tp : {2, 4, 8})
    for (const int pp : {1, 2, 4, 8})
      for (const int micro : {1, 2, 4}) {
        Layout layout{.tp = int16_t(tp), .pp = int16_t(pp), .dp = 64 / tp / pp, .sp = true};
        layout.micro_batch = micro;
        const auto fits = [&](Recompute recompute, int layers) {
          layout.recompute = recompute;
          layout.recompute_layers = static_cast<int16_t>(layers);
          return memory_of(job, machine, megatron, layout).total() <= machine.memory_bytes;
        };
        int fewest = 0;
        if (!fits(Recompute::kNone, 0) && fits(Recompute::kFull, 0))
          for (int layers = 1; layers < 80 / pp && fewest == 0; ++layers)
            if (fits(Recompute::kFull, layers)) fewest = layers;
        EXPECT_EQ(fewest_again(job, machine, megatron, layout), fewest) << to_string(layout);
        found += fewest > 0 ? 1 : 0;
      }
  EXPECT_GT(found, 3);
}

TEST_F(Recomputed, ASearchTriesWhatTheProgramHas) {
  std::set<Recompute> seen;
  int some = 0;
  const auto count = [&](const Stack& stack) {
    seen.clear();
    some = 0;
    for_each_layout(job, machine, stack, {}, [&](const Layout& layout) {
      seen.insert(layout.recompute);
      some += layout.recompute_layers > 0 ? 1 : 0;
    });
  };
  count(maxtext);
  EXPECT_EQ(seen.size(), 8u);
  EXPECT_FALSE(seen.contains(Recompute::kQkvProjOffloaded));
  EXPECT_EQ(some, 0);
  count(megatron);
  EXPECT_EQ(seen, (std::set{Recompute::kNone, Recompute::kFull}));
  EXPECT_GT(some, 0);
  count(stack_of(tables(), "torchtitan"));
  EXPECT_TRUE(seen.contains(Recompute::kSelective));
  EXPECT_EQ(unknown_to_because(maxtext, Recompute::kMinimalOffloaded, 0), "");
  EXPECT_THAT(unknown_to_because(megatron, Recompute::kMinimal, 0), HasSubstr("MaxText"));
  EXPECT_EQ(unknown_to_because(megatron, {}, 4), "");
  EXPECT_THAT(unknown_to_because(maxtext, {}, 4), HasSubstr("all blocks or none"));
}

TEST(Recompute, NamesAreThoseOfThePrograms) {
  for (const std::string& name : recompute_names()) EXPECT_EQ(to_string(*recompute_named(name)), name);
  EXPECT_EQ(recompute_named("minimal_flash"), Recompute::kMinimalWithContext);
  EXPECT_FALSE(recompute_named("some"));
}

TEST(Recompute, RowsStateIt) {
  EXPECT_EQ(degrees_of("FSDP64 mbs=2 remat_policy=save_qkv_proj").recompute, Recompute::kSaveQkvProj);
  EXPECT_EQ(degrees_of("FSDP64, minimal_flash").recompute, Recompute::kMinimalWithContext);
  EXPECT_EQ(degrees_of("FSDP64 remat=full").recompute, Recompute::kFull);
  const Degrees some = degrees_of("TP8 PP4 VP5 mbs=1 recompute_num_layers=4");
  EXPECT_EQ(some.recompute, Recompute::kFull);
  EXPECT_EQ(some.recompute_layers, 4);
  EXPECT_EQ(degrees_of("TP8 act_ckpt_layers 2").recompute_layers, 2);
  EXPECT_EQ(degrees_of("TP8 full-recompute").recompute_layers, 0);
}

}  // namespace
}  // namespace opentrn::planner::recompute_tests
