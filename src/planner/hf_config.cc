#include "planner/hf_config.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "arch/closest.h"
#include "base/text_file.h"

namespace opentrn::planner {
namespace {

using nlohmann::json;

// How a type of model differs from a Llama.
struct Type {
  const char* name;
  bool gated, tied, causal, biases, dropout, learned_positions;
};
constexpr Type kTypes[] = {
    // name            gated  tied   causal biases dropout positions
    {"llama", true, false, true, false, false, false},
    {"mistral", true, false, true, false, false, false},
    {"qwen2", true, false, true, false, false, false},
    {"qwen3", true, false, true, false, false, false},
    {"qwen3_moe", true, false, true, false, false, false},
    {"qwen2_moe", true, false, true, false, false, false},
    {"mixtral", true, false, true, false, false, false},
    {"deepseek_v2", true, false, true, false, false, false},
    {"deepseek_v3", true, false, true, false, false, false},
    {"kimi_k2", true, false, true, false, false, false},
    {"gpt_oss", true, false, true, true, false, false},
    {"granite", true, false, true, false, false, false},
    {"granitemoe", true, false, true, false, false, false},
    {"olmo", true, false, true, false, false, false},
    {"olmo2", true, false, true, false, false, false},
    {"olmoe", true, false, true, false, false, false},
    {"phi3", true, false, true, false, false, false},
    {"smollm3", true, true, true, false, false, false},
    {"stablelm", true, false, true, false, false, false},
    {"cohere", true, true, true, false, false, false},
    {"gemma", true, true, true, false, false, false},
    {"gemma2", true, true, true, false, false, false},
    {"gemma3_text", true, true, true, false, false, false},
    {"gpt2", false, true, true, true, true, true},
    {"starcoder2", false, true, true, true, true, false},
    {"phi", false, false, true, true, false, false},
    {"opt", false, true, true, true, true, true},
    {"nemotron", false, false, true, false, false, false},
    {"gpt_neox", false, false, true, true, false, false},
    {"bloom", false, true, true, true, true, false},
    {"mpt", false, true, true, false, false, false},
    {"falcon", false, true, true, false, false, false},
    {"bert", false, true, false, true, true, true},
    {"roberta", false, true, false, true, true, true},
    {"xlm-roberta", false, true, false, true, true, true},
    {"distilbert", false, true, false, true, true, true},
    {"vit", false, true, false, true, false, true},
    {"mmdit", false, true, false, true, false, false},
};

// Keys that change the sizes of the work in ways that no rule here follows.
constexpr const char* kUnsupported[] = {"vision_config",      "encoder_layers",   "decoder_layers",
                                        "is_encoder_decoder", "ssm_cfg",          "state_size",
                                        "text_config",        "attn_layer_period"};

// What `quantization_config` may say of how a checkpoint's weights are stored, as transformers has it.
constexpr std::string_view kStoredAs[] = {
    "aqlm",     "auto-round", "awq",    "bitnet",   "bitnet_158", "bitsandbytes", "compressed-tensors",
    "eetq",     "fbgemm_fp8", "fp8",    "fp_quant", "gptq",       "higgs",        "hqq",
    "modelopt", "mxfp4",      "quanto", "quark",    "spqr",       "torchao",      "vptq"};

class Reader {
 public:
  Reader(const json& config, const std::string& origin) : config_(config), origin_(origin) {}

