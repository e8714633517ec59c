#include "planner/hf_config.h"

#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/temporary_folder_for_test.h"

namespace opentrn::planner {
namespace {

using testing::HasSubstr;

double billions(const char* name) { return model_named(arch::default_tables(), name).parameters() / 1e9; }

// Published counts, of the models' cards and papers.
TEST(HfConfig, CountsTheParametersThatArePublished) {
  EXPECT_NEAR(billions("Llama-2-7B"), 6.738, 0.001);
  EXPECT_NEAR(billions("Llama-3.1-8B"), 8.030, 0.001);
  EXPECT_NEAR(billions("Llama-3.1-70B"), 70.554, 0.001);
  EXPECT_NEAR(billions("Llama-3.1-405B"), 405.9, 0.1);
  EXPECT_NEAR(billions("Mixtral-8x7B"), 46.703, 0.001);
  EXPECT_NEAR(billions("Qwen3-30B-A3B"), 30.5, 0.1);
  EXPECT_NEAR(billions("Qwen3-235B-A22B"), 235.1, 0.1);
  EXPECT_NEAR(billions("DeepSeek-V3"), 671.0, 0.5);
  EXPECT_NEAR(billions("Kimi-K2"), 1026, 2);
  EXPECT_NEAR(billions("BLOOM-176B"), 176.2, 0.1);
  EXPECT_NEAR(billions("GPT-NeoX-20B"), 20.55, 0.02);
  EXPECT_NEAR(billions("BERT-Large"), 0.335, 0.001);
}

TEST(HfConfig, CountsWhatOneTokenMeets) {
  EXPECT_NEAR(model_named(arch::default_tables(), "Mixtral-8x7B").active_parameters() / 1e9, 12.88, 0.01);
  EXPECT_NEAR(model_named(arch::default_tables(), "DeepSeek-V3").active_parameters() / 1e9, 37.6, 0.2);
}

constexpr const char* kLlama = R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
  "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 1000})";

std::string refusal(const std::string& text) {
  try {
    model_from_config(text, "config.json");
  } catch (const Fault& fault) {
    return std::string(fault.what());
  }
  return "taken";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(HfConfig, TakesAConfig) {
  const Model model = model_from_config(kLlama, "config.json");
  EXPECT_EQ(model.head_dim, 16);
  EXPECT_EQ(model.kv_heads, 4);
  EXPECT_DOUBLE_EQ(model.parameters(), 2.0 * 1000 * 64 + 2 * (4 * 64 * 64 + 3 * 64 * 128 + 2 * 64) + 64);
}

TEST(HfConfig, SaysWhatAConfigHasAndWhatItMayHave) {
  EXPECT_THAT(refusal(std::string(kLlama).substr(0, 70)),
              HasSubstr("is not JSON: its text breaks off or goes wrong in line 2, byte 70 of 70"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("config.json is not a JSON object"));
  EXPECT_THAT(refusal(replaced(kLlama, "\"num_attention_heads\": 4", "\"num_attention_heads\": 0")),
              HasSubstr("'num_attention_heads' is 0"));
  EXPECT_THAT(refusal(replaced(kLlama, "64", "1000000000000")), HasSubstr("from 0 to 1000000000"));
  // Hybrids state what their layers are; this was planned as attention in every layer.
  const auto layers = [](const std::string& words) {
    return refusal(replaced(kLlama, "\"vocab_size\"", "\"layer_types\": [" + words + "], \"vocab_size\""));
  };
  EXPECT_THAT(layers(R"("full_attention", "linear_attention")"),
              HasSubstr("'layer_types' has \"linear_attention\", and the planner has no rule for it"));
  EXPECT_EQ(layers(R"("full_attention", "sliding_attention")"), "taken");
}

TEST(HfConfig, TakesAFolder) {
  const TemporaryFolderForTest folder;
  const auto model = folder.path() / "My-Llama";
  std::filesystem::create_directory(model);
  const auto refused = [&] {
    try {
      model_of(arch::default_tables(), model.string());
    } catch (const Fault& fault) {
      return std::string(fault.what());
    }
    return std::string();
  };
  EXPECT_THAT(refused(), HasSubstr("My-Llama' has no config.json"));
  std::ofstream(model / "config.json") << kLlama;
  EXPECT_EQ(model_of(arch::default_tables(), model.string()).name, "My-Llama");
  EXPECT_EQ(model_of(arch::default_tables(), model.string()).layers, 2);
}

Model of_type(const std::string& type, const std::string& keys) {
  return model_from_config("{\"model_type\": \"" + type + "\", " + keys + "}", "config.json");
}

// Published counts of models whose types the catalogue has not.
TEST(HfConfig, CountsTheParametersOfOtherTypes) {
  const auto billions_of = [](const Model& model) { return model.parameters() / 1e9; };
  const std::string olmo = R"("hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "vocab_size": 50304, "tie_word_embeddings": false)";
  EXPECT_NEAR(billions_of(of_type("olmo", olmo)), 6.888, 0.001);
  EXPECT_NEAR(billions_of(of_type("phi3", R"("hidden_size": 3072, "intermediate_size": 8192,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064)")),
              3.821, 0.001);
  EXPECT_NEAR(billions_of(of_type("cohere", R"("hidden_size": 8192, "intermediate_size": 22528,
    "num_hidden_layers": 40, "num_attention_heads": 64, "vocab_size": 256000)")),
              34.98, 0.01);
  EXPECT_NEAR(billions_of(of_type("gemma2", R"("hidden_size": 3584, "intermediate_size": 14336,
    "num_hidden_layers": 42, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 256,
    "vocab_size": 256000)")),
              9.242, 0.001);
  EXPECT_NEAR(billions_of(of_type("granite", R"("hidden_size": 4096, "intermediate_size": 12800,
    "num_hidden_layers": 40, "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 49155,
    "tie_word_embeddings": true)")),
              8.171, 0.001);
  EXPECT_NEAR(billions_of(of_type("olmoe", R"("hidden_size": 2048, "intermediate_size": 1024,
    "num_hidden_layers": 16, "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
    "vocab_size": 50304)")),
              6.919, 0.001);
  EXPECT_NEAR(billions_of(of_type("starcoder2", R"("hidden_size": 3072, "intermediate_size": 12288,
    "num_hidden_layers": 30, "num_attention_heads": 24, "num_key_value_heads": 2, "vocab_size": 49152)")),
              3.030, 0.001);
  EXPECT_NEAR(billions_of(of_type("phi", R"("hidden_size": 2560, "intermediate_size": 10240,
    "num_hidden_layers": 32, "num_attention_heads": 32, "vocab_size": 51200)")),
              2.780, 0.001);
  EXPECT_NEAR(
      billions_of(of_type("distilbert", R"("dim": 768, "hidden_dim": 3072, "n_layers": 6, "n_heads": 12,
    "vocab_size": 30522, "max_position_embeddings": 512)")),
      0.066, 0.001);
}

TEST(HfConfig, FalconHasOneHeadOfKeysUnlessItIsOfTheNewArchitecture) {
  const std::string sizes = R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 8,
    "vocab_size": 100, "multi_query": true, )";
  EXPECT_EQ(of_type("falcon", sizes + R"("num_kv_heads": 8)").kv_heads, 1);
  EXPECT_EQ(of_type("falcon", sizes + R"("num_kv_heads": 2, "new_decoder_architecture": true)").kv_heads, 2);
}

TEST(HfConfig, WindowsAreThoseOfTheTypesLayers) {
  const auto layers = [](const char* type, const std::string& keys) {
    const Model model = of_type(type, R"("hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 26,
      "num_attention_heads": 8, "vocab_size": 100, "sliding_window": 32, )" +
                                          keys);
    EXPECT_EQ(model.window, model.window_layers > 0 ? 32 : 0);
    return model.window_layers;
  };
  EXPECT_EQ(layers("mistral", R"("head_dim": 8)"), 26);
  EXPECT_EQ(layers("gemma2", R"("head_dim": 8)"), 13);
  EXPECT_EQ(layers("gemma3_text", R"("head_dim": 8)"), 22);
  EXPECT_EQ(layers("qwen2", R"("head_dim": 8)"), 0);  // its use_sliding_window is false where nothing is said
  EXPECT_EQ(layers("qwen2", R"("use_sliding_window": true, "max_window_layers": 20)"), 6);
  EXPECT_EQ(layers("qwen2", R"("use_sliding_window": true, "max_window_layers": 28)"), 0);
  std::string words = "\"sliding_attention\"";
  for (int i = 1; i < 26; ++i) words += ", \"full_attention\"";
  EXPECT_EQ(layers("qwen3", "\"use_sliding_window\": true, \"layer_types\": [" + words + "]"), 1);
}

TEST(HfConfig, TypesOfLayersAreOneOfEach) {
  const auto with = [](const char* types) {
    return refusal(replaced(kLlama, "{", fmt::format("{{\"layer_types\": {}, ", types)));
  };
  EXPECT_THAT(with(R"(["sliding_attention"])"), HasSubstr("has 1 words, and there are 2 layers"));
  EXPECT_THAT(with(R"({"a": 1})"), HasSubstr("'layer_types' is {\"a\":1}"));
  EXPECT_THAT(with(R"(["sliding_attention", "odd"])"), HasSubstr("\"odd\""));
}

TEST(HfConfig, RefusesWhatItDoesNotUnderstand) {
  EXPECT_THAT(refusal("[1]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(replaced(kLlama, "\"llama\"", "\"mamba\"")), HasSubstr("it has: llama"));
  EXPECT_THAT(refusal(replaced(kLlama, "64", "\"64\"")), HasSubstr("'hidden_size' is \"64\""));
  EXPECT_THAT(refusal(replaced(kLlama, "\"hidden_size\": 64, ", "")), HasSubstr("no 'hidden_size'"));
  EXPECT_THAT(refusal(replaced(kLlama, "\"num_attention_heads\": 4", "\"num_attention_heads\": 5")),
              HasSubstr("5 heads do not divide"));
  EXPECT_THAT(refusal(replaced(kLlama, "{", R"({"vision_config": {"a": 1}, )")),
              HasSubstr("'vision_config'"));
}

TEST(HfConfig, RefusesWhatIsStatedTwice) {
  EXPECT_THAT(refusal(replaced(kLlama, "\"hidden_size", "\"hidden_size\": 64, \"hidden_size")),
              HasSubstr("'hidden_size' stands there twice"));
  EXPECT_THAT(refusal(R"({"model_type": "gemma3", "text_config": {"model_type": "gemma3_text"}})"),
              HasSubstr("more than a model of text"));
}

TEST(HfConfig, SaysHowWeightsAreStored) {
  const auto with = [](const char* stored) {
    return replaced(kLlama, "{", fmt::format("{{\"quantization_config\": {}, ", stored));
  };
  EXPECT_EQ(model_from_config(kLlama, "config.json").stored_as, "");
  EXPECT_EQ(model_from_config(with("null"), "config.json").stored_as, "");
  EXPECT_EQ(model_from_config(with(R"({"quant_method": "mxfp4"})"), "config.json").stored_as, "mxfp4");
  EXPECT_EQ(model_from_config(with(R"({"load_in_4bit": true})"), "config.json").stored_as, "bitsandbytes");
  EXPECT_THAT(refusal(with(R"({"quant_method": "q7"})")),
              HasSubstr("'quant_method' \"q7\", which is unknown"));
  EXPECT_THAT(refusal(with(R"({"quant_method": 4})")), HasSubstr("'quant_method' 4"));
  EXPECT_THAT(refusal(with(R"({"bits": 4})")), HasSubstr("does not say its 'quant_method'"));
  EXPECT_THAT(refusal(with("3")), HasSubstr("'quantization_config' is 3"));
}

TEST(HfConfig, HeadsOfLatentAttentionNeedNotDivideTheWidth) {
  const std::string latent = replaced(kLlama, "\"model_type\": \"llama\"",
                                      R"("model_type": "deepseek_v3", "kv_lora_rank": 32, "v_head_dim": 16,
                                         "qk_nope_head_dim": 16, "qk_rope_head_dim": 8)");
  const std::string five = replaced(latent, "\"num_attention_heads\": 4", "\"num_attention_heads\": 5");
  EXPECT_EQ(model_from_config(five, "config.json").heads, 5);
}

TEST(HfConfig, CountsLayersWithoutExpertsWhereTheyComeFirst) {
  const std::string sparse = replaced(kLlama, "{\"model_type\": \"llama\"",
                                      R"({"model_type": "qwen3_moe", "num_experts": 8,
                                          "num_experts_per_tok": 2, "mlp_only_layers": [])");
  EXPECT_EQ(model_from_config(sparse, "config.json").expert_layers(), 2);
  EXPECT_EQ(model_from_config(replaced(sparse, "[]", "[0]"), "config.json").expert_layers(), 1);
  EXPECT_THAT(refusal(replaced(sparse, "[]", "[1]")), HasSubstr("names layer 1 and not 0"));
  EXPECT_THAT(refusal(replaced(sparse, "[]", "3")), HasSubstr("'mlp_only_layers' is 3"));
}

// 224 / 14 patches a side and the class's token; latents of 1024 pixels in patches of 2, and 333 tokens of
// text.
TEST(HfConfig, CountsTheTokensOfAnImage) {
  const char* vit = R"({"model_type": "vit", "hidden_size": 64, "num_hidden_layers": 2,
    "num_attention_heads": 4, "intermediate_size": 128, "image_size": 224, "patch_size": 14})";
  EXPECT_EQ(model_from_config(vit, "config.json").image_sequence, 257);
  EXPECT_EQ(model_from_config(vit, "config.json").positions, 257);
  EXPECT_EQ(model_from_config(vit, "config.json").patch_features, 3 * 14 * 14);
  EXPECT_EQ(model_from_config(vit, "config.json").classes, 2);
  EXPECT_EQ(model_from_config(replaced(vit, "\"image", "\"num_labels\": 10, \"image"), "config.json").classes,
            10);
  EXPECT_EQ(model_from_config(replaced(vit, "224", "[224, 112]"), "config.json").image_sequence, 0);
  EXPECT_THAT(refusal(replaced(vit, "\": 14", "\": 0")), HasSubstr("'patch_size' is 0"));
  EXPECT_THAT(refusal(replaced(vit, "\": 14", "\": 240")), HasSubstr("'patch_size' of 240"));
  const char* mmdit = R"({"_class_name": "SD3Transformer2DModel", "num_layers": 2, "num_attention_heads": 4,
    "attention_head_dim": 64, "patch_size": 2, "in_channels": 16, "joint_attention_dim": 64,
    "pooled_projection_dim": 64, "sample_size": 128})";
  EXPECT_EQ(model_from_config(mmdit, "config.json").image_sequence, 4096 + 333);
  EXPECT_EQ(model_from_config(kLlama, "config.json").image_sequence, 0);
}

TEST(HfConfig, NamesTheNearestModel) {
  EXPECT_TRUE(has_model(arch::default_tables(), "llama-3-8b"));  // an alias, in other letters
  try {
    model_named(arch::default_tables(), "Lama-3.1-8B");
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_THAT(fault.hint(), HasSubstr("Llama-3.1-8B"));
  }
}

}  // namespace
}  // namespace opentrn::planner
