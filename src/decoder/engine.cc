#include "decoder/engine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/interrupt.h"
#include "compiler/compile.h"
#include "decoder/exchange.h"
#include "model/runtime_model.h"

namespace opentrn::decoder {

namespace {

[[noreturn]] void refuse_step(std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kInput, "decoder.step", std::move(message), std::move(hint));
}

void expect_buckets(std::string_view what, const std::vector<int64_t>& sizes, int64_t most) {
  if (sizes.empty() || sizes.front() < 1 || !std::ranges::is_sorted(sizes, std::less_equal{}) ||
      std::ranges::adjacent_find(sizes) != sizes.end())
    throw Fault(FaultKind::kInput, "decoder.buckets", fmt::format("buckets of {} are not ascending", what));
  if (sizes.back() > most)
    throw Fault(FaultKind::kInput, "decoder.buckets",
                fmt::format("a bucket of {} {}; there are {} at most", sizes.back(), what, most));
}

int64_t smallest(const std::vector<int64_t>& sizes, int64_t needed, std::string_view what) {
  const auto found = std::ranges::lower_bound(sizes, needed);
  if (found == sizes.end())
    refuse_step(fmt::format("{} {} in a step; the largest bucket has {}", needed, what, sizes.back()));
  return *found;
}

template <typename T>
std::shared_ptr<sim::Buffer> read_only(const std::vector<T>& values) {
  return sim::Buffer::wrap_read_only(values.data(), static_cast<int64_t>(values.size() * sizeof(T)));
}

}  // namespace

std::unique_ptr<runtime::Model> compiled_step(const Config& config, const Bucket& bucket, const Pool& pool,
                                              graph::ElementType element, Generation generation,
                                              const StepOptions& of) {
  compiler::Options options;
  options.generation = generation;
  options.donate_inputs = true;
  const graph::Module module = build(config, bucket, pool, element, of);
  auto model =
      std::make_unique<runtime::Model>(model::model_of(compiler::compile(module, options), generation));
  const auto pools = static_cast<size_t>(2 * config.layers);
  // Arguments in front of attention and feed-forward layers (StepOptions).
  const size_t exchanged = of.sequence_ranks > 1   ? pools
                           : of.cores_per_head > 1 ? pools / 2
                                                   : 0,
               gathered = bucket.draws() && of.vocabulary > 0 ? 1 : 0,
               first = model->inputs.size() - gathered - exchanged - pools;
  for (size_t i = 0; i < pools; ++i) {
    const runtime::Port& port = model->inputs[first + i];
    OPENTRN_CHECK(model->outputs[i + 1].tensor == port.tensor, "{} is copied by {}", port.name,
                  bucket.text());
  }
  return model;
}

Engine::Engine(Config config, EngineOptions options, std::vector<std::shared_ptr<sim::Buffer>> weights)
    : config_(std::move(config)), options_(std::move(options)), weights_(std::move(weights)) {
  check_options();
  if (options_.ranks > 1) {
    auto cut =
        std::make_shared<const RankWeights>(cut_weights(config_, options_.element, weights_, options_.ranks));
    keep_for_a_head();
    weights_.clear();
    ranks_ = std::make_unique<Ranks>(config_, options_.pool, options_.element, options_.generation,
                                     std::move(cut));
    return;
  }
  const auto stated = decoder::weights(config_, options_.element);
  OPENTRN_CHECK(stated.size() == weights_.size(), "{} weights for {}", weights_.size(), stated.size());
  const int64_t of_feature =
      options_.pool.slots() * graph::storage_bytes(config_.kv_element(options_.element));
  for (int64_t i = 0; i < 2 * config_.layers; ++i) {
    const int64_t bytes =
        of_feature * (i % 2 == 0 ? config_.key_pool_features() : config_.value_pool_features());
    auto buffer = sim::Buffer::allocate(bytes);
    std::memset(buffer->data(), 0, static_cast<size_t>(bytes));
    buffer->mark_all_initialised();
    pools_.push_back(std::move(buffer));
  }
}

Engine::Engine(Config config, EngineOptions options, std::shared_ptr<const RankWeights> weights)
    : config_(std::move(config)), options_(std::move(options)) {
  check_options();
  ranks_ = std::make_unique<Ranks>(config_, options_.pool, options_.element, options_.generation,
                                   std::move(weights));
}

