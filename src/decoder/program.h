// The graph of one step of a decoder: so many sequences, so many new tokens of each, so much context.
//
// A prefill and a decode step are the same graph with other sizes. Keys and values lie in blocks of a pool,
// which a table of blocks names for each sequence; new ones are written to their slots first, and attention
// then reads the slots of each sequence's context in the order of positions, so that a token's result does
// not depend on where its sequence lies. The pools are arguments that the step updates in place
// (compiler::Options::donate_inputs).
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "decoder/choice.h"
#include "decoder/config.h"
#include "graph/module.h"

namespace opentrn::decoder {

// What a program is compiled for.
struct Bucket {
  int64_t sequences = 1;
  int64_t tokens = 1;             // new ones of each sequence
  int64_t context = 0;            // positions that a table of blocks reaches; a multiple of the block
  bool every_token = false;       // logits of all new tokens, in place of each sequence's last one
  Choice choice = Choice::kHost;  // of others: tokens, in place of logits

  auto operator<=>(const Bucket&) const = default;
  int64_t rows() const { return sequences * tokens; }
  bool chooses() const { return choice != Choice::kHost; }
  bool draws() const { return choice >= Choice::kDrawn; }
  int64_t results() const { return every_token ? rows() : sequences; }  // rows of logits, or tokens
  std::string text() const;  // "decode 8 x 256", "prefill 1 x 64 / 256"
};

struct Pool {
  int64_t block_tokens = 32;  // positions of a block
  int64_t blocks = 0;         // of the pool; block 0 belongs to no sequence
  int64_t slots() const { return block_tokens * blocks; }
};

// How servers other than ours compute a step; for its time.
struct StepOptions {
  // softmax(Q K^T) V of several tokens in the form that the compiler makes one kernel of. Without it scores
  // are computed, masked and read as they stand.
  bool fuse_attention = true;
  // Above 1: sequence parallelism among so many, as one rank computes it: norms and sums are of its part of
  // the rows. What ranks exchange are arguments behind the pools ([rows, hidden] in front of each attention
  // and feed-forward layer) and results behind them. An input fault "decoder.ranks" for models of experts,
  // and for fewer rows than ranks.
  int64_t sequence_ranks = 1;
  // Above 1: so many cores share the heads of the model's part, and the step's tokens are one core's. The
  // rows of the others are arguments in front of feed-forward layers, whose terms of all rows are results.
  // Not of models of experts.
  int64_t cores_per_head = 1;
  // Above 0: so many words have the ranks together, each a part. A bucket that draws reads the logits of all
  // from an argument behind the others, [results, vocabulary], and gives those of its part as the last
  // result.
  int64_t vocabulary = 0;
};

// Faults for what StepOptions says is none.
void check(const StepOptions& options, const Config& config, const Bucket& bucket);

// An argument of the step besides the numbers of tokens.
struct Weight {
  std::string name;  // "embedding", "layers.3.qkv"
  graph::Type type;
  // Of a matrix that products read: how many lie below each other, and how many rows each has, which are not
  // its type's where it is microscaled (narrow.h).
  int64_t groups = 1, rows = 0;
  std::vector<int64_t> tensors = {};  // columns of the checkpoint's matrices that lie side by side in it
};

// Config::query_growth, of each position.
inline const std::string kQueryGrowth = "query_growth";
// An EAGLE-3 head's fc, in its model (Config::feature_layers).
inline const std::string kFeatureWeight = "features_fc";

// Arguments of the graph, in order: tokens, positions and slots [rows] i32, context slots [sequences *
// context] i32, last [sequences] i32 (the row of each sequence's last token; not with every_token or one
// token each), sampling [sequences or rows, kSamplingColumns] f32 of one that draws, features [rows, hidden]
// of an EAGLE head; weights(); then keys and values of layer 0, of layer 1, ... as [slots, kv_features].
// Results: logits [sequences or rows, vocabulary] f32, or of a pooled model features [sequences, hidden] f32,
// or of one that chooses tokens [sequences or rows] i32; then the pools; then, of one that chooses, the
// largest logits, f32; then the features of Config::features.
//
// A slot outside the pool is not written. `element`: of weights, keys and values, and of what products read.
graph::Module build(const Config& config, const Bucket& bucket, const Pool& pool, graph::ElementType element,
                    const StepOptions& options = {});

// What ranks that share a model compute between two of their sums, each with its part of the weights.
enum class PartKind : uint8_t {
  kAttention,    // of layer 0: tokens -> x, term, keys, values; of others: x, sum -> the same
  kFeedForward,  // x, sum -> x, term
  // x, sum -> logits of the rank's part of the vocabulary; of a bucket that chooses, its token (counted from
  // the part's first) and the logit of that; of a pooled model features
  kLogits,
};
struct PartInput {
  // kColumns: [1] i32, how many columns of the rank's part of the vocabulary are of the vocabulary.
  enum class Kind : uint8_t { kStep, kWeight, kLayerWeight, kPool, kColumns };
  Kind kind;
  std::string name;      // "tokens", ..., "x", "sum"; of a weight of a layer without the layer: "qkv"
  int64_t in_front = 0;  // of a layer's weight: how many layers in front of the part's own it is
};
struct PartGraph {
  graph::Module module;
  std::vector<PartInput> inputs;  // in order; the last results of attention take the place of its pools
};
// x [rows, hidden] f32 is the same on all ranks. A term [rows, hidden] is what a rank's attention or
// feed-forward layer adds to it, in `element`, in which the ranks exchange and add up terms: `sum`. All
// layers of one kind have the same graph, but layer 0, those with a window, with turns or with experts and
// those without; logits follow the last layer. With Config::features these are the last result of that part,
// which then reads "entering3" and the like, x in front of each of Config::feature_layers but the end.
// `config`: part_of() `whole` for as many ranks, each of which has the table of embeddings whole.
PartGraph build_part(const Config& config, const Bucket& bucket, const Pool& pool, graph::ElementType element,
                     PartKind kind, int64_t layer, const Config& whole);

std::vector<Weight> weights(const Config& config, graph::ElementType element);
bool has_last(const Bucket& bucket);
// Whether a program gathers the weights of the experts that its rows take (NxD's selective loading), in place
// of reading all: with one token each, where that moves fewer bytes.
bool experts_taken_are_read(const Config& config, const Bucket& bucket);

}  // namespace opentrn::decoder
