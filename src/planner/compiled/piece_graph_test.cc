#include "planner/compiled/compiled_layers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "graph/verify.h"
#include "planner/compiled/pieces_for_test.h"

namespace opentrn::planner::compiled {
namespace {

TEST(PieceGraph, EveryPieceIsAGraphThatTheCompilerTakes) {
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const bool backward : {false, true})
    for (const bool gated : {false, true}) {
      Piece piece = products(128);
      piece.backward = backward;
      piece.gated = gated;
      graph::verify(graph_of(piece));
      EXPECT_GT(times.seconds(piece), 0) << to_string(piece);
      Piece norms;
      norms.rows = 128;
      norms.hidden = 512;
      norms.backward = backward;
      norms.root_mean_square = gated;
      EXPECT_GT(times.seconds(norms), 0) << to_string(norms);
      Piece attention;
      attention.part = Part::kAttention;
      attention.rows = attention.keys = 256;
      attention.heads = 2;
      attention.features = 64;
      attention.backward = backward;
      attention.causal = gated;
      EXPECT_GT(times.seconds(attention), 0) << to_string(attention);
      Piece output;
      output.part = Part::kOutput;
      output.rows = 128;
      output.hidden = 512;
      output.inner = 1000;
      output.backward = backward;
      output.wide = gated;
      EXPECT_GT(times.seconds(output), 0) << to_string(output);
    }
  Piece embedding;
  embedding.part = Part::kEmbedding;
  embedding.rows = 128;
  embedding.inner = 1000;
  embedding.hidden = 256;
  EXPECT_GT(times.seconds(embedding), 0);
  Piece optimizer;
  optimizer.part = Part::kOptimizer;
  optimizer.rows = optimizer.hidden = 256;
  EXPECT_GT(times.seconds(optimizer), 0);
  Piece decode;
  decode.part = Part::kDecode;
  decode.rows = 4;
  decode.keys = 256;
  decode.heads = 4;
  decode.kv_heads = 2;
  decode.features = 64;
  decode.hidden = 512;
  decode.inner = 1024;
  decode.gated = true;
  EXPECT_GT(times.seconds(decode), 0);
}

// Halves of a block and the pieces of a shared vocabulary, with and without what stands before them.
TEST(PieceGraph, WhatLiesBetweenMeetingsIsAGraphThatTheCompilerTakes) {
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const bool backward : {false, true})
    for (const bool normed : {false, true}) {
      Piece half;
      half.part = Part::kAttentionHalf;
      half.backward = backward;
      half.normed = half.root_mean_square = half.rotary = half.causal = normed;
      half.adds = backward && normed;
      if (backward && !normed) half.updated = {.inner = 512, .queries = 256, .key_values = 256};
      half.rows = 256;
      half.keys = 128;
      half.heads = 4;
      half.kv_heads = normed ? 2 : 4;
      half.features = 64;
      half.hidden = 256;
      half.inner = 512;
      half.gated = normed;
      graph::verify(graph_of(half));
      EXPECT_GT(times.seconds(half), 0) << to_string(half);
      half.part = Part::kMlpHalf;
      graph::verify(graph_of(half));
      EXPECT_GT(times.seconds(half), 0) << to_string(half);
    }
  Piece part;
  part.rows = 128;
  part.hidden = 256;
  part.inner = 1000;
  for (const Part each : {Part::kNorm, Part::kLogits, Part::kShares, Part::kLogitsBackward})
    for (const bool backward : {false, true}) {
      part.part = each;
      part.backward = backward;
      part.normed = part.adds = backward;
      graph::verify(graph_of(part));
      EXPECT_GT(times.seconds(part), 0) << to_string(part);
    }
}

