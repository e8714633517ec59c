// The tables of keys: a row for each.
#include "server/neuron_config.h"

namespace opentrn::server {

namespace {

using nlohmann::json;

constexpr const char* kOneCore = "the model is served by one group of tensor-parallel NeuronCores";
constexpr const char* kKernels = "which kernels run is the compiler's choice here";
constexpr const char* kNoQuantisation = "weights are bf16, f16 or f32, and int8, fp8 or MX by --quantization";
constexpr const char* kNarrow = "int8, f8e4m3 or f8e5m2 matrices of layers; not the head, not embeddings";
constexpr const char* kKept = "modules whose matrices are not made narrow";
constexpr const char* kOnDevice =
    "programs give tokens, and no logits, where no request of a step has a grammar, penalty, bias or log "
    "probability: "
    "the likeliest ones at temperature 0 and, with do_sample true or all_greedy false, drawn ones, among all "
    "tokens or "
    "those that the request's top_k, top_p and min_p leave; its other attributes are without effect; with "
    "--step-times "
    "the table says";
constexpr const char* kLookup =
    "guesses are asked for by --speculative-config: prompt lookup, a draft model, or an EAGLE head";
constexpr const char* kMedusa =
    "guesses come from prompt lookup, a draft model, or an EAGLE head (--speculative-config)";
constexpr const char* kDiff = "opentrn diff compares tensors of a model";
constexpr const char* kParts = "policy neuron reads long prompts in parts";

ConfigKey honoured(const char* key, const char* why, const char* setting, std::vector<json> only = {}) {
  return {key, Verdict::kHonoured, why, setting, std::move(only)};
}

ConfigKey without_effect(const char* key, const char* why) {
  return {key, Verdict::kWithoutEffect, why, "", {}};
}

// A key whose usual value changes nothing and whose others are refused.
ConfigKey fixed(const char* key, const char* why, std::vector<json> usual = {}) {
  usual.emplace_back(nullptr);
  return {key, Verdict::kRefused, why, "", std::move(usual)};
}

std::vector<ConfigKey> vllm_neuron() {
  return {
      honoured("num_batched_tokens_buckets", "the prefill programs", "token_buckets"),
      honoured("num_seqs_buckets", "the sequences of decode programs", "sequence_buckets"),
      honoured("decode_context_length_buckets", "the positions of decode programs", "context_buckets"),
      honoured("enable_structured_outputs", "false: requests with a grammar are refused", "structured"),
      honoured("max_logprobs", "more are refused", "max_logprobs"),
      honoured("quantization", "bf16, or on trn3 matrices of layers in MX types", "mx_type",
               {nullptr, "bf16", "mxfp4", "mxfp8"}),
      honoured("on_device_sampling_config", kOnDevice, "on_device_sampling"),
      without_effect("all2all_backend", kOneCore),
      fixed("kv_segment_size_buckets",
            "a prompt behind a found prefix runs a prefill program over its whole context"),
      honoured("modules_to_not_convert", kKept, "modules_to_not_convert"),
      fixed("fp8_packed_kv", "keys and values have the weights' type", {false}),
      fixed("blockwise_fp8", kNoQuantisation, {false}),
      fixed("ep_degree", kOneCore, {1}),
      fixed("attention_dp_size", kOneCore, {1}),
      fixed("embedding_dp_size", kOneCore, {1}),
      fixed("lm_head_dp_size", kOneCore, {1}),
      fixed("mlp_dp_size", kOneCore, {1}),
      fixed("tensor_capture", kDiff),
      fixed("tensor_replacement", kDiff),
      fixed("debug_logits_dir", kDiff),
      fixed("vision_neuron_config", "the model reads text"),
  };
}

std::vector<ConfigKey> nxd_inference() {
  std::vector<ConfigKey> rows{
      honoured("batch_size", "requests at once", "max_num_seqs"),
      honoured("max_batch_size", "requests at once", "max_num_seqs"),
      honoured("tkg_batch_size", "requests at once", "max_num_seqs"),
      honoured("seq_len", "positions of a request", "max_model_len"),
      honoured("n_positions", "positions of a request", "max_model_len"),
      honoured("max_length", "positions of a request", "max_model_len"),
      honoured("context_encoding_buckets", "the prefill programs", "token_buckets"),
      honoured("token_generation_buckets", "the positions of decode programs", "context_buckets"),
      honoured("token_generation_batches", "the sequences of decode programs", "sequence_buckets"),
      honoured("is_prefix_caching", "whether prefixes are looked for", "prefix_caching"),
      honoured("pa_num_blocks", "KV blocks", "num_blocks"),
      honoured("skip_warmup", "programs are compiled when they are needed", "cold"),
      honoured("torch_dtype", "of weights, keys and values", "dtype", {"bfloat16", "float16", "float32"}),
      fixed("pa_block_size", "a block has 32 positions", {32}),
      fixed("ctx_batch_size", "one prompt is read at a time", {1}),
      fixed("is_continuous_batching", "requests come and go at every step", {true}),
      fixed("is_block_kv_layout", "keys and values lie in blocks", {true}),
      fixed("enable_bucketing", "programs have fixed sizes", {true}),
      honoured("tp_degree", "NeuronCores that share the model; --instance says of which machine", "ranks"),
      fixed("cp_degree", kOneCore, {1}),
      fixed("pp_degree", kOneCore, {1}),
      fixed("ep_degree", kOneCore, {1}),
      fixed("attention_dp_degree", kOneCore, {1}),
      fixed("logical_nc_config", "the target's logical core is one physical core", {1}),
      fixed("sequence_parallel_enabled", kOneCore, {false}),
      fixed("flash_decoding_enabled", kOneCore, {false}),
      without_effect("vocab_parallel", kOneCore),
      honoured("quantized", kNarrow, "quantized"),
      honoured("quantization_dtype", kNarrow, "quantization_dtype", {"int8", "f8e4m3", "f8e5m2"}),
      honoured("quantization_type", "a scale for each tensor, or for each of its outputs",
               "quantization_type", {"per_tensor_symmetric", "per_channel_symmetric"}),
      honoured("modules_to_not_convert", kKept, "modules_to_not_convert"),
      honoured("kv_cache_quant", "keys and values in fp8_e4m3", "kv_cache_quant"),
      fixed("is_chunked_prefill", kParts, {false}),
      fixed("chunked_prefill_config", kParts),
      fixed("windowed_context_encoding_size", kParts),
      fixed("speculation_length", kLookup, {0}),
      fixed("enable_fused_speculation", kLookup, {false}),
      fixed("enable_eagle_speculation", kLookup, {false}),
      fixed("is_medusa", kMedusa, {false}),
      fixed("lora_config", "--lora-modules names adapters"),
      fixed("async_mode", "a step is planned when the one before it has ended; opentrn replay has the other",
            {false}),
      honoured("on_device_sampling_config", kOnDevice, "on_device_sampling"),
      without_effect("output_logits", "logits are on the host anyway"),
      without_effect("padding_side", "padding is written nowhere"),
      without_effect("save_sharded_checkpoint", "weights are read from the model's files"),
      honoured("target", "the chip", "target"),
  };
  for (const char* key : {"fused_qkv", "attn_kernel_enabled", "qkv_kernel_enabled", "mlp_kernel_enabled",
                          "attn_tkg_nki_kernel_enabled", "attn_block_tkg_nki_kernel_enabled",
                          "out_proj_kernel_enabled", "cc_pipeline_tiling_factor", "scratchpad_page_size"})
    rows.push_back(without_effect(key, kKernels));
  return rows;
}

}  // namespace

std::span<const ConfigKey> keys_of(Plugin plugin) {
  static const std::vector<ConfigKey> kVllmNeuron = vllm_neuron(), kNxdInference = nxd_inference();
  return plugin == Plugin::kVllmNeuron ? kVllmNeuron : kNxdInference;
}

}  // namespace opentrn::server
