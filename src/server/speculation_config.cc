// vLLM's --speculative-config.
//
// A request's newest tokens are looked for in its own text, and what followed there is guessed to follow
// again; or a smaller model says the likeliest tokens. A step computes the guesses behind the newest token,
// and keeps as many as the request's sampling would have chosen itself, so answers do not change but for the
// rounding of another program.
#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "server/neuron_config.h"

namespace opentrn::server {

namespace {

using nlohmann::ordered_json;

constexpr std::pair<std::string_view, std::string_view> kHonouredKeys[] = {
    {"method",
     "ngram: guesses are looked up in a request's own text; draft_model: a smaller model makes them; eagle, "
     "eagle3: an "
     "EAGLE head of the model (of the first or the third version, without a tree) does"},
    {"model", "that makes the guesses: a file, a folder or a name, as the server's own"},
    {"num_speculative_tokens", "guesses of a request in a step, at most"},
    {"prompt_lookup_max", "the most tokens that are looked for (prompt_lookup_min, else 5)"},
    {"prompt_lookup_min", "the fewest (prompt_lookup_max, else 5)"},
};
// Keys of methods with a model that makes the guesses, and of how vLLM runs them.
constexpr std::string_view kOfOthers[] = {"draft_tensor_parallel_size",
                                          "draft_sample_method",
                                          "quantization",
                                          "max_model_len",
                                          "revision",
                                          "code_revision",
                                          "attention_backend",
                                          "moe_backend",
                                          "draft_load_config",
                                          "draft_model_config",
                                          "draft_parallel_config",
                                          "tensor_parallel_size",
                                          "enforce_eager",
                                          "disable_padded_drafter_batch",
                                          "speculative_token_tree",
                                          "parallel_drafting",
                                          "use_local_argmax_reduction",
                                          "suffix_decoding_max_tree_depth",
                                          "suffix_decoding_max_cached_requests",
                                          "suffix_decoding_max_spec_factor",
                                          "suffix_decoding_min_token_prob",
                                          "rejection_sample_method",
                                          "synthetic_acceptance_rate",
                                          "disable_by_batch_size"};
constexpr const char* kOthers =
    "guesses come from prompt lookup (ngram), a draft model (draft_model) or an EAGLE head (eagle, eagle3), "
    "which run "
    "as the server's model does";
// Methods, and the version of the EAGLE head that each has.
constexpr std::pair<std::string_view, int64_t> kMethods[] = {
    {"ngram", 0}, {"draft_model", 0}, {"eagle", 1}, {"eagle3", 3}};
constexpr int64_t kLength = 5, kTokensMax = 511;

Fault speculation_fault(const std::string& message, const std::string& hint = "") {
  return Fault(FaultKind::kInput, "serve.settings", "speculative-config: " + message, hint);
}

const std::pair<std::string_view, std::string_view>* honoured(std::string_view key) {
  const auto found =
      std::ranges::find(kHonouredKeys, key, &std::pair<std::string_view, std::string_view>::first);
  return found == std::end(kHonouredKeys) ? nullptr : found;
}

bool is_of_others(std::string_view key) { return std::ranges::find(kOfOthers, key) != std::end(kOfOthers); }

const std::pair<std::string_view, int64_t>* method_of(const ordered_json& value) {
  if (!value.is_string()) return nullptr;
  const auto found = std::ranges::find(kMethods, value.get_ref<const std::string&>(),
                                       &std::pair<std::string_view, int64_t>::first);
  return found == std::end(kMethods) ? nullptr : found;
}

Fault unknown(const std::string& key) {
  return speculation_fault(fmt::format("there is no key {}", key),
                           fmt::format("one of {}", fmt::join(speculation_keys(true), ", ")));
}

std::optional<int64_t> number(const ordered_json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return std::nullopt;
  const bool fits =
      found->is_number_integer() &&
      (!found->is_number_unsigned() || found->get<uint64_t>() <= static_cast<uint64_t>(kTokensMax)) &&
      found->get<int64_t>() >= 1 && found->get<int64_t>() <= kTokensMax;
  if (!fits)
    throw speculation_fault(fmt::format("{} is {}; 1 to {} are read", key, found->dump(), kTokensMax));
  return found->get<int64_t>();
}

// The draft model; "" for prompt lookup.
std::string draft_of(const ordered_json& config, bool looks_up) {
  const ordered_json model = config.value("model", ordered_json());
  if (looks_up) {
    if (!model.is_null())
      throw speculation_fault("method is ngram, which has no model", "leave one of the two out");
    return "";
  }
  if (!model.is_string() || model.get_ref<const std::string&>().empty())
    throw speculation_fault(fmt::format("model is {}", model.dump()),
                            "the draft model, as serve takes a model");
  for (const char* key : {"prompt_lookup_max", "prompt_lookup_min"})
    if (config.contains(key))
      throw speculation_fault(fmt::format("{} is of prompt lookup, and a model makes the guesses", key),
                              "leave it out");
  return model.get<std::string>();
}

}  // namespace

std::vector<std::string> speculation_keys(bool of_ours) {
  std::vector<std::string> keys;
  if (of_ours)
    for (const auto& [key, why] : kHonouredKeys) keys.emplace_back(key);
  else
    keys.assign(std::begin(kOfOthers), std::end(kOfOthers));
  return keys;
}

std::vector<Explained> explained_speculation(const ordered_json& config) {
  std::vector<Explained> rows;
  for (const auto& [key, value] : config.items()) {
    const bool other_method = key == "method" && !method_of(value);
    if (const auto* row = honoured(key); row && !other_method)
      rows.push_back({key, value, Verdict::kHonoured, std::string(row->second)});
    else if (other_method || is_of_others(key))
      rows.push_back({key, value, Verdict::kRefused, kOthers});
    else
      throw unknown(key);
  }
  return rows;
}

Speculation speculation_of(const ordered_json& config) {
  if (config.empty()) return {};
  for (const auto& [key, value] : config.items()) {
    if (is_of_others(key))
      throw speculation_fault(fmt::format("{} is refused; {}", key, kOthers),
                              R"({"method": "ngram", "num_speculative_tokens": 4})");
    if (!honoured(key)) throw unknown(key);
  }
  const ordered_json stated =
      config.value("method", ordered_json(config.contains("model") ? "draft_model" : "ngram"));
  const auto* method = method_of(stated);
  if (!method) throw speculation_fault(fmt::format("method is {}; {}", stated.dump(), kOthers));
  Speculation made{.model = draft_of(config, method->first == "ngram"), .eagle = method->second};
  const auto tokens = number(config, "num_speculative_tokens");
  const auto longest = number(config, "prompt_lookup_max"), shortest = number(config, "prompt_lookup_min");
  if (!tokens)
    throw speculation_fault("num_speculative_tokens is missing", fmt::format("1 to {}", kTokensMax));
  made.tokens = *tokens;
  made.longest = longest ? *longest : shortest.value_or(kLength);
  made.shortest = shortest ? *shortest : longest.value_or(kLength);
  if (made.shortest > made.longest)
    throw speculation_fault(
        fmt::format("prompt_lookup_min is {}, and prompt_lookup_max {}", made.shortest, made.longest));
  return made;
}

}  // namespace opentrn::server