void Engine::check_options() const {
  const Pool& pool = options_.pool;
  if (pool.block_tokens < 1 || pool.blocks < 2 || pool.slots() > INT32_MAX)
    throw Fault(FaultKind::kInput, "decoder.buckets",
                fmt::format("a pool of {} blocks of {} positions", pool.blocks, pool.block_tokens));
  expect_buckets("sequences", options_.sequence_buckets, pool.blocks - 1);
  expect_buckets("tokens", options_.token_buckets, config_.context);
  expect_buckets("positions", options_.context_buckets, config_.context);
  for (const int64_t context : options_.context_buckets)
    if (context % pool.block_tokens != 0)
      throw Fault(FaultKind::kInput, "decoder.buckets",
                  fmt::format("a bucket of {} positions is not a multiple of a block's {}", context,
                              pool.block_tokens));
  expect_ranks(config_, options_.ranks);
  if (options_.ranks > 1) exchange_us({1, 1, options_.context_buckets.back()});
}

double Engine::exchange_us(const Bucket& bucket) const {
  return decoder::exchange_us({config_.layers, config_.hidden, config_.head_words()}, bucket,
                              options_.element, {options_.ranks, options_.cores_per_rank, options_.instance},
                              options_.generation);
}

double Engine::results_us(const Bucket& bucket) const {
  return decoder::results_us(bucket, config_.result_features());
}

std::unique_ptr<Engine> Engine::pooled() const {
  Config config = config_;
  config.pooled = true;
  config.features = false;
  EngineOptions options = options_;
  options.sequence_buckets = {1};
  const int64_t longest = options.context_buckets.back();
  options.pool.blocks = longest / options.pool.block_tokens + 1;
  if (ranks_)
    return std::unique_ptr<Engine>(new Engine(std::move(config), std::move(options), ranks_->weights()));
  auto weights = weights_;
  weights.resize(decoder::weights(config, options.element).size());  // the head is the last one
  return std::make_unique<Engine>(std::move(config), std::move(options), std::move(weights));
}

int64_t Engine::pool_bytes() const {
  if (ranks_) return ranks_->pool_bytes();
  int64_t bytes = 0;
  for (const auto& pool : pools_) bytes += pool->bytes();
  return bytes;
}

int64_t Engine::weight_bytes() const {
  if (ranks_) return ranks_->weight_bytes();
  int64_t bytes = 0;
  for (const auto& weight : weights_) bytes += weight->bytes();
  return bytes;
}

// What an EAGLE head reads of its model, before ranks have parts of it.
void Engine::keep_for_a_head() {
  if (!config_.features || config_.eagle) return;
  const auto stated = decoder::weights(config_, options_.element);
  for (size_t i = 0; i < stated.size(); ++i)
    for (const std::string_view name :
         {std::string_view("embedding"), std::string_view("head"), std::string_view(kFeatureWeight)})
      if (stated[i].name == name) of_a_head_.emplace(name, weights_[i]);
}

const std::shared_ptr<sim::Buffer>& Engine::weight(std::string_view name) const {
  if (const auto kept = of_a_head_.find(name); kept != of_a_head_.end()) return kept->second;
  const auto stated = decoder::weights(config_, options_.element);
  const auto at = std::ranges::find(stated, name, &Weight::name);
  OPENTRN_CHECK(!ranks_ && at != stated.end(), "no weight {}", name);
  return weights_[static_cast<size_t>(at - stated.begin())];
}

int64_t Engine::feature_bytes() const { return config_.hidden * graph::storage_bytes(options_.element); }

Bucket Engine::bucket_of(int64_t sequences, int64_t tokens, int64_t context, bool every_token,
                         Choice choice) const {
  Bucket bucket;
  bucket.sequences = smallest(options_.sequence_buckets, sequences, "sequences");
  bucket.tokens = tokens == 1 && !every_token ? 1 : smallest(options_.token_buckets, tokens, "tokens");
  bucket.context = smallest(options_.context_buckets, std::max(context, bucket.tokens), "positions");
  bucket.every_token = every_token;
  bucket.choice = choice;
  return bucket;
}

const runtime::Model& Engine::program(const Bucket& bucket) {
  auto& made = programs_[bucket];
  if (!made) {
    const Config config = options_.ranks > 1 ? part_of(config_, options_.ranks) : config_;
    made = compiled_step(config, bucket, options_.pool, options_.element, options_.generation,
                         {.vocabulary = options_.ranks > 1 ? config_.head_words() : 0});
  }
  return *made;
}