  // The first of these keys that the config has, as a whole number above zero; 0 where it has none.
  double number_or_none(std::initializer_list<const char*> keys) const {
    for (const char* key : keys) {
      const auto found = config_.find(key);
      if (found == config_.end() || found->is_null()) continue;
      if (!found->is_number() || found->get<double>() < 0 ||
          std::floor(found->get<double>()) != found->get<double>() || found->get<double>() > 1e9)
        throw Fault(FaultKind::kInput, "plan.config",
                    fmt::format("{}: '{}' is {}", origin_, key, found->dump()),
                    "a whole number from 0 to 1000000000");
      return found->get<double>();
    }
    return 0;
  }
  int number(std::initializer_list<const char*> keys) const {
    const double value = number_or_none(keys);
    for (const char* key : keys)
      if (value <= 0 && has(key))
        throw Fault(FaultKind::kInput, "plan.config", fmt::format("{}: '{}' is 0", origin_, key),
                    "a whole number of at least 1");
    if (value <= 0)
      throw Fault(FaultKind::kInput, "plan.config",
                  fmt::format("{}: no '{}'", origin_, fmt::join(keys, "' or '")),
                  "a config.json states it; a name of the catalogue needs no file");
    return static_cast<int>(value);
  }
  bool flag(const char* key, bool otherwise) const {
    const auto found = config_.find(key);
    if (found == config_.end() || found->is_null()) return otherwise;
    if (!found->is_boolean())
      throw Fault(FaultKind::kInput, "plan.config",
                  fmt::format("{}: '{}' is {}", origin_, key, found->dump()), "true or false");
    return found->get<bool>();
  }
  std::string text(const char* key) const {
    const auto found = config_.find(key);
    return found != config_.end() && found->is_string() ? found->get<std::string>() : std::string();
  }
  const std::string& origin() const { return origin_; }
  // How weights are stored, where a config says so; plans read them as numbers of the precision asked for.
  std::string stored_as() const {
    const auto found = config_.find("quantization_config");
    if (found == config_.end() || found->is_null()) return {};
    const auto refuse = [&](const std::string& what) {
      throw Fault(FaultKind::kInput, "plan.config",
                  fmt::format("{}: 'quantization_config' {}", origin_, what),
                  fmt::format("'quant_method': {}; or a config without it", fmt::join(kStoredAs, ", ")));
    };
    if (!found->is_object()) refuse(fmt::format("is {}", found->dump()));
    const auto method = found->find("quant_method");
    if (method == found->end()) {
      // bitsandbytes was the only method once, and did not name itself.
      if (!found->contains("load_in_4bit") && !found->contains("load_in_8bit"))
        refuse("does not say its 'quant_method'");
      return "bitsandbytes";
    }
    if (!method->is_string() ||
        std::ranges::find(kStoredAs, method->get<std::string>()) == std::end(kStoredAs))
      refuse(fmt::format("has the 'quant_method' {}, which is unknown", method->dump()));
    return method->get<std::string>();
  }
  bool has_items(const char* key) const {
    const auto found = config_.find(key);
    return found != config_.end() && found->is_array() && !found->empty();
  }
  // Of an object's keys.
  int count(const char* key) const {
    const auto found = config_.find(key);
    return found != config_.end() && found->is_object() ? static_cast<int>(found->size()) : 0;
  }
  // Of a list; -1 where the config has none.
  int length(const char* key) const {
    const auto found = config_.find(key);
    return found != config_.end() && found->is_array() ? static_cast<int>(found->size()) : -1;
  }
  // How often a list has this word; -1 where the config has no such list.
  int count_of(const char* key, std::string_view word) const {
    const auto found = config_.find(key);
    if (found == config_.end() || !found->is_array()) return -1;
    return static_cast<int>(
        std::ranges::count_if(*found, [&](const json& each) { return each.is_string() && each == word; }));
  }
  // Refuses a list with other words than these.
  void expect_words(const char* key, std::initializer_list<std::string_view> known) const {
    const auto found = config_.find(key);
    if (found == config_.end() || found->is_null()) return;
    if (!found->is_array())
      throw Fault(FaultKind::kInput, "plan.config",
                  fmt::format("{}: '{}' is {}", origin_, key, found->dump()),
                  "a list, with one word for a layer");
    for (const json& each : *found)
      if (!each.is_string() || std::ranges::find(known, each.get<std::string>()) == known.end())
        throw Fault(
            FaultKind::kNotModelled, "plan.config",
            fmt::format("{}: '{}' has {}, and the planner has no rule for it", origin_, key, each.dump()),
            fmt::format("layers of {}", fmt::join(known, " and ")));
  }
  // Of whole numbers; empty where the config has none.
  std::vector<int64_t> numbers(const char* key) const {
    const auto found = config_.find(key);
    if (found == config_.end() || found->is_null()) return {};
    if (!found->is_array() ||
        !std::ranges::all_of(*found, [](const json& each) { return each.is_number_integer(); }))
      throw Fault(FaultKind::kInput, "plan.config",
                  fmt::format("{}: '{}' is {}", origin_, key, found->dump()), "a list of whole numbers");
    return found->get<std::vector<int64_t>>();
  }
  bool has(const char* key) const {
    const auto found = config_.find(key);
    return found != config_.end() && !found->is_null() && *found != false;
  }

