#include "decoder/eagle.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/fault.h"
#include "decoder/program.h"

namespace opentrn::decoder {

using import::weights::Checkpoint;
using import::weights::Encoding;
using import::weights::StoredTensor;
using import::weights::TensorTable;
using Json = nlohmann::json;

namespace {

// Names of heads have "model." in front, or not.
bool has(const TensorTable& tensors, const std::string& name) {
  return tensors.find(name) || tensors.find("model." + name);
}

bool is_third_version(const TensorTable& tensors) {
  return has(tensors, "midlayer.hidden_norm.weight") || has(tensors, "layers.0.hidden_norm.weight") ||
         tensors.find("d2t");
}

[[noreturn]] void refuse_head(const std::string& what) {
  throw Fault(
      FaultKind::kNotModelled, "decoder.eagle", what,
      "a head of one layer: EAGLE's, without a norm in front of it, or EAGLE-3's, without norms in front "
      "of fc.weight");
}
[[noreturn]] void refuse_numbers(std::string what,
                                 std::string hint = "a head that was trained for this model") {
  throw Fault(FaultKind::kInput, "decoder.eagle", std::move(what), std::move(hint));
}

// config.json, whose class is the layer's and not the head's, which has names of its own.
Json json_of(const Checkpoint& file) {
  Json json = Json::parse(file.config, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) refuse_numbers("config.json of the EAGLE head is not a JSON object");
  const auto list = json.find("architectures");
  const bool is_named = list != json.end() && list->is_array() && !list->empty() && list->front().is_string();
  const std::string name = is_named ? list->front().get<std::string>() : "";
  if (name.find("Eagle") != std::string::npos && name.find("Llama") != std::string::npos)
    json["architectures"] = {"LlamaForCausalLM"};
  return json;
}

Config config_of_head(const Json& json) {
  const Config config = config_of_json(json.dump());
  if (config.layers != 1) refuse_head(fmt::format("an EAGLE head of {} layers", config.layers));
  if (config.experts > 0 || config.architecture != "llama")
    refuse_head(fmt::format("an EAGLE head of the architecture {}, or with experts", config.architecture));
  return config;
}

void expect_same(const char* what, int64_t own, int64_t of_model) {
  if (own != of_model)
    refuse_numbers(fmt::format("{} of the EAGLE head is {}, and the model's {}", what, own, of_model));
}

bool head_says(const Json& json, const char* key) {
  const auto at = [&](const Json& of) {
    const auto found = of.find(key);
    return found != of.end() && (found->is_boolean() ? found->get<bool>() : !found->is_null());
  };
  const auto nested = json.find("eagle_config");
  return at(json) || (nested != json.end() && nested->is_object() && at(*nested));
}

// The layers that features come from; by default those of vLLM and of EAGLE's authors.
std::vector<int64_t> feature_layers_of(const Json& json, int64_t layers) {
  constexpr const char* kKey = "eagle_aux_hidden_state_layer_ids";
  Json list = json.value(kKey, Json());
  if (const auto nested = json.find("eagle_config"); nested != json.end() && nested->is_object())
    list = nested->value(kKey, list);
  std::vector<int64_t> ids{2, layers / 2, layers - 3};
  if (!list.is_null()) {
    ids.clear();
    for (const Json& id : list) ids.push_back(id.is_number_integer() ? id.get<int64_t>() : -1);
    std::ranges::sort(ids);
  }
  const bool rises = std::ranges::adjacent_find(ids, std::greater_equal<>()) == ids.end();
  if (!list.is_null() && !list.is_array()) ids.clear();
  if (ids.empty() || !rises || ids.front() < 0 || ids.back() > layers)
    refuse_numbers(
        fmt::format("the EAGLE head reads features behind layers {} of {}", fmt::join(ids, ", "), layers),
        fmt::format("{} in its config.json: different numbers from 0 to {}", kKey, layers));
  return ids;
}

void expect_plain_features(const Json& json) {
  for (const char* key : {"norm_before_fc", "fc_norm", "norm_output", "parallel_drafting"})
    if (head_says(json, key)) refuse_head(fmt::format("an EAGLE-3 head with {}", key));
  if (const auto nested = json.find("eagle_config"); nested != json.end() && nested->is_object())
    if (nested->value("use_aux_hidden_state", Json(true)) == Json(false))
      refuse_head("an EAGLE-3 head that reads the features of one layer");
}

// The model's tokens that the head's logits are of; empty: all.
std::vector<int32_t> words_of(const Json& json, const TensorTable& tensors, int64_t vocabulary) {
  const StoredTensor* table = tensors.find("d2t");
  const int64_t count = json.value("draft_vocab_size", Json()).is_number_integer()
                            ? json["draft_vocab_size"].get<int64_t>()
                            : vocabulary;
  if (!table && count == vocabulary) return {};
  if (!table) refuse_numbers(fmt::format("the EAGLE head has {} words, and no tensor d2t", count));
  if (table->encoding != Encoding::kI64 || table->shape != std::vector<int64_t>{count})
    refuse_numbers(fmt::format("d2t of the EAGLE head is {} [{}]; I64 [{}] is expected",
                               name(table->encoding), fmt::join(table->shape, ", "), count));
  std::vector<int32_t> words;
  for (int64_t word = 0; word < count; ++word) {
    int64_t behind = 0;
    std::memcpy(&behind, table->bytes.data() + word * int64_t{sizeof(behind)}, sizeof(behind));
    if (behind < -word || behind >= vocabulary - word)
      refuse_numbers(
          fmt::format("word {} of the EAGLE head is token {} + {} of {}", word, word, behind, vocabulary));
    words.push_back(static_cast<int32_t>(word + behind));
  }
  return words;
}

void make_third_version(Config& config, const Json& json, const TensorTable& tensors) {
  expect_plain_features(json);
  config.eagle3 = true;
  config.norm_before_residual = head_says(json, "norm_before_residual");
  config.words = words_of(json, tensors, config.vocabulary);
}

}  // namespace

bool is_eagle(const Checkpoint& file) {
  return has(file.tensors, "fc.weight") || has(file.tensors, "midlayer.hidden_norm.weight");
}

GivenWeights give_features(const Checkpoint& head, Config& model, graph::ElementType element) {
  model.features = true;
  if (!is_third_version(head.tensors)) return {};
  const Json json = json_of(head);
  expect_plain_features(json);
  expect_same("the number of features", config_of_head(json).hidden, model.hidden);
  model.feature_layers = feature_layers_of(json, model.layers);
  return {{kFeatureWeight, load_feature_weight(model, head.tensors, element)}};
}

std::unique_ptr<Engine> eagle_engine(const Checkpoint& file, const Engine& model, EngineOptions options) {
  OPENTRN_CHECK(model.config().features, "a model without features");
  const Json json = json_of(file);
  Config config = config_of_head(json);
  const bool is_third = is_third_version(file.tensors);
  if (!has(file.tensors, "fc.weight")) refuse_head("an EAGLE head without fc.weight");
  if (!is_third && has(file.tensors, "layers.0.input_layernorm.weight"))
    refuse_head("an EAGLE head that norms its input");
  expect_same("the number of features", config.hidden, model.config().hidden);
  expect_same("the vocabulary", config.vocabulary, model.config().vocabulary);
  config.eagle = config.features = true;
  config.fc_bias = has(file.tensors, "fc.bias");
  if (is_third && config.fc_bias) refuse_head("an EAGLE-3 head whose fc has a bias");
  config.tied = false;
  config.context = std::min(config.context, options.context_buckets.back());
  if (is_third) make_third_version(config, json, file.tensors);
  GivenWeights given;
  if (!has(file.tensors, "lm_head.weight") && config.words.empty())
    given.emplace("head", model.weight("head"));
  if (!has(file.tensors, "embed_tokens.weight")) given.emplace("embedding", model.weight("embedding"));
  options.generation = model.options().generation;
  options.element = model.options().element;
  options.ranks = model.options().ranks;
  options.cores_per_rank = model.options().cores_per_rank;
  options.instance = model.options().instance;
  auto weights = load_weights(config, file.tensors, FileFormat::kHuggingFace, options.element,
                              /*adapter=*/nullptr, given);
  return std::make_unique<Engine>(std::move(config), std::move(options), std::move(weights));
}

}  // namespace opentrn::decoder
