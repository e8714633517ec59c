#include "planner/check/recipe.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <regex>
#include <sstream>

#include <fmt/format.h>

#include "planner/hf_config.h"

namespace opentrn::planner {
namespace {

double number_of(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  return end == text.c_str() || !std::isfinite(value) ? 0 : value;
}

// The first number behind one of these words: "mbs=2", "TP8", "vocab250k".
double after(const std::string& text, const char* pattern) {
  const std::regex expression(std::string("(?:^|[^A-Za-z])(?:") + pattern +
                              ")[ =:]?([0-9]+(?:\\.[0-9]+)?)(k?)");
  std::smatch match;
  if (!std::regex_search(text, match, expression)) return 0;
  return number_of(match[1]) * (match[2].length() > 0 ? 1000 : 1);
}

bool has(const std::string& text, const char* pattern) {
  return std::regex_search(text, std::regex(pattern, std::regex::icase));
}

}  // namespace

Degrees degrees_of(const std::string& text) {
  Degrees out;
  out.tp = after(text, "TP");
  out.cp = after(text, "CP");
  out.pp = after(text, "PP");
  out.dp = after(text, "DP");
  out.ep = after(text, "EP");
  out.vpp = after(text, "VPP?|vpp");
  out.micro_batch = after(text, "mbs|MBS|micro-batch");
  out.local_batch = after(text, "local-batch");
  out.model_parallel = after(text, "MP");
  if (has(text, "mbs=[0-9]+\\(local\\)")) std::swap(out.micro_batch, out.local_batch);
  // Neuron's pages: [8xNC(TP)x4(DP)] x 16nodes(DP).
  const std::regex part("([0-9]+)(?:xNC|nodes)?\\((TP|PP|DP|CP|EP)\\)");
  for (std::sregex_iterator each(text.begin(), text.end(), part), end; each != end; ++each) {
    const std::string name = (*each)[2];
    double& degree = name == "TP"   ? out.tp
                     : name == "PP" ? out.pp
                     : name == "DP" ? out.dp
                     : name == "CP" ? out.cp
                                    : out.ep;
    degree = std::max(1.0, degree) * number_of((*each)[1]);
  }
  const double fsdp = after(text, "FSDP");
  out.fsdp = has(text, "FSDP|FULL_SHARD");
  if (fsdp > 0) out.dp = fsdp;
  if (out.fsdp) out.zero = 3;
  if (has(text, "SHARD_GRAD_OP")) out.zero = 2;
  if (has(text, "HYBRID_SHARD|HSDP")) out.shard = 8;
  const double zero = after(text, "ZeRO-?");
  if (has(text, "ZeRO-?[0-3]")) out.zero = zero;
  out.no_sp = has(text, "no[- ]SP");
  out.sp = !out.no_sp && has(text, "(^|[^A-Za-z])SP($|[^A-Za-z0-9])");
  out.overlap = has(text, "tp-overlap|comm overlap|AsyncTP|async-?tp|userbuffers");
  out.interleaved = has(text, "interleaved");
  const std::pair<const char*, Schedule> schedules[] = {{"dual-?pipe", Schedule::kDualPipe},
                                                        {"v-?half", Schedule::kVHalf},
                                                        {"v-?min", Schedule::kVMin},
                                                        {"zb-?v|zero-?bubble[- ]?v", Schedule::kZbV},
                                                        {"(^|[^a-z])zb|zero-?bubble", Schedule::kZbH1}};
  for (const auto& [pattern, schedule] : schedules)
    if (!out.schedule && has(text, pattern)) out.schedule = schedule;
  if (has(text, "no[- ]recompute|ckpt=False"))
    out.recompute = Recompute::kNone;
  else if (has(text, "selective"))
    out.recompute = Recompute::kSelective;
  else if (has(text, "full-recompute|full-AC|full recompute|ckpt=True|recompute=full|full-activation"))
    out.recompute = Recompute::kFull;
  return out;
}

namespace {

// "GPT h3072 L30 a32 vocab51200".
std::optional<Model> sized_model(const std::string& text, double parameters) {
  Model model;
  model.hidden = static_cast<int>(after(text, "h"));
  if (model.hidden <= 0) return std::nullopt;
  model.name = text;
  model.type = "gpt2";
  model.tied = model.causal = model.biases = model.dropout = true;
  const double vocabulary = after(text, "vocab");
  model.vocabulary = vocabulary <= 0 ? 51200 : vocabulary == 250000 ? 250880 : vocabulary;
  model.ffn = 4 * model.hidden;
  const double layers = after(text, "L");
  model.layers = static_cast<int>(layers > 0 ? layers
                                             : std::round((parameters - model.vocabulary * model.hidden) /
                                                          (12.0 * model.hidden * model.hidden)));
  const double heads = after(text, "a");
  model.heads = static_cast<int>(heads > 0 ? heads : std::max(1, model.hidden / 128));
  if (model.layers <= 0 || model.heads <= 0) return std::nullopt;
  model.kv_heads = model.heads;
  model.head_dim = model.hidden / model.heads;
  model.positions = 2048;
  return model;
}

}  // namespace

std::optional<Model> stated_model(const arch::Tables& tables, const std::string& text, double parameters) {
  std::vector<std::string> words;
  std::istringstream in(text);
  for (std::string word; in >> word;) words.push_back(word);
  for (size_t count = words.size(); count > 0; --count)
    for (size_t first = 0; first + count <= words.size(); ++first) {
      const std::string name =
          fmt::format("{}", fmt::join(words.begin() + first, words.begin() + first + count, " "));
      if (has_model(tables, name)) return model_named(tables, name);
    }
  return sized_model(text, parameters);
}

namespace {

// Chips by what a row's `system` says, the longer names first.
constexpr std::pair<const char*, const char*> kChips[] = {
    {"GB300", "GB300"},        {"GB200", "GB200"},          {"B300", "B300 SXM"},
    {"B200", "B200 SXM"},      {"H200", "H200 SXM"},        {"H100-96GB", "H100 SXM 96GB"},
    {"H100", "H100 SXM"},      {"H800", "H100 SXM"},        {"A100-40GB", "A100 SXM 40GB"},
    {"A100", "A100 SXM 80GB"}, {"Ampere", "A100 SXM 80GB"}, {"MI355X", "MI355X"},
    {"MI300X", "MI300X"},      {"TPU v6e", "TPU v6e"},      {"TPU v5p", "TPU v5p"},
    {"TPU v5e", "TPU v5e"},    {"Gaudi2", "Gaudi2"}};

// Programs by the collection that a row is from, or by its machine.
std::string stack_name(const Row& row, Kind kind) {
  const std::string family = row.family();
  if (family == "vtrain") return "megatron-deepspeed";
  if (family == "bloom") return "bigscience";
  if (family == "seqsel" || (family == "megatron" && has(row.system, "A100"))) return "megatron-lm";
  if (family == "mlperf" && kind == Kind::kGpu) return "nemo-mlperf";
  if (family == "foundry") return "fsdp";
  if (family == "titan") return "torchtitan";
  if (family == "megascale") return "megascale";
  if (family == "primus") return "primus";
  if (family == "nvidia") return "apex";
  if (kind == Kind::kNeuron && has(row.model, "BERT|ViT|CLIP")) return "neuron-encoder";
  return default_stack(kind);
}

// GB/s of one chip, where the row says; 0 where it does not. Jean Zay's servers have four links of 100 Gb/s.
double network_of(const std::string& system) {
  if (has(system, "Jean Zay")) return 400.0 / 8 / 8;
  std::smatch match;
  if (!std::regex_search(system, match, std::regex("([0-9.]+) ?Gb/s"))) return 0;
  return number_of(match[1]) / 8 / (has(system, "per GPU") ? 1 : 8);
}

struct Refusal {
  std::string reason;
};

Machine machine_for(const arch::Tables& tables, const Row& row, double chips) {
  std::smatch match;
  if (std::regex_search(row.system, match, std::regex("(trn[0-9][a-z0-9-]*\\.[0-9]*xlarge)"))) {
    const Machine one = machine_of(tables, match[1], 1);
    const double servers = chips * one.ranks_per_chip / one.ranks_per_server;
    if (servers < 1 || servers != std::floor(servers)) throw Refusal{"chips are no whole instances"};
    return machine_of(tables, match[1], static_cast<int64_t>(servers));
  }
  for (const auto& [text, chip] : kChips)
    if (row.system.find(text) != std::string::npos)
      return cluster_of(tables, chip, static_cast<int64_t>(chips), network_of(row.system));
  throw Refusal{"no rates for this chip"};
}

Precision precision_of(const Row& row) {
  if (has(row.dtype, "fp8|float8|int8|fp4")) return Precision::kFp8;
  if (has(row.dtype, "bf16|amp|fp16|half|autocast")) return Precision::kBf16;
  if (has(row.dtype, "fp32|tf32")) return Precision::kFp32;
  return Precision::kBf16;
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
  if (degrees.dp > 0 && degrees.dp != dp && degrees.dp * layout.cp != dp * layout.cp)
    throw Refusal{"degrees do not multiply to the ranks"};
  layout.dp = static_cast<int32_t>(dp);
  const bool modern = recipe.stack.flash;
  layout.zero = static_cast<int8_t>(degrees.zero >= 0 ? degrees.zero : modern ? 1 : 0);
  layout.sp =
      !degrees.no_sp && layout.tp > 1 && (degrees.sp || (modern && recipe.machine.kind == Kind::kGpu));
  layout.shard = static_cast<int32_t>(degrees.shard);
  if (!degrees.overlap) recipe.stack.hides_tp = 0;
  // Compiled programs fuse what is done one by one without.
  if (has(row.parallelism, "eager")) recipe.stack.elementwise *= 1.6;
  // The operations that these figures count are of full recomputation.
  if (has(row.metric, "^achieved FLOP")) degrees.recompute = Recompute::kFull;
  if (!degrees.recompute && !modern && recipe.machine.kind == Kind::kGpu && recipe.job.model.causal) {
    degrees.recompute = Recompute::kFull;
    recipe.assumed.push_back("full recomputation, as programs without fused attention had it");
  }
  if (recipe.machine.kind == Kind::kNeuron && recipe.job.model.causal && layout.tp > 1) {
    // As the examples of NeuronX Distributed and NeMo-Megatron for Neuron set it.
    // neuronx-nemo-megatron recomputes whole blocks in its examples of Llama and of GPT with 6.7B and 46B
    // parameters, attention's inside in those with 23B and 175B (gpt_*.sh, test_llama.sh).
    const bool nemo = recipe.job.model.dropout || has(row.source, "nemo-megatron");
    const bool inside = recipe.job.model.dropout && has(row.model, "23B|175B");
    if (!degrees.recompute) degrees.recompute = nemo && !inside ? Recompute::kFull : Recompute::kSelective;
    if (!degrees.no_sp) layout.sp = true;
    if (degrees.zero < 0) layout.zero = 1;
    recipe.assumed.push_back("sequence parallel, recomputation and ZeRO-1 as in the program's examples");
  }
  if (!degrees.recompute && recipe.stack.selective_kept > 0)
    degrees.recompute = Recompute::kSelective;  // its default
  layout.recompute = degrees.recompute.value_or(Recompute::kNone);
  if (recipe.job.global_batch <= 0 && degrees.local_batch > 0)
    recipe.job.global_batch = degrees.local_batch * dp;
  if (recipe.job.global_batch <= 0 && degrees.micro_batch > 0) {
    recipe.job.global_batch = degrees.micro_batch * dp;
    recipe.assumed.push_back("one micro-batch in a step");
  }
  if (recipe.job.global_batch <= 0) throw Refusal{"no global batch"};
  if (degrees.micro_batch > recipe.job.global_batch) throw Refusal{"a micro-batch above the global batch"};
  const double local = std::max(1.0, recipe.job.global_batch / dp);
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
  const double blocks = std::ceil(double(recipe.job.model.layers) / layout.pp);
  if (degrees.vpp <= 0 && !degrees.interleaved && !degrees.schedule && modern && layout.pp > 1 &&
      !has(row.parallelism, "1F1B")) {
    recipe.assumed.push_back("the interleaving that the planner would take");
    if (recipe.candidates.empty()) recipe.candidates = {layout};
    std::vector<Layout> more = recipe.candidates;
    for (const Layout& each : recipe.candidates)
      for (int chunks = 2; chunks <= 8; ++chunks) {
        if (static_cast<int>(blocks) % chunks != 0 || std::fmod(local / each.micro_batch, layout.pp) != 0)
          continue;
        more.push_back(each);
        more.back().vpp = static_cast<int16_t>(chunks);
      }
    recipe.candidates = std::move(more);
  }
  if (!degrees.recompute) recipe.assumed.push_back("no recomputation, as the row states none");
}

void set_measured(Recipe& recipe, const Row& row, double chips) {
  const double value = number_of(row.value), tokens = recipe.job.global_batch * recipe.job.seq;
  const std::string& metric = row.metric;
  if (metric == "fits in memory") {
    recipe.metric = Metric::kFits;
    recipe.measured = has(row.value, "^(true|yes|1)") ? 1 : 0;
    return;
  }
  if (has(metric, "memory per chip")) {
    recipe.metric = has(metric, "activation") ? Metric::kActivationMemory : Metric::kPeakMemory;
    recipe.measured = value * (has(row.unit, "GiB") ? 1024.0 * 1024 * 1024 : 1e9);
    if (value <= 0) recipe.metric = Metric::kFits;  // it ran out of memory
    return;
  }
  if (value <= 0) throw Refusal{"no measured value"};
  if (has(metric, "running average|evaluation")) throw Refusal{"the time holds more than steps"};
  const double flops = recipe.job.model.flops_per_token(recipe.job.seq) * tokens;
  if (has(metric, "^step time"))
    recipe.measured = value;
  else if (has(row.unit, "^tokens/s") && has(metric, "per chip"))
    recipe.measured = tokens / (value * chips);
  else if (has(row.unit, "^tokens/s"))
    recipe.measured = tokens / value;
  else if (has(row.unit, "^(sequences|images)/s"))
    recipe.measured = recipe.job.global_batch / value;
  else if (has(metric, "^model FLOP/s per chip"))
    recipe.measured = flops / (value * 1e12 * chips);
  else if (has(metric, "^achieved FLOP/s per chip"))
    recipe.measured = flops * 4 / 3 / (value * 1e12 * chips);
  else if (metric == "MFU") {
    const int at = recipe.job.precision == Precision::kFp32 ? 2 : 0;
    // AWS counts the blocks' weights alone.
    const Model& model = recipe.job.model;
    const double blocks =
        model.active_parameters() - model.embedding_parameters() - model.output_parameters();
    const double counted = recipe.machine.kind == Kind::kNeuron ? 6 * blocks * tokens : flops;
    recipe.measured = counted / (value / 100 * recipe.machine.rates.peak[at] * double(recipe.machine.ranks));
  } else if (has(metric, "weak-scaling efficiency")) {
    recipe.metric = Metric::kScaling;
    recipe.measured = value / 100;
  } else {
    throw Refusal{"a metric that the planner does not predict: " + metric};
  }
}

}  // namespace

Read recipe_of(const arch::Tables& tables, const Row& row) {
  try {
    Recipe recipe;
    // An activation's size is stated without a number of chips: the layout says which ranks.
    const Degrees degrees = degrees_of(row.parallelism);
    double chips = number_of(row.chips);
    if (chips <= 0 && has(row.metric, "activation memory") && degrees.tp > 0) chips = degrees.tp;
    if (chips <= 0) throw Refusal{"no number of chips"};
    if (chips > 1e6 || chips != std::floor(chips)) throw Refusal{"a number of chips that is none"};
    recipe.machine = machine_for(tables, row, chips);
    recipe.stack = stack_of(tables, stack_name(row, recipe.machine.kind));
    const std::optional<Model> model = stated_model(tables, row.model, number_of(row.params));
    if (!model) throw Refusal{"a model that the planner does not have: " + row.model};
    recipe.job.model = *model;
    if (has(row.seq, "not stated")) throw Refusal{"no sequence length"};
    recipe.job.seq = number_of(row.seq);
    // Phase 2 of BERT is at 512 tokens; some pages print the 128 of phase 1 beside it.
    if (has(row.model, "BERT.*Ph2")) recipe.job.seq = 512;
    if (recipe.job.seq <= 0) throw Refusal{"no sequence length"};
    recipe.job.global_batch = number_of(row.global_batch);
    if (has(row.metric, "activation memory") && recipe.job.global_batch <= 0) recipe.job.global_batch = 1;
    recipe.job.precision = precision_of(row);
    set_program(recipe, row);
    set_layout(recipe, row);
    set_measured(recipe, row, chips);
    return {std::move(recipe), {}};
  } catch (const Refusal& refusal) {
    return {std::nullopt, refusal.reason};
  } catch (const Fault& fault) {
    if (fault.kind() == FaultKind::kInternal) throw;
    return {std::nullopt, fault.message()};
  }
}

}  // namespace opentrn::planner
