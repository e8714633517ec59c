#include "planner/hf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_EQ(model_from_config(replaced(vit, "224", "[224, 112]"), "config.json").image_sequence, 0);
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
