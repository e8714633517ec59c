#include "decoder/program.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "compiler/analysis/attention_op.h"
#include "decoder/drawn.h"
#include "decoder/latent.h"
#include "decoder/likeliest.h"
#include "decoder/narrow.h"
#include "decoder/norms.h"
#include "graph/builder.h"

namespace opentrn::decoder {

using graph::Attr;
using graph::Attribute;
using graph::Builder;
using graph::ElementType;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

constexpr int64_t kPartitions = 128;
// A row of a gather is a transfer's descriptor: from so many bytes on its fixed cost is a small part.
constexpr int64_t kFullRateBytes = 2048;
// Scores of a chunk of n blocks of keys and 16 queries fit a bank of PSUM.
constexpr int64_t kRunMax = 32;

using Dims = std::vector<int64_t>;

class StepBuilder : private LatentOps {
 public:
  StepBuilder(const Config& config, const Bucket& bucket, const Pool& pool, ElementType element,
              const StepOptions& options = {})
      : LatentOps(config, element), bucket_(bucket), pool_(pool), options_(options), rows_(bucket.rows()) {
    module_.name = fmt::format("{} {}", config.architecture, bucket.text());
  }

  graph::Module run() {
    tokens_ = argument(Type::tensor(kIndex, {rows_}), "tokens");
    positions_ = argument(Type::tensor(kIndex, {rows_}), "positions");
    slots_ = argument(Type::tensor(kIndex, {rows_}), "slots");
    context_slots_ = argument(Type::tensor(kIndex, {bucket_.sequences * bucket_.context}), "context_slots");
    if (has_last(bucket_)) last_ = argument(Type::tensor(kIndex, {bucket_.sequences}), "last");
    if (bucket_.draws()) sampling_ = argument(sampling_type(bucket_.results()), "sampling");
    if (config_.eagle) features_ = argument(Type::tensor(element_, {rows_, config_.hidden}), "features");
    for (const Weight& weight : weights(config_, element_))
      weights_.emplace(weight.name, argument(weight.type, weight.name));
    for (int64_t i = 0; i < 2 * config_.layers; ++i) {
      pools_.push_back(
          argument(pool_type(i % 2), fmt::format("{}{}", i % 2 == 0 ? "keys" : "values", i / 2)));
      function_.argument_attributes.back()["tf.aliasing_output"] = Attribute(i + 1);
    }
    std::vector<ValueId> results = options_.sequence_ranks > 1 ? sequence_parallel_step() : step();
    if (bucket_.chooses()) {
      const ChosenTokens choice = chosen(results[0]);
      results[0] = choice.token;
      results.push_back(choice.logit);
    }
    if (config_.features) results.push_back(features_);
    results.insert(results.end(), sent_.begin(), sent_.end());
    finish(std::move(results));
    return std::move(module_);
  }

  PartGraph run_part(PartKind kind, int64_t layer, const Config& whole) {
    part_.emplace();
    part_layer_ = layer;
    for (Weight& weight : weights(config_, element_)) types_.emplace(weight.name, std::move(weight.type));
    types_.at("embedding") = Type::tensor(element_, {whole.vocabulary, config_.hidden});
    std::vector<ValueId> results, updated;
    if (kind == PartKind::kAttention) {
      const ValueId x = layer == 0 ? begun_part() : resumed(layer - 1, "after_feed_forward_norm");
      prepare_attention(layer);
      results = {residual_of(x), narrow(attention(x, updated))};
      results.insert(results.end(), updated.begin(), updated.end());
    } else if (kind == PartKind::kFeedForward) {
      ValueId before{};
      const ValueId x = resumed(layer, "after_attention_norm", &before);
      results = {x, narrow(feed_forward(config_.parallel ? before : x))};
    } else {
      const ValueId x = resumed(layer, "after_feed_forward_norm");
      layer_ = -1;
      if (has_last(bucket_)) last_ = of_step("last", Type::tensor(kIndex, {bucket_.sequences}));
      if (!config_.feature_layers.empty()) find_features(entering_features(x));
      results = {ended(x)};
      if (bucket_.chooses()) results = chosen_of_part(results[0], whole.head_words());
      if (config_.features) results.push_back(features_);
    }
    finish(std::move(results));
    part_->module = std::move(module_);
    return std::move(*part_);
  }

 private:
  void finish(std::vector<ValueId> results) {
    for (const ValueId value : results) function_.result_types.push_back(builder_.type(value));
    function_.result_attributes.resize(results.size());
    builder_.return_values(std::move(results));
  }