void Engine::check(std::span<const SequenceStep> sequences) const {
  if (sequences.empty()) refuse_step("a step without sequences");
  for (const SequenceStep& sequence : sequences) {
    if (sequence.tokens.empty() || sequence.position < 0) refuse_step("a sequence without new tokens");
    const auto end = static_cast<int64_t>(sequence.position) + static_cast<int64_t>(sequence.tokens.size());
    if (end > static_cast<int64_t>(sequence.blocks.size()) * options_.pool.block_tokens)
      refuse_step(fmt::format("{} positions do not fit {} blocks of {}", end, sequence.blocks.size(),
                              options_.pool.block_tokens));
    if (const auto bytes = static_cast<int64_t>(sequence.tokens.size()) * feature_bytes();
        static_cast<int64_t>(sequence.features.size()) != (config_.eagle ? bytes : 0))
      refuse_step(
          fmt::format("{} bytes of features of {} tokens", sequence.features.size(), sequence.tokens.size()));
    for (const int32_t block : sequence.blocks)
      if (block < 1 || block >= options_.pool.blocks)
        refuse_step(fmt::format("block {}; those of the pool are 1 to {}", block, options_.pool.blocks - 1));
    for (const int32_t token : sequence.tokens)
      if (token < 0 || token >= config_.vocabulary)
        refuse_step(fmt::format("token {}; the vocabulary has {}", token, config_.vocabulary));
  }
}

void Engine::fill_inputs(const Bucket& bucket, std::span<const SequenceStep> sequences) {
  const auto rows = static_cast<size_t>(bucket.rows());
  const int64_t block = options_.pool.block_tokens;
  tokens_.assign(rows, 0);
  positions_.assign(rows, 0);
  slots_.assign(rows, -1);  // not written
  context_slots_.assign(static_cast<size_t>(bucket.sequences * bucket.context), 0);
  last_.assign(static_cast<size_t>(bucket.sequences), 0);
  if (bucket.draws()) sampling_.assign(static_cast<size_t>(bucket.results()), {});
  const auto feature_bytes = static_cast<size_t>(this->feature_bytes());
  if (config_.eagle) features_.assign(rows * feature_bytes, {});
  for (size_t s = 0; s < sequences.size(); ++s) {
    const SequenceStep& sequence = sequences[s];
    const size_t row = s * static_cast<size_t>(bucket.tokens);
    for (size_t i = 0; i < sequence.tokens.size(); ++i) {
      const int64_t position = sequence.position + static_cast<int64_t>(i);
      tokens_[row + i] = sequence.tokens[i];
      positions_[row + i] = static_cast<int32_t>(position);
      slots_[row + i] = static_cast<int32_t>(sequence.blocks[static_cast<size_t>(position / block)] * block +
                                             position % block);
    }
    std::ranges::copy(sequence.features,
                      features_.begin() + static_cast<int64_t>(config_.eagle ? row * feature_bytes : 0));
    last_[s] = static_cast<int32_t>(row + sequence.tokens.size() - 1);
    if (bucket.draws())
      std::ranges::copy(sequence.sampling,
                        sampling_.begin() + static_cast<int64_t>(bucket.every_token ? row : s));
    const auto reached = std::min(static_cast<int64_t>(sequence.blocks.size()) * block, bucket.context);
    for (int64_t i = 0; i < reached; ++i)
      context_slots_[s * static_cast<size_t>(bucket.context) + static_cast<size_t>(i)] =
          static_cast<int32_t>(sequence.blocks[static_cast<size_t>(i / block)] * block + i % block);
  }
}

int64_t Engine::add_adapter(std::vector<std::shared_ptr<sim::Buffer>> weights) {
  const auto keep_once = [](const std::shared_ptr<sim::Buffer>& own, std::shared_ptr<sim::Buffer>& other) {
    if (own->bytes() == other->bytes() &&
        std::memcmp(own->data(), other->data(), static_cast<size_t>(own->bytes())) == 0)
      other = own;
  };
  if (ranks_) {
    RankWeights cut = cut_weights(config_, options_.element, weights, options_.ranks);
    for (size_t rank = 0; rank < cut.size(); ++rank)
      for (auto& [name, weight] : cut[rank]) keep_once((*ranks_->weights())[rank].at(name), weight);
    others_of_ranks_.push_back(std::move(cut));
    return static_cast<int64_t>(others_of_ranks_.size());
  }
  OPENTRN_CHECK(weights.size() == weights_.size(), "{} weights for {}", weights.size(), weights_.size());
  for (size_t i = 0; i < weights.size(); ++i) keep_once(weights_[i], weights[i]);
  others_.push_back(std::move(weights));
  return static_cast<int64_t>(others_.size());
}