 private:
  const json& config_;
  const std::string& origin_;
};

std::string known_types() {
  std::vector<std::string> names;
  for (const Type& type : kTypes) names.emplace_back(type.name);
  return fmt::format("{}", fmt::join(names, ", "));
}

// `of_text`: the type of what a config of text with other things has under "text_config".
const Type& type_of(const std::string& name, const std::string& origin, const std::string& of_text) {
  for (const Type& type : kTypes)
    if (name == type.name) return type;
  if (!of_text.empty())
    throw Fault(FaultKind::kInput, "plan.model_type",
                fmt::format("{}: '{}' is more than a model of text, for which the planner has no rules",
                            origin, name),
                fmt::format("its 'text_config' alone, in a file of its own, which is a '{}'", of_text));
  throw Fault(FaultKind::kInput, "plan.model_type",
              name.empty() ? fmt::format("{}: no 'model_type'", origin)
                           : fmt::format("{}: the planner has no rules for a model_type '{}'", origin, name),
              "it has: " + known_types());
}

void read_experts(Model& model, const Reader& read) {
  model.experts =
      static_cast<int>(read.number_or_none({"num_experts", "num_local_experts", "n_routed_experts"}));
  if (model.experts == 0) return;
  model.active_experts = read.number({"num_experts_per_tok", "experts_per_token"});
  model.expert_ffn = static_cast<int>(read.number_or_none({"moe_intermediate_size"}));
  if (model.expert_ffn == 0) model.expert_ffn = model.ffn;
  const double shared = read.number_or_none({"shared_expert_intermediate_size"});
  model.shared_ffn =
      static_cast<int>(shared > 0 ? shared : read.number_or_none({"n_shared_experts"}) * model.expert_ffn);
  model.dense_layers = static_cast<int>(read.number_or_none({"first_k_dense_replace"}));
  const auto dense = read.numbers("mlp_only_layers");
  for (size_t i = 0; i < dense.size(); ++i)
    if (dense[i] != static_cast<int64_t>(i))
      throw Fault(FaultKind::kNotModelled, "plan.config",
                  fmt::format("{}: 'mlp_only_layers' names layer {} and not {}", read.origin(), dense[i], i),
                  "the first layers, in order: [0, 1]");
  if (!dense.empty()) model.dense_layers = static_cast<int>(dense.size());
  for (const char* key : {"decoder_sparse_step", "moe_layer_freq"})
    if (const double step = read.number_or_none({key}); step > 1)
      throw Fault(FaultKind::kNotModelled, "plan.config",
                  fmt::format("{}: '{}' is {}", read.origin(), key, step),
                  "experts in every block, or after the first_k_dense_replace first ones: 1");
}

void read_latent(Model& model, const Reader& read) {
  model.kv_rank = static_cast<int>(read.number_or_none({"kv_lora_rank"}));
  if (model.kv_rank == 0) return;
  model.query_rank = static_cast<int>(read.number_or_none({"q_lora_rank"}));
  model.rope_dim = read.number({"qk_rope_head_dim"});
  model.nope_dim = read.number({"qk_nope_head_dim"});
  model.value_dim = read.number({"v_head_dim"});
}

// How many layers have a window, as transformers' configurations have it.
int windowed_layers(const Model& model, const Reader& read) {
  if (const int stated = read.count_of("layer_types", "sliding_attention"); stated >= 0) return stated;
  if (model.type == "gpt_oss" || model.type == "gemma2") return (model.layers + 1) / 2;
  if (model.type == "gemma3_text") {
    const double pattern = read.number_or_none({"sliding_window_pattern"});
    return model.layers - model.layers / (pattern > 0 ? static_cast<int>(pattern) : 6);
  }
  if (model.type != "qwen2" && model.type != "qwen3") return model.layers;
  const double whole = read.has("max_window_layers") ? read.number_or_none({"max_window_layers"}) : 28;
  return std::max(0, model.layers - static_cast<int>(whole));
}

void read_window(Model& model, const Reader& read) {
  read.expect_words("layer_types", {"full_attention", "sliding_attention"});
  if (const int words = read.length("layer_types"); words >= 0 && words != model.layers)
    throw Fault(FaultKind::kInput, "plan.config",
                fmt::format("{}: 'layer_types' has {} words, and there are {} layers", read.origin(), words,
                            model.layers),
                "one word for a layer");
  const double window = read.number_or_none({"sliding_window"});
  // Qwen's files state a window that they do not use.
  if (window == 0 || !read.flag("use_sliding_window", !model.type.starts_with("qwen"))) return;
  model.window_layers = windowed_layers(model, read);
  if (model.window_layers > 0) model.window = static_cast<int>(window);
}

// Patches of a square image; 0 where the config does not say its size.
int patches_of(const Reader& read, const char* size_key) {
  if (read.has_items(size_key) || read.has_items("patch_size")) return 0;
  if (!read.has(size_key) || !read.has("patch_size")) return 0;
  const int size = read.number({size_key}), patch = read.number({"patch_size"});
  if (patch > size)
    throw Fault(
        FaultKind::kInput, "plan.config",
        fmt::format("{}: a 'patch_size' of {} and a '{}' of {}", read.origin(), patch, size_key, size),
        "at most the image's size");
  return (size / patch) * (size / patch);
}

// ViT: tokens are patches, and the class's; positions are learned.
void read_image(Model& model, const Reader& read) {
  const int patches = patches_of(read, "image_size");
  model.tied = false;
  if (patches == 0) return;
  model.image_sequence = model.positions = patches + 1;
  const double channels = read.number_or_none({"num_channels"}), patch = read.number({"patch_size"});
  model.patch_features = static_cast<int>(patch * patch * (channels > 0 ? channels : 3));
  model.input_parameters = (model.patch_features + 2.0) * model.hidden;  // with a bias and the class's token
  // transformers' default where neither key says it
  constexpr int kClasses = 2;
  const double stated = read.number_or_none({"num_labels"});
  model.classes = stated > 0 ? static_cast<int>(stated) : std::max(kClasses, read.count("id2label"));
}

// Stable Diffusion 3's transformer, by the names of diffusers. What surrounds it (the text encoders, the
// autoencoder) is frozen and not part of the job.
Model mmdit_of(const Reader& read) {
  for (const char* key : {"dual_attention_layers"})
    if (read.has_items(key))
      throw Fault(FaultKind::kNotModelled, "plan.config",
                  fmt::format("{}: '{}' adds attention of the image alone", read.origin(), key),
                  "Stable Diffusion 3 Medium, or 3.5 Large");
  Model model;
  model.type = "mmdit";
  model.name = read.text("_name_or_path");
  if (model.name.empty()) model.name = "mmdit";
  model.layers = read.number({"num_layers"});
  model.heads = model.kv_heads = read.number({"num_attention_heads"});
  model.head_dim = read.number({"attention_head_dim"});
  model.hidden = model.heads * model.head_dim;
  model.ffn = 4 * model.hidden;
  model.causal = false;
  model.biases = true;
  model.streams = 2;
  const double text = read.number_or_none({"text_tokens"});
  model.text_tokens =
      text > 0 ? static_cast<int>(text) : 333;  // 77 of CLIP and 256 of T5, diffusers' default
  if (const int patches = patches_of(read, "sample_size"); patches > 0)
    model.image_sequence = patches + model.text_tokens;
  const double h = model.hidden;
  model.modulation = 6 * h * h;  // shift, scale and gate of attention and MLP
  const double patch = read.number({"patch_size"}), channels = read.number({"in_channels"});
  model.patch_features = static_cast<int>(patch * patch * channels);
  model.text_features = read.number({"joint_attention_dim"});
  model.pooled_features = read.number({"pooled_projection_dim"});
  model.input_parameters = 2.0 * model.patch_features * h + model.text_features * h + (256 + h) * h +
                           (model.pooled_features + h) * h;
  return model;
}

// Of what is stated twice JSON's readers take the last; which one is meant nobody knows.
json::parser_callback_t once_each(const std::string& origin) {
  return [origin, keys = std::vector<std::set<std::string>>()](int, json::parse_event_t event,
                                                               json& found) mutable {
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(found.get<std::string>()).second)
      throw Fault(FaultKind::kInput, "plan.config",
                  fmt::format("{}: '{}' stands there twice", origin, found.get<std::string>()),
                  "one of the two");
    return true;
  };
}

json parsed(std::string_view text, const std::string& origin) {
  const auto refuse = [&](const std::string& what) {
    throw Fault(FaultKind::kInput, "plan.config", fmt::format("{} {}", origin, what),
                "the config.json of a Hugging Face model, whole");
  };
  json config;
  try {
    config = json::parse(text, once_each(origin));
  } catch (const json::parse_error& error) {
    const size_t at = std::min(error.byte, text.size());
    const auto line = 1 + std::ranges::count(text.substr(0, at), '\n');
    refuse(fmt::format("is not JSON: its text breaks off or goes wrong in line {}, byte {} of {}", line, at,
                       text.size()));
  }
  if (!config.is_object()) refuse("is not a JSON object");
  return config;
}

void check(const Model& model, const std::string& origin) {
  const auto refuse = [&](std::string what, std::string hint) {
    throw Fault(FaultKind::kInput, "plan.config", fmt::format("{}: {}", origin, what), std::move(hint));
  };
  if (model.heads % model.kv_heads != 0)
    refuse(fmt::format("{} key and value heads do not divide {} heads", model.kv_heads, model.heads),
           "a divisor");
  if (model.active_experts > model.experts)
    refuse(fmt::format("{} of {} experts for a token", model.active_experts, model.experts),
           "at most all of them");
  if (model.dense_layers > model.layers)
    refuse(fmt::format("{} dense layers of {}", model.dense_layers, model.layers), "at most all of them");
}

}  // namespace

