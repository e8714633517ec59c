// The weights of a step's program, in the order of its arguments.
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "decoder/narrow.h"
#include "decoder/program.h"

namespace opentrn::decoder {

using graph::ElementType;
using graph::Type;

namespace {

// That a layer's products read, `groups` below each other: with its scales where it is narrow. `tensors`:
// columns of the checkpoint's matrices, side by side.
void add_matrix(std::vector<Weight>& list, const Config& config, const std::string& name, ElementType element,
                int64_t groups, int64_t rows, std::vector<int64_t> tensors) {
  int64_t columns = 0;
  for (const int64_t count : tensors) columns += count;
  if (!is_narrow(config, name))
    return list.push_back(
        {name, Type::tensor(element, {groups * rows, columns}), groups, rows, std::move(tensors)});
  NarrowTypes kept = narrow_types(config.narrow->type, groups, rows, columns);
  list.push_back({name, std::move(kept.numbers), groups, rows, std::move(tensors)});
  list.push_back({name + kScale, std::move(kept.scales)});
}

// Experts lie one below the other. Scores are of fp32: which experts they choose is not to hang on rounding.
void add_mixture(std::vector<Weight>& list, const Config& config, const std::string& layer,
                 ElementType element) {
  const auto add = [&](const char* part, ElementType type, int64_t rows, int64_t columns) {
    list.push_back({layer + part, Type::tensor(type, {rows, columns})});
  };
  const auto add_read = [&](const char* part, int64_t groups, int64_t rows, std::vector<int64_t> tensors) {
    add_matrix(list, config, layer + part, element, groups, rows, std::move(tensors));
  };
  const int64_t hidden = config.hidden, features = config.expert_features, shared = config.shared_features;
  add("router", ElementType::kF32, hidden, config.experts);
  // gpt-oss's files have the two in turns, in one matrix, and Llama 4's side by side in one.
  const std::vector<int64_t> gate_up = config.expert_biases() || config.stacked_experts
                                           ? std::vector<int64_t>{2 * features}
                                           : std::vector<int64_t>{features, features};
  add_read("experts_gate_up", config.experts, hidden, gate_up);
  add_read("experts_down", config.experts, features, {hidden});
  if (config.expert_biases() || config.choice_bias)
    list.push_back({layer + "router_bias", Type::tensor(ElementType::kF32, {config.experts})});
  if (config.expert_biases()) {
    add("experts_gate_up_bias", ElementType::kF32, config.experts, 2 * features);
    add("experts_down_bias", ElementType::kF32, config.experts, hidden);
  }
  if (shared == 0) return;
  if (config.shared_gate) add("shared_gate", ElementType::kF32, hidden, 1);
  add_read("shared_gate_up", 1, hidden, {shared, shared});
  add_read("shared_down", 1, shared, {hidden});
}

}  // namespace

std::vector<Weight> weights(const Config& config, ElementType element) {
  expect_kept_modules(config);
  std::vector<Weight> list;
  const auto matrix = [&](std::string name, int64_t rows, int64_t columns) {
    list.push_back({std::move(name), Type::tensor(element, {rows, columns})});
  };
  const auto read = [&](const std::string& name, int64_t rows, std::vector<int64_t> tensors) {
    add_matrix(list, config, name, element, 1, rows, std::move(tensors));
  };
  const auto vector = [&](std::string name, int64_t size) {
    list.push_back({std::move(name), Type::tensor(ElementType::kF32, {size})});
  };
  const auto norm = [&](const std::string& name) {
    vector(name, config.hidden);
    if (config.norm_biases) vector(name + "_bias", config.hidden);
  };
  const auto rope = [&](const char* name) {
    list.push_back({name, Type::tensor(ElementType::kF32, {config.context, 2 * config.rope_features()})});
  };
  matrix("embedding", config.vocabulary, config.hidden);
  if (config.position_table)
    matrix("positions", config.context, config.hidden);
  else
    rope("rope");
  if (config.has_local_rope()) rope("local_rope");
  if (config.query_growth != 0)
    list.push_back({kQueryGrowth, Type::tensor(ElementType::kF32, {config.context, 1})});
  if (config.eagle && !config.eagle3) matrix("fc", 2 * config.hidden, config.hidden);
  if (config.fc_bias) vector("fc_bias", config.hidden);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto named = [&](const char* part) { return fmt::format("layers.{}.{}", layer, part); };
    if (config.norms_before && (!config.eagle || config.eagle3)) norm(named("attention_norm"));
    if (config.eagle3) norm(named("hidden_norm"));
    const int64_t queries = config.query_features(), keys = config.kv_features();
    if (config.is_latent()) {
      if (config.query_rank > 0) {
        read(named("q_a"), config.hidden, {config.query_rank});
        vector(named("q_a_norm"), config.query_rank);
      }
      read(named(config.query_rank > 0 ? "q_b" : "q"),
           config.query_rank > 0 ? config.query_rank : config.hidden, {queries});
      read(named("kv_a"), config.hidden, {config.latent_features + config.turned_features});
      vector(named("kv_a_norm"), config.latent_features);
      // Products of each head's own with the latent features; never narrow.
      matrix(named("key_up"), config.heads * config.plain_features(), config.latent_features);
      matrix(named("value_up"), config.heads * config.value_features, config.latent_features);
    } else {
      read(named("qkv"), config.eagle3 ? 2 * config.hidden : config.hidden,
           config.by_rows || config.by_heads || config.fused_qkv ? std::vector<int64_t>{config.qkv_features()}
                                                                 : std::vector<int64_t>{queries, keys, keys});
    }
    if (config.qkv_bias) vector(named("qkv_bias"), config.qkv_features());
    if (config.qk_norm) {
      vector(named("q_norm"), config.qk_norm_of_all_heads ? queries : config.head_features);
      vector(named("k_norm"), config.qk_norm_of_all_heads ? keys : config.head_features);
    }
    if (config.sinks) vector(named("sinks"), config.heads);
    read(named("output"), config.weighed_features(), {config.hidden});
    if (config.output_bias) vector(named("output_bias"), config.hidden);
    if (config.norms_after) norm(named("after_attention_norm"));
    if (config.norms_before && !config.one_norm) norm(named("feed_forward_norm"));
    if (!config.gated) {
      read(named("up"), config.hidden, {config.feed_forward});
      if (config.feed_forward_biases) vector(named("up_bias"), config.feed_forward);
    } else if (!config.has_experts(layer)) {
      read(named("gate_up"), config.hidden,
           config.fused_gate_up ? std::vector<int64_t>{2 * config.feed_forward}
                                : std::vector<int64_t>{config.feed_forward, config.feed_forward});
    } else {
      add_mixture(list, config, named(""), element);
    }
    if (!config.has_experts(layer)) read(named("down"), config.feed_forward, {config.hidden});
    if (config.feed_forward_biases) vector(named("down_bias"), config.hidden);
    if (config.norms_after) norm(named("after_feed_forward_norm"));
  }
  if (!config.eagle || config.eagle3) norm("norm");
  if (!config.pooled) matrix("head", config.hidden, config.head_words());
  if (!config.pooled && config.head_bias) vector("head_bias", config.head_words());
  if (!config.feature_layers.empty()) {
    const auto count = static_cast<int64_t>(config.feature_layers.size());
    matrix(kFeatureWeight, count * config.hidden, config.hidden);
  }
  return list;
}

}  // namespace opentrn::decoder
