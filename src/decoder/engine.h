// A decoder with its weights and its pool of keys and values, which takes steps: what a scheduler drives.
//
// The caller owns the blocks: it says with every step which ones a sequence has. The engine chooses the
// program, compiles it when it is first needed, and holds nothing of a sequence but what lies in its blocks.
// Not for several threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.h"
#include "decoder/config.h"
#include "decoder/exchange.h"
#include "decoder/program.h"
#include "decoder/ranks.h"
#include "runtime/model.h"
#include "sim/functional/buffer.h"

namespace opentrn::decoder {

struct EngineOptions {
  Generation generation = Generation::kV3;
  graph::ElementType element = graph::ElementType::kBF16;  // bf16, f16 or f32
  Pool pool;
  // Sizes that programs are made for, ascending; the smallest that holds a step is taken.
  std::vector<int64_t> sequence_buckets, token_buckets, context_buckets;
  int64_t ranks = 1;       // physical cores that share the model (ranks.h)
  int cores_per_rank = 1;  // of them: of a logical core, for what they exchange (exchange.h)
  std::string instance;    // of several, for the same
};

// New tokens of one sequence.
struct SequenceStep {
  std::span<const int32_t> tokens;
  int32_t position = 0;             // of the first of them: how many came before
  std::span<const int32_t> blocks;  // of the pool, in order; they reach the last new token
  // Of an EAGLE head: what the model, or the head, gave of each new token's predecessor, as
  // StepResult::features.
  std::span<const std::byte> features = {};
  // Of a step that draws: for each token that is drawn, which is one, or one behind each new token.
  std::span<const SamplingRow> sampling = {};
};

struct StepResult {
  Bucket bucket;
  // [rows, Config::result_features()] fp32, valid until the next step. A row for each sequence, or for each
  // of its tokens; with fewer tokens than the bucket has, sequence i begins at row i * rows_per_sequence.
  std::span<const float> logits;
  int64_t rows_per_sequence = 1;
  // Of a step that chooses, in place of logits: a token for each row, and its largest logit. Where a logit is
  // not finite a token may be none of the vocabulary.
  std::span<const int32_t> tokens;
  std::span<const float> largest_logits;
  // With Config::features, in the engine's element: of a model [sequences * tokens of the bucket, hidden], of
  // an EAGLE head a row for each sequence.
  std::span<const std::byte> features;
};

// What a step gives, and by which weights.
struct StepWish {
  bool every_token = false;       // logits behind all new tokens, in place of each sequence's last one
  int64_t adapter = 0;            // 0, or a number of Engine::add_adapter()
  Choice choice = Choice::kHost;  // of others: tokens, chosen on the device, in place of logits
};

// The program of a step: weights and pools are its inputs, and it updates the pools in place.
std::unique_ptr<runtime::Model> compiled_step(const Config& config, const Bucket& bucket, const Pool& pool,
                                              graph::ElementType element, Generation generation,
                                              const StepOptions& of = {});

class Engine {
 public:
  // `weights`: load_weights() of the same configuration and element. Input fault decoder.buckets for buckets
  // that are none, or reach beyond the model's context or the pool; decoder.ranks for ranks that cannot share
  // the model, or have no instance of this generation.
  Engine(Config config, EngineOptions options, std::vector<std::shared_ptr<sim::Buffer>> weights);

  // One over the same weights that gives the features of a sequence's last token in place of logits
  // (Config::pooled), for one sequence at a time, with a pool of its own.
  std::unique_ptr<Engine> pooled() const;

  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Config& config() const { return config_; }
  const EngineOptions& options() const { return options_; }
  int64_t pool_bytes() const;
  int64_t weight_bytes() const;
  // One of weights(), of one rank. An internal fault for another name.
  const std::shared_ptr<sim::Buffer>& weight(std::string_view name) const;
  int64_t feature_bytes() const;  // of one token

  // Other weights of the same model, which steps may name; the same programs run with them. Weights of equal
  // bytes are kept once. Returns their number, from 1 on.
  int64_t add_adapter(std::vector<std::shared_ptr<sim::Buffer>> weights);
  // How many sets of weights there are, the model's own included.
  int64_t adapters() const { return 1 + static_cast<int64_t>(others_.size() + others_of_ranks_.size()); }

  // Writes the keys and values of the new tokens into their blocks, and gives logits. Sequences of one step
  // have different blocks, but for full ones that are only read. Input faults: decoder.step.
  StepResult step(std::span<const SequenceStep> sequences, const StepWish& wish = {});
  // The program that step() takes.
  Bucket bucket_of(int64_t sequences, int64_t tokens, int64_t context, bool every_token = false,
                   Choice choice = Choice::kHost) const;
  // Compiled when it is first asked for. Of several ranks: one rank's whole step without what it exchanges,
  // for its time; step() runs it in parts.
  const runtime::Model& program(const Bucket& bucket);
  // Microseconds that several ranks take to exchange in a step, and its results to the host (exchange.h).
  double exchange_us(const Bucket& bucket) const;
  double results_us(const Bucket& bucket) const;
  // That run a step on one HBM stack, beside each other.
  int cores_on_stack() const { return decoder::cores_on_stack(options_.generation, options_.ranks); }
  bool has_program(const Bucket& bucket) const { return programs_.contains(bucket); }

 private:
  Engine(Config config, EngineOptions options, std::shared_ptr<const RankWeights> weights);

  void check_options() const;
  void check(std::span<const SequenceStep> sequences) const;
  // Its results without the pools.
  std::vector<std::shared_ptr<sim::Buffer>> run(const Bucket& bucket, int64_t adapter);
  void fill_inputs(const Bucket& bucket, std::span<const SequenceStep> sequences);
  void keep_for_a_head();

  Config config_;
  EngineOptions options_;
  std::vector<std::shared_ptr<sim::Buffer>> weights_, pools_;
  std::vector<std::vector<std::shared_ptr<sim::Buffer>>> others_;  // weights with adapters
  std::vector<RankWeights> others_of_ranks_;                       // the same, of several ranks
  std::unique_ptr<Ranks> ranks_;                                   // of several: has the weights and pools
  // Of several ranks, whole: the weights that an EAGLE head may have from its model.
  std::map<std::string, std::shared_ptr<sim::Buffer>, std::less<>> of_a_head_;
  std::map<Bucket, std::unique_ptr<runtime::Model>> programs_;
  std::vector<int32_t> tokens_, positions_, slots_, context_slots_, last_;
  std::vector<SamplingRow> sampling_;
  std::vector<std::byte> features_;
  std::vector<std::shared_ptr<sim::Buffer>> results_;
};

}  // namespace opentrn::decoder