Model model_from_config(std::string_view text, const std::string& origin) {
  const json config = parsed(text, origin);
  const Reader read(config, origin);
  const std::string kind =
      read.text("_class_name") == "SD3Transformer2DModel" ? "mmdit" : read.text("model_type");
  const auto of_text = config.find("text_config");
  const bool has_text = of_text != config.end() && of_text->is_object();
  const Type& type = type_of(kind, origin, has_text ? Reader(*of_text, origin).text("model_type") : "");
  if (type.name == std::string_view("mmdit")) return mmdit_of(read);
  for (const char* key : kUnsupported)
    if (read.has(key))
      throw Fault(FaultKind::kNotModelled, "plan.config",
                  fmt::format("{}: '{}' changes the work, and the planner has no rule for it", origin, key),
                  "a decoder or an encoder of equal blocks: " + known_types());
  Model model;
  model.type = type.name;
  model.name = read.text("_name_or_path");
  if (model.name.empty()) model.name = model.type;
  model.stored_as = read.stored_as();
  model.gated = type.gated;
  model.causal = type.causal;
  model.biases = type.biases;
  model.dropout = type.dropout;
  model.hidden = read.number({"hidden_size", "n_embd", "d_model", "dim"});
  model.layers = read.number({"num_hidden_layers", "n_layer", "n_layers"});
  model.heads = read.number({"num_attention_heads", "n_head", "n_heads"});
  const double kv = read.number_or_none({"num_key_value_heads", "num_kv_heads"});
  // transformers writes num_kv_heads of Falcon-7B, too, and does not read it there.
  const bool one = read.has("multi_query") && (kv == 0 || !read.has("new_decoder_architecture"));
  model.kv_heads = one ? 1 : kv > 0 ? static_cast<int>(kv) : model.heads;
  const double head = read.number_or_none({"head_dim"});
  // Latent attention says the widths of its heads itself.
  const bool is_latent = read.number_or_none({"kv_lora_rank"}) > 0;
  if (head == 0 && !is_latent && model.hidden % model.heads != 0)
    throw Fault(FaultKind::kInput, "plan.config",
                fmt::format("{}: {} heads do not divide a width of {}", origin, model.heads, model.hidden),
                "state 'head_dim'");
  model.head_dim = head > 0 ? static_cast<int>(head) : model.hidden / model.heads;
  const double ffn = read.number_or_none({"intermediate_size", "n_inner", "ffn_dim", "hidden_dim"});
  model.ffn = ffn > 0 ? static_cast<int>(ffn) : 4 * model.hidden;
  if (ffn == 0 && model.gated) read.number({"intermediate_size"});
  const bool of_images = type.name == std::string_view("vit");
  model.vocabulary = of_images ? 0 : read.number({"vocab_size"});
  const bool positions = read.flag("learned_pos_emb", type.learned_positions);
  if (positions)
    model.positions = static_cast<int>(
        read.number_or_none({"max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"}));
  model.tied = read.flag("tie_word_embeddings", type.tied);
  if (of_images) read_image(model, read);
  read_window(model, read);
  read_experts(model, read);
  read_latent(model, read);
  check(model, origin);
  return model;
}

