// Keys of config.json, and what is refused about them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "decoder/config.h"

namespace opentrn::decoder {

using Json = nlohmann::json;

// Beyond any model that is known; keeps products of sizes inside 63 bits.
inline constexpr int64_t kSizeMax = int64_t{1} << 24;
// What gpt-oss keeps its experts' gates within, where a file does not say.
inline constexpr double kGateLimit = 7;

// Whose configuration it is, where its keys mean what no other's do.
enum class Family : uint8_t {
  kLlama,
  kMistral,
  kMixtral,
  kMiniMaxM2,
  kOlmoe,
  kQwenMoe,
  kGptOss,
  kSmolLm3,
  kLlama4,
  kDeepSeekV2,
  kDeepSeekV3,
  kGlm4Moe,
  kGlm4MoeLite,
  kDots1,
  kGlm,
  kGlm4,
  kOlmo2,
  kOlmo3,
  kExaone4,
  kSeedOss,
  kErnie4_5,
  kMinistral3,
  kArcee,
  kPhi3,
  kGemma,
  kGemma2,
  kGemma3,
  kGpt2,
  kGptNeoX,
  kOpt,
  kStableLm,
  kStarCoder2,
  kPhi,
  kCohere,
  kCohere2,
  kNemotron
};

// Input fault decoder.config.
[[noreturn]] void refuse_config(std::string message, std::string hint = {});
// Not modelled, decoder.architecture.
[[noreturn]] void refuse_architecture(std::string message, std::string hint = {});

// Refuse a key of another type; without `absent` one that is not there, too.
int64_t integer(const Json& json, const char* key, std::optional<int64_t> absent = {});
double real(const Json& json, const char* key, double absent);
bool boolean(const Json& json, const char* key, bool absent);
void expect_size(std::string_view what, int64_t value);
// The first of these keys that the file has is one of `wanted`. Its name; empty where there is none.
std::string expect_activation(const Json& json, std::initializer_list<const char*> keys,
                              std::initializer_list<std::string_view> wanted);

// Which layers have a window: as layer_types says, else every one but each `pattern`-th; 0: every one.
void add_windows(Config& config, const Json& json, int64_t pattern);

// What the family has beyond Llama's keys, of which `config` has the numbers.
void add_windows_of_qwen(Config& config, const Json& json, Family family);
void add_activation(Config& config, const Json& json);
void add_gemma(Config& config, const Json& json, Family family);
void add_smollm3(Config& config, const Json& json);
void add_phi3(Config& config, const Json& json);
void add_glm(Config& config, const Json& json, Family family);
void add_olmo2(Config& config, const Json& json, Family family);
void add_llama4(Config& config, const Json& json);
void add_deepseek(Config& config, const Json& json, Family family);
void add_glm4_moe(Config& config, const Json& json);
void add_minimax_m2(Config& config, const Json& json);
void add_olmoe(Config& config, const Json& json);
void add_dots1(Config& config, const Json& json);
void add_exaone4(Config& config, const Json& json);
void add_seed_oss(Config& config, const Json& json);
void add_ernie4_5(Config& config, const Json& json);
void add_ministral3(Config& config, const Json& json);
void add_arcee(Config& config, const Json& json);
void add_gpt_oss(Config& config, const Json& json);
void add_experts(Config& config, const Json& json, Family family);
// The part of each head's features that positions turn; transformers 5 writes it into rope_parameters.
void add_turned_share(Config& config, const Json& json, const char* key, double absent);

// Of the class that architectures names first; checked.
Config config_of_class(const Json& json);
// Input fault decoder.config for sizes that are none, or beyond what is read.
void check_sizes(const Config& config);

// Of a class that reads images, too: config.json of the language model inside. None of other classes.
std::optional<Json> text_of_wrapped(const Json& json, std::string_view architecture);

// Models with layer norms, whose keys are their own: Config without its positions' scaling, which
// add_rope_of_json() reads, and not yet checked.
Config config_of_gpt2(const Json& json);
Config config_of_gpt_neox(const Json& json);
Config config_of_opt(const Json& json);
Config config_of_stablelm(const Json& json);
Config config_of_starcoder2(const Json& json);
Config config_of_phi(const Json& json);
Config config_of_cohere(const Json& json, Family family);
Config config_of_nemotron(const Json& json);

}  // namespace opentrn::decoder
