// The work of a transformer block between its collectives, as graphs that the compiler takes.
//
// A block is cut where a rank meets others: attention from the norm before it to its output layer, and the
// MLP from its norm to its second product. Where that is too large to be compiled whole, it is cut where work
// grows otherwise than by the row, too: norms and residuals, the products of the projections and the MLP, and
// attention's inside. Forward and backward passes are graphs of their own; a backward pass is written out as
// automatic differentiation writes it, and computes attention's weights again from queries and keys.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "graph/module.h"

namespace opentrn::planner::compiled {

enum class Part : uint8_t {
  kNorms,
  kProducts,
  kAttention,
  kOutput,
  kDecode,
  kEmbedding,
  kPatches,  // as kEmbedding, of images: `inner` numbers of each patch, and the class's token
  kOptimizer,
  kSum,             // of `heads` tensors
  kMlp,             // the MLP alone: an expert's, or behind latent attention
  kLinear,          // one product, `hidden` to `inner`
  kAttentionHalf,   // projections, rotary positions, attention and its output layer, with a norm where
                    // `normed`
  kBeforeKeys,      // ... of a core with a part of each sequence: up to where cores meet for keys and values
  kBehindKeys,      // ... and from there: attention of its queries, and the output layer
  kCompress,        // of latent attention's cores with halves of a rank's tokens: what queries, and keys with
                    // values, are made of, and norms of it; kAttentionHalf goes on where `compressed`
  kMlpHalf,         // the same of an MLP
  kNorm,            // one norm, and the residual before it
  kLogits,          // of a vocabulary that ranks share: logits, and the largest of the rank's
  kShares,          // ... what the loss sums over ranks
  kLogitsBackward,  // ... gradients of the table and of what was read
  kRoute,           // of a block with experts: the router, and tokens gathered for their experts
  kExperts,         // ... `experts` MLPs of as many rows each
  kCombine,         // ... what tokens get of them
  kMixture,         // ... all three, of a rank that has all experts
  // Of cores that each have half of a rank's tokens, kRoute ends with where tokens go; backward kCombine goes
  // on to the router's input, and kRoute has what comes back from places.
  kCounts,  // where cores have halves of each sequence: kRoute ends with what tokens meet, and this goes on
  kPlaces,  // the tokens at all places, for a core a part of each row
  // Of a loop that goes on in ticks: `heads` values of rows of `hidden`
  kFetch,     // read from where all ticks' lie; where `selects`, some devices have others
  kKeep,      // written there; where `adds`, the last of them is a block's sum
  kLoopTest,  // whether the loop goes on
  // Of two streams, patches and text, of which `text` tokens of a sequence of `keys` are the second; both
  // halves of a block begin with the gate of the half before.
  kJointAttention,
  kJointMlp,
  kJointNorm,   // the gate, and both norms, where they stand alone
  kJointStart,  // as kPatches; `key_values` numbers of a token of text
  kVelocity     // the last norm, the output layer of `inner` numbers, and the loss, both ways
};

// Weights that Adam updates beside the work of a piece, where their gradients are complete before: those of a
// core, and of ranks among which ZeRO cuts them a part. What is not there is 0.
struct Updated {
  int64_t ranks = 0;  // of ZeRO
  // An MLP's, or of so many experts; and of those that every token meets.
  int64_t inner = 0, experts = 0, shared = 0;
  bool gated = false;
  // Attention's: columns of its projections. Of latent attention as in Piece, with the rows of its output
  // layer; `compressed`: of weights that both cores of a rank have whole, a half of each. `halves`: of what
  // projections read a half, and all of their columns, of which `queries` and `key_values` are half.
  int64_t queries = 0, key_values = 0;
  int64_t query_rank = 0, kv_rank = 0, rope = 0, values = 0;
  bool compressed = false, halves = false;
  int64_t vocabulary = 0;  // of an output layer

