#include "decoder/architectures.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/fault.h"
#include "base/utf8.h"

namespace opentrn::decoder {

namespace {

constexpr Architecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", true, false, false},
    {"llama", "MistralForCausalLM", true, false, false, Family::kMistral},
    {"llama", "MixtralForCausalLM", true, false, false, Family::kMixtral},
    {"llama", "MinistralForCausalLM", true, false, false, Family::kMistral},
    {"mistral3", "Ministral3ForCausalLM", true, false, false, Family::kMinistral3, true},
    {"seed_oss", "SeedOssForCausalLM", false, false, false, Family::kSeedOss},
    {"ernie4_5", "Ernie4_5ForCausalLM", true, false, false, Family::kErnie4_5},
    {"arcee", "ArceeForCausalLM", true, false, false, Family::kArcee},
    {"exaone4", "Exaone4ForCausalLM", false, false, true, Family::kExaone4},
    {"olmoe", "OlmoeForCausalLM", false, false, true, Family::kOlmoe},
    {"minimax-m2", "MiniMaxM2ForCausalLM", false, false, true, Family::kMiniMaxM2, true},
    {"qwen2", "Qwen2ForCausalLM", false, true, false},
    {"qwen3", "Qwen3ForCausalLM", false, false, true},
    {"qwen2vl", "Qwen2ForCausalLM", false, true, false},
    {"qwen3vl", "Qwen3ForCausalLM", false, false, true},
    {"qwen2moe", "Qwen2MoeForCausalLM", false, true, false, Family::kQwenMoe},
    {"qwen3moe", "Qwen3MoeForCausalLM", false, false, true, Family::kQwenMoe},
    {"granite", "GraniteForCausalLM", true, false, false},
    {"llama4", "Llama4ForCausalLM", true, false, false, Family::kLlama4, true},
    {"deepseek2", "DeepseekV2ForCausalLM", true, false, false, Family::kDeepSeekV2, true},
    {"deepseek3", "DeepseekV3ForCausalLM", true, false, false, Family::kDeepSeekV3, true},
    {"glm4moe", "Glm4MoeForCausalLM", false, false, false, Family::kGlm4Moe, true},
    {"glm4moelite", "Glm4MoeLiteForCausalLM", false, false, false, Family::kGlm4MoeLite, true},
    {"dots1", "Dots1ForCausalLM", false, false, true, Family::kDots1, true},
    {"chatglm", "GlmForCausalLM", true, false, false, Family::kGlm},
    {"glm4", "Glm4ForCausalLM", true, false, false, Family::kGlm4},
    {"olmo2", "Olmo2ForCausalLM", false, false, true, Family::kOlmo2},
    {"olmo2", "Olmo3ForCausalLM", false, false, true, Family::kOlmo3},
    {"smollm3", "SmolLM3ForCausalLM", true, false, false, Family::kSmolLm3},
    {"phi3", "Phi3ForCausalLM", false, false, false, Family::kPhi3},
    {"gemma", "GemmaForCausalLM", false, false, false, Family::kGemma},
    {"gemma2", "Gemma2ForCausalLM", false, false, false, Family::kGemma2},
    {"gemma3", "Gemma3ForCausalLM", false, false, true, Family::kGemma3},
    {"gpt-oss", "GptOssForCausalLM", false, true, false, Family::kGptOss},
    {"gpt2", "GPT2LMHeadModel", false, true, false, Family::kGpt2},
    {"gptneox", "GPTNeoXForCausalLM", false, true, false, Family::kGptNeoX},
    {"opt", "OPTForCausalLM", false, true, false, Family::kOpt, true},
    {"stablelm", "StableLmForCausalLM", false, false, false, Family::kStableLm},
    {"starcoder2", "Starcoder2ForCausalLM", false, false, false, Family::kStarCoder2},
    {"nemotron", "NemotronForCausalLM", false, false, false, Family::kNemotron},
    {"phi2", "PhiForCausalLM", false, true, false, Family::kPhi},
    {"command-r", "CohereForCausalLM", true, false, false, Family::kCohere},
    {"cohere2", "Cohere2ForCausalLM", true, false, false, Family::kCohere2},
};

[[noreturn]] void refuse(std::string_view name, std::vector<std::string_view> known) {
  const auto twice = std::ranges::unique(known);
  known.erase(twice.begin(), twice.end());
  throw Fault(FaultKind::kNotModelled, "decoder.architecture",
              fmt::format("no builder for the architecture '{}'", printable(name)),
              fmt::format("there is one for {}; others run as a graph: torch.export and `opentrn run`",
                          fmt::join(known, ", ")));
}

}  // namespace

const Architecture& architecture_of_gguf(std::string_view name, bool experts) {
  const Architecture* found = nullptr;
  std::vector<std::string_view> known;
  for (const Architecture& row : kArchitectures) {
    if (row.folders_alone) continue;
    known.push_back(row.gguf);
    const bool is_for_experts = row.family == Family::kMixtral;
    if (row.gguf == name && (!found || (experts && is_for_experts))) found = &row;
  }
  if (!found) refuse(name, known);
  return *found;
}

const Architecture& architecture_of_class(std::string_view name) {
  std::vector<std::string_view> known;
  for (const Architecture& row : kArchitectures) {
    known.push_back(row.json);
    if (row.json == name) return row;
  }
  refuse(name, known);
}

std::string_view hugging_face_class(std::string_view architecture) {
  const auto found = std::ranges::find(kArchitectures, architecture, &Architecture::gguf);
  OPENTRN_CHECK(found != std::end(kArchitectures), "no class for {}", architecture);
  return found->json;
}

}  // namespace opentrn::decoder