// Of attention whose ranks each have a quarter of a sequence.
TEST(PieceGraph, PartsOfASequenceAreGraphsThatTheCompilerTakes) {
  Model model = small_model();
  model.kv_heads = 2;
  const BlockSizes sizes{
      .rows = 128, .normed_rows = 128, .micro_batch = 2, .queries = 64, .keys = 256, .context = 4};
  ASSERT_TRUE(is_whole(model, Precision::kBf16, sizes));
  PieceTimes times(Generation::kV3, std::nullopt);
  const std::vector<Piece> both = attention_half(model, Precision::kBf16, sizes);
  ASSERT_EQ(both.size(), 2);
  for (Piece each : both)
    for (const bool backward : {false, true}) {
      EXPECT_EQ(each.context, 4);
      EXPECT_TRUE(each.causal);
      each.backward = each.adds = backward;
      graph::verify(graph_of(each));
      EXPECT_GT(times.seconds(each), 0) << to_string(each);
    }
}

// Attention in windows: of a rank, which fills its last block up; and of cores with half of the blocks.
TEST(PieceGraph, WindowsAreBlocksOfARankOrOfItsCores) {
  Model model = small_model();
  model.heads = model.kv_heads = 3;
  model.window_layers = model.layers;
  model.window = 48;
  PieceTimes times(Generation::kV3, std::nullopt);
  BlockSizes sizes{
      .rows = 256, .normed_rows = 256, .queries = 256, .keys = 256, .causal = true, .in_window = true};
  const auto compile = [&](size_t count) {
    EXPECT_TRUE(has_whole_windows(model, sizes));
    const std::vector<Piece> pieces = attention_half(model, Precision::kBf16, sizes);
    ASSERT_EQ(pieces.size(), count);
    for (Piece each : pieces)
      for (const bool backward : {false, true}) {
        each.backward = each.adds = backward;
        graph::verify(graph_of(each));
        EXPECT_GT(times.seconds(each), 0) << to_string(each);
      }
  };
  compile(1);
  model.window = 64;
  sizes.parts = sizes.cores = 2;
  sizes.by_rows = true;
  sizes.normed_rows = 128;
  compile(2);
  sizes.normed_rows = 64;  // tokens of other ranks come before
  EXPECT_TRUE(attention_half(model, Precision::kBf16, sizes).front().selects);
  compile(2);
  model.window = 96;  // halves of a sequence have no whole blocks
  EXPECT_FALSE(has_whole_windows(model, sizes));
}

// Three heads on a rank of two cores that shares sequences with another rank: a core has its own sequences,
// or half of the rank's part of each.
TEST(PieceGraph, CoresHaveRowsOfWhatRanksShare) {
  Model model = small_model();
  model.heads = model.kv_heads = 3;
  model.head_dim = 64;
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const int64_t micro_batch : {1, 2}) {
    const BlockSizes sizes{.rows = 128 * micro_batch,
                           .normed_rows = 64 * micro_batch,
                           .micro_batch = micro_batch,
                           .queries = 128,
                           .keys = 256,
                           .parts = 2,
                           .cores = 2,
                           .by_rows = true,
                           .context = 2};
    ASSERT_TRUE(is_whole(model, Precision::kBf16, sizes));
    const std::vector<Piece> pieces = attention_half(model, Precision::kBf16, sizes);
    ASSERT_EQ(pieces.size(), 2u);
    for (Piece each : pieces) {
      EXPECT_EQ(each.rows, 64 * micro_batch);
      EXPECT_EQ(each.context, 2);
      for (const bool backward : {false, true}) {
        each.backward = each.adds = backward;
        graph::verify(graph_of(each));
        EXPECT_GT(times.seconds(each), 0) << to_string(each);
      }
    }
  }
}

// Three heads of two streams on a rank of two cores: each has sequences of its own, and gradients of half of
// what weights read, of both cores' sequences.
TEST(PieceGraph, CoresHaveSequencesOfTwoStreams) {
  Model model = small_model();
  model.causal = false;
  model.streams = 2;
  model.text_tokens = 33;
  model.heads = model.kv_heads = 3;
  const BlockSizes sizes{.rows = 4 * 97,
                         .normed_rows = 2 * 97,
                         .micro_batch = 4,
                         .queries = 97,
                         .keys = 97,
                         .parts = 2,
                         .cores = 2,
                         .by_rows = true};
  ASSERT_TRUE(is_whole(model, Precision::kBf16, sizes));
  Piece piece = attention_half(model, Precision::kBf16, sizes).front();
  EXPECT_EQ(piece.rows, 2 * 97);
  EXPECT_EQ(piece.heads, 3);
  EXPECT_TRUE(piece.halves && piece.normed);
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const bool backward : {false, true}) {
    piece.backward = piece.adds = backward;
    graph::verify(graph_of(piece));
    EXPECT_GT(times.seconds(piece), 0);
  }
}

