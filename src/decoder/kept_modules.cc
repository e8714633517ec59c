// Which matrices of a model with narrow weights stay as they are.
#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/fault.h"
#include "base/utf8.h"
#include "decoder/narrow.h"
#include "decoder/tensor_names.h"

namespace opentrn::decoder {

namespace {

constexpr const char* kElementLabel = "decoder.element";

// Parts of a file that a program reads as one matrix.
std::vector<std::string_view> file_parts(const Config& config, std::string_view part) {
  if (part == "qkv" && !config.by_rows) return {"q", "k", "v"};
  if (part == "gate_up") return {"gate", "up"};
  const bool stacked = config.expert_biases() || config.stacked_experts;
  if (part == "experts_gate_up" && !stacked) return {"expert_gate", "expert_up"};
  if (part == "experts_down" && !stacked) return {"expert_down"};
  if (part == "shared_gate_up") return {"shared_expert_gate", "shared_expert_up"};
  if (part == "shared_down") return {"shared_expert_down"};
  return {part};
}

std::string module_of(const Config& config, std::string_view part, std::string_view layer) {
  std::string name = tensor_name(config, FileFormat::kHuggingFace, part, layer, 0);
  constexpr std::string_view kWeight = ".weight";
  if (name.ends_with(kWeight)) name.resize(name.size() - kWeight.size());
  return name;
}

// A name, or some of its words that follow each other.
bool names(std::string_view key, std::string_view module) {
  return fmt::format(".{}.", module).find(fmt::format(".{}.", key)) != std::string::npos;
}

bool is_kept(const NarrowWeights& narrow, std::string_view module) {
  return std::ranges::any_of(narrow.kept, [&](const std::string& key) { return names(key, module); });
}

// That may be narrow.
std::vector<std::string_view> matrices_of_layer(const Config& config, int64_t layer) {
  std::vector<std::string_view> parts = {"output"};
  if (config.is_latent() && config.query_rank > 0)
    parts.insert(parts.end(), {"q_a", "q_b", "kv_a"});
  else if (config.is_latent())
    parts.insert(parts.end(), {"q", "kv_a"});
  else
    parts.insert(parts.begin(), "qkv");
  if (!config.has_experts(layer)) {
    parts.insert(parts.end(), {config.gated ? "gate_up" : "up", "down"});
    return parts;
  }
  parts.insert(parts.end(), {"experts_gate_up", "experts_down"});
  if (config.shared_features > 0) parts.insert(parts.end(), {"shared_gate_up", "shared_down"});
  return parts;
}

}  // namespace

bool is_narrow(const Config& config, std::string_view weight) {
  if (!config.narrow) return false;
  if (config.narrow->kept.empty()) return true;
  const size_t dot = weight.rfind('.');
  constexpr std::string_view kLayers = "layers.";
  OPENTRN_CHECK(dot != std::string_view::npos && weight.starts_with(kLayers), "{} is of no layer", weight);
  const std::string_view layer = weight.substr(kLayers.size(), dot - kLayers.size());
  std::vector<std::string> kept, others;
  for (const std::string_view part : file_parts(config, weight.substr(dot + 1))) {
    std::string module = module_of(config, part, layer);
    std::vector<std::string>& list = is_kept(*config.narrow, module) ? kept : others;
    list.push_back(std::move(module));
  }
  if (kept.empty() || others.empty()) return kept.empty();
  throw Fault(
      FaultKind::kInput, kElementLabel,
      fmt::format("{} stays as it is and {} does not; they are read as one matrix", kept[0], others[0]),
      "name both, or what they are parts of");
}

std::vector<std::string_view> narrow_matrices(const Config& config, int64_t layer) {
  std::vector<std::string_view> parts = matrices_of_layer(config, layer);
  std::erase_if(parts, [&](std::string_view part) {
    return !is_narrow(config, fmt::format("layers.{}.{}", layer, part));
  });
  return parts;
}

void expect_kept_modules(const Config& config) {
  if (!config.narrow || config.narrow->kept.empty()) return;
  std::vector<std::string> modules = {module_of(config, "embedding", ""), module_of(config, "head", ""),
                                      module_of(config, "norm", "")};
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    std::vector<std::string_view> matrices = matrices_of_layer(config, layer);
    if (config.has_experts(layer)) {
      matrices.emplace_back("router");  // which is never narrow
      if (config.shared_features > 0 && config.shared_gate) matrices.emplace_back("shared_gate");
    }
    for (const std::string_view matrix : matrices)
      for (const std::string_view part : file_parts(config, matrix))
        modules.push_back(module_of(config, part, fmt::format("{}", layer)));
  }
  for (const std::string& key : config.narrow->kept)
    if (std::ranges::none_of(modules, [&](const std::string& module) { return names(key, module); }))
      throw Fault(FaultKind::kInput, kElementLabel,
                  fmt::format("except={} names no module of the model", printable(key)),
                  fmt::format("there are {}, ..., {}", modules[0], modules.back()));
}

}  // namespace opentrn::decoder