  ChosenTokens chosen(ValueId logits) {
    if (!bucket_.draws()) return likeliest(builder_, logits);
    if (options_.vocabulary > 0) {
      sent_.push_back(logits);
      logits = argument(Type::tensor(kReal, {bucket_.results(), options_.vocabulary}), "logits");
    }
    return drawn(builder_, logits, sampling_, bucket_.choice);
  }

  // -- a part between two sums
  ValueId of_step(const std::string& name, Type type) {
    part_->inputs.push_back({PartInput::Kind::kStep, name});
    return argument(std::move(type), name);
  }
  std::vector<ValueId> chosen_of_part(ValueId logits, int64_t words) {
    std::optional<ValueId> columns;
    if (words % config_.head_words() != 0) {  // the last ranks' logits end in some of no token
      part_->inputs.push_back({PartInput::Kind::kColumns, "columns"});
      columns = argument(Type::tensor(kIndex, {1}), "columns");
    }
    const ChosenTokens choice = likeliest(builder_, logits, columns);
    return {choice.token, choice.logit};
  }
  ValueId begun_part() {
    tokens_ = of_step("tokens", Type::tensor(kIndex, {rows_}));
    positions_ = of_step("positions", Type::tensor(kIndex, {rows_}));
    if (config_.eagle) features_ = of_step("features", Type::tensor(element_, {rows_, config_.hidden}));
    return begun();
  }
  // x in front of each of the layers that features come from. `x`: behind the last one.
  std::vector<ValueId> entering_features(ValueId x) {
    std::vector<ValueId> entering;
    for (const int64_t layer : config_.feature_layers) {
      const bool is_end = layer == config_.layers;
      const Type type = Type::tensor(kReal, {rows_, config_.hidden});
      entering.push_back(narrow(is_end ? x : of_step(fmt::format("entering{}", layer), type)));
    }
    return entering;
  }
  // x with what the terms behind `layer` sum up to. `before`: x itself.
  ValueId resumed(int64_t layer, const char* norm, ValueId* before = nullptr) {
    layer_ = layer;
    at("sum");
    const ValueId x = of_step("x", Type::tensor(kReal, {rows_, config_.hidden}));
    if (before) *before = x;
    const ValueId sum = of_step("sum", Type::tensor(element_, {rows_, config_.hidden}));
    return plus(x, after(builder_.convert(sum, kReal), norm));
  }
  void prepare_attention(int64_t layer) {
    layer_ = -1;
    if (layer > 0) positions_ = of_step("positions", Type::tensor(kIndex, {rows_}));
    slots_ = of_step("slots", Type::tensor(kIndex, {rows_}));
    context_slots_ = of_step("context_slots", Type::tensor(kIndex, {bucket_.sequences * bucket_.context}));
    find_positions(layer);
    layer_ = layer;
    pools_.resize(static_cast<size_t>(2 * layer));
    for (int64_t i = 0; i < 2; ++i) {
      const char* name = i == 0 ? "keys" : "values";
      pools_.push_back(argument(pool_type(i), name));
      function_.argument_attributes.back()["tf.aliasing_output"] = Attribute(i + 2);
      part_->inputs.push_back({PartInput::Kind::kPool, name});
    }
  }
  // Of keys (0) and values (1).
  Type pool_type(int64_t which) const {
    const int64_t features = which == 0 ? config_.key_pool_features() : config_.value_pool_features();
    return Type::tensor(config_.kv_element(element_), {pool_.slots(), features});
  }
  ValueId part_weight(std::string_view part) {
    const std::string name = weight_name(part);
    const auto found = weights_.find(name);
    if (found != weights_.end()) return found->second;
    const bool of_layer = layer_ >= 0;
    part_->inputs.push_back({of_layer ? PartInput::Kind::kLayerWeight : PartInput::Kind::kWeight,
                             std::string(part), of_layer ? part_layer_ - layer_ : 0});
    return weights_.emplace(name, argument(types_.at(name), name)).first->second;
  }

  ValueId argument(Type type, std::string name) {
    const ValueId value = function_.add_argument(builder_.block(), std::move(type));
    function_.argument_attributes.back()["onnx.name"] = Attribute(std::move(name));
    return value;
  }
  ValueId weight(std::string_view part) override {
    return part_ ? part_weight(part) : weights_.at(weight_name(part));
  }

