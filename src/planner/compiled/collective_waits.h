// What a micro-batch waits for collectives, of activations, weights and gradients, as its program runs them.
//
// A compiled program gathers ZeRO-3's weights from its beginning, sums gradients as they are made, and goes
// on with what does not need a sum of activations while that is under way. Parts and collectives share the
// memory of the core, and collectives their stream. All are scheduled as those of a program are
// (spmd/schedule.h), with the pieces of a plan as parts.
//
// Assumed: where in a backward piece a gradient is made (in the order of the work). The bytes of collectives
// are those of a ring, which reads and writes what a rank passes on once each, and reads what it adds.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/communication.h"
#include "planner/compiled/piece_times.h"
#include "planner/job.h"
#include "planner/layer_times.h"
#include "planner/machine.h"

namespace opentrn::planner {
class Links;
}

namespace opentrn::planner::compiled {

// Seconds of collectives: of groups inside one instance on its links, as a program's are, of others by tiers.
class CollectiveTimes {
 public:
  CollectiveTimes();
  ~CollectiveTimes();

  // `bytes` as communication.h has them; of a reduce-scatter those before it.
  double seconds(const Machine& machine, collectives::Kind kind, Group group, double bytes);

 private:
  std::map<std::pair<std::string, int>, std::unique_ptr<Links>> links_;  // of an instance, by cores of a rank
};

struct WeightTensor {
  double bytes = 0;    // of a rank, whole
  double made_at = 1;  // its gradient, as a share of the backward piece's time
};

// Between two meetings of a rank with others: a half of a block. Norms stand alone where sequences are cut.
struct HalfPasses {
  PieceTime norm, norm_backward;
  PieceTime forward, backward;
  PieceTime first;  // forward, of a block that runs again: it keeps nothing
  PieceTime again;  // ... for the backward pass alone
  // Where the cores of a rank, or ranks of context parallelism, have rows of queries: what comes before they
  // meet for keys and values, which are so many bytes; backward it comes behind `backward`, which adds up
  // over queries.
  PieceTime before_keys, before_keys_backward;
  double key_bytes = 0;
  // ... with ranks that share sequences, of which a core has no whole one: the gradients that its cores add
  // up before ranks do.
  double head_bytes = 0;
  std::vector<WeightTensor> weights;
  bool mixes = false;  // experts, all of them of the rank
  // The gradient of its input, as a share of the backward piece's time, and behind a norm alone.
  double given_at = 1, normed_at = 1;
};

struct BothWays {
  PieceTime forward, backward;
};

// Experts in place of an MLP: tokens go to the ranks that have theirs, and come back.
struct ExpertPasses {
  BothWays route, experts, combine;
  double exchanged_bytes = 0;  // of a rank's places, each time
  int64_t ranks = 1;           // that share a set of experts, next to each other but for tensor parallelism
  double router_bytes = 0;
  // Weights of the experts that every token meets, on its own rank; and what they are of `route` forward and
  // of `combine` backward, behind what other ranks wait for.
  HalfPasses shared = {};
  double shared_forward = 0, shared_again = 0, shared_backward = 0;
  PieceTime route_again = {};  // forward for the backward pass alone
  // Of cores with halves of a rank's tokens, behind `route`: where tokens go, if halves are of each sequence;
  // and what is at all places.
  BothWays counts = {}, places = {};
  // ... and the experts that every token meets, of which cores have columns.
  BothWays shared_alone = {};
  PieceTime shared_again_alone = {};
};

// Of two streams: what is made of the time, of it all blocks' scales, shifts and gates, which ranks gather,
// and the last norm's.
struct StreamPasses {
  BothWays time, modulations, last;
  double time_bytes = 0, made_bytes = 0;
  PieceTime before_blocks() const {
    return time.forward + time.backward + modulations.forward + modulations.backward;
  }
};

struct MicroBatchPasses {
  PieceTime embedding, norm, logits, shares, logits_backward, norm_backward, embedding_backward;
  HalfPasses attention, mlp;
  std::optional<StreamPasses> streams;  // `logits_backward` is then the loss both ways
  double modulation_bytes = 0;          // of a block
  std::optional<ExpertPasses> experts;  // then `mlp` has their weights, and its norm where that stands alone
  HalfPasses dense_mlp;                 // of as many first blocks, which have no experts
  int dense = 0;
  int layers = 0;                                // of a stage, or of its chunk
  int64_t context = 1;                           // ranks that each have a part of the sequences
  int64_t stages = 1;                            // that share the ends
  double embedding_bytes = 0, output_bytes = 0;  // of a rank; output 0: it is the embedding
  double position_bytes = 0;                     // of a table of them
  double activation_bytes = 0;                   // of all tokens, as ranks of tensor parallelism add them up
  double token_bytes = 0;                        // of a number for each token that a loss has
  double class_bytes = 0;                        // of an image's first token, where the loss is its alone
  // Where cores of a rank add up one table's gradients otherwise than they look rows up: behind
  // `embedding_backward`.
  PieceTime table_sum;
  PieceTime optimizer;  // behind the backward pass, where there is one micro-batch; else nothing
  // Each core of a rank has sequences of its own: cores meet for gradients of weights alone.
  bool own_sequences = false;
  bool by_rows = false;  // the cores of a rank have rows in attention, and add up nothing behind it
  // ... or of what latent attention compresses, and heads behind it, whose queries may be made of tokens.
  bool compresses = false, reads_tokens = false;
  bool recompute = false;  // blocks run forward again in the backward pass
  bool updates = false;    // a backward piece updates the weights of the one before it
  bool sums = false;       // gradients are summed, and ZeRO-3's weights gathered, in each micro-batch
};

// By which a tick takes longer, forward and backward, and a loss, where stages share the ends; of the
// layout's schedule.
TickWaits tick_waits(const MicroBatchPasses& passes, const Machine& machine, const Layout& layout,
                     CollectiveTimes& times);

// By which the passes take longer.
CollectiveWaits collective_waits(const MicroBatchPasses& passes, const Machine& machine, const Layout& layout,
                                 CollectiveTimes& times);

}  // namespace opentrn::planner::compiled