// Of projections, which cores with rows all read, a core updates half of the rows; of the output layer half
// too.
TEST(PieceGraph, CoresWithRowsUpdateHalvesOfWhatProjectionsRead) {
  Model model = small_model();
  model.heads = model.kv_heads = 3;
  model.head_dim = 64;
  const BlockSizes sizes{.rows = 256,
                         .normed_rows = 128,
                         .micro_batch = 2,
                         .queries = 128,
                         .keys = 128,
                         .parts = 2,
                         .cores = 2,
                         .by_rows = true};
  const std::vector<WeightSize> weights = attention_weights(model, sizes);
  ASSERT_EQ(weights.size(), 4u);
  EXPECT_EQ(weights[0].rows, 96);
  EXPECT_EQ(weights[0].columns, model.hidden);
  for (size_t i = 1; i < weights.size(); ++i) {
    EXPECT_EQ(weights[i].rows, model.hidden / 2);
    EXPECT_EQ(weights[i].columns, 192);
  }
}

// Two streams on a rank of two cores: norms stand alone, of a sequence on each core, or of half of the tokens
// of each stream where it has an even number.
TEST(PieceGraph, NormsOfTwoStreamsStandAloneOnTwoCores) {
  Model model = small_model();
  model.causal = false;
  model.streams = 2;
  model.text_tokens = 33;
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const int64_t micro_batch : {1, 2}) {
    const BlockSizes sizes{.rows = 97 * micro_batch,
                           .normed_rows = part_of(97 * micro_batch, 2),
                           .micro_batch = micro_batch,
                           .queries = 97,
                           .keys = 97,
                           .parts = 2,
                           .cores = 2};
    ASSERT_TRUE(is_whole(model, Precision::kBf16, sizes));
    const Piece norm = norm_of(model, Precision::kBf16, sizes);
    EXPECT_EQ(norm.part, Part::kJointNorm);
    EXPECT_EQ(norm.rows, 97);
    EXPECT_EQ(norm.selects, micro_batch == 1);
    for (Piece each : {norm, attention_half(model, Precision::kBf16, sizes).front(),
                       mlp_half(model, Precision::kBf16, sizes)})
      for (const bool backward : {false, true}) {
        EXPECT_FALSE(each.normed);
        each.backward = each.adds = backward;
        graph::verify(graph_of(each));
        EXPECT_GT(times.seconds(each), 0) << to_string(each);
      }
  }
}

// Of three heads of keys, queries of two ranks meet two each, and of four ranks one or two.
TEST(PieceGraph, RanksMakeTheHeadsOfKeysThatTheirQueriesMeet) {
  Model model = small_model();
  model.heads = 12;
  model.kv_heads = 3;
  model.head_dim = 64;
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const int64_t ranks : {2, 4}) {
    const BlockSizes sizes{
        .rows = 128, .normed_rows = 128, .micro_batch = 1, .queries = 128, .keys = 128, .parts = ranks};
    ASSERT_TRUE(is_whole(model, Precision::kBf16, sizes));
    Piece half = attention_half(model, Precision::kBf16, sizes).front();
    EXPECT_EQ(half.kv_heads, 2);
    EXPECT_EQ(half.shared, 4);
    EXPECT_EQ(kept_key_columns(model, sizes), 3 * 64);
    for (const bool backward : {false, true}) {
      half.backward = half.adds = backward;
      graph::verify(graph_of(half));
      EXPECT_GT(times.seconds(half), 0) << to_string(half);
    }
  }
  const BlockSizes one{.rows = 128, .normed_rows = 128, .queries = 128, .keys = 128, .parts = 3};
  EXPECT_EQ(attention_half(model, Precision::kBf16, one).front().shared, 0);
  EXPECT_EQ(kept_key_columns(model, one), 64);
}

