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

// That a layer's products read: with its scales where it is narrow, one for each column of a group of rows.
void add_matrix(std::vector<Weight>& list, const Config& config, const std::string& name, ElementType element,
                int64_t rows, int64_t columns, int64_t groups) {
  list.push_back({name, Type::tensor(config.narrow.value_or(element), {rows, columns})});
  if (config.narrow) list.push_back({name + kScale, Type::tensor(ElementType::kF32, {groups, columns})});
}

// Experts lie one below the other. Scores are of fp32: which experts they choose is not to hang on rounding.
void add_mixture(std::vector<Weight>& list, const Config& config, const std::string& layer,
                 ElementType element) {
  const auto add = [&](const char* part, ElementType type, int64_t rows, int64_t columns) {
    list.push_back({layer + part, Type::tensor(type, {rows, columns})});
  };
  const auto add_read = [&](const char* part, int64_t rows, int64_t columns, int64_t groups) {
    add_matrix(list, config, layer + part, element, rows, columns, groups);
  };
  const int64_t hidden = config.hidden, features = config.expert_features, shared = config.shared_features;
  add("router", ElementType::kF32, hidden, config.experts);
  add_read("experts_gate_up", config.experts * hidden, 2 * features, config.experts);
  add_read("experts_down", config.experts * features, hidden, config.experts);
  if (config.expert_biases()) {
    list.push_back({layer + "router_bias", Type::tensor(ElementType::kF32, {config.experts})});
    add("experts_gate_up_bias", ElementType::kF32, config.experts, 2 * features);
    add("experts_down_bias", ElementType::kF32, config.experts, hidden);
  }
  if (shared == 0) return;
  add("shared_gate", ElementType::kF32, hidden, 1);
  add_read("shared_gate_up", hidden, 2 * shared, 1);
  add_read("shared_down", shared, hidden, 1);
}

}  // namespace

std::vector<Weight> weights(const Config& config, ElementType element) {
  std::vector<Weight> list;
  const auto matrix = [&](std::string name, int64_t rows, int64_t columns) {
    list.push_back({std::move(name), Type::tensor(element, {rows, columns})});
  };
  const auto read = [&](const std::string& name, int64_t rows, int64_t columns) {
    add_matrix(list, config, name, element, rows, columns, 1);
  };
  const auto vector = [&](std::string name, int64_t size) {
    list.push_back({std::move(name), Type::tensor(ElementType::kF32, {size})});
  };
  const auto norm = [&](const std::string& name) {
    vector(name, config.hidden);
    if (config.plain) vector(name + "_bias", config.hidden);
  };
  const auto rope = [&](const char* name) {
    list.push_back({name, Type::tensor(ElementType::kF32, {config.context, 2 * config.head_features})});
  };
  matrix("embedding", config.vocabulary, config.hidden);
  if (config.plain)
    matrix("positions", config.context, config.hidden);
  else
    rope("rope");
  if (config.has_local_rope()) rope("local_rope");
  if (config.eagle) matrix("fc", 2 * config.hidden, config.hidden);
  if (config.fc_bias) vector("fc_bias", config.hidden);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const auto named = [&](const char* part) { return fmt::format("layers.{}.{}", layer, part); };
    if (!config.eagle) norm(named("attention_norm"));
    read(named("qkv"), config.hidden, config.qkv_features());
    if (config.qkv_bias) vector(named("qkv_bias"), config.qkv_features());
    if (config.qk_norm) {
      vector(named("q_norm"), config.head_features);
      vector(named("k_norm"), config.head_features);
    }
    if (config.sinks) vector(named("sinks"), config.heads);
    read(named("output"), config.query_features(), config.hidden);
    if (config.output_bias) vector(named("output_bias"), config.hidden);
    if (config.norms_after) norm(named("after_attention_norm"));
    norm(named("feed_forward_norm"));
    if (config.plain) {
      read(named("up"), config.hidden, config.feed_forward);
      vector(named("up_bias"), config.feed_forward);
    } else if (config.experts == 0) {
      read(named("gate_up"), config.hidden, 2 * config.feed_forward);
    } else {
      add_mixture(list, config, named(""), element);
    }
    if (config.experts == 0) read(named("down"), config.feed_forward, config.hidden);
    if (config.plain) vector(named("down_bias"), config.hidden);
    if (config.norms_after) norm(named("after_feed_forward_norm"));
  }
  if (!config.eagle) norm("norm");
  if (!config.pooled) matrix("head", config.hidden, config.vocabulary);
  return list;
}

}  // namespace opentrn::decoder
