// Times of a layout's layers from somewhere else than curves.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/layer_cost.h"

namespace opentrn::planner {

// What a micro-batch's passes wait for collectives that go on beside them as they can, in seconds.
struct CollectiveWaits {
  double activations_s = 0;         // of tensor parallelism, of experts and of keys
  double experts_s = 0;             // of that, what there is with experts' exchanges alone
  double context_s = 0;             // ... and with keys and values of the other ranks of a sequence
  std::optional<double> weights_s;  // of weights and gradients beside those; nullopt: they are not there
};

// Of a pipeline whose stages go through a step in ticks: what is waited for on a tick, forward and backward,
// and for a micro-batch's loss, which all stages share. Of 1F1B the loss is on a tick of its own, and has by
// what that takes longer, with what is looked up for a tick to come.
struct TickWaits {
  double tick_s = 0;     // with the next
  double experts_s = 0;  // of that, what there is with experts' exchanges alone
  double context_s = 0;  // ... with keys and values of the other ranks of a sequence
  double sends_s = 0;    // ... and with sends between stages
  double loss_s = 0;
  double ends_s = 0;  // of 1F1B, on a tick without a loss that has what is looked up, with that
  double once_s = 0;  // in a step: for a table that is both ends
};

// Of one micro-batch on one rank, in seconds: what block_s() and output_s() say otherwise.
struct LayerTimes {
  BlockTime block;                        // of a dense block
  std::optional<BlockTime> expert_block;  // of one with experts, their exchange apart
  std::optional<BlockTime> both_block;    // ... and an MLP beside them (places_with_both)
  double output_s = 0;                    // the output layer and the loss, both ways
  std::optional<double> embedding_s;      // both ways
  std::optional<double> optimizer_s_of_parameter;
  double optimizer_s_of_tensor = 0;  // beside that, for every tensor of weights
  bool update_blocks = false;  // the backward passes of blocks update weights: the optimizer has the ends
  std::optional<CollectiveWaits> waits;  // nullopt: not known
  std::optional<TickWaits> ticks;        // the same of a pipeline in ticks
  double tick_s = 0;                     // of it: what a tick takes beside its blocks, both ways
  bool add_gradients = false;  // the backward passes add theirs to those of the micro-batches before
  // The same where the cores of a rank share its work out otherwise: what takes least is what a program does
  // (decision 0313).
  std::vector<std::shared_ptr<const LayerTimes>> other_ways = {};
};

// A step of a server on one rank: `tokens` new ones of each sequence, `context` positions that the last of
// them meets, its own included. tokens == 1: a step of decode.
struct ServeStep {
  int64_t sequences = 1, tokens = 1, context = 1;
};

// Seconds of it, collectives apart.
struct ServeTimes {
  double block_s = 0;
  double output_s = 0;  // logits of each sequence's last token
};

// A source of them beside the curves. The planner stands below the compiler, so this is where its times come
// in (planner/compiled). Where it has none, `why` says so in words that end a sentence.
class LayerSource {
 public:
  virtual ~LayerSource() = default;
  virtual std::string_view name() const = 0;  // "compiled"; for good
  // What layers() of all of these needs, made by several threads where that takes long; what it cannot make
  // is left to layers(), which says why.
  virtual void prepare(const Job&, const Machine&, const std::vector<Layout>&) {}
  virtual std::optional<LayerTimes> layers(const Job& job, const Machine& machine, const Layout& layout,
                                           std::string& why) = 0;
  virtual std::optional<ServeTimes> serve(const Model& model, Precision precision, const Machine& machine,
                                          int tp, const ServeStep& step, std::string& why) = 0;
};

}  // namespace opentrn::planner