  std::vector<ValueId> step() {
    ValueId x = begun();
    find_positions(-1);
    std::vector<ValueId> results{x};
    std::vector<ValueId> entering;  // layers of whose features an EAGLE-3 head makes its own
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      layer_ = layer;
      if (std::ranges::count(config_.feature_layers, layer) > 0) entering.push_back(narrow(x));
      const ValueId residual = residual_of(x);
      const ValueId in = x;
      x = plus(residual, after(attention(x, results), "after_attention_norm"));
      x = plus(x, after(feed_forward(config_.parallel ? in : x), "after_feed_forward_norm"));
    }
    layer_ = -1;
    if (std::ranges::count(config_.feature_layers, config_.layers) > 0) entering.push_back(narrow(x));
    if (!entering.empty()) find_features(entering);
    results[0] = ended(x);
    return results;
  }

  // What attention's term is added to.
  ValueId residual_of(ValueId x) {
    return config_.eagle3 && config_.norm_before_residual ? normed(x, "hidden_norm") : x;
  }
  void find_features(const std::vector<ValueId>& entering) {
    at("features");
    features_ = narrow(product(builder_.concatenate(entering, 1), {weight(kFeatureWeight)}));
  }

  // What one rank computes where each keeps its own rows of x between products: a norm of those, all rows of
  // it as the exchange leaves them (an argument), a term for all rows (a result), and the own rows of the
  // sum.
  std::vector<ValueId> sequence_parallel_step() {
    const int64_t own = (rows_ + options_.sequence_ranks - 1) / options_.sequence_ranks;
    const ValueId positions = positions_;
    tokens_ = builder_.slice(tokens_, {0}, {own});
    positions_ = builder_.slice(positions_, {0}, {own});
    ValueId x = begun();
    positions_ = positions;
    find_positions(-1);
    std::vector<ValueId> results{x};
    const auto gathered = [&](const char* norm, int64_t cores) {
      sent_.push_back(narrow(config_.norms_before ? normed(x, norm) : x));
      return argument(Type::tensor(element_, {cores * rows_, config_.hidden}),
                      fmt::format("gathered{}", sent_.size() / 2));
    };
    const auto scattered = [&](ValueId term) {
      sent_.push_back(narrow(term));
      return builder_.convert(builder_.slice(sent_.back(), {0, 0}, {own, config_.hidden}), kReal);
    };
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      layer_ = layer;
      at("attention");
      x = plus(x, after(scattered(attended(gathered("attention_norm", 1), results)), "after_attention_norm"));
      at("feed_forward");
      const ValueId in = gathered(feed_forward_norm(), options_.cores_per_head);
      x = plus(x, after(scattered(fed_forward(in)), "after_feed_forward_norm"));
    }
    layer_ = -1;
    results[0] = ended(x);
    return results;
  }

  // The rows of the tokens.
  ValueId begun() {
    at("embedding");
    const ValueId words = rows_of(weight("embedding"), tokens_);
    if (config_.eagle3) {
      words_ = builder_.convert(words, kReal);
      return builder_.convert(features_, kReal);
    }
    if (config_.eagle) {
      const ValueId x = product(builder_.concatenate({words, features_}, 1), {weight("fc")});
      return config_.fc_bias ? biased(x, "fc_bias") : x;
    }
    ValueId x = builder_.convert(words, kReal);
    if (config_.embedding_scale != 1) x = scaled(x, config_.embedding_scale);
    if (config_.position_table)
      x = builder_.add(OpKind::add_, {x, builder_.convert(rows_of(weight("positions"), positions_), kReal)});
    return x;
  }

  // What attention asks of positions: in all layers, or in `layer` alone.
  void find_positions(int64_t layer) {
    const bool local = config_.has_local_rope() && (layer < 0 || config_.is_windowed(layer));
    const bool global = !config_.position_table && (layer < 0 || !local);
    if (global) turns_ = turns_of(weight("rope"), config_.rope_scale);
    const bool grows = config_.query_growth != 0 && bucket_.context >= config_.query_growth_positions;
    if (grows && (layer < 0 || config_.has_grown_queries(layer)))
      growth_ = builder_.reshape(rows_of(weight(kQueryGrowth), positions_), {rows_});
    if (local) local_turns_ = turns_of(weight("local_rope"), config_.local_rope_scale);
    find_masks();
    find_runs();
  }

  // Logits, or the features of a pooled model.
  ValueId ended(ValueId x) {
    at("logits");
    ValueId last;
    if (config_.features && !config_.eagle && config_.feature_layers.empty()) {
      features_ = narrow(normed(x, "norm"));
      last = has_last(bucket_) ? rows_of(features_, last_) : features_;
    } else {
      if (has_last(bucket_)) x = rows_of(x, last_);
      if (config_.eagle) features_ = narrow(x);
      if (!config_.eagle || config_.eagle3) x = normed(x, "norm");
      if (config_.pooled) return x;
      last = narrow(x);
    }
    ValueId logits = product(last, {weight("head")});
    if (config_.head_bias) logits = biased(logits, "head_bias");
    if (config_.logit_divisor != 1) logits = scaled(logits, 1 / config_.logit_divisor);
    if (config_.logit_cap != 0) logits = capped(logits, config_.logit_cap);
    return logits;
  }

  // -- parts
  struct Turns {
    ValueId cosines{}, sines{};
  };
  // The cosines and signed sines of each row's position, for both halves of a head.
  Turns turns_of(ValueId rope, double scale) {
    at("positions");
    const int64_t features = config_.rope_features();
    const ValueId both = rows_of(rope, positions_);
    Turns turns{builder_.slice(both, {0, 0}, {rows_, features}),
                builder_.slice(both, {0, features}, {rows_, 2 * features})};
    if (scale != 1) {
      turns.cosines = scaled(turns.cosines, scale);
      turns.sines = scaled(turns.sines, scale);
    }
    return turns;
  }

  // [sequences, tokens, context]: which positions a token sees, in layers with a window and in others.
  void find_masks() {
    at("positions");
    const int64_t n = bucket_.sequences, t = bucket_.tokens, s = bucket_.context;
    const ValueId seen = builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{2})}},
                                      {Type::tensor(kIndex, {n, t, s})});
    const ValueId own = builder_.broadcast_in_dim(builder_.reshape(positions_, {n, t}), {n, t, s}, {0, 1});
    mask_ = builder_.compare(graph::ComparisonDirection::kLe, seen, own);
    if (config_.windowed.empty()) return;
    if (config_.windows_are_chunks) return find_chunk_mask(seen);
    const ValueId behind = builder_.add(
        OpKind::subtract_, {own, builder_.splat(builder_.type(own), static_cast<double>(config_.window))});
    window_mask_ =
        builder_.add(OpKind::and_, {mask_, builder_.compare(graph::ComparisonDirection::kGt, seen, behind)});
  }

  // A token sees the positions from the last multiple of the window on.
  void find_chunk_mask(ValueId seen) {
    window_mask_ = mask_;
    if (bucket_.context <= config_.window) return;
    const ValueId size = builder_.splat(builder_.type(positions_), static_cast<double>(config_.window));
    const ValueId first = binary(OpKind::subtract_, positions_, binary(OpKind::remainder_, positions_, size));
    const Dims dims = builder_.type(seen).dims_vector();
    const ValueId begin =
        builder_.broadcast_in_dim(builder_.reshape(first, {bucket_.sequences, bucket_.tokens}), dims, {0, 1});
    window_mask_ =
        builder_.add(OpKind::and_, {mask_, builder_.compare(graph::ComparisonDirection::kGe, seen, begin)});
  }

  // `x` by the norm of that name: of the layer, or of the model outside its layers.
  ValueId normed(ValueId x, const std::string& name) {
    if (!config_.layer_norms) return rms_normed(x, weight(name));
    const ValueId made = layer_normed(builder_, x, weight(name), config_.norm_epsilon);
    return config_.norm_biases ? builder_.add(OpKind::add_, {made, over_rows(weight(name + "_bias"), x)})
                               : made;
  }
  ValueId after(ValueId x, const std::string& name) { return config_.norms_after ? normed(x, name) : x; }
  ValueId rms_normed(ValueId x, ValueId scale) {
    return decoder::rms_normed(builder_, x, scale, config_.norm_epsilon);
  }

  ValueId attention(ValueId x, std::vector<ValueId>& results) {
    at("attention");
    if (config_.eagle3) {
      const ValueId words = normed(words_, "attention_norm"), features = normed(x, "hidden_norm");
      return attended(narrow(builder_.concatenate({words, features}, 1)), results);
    }
    const bool is_normed = config_.norms_before && !config_.eagle;
    return attended(narrow(is_normed ? normed(x, "attention_norm") : x), results);
  }
  ValueId attended(ValueId in, std::vector<ValueId>& results) {
    if (config_.is_latent()) return latent_attended(in, results);
    const int64_t features = config_.head_features, queries = config_.heads, keys = config_.kv_heads;
    const int64_t turning = queries + keys;
    const ValueId heads = builder_.reshape(projected(in, 0, turning * features), {rows_, turning, features});
    const ValueId v = projected(in, turning * features, keys * features);
    ValueId q, k;
    const auto cut = [&](ValueId of, int64_t first, int64_t count) {
      return builder_.slice(of, {0, first, 0}, {rows_, first + count, features});
    };
    if (config_.qk_norm) {
      q = narrow(turned(normed_heads(cut(heads, 0, queries), "q_norm")));
      k = narrow(turned(normed_heads(cut(heads, queries, keys), "k_norm")));
    } else {
      const ValueId both = narrow(behind_turns(turned(cut(heads, 0, turning))));
      q = cut(both, 0, queries);
      k = cut(both, queries, keys);
    }
    if (growth_ && config_.has_grown_queries(layer_)) q = grown(q);
    const Dims context{bucket_.sequences, bucket_.context, keys, features};
    const ValueId all_keys = context_of(pools_[static_cast<size_t>(2 * layer_)], k, context, results);
    const ValueId all_values =
        context_of(pools_[static_cast<size_t>(2 * layer_ + 1)], narrow(v), context, results);
    const ValueId weighed = weighed_values(q, all_keys, all_values);
    const ValueId made = product(narrow(weighed), matrix("output"));
    return config_.output_bias ? biased(made, "output_bias") : made;
  }

  // Of each head, or of all together.
  ValueId normed_heads(ValueId heads, const char* name) {
    if (!config_.qk_norm_of_all_heads) return rms_normed(heads, weight(name));
    const Dims dims = builder_.type(heads).dims_vector();
    return builder_.reshape(rms_normed(builder_.reshape(heads, {dims[0], dims[1] * dims[2]}), weight(name)),
                            dims);
  }
  ValueId behind_turns(ValueId heads) {
    if (!config_.qk_norm_of_turned || config_.is_unturned(layer_)) return heads;
    const Type ones = Type::tensor(kReal, {config_.head_features});
    return rms_normed(heads, builder_.splat(ones, 1.0));
  }
  ValueId grown(ValueId q) {
    const ValueId growth = builder_.broadcast_in_dim(*growth_, builder_.type(q).dims_vector(), {0});
    return narrow(binary(OpKind::multiply_, builder_.convert(q, kReal), growth));
  }

  // Columns of the product that gives queries, keys and values.
  ValueId projected(ValueId in, int64_t first, int64_t count) {
    const ValueId made = product(in, columns_of(matrix("qkv"), first, count));
    if (!config_.qkv_bias) return made;
    const ValueId bias = builder_.slice(weight("qkv_bias"), {first}, {first + count});
    return builder_.add(OpKind::add_, {made, builder_.broadcast_in_dim(bias, {rows_, count}, {1})});
  }

  // Each pair of features (i, i + half) turned by its position's angle.
  ValueId turned(ValueId heads) {
    if (config_.position_table || config_.is_unturned(layer_)) return heads;
    const Dims all = builder_.type(heads).dims_vector();
    const int64_t features = config_.rope_features();
    if (features < all[2])
      return builder_.concatenate({whole_turned(builder_.slice(heads, {0, 0, 0}, {all[0], all[1], features})),
                                   builder_.slice(heads, {0, 0, features}, all)},
                                  2);
    return whole_turned(heads);
  }
  ValueId whole_turned(ValueId heads) {
    const Turns& turns = config_.has_local_rope() && config_.is_windowed(layer_) ? local_turns_ : turns_;
    const Dims dims = builder_.type(heads).dims_vector();
    const int64_t half = dims[2] / 2;
    const Dims halves{dims[0], dims[1], 2, half};
    const ValueId pairs = builder_.reshape(heads, halves);
    const ValueId swapped = builder_.add(OpKind::reverse_, {pairs}, {{Attr::dimensions, Attribute(Dims{2})}});
    const auto of_rows = [&](ValueId of) {
      return builder_.broadcast_in_dim(builder_.reshape(of, {dims[0], 2, half}), halves, {0, 2, 3});
    };
    const ValueId straight = builder_.add(OpKind::multiply_, {pairs, of_rows(turns.cosines)});
    const ValueId across = builder_.add(OpKind::multiply_, {swapped, of_rows(turns.sines)});
    return builder_.reshape(builder_.add(OpKind::add_, {straight, across}), dims);
  }

  // Latent attention: of every head's queries with what all heads share.
  ValueId latent_attended(ValueId in, std::vector<ValueId>& results) {
    const int64_t n = bucket_.sequences, t = bucket_.tokens, s = bucket_.context, heads = config_.heads;
    const int64_t plain = config_.plain_features(), latent = config_.latent_features,
                  turning = config_.turned_features;
    const ValueId queries = latent_queries(in), both = compressed(in);
    const ValueId turned_queries =
        narrow(whole_turned(builder_.slice(queries, {0, 0, plain}, {rows_, heads, plain + turning})));
    const ValueId key =
        builder_.reshape(builder_.slice(both, {0, latent}, {rows_, latent + turning}), {rows_, 1, turning});
    const auto pool = static_cast<size_t>(2 * layer_);
    const ValueId features = context_of(pools_[pool], narrow(normed_latent(both)), {n, s, latent}, results);
    const ValueId turned_keys =
        context_of(pools_[pool + 1], narrow(whole_turned(key)), {n, s, turning}, results);
    const ValueId own = narrow(to_latent(narrow(builder_.slice(queries, {0, 0, 0}, {rows_, heads, plain}))));
    const Dims scores{n, heads, t, s};
    const ValueId by_features =
        dot(builder_.reshape(own, {heads, n, t, latent}), {1}, 3, features, {0}, 2, scores);
    const ValueId by_positions =
        dot(builder_.reshape(builder_.transpose(turned_queries, {1, 0, 2}), {heads, n, t, turning}), {1}, 3,
            turned_keys, {0}, 2, scores);
    const ValueId weights = softmax(binary(OpKind::add_, by_features, by_positions), seen(), {0, 2, 3}, {1});
    const ValueId weighed = dot(weights, {0}, 3, features, {0}, 1, {n, heads, t, latent});
    const ValueId by_head =
        builder_.reshape(builder_.transpose(narrow(weighed), {1, 0, 2, 3}), {heads, rows_, latent});
    return product(narrow(from_latent(by_head)), matrix("output"));
  }

  // Writes the rows' new keys or values to their slots, and gives those of each sequence's context, in `dims`
  // [sequences, context, ...].
  ValueId context_of(ValueId pool, ValueId fresh, Dims dims, std::vector<ValueId>& results) {
    const int64_t features = builder_.type(pool).dim(1);
    const ElementType kept = config_.kv_element(element_);
    const Type scalar = Type::scalar(kept);
    const graph::RegionBody replace{{scalar, scalar}, [](Builder&, std::span<const ValueId> arguments) {
                                      return std::vector{arguments[1]};
                                    }};
    const graph::OpId made =
        builder_.add_with_regions(OpKind::scatter_,
                                  {pool, builder_.reshape(slots_, {rows_, 1}),
                                   builder_.convert(builder_.reshape(fresh, {rows_, features}), kept)},
                                  {{Attr::update_window_dims, Attribute(Dims{1})},
                                   {Attr::inserted_window_dims, Attribute(Dims{0})},
                                   {Attr::scatter_dims_to_operand_dims, Attribute(Dims{0})},
                                   {Attr::index_vector_dim, Attribute(int64_t{1})},
                                   {Attr::unique_indices, Attribute(true)}},
                                  {builder_.type(pool)}, {replace});
    const ValueId updated = function_.op(made).results[0];
    results.push_back(updated);
    return narrow(builder_.reshape(is_contiguous() ? updated : of_context(updated), std::move(dims)));
  }

  // The slots of all contexts, in runs of positions that follow each other in a block.
  ValueId of_context(ValueId pool) {
    const int64_t run = positions_of_run();
    if (run == 1) return rows_of(pool, context_slots_);
    return rows_of(builder_.reshape(pool, {pool_.slots() / run, run * config_.kv_features()}), context_runs_);
  }

  // Positions that are gathered as one row. A decode step's attention takes n of them from each partition
  // (lowering/attention_decode.cc); longer rows are moved at the device's full rate.
  int64_t positions_of_run() const {
    const int64_t shared = config_.heads / config_.kv_heads;
    if (bucket_.tokens > 1 || config_.is_latent() || config_.attention_cap > compiler::kAttentionCapMax ||
        !compiler::are_few_queries(shared, bucket_.context, /*diagonal=*/false))
      return 1;
    const int64_t bytes = config_.kv_features() * graph::storage_bytes(config_.kv_element(element_));
    int64_t run = 1;
    while (2 * run * kPartitions <= bucket_.context && bucket_.context % (2 * run * kPartitions) == 0 &&
           pool_.block_tokens % (2 * run) == 0 && run * bytes < kFullRateBytes && 2 * run <= kRunMax)
      run *= 2;
    return run;
  }

  // Each run's place among those of the pool, from the slots of its positions.
  void find_runs() {
    const int64_t run = positions_of_run();
    if (run == 1 || is_contiguous()) return;
    at("positions");
    const int64_t count = bucket_.sequences * bucket_.context;
    const ValueId runs = builder_.reshape(context_slots_, {count / run, run});
    const ValueId first = builder_.reshape(builder_.slice(runs, {0, 0}, {count / run, 1}), {count / run});
    const int64_t shift = std::countr_zero(static_cast<uint64_t>(run));
    context_runs_ = builder_.add(OpKind::shift_right_logical_,
                                 {first, builder_.splat(builder_.type(first), static_cast<double>(shift))});
  }

  // One block for each sequence, in their order and as long as the context: its positions lie there already.
  bool is_contiguous() const {
    return pool_.block_tokens == bucket_.context && pool_.blocks == bucket_.sequences;
  }

  // softmax(scale Q K^T + mask) V, as [rows, query_features].
  ValueId weighed_values(ValueId q, ValueId keys, ValueId values) {
    const int64_t n = bucket_.sequences, t = bucket_.tokens, s = bucket_.context;
    const int64_t groups = config_.kv_heads, shared = config_.heads / groups,
                  features = config_.head_features;
    if (t == 1) {
      const ValueId queries = builder_.reshape(q, {n, groups, shared, features});
      const ValueId weights = softmax(dot(queries, {0, 1}, 3, keys, {0, 2}, 3, {n, groups, shared, s}),
                                      builder_.reshape(seen(), {n, s}), {0, 3}, {1, 2});
      return builder_.reshape(dot(weights, {0, 1}, 3, values, {0, 2}, 1, {n, groups, shared, features}),
                              {rows_, config_.query_features()});
    }
    if (is_one_kernel()) {
      const ValueId queries = builder_.reshape(q, {n, t, config_.heads, features});
      const ValueId weights =
          softmax(dot(queries, {0, 2}, 3, of_every_head(keys), {0, 2}, 3, {n, config_.heads, t, s}), seen(),
                  {0, 2, 3}, {1});
      const ValueId made =
          dot(weights, {0, 1}, 3, of_every_head(values), {0, 2}, 1, {n, config_.heads, t, features});
      return builder_.reshape(builder_.transpose(made, {0, 2, 1, 3}), {rows_, config_.query_features()});
    }
    const ValueId queries = builder_.reshape(q, {n, t, groups, shared, features});
    const ValueId weights = softmax(dot(queries, {0, 2}, 4, keys, {0, 2}, 3, {n, groups, t, shared, s}),
                                    seen(), {0, 2, 4}, {1, 3});
    const ValueId made = dot(weights, {0, 1}, 4, values, {0, 2}, 1, {n, groups, t, shared, features});
    return builder_.reshape(builder_.transpose(made, {0, 2, 1, 3, 4}), {rows_, config_.query_features()});
  }

  // The compiler finds attention in this form (recognise/attention.cc). Where it does not, keys that are
  // repeated for every head would be written out.
  bool is_one_kernel() const {
    return options_.fuse_attention && config_.attention_cap <= compiler::kAttentionCapMax &&
           config_.head_features <= compiler::kAttentionFeaturesMax;
  }

  // [sequences, context, kv_heads, features], repeated for the heads that share them.
  ValueId of_every_head(ValueId keys) {
    const int64_t shared = config_.heads / config_.kv_heads;
    if (shared == 1) return keys;
    const Dims dims = builder_.type(keys).dims_vector();
    const ValueId repeated =
        builder_.broadcast_in_dim(keys, {dims[0], dims[1], dims[2], shared, dims[3]}, {0, 1, 2, 4});
    return builder_.reshape(repeated, {dims[0], dims[1], dims[2] * shared, dims[3]});
  }

  // [sequences, tokens, context]: whether a token sees a position.
  ValueId seen() const { return config_.is_windowed(layer_) ? window_mask_ : mask_; }

  // Over the last dimension, of scaled scores where `seen`, whose dimensions are those of `places`.
  // `of_heads`: the dimensions that heads of keys, and those that share one, have, or that all heads have;
  // for sinks.
  ValueId softmax(ValueId scores, ValueId seen, Dims places, Dims of_heads) {
    const Dims dims = builder_.type(scores).dims_vector();
    const auto last = static_cast<int64_t>(dims.size()) - 1;
    Dims columns;
    for (int64_t i = 0; i < last; ++i) columns.push_back(i);
    scores = scaled(scores, config_.score_scale());
    if (config_.attention_cap != 0) scores = capped(scores, config_.attention_cap);
    const ValueId mask = builder_.broadcast_in_dim(seen, dims, std::move(places));
    scores =
        builder_.add(OpKind::select_, {mask, scores, builder_.splat(Type::tensor(kReal, dims), kMasked)});
    ValueId largest = builder_.reduce(OpKind::maximum_, scores, {last}), sink{};
    if (config_.sinks) {
      const Dims heads = of_heads.size() == 1 ? Dims{config_.heads}
                                              : Dims{config_.kv_heads, config_.heads / config_.kv_heads};
      sink = builder_.broadcast_in_dim(builder_.reshape(weight("sinks"), heads),
                                       Dims(dims.begin(), dims.end() - 1), std::move(of_heads));
      largest = builder_.add(OpKind::maximum_, {largest, sink});
    }
    const ValueId raised = builder_.add(
        OpKind::exponential_,
        {builder_.add(OpKind::subtract_, {scores, builder_.broadcast_in_dim(largest, dims, columns)})});
    ValueId sum = builder_.reduce(OpKind::add_, raised, {last});
    if (config_.sinks)
      sum = builder_.add(
          OpKind::add_,
          {sum, builder_.add(OpKind::exponential_, {builder_.add(OpKind::subtract_, {sink, largest})})});
    return narrow(builder_.add(OpKind::divide_, {raised, builder_.broadcast_in_dim(sum, dims, columns)}));
  }

  const char* feed_forward_norm() const { return config_.one_norm ? "attention_norm" : "feed_forward_norm"; }
  ValueId feed_forward(ValueId x) {
    at("feed_forward");
    if (config_.has_experts(layer_))
      return mixture(normed(x, "feed_forward_norm"), experts_taken_are_read(config_, bucket_));
    const ValueId in = narrow(config_.norms_before ? normed(x, feed_forward_norm()) : x);
    return options_.cores_per_head == 1 ? fed_forward(in) : fed_forward_of_cores(in);
  }
  // Of the rows of all cores that share heads; the own ones of the sum.
  ValueId fed_forward_of_cores(ValueId in) {
    const Type others = Type::tensor(element_, {(options_.cores_per_head - 1) * rows_, config_.hidden});
    const ValueId all = builder_.concatenate({in, argument(others, fmt::format("others{}", layer_))}, 0);
    sent_.push_back(narrow(fed_forward(all)));
    return builder_.convert(builder_.slice(sent_.back(), {0, 0}, {rows_, config_.hidden}), kReal);
  }
  ValueId fed_forward(ValueId in) {
    if (!config_.gated) {
      const auto with_bias = [&](ValueId made, const char* name) {
        return config_.feed_forward_biases ? biased(made, name) : made;
      };
      const ValueId raised = activated(with_bias(product(in, matrix("up")), "up_bias"));
      return with_bias(product(narrow(raised), matrix("down")), "down_bias");
    }
    return gated(in, matrix("gate_up"), matrix("down"));
  }

  const Bucket& bucket_;
  const Pool& pool_;
  const StepOptions options_;
  int64_t rows_;
  ValueId tokens_{}, positions_{}, slots_{}, context_slots_{}, context_runs_{}, last_{}, mask_{},
      window_mask_{}, features_{}, words_{}, sampling_{};
  Turns turns_, local_turns_;
  std::optional<ValueId> growth_;  // of queries that are not turned, [rows] f32
  std::map<std::string, ValueId> weights_;
  std::vector<ValueId> pools_, sent_;  // to other ranks and cores
  std::optional<PartGraph> part_;      // where one is made
  std::map<std::string, Type> types_;  // of its weights
  int64_t part_layer_ = -1;
};

}  // namespace

graph::Module build(const Config& config, const Bucket& bucket, const Pool& pool, ElementType element,
                    const StepOptions& options) {
  check(options, config, bucket);
  return StepBuilder(config, bucket, pool, element, options).run();
}

PartGraph build_part(const Config& config, const Bucket& bucket, const Pool& pool, ElementType element,
                     PartKind kind, int64_t layer, const Config& whole) {
  return StepBuilder(config, bucket, pool, element).run_part(kind, layer, whole);
}

}  // namespace opentrn::decoder