namespace {

// Letters in lower case, digits and points: what names of models differ in. "Llama-3.1-8B" is "llama3.18b".
std::string bare(std::string_view text) {
  std::string out;
  for (const unsigned char each : text)
    if (std::isalnum(each) != 0 || each == '.') out += static_cast<char>(std::tolower(each));
  return out;
}

// The catalogue's names and their aliases, bare.
std::map<std::string, std::string> bare_names(const arch::Tables& tables) {
  std::map<std::string, std::string> names;
  for (const std::string& each : tables.facts().items("model")) {
    names.emplace(bare(each), each);
    if (const arch::Fact* aliases = tables.facts().find("model." + each + ".aliases"))
      for (const std::string& alias : aliases->as<std::vector<std::string>>())
        names.emplace(bare(alias), each);
  }
  return names;
}

// The catalogue's name for a name of the caller's; empty where there is none.
std::string canonical(const arch::Tables& tables, std::string_view name) {
  const std::map<std::string, std::string> names = bare_names(tables);
  auto found = names.find(bare(name));
  // As Hugging Face has it, behind who publishes it.
  if (const size_t slash = name.rfind('/'); found == names.end() && slash != std::string_view::npos)
    found = names.find(bare(name.substr(slash + 1)));
  return found == names.end() ? std::string() : found->second;
}

}  // namespace

