#include "decoder/eagle.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "decoder/weights.h"

namespace opentrn::decoder {

using import::weights::Checkpoint;
using import::weights::TensorTable;

namespace {

// Names of heads have "model." in front, or not.
bool has(const TensorTable& tensors, const std::string& name) {
  return tensors.find(name) || tensors.find("model." + name);
}

[[noreturn]] void refuse_head(const std::string& what) {
  throw Fault(FaultKind::kNotModelled, "decoder.eagle", what,
              "a head of EAGLE's first version: fc.weight, and one layer without a norm in front of it");
}

void expect_first_version(const TensorTable& tensors, const Config& config) {
  if (has(tensors, "midlayer.hidden_norm.weight") || has(tensors, "d2t") || !has(tensors, "fc.weight"))
    refuse_head("an EAGLE-3 head");
  if (config.layers != 1) refuse_head(fmt::format("an EAGLE head of {} layers", config.layers));
  if (has(tensors, "layers.0.input_layernorm.weight")) refuse_head("an EAGLE head that norms its input");
  if (config.experts > 0 || config.architecture != "llama")
    refuse_head(fmt::format("an EAGLE head of the architecture {}, or with experts", config.architecture));
}

void expect_same(const char* what, int64_t own, int64_t of_model) {
  if (own != of_model)
    throw Fault(FaultKind::kInput, "decoder.eagle",
                fmt::format("{} of the EAGLE head is {}, and the model's {}", what, own, of_model),
                "a head that was trained for this model");
}

}  // namespace

bool is_eagle(const Checkpoint& file) {
  return has(file.tensors, "fc.weight") || has(file.tensors, "midlayer.hidden_norm.weight");
}

std::unique_ptr<Engine> eagle_engine(const Checkpoint& file, const Engine& model, EngineOptions options) {
  OPENTRN_CHECK(model.config().features, "a model without features");
  Config config = config_of_json(file.config);
  expect_first_version(file.tensors, config);
  expect_same("the number of features", config.hidden, model.config().hidden);
  expect_same("the vocabulary", config.vocabulary, model.config().vocabulary);
  config.eagle = config.features = true;
  config.fc_bias = has(file.tensors, "fc.bias");
  config.tied = false;
  config.context = std::min(config.context, options.context_buckets.back());
  GivenWeights given;
  if (!has(file.tensors, "lm_head.weight")) given.emplace("head", model.weight("head"));
  if (!has(file.tensors, "embed_tokens.weight")) given.emplace("embedding", model.weight("embedding"));
  options.generation = model.options().generation;
  options.element = model.options().element;
  auto weights =
      load_weights(config, file.tensors, Names::kHuggingFace, options.element, /*adapter=*/nullptr, given);
  return std::make_unique<Engine>(std::move(config), std::move(options), std::move(weights));
}

}  // namespace opentrn::decoder