// Four experts of which a token meets two, a rank with two of them, and sequences of 64 tokens.
TEST(PieceGraph, ExpertsAreGraphsThatTheCompilerTakes) {
  Model model = small_model();
  model.experts = 4;
  model.active_experts = 2;
  model.expert_ffn = 256;
  BlockSizes sizes{.rows = 128, .normed_rows = 128, .micro_batch = 2, .queries = 64, .keys = 64, .ep = 2};
  ASSERT_TRUE(experts_are_whole(model, Precision::kBf16, sizes));
  PieceTimes times(Generation::kV3, std::nullopt);
  model.shared_ffn = 384;
  sizes.parts = 2;
  ASSERT_TRUE(experts_are_whole(model, Precision::kBf16, sizes));
  auto [route, experts, combine, behind, shared] = expert_pieces(model, Precision::kBf16, sizes);
  EXPECT_TRUE(behind.empty() && !shared);
  EXPECT_EQ(route.capacity, 32);  // of each sequence
  EXPECT_EQ(experts.experts, 2);
  EXPECT_EQ(experts.rows, 2 * 2 * 32);  // of two ranks' two sequences
  EXPECT_EQ(route.shared, 192);         // beside those, on all of the rank's tokens
  EXPECT_GT(times.seconds(route), times.seconds(without_shared(route)));
  for (Piece* each : {&route, &experts, &combine})
    for (const bool backward : {false, true}) {
      each->backward = backward;
      each->adds = backward && each->part != Part::kCombine;
      graph::verify(graph_of(*each));
      EXPECT_GT(times.seconds(*each), 0) << to_string(*each);
    }
  // Of a sequence of which two ranks have a run each, as many of a run.
  BlockSizes of_runs = sizes;
  of_runs.keys = 2 * sizes.queries;
  of_runs.context = 2;
  ASSERT_TRUE(experts_are_whole(model, Precision::kBf16, of_runs));
  EXPECT_EQ(expert_pieces(model, Precision::kBf16, of_runs).route.capacity, 32);
  model.shared_ffn = 385;  // two ranks do not divide them
  EXPECT_FALSE(experts_are_whole(model, Precision::kBf16, sizes));
}

// The two cores of a rank have a sequence each, or else half of the tokens of each, and all places.
TEST(PieceGraph, ExpertsOfTwoCoresHaveHalvesOfTheTokens) {
  Model model = small_model();
  model.experts = 4;
  model.active_experts = 2;
  model.expert_ffn = 256;
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const int64_t batch : {2, 1}) {
    const BlockSizes sizes{.rows = 64 * batch,
                           .normed_rows = 32 * batch,
                           .micro_batch = batch,
                           .queries = 64,
                           .keys = 64,
                           .parts = 2,
                           .cores = 2,
                           .ep = 2};
    ASSERT_TRUE(experts_are_whole(model, Precision::kBf16, sizes));
    const auto [route, experts, combine, behind, shared] = expert_pieces(model, Precision::kBf16, sizes);
    EXPECT_EQ(route.rows, 32 * batch);
    EXPECT_TRUE(route.normed);
    EXPECT_EQ(experts.inner, 128);
    ASSERT_EQ(behind.size(), batch == 1 ? 2 : 1);  // what the other core's tokens meet, and places
    std::vector<Piece> all{route, experts, combine};
    all.insert(all.end(), behind.begin(), behind.end());
    for (Piece& each : all)
      for (const bool backward : {false, true}) {
        if (backward && each.part == Part::kCounts) continue;
        each.backward = backward;
        each.adds = backward && each.part != Part::kCombine;
        const graph::Module module = graph_of(each);
        graph::verify(module);
        EXPECT_GT(times.seconds(each), 0) << to_string(each);
        if (each.part != Part::kPlaces) continue;
        // Of four experts' places for as many tokens as an even spread brings them, half of each row.
        const graph::Function& function = module.entry();
        EXPECT_EQ(function.type(function.returned()[backward ? 0 : 2]).to_string(),
                  fmt::format("tensor<{}x{}xbf16>", 4 * batch * 32, model.hidden / 2));
      }
  }
  model.shared_ffn = 384;
  const BlockSizes sizes{
      .rows = 128, .normed_rows = 64, .micro_batch = 2, .queries = 64, .keys = 64, .parts = 2, .cores = 2};
  // Experts that every token meets: all tokens, and half of their columns.
  ASSERT_TRUE(experts_are_whole(model, Precision::kBf16, sizes));
  const ExpertPieces pieces = expert_pieces(model, Precision::kBf16, sizes);
  ASSERT_TRUE(pieces.shared);
  EXPECT_EQ(pieces.route.shared + pieces.combine.shared, 0);
  EXPECT_EQ(pieces.shared->rows, 128);
  EXPECT_EQ(pieces.shared->inner, 192);
}