std::vector<std::string> model_names(const arch::Tables& tables) { return tables.facts().items("model"); }
bool has_model(const arch::Tables& tables, std::string_view name) { return !canonical(tables, name).empty(); }

std::string model_named_in(const arch::Tables& tables, std::string_view text) {
  std::vector<std::string> words{""};
  for (const char each : text) {
    const auto letter = static_cast<unsigned char>(each);
    if (std::isalnum(letter) != 0 || each == '.')
      words.back() += each;
    else if (!words.back().empty())
      words.emplace_back();
  }
  std::erase(words, "");
  if (words.size() > 24) words.resize(24);
  const std::map<std::string, std::string> names = bare_names(tables);
  for (size_t count = words.size(); count > 0; --count)
    for (size_t first = 0; first + count <= words.size(); ++first) {
      std::string joined;
      for (size_t i = first; i < first + count; ++i) joined += words[i];
      if (const auto name = names.find(bare(joined)); name != names.end()) return name->second;
    }
  return {};
}

Model model_named(const arch::Tables& tables, std::string_view name) {
  const std::string found = canonical(tables, name);
  if (found.empty())
    throw Fault(FaultKind::kInput, "plan.model",
                fmt::format("there is no model '{}', and no such file", name),
                arch::did_you_mean(name, model_names(tables),
                                   "the path of a config.json, or a name: `opentrn plan --models`"));
  json config = json::object();
  for (const arch::Fact* fact : tables.facts().under("model." + found)) {
    const std::string key(fact->name());
    if (const auto* number = std::get_if<double>(&fact->value)) config[key] = *number;
    if (const auto* flag = std::get_if<bool>(&fact->value)) config[key] = *flag;
    if (const auto* text = std::get_if<std::string>(&fact->value)) config[key] = *text;
  }
  Model model = model_from_config(config.dump(), "the catalogue's " + found);
  model.name = found;
  return model;
}

Model model_of(const arch::Tables& tables, const std::string& path_or_name) {
  std::error_code ignored;
  if (const auto inside = std::filesystem::path(path_or_name) / "config.json";
      std::filesystem::is_regular_file(inside, ignored)) {  // a folder, as Hugging Face publishes models
    Model model = model_of(tables, inside.string());
    if (model.name == "config.json")
      model.name = std::filesystem::absolute(inside).parent_path().filename().string();
    return model;
  }
  if (!std::filesystem::is_regular_file(path_or_name, ignored)) {
    if (std::filesystem::is_directory(path_or_name, ignored) && !has_model(tables, path_or_name))
      throw Fault(FaultKind::kInput, "plan.model",
                  fmt::format("the folder '{}' has no config.json", path_or_name),
                  "a folder as Hugging Face publishes models, or a name: `opentrn plan --models`");
    if (path_or_name.ends_with(".json") && !has_model(tables, path_or_name))
      throw Fault(FaultKind::kInput, "plan.model", fmt::format("there is no file '{}'", path_or_name),
                  "the path of a config.json, or a name: `opentrn plan --models`");
    return model_named(tables, path_or_name);
  }
  Model model = model_from_config(read_text_file(path_or_name, "plan.model"), path_or_name);
  if (model.name == model.type) model.name = std::filesystem::path(path_or_name).filename().string();
  return model;
}

}  // namespace opentrn::planner
