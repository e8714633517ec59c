#include "planner/recompute.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/memory.h"

namespace opentrn::planner {
namespace {

constexpr std::array<std::pair<Recompute, std::string_view>, 12> kNames = {
    {{Recompute::kNone, "none"},
     {Recompute::kSelective, "selective"},
     {Recompute::kMinimalWithContext, "minimal_with_context"},
     {Recompute::kMinimal, "minimal"},
     {Recompute::kSaveDotWithContextExceptMlp, "save_dot_with_context_except_mlp"},
     {Recompute::kSaveDotExceptMlpwi, "save_dot_except_mlpwi"},
     {Recompute::kSaveDotExceptMlp, "save_dot_except_mlp"},
     {Recompute::kSaveQkvProj, "save_qkv_proj"},
     {Recompute::kSaveOutProj, "save_out_proj"},
     {Recompute::kQkvProjOffloaded, "qkv_proj_offloaded"},
     {Recompute::kMinimalOffloaded, "minimal_offloaded"},
     {Recompute::kFull, "full"}}};

bool is_word_of(const std::string& words, std::string_view word) {
  return fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

}  // namespace

std::string_view to_string(Recompute recompute) {
  for (const auto& [mode, name] : kNames)
    if (mode == recompute) return name;
  return "?";
}

std::vector<std::string> recompute_names() {
  std::vector<std::string> names;
  for (const auto& each : kNames) names.emplace_back(each.second);
  return names;
}

std::optional<Recompute> recompute_named(std::string_view name) {
  if (name == "minimal_flash") return Recompute::kMinimalWithContext;  // its name of 2024
  for (const auto& [mode, known] : kNames)
    if (known == name) return mode;
  return std::nullopt;
}

std::optional<KeptProducts> kept_products(Recompute recompute, const Stack& stack, bool with_experts) {
  KeptProducts kept;
  const auto projections = [&] { kept.query = kept.key = kept.value = true; };
  const auto all_but_context = [&] {
    projections();
    kept.out = kept.gate = kept.up = true;
    kept.down = with_experts;  // what nothing needs is not kept
  };
  switch (recompute) {
    case Recompute::kNone:
    case Recompute::kFull: return std::nullopt;
    case Recompute::kSelective:
      if (!stack.every_second_product) return std::nullopt;
      // Of query, key, value, output layer, gate, up and down each second one runs again; attention, and what
      // ranks add up, do not.
      kept.query = kept.value = kept.context = kept.gate = kept.down = kept.sums = true;
      break;
    case Recompute::kMinimalWithContext:
      all_but_context();
      kept.context = true;
      break;
    case Recompute::kMinimal: all_but_context(); break;
    case Recompute::kSaveDotWithContextExceptMlp:
      projections();
      kept.context = kept.out = true;
      break;
    case Recompute::kSaveDotExceptMlpwi:
      projections();
      kept.out = true;
      kept.down = with_experts;
      break;
    case Recompute::kSaveDotExceptMlp:
      projections();
      kept.out = true;
      break;
    case Recompute::kSaveQkvProj: projections(); break;
    case Recompute::kSaveOutProj: kept.out = true; break;
    case Recompute::kQkvProjOffloaded:
      projections();
      kept.on_host = true;
      break;
    case Recompute::kMinimalOffloaded:
      all_but_context();
      kept.on_host = true;
      break;
  }
  kept.sums = kept.sums || kept.out;
  return kept;
}

std::vector<Recompute> searched(const Stack& stack, bool has_experts) {
  std::vector<Recompute> modes;
  for (const auto& [mode, name] : kNames)
    // Without experts it is the policy beside it.
    if (is_word_of(stack.recomputes, name) && (has_experts || mode != Recompute::kSaveDotExceptMlpwi))
      modes.push_back(mode);
  return modes;
}

bool recomputes_some(const Stack& stack) { return is_word_of(stack.recomputes, "layers"); }

std::string unknown_to_because(const Stack& stack, std::optional<Recompute> recompute, int layers) {
  const bool is_policy = recompute && *recompute > Recompute::kSelective && *recompute < Recompute::kFull;
  if (is_policy && !is_word_of(stack.recomputes, "save_qkv_proj"))
    return fmt::format("'{}' is a policy of MaxText, and the training program is {}", to_string(*recompute),
                       stack.name);
  if (layers > 0 && !recomputes_some(stack))
    return fmt::format("{} recomputes all blocks or none", stack.name);
  return {};
}

double blocks_again(const Layout& layout, double blocks) {
  if (layout.recompute == Recompute::kNone) return 0;
  return layout.recompute_layers == 0 ? blocks
                                      : std::min(blocks, double(layout.recompute_layers) * layout.vpp);
}

std::string no_recomputation_because(const Model& model, const Layout& layout) {
  if (layout.recompute_layers == 0) return {};
  if (layout.recompute == Recompute::kNone)
    return fmt::format("{} blocks that run forward again, and recompute is none", layout.recompute_layers);
  const int chunk = blocks_per_stage(model, layout) / std::max<int>(1, layout.vpp);
  if (layout.recompute_layers > chunk)
    return fmt::format("{} blocks that run forward again, and {} of them in a chunk", layout.recompute_layers,
                       chunk);
  return {};
}

int fewest_again(const Job& job, const Machine& machine, const Stack& stack, Layout layout) {
  const auto fits = [&](Recompute recompute, int layers) {
    layout.recompute = recompute;
    layout.recompute_layers = static_cast<int16_t>(layers);
    return memory_of(job, machine, stack, layout).total() <= machine.memory_bytes;
  };
  int most = blocks_per_stage(job.model, layout) / std::max<int>(1, layout.vpp), least = 1;
  if (most < 2 || fits(Recompute::kNone, 0) || !fits(Recompute::kFull, 0)) return 0;
  while (least < most) {  // memory falls with their number
    const int middle = (least + most) / 2;
    if (fits(Recompute::kFull, middle))
      most = middle;
    else
      least = middle + 1;
  }
  return least < blocks_per_stage(job.model, layout) / std::max<int>(1, layout.vpp) ? least : 0;
}

}  // namespace opentrn::planner