// A rank that has all experts waits for nobody: one piece, of as many products and weights as its parts have.
TEST(PieceGraph, ExpertsOfOneRankAreOnePiece) {
  Model model = small_model();
  model.experts = 4;
  model.active_experts = 2;
  model.expert_ffn = 256;
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const int64_t shared : {0, 192}) {
    model.shared_ffn = shared;
    BlockSizes sizes{.rows = 128, .normed_rows = 128, .micro_batch = 2, .queries = 64, .keys = 64};
    ASSERT_FALSE(mixture_of(model, Precision::kBf16, {.rows = 128, .queries = 64, .keys = 64, .ep = 2}));
    Piece piece = *mixture_of(model, Precision::kBf16, sizes);
    const ExpertPieces apart = expert_pieces(model, Precision::kBf16, sizes);
    double parts_s = 0;
    for (const bool backward : {false, true}) {
      piece.backward = backward;
      graph::verify(graph_of(piece));
      for (Piece each : {apart.route, apart.experts, apart.combine}) {
        each.backward = backward;
        parts_s += times.seconds(each);
      }
    }
    Piece forward = piece;
    forward.backward = false;
    EXPECT_LT(times.seconds(forward) + times.seconds(piece), 1.1 * parts_s);
    // Both passes in one part, where the block runs again.
    piece.again = piece.lean = true;
    graph::verify(graph_of(piece));
    EXPECT_GT(times.seconds(piece), 0);
  }
}

// Cores with halves of what latent attention compresses: gradients of half of each weight that both have.
TEST(PieceGraph, CoresHaveHalvesOfWhatLatentAttentionCompresses) {
  Model model = small_model();
  model.kv_rank = 32;
  model.nope_dim = 16, model.rope_dim = 8, model.value_dim = 24;
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const int queries : {0, 48}) {
    model.query_rank = queries;
    const BlockSizes sizes{.rows = 128,
                           .normed_rows = 64,
                           .micro_batch = 1,
                           .queries = 128,
                           .keys = 128,
                           .causal = true,
                           .parts = 2,
                           .cores = 2,
                           .compresses = true};
    const std::vector<Piece> pieces = attention_half(model, Precision::kBf16, sizes);
    ASSERT_EQ(pieces.size(), 2);
    EXPECT_EQ(pieces[0].rows, 64);
    EXPECT_TRUE(pieces[0].normed);
    ASSERT_TRUE(is_whole(model, Precision::kBf16, sizes));
    for (Piece piece : pieces)
      for (const bool backward : {false, true}) {
        piece.backward = backward;
        const graph::Module module = graph_of(piece);
        graph::verify(module);
        EXPECT_GT(times.seconds(piece), 0) << to_string(piece);
      }
  }
}

