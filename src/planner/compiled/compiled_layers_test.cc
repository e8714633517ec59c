#include "planner/compiled/compiled_layers.h"

#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"
#include "planner/compiled/piece_passes.h"
#include "planner/compiled/pieces_for_test.h"
#include "planner/recost.h"

namespace opentrn::planner::compiled {
namespace {

TEST(PieceTimes, AreNeverBelowTheArraysPeak) {
  for (const Generation generation : {Generation::kV2, Generation::kV3, Generation::kV4}) {
    PieceTimes times(generation, std::nullopt);
    const Piece piece = products(512);
    const double flops = 2.0 * 512 * 512 * (4 * 512 + 3 * 1024);
    const double peak = double(tables().neuron_core(generation).peak_tflops.at("bf16")) * 1e12;
    EXPECT_GT(times.seconds(piece), flops / peak) << name(generation);
    EXPECT_LT(times.seconds(piece), 8 * flops / peak) << name(generation);
  }
}

TEST(PieceTimes, AreKeptAndFoundAgain) {
  const TemporaryFolderForTest folder;
  PieceTimes first(Generation::kV2, folder.path());
  const double seconds = first.seconds(products(128));
  EXPECT_EQ(first.compiled(), 1);
  PieceTimes second(Generation::kV2, folder.path());
  EXPECT_EQ(second.seconds(products(128)), seconds);
  EXPECT_EQ(second.compiled(), 0);
  // Lines that are none are left alone, another generation has its own file.
  for (const auto& file : std::filesystem::directory_iterator(folder.path() / "layers"))
    std::ofstream(file.path(), std::ios::app) << "half a li\nproducts forward\tnothing\nx\t-3\n";
  PieceTimes third(Generation::kV2, folder.path());
  EXPECT_EQ(third.seconds(products(128)), seconds);
  PieceTimes other(Generation::kV3, folder.path());
  EXPECT_NE(other.seconds(products(128)), seconds);
  EXPECT_EQ(other.compiled(), 1);
}

TEST(PieceTimes, DoNotTrustWhatOthersMayWrite) {
  const TemporaryFolderForTest folder;
  PieceTimes(Generation::kV2, folder.path()).seconds(products(128));
  std::filesystem::permissions(folder.path() / "layers", std::filesystem::perms::others_write,
                               std::filesystem::perm_options::add);
  PieceTimes careful(Generation::kV2, folder.path());
  careful.seconds(products(128));
  EXPECT_EQ(careful.compiled(), 1);
}

// Cores that compute all rows of norms add up what a half gives before its norm's backward pass, which has a
// part of its own (decision 0279).
TEST(PiecePasses, NormsOfAllRowsComeBehindTheCoresSum) {
  PieceTimes times(Generation::kV3, std::nullopt);
  Model model = small_model();
  BlockSizes sizes;
  sizes.rows = sizes.normed_rows = sizes.queries = sizes.keys = 128;
  sizes.parts = sizes.cores = 2;
  sizes.adds = true;
  for (const bool again : {false, true}) {
    const Piece mlp = mlp_half(model, Precision::kBf16, sizes);
    ASSERT_TRUE(mlp.normed);
    sizes.sums_before_norms = false;
    const BackwardPasses whole = backward_of(times, model, Precision::kBf16, mlp, sizes, again);
    EXPECT_EQ(whole.norm.seconds, 0);
    sizes.sums_before_norms = true;
    const BackwardPasses apart = backward_of(times, model, Precision::kBf16, mlp, sizes, again);
    Piece bare = mlp;
    bare.normed = false;
    EXPECT_EQ(apart.own.seconds,
              (again ? behind_again(times, bare, sizes) : time_of(times, bare, true, true)).seconds);
    EXPECT_EQ(apart.norm.seconds,
              time_of(times, norm_of(model, Precision::kBf16, sizes), true, true).seconds);
    EXPECT_GT(apart.own.seconds + apart.norm.seconds, whole.own.seconds);
  }
}

// Three heads on a rank of two cores, with sequence parallelism: cores have rows (decision 0318).
TEST(BlockPieces, ACoreTakesItsPartOfASequenceAndHasWholeOnesAlready) {
  Model model = small_model();
  model.heads = model.kv_heads = 6;
  BlockSizes sizes;
  sizes.by_rows = true;
  sizes.parts = 4, sizes.cores = 2;
  sizes.queries = sizes.keys = 128;
  for (const int64_t sequences : {1, 2}) {
    sizes.micro_batch = sequences;
    sizes.rows = 128 * sequences;
    sizes.normed_rows = sizes.rows / 4;
    const std::vector<Piece> half = attention_half(model, Precision::kBf16, sizes);
    EXPECT_FALSE(half[0].normed);
    EXPECT_EQ(half[0].selects, sequences == 1);
  }
}

TEST(CompiledLayers, ALongerSequenceIsOnTheLineOfShorterOnes) {
  CompiledLayers source(std::nullopt);
  const Machine machine = machine_of(tables(), "trn1.2xlarge", 1);
  Job job{.model = small_model(), .seq = 1024, .global_batch = 8};
  std::string why;
  const auto one = source.layers(job, machine, {.dp = 2, .micro_batch = 1}, why);
  const auto four = source.layers(job, machine, {.dp = 2, .micro_batch = 4}, why);
  ASSERT_TRUE(one && four) << why;
  // Of four sequences, queries, keys and values do not all stay in the core's memory.
  EXPECT_NEAR(four->block.forward / one->block.forward, 4.5, 0.8);
  EXPECT_GT(one->block.backward, 1.5 * one->block.forward);
}

// A block of four experts of which a token meets one or two: the MLP's part of its time follows, and a rank
// with half of the experts has half of their tokens' weights to read.
TEST(CompiledLayers, ExpertsTakeTheTimeOfTheTokensThatTheyGet) {
  CompiledLayers source(std::nullopt);
  const Machine machine = machine_of(tables(), "trn1.2xlarge", 1);
  Job job{.model = small_model(), .seq = 512, .global_batch = 8};
  job.model.experts = 4;
  job.model.active_experts = 1;
  job.model.expert_ffn = 1024;
  std::string why;
  const auto one = source.layers(job, machine, {.dp = 2}, why);
  job.model.active_experts = 4;
  const auto all = source.layers(job, machine, {.dp = 2}, why);
  ASSERT_TRUE(one && all && one->expert_block && all->expert_block) << why;
  EXPECT_EQ(one->block.forward, 0);  // no dense block is in it
  EXPECT_GT(all->expert_block->forward, 1.3 * one->expert_block->forward);
  EXPECT_LT(all->expert_block->forward, 4 * one->expert_block->forward);
  EXPECT_GT(one->expert_block->backward, one->expert_block->forward);
  ServeStep step{.sequences = 1, .tokens = 1, .context = 256};
  const auto decode = source.serve(job.model, job.precision, machine, 1, step, why);
  ASSERT_TRUE(decode) << why;
  EXPECT_GT(decode->block_s, 0);
}

// Of a step's only micro-batch weights are updated in pieces that have other work, which is less than both.
TEST(CompiledLayers, UpdatesBesideOtherWorkTakeLess) {
  CompiledLayers source(std::nullopt);
  const Machine machine = machine_of(tables(), "trn1.2xlarge", 1);
  Job job{.model = small_model(), .seq = 512, .global_batch = 2};
  std::string why;
  const Layout layout{.dp = 2, .zero = 1, .micro_batch = 1};
  for (const int experts : {0, 4}) {
    job.model.experts = experts;
    job.model.active_experts = std::min(2, experts);
    job.model.expert_ffn = 512;
    job.global_batch = 2;
    const auto one = source.layers(job, machine, layout, why);
    job.global_batch = 8;
    const auto four = source.layers(job, machine, layout, why);
    ASSERT_TRUE(one && four) << why;
    EXPECT_LT(*one->optimizer_s_of_parameter, *four->optimizer_s_of_parameter);
    EXPECT_GT(*one->optimizer_s_of_parameter, *four->optimizer_s_of_parameter / 3);
  }
}

// Stages that do the same have an MLP and experts where some of them have the one and some the others.
TEST(CompiledLayers, BlocksOfBothKindsHaveTheWorkOfBoth) {
  CompiledLayers source(std::nullopt);
  const Machine machine = machine_of(tables(), "trn1.2xlarge", 1);
  Job job{.model = small_model(), .seq = 256, .global_batch = 8};
  job.model.layers = 4;
  job.model.experts = 4;
  job.model.active_experts = 2;
  job.model.expert_ffn = 512;
  job.model.dense_layers = 1;
  const Layout layout{.pp = 2, .schedule = Schedule::kGPipe, .recompute = Recompute::kFull};
  std::string why;
  const auto found = source.layers(job, machine, layout, why);
  ASSERT_TRUE(found && found->expert_block && found->both_block && found->ticks) << why;
  EXPECT_GT(found->both_block->forward, found->expert_block->forward);
  EXPECT_GT(found->both_block->backward, found->expert_block->backward);
}

TEST(CompiledLayers, LatentAttentionAndTwoStreamsAreCompiled) {
  CompiledLayers source(std::nullopt);
  const Machine machine = machine_of(tables(), "trn1.2xlarge", 1);
  Job job{.model = small_model(), .seq = 256, .global_batch = 4};
  std::string why;
  const auto plain = source.layers(job, machine, {.dp = 2}, why);
  job.model.query_rank = 256;
  job.model.kv_rank = 128;
  job.model.nope_dim = 64;
  job.model.rope_dim = 32;
  job.model.value_dim = 64;
  const auto latent = source.layers(job, machine, {.dp = 2}, why);
  ASSERT_TRUE(plain && latent) << why;
  EXPECT_GT(latent->block.backward, latent->block.forward);
  EXPECT_NE(latent->block.forward, plain->block.forward);
  // A step of decode: more context takes longer, and far less than the same tokens at once.
  const auto near = source.serve(job.model, job.precision, machine, 1, {.context = 256}, why);
  const auto far = source.serve(job.model, job.precision, machine, 1, {.context = 4096}, why);
  ASSERT_TRUE(near && far) << why;
  EXPECT_GT(near->block_s, 0);
  EXPECT_GT(far->block_s, near->block_s);
  EXPECT_LT(near->block_s, latent->block.forward);

  job.model = small_model();
  job.model.causal = false;
  job.model.streams = 2;
  job.model.text_tokens = 64;
  const auto streams = source.layers(job, machine, {.dp = 2}, why);
  ASSERT_TRUE(streams) << why;
  // The same rows through two sets of weights, in smaller products.
  EXPECT_GT(streams->block.forward, 0.8 * plain->block.forward);
  EXPECT_LT(streams->block.forward, 3 * plain->block.forward);
}

// With two sequences the cores of a rank may have one each: more products a core, and no meetings but for
// gradients.
TEST(CompiledLayers, CoresMayHaveSequencesOfTheirOwn) {
  CompiledLayers source(std::nullopt);
  const Machine machine = machine_of(tables(), "trn2.3xlarge", 1, 2);
  const Job job{.model = small_model(), .seq = 128, .global_batch = 16};
  std::string why;
  const auto one = source.layers(job, machine, {.tp = 2, .dp = 2, .micro_batch = 1}, why);
  const auto two = source.layers(job, machine, {.tp = 2, .dp = 2, .micro_batch = 2}, why);
  ASSERT_TRUE(one && two) << why;
  // Or both compute all rows of norms.
  ASSERT_EQ(one->other_ways.size(), 1u);
  ASSERT_EQ(two->other_ways.size(), 2u);
  EXPECT_GT(two->other_ways[1]->block.forward, 0.7 * two->block.forward);
  const LayerTimes& own = *two->other_ways[0];
  EXPECT_TRUE(own.other_ways.empty());
  EXPECT_GT(own.block.forward, 0.7 * two->block.forward);
  EXPECT_LT(own.waits->activations_s, two->waits->activations_s);
  // Both cores update all of the rank's weights.
  EXPECT_GT(*own.optimizer_s_of_parameter, *two->optimizer_s_of_parameter);
}

// A layer with a window is cut at its attention, which small layers of short sequences pay more for than they
// save.
// Learned positions: a table of many more than a sequence has is filled up with zeros in each micro-batch,
// also where ZeRO-3 sums parts of gradients behind that.
TEST(CompiledLayers, GradientsOfLearnedPositionsAreOfAllOfThem) {
  CompiledLayers source(std::nullopt);
  const Machine machine = machine_of(tables(), "trn1.2xlarge", 1);
  Job job{.model = small_model(), .seq = 256, .global_batch = 8};
  std::string why;
  for (const int zero : {0, 3}) {
    const auto embedding_s = [&](int positions) {
      job.model.positions = positions;
      const auto found =
          source.layers(job, machine, {.dp = 2, .zero = static_cast<int8_t>(zero), .micro_batch = 2}, why);
      return found && found->embedding_s ? *found->embedding_s : 0;
    };
    const double none = embedding_s(0), few = embedding_s(256), many = embedding_s(16384);
    ASSERT_GT(none, 0) << why;
    EXPECT_GT(few, none) << zero;
    EXPECT_GT(many, 1.15 * few) << zero;
  }
}

// Attention that runs again beside a backward pass takes what it adds to that, and not what it takes alone.
TEST(CompiledLayers, WhatRunsAgainBesideABackwardPassTakesWhatItAdds) {
  CompiledLayers source(std::nullopt);
  const Machine machine = machine_of(tables(), "trn2.3xlarge", 1, 1);
  Job job{.model = small_model(), .seq = 50, .global_batch = 8};
  job.model.causal = job.model.gated = false;
  job.model.biases = true;
  job.model.positions = 50;
  std::string why;
  const auto again_s = [&](int8_t zero) {
    const auto found = source.layers(
        job, machine, {.dp = 2, .zero = zero, .recompute = Recompute::kFull, .micro_batch = 1}, why);
    return found && found->block.again ? *found->block.again : 0;
  };
  const double beside = again_s(1), apart = again_s(3);  // ZeRO-3 gathers weights first
  ASSERT_GT(beside, 0) << why;
  EXPECT_NE(beside, apart);
  EXPECT_NEAR(beside / apart, 1, 0.3);
}

TEST(CompiledLayers, AWindowCostsLessThanAllThatCameBefore) {
  CompiledLayers source(std::nullopt);
  const Machine machine = machine_of(tables(), "trn1.2xlarge", 1);
  Job job{.model = small_model(), .seq = 8192, .global_batch = 4};
  std::string why;
  const auto whole = source.layers(job, machine, {.dp = 2}, why);
  const ServeStep step{.sequences = 1, .tokens = 1, .context = 8192};
  const auto whole_step = source.serve(job.model, job.precision, machine, 1, step, why);
  job.model.window = 256;
  job.model.window_layers = job.model.layers;
  const auto all = source.layers(job, machine, {.dp = 2}, why);
  const auto all_step = source.serve(job.model, job.precision, machine, 1, step, why);
  ASSERT_TRUE(whole && all && whole_step && all_step) << why;
  EXPECT_LT(all->block.forward, whole->block.forward);
  EXPECT_LT(all->block.backward, whole->block.backward);
  EXPECT_LT(all_step->block_s, whole_step->block_s);
  job.model.window_layers = job.model.layers / 2;
  const auto half = source.layers(job, machine, {.dp = 2}, why);
  ASSERT_TRUE(half) << why;
  EXPECT_NEAR(half->block.forward, (all->block.forward + whole->block.forward) / 2, 1e-9);
  job.model.window = 16384;  // longer than the sequence
  const auto longer = source.layers(job, machine, {.dp = 2}, why);
  ASSERT_TRUE(longer) << why;
  EXPECT_EQ(longer->block.forward, whole->block.forward);
}

TEST(CompiledLayers, SaysWhatItDoesNotHave) {
  CompiledLayers source(std::nullopt);
  std::string why;
  Job job{.model = small_model(), .seq = 128, .global_batch = 32, .precision = Precision::kFp8};
  const Machine trn1 = machine_of(tables(), "trn1.32xlarge", 1);
  EXPECT_FALSE(source.layers(job, trn1, {.dp = 32}, why));
  EXPECT_THAT(why, testing::HasSubstr("float8"));
  job.precision = Precision::kBf16;
  EXPECT_FALSE(source.layers(job, trn1, {.tp = 8, .dp = 4}, why));
  EXPECT_THAT(why, testing::HasSubstr("do not divide"));
  EXPECT_FALSE(source.layers(job, machine_of(tables(), "p5.48xlarge", 1), {.dp = 8}, why));
  EXPECT_THAT(why, testing::HasSubstr("H100"));
}

// By several threads, and so that none is compiled again.
TEST(PieceTimes, CompiledAheadAreAsAlone) {
  std::vector<Piece> pieces;
  for (const int64_t rows : {128, 256, 384, 512}) {
    Piece piece;
    piece.part = Part::kLinear;
    piece.rows = rows;
    piece.hidden = piece.inner = 256;
    pieces.push_back(piece);
  }
  PieceTimes ahead(Generation::kV2, std::nullopt), alone(Generation::kV2, std::nullopt);
  ahead.compile_ahead([&] {
    for (const Piece& piece : pieces) ahead.time(piece);
  });
  EXPECT_EQ(ahead.compiled(), 4);
  for (const Piece& piece : pieces) {
    EXPECT_EQ(ahead.time(piece).seconds, alone.time(piece).seconds);
    EXPECT_EQ(ahead.time(piece).hbm_bytes, alone.time(piece).hbm_bytes);
  }
  EXPECT_EQ(ahead.compiled(), 4);
}

TEST(Recost, ReplacesTheFinalistsAndSaysWhichMoved) {
  const Job job{.model = small_model(), .seq = 512, .global_batch = 8};
  const Machine machine = machine_of(tables(), "trn1.2xlarge", 1);
  const Stack stack = stack_of(tables(), "neuron");
  SearchOptions options;
  options.top = 4;
  options.fixed.micro_batch = 1;
  SearchResult result = search(job, machine, stack, options);
  const SearchResult before = result;
  CompiledLayers source(std::nullopt);
  const Recost done = recost(job, machine, stack, 2, source, result);
  EXPECT_EQ(done.plans, 2u);
  ASSERT_EQ(result.best.size(), before.best.size());
  size_t moved = 0;
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_TRUE(result.best[i].curves_s);
    EXPECT_NE(result.best[i].step_s, *result.best[i].curves_s);
    moved += has_moved(result.best[i]) ? 1 : 0;
  }
  EXPECT_EQ(done.moved, moved);
  EXPECT_LE(result.best[0].step_s, result.best[1].step_s);
  for (size_t i = 2; i < result.best.size(); ++i) EXPECT_FALSE(result.best[i].curves_s);
}

}  // namespace
}  // namespace opentrn::planner::compiled
