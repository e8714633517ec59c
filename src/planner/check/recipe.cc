#include "planner/check/recipe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <regex>
#include <sstream>

#include <fmt/format.h>

#include "planner/check/wording.h"
#include "planner/hf_config.h"
#include "planner/memory.h"
#include "planner/schedule.h"

namespace opentrn::planner {
namespace {

// What a cell states, or 0.
double stated(const std::string& text, double kilo = 1000) { return number_in(text, kilo).value_or(0); }

// The first number behind one of these words: "h3072", "vocab250k", "heads=32".
double sized(const std::string& text, const char* pattern) {
  const std::regex expression(std::string("(?:^|[^A-Za-z])(?:") + pattern +
                              ")[ =:_]{0,3}([0-9]+(?:\\.[0-9]+)?)(k?)");
  std::smatch match;
  if (!std::regex_search(text, match, expression)) return 0;
  return std::strtod(match[1].str().c_str(), nullptr) * (match[2].length() > 0 ? 1000 : 1);
}

// "32 layers", "96-layer".
double counted(const std::string& text, const char* pattern) {
  const std::regex expression(std::string("([0-9]+)[- ](?:") + pattern + ")", std::regex::icase);
  std::smatch match;
  return std::regex_search(text, match, expression) ? std::strtod(match[1].str().c_str(), nullptr) : 0;
}

int either(const std::string& text, const char* before, const char* behind) {
  const double found = sized(text, before);
  return static_cast<int>(std::min(1e6, found > 0 ? found : counted(text, behind)));
}

// Heads, where none are stated: of about 128, and such that they divide the width.
int usual_heads(int hidden) {
  const int wanted = std::max(1, hidden / 128);
  for (int away = 0; away < wanted; ++away) {
    if (hidden % (wanted + away) == 0) return wanted + away;
    if (hidden % (wanted - away) == 0) return wanted - away;
  }
  return 1;
}

// "GPT h3072 L30 a32 vocab51200".
std::optional<Model> sized_model(const std::string& text, double parameters) {
  Model model;
  model.hidden = either(text, "h|hidden|d_model|hidden_size", "hidden|wide");
  if (model.hidden <= 0) return std::nullopt;
  model.name = text;
  model.type = "gpt2";
  model.tied = model.causal = model.biases = model.dropout = true;
  const double vocabulary = sized(text, "vocab|vocabulary|vocab_size|v");
  model.vocabulary = vocabulary <= 0 ? 51200 : vocabulary == 250000 ? 250880 : vocabulary;
  const int ffn = either(text, "ffn|ff|intermediate|intermediate_size", "ffn");
  model.ffn = ffn > 0 ? ffn : 4 * model.hidden;
  const double block = 12.0 * model.hidden * model.hidden;
  const int layers = either(text, "L|layers|num_layers", "layers?|blocks");
  model.layers = layers > 0
                     ? layers
                     : static_cast<int>(std::round((parameters - model.vocabulary * model.hidden) / block));
  const int heads = either(text, "a|heads|num_heads", "heads|attention heads");
  model.heads = heads > 0 ? heads : usual_heads(model.hidden);
  if (model.layers <= 0 || model.layers > 10000 || model.heads <= 0 || model.heads > model.hidden)
    return std::nullopt;
  const int kv_heads = either(text, "kv|kv_heads|groups", "kv heads|query groups");
  model.kv_heads = kv_heads > 0 ? std::min(kv_heads, model.heads) : model.heads;
  model.head_dim = model.hidden / model.heads;
  std::smatch match;  // "a48x256"
  if (std::regex_search(text, match, std::regex("(?:^|[^A-Za-z])a[0-9]+x([0-9]{1,4})")))
    model.head_dim = std::stoi(match[1]);
  model.positions = 2048;
  return model;
}

// A GPT of so many parameters: the catalogue's of that size, or one of the usual shape, a hidden width of 128
// for each layer.
std::optional<Model> model_of_size(const arch::Tables& tables, double parameters) {
  if (!(parameters >= 1e8 && parameters <= 1e14)) return std::nullopt;
  for (const std::string& name : model_names(tables)) {
    Model each = model_named(tables, name);
    if (each.type == "gpt2" && std::abs(each.parameters() / parameters - 1) < 0.03) return each;
  }
  const double width = std::cbrt(parameters * 128 / 12);
  const int hidden = static_cast<int>(std::max(1.0, std::round(width / 128))) * 128;
  return sized_model(fmt::format("GPT h{} of {:.3g} parameters", hidden, parameters), parameters);
}

// "175B", "1T", "7.5 B" in a text.
double size_in(const std::string& text) {
  std::smatch match;
  if (!std::regex_search(text, match,
                         std::regex("(?:^|[^0-9A-Za-z.x])([0-9]+(?:\\.[0-9]+)?) ?([BT])($|[^A-Za-z])")))
    return 0;
  return std::strtod(match[1].str().c_str(), nullptr) * (match[2] == "T" ? 1e12 : 1e9);
}

}  // namespace

std::optional<Model> stated_model(const arch::Tables& tables, const std::string& text, double parameters,
                                  std::vector<std::string>* assumed) {
  const std::string cell = text.substr(0, 200);
  if (const std::string name = model_named_in(tables, cell); !name.empty()) return model_named(tables, name);
  if (std::optional<Model> model = sized_model(cell, parameters)) return model;
  // A dense decoder, of which only the size is stated. A sparse one's size does not say what it computes.
  if (has(cell, "moe|expert|[0-9]x[0-9]|sparse|diffusion|sd[0-9]|vit|clip|bert|t5|perceiver|resnet|mamba"))
    return std::nullopt;
  const bool plain = has(cell, "gpt|dense|decoder|transformer|^ *[0-9.]+ ?[BT] *$|megascale|megatron");
  const double size = size_in(cell) > 0 ? size_in(cell) : parameters;
  std::optional<Model> model = plain ? model_of_size(tables, size) : std::nullopt;
  if (model && assumed != nullptr)
    assumed->push_back(
        fmt::format("the shape of a GPT of that size: {} layers of {}", model->layers, model->hidden));
  return model;
}

namespace {

// Of neuronx-nemo-megatron, in which AWS publishes GPT-3.
bool is_of_nemo(const Row& row) { return has(row.model, "GPT-?3") || has(row.source, "nemo-megatron"); }
// Its tutorial of GPT was published with the first release.
bool is_of_first_nemo(const Row& row) { return has(row.source, "nemo-megatron-gpt-job"); }

// NVIDIA's recipes for NeMo and Megatron-Bridge have TP's transfers behind products (ub_tp_comm_overlap).
bool overlaps_by_default(const Row& row, const Machine& machine) {
  return machine.kind == Kind::kGpu &&
         has(row.family() + " " + row.source, "nemo($|[^a-z]|[0-9])|megatron-?bridge|dgxc") &&
         !has(row.source + " " + row.parallelism, "maxtext");
}

// Programs by what a row says of them, by the collection that it is from, or by its machine.
std::string stack_name(const Row& row, const Machine& machine) {
  const std::string family = row.family(), words = row.parallelism + " " + row.source;
  if (family == "bloom" || has(words, "bigscience")) return "bigscience";
  if (family == "vtrain" || has(words, "Megatron-DeepSpeed")) return "megatron-deepspeed";
  if (family == "megascale" || has(words, "megascale")) {
    // Their paper compares with Megatron-LM of 2023, without their overlap and fused attention.
    const std::string which =
        row.id.substr(std::min(row.id.size(), family.size())) + row.model + row.parallelism;
    return has(which, "megatron|baseline") ? "megatron-lm" : "megascale";
  }
  // On a V100 or an A100 before fused attention was common: the releases of 2021 and 2022.
  if (family == "seqsel" || (family == "megatron" && has(row.system, "A100"))) return "megatron-lm";
  if (machine.kind == Kind::kNeuron)
    return has(row.model, "BERT|ViT|CLIP") ? "neuron-encoder"
           : is_of_first_nemo(row)         ? "neuron-nemo-xrt"
           : is_of_nemo(row)               ? "neuron-nemo"
                                           : "neuron";
  if (machine.kind == Kind::kTpu || has(words, "maxtext")) return "maxtext";
  if (has(words, "training_results_v")) return "nemo-mlperf";
  if (has(words, "llm-foundry")) return "fsdp";
  if (family == "titan" || has(words, "torchtitan")) return "torchtitan";
  if (family == "primus" || machine.chip.starts_with("MI")) return "primus";
  if (has(row.model, "BERT")) return "apex";
  if (has(row.parallelism, "FSDP|FULL_SHARD") && !has(words, "megatron|nemo|bridge")) return "fsdp";
  return default_stack(machine.kind);
}

struct Refusal {
  std::string reason;
};

// An instance that a row's `system` names, also by its family alone ("Trn1"); empty where there is none.
std::string instance_in(const arch::Tables& tables, const std::string& system, double chips) {
  std::string found;
  for (const std::string& name : plannable_instances(tables))
    if (system.find(name) != std::string::npos && name.size() > found.size()) found = name;
  if (!found.empty()) return found;
  if (has(system, "trn1|trainium ?1|trainium($|[^0-9 ])"))
    return chips == 1 ? "trn1.2xlarge" : "trn1.32xlarge";
  if (has(system, "trn2|trainium ?2")) return chips == 1 ? "trn2.3xlarge" : "trn2.48xlarge";
  if (has(system, "inf2|inferentia ?2")) return "inf2.48xlarge";
  return {};
}

Machine machine_for(const arch::Tables& tables, const Row& row, double chips) {
  const std::string system = row.system.substr(0, 200);
  if (const std::string instance = instance_in(tables, system, chips); !instance.empty()) {
    const Machine one = machine_of(tables, instance, 1);
    const double servers = chips * one.ranks_per_chip / one.ranks_per_server;
    if (servers >= 1 && servers == std::floor(servers))
      return machine_of(tables, instance, static_cast<int64_t>(servers));
    if (one.kind == Kind::kNeuron || servers >= 1) throw Refusal{"chips are not whole instances"};
    return cluster_of(tables, one.chip, static_cast<int64_t>(chips), 0);
  }
  const std::string chip = chip_in(system);
  if (chip.empty())
    throw Refusal{system.empty() ? "no system" : "no rates for this chip: " + system.substr(0, 60)};
  Machine machine = cluster_of(tables, chip, static_cast<int64_t>(chips), network_in(system));
  if (const double stated = links_in(system); stated > 0)
    machine.inside.bytes_s *= stated / tables.comparison_chip(chip).scale_up_gb_s;
  return machine;
}

// What a row says of its program besides the layout.
void set_program(Recipe& recipe, const Row& row) {
  // neuronx-cc casts the products of float32 programs to bfloat16 unless it is told not to.
  if (recipe.machine.kind == Kind::kNeuron && recipe.job.precision == Precision::kFp32) {
    recipe.job.precision = Precision::kBf16;
    recipe.stack.compute_efficiency /= recipe.stack.float32_slowdown;
    recipe.assumed.push_back("products in bfloat16, as the compiler casts them");
  }
  // From 28 February 2022 the project's runs have the bf16 optimizer, which keeps gradients in float32 too.
  std::smatch match;
  if (std::regex_search(row.id, match, std::regex("^bloom\\.(02-28|03-)"))) recipe.stack.gradient_bytes = 6;
  // Its page states the heads of trials without a column for them: 96 of width 14400, and 64 from 21
  // February.
  const bool stated_heads = std::regex_search(row.model, std::regex("(^|[^A-Za-z])a[0-9]"));
  if (!stated_heads && std::regex_search(row.id, match, std::regex("^bloom\\.(02-2[0-9])"))) {
    Model& model = recipe.job.model;
    if (model.hidden == 14400) model.heads = 96;
    if (match[1] != "02-20" && model.hidden % 64 == 0) model.heads = 64;
    model.kv_heads = model.heads;
    model.head_dim = model.hidden / model.heads;
  }
}

// Schedules beside 1F1B have no order for every number of stages and micro-batches.
void check_order(Recipe& recipe, double local) {
  const auto has_none = [&](const Layout& layout) {
    const auto count = static_cast<int64_t>(std::max(1.0, local / layout.micro_batch));
    return layout.schedule != Schedule::k1F1B &&
           !no_order_because(layout.schedule, layout.pp, layout.vpp, count).empty();
  };
  const bool open = !recipe.candidates.empty();
  std::erase_if(recipe.candidates, has_none);
  if (open ? recipe.candidates.empty() : has_none(recipe.layout))
    throw Refusal{"a schedule that has no order of these stages and micro-batches"};
}

// A run that was measured had room. Where the row states no recomputation and its layout needs far more
// memory than there is, more than the memory's own error, blocks were recomputed.
void add_recomputation(Recipe& recipe, bool old) {
  if (old) recipe.assumed.push_back("attention's inside recomputed, as programs without fused attention do");
  if (!recipe.job.model.causal) return;
  const std::vector<Layout> ways =
      recipe.candidates.empty() ? std::vector<Layout>{recipe.layout} : recipe.candidates;
  const auto fits = [&](const Layout& layout) {
    return memory_of(recipe.job, recipe.machine, recipe.stack, layout).total() <=
           (old ? 1 : 1.25) * recipe.machine.memory_bytes;
  };
  if (std::ranges::any_of(ways, fits)) return;
  recipe.candidates.clear();
  for (Layout each : ways) {
    each.recompute = Recompute::kFull;
    recipe.candidates.push_back(each);
  }
  recipe.layout.recompute = Recompute::kFull;
  recipe.assumed.back() = "full recomputation, without which it does not fit";
}

// As many blocks of each chunk as are stated; all of them where a chunk has no more.
void set_recomputed_blocks(Recipe& recipe, double stated) {
  if (stated <= 0) return;
  Layout& layout = recipe.layout;
  const int chunk = blocks_per_stage(recipe.job.model, layout) / std::max<int>(1, layout.vpp);
  layout.recompute_layers = static_cast<int16_t>(stated < chunk ? stated : 0);
}

// The layout, where the row states enough of it; what stays open becomes candidates.
void set_layout(Recipe& recipe, const Row& row) {
  Degrees degrees = degrees_of(row.parallelism);
  if (has(row.parallelism, "not read|see recipe|not in the passage"))
    throw Refusal{"the row states no layout"};
  if (degrees.model_parallel > 0 && degrees.tp <= 0) {
    degrees.tp = std::min(8.0, degrees.model_parallel);
    degrees.pp = degrees.model_parallel / degrees.tp;
    recipe.assumed.push_back("TP is the largest up to 8");
  }
  const bool only_chunks = degrees.vpp > 0 && degrees.tp <= 0 && degrees.pp <= 0;
  if (only_chunks) degrees.tp = 8;
  if (degrees.tp <= 0 && degrees.pp <= 0 && degrees.dp <= 0 && !degrees.fsdp)
    throw Refusal{"the row states no layout"};
  if (only_chunks) {
    // The deepest of the usual pipelines whose stages hold whole chunks.
    for (const double each : {4.0, 8.0})
      if (std::fmod(recipe.job.model.layers, each * degrees.vpp) == 0) degrees.pp = each;
    recipe.assumed.push_back("TP8, and as many stages as the chunks allow up to 8");
  }
  Layout& layout = recipe.layout;
  const auto degree = [](double value) {
    if (value > 8192 || value != std::floor(value)) throw Refusal{"a degree that is none"};
    return std::max(1.0, value);
  };
  layout.tp = static_cast<int16_t>(degree(degrees.tp));
  layout.cp = static_cast<int16_t>(degree(degrees.cp));
  layout.pp = static_cast<int16_t>(degree(degrees.pp));
  layout.ep = static_cast<int16_t>(degree(degrees.ep));
  layout.vpp = static_cast<int16_t>(degree(degrees.vpp));
  if (degrees.interleaved && layout.vpp == 1) layout.vpp = 2;
  if (degrees.schedule) {  // which fixes the chunks of a stage
    layout.schedule = *degrees.schedule;
    layout.vpp = 1;
  }
  const double others = double(layout.tp) * layout.cp * layout.pp, ranks = double(recipe.machine.ranks);
  const double dp = ranks / others;
  if (dp < 1 || dp != std::floor(dp)) throw Refusal{"degrees do not multiply to the ranks"};
  if (degrees.dp > 0 && degrees.dp != dp) {
    // Of cores on Neuron's pages nobody knows which of the two numbers is wrong.
    if (recipe.machine.kind == Kind::kNeuron) throw Refusal{"degrees do not multiply to the ranks"};
    recipe.assumed.push_back(fmt::format("DP {}, which the chips leave, for the {} stated", dp, degrees.dp));
  }
  layout.dp = static_cast<int32_t>(dp);
  // Experts over more ranks than copies and context give are spread over those of TP too, uncut.
  if (layout.ep > 1 && layout.tp > 1 && layout.ep % layout.tp == 0 &&
      (double(layout.ep) > dp * layout.cp || has(row.parallelism, "ETP ?=?1($|[^0-9])")))
    layout.ep = static_cast<int16_t>(layout.ep / layout.tp);
  const bool modern = recipe.stack.flash;
  layout.zero = static_cast<int8_t>(degrees.zero >= 0 ? degrees.zero : modern ? 1 : 0);
  layout.sp =
      !degrees.no_sp && layout.tp > 1 && (degrees.sp || (modern && recipe.machine.kind == Kind::kGpu));
  layout.shard = static_cast<int32_t>(degrees.shard);
  if (!degrees.overlap && !overlaps_by_default(row, recipe.machine)) recipe.stack.hides_tp = 0;
  // Compiled programs fuse what is done one by one without.
  if (has(row.parallelism, "eager")) recipe.stack.elementwise *= 1.6;
  // Its kernels send a token to each server once (deepseek-ai/DeepEP, issue 6).
  if (has(row.parallelism, "DeepEP")) recipe.stack.forwards_tokens = true;
  // The operations that these figures count are of full recomputation.
  if (has(row.metric, "^achieved FLOP")) degrees.recompute = Recompute::kFull;
  // Programs without fused attention recompute attention's inside, or whole blocks where that does not fit.
  const bool old =
      !degrees.recompute && !modern && recipe.machine.kind == Kind::kGpu && recipe.job.model.causal;
  if (old) degrees.recompute = Recompute::kSelective;
  if (recipe.machine.kind == Kind::kNeuron && recipe.job.model.causal && layout.tp > 1) {
    // As the examples of NeuronX Distributed and NeMo-Megatron for Neuron set it. neuronx-nemo-megatron has
    // no ZeRO unless it is asked for, and recomputes whole blocks; from August 2023 on attention's inside in
    // its examples of GPT with 23B and 175B (gpt_*.sh), which is after its tutorial's log.
    const bool nemo = is_of_nemo(row);
    const bool inside = nemo && has(row.model, "23B|175B") && !is_of_first_nemo(row);
    if (!degrees.recompute) degrees.recompute = nemo && !inside ? Recompute::kFull : Recompute::kSelective;
    if (!degrees.no_sp) layout.sp = true;
    if (degrees.zero < 0) layout.zero = nemo ? 0 : 1;
    recipe.assumed.push_back("sequence parallel, recomputation and ZeRO as in the program's examples");
    // UBS of test.sh and test_llama.sh.
    if (nemo && degrees.micro_batch <= 0 && degrees.local_batch <= 0) {
      degrees.micro_batch = 1;
      recipe.assumed.push_back("a micro-batch of one sequence as in the program's examples");
    }
  }
  if (!degrees.recompute && recipe.stack.every_second_product)
    degrees.recompute = Recompute::kSelective;  // its default
  layout.recompute = degrees.recompute.value_or(Recompute::kNone);
  set_recomputed_blocks(recipe, degrees.recompute_layers);
  if (recipe.job.global_batch <= 0 && degrees.local_batch > 0)
    recipe.job.global_batch = degrees.local_batch * dp;
  if (recipe.job.global_batch <= 0) recipe.job.global_batch = degrees.global_batch;
  if (recipe.job.global_batch <= 0 && degrees.micro_batch > 0 && degrees.accumulated > 0)
    recipe.job.global_batch = degrees.micro_batch * degrees.accumulated * dp;
  if (recipe.job.global_batch <= 0 && degrees.micro_batch > 0) {
    recipe.job.global_batch = degrees.micro_batch * dp;
    recipe.assumed.push_back("one micro-batch in a step");
  }
  if (recipe.job.global_batch <= 0) throw Refusal{"no global batch"};
  if (degrees.micro_batch > recipe.job.global_batch) throw Refusal{"a micro-batch above the global batch"};
  if (recipe.job.global_batch < dp)
    throw Refusal{"fewer sequences in a step than copies of the model, by the chips and degrees stated"};
  const double local = recipe.job.global_batch / dp;
  if (degrees.micro_batch > 0)
    layout.micro_batch = static_cast<int32_t>(degrees.micro_batch);
  else if (degrees.local_batch > 0 && layout.pp > 1)
    layout.micro_batch = static_cast<int32_t>(std::max(1.0, local / layout.pp));
  else if (degrees.local_batch > 0)
    layout.micro_batch = static_cast<int32_t>(local);
  else {
    recipe.assumed.push_back("the micro-batch that the planner would take");
    for (int32_t each = 1; each <= std::min(64.0, local); each *= 2) {
      Layout candidate = layout;
      candidate.micro_batch = each;
      if (std::fmod(local, each) == 0) recipe.candidates.push_back(candidate);
    }
  }
  if (degrees.vpp <= 0 && !degrees.interleaved && !degrees.schedule && modern && layout.pp > 1 &&
      !has(row.parallelism, "1F1B")) {
    recipe.assumed.push_back("the interleaving that the planner would take");
    if (recipe.candidates.empty()) recipe.candidates = {layout};
    std::vector<Layout> more = recipe.candidates;
    for (const Layout& each : recipe.candidates)
      for (int chunks = 2; chunks <= 8; ++chunks) {
        Layout chunked = each;
        chunked.vpp = static_cast<int16_t>(chunks);
        if (!chunks_are_whole(recipe.job.model, chunked) ||
            std::fmod(local / each.micro_batch, layout.pp) != 0)
          continue;
        more.push_back(chunked);
      }
    recipe.candidates = std::move(more);
  }
  if (!degrees.recompute) recipe.assumed.push_back("no recomputation, as the row states none");
  check_order(recipe, local);
  if (old || !degrees.recompute) add_recomputation(recipe, old);
}

// Seconds of one of the cell's units of time.
double seconds_of(const std::string& unit) {
  if (has(unit, "^(ms|milli)")) return 1e-3;
  if (has(unit, "^(us|µs|micro)")) return 1e-6;
  if (has(unit, "^min")) return 60;
  if (unit.empty() || has(unit, "^(s|sec|second)s?($|[^a-z])")) return 1;
  throw Refusal{"a unit of time that is none: " + unit};
}

// FLOP/s of one of the cell's units.
double flops_of(const std::string& unit) {
  if (has(unit, "^ *P")) return 1e15;
  if (has(unit, "^ *T")) return 1e12;
  if (has(unit, "^ *G")) return 1e9;
  throw Refusal{"a unit of operations that is none: " + unit};
}

double share_of(const std::string& unit, double value) {
  return has(unit, "%|percent") || value > 1.5 ? value / 100 : value;
}

// The step's time by a rate of tokens, sequences or operations.
double by_rate(const Recipe& recipe, const Row& row, double value, double chips) {
  const std::string words = row.metric + " | " + row.unit;
  const double batch = recipe.job.global_batch, tokens = batch * recipe.job.seq;
  const bool per_chip = has(words, "per[- _](chip|gpu|device|accelerator)|/ ?(chip|gpu|device)");
  const double sharing = per_chip ? chips : 1;
  if (has(row.unit, "^tok(en)?s?/s")) return tokens / (value * sharing);
  if (has(row.unit, "^(seq(uence)?|image|sample)s?/s")) return batch / (value * sharing);
  const double flops = recipe.job.model.flops_per_token(recipe.job.seq) * tokens;
  const bool full = recipe.layout.recompute == Recompute::kFull;
  if (has(row.metric, "flop")) {
    if (!per_chip && !has(words, "total|aggregate|whole|P ?FLOP"))
      throw Refusal{"FLOP/s of one chip or of all, the row does not say"};
    const bool hardware = has(row.metric, "^(achieved|hardware)");
    return flops * (hardware && full ? 4.0 / 3 : 1) / (value * flops_of(row.unit) * sharing);
  }
  if (has(row.metric, "^(mfu|hfu)")) {
    const int at = recipe.job.precision == Precision::kFp32 ? 2 : 0;
    // AWS counts the blocks' weights alone.
    const Model& model = recipe.job.model;
    const double blocks =
        model.active_parameters() - model.embedding_parameters() - model.output_parameters();
    const double counted = recipe.machine.kind == Kind::kNeuron ? 6 * blocks * tokens : flops;
    const double again = has(row.metric, "^hfu") && full ? 4.0 / 3 : 1;
    if (share_of(row.unit, value) > 1) throw Refusal{"a utilisation above 1"};
    return counted * again /
           (share_of(row.unit, value) * recipe.machine.rates.peak[at] * double(recipe.machine.ranks));
  }
  throw Refusal{"a metric that the planner does not predict: " + row.metric};
}

void set_measured(Recipe& recipe, const Row& row, double chips) {
  const std::string& metric = row.metric;
  if (metric == "fits in memory") {
    recipe.metric = Metric::kFits;
    recipe.measured = has(row.value, "^(true|yes|1)") ? 1 : 0;
    if (recipe.measured == 0 && !has(row.value, "^(false|no|0|oom)")) throw Refusal{"no measured value"};
    return;
  }
  const bool memory = has(metric, "memory") && has(row.unit, "^[GMT]i?B");
  const std::optional<double> stated_value = number_in(row.value);
  if (memory) {
    recipe.metric = has(metric, "activation") ? Metric::kActivationMemory : Metric::kPeakMemory;
    const double kilo = has(row.unit, "^.iB") ? 1024 : 1000;
    recipe.measured = stated_value.value_or(0) * std::pow(kilo, has(row.unit, "^M")   ? 2
                                                                : has(row.unit, "^T") ? 4
                                                                                      : 3);
    if (!stated_value && !has(row.value, "oom|out of memory")) throw Refusal{"no measured value"};
    if (recipe.measured <= 0) recipe.metric = Metric::kFits;  // it ran out of memory
    return;
  }
  const double value = stated_value.value_or(0);
  if (value <= 0) throw Refusal{"no measured value"};
  if (has(metric, "running average|evaluation")) throw Refusal{"the time holds more than steps"};
  if (has(metric,
          "^((median |mean )?(step|iteration)[-_ ]time|(time|seconds) per (step|iteration))($| *[(,])")) {
    recipe.measured = value * seconds_of(row.unit);
  } else if (has(metric, "weak-scaling efficiency")) {
    recipe.metric = Metric::kScaling;
    recipe.measured = share_of(row.unit, value);
    if (recipe.layout.dp % recipe.machine.servers() != 0)
      throw Refusal{"copies of the model that are not a whole number on one server"};
  } else {
    recipe.measured = by_rate(recipe, row, value, chips);
  }
}

}  // namespace

Read recipe_of(const arch::Tables& tables, const Row& row) {
  try {
    Recipe recipe;
    // An activation's size is stated without a number of chips: the layout says which ranks.
    const Degrees degrees = degrees_of(row.parallelism);
    if (const std::string twice = stated_twice(row.parallelism); !twice.empty())
      throw Refusal{"two values for one degree: " + twice};
    double chips = chips_in(row.chips).value_or(0);
    if (chips <= 0 && has(row.metric, "activation memory") && degrees.tp > 0) chips = degrees.tp;
    if (chips <= 0) throw Refusal{"no number of chips"};
    if (chips > 1e6 || chips != std::floor(chips)) throw Refusal{"a number of chips that is none"};
    recipe.machine = machine_for(tables, row, chips);
    recipe.stack = stack_of(tables, stack_name(row, recipe.machine));
    const std::optional<Model> model = stated_model(tables, row.model, stated(row.params), &recipe.assumed);
    if (!model) throw Refusal{"a model that the planner does not have: " + row.model};
    recipe.job.model = *model;
    if (has(row.seq, "not stated")) throw Refusal{"no sequence length"};
    recipe.job.seq = stated(row.seq, 1024);
    // Phase 2 of BERT is at 512 tokens; some pages print the 128 of phase 1 beside it.
    if (has(row.model, "BERT.*Ph2")) recipe.job.seq = 512;
    if (recipe.job.seq <= 0) throw Refusal{"no sequence length"};
    if (has(row.global_batch, "^ *-[0-9.]")) throw Refusal{"a batch that is none"};
    recipe.job.global_batch = batch_in(row.global_batch, recipe.job.seq).value_or(0);
    if (has(row.metric, "activation memory") && recipe.job.global_batch <= 0) recipe.job.global_batch = 1;
    if (!is_precision(row.dtype)) throw Refusal{"a precision that is none of those known: " + row.dtype};
    recipe.job.precision = precision_in(row.dtype);
    if (has(row.dtype, "fp4")) recipe.assumed.push_back("products of 4 bits at the rate of those of 8");
    if (recipe.job.seq > 1e8 || recipe.job.global_batch > 1e9) throw Refusal{"a batch that is none"};
    set_program(recipe, row);
    set_layout(recipe, row);
    set_measured(recipe, row, chips);
    return {std::move(recipe), {}};
  } catch (const Refusal& refusal) {
    return {std::nullopt, refusal.reason};
  } catch (const Fault& fault) {
    if (fault.kind() == FaultKind::kInternal) throw;
    // Of a value that a table does not have, its label says which.
    const bool is_unknown = fault.kind() == FaultKind::kUnspecified;
    return {std::nullopt, fault.message() + (is_unknown ? ": " + fault.label() : std::string())};
  }
}

}  // namespace opentrn::planner