  bool any() const { return inner > 0 || queries > 0 || vocabulary > 0; }
  auto operator<=>(const Updated&) const = default;
};

// One program. Sizes that a part does not have are 0.
struct Piece {
  Part part = Part::kNorms;
  bool backward = false;  // of kOutput: with the forward pass, the loss between them
  // kEmbedding: rows of `inner` that are read, or added to; kOptimizer: an update of rows * hidden
  // parameters, `heads` times.
  int64_t rows = 0;      // tokens; of kAttention: queries of a head, of kDecode: sequences
  int64_t keys = 0;      // attention, kDecode: positions that a query meets, its own included
  int64_t heads = 0;     // kAttention: heads of all sequences of the micro-batch; else of a rank
  int64_t kv_heads = 0;  // kDecode, kAttentionHalf: of a rank
  int64_t features = 0;  // of a head; kProducts: 0 where positions are not rotary
  // kAttention: of a head's values; 0: `features`. kEmbedding: rows of learned positions; 0: none
  int64_t values = 0;
  int64_t hidden = 0;      // width of a token
  int64_t queries = 0;     // kProducts: columns of the projection to queries
  int64_t key_values = 0;  // kProducts: columns of that to keys, and of that to values
  int64_t experts = 0;     // kRoute, kCombine: of the model; kExperts: of a rank
  int64_t chosen = 0;      // kRoute, kCombine: experts that a token meets
  int64_t chunks = 0;      // above 1: a block's weights, and their sums, are parts of those of so many chunks
  int64_t capacity = 0;    // kRoute, kCombine: tokens of a sequence of `keys` that an expert takes
  // kBeforeKeys, kBehindKeys: ranks that each have a part of a sequence; 0: cores of one, with halves. Of
  // experts' with `halves`: cores that do
  int64_t context = 0;
  // kAttentionHalf: queries that meet a head of keys, where ranks do not have all of them; kRoute, kCombine:
  // width of the experts that every token meets, which work in kRoute forward and in kCombine backward
  int64_t shared = 0;
  int64_t text = 0;    // of two streams: see Part
  int64_t window = 0;  // kAttentionHalf: of keys that a query meets, where it is less than all
  // Latent attention's, of kAttentionHalf and its two parts, and of those that update its weights: widths of
  // what queries (0: none), and keys with values, are made of; and features of a head that have positions.
  int64_t query_rank = 0, kv_rank = 0, rope = 0;
  int64_t inner = 0;   // kProducts, kMlp: the MLP's inner width, 0: none; kOutput: the vocabulary of a rank
  bool gated = false;  // two products into the MLP, and SiLU; else one, and GELU
  bool root_mean_square = false;  // norms without a mean
  bool biased = false;  // halves, experts and norms: a bias behind each product, and each norm with a mean
  bool causal = false;
  bool wide = false;    // float32, not bfloat16
  bool rotary = false;  // kAttentionHalf: positions
  bool normed = false;  // of halves: with the norm before it; the backward pass with the norm's
  // Of a backward pass: a half updates the other one's weights; kNorm, where it is a piece of its own, those
  // of the half before it.
  Updated updated = {};
  // kLogits, kLogitsBackward: the table's rows are the vocabulary's, as of embeddings; kEmbedding, backward:
  // it is the output layer too, whose gradient is added.
  bool turned = false;
  // Of experts': `rows` are half of a rank's. Of attention's: so too, and gradients of weights are of all, a
  // half of each weight's.
  bool halves = false;
  bool compressed = false;  // kAttentionHalf: kCompress came before it
  bool adds = false;        // a backward pass adds its weights' gradients to those of micro-batches before
  // kEmbedding, kFetch: see there; halves of attention's rows: taken out of those of all of a rank's cores.
  bool selects = false;
  bool lean = false;  // of halves, a forward pass of a block that runs again: gives what comes of it alone
  // kMlpHalf: a forward pass for the backward pass, which does not read what it gives; or both of them.
  // kRoute: the first, of the experts of `shared`. kAttentionHalf, backward: beside it, attention of a block
  // below runs forward again.
  bool again = false;

  bool paired = false;  // twice side by side, of two runs that know nothing of each other

  auto operator<=>(const Piece&) const = default;
};

// The words of a cache's key: every field that is not 0.
std::string to_string(const Piece& piece);

graph::Module graph_of(const Piece& piece);
graph::Module graph_of_experts(const Piece& piece);  // of their parts
graph::Module graph_of_ends(const Piece& piece);
graph::Module graph_of_ticks(const Piece& piece);
graph::Module graph_of_streams(const Piece& piece);

}  // namespace opentrn::planner::compiled
