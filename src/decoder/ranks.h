// One decoder on several cores that share every layer: tensor parallel, as Megatron (Shoeybi et al. 2019) and
// NxD Inference cut it.
//
// Each rank has its part of the heads with their keys and values, of the feed-forward features and of the
// vocabulary; the table of embeddings, norms and routers are whole on all. A step runs in parts, two for each
// layer: the ranks' terms of the sum behind each are rounded to the type of the weights, added up as the DMA
// engines of a collective do it (collectives/arithmetic.h), and every rank goes on with the sum. Their
// columns of the logits are put side by side. So a result differs from that of one core by how sums are
// rounded.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "arch/arch.h"
#include "decoder/config.h"
#include "decoder/program.h"
#include "runtime/model.h"
#include "sim/functional/buffer.h"

namespace opentrn::decoder {

// By rank, by the name of the weight.
using RankWeights = std::vector<std::map<std::string, std::shared_ptr<sim::Buffer>>>;

// Input fault decoder.ranks where so many ranks cannot share the model's heads: they divide the heads, and
// divide the heads of keys and values or are a multiple of them.
void expect_ranks(const Config& config, int64_t ranks);

// `weights`: those of weights(), in their order. Features and columns of the vocabulary that ranks do not
// divide end in zeros.
RankWeights cut_weights(const Config& config, graph::ElementType element,
                        const std::vector<std::shared_ptr<sim::Buffer>>& weights, int64_t ranks);

// Not for several threads at once.
class Ranks {
 public:
  // `config`: of the whole model.
  Ranks(const Config& config, const Pool& pool, graph::ElementType element, opentrn::Generation generation,
        std::shared_ptr<const RankWeights> weights);

  // `step`: "tokens", "positions", "slots", "context_slots" and, where has_last(), "last", of a bucket that
  // draws "sampling", and of an EAGLE head "features", as build() takes them. Logits [rows, vocabulary] or
  // features, fp32; of a bucket that chooses, tokens i32 and their logits; then those of Config::features.
  // `weights`: weights(), or others of the same model, cut alike.
  std::vector<std::shared_ptr<sim::Buffer>> run(const Bucket& bucket, const RankWeights& weights,
                                                std::map<std::string, std::shared_ptr<sim::Buffer>> step);

  const std::shared_ptr<const RankWeights>& weights() const { return weights_; }
  const Config& part() const { return part_; }
  // Of all ranks.
  int64_t pool_bytes() const;
  int64_t weight_bytes() const;

 private:
  struct Part {
    std::unique_ptr<runtime::Model> model;
    std::vector<PartInput> inputs;
  };
  using Outputs = std::vector<std::vector<std::shared_ptr<sim::Buffer>>>;  // by rank

  const Part& part(const Bucket& bucket, PartKind kind, int64_t layer);
  Outputs run_part(const Bucket& bucket, PartKind kind, int64_t layer, const RankWeights& all,
                   const std::map<std::string, std::shared_ptr<sim::Buffer>>& step);
  // Logits of every rank's part, or its likeliest tokens.
  Outputs outputs_of(const Bucket& bucket, const RankWeights& weights,
                     std::map<std::string, std::shared_ptr<sim::Buffer>> step);
  std::shared_ptr<sim::Buffer> sum_of(const Outputs& outputs) const;
  std::shared_ptr<sim::Buffer> joined(const Outputs& outputs) const;
  std::vector<std::shared_ptr<sim::Buffer>> likeliest_of(const Outputs& outputs) const;
  std::vector<std::shared_ptr<sim::Buffer>> with_features(std::vector<std::shared_ptr<sim::Buffer>> results,
                                                          const Outputs& outputs) const;
  std::vector<std::shared_ptr<sim::Buffer>> drawn_of(const Bucket& bucket, const Outputs& outputs,
                                                     std::shared_ptr<sim::Buffer> sampling);

  int64_t ranks() const { return static_cast<int64_t>(weights_->size()); }

  Config whole_, part_;
  Pool pool_;
  graph::ElementType element_;
  opentrn::Generation generation_;
  std::shared_ptr<const RankWeights> weights_;
  // By rank: keys and values of layer 0, of layer 1, ...
  std::vector<std::vector<std::shared_ptr<sim::Buffer>>> pools_;
  std::map<std::tuple<Bucket, PartKind, int64_t>, Part> parts_;
  std::map<std::pair<int64_t, Choice>, std::unique_ptr<runtime::Model>> draws_;  // by rows
};

}  // namespace opentrn::decoder
