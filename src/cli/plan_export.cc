#include "cli/plan_export.h"

#include <cmath>
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/new_file.h"
#include "cli/embedded_page.h"
#include "planner/schedule.h"

namespace opentrn::cli {
namespace {

using planner::Job;
using planner::Layout;
using planner::Model;
using planner::Precision;
using planner::Recompute;
using planner::Schedule;

[[noreturn]] void refuse(const std::string& what, const std::string& hint) {
  throw Fault(FaultKind::kInput, "plan.export", what, hint);
}

int64_t whole(double value) { return static_cast<int64_t>(value); }

// Ranks that share a model's ends have as many rows of a vocabulary each, and so have the cores of a rank: it
// is filled up.
int64_t filled_vocabulary(const Model& model, const Layout& layout, int cores) {
  const int64_t parts = int64_t{layout.pp} * layout.tp * cores;
  return (whole(model.labels()) + parts - 1) / parts * parts;
}

// Stages of one program do the same, each with a part of both ends.
void check_ends(const Model& model, const Layout& layout) {
  if (layout.pp > 1 && !planner::shares_ends(layout.schedule))
    refuse(fmt::format("{} for JAX: stages of one program do the same at the same time",
                       planner::to_string(layout)),
           "--schedule 1f1b, zb-h1, dualpipe or gpipe, or --pp 1");
  const bool splits = layout.schedule == Schedule::kZbInTicks || layout.schedule == Schedule::kDualInTicks;
  if (layout.pp > 1 && splits && layout.zero >= 3)
    refuse(fmt::format("{} for JAX: parts of weights come and go within a pass", planner::to_string(layout)),
           "--zero 0, 1 or 2, or another --schedule");
  if (const int parts = layout.pp * layout.tp; model.hidden % parts != 0)
    refuse(fmt::format("{} for JAX: {} stages of {} ranks share a width of {}, which {} does not divide",
                       planner::to_string(layout), layout.pp, layout.tp, model.hidden, parts),
           "other --pp and --tp");
  const int turned = model.latent() ? model.rope_dim : model.head_dim;
  if (model.positions == 0 && turned % 2 != 0)
    refuse(fmt::format("{} for JAX: positions turn pairs of {} features of a head", model.name, turned),
           "an even number");
}

// Of each chunk in the order of the layers: the first ones have one more where they are not alike.
std::vector<int> blocks_of_chunks(const Model& model, const Layout& layout) {
  const int chunks = layout.pp * layout.vpp;
  std::vector<int> blocks;
  for (int i = 0; i < chunks; ++i)
    blocks.push_back(model.layers / chunks + (i < model.layers % chunks ? 1 : 0));
  return blocks;
}

// Which blocks see a window of what came before, where that is less than a sequence. Stages do the same.
std::vector<bool> windowed_blocks(const Job& job, const Layout& layout) {
  const Model& model = job.model;
  std::vector<bool> blocks(static_cast<size_t>(model.layers), false);
  if (model.window_layers == 0 || model.window >= job.seq) return blocks;
  if (layout.cp > 1 || model.latent() || !model.causal ||
      (layout.pp > 1 && model.window_layers < model.layers))
    refuse(
        fmt::format("{} for JAX: {} of {} blocks see windows of {} tokens of {}", planner::to_string(layout),
                    model.window_layers, model.layers, model.window, whole(job.seq)),
        "windows without context parallelism, and of all blocks or without stages");
  // Evenly: the first one of each turn sees all.
  for (int i = 0; i < model.layers; ++i)
    blocks[static_cast<size_t>(i)] =
        (i + 1) * model.window_layers / model.layers > i * model.window_layers / model.layers;
  return blocks;
}

// MaxText has policies, and Megatron-LM some of the blocks.
void check_recomputation(const Layout& layout, std::string_view program, bool has_layers) {
  const bool is_policy = layout.recompute > Recompute::kSelective && layout.recompute < Recompute::kFull;
  if (is_policy || (layout.recompute_layers > 0 && !has_layers))
    refuse(
        fmt::format(
            "recomputation '{}'{} for {}", planner::to_string(layout.recompute),
            layout.recompute_layers > 0 ? fmt::format(" of {} blocks a chunk", layout.recompute_layers) : "",
            program),
        has_layers ? "--recompute none, selective or full"
                   : "--recompute none or full, without --recompute-layers");
}

// Patches and text are no parts of a sequence that ranks could share out evenly.
void check_streams(const Job& job, const Layout& layout) {
  const Model& model = job.model;
  const auto patches = whole(job.seq) - model.text_tokens;
  const auto side = whole(std::sqrt(double(patches)));
  if (layout.pp > 1 || layout.cp > 1 || layout.sp || model.patch_features % layout.tp != 0 ||
      side * side != patches)
    refuse(
        fmt::format("{} for JAX: {} of {} patches and {} tokens of text", planner::to_string(layout),
                    model.name, patches, model.text_tokens),
        fmt::format("--pp 1 --cp 1 --sp off, ranks that divide the {} numbers of a patch, and a square image",
                    model.patch_features));
}

std::string_view name_for_jax(Schedule schedule) {
  if (schedule == Schedule::kZbInTicks) return "zb";
  if (schedule == Schedule::kDualInTicks) return "dualpipe";
  return schedule == Schedule::kGPipe ? "gpipe" : "1f1b";
}

// What a mesh of stages, data and tensor parallelism has; the rest is refused.
std::string jax(const Job& job, const Line& line) {
  const Layout& layout = line.plan->layout;
  const Model& model = job.model;
  if (model.experts > 0 && layout.dp % layout.ep != 0)
    refuse(fmt::format("{} for JAX: its EP {} does not divide DP {}, whose ranks share a set of experts",
                       planner::to_string(layout), layout.ep, layout.dp),
           "another --ep, or fewer --cp");
  check_ends(model, layout);
  const std::vector<bool> windowed = windowed_blocks(job, layout);
  if (model.of_images() && (layout.pp > 1 || layout.cp > 1 || job.seq != model.positions))
    refuse(fmt::format("{} for JAX: {} in sequences of {}", planner::to_string(layout), model.name,
                       whole(job.seq)),
           fmt::format("models of images without stages and context parallelism, and with {} tokens an image",
                       model.positions));
  if (model.streams > 1) check_streams(job, layout);
  if (!model.has_ends() && model.streams == 1)
    refuse(fmt::format("{} for JAX", model.name),
           "models of words, or of images whose size and patches its config states");
  if (model.biases && layout.pp > 1 && model.layers % (layout.pp * layout.vpp) != 0)
    refuse(fmt::format("{} for JAX: {} blocks with biases on {} stages of {} chunks, of which blocks that a "
                       "chunk lacks would not stay zeros",
                       planner::to_string(layout), model.layers, layout.pp, layout.vpp),
           "--pp and --vpp that divide the layers");
  if (job.precision == Precision::kFp8) refuse("float8 for JAX", "--precision bf16");
  check_recomputation(layout, "JAX", false);
  if (layout.offload) refuse("offload for JAX", "a plan without --offload");
  const nlohmann::ordered_json plan{
      {"instance", line.on->machine.instance},
      {"count", line.on->count},
      {"step_s", line.plan->step_s},
      {"layers", line.plan->layers},
      {"seq", whole(job.seq)},
      {"global_batch", whole(job.global_batch)},
      {"precision", planner::to_string(job.precision)},
      {"model",
       {{"name", model.name},
        {"layers", model.layers},
        {"hidden", model.hidden},
        {"heads", model.heads},
        {"kv_heads", model.kv_heads},
        {"head_dim", model.head_dim},
        {"ffn", model.ffn},
        {"vocabulary", filled_vocabulary(model, layout, line.on->machine.cores_per_rank)},
        {"gated", model.gated},
        {"causal", model.causal},
        {"window", model.window},
        {"windowed", windowed},
        {"tied", model.tied},
        {"root_mean_square", !model.layer_norms()},
        {"biases", model.biases},
        {"positions", model.positions},
        {"patch_features", model.patch_features},
        {"streams", model.streams},
        {"text_tokens", model.text_tokens},
        {"text_features", model.text_features},
        {"pooled_features", model.pooled_features},
        {"query_rank", model.query_rank},
        {"kv_rank", model.kv_rank},
        {"nope_dim", model.nope_dim},
        {"rope_dim", model.rope_dim},
        {"value_dim", model.value_dim},
        {"experts", model.experts},
        {"active_experts", model.active_experts},
        {"expert_ffn", model.expert_ffn},
        {"shared_ffn", model.shared_ffn},
        {"dense_layers", model.experts > 0 ? model.dense_layers : 0}}},
      {"layout",
       {{"pp", layout.pp},
        {"vpp", layout.vpp},
        {"schedule", name_for_jax(layout.schedule)},
        {"blocks", blocks_of_chunks(model, layout)},
        {"dp", layout.dp},
        {"cp", layout.cp},
        {"tp", layout.tp},
        {"ep", layout.ep},
        {"capacity", model.expert_capacity(job.seq / layout.cp)},
        {"sp", layout.sp},
        {"zero", int{layout.zero}},
        {"micro_batch", layout.micro_batch},
        {"recompute", planner::to_string(layout.recompute)}}}};
  std::string text(embedded_jax_page());
  constexpr std::string_view kPlace = "{{plan}}";
  const size_t at = text.find(kPlace);
  // ASCII, and no quotes in threes: a name is the only text of the user's.
  std::string made = plan.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
  return text.replace(at, kPlace.size(), made);
}

std::string torchtitan(const Job& job, const Line& line) {
  const Layout& layout = line.plan->layout;
  const bool fsdp = layout.zero >= 3;
  std::string schedule = layout.vpp > 1 ? "Interleaved1F1B" : "1F1B";
  if (layout.schedule == Schedule::kZbV) schedule = "ZBVZeroBubble";
  if (layout.schedule != Schedule::k1F1B && layout.schedule != Schedule::kZbV)
    refuse(fmt::format("{} for torchtitan", planner::to_string(layout.schedule)), "--schedule 1f1b zb-v");
  if (layout.zero == 1 || layout.zero == 2)
    refuse(fmt::format("ZeRO-{} for torchtitan", int{layout.zero}), "--zero 0 or 3");
  if (layout.offload) refuse("offload of the optimizer for torchtitan", "a plan without --offload");
  const double local = job.global_batch / layout.dp;
  std::string text = fmt::format(
      "# {} in the layout {}, by opentrn plan. Flavors of models and data sets are torchtitan's: fill them "
      "in.\n"
      "[model]\nname = \"llama3\"\nflavor = \"\"  # {:.1f}B parameters\n\n"
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\n\n"
      "[parallelism]\ndata_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "tensor_parallel_degree = {}\ncontext_parallel_degree = {}\npipeline_parallel_degree = {}\n",
      job.model.name, planner::to_string(layout), job.model.parameters() / 1e9, whole(local),
      whole(job.global_batch), whole(job.seq), fsdp ? 1 : layout.dp, fsdp ? layout.dp : 1, layout.tp,
      layout.cp, layout.pp);
  if (layout.ep > 1) text += fmt::format("expert_parallel_degree = {}\n", layout.ep);
  if (layout.pp > 1)
    text += fmt::format("pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
                        schedule, layout.micro_batch);
  check_recomputation(layout, "torchtitan", false);
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n", planner::to_string(layout.recompute));
  if (layout.recompute == Recompute::kSelective) text += "selective_ac_option = \"op\"\n";
  if (job.precision == Precision::kFp8)
    text += "\n[model.converters]\n# float8 products\nconverters = [\"float8\"]\n";
  return text;
}

std::string nxdt(const Job& job, const Line& line) {
  const Layout& layout = line.plan->layout;
  if (line.on->machine.kind != planner::Kind::kNeuron)
    refuse(fmt::format("NxD Training on {}", line.on->machine.instance), "a Trn instance");
  if (layout.schedule != Schedule::k1F1B)
    refuse(fmt::format("{} for NxD Training", planner::to_string(layout.schedule)), "--schedule 1f1b");
  if (layout.zero > 1) refuse(fmt::format("ZeRO-{} for NxD Training", int{layout.zero}), "--zero 0 or 1");
  if (layout.ep > 1 && layout.cp > 1) refuse("EP with CP for NxD Training", "one of the two");
  check_recomputation(layout, "NxD Training", false);
  const Model& model = job.model;
  const char* granularity = layout.recompute == Recompute::kFull        ? "full"
                            : layout.recompute == Recompute::kSelective ? "selective"
                                                                        : "null";
  std::string text = fmt::format(
      "# {} in the layout {}, by opentrn plan. Data and checkpoints are yours to fill in.\n"
      "trainer:\n  devices: {}\n  num_nodes: {}\n"
      "distributed_strategy:\n  tensor_model_parallel_size: {}\n  pipeline_model_parallel_size: {}\n"
      "  virtual_pipeline_model_parallel_size: {}\n  context_parallel_size: {}\n  zero1: {}\n"
      "  sequence_parallel: {}\n",
      model.name, planner::to_string(layout), line.on->machine.ranks_per_server, line.on->count, layout.tp,
      layout.pp, layout.vpp, layout.cp, layout.zero >= 1, layout.sp);
  if (layout.ep > 1) text += fmt::format("  expert_model_parallel_size: {}\n", layout.ep);
  if (layout.tp > model.kv_heads)
    text += fmt::format("  kv_replicator: {}\n", layout.tp / std::max(1, model.kv_heads));
  text += fmt::format(
      "data:\n  micro_batch_size: {}\n  global_batch_size: {}\n  seq_length: {}\n"
      "model:\n  num_layers: {}\n  hidden_size: {}\n  ffn_hidden_size: {}\n  num_attention_heads: {}\n"
      "  num_kv_heads: {}\n  encoder_seq_length: {}\n  activations_checkpoint_granularity: {}\n",
      layout.micro_batch, whole(job.global_batch), whole(job.seq), model.layers, model.hidden, model.ffn,
      model.heads, model.kv_heads, whole(job.seq), granularity);
  text +=
      fmt::format("precision:\n  type: {}\n", job.precision == Precision::kFp32 ? "fp32" : "mixed_precision");
  return text;
}

// Overrides of its base.yml; what is a power of a server's chips is on its fast links.
std::string maxtext(const Job& job, const Line& line) {
  const Layout& layout = line.plan->layout;
  const Model& model = job.model;
  const std::string text = planner::to_string(layout);
  if (layout.pp > 1 || layout.sp || layout.ep > 1)
    refuse(fmt::format("{} for MaxText", text), "--pp 1 --sp off, and --ep 1");
  if (layout.zero == 1 || layout.zero == 2)
    refuse(fmt::format("ZeRO-{} for MaxText", int{layout.zero}), "--zero 0 or 3");
  if (layout.recompute == Recompute::kSelective || layout.recompute_layers > 0)
    refuse(fmt::format("{} for MaxText", text),
           "--recompute full, none or a policy of MaxText, without --recompute-layers");
  if (layout.offload) refuse("offload of the optimizer for MaxText", "a plan without --offload");
  if (!model.gated || !model.causal || model.latent() || model.experts > 0 || model.positions > 0 ||
      model.layer_norms() || model.window_layers > 0)
    refuse(fmt::format("{} for MaxText", model.name), "a dense decoder as Llama's");
  const double sharing = double(layout.tp) * layout.cp, per_device = layout.micro_batch / sharing;
  const int64_t server = line.on->machine.ranks_per_server;
  const int64_t inside = std::max<int64_t>(1, std::min<int64_t>(layout.dp, server / int64_t(sharing)));
  std::string out = fmt::format(
      "# {} in the layout {}, by opentrn plan: python3 -m maxtext.trainers.pre_train.train maxtext.yml\n"
      "base_config: \"base.yml\"\nmodel_name: \"default\"\ndecoder_block: \"llama2\"\n",
      model.name, text);
  const auto add = [&](const char* name, const auto& value) { out += fmt::format("{}: {}\n", name, value); };
  add("base_emb_dim", model.hidden);
  add("base_num_query_heads", model.heads);
  add("base_num_kv_heads", model.kv_heads);
  add("head_dim", model.head_dim);
  add("base_mlp_dim", model.ffn);
  add("base_num_decoder_layers", model.layers);
  add("vocab_size", whole(model.vocabulary));
  add("logits_via_embedding", model.tied);
  add("max_target_length", whole(job.seq));
  add("per_device_batch_size", per_device);
  add("gradient_accumulation_steps", whole(job.global_batch / (double(layout.dp) * layout.micro_batch)));
  const char* axis = layout.zero >= 3 ? "fsdp" : "data";
  const char* other = layout.zero >= 3 ? "data" : "fsdp";
  out +=
      fmt::format("ici_{}_parallelism: {}\ndcn_{}_parallelism: {}\n", axis, inside, axis, layout.dp / inside);
  out += fmt::format("ici_{}_parallelism: 1\ndcn_{}_parallelism: 1\n", other, other);
  add("ici_tensor_parallelism", layout.tp);
  add("ici_context_parallelism", layout.cp);
  add("remat_policy", planner::to_string(layout.recompute));
  add("scan_layers", true);
  if (job.precision == Precision::kFp8) add("quantization", "fp8");
  if (job.precision == Precision::kFp32) add("dtype", "float32");
  return out;
}

std::string megatron(const Job& job, const Line& line) {
  const Layout& layout = line.plan->layout;
  if (layout.schedule != Schedule::k1F1B)
    refuse(fmt::format("{} for Megatron-LM", planner::to_string(layout.schedule)), "--schedule 1f1b");
  if (layout.zero > 1) refuse(fmt::format("ZeRO-{} for Megatron-LM", int{layout.zero}), "--zero 0 or 1");
  const Model& model = job.model;
  std::string text = fmt::format("# {} in the layout {}, by opentrn plan: arguments of pretrain_gpt.py\n",
                                 model.name, planner::to_string(layout));
  const auto add = [&](const char* name, auto value) { text += fmt::format("--{} {}\n", name, value); };
  add("tensor-model-parallel-size", layout.tp);
  add("pipeline-model-parallel-size", layout.pp);
  if (layout.vpp > 1) add("num-layers-per-virtual-pipeline-stage", model.layers / layout.pp / layout.vpp);
  if (layout.cp > 1) add("context-parallel-size", layout.cp);
  if (layout.sp) text += "--sequence-parallel\n";
  if (layout.zero >= 1) text += "--use-distributed-optimizer\n";
  if (layout.offload) text += "--optimizer-cpu-offload\n";
  add("micro-batch-size", layout.micro_batch);
  add("global-batch-size", whole(job.global_batch));
  add("seq-length", whole(job.seq));
  add("max-position-embeddings", whole(job.seq));
  add("num-layers", model.layers);
  add("hidden-size", model.hidden);
  if (model.ffn > 0) add("ffn-hidden-size", model.ffn);
  add("num-attention-heads", model.heads);
  if (model.kv_heads != model.heads) {
    text += "--group-query-attention\n";
    add("num-query-groups", model.kv_heads);
  }
  if (model.gated) text += "--swiglu\n";
  if (!model.layer_norms()) text += "--normalization RMSNorm\n";
  if (!model.biases) text += "--disable-bias-linear\n";
  if (model.positions == 0) add("position-embedding-type", "rope");
  if (!model.tied) text += "--untie-embeddings-and-output-weights\n";
  if (model.experts > 0) {
    add("num-experts", model.experts);
    add("moe-router-topk", model.active_experts);
    add("moe-ffn-hidden-size", model.expert_ffn);
    add("expert-model-parallel-size", layout.ep);
  }
  check_recomputation(layout, "Megatron-LM", true);
  if (layout.recompute == Recompute::kFull) {
    text += fmt::format("--recompute-granularity full\n--recompute-method {}\n",
                        layout.recompute_layers > 0 ? "block" : "uniform");
    add("recompute-num-layers", std::max<int>(1, layout.recompute_layers));
  }
  if (layout.recompute == Recompute::kSelective) text += "--recompute-granularity selective\n";
  if (job.precision != Precision::kFp32) text += "--bf16\n";
  if (job.precision == Precision::kFp8) add("fp8-format", "hybrid");
  return text;
}

}  // namespace

std::string export_plan(const Job& job, const Line& line, const std::string& format,
                        const std::string& folder) {
  std::string name, text;
  if (format == "jax") {
    name = "train.py";
    text = jax(job, line);
  } else if (format == "torchtitan") {
    name = "train.toml";
    text = torchtitan(job, line);
  } else if (format == "nxdt") {
    name = "nxdt.yaml";
    text = nxdt(job, line);
  } else if (format == "maxtext") {
    name = "maxtext.yml";
    text = maxtext(job, line);
  } else {
    name = "megatron.args";
    text = megatron(job, line);
  }
  if (folder.empty()) return export_plan(job, line, format, ".");
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  const std::string path = (std::filesystem::path(folder) / name).string();
  NewFile file(path, "plan.export", "a folder that can be written");
  file.put(text.data(), text.size());
  file.finish();
  return path;
}

}  // namespace opentrn::cli
