// Models that read images, too: the language model that their files have inside.
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "decoder/config_json.h"

namespace opentrn::decoder {

namespace {

// `text_class`: of the language model; empty: by the model_type of its configuration.
struct WrapperRow {
  std::string_view wrapper, text_class;
};
constexpr WrapperRow kWrappers[] = {
    {"Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"},
    {"Llama4ForConditionalGeneration", "Llama4ForCausalLM"},
    {"LlavaForConditionalGeneration", ""},
    {"LlavaNextForConditionalGeneration", ""},
    {"Mistral3ForConditionalGeneration", ""},
    {"Qwen2VLForConditionalGeneration", "Qwen2ForCausalLM"},
    {"Qwen2_5_VLForConditionalGeneration", "Qwen2ForCausalLM"},
    {"Qwen3VLForConditionalGeneration", "Qwen3ForCausalLM"},
};

// What transformers' configuration_*.py of these take for keys that a file leaves out, which files of models
// with images do.
struct TypeRow {
  std::string_view type, text_class, defaults;
};
constexpr TypeRow kTypes[] = {
    {"gemma3_text", "Gemma3ForCausalLM",
     R"({"vocab_size": 262208, "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
         "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "rms_norm_eps": 1e-6,
         "max_position_embeddings": 131072, "sliding_window": 4096})"},
    {"llama", "LlamaForCausalLM",
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
         "num_attention_heads": 32, "rms_norm_eps": 1e-6, "max_position_embeddings": 2048})"},
    {"llama4_text", "Llama4ForCausalLM", "{}"},
    {"mistral", "MistralForCausalLM",
     R"({"vocab_size": 32000, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
         "num_attention_heads": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-6,
         "max_position_embeddings": 131072, "sliding_window": 4096})"},
    {"ministral3", "Ministral3ForCausalLM",
     R"({"vocab_size": 131072, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 34,
         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5,
         "max_position_embeddings": 262144})"},
    {"qwen2", "Qwen2ForCausalLM", "{}"},
    {"qwen3", "Qwen3ForCausalLM", "{}"},
};

std::string type_of(const Json& json) {
  const auto found = json.find("model_type");
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const TypeRow& row_of(const std::string& type, std::string_view text_class, std::string_view wrapper) {
  for (const TypeRow& row : kTypes)
    if (text_class.empty() ? row.type == type : row.text_class == text_class) return row;
  refuse_architecture(fmt::format("{} with a language model of the type '{}'", wrapper, printable(type)),
                      "there is a builder for those of llama, mistral, qwen2 and qwen3");
}

}  // namespace

std::optional<Json> text_of_wrapped(const Json& json, std::string_view architecture) {
  for (const WrapperRow& wrapper : kWrappers) {
    if (wrapper.wrapper != architecture) continue;
    const auto inner = json.find("text_config");
    // Older files of Qwen's have the language model's keys beside vision_config.
    const Json& stated = inner != json.end() && inner->is_object() ? *inner : json;
    const TypeRow& row = row_of(type_of(stated), wrapper.text_class, architecture);
    Json text = Json::parse(row.defaults);
    text.update(stated);
    text["architectures"] = {std::string(row.text_class)};
    return text;
  }
  return std::nullopt;
}

}  // namespace opentrn::decoder
