#include "server/neuron_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "base/fault.h"

namespace opentrn::server {
namespace neuron_config_test {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr Plugin kVllm = Plugin::kVllmNeuron, kNxd = Plugin::kNxdInference;

ordered_json json(const char* text) { return ordered_json::parse(text); }

std::string refusal(const std::function<void()>& refused, const char* label) {
  try {
    refused();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), label);
    return fault.what();
  }
  return "nothing was refused";
}

std::string refused(Plugin plugin, const char* config) {
  return refusal([&] { (void)changes(json(config), plugin); }, "serve.neuron_config");
}

TEST(NeuronConfig, EachKeyHasAVerdict) {
  const std::tuple<Plugin, const char*, Verdict> rows[] = {
      {kVllm, R"({"num_seqs_buckets": [1, 4]})", Verdict::kHonoured},
      {kVllm, R"({"quantization": "mxfp4"})", Verdict::kHonoured},
      {kVllm, R"({"quantization": "int4"})", Verdict::kRefused},
      {kVllm, R"({"ep_degree": 1})", Verdict::kWithoutEffect},
      {kVllm, R"({"ep_degree": null})", Verdict::kWithoutEffect},
      {kVllm, R"({"ep_degree": true})", Verdict::kRefused},
      {kVllm, R"({"ep_degree": 8})", Verdict::kRefused},
      {kNxd, R"({"torch_dtype": "bfloat16"})", Verdict::kHonoured},
      {kNxd, R"({"fused_qkv": true})", Verdict::kWithoutEffect},
      {kNxd, R"({"async_mode": true})", Verdict::kRefused},
  };
  for (const auto& [plugin, config, verdict] : rows) {
    const auto found = explained(json(config), plugin);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].verdict, verdict) << config;
    EXPECT_FALSE(found[0].why.empty());
    if (verdict == Verdict::kRefused)
      EXPECT_THAT(refused(plugin, config), HasSubstr("not possible"));
    else
      EXPECT_NO_THROW((void)changes(json(config), plugin));
  }
}

TEST(NeuronConfig, KeysOfATableDiffer) {
  for (const Plugin plugin : {kVllm, kNxd}) {
    std::set<std::string> seen;
    for (const ConfigKey& row : keys_of(plugin)) {
      EXPECT_TRUE(seen.insert(row.key).second) << row.key;
      EXPECT_EQ(row.verdict == Verdict::kHonoured, !row.setting.empty()) << row.key;
    }
  }
}

TEST(NeuronConfig, SettingsTakeTheValues) {
  const std::tuple<Plugin, const char*, const char*> rows[] = {
      {kVllm, "{}", "{}"},
      {kVllm, R"({"num_seqs_buckets": [1, 4], "max_logprobs": 3})",
       R"({"sequence_buckets": [1, 4], "max_logprobs": 3})"},
      {kVllm, R"({"quantization": "bf16"})", R"({"dtype": "bf16"})"},
      {kVllm, R"({"quantization": "mxfp4", "modules_to_not_convert": ["a"]})",
       R"({"quantization": "mxfp4,except=a"})"},
      {kVllm, R"({"on_device_sampling_config": {"do_sample": true}})",
       R"({"on_device_sampling": "drawn-truncated"})"},
      {kVllm, R"({"on_device_sampling_config": {"top_k": 5}})", R"({"on_device_sampling": "likeliest"})"},
      {kNxd, R"({"torch_dtype": "float32", "skip_warmup": true})", R"({"dtype": "f32", "warm": false})"},
      {kNxd, R"({"skip_warmup": false, "kv_cache_quant": true})", R"({"kv_cache_dtype": "fp8_e4m3"})"},
      {kNxd, R"({"batch_size": 4, "tkg_batch_size": 4})", R"({"max_num_seqs": 4})"},
      {kNxd, R"({"quantized": true})", R"({"quantization": "int8,per_tensor_symmetric"})"},
      {kNxd,
       R"({"quantized": true, "quantization_dtype": "f8e4m3", "quantization_type": "per_channel_symmetric",
                 "modules_to_not_convert": ["lm_head", "self_attn"]})",
       R"({"quantization": "fp8_e4m3,per_channel_symmetric,except=lm_head,except=self_attn"})"},
      {kNxd, R"({"quantized": false, "modules_to_not_convert": []})", "{}"},
  };
  for (const auto& [plugin, config, settings] : rows)
    EXPECT_EQ(nlohmann::json(changes(json(config), plugin)), nlohmann::json::parse(settings)) << config;
}

