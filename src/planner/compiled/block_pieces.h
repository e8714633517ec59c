// The pieces that a block is compiled in, at the sizes of one core's share.
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include "planner/compiled/piece_graph.h"
#include "planner/job.h"
#include "planner/layer_times.h"
#include "planner/model.h"

namespace opentrn::planner::compiled {

// Of one program: above it, two smaller ones give the line. Its compilation takes about a second.
inline constexpr double kWorkMost = 60e9;

// What one of `parts` cores has of a block; what they do not divide is filled up.
struct Share {
  int64_t heads = 0, kv_heads = 0, ffn = 0, vocabulary = 0;
  int64_t queries = 0, key_values = 0;  // columns of attention's weights
  int64_t mixed = 0;                    // rows of its output layer
};
int64_t part_of(int64_t whole, int64_t parts);
Share share_of(const Model& model, int64_t parts);

// A piece, and how many of it a block has on one core.
struct Counted {
  Piece piece;
  double count = 1;
};

// What the pieces of a block are made for.
struct BlockSizes {
  int64_t rows = 0;         // tokens of a rank
  int64_t normed_rows = 0;  // of norms and residuals, which sequence parallelism cuts
  int64_t micro_batch = 1;
  int64_t queries = 0, keys = 0;  // attention's positions
  bool causal = false;
  int64_t parts = 1;   // cores that heads and widths are cut over
  int64_t stages = 1;  // that share the model's ends, and go through a step in ticks
  int64_t chunks = 0;  // of a stage, above 1
  int64_t cores = 1;   // of a rank
  // Each of the two cores has sequences of its own and all of the rank's weights: sizes are as those of a
  // rank of one core.
  bool own_sequences = false;
  // The cores of a rank do not divide its heads: each has half of the sequences, or else of the queries, and
  // all heads (decision 0216).
  bool by_rows = false;
  // ... or halves of what latent attention makes queries, and keys with values, of, and all of its own heads.
  bool compresses = false;
  double local_experts = 0;  // of a rank
  int64_t ep = 1;            // ranks that share a set of experts
  int64_t context = 1;       // ranks that share a sequence
  bool adds = false;         // gradients to those of micro-batches before
  bool updates = false;      // weights, beside the backward pass of the only micro-batch
  int64_t update_ranks = 0;  // ... which ZeRO cuts over so many ranks
  bool mixes = false;        // blocks with experts
  bool again = false;        // blocks run forward again before their backward pass: first passes keep nothing
  bool sums_before_norms = false;  // cores compute all rows of norms, of what they add up first
  bool again_beside = false;       // ... their attention in one part with a backward pass above
  bool in_window = false;          // of attention whose queries meet a window of keys
  bool norms_all_rows() const { return normed_rows == rows; }
  // Of experts: the norm is one of all tokens, of which each core has its own.
  bool norms_own_rows() const { return normed_rows * cores == rows; }
  // Attention's norm is computed by the core that reads it.
  bool norms_alone() const { return halves_tokens() ? normed_rows * cores < rows : normed_rows < rows; }
  bool halves_tokens() const { return by_rows || compresses; }
  // Of cores with rows: whole sequences.
  bool has_own_sequences() const { return micro_batch % cores == 0; }
  // Tokens of norms that stand alone: two cores share out a micro-batch, or else the tokens of a sequence
  // that a rank has, where their number is even; of others both compute all.
  int64_t norm_rows() const {
    const int64_t of_rank = normed_rows > 0 ? rows / part_of_rows() : 0;
    const bool is_even = micro_batch % 2 == 0 || of_rank / micro_batch % 2 == 0;
    return cores == 1 || is_even ? normed_rows : of_rank;
  }
  // Ranks of sequence parallelism.
  int64_t part_of_rows() const {
    return std::max<int64_t>(1, rows / std::max<int64_t>(1, normed_rows * cores));
  }
  // What ranks exchange is of all cores' rows.
  double cores_with_rows() const { return own_sequences ? 2 : 1; }
};

Share share_of(const Model& model, const BlockSizes& sizes);
// Columns of a weight of keys that a core keeps: ranks that have no whole share of its heads have all of
// them.
int64_t kept_key_columns(const Model& model, const BlockSizes& sizes);

// Latent attention, of one rank's or core's heads.
void set_latent(Piece& piece, const Model& model);
// Weights of a block's attention and MLP, [rows, columns], in the order of their gradients backward; those of
// a core.
struct WeightSize {
  int64_t rows = 0, columns = 0;
  bool cuts_columns = false;  // ZeRO cuts those, as TP cuts the rows
};
std::vector<WeightSize> attention_weights(const Model& model, const BlockSizes& sizes);

// FLOP, as the products' time has them.
double work_of(const Piece& piece);

// Of the layers, those whose attention sees a window of what came before, where that is less than all.
double windowed(const Model& model, int64_t keys);

Piece norms_of(const Model& model, Precision precision, int64_t rows);
Piece output_of(const Model& model, Precision precision, int64_t rows, int64_t parts);
void add_experts(std::vector<Counted>& pieces, const Model& model, Precision precision,
                 const BlockSizes& sizes);

// The same of a training step, cut where a rank meets those that have the other experts.
struct ExpertPieces {
  Piece route, experts, combine;
  std::vector<Piece> behind_route = {};  // of cores with halves of a rank's tokens, up to the exchange
  std::optional<Piece> shared = {};  // ... and experts that every token meets, of which each core has columns
};
// Without the experts that every token meets.
Piece without_shared(Piece piece);
ExpertPieces expert_pieces(const Model& model, Precision precision, const BlockSizes& sizes);
// ... of a rank that has all experts, one piece in place of them; nullopt of others.
std::optional<Piece> mixture_of(const Model& model, Precision precision, const BlockSizes& sizes);
// Whether each of them is compiled whole: of decoders whose experts are all chosen.
bool experts_are_whole(const Model& model, Precision precision, const BlockSizes& sizes);

// The ends of a model of two streams, and what is made of the time: its products, and those of a block's
// scales, shifts and gates, and of the last norm's.
struct StreamPieces {
  Piece start, velocity, modulation, last_modulation;
  std::vector<Piece> time;
};
StreamPieces stream_pieces(const Model& model, Precision precision, const BlockSizes& sizes);

// Of a decode step of latent attention.
std::vector<Counted> latent_decode(const Model& model, Precision precision, const BlockSizes& sizes,
                                   bool with_experts);

// From the norm before attention to its output layer: one piece, or two where cores that have rows meet for
// keys and values between them.
std::vector<Piece> attention_half(const Model& model, Precision precision, const BlockSizes& sizes);
Piece mlp_half(const Model& model, Precision precision, const BlockSizes& sizes);
Piece norm_of(const Model& model, Precision precision, const BlockSizes& sizes);
// Of norms that stand alone, the one behind a half's backward piece updates the weights of that half.
Piece norm_behind(const Model& model, Precision precision, const BlockSizes& sizes, bool mlp);
// Whether windows divide a sequence, of ranks that have all of it and cores that have heads.
bool has_whole_windows(const Model& model, const BlockSizes& sizes);
// Whether attention is compiled from its norm to its output layer.
bool is_whole(const Model& model, Precision precision, const BlockSizes& sizes);

// A training block, cut where its rank meets others; and all of its work in pieces that meet nobody.
std::vector<Counted> halves_of(const Model& model, Precision precision, const BlockSizes& sizes,
                               bool with_experts);
std::vector<Counted> pieces_of(const Model& model, Precision precision, const BlockSizes& sizes,
                               bool with_experts);

}  // namespace opentrn::planner::compiled