std::vector<std::shared_ptr<sim::Buffer>> Engine::run(const Bucket& bucket, int64_t adapter) {
  const auto features = [&] {
    return sim::Buffer::wrap_read_only(features_.data(), static_cast<int64_t>(features_.size()));
  };
  if (ranks_) {
    std::map<std::string, std::shared_ptr<sim::Buffer>> step{
        {"tokens", read_only(tokens_)}, {"positions", read_only(positions_)},
        {"slots", read_only(slots_)},   {"context_slots", read_only(context_slots_)},
        {"last", read_only(last_)},     {"sampling", read_only(sampling_)}};
    if (config_.eagle) step.emplace("features", features());
    return ranks_->run(bucket,
                       adapter == 0 ? *ranks_->weights() : others_of_ranks_[static_cast<size_t>(adapter - 1)],
                       std::move(step));
  }
  std::vector<std::shared_ptr<sim::Buffer>> inputs{read_only(tokens_), read_only(positions_),
                                                   read_only(slots_), read_only(context_slots_)};
  if (has_last(bucket)) inputs.push_back(read_only(last_));
  if (bucket.draws()) inputs.push_back(read_only(sampling_));
  if (config_.eagle) inputs.push_back(features());
  const auto& weights = adapter == 0 ? weights_ : others_[static_cast<size_t>(adapter - 1)];
  inputs.insert(inputs.end(), weights.begin(), weights.end());
  inputs.insert(inputs.end(), pools_.begin(), pools_.end());
  auto outputs = runtime::execute(program(bucket), inputs);
  outputs.erase(outputs.begin() + 1, outputs.begin() + 1 + static_cast<int64_t>(pools_.size()));
  return outputs;
}

StepResult Engine::step(std::span<const SequenceStep> sequences, const StepWish& wish) {
  check(sequences);
  for (const SequenceStep& sequence : sequences)
    if (const size_t drawn = wish.choice < Choice::kDrawn ? 0
                             : wish.every_token           ? sequence.tokens.size()
                                                          : 1;
        sequence.sampling.size() != drawn)
      refuse_step(
          fmt::format("parameters of {} tokens, where {} are drawn", sequence.sampling.size(), drawn));
  if (wish.adapter < 0 || wish.adapter >= adapters())
    refuse_step(fmt::format("adapter {}; there are {}", wish.adapter, adapters() - 1));
  if (wish.choice != Choice::kHost && config_.pooled)
    refuse_step("a pooled model has features, and no tokens to choose from");
  int64_t tokens = 1, context = 1;
  for (const SequenceStep& sequence : sequences) {
    tokens = std::max(tokens, static_cast<int64_t>(sequence.tokens.size()));
    context = std::max(context, sequence.position + static_cast<int64_t>(sequence.tokens.size()));
  }
  StepResult result;
  result.bucket =
      bucket_of(static_cast<int64_t>(sequences.size()), tokens, context, wish.every_token, wish.choice);
  fill_inputs(result.bucket, sequences);
  results_ = run(result.bucket, wish.adapter);
  const auto floats = [](const sim::Buffer& buffer) {
    return std::span(reinterpret_cast<const float*>(buffer.data()),
                     static_cast<size_t>(buffer.bytes()) / sizeof(float));
  };
  if (result.bucket.chooses()) {
    result.tokens = {reinterpret_cast<const int32_t*>(results_[0]->data()),
                     static_cast<size_t>(results_[0]->bytes()) / sizeof(int32_t)};
    result.largest_logits = floats(*results_[1]);
  } else {
    result.logits = floats(*results_[0]);
  }
  if (config_.features) {
    const sim::Buffer& features = *results_.back();
    result.features = {features.data(), static_cast<size_t>(features.bytes())};
  }
  result.rows_per_sequence = wish.every_token ? result.bucket.tokens : 1;
  return result;
}

}  // namespace opentrn::decoder