// Gradients of latent attention's weights, and of biases, are those of their shapes; float32 and with stages.
TEST(PieceGraph, LatentAttentionAndBiasesHaveTheirWeights) {
  Model model = small_model();
  model.query_rank = 48;
  model.kv_rank = 32;
  model.nope_dim = 16, model.rope_dim = 8, model.value_dim = 24;
  const BlockSizes sizes{
      .rows = 64, .normed_rows = 64, .micro_batch = 1, .queries = 64, .keys = 64, .causal = true, .parts = 1};
  ASSERT_TRUE(is_whole(model, Precision::kBf16, sizes));
  std::multiset<std::string> expected;
  for (const WeightSize& each : attention_weights(model, sizes))
    expected.insert(fmt::format("tensor<{}x{}xbf16>", each.rows, each.columns));
  EXPECT_EQ(expected.size(), 5);
  Piece piece = attention_half(model, Precision::kBf16, sizes)[0];
  for (const bool backward : {false, true}) {
    piece.backward = backward;
    const graph::Module module = graph_of(piece);
    graph::verify(module);
    const graph::Function& function = module.entry();
    std::multiset<std::string> weights;
    for (const graph::ValueId value : function.arguments())
      if (const std::string type = function.type(value).to_string(); expected.contains(type))
        weights.insert(type);
    EXPECT_EQ(weights, expected) << to_string(piece);
  }
  Model gpt = small_model();
  gpt.gated = false;
  for (const bool biases : {false, true}) {
    gpt.biases = biases;
    Piece mlp = mlp_half(gpt, Precision::kBf16, sizes);
    mlp.backward = true;
    const graph::Module module = graph_of(mlp);
    graph::verify(module);
    // Two weights, the norm's scale and what was read; three biases.
    EXPECT_EQ(module.entry().returned().size(), biases ? 7 : 4);
  }
}

// In place: as many bytes as one tick's value has, read and written, of however many ticks.
TEST(PieceGraph, TicksReadAndKeepTheirOwnValueAlone) {
  PieceTimes times(Generation::kV3, std::nullopt);
  Piece piece;
  piece.rows = 256;
  piece.hidden = 512;
  piece.heads = 1;
  const double value = 256 * 512 * 2;
  for (const Part part : {Part::kFetch, Part::kKeep}) {
    piece.part = part;
    graph::verify(graph_of(piece));
    EXPECT_NEAR(times.time(piece).hbm_bytes, 2 * value, 0.01 * value) << to_string(piece);
  }
  piece.adds = true;  // of two values the sum, which the next stage has too
  EXPECT_NEAR(times.time(piece).hbm_bytes, 4 * value, 0.01 * value);
  Piece test;
  test.part = Part::kLoopTest;
  EXPECT_LT(times.seconds(test), 5e-6);
}

// Weights of one chunk of several are read where they lie, and their sums are added to in place: nothing of
// the other chunks moves.
TEST(PieceGraph, ChunksReadTheirOwnWeightsAndAddToTheirOwnSums) {
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const Part part : {Part::kMlpHalf, Part::kAttentionHalf})
    for (const bool backward : {false, true}) {
      Piece half;
      half.part = part;
      half.rows = half.keys = 256;
      half.hidden = half.inner = 512;
      half.heads = half.kv_heads = part == Part::kAttentionHalf ? 8 : 0;
      half.features = part == Part::kAttentionHalf ? 64 : 0;
      half.backward = half.adds = backward;
      const PieceTime whole = times.time(half);
      half.chunks = 4;
      graph::verify(graph_of(half));
      const PieceTime chunk = times.time(half);
      EXPECT_NEAR(chunk.hbm_bytes, whole.hbm_bytes, 0.02 * whole.hbm_bytes) << to_string(half);
      EXPECT_LT(chunk.seconds, 1.5 * whole.seconds) << to_string(half);
    }
}

// Of an MLP that runs again, both passes are one part, which does not write what it reads itself.
TEST(PieceGraph, AnMlpThatRunsAgainMovesLessThanItsPassesApart) {
  PieceTimes times(Generation::kV3, std::nullopt);
  for (const bool gated : {false, true})
    for (const bool normed : {false, true}) {
      Piece half;
      half.part = Part::kMlpHalf;
      half.rows = 256;
      half.hidden = half.inner = 512;
      half.gated = gated;
      half.normed = half.root_mean_square = normed;
      half.again = true;
      const PieceTime forward = times.time(half);
      half.backward = true;
      half.adds = true;
      graph::verify(graph_of(half));
      const PieceTime both = times.time(half);
      half.again = false;
      EXPECT_LT(both.hbm_bytes, (forward + times.time(half)).hbm_bytes);
      EXPECT_GT(both.seconds, times.seconds(half));
      Piece lean = half;
      lean.backward = lean.adds = false;
      const double kept = times.time(lean).hbm_bytes;
      lean.lean = true;
      EXPECT_LT(times.time(lean).hbm_bytes, kept);
    }
}

}  // namespace
}  // namespace opentrn::planner::compiled