TEST(NeuronConfig, ValuesThatAreNoneAreRefused) {
  const std::tuple<Plugin, const char*, const char*> rows[] = {
      {kVllm, R"({"num_seq_buckets": [1]})", "not a key"},
      {kVllm, R"({"num_seqs_buckets": [4, 1]})", "ascending"},
      {kVllm, R"({"num_seqs_buckets": []})", "ascending"},
      {kVllm, R"({"num_seqs_buckets": 4})", "ascending"},
      {kVllm, R"({"num_seqs_buckets": [99999999999999999999]})", "ascending"},
      {kVllm, R"({"max_logprobs": true})", "not a number"},
      {kVllm, R"({"max_logprobs": 18446744073709551615})", "not a number"},
      {kVllm, R"({"enable_structured_outputs": 1})", "neither"},
      {kVllm, R"({"on_device_sampling_config": 3})", "not an object"},
      {kVllm, R"({"on_device_sampling_config": {"top_j": 5}})", "top_k?"},
      {kVllm, R"({"on_device_sampling_config": {"do_sample": 1}})", "neither"},
      {kVllm, R"({"on_device_sampling_config": {"do_sample": true, "all_greedy": true}})", "all_greedy too"},
      {kVllm, R"({"modules_to_not_convert": ["lm_head"]})", "nothing is quantised"},
      {kNxd, R"({"batch_size": 4, "tkg_batch_size": 8})", "another key"},
      {kNxd, R"({"target": 2})", "not a name"},
      {kNxd, R"({"quantized": true, "modules_to_not_convert": "lm_head"})", "not a list of modules"},
      {kNxd, R"({"quantized": true, "modules_to_not_convert": ["a,b"]})", "not a list of modules"},
      {kNxd, R"({"tp_degree": 0})", "not a number"},
  };
  for (const auto& [plugin, config, message] : rows)
    EXPECT_THAT(refused(plugin, config), HasSubstr(message)) << config;
}

std::string refused_speculation(const char* config) {
  return refusal([&] { (void)speculation_of(json(config)); }, "serve.settings");
}

TEST(SpeculationConfig, ValuesAreRead) {
  EXPECT_EQ(speculation_of(json("{}")), Speculation{});
  const auto looked_up = [](int64_t tokens, int64_t longest, int64_t shortest) {
    return Speculation{.tokens = tokens, .longest = longest, .shortest = shortest};
  };
  EXPECT_EQ(speculation_of(json(R"({"num_speculative_tokens": 3})")), looked_up(3, 5, 5));
  EXPECT_EQ(speculation_of(json(R"({"num_speculative_tokens": 3, "prompt_lookup_max": 7})")),
            looked_up(3, 7, 7));
  EXPECT_EQ(speculation_of(json(R"({"num_speculative_tokens": 3, "prompt_lookup_min": 2})")),
            looked_up(3, 2, 2));
  EXPECT_EQ(speculation_of(json(R"({"method": "eagle3", "model": "head", "num_speculative_tokens": 2})")),
            (Speculation{.tokens = 2, .model = "head", .eagle = 3}));
  EXPECT_EQ(speculation_of(json(R"({"model": "small", "num_speculative_tokens": 2})")),
            (Speculation{.tokens = 2, .model = "small"}));
}

TEST(SpeculationConfig, WhatIsNotHonouredIsRefused) {
  const std::pair<const char*, const char*> rows[] = {
      {R"({"method": "medusa", "num_speculative_tokens": 3})", R"(method is "medusa")"},
      {R"({"method": 3})", "method is 3"},
      {R"({"method": "ngram"})", "num_speculative_tokens is missing"},
      {R"({"num_speculative_tokens": 0})", "num_speculative_tokens is 0"},
      {R"({"num_speculative_tokens": true})", "num_speculative_tokens is true"},
      {R"({"num_speculative_tokens": 18446744073709551615})", "1 to 511"},
      {R"({"num_speculative_tokens": 3, "prompt_lookup_max": "4"})", R"(prompt_lookup_max is "4")"},
      {R"({"num_speculative_tokens": 3, "prompt_lookup_max": 2, "prompt_lookup_min": 3})",
       "prompt_lookup_min is 3"},
      {R"({"num_tokens": 3})", "no key num_tokens"},
      {R"({"num_speculative_tokens": 3, "revision": 1})", "revision is refused"},
      {R"({"method": "ngram", "model": "m"})", "has no model"},
      {R"({"method": "draft_model", "num_speculative_tokens": 3})", "model is null"},
      {R"({"model": "m", "num_speculative_tokens": 3, "prompt_lookup_max": 2})", "is of prompt lookup"},
  };
  for (const auto& [config, message] : rows)
    EXPECT_THAT(refused_speculation(config), HasSubstr(message)) << config;
}

TEST(SpeculationConfig, EveryKeyIsExplained) {
  const auto rows = explained_speculation(json(R"({"method": "medusa", "model": "m", "revision": 1})"));
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].verdict, Verdict::kRefused);
  EXPECT_EQ(rows[1].verdict, Verdict::kHonoured);
  EXPECT_EQ(rows[2].verdict, Verdict::kRefused);
  EXPECT_THAT(refusal([&] { (void)explained_speculation(json(R"({"tokens": 4})")); }, "serve.settings"),
              HasSubstr("no key tokens"));
}

}  // namespace neuron_config_test
}  // namespace opentrn::server
