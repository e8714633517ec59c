#include "planner/memory.h"

#include <algorithm>
#include <cmath>

#include "planner/pipeline.h"
#include "planner/schedule.h"

namespace opentrn::planner {
namespace {

double shard_of(const Layout& layout) {
  const double all = double(layout.dp) * layout.cp;
  return layout.shard > 0 ? std::min<double>(layout.shard, all) : all;
}

double expert_share(const Model& model) {
  return model.layers > 0 ? double(model.expert_layers()) / model.layers : 0;
}

double mlp_width(const Model& model, bool with_experts) {
  return with_experts ? double(model.active_experts) * model.expert_ffn + model.shared_ffn
                      : double(model.ffn);
}

// Dense weights and experts of a rank: experts are cut over ep ranks, and their copies over fewer.
struct Held {
  double dense = 0, experts = 0;
};

Held held(const Model& model, const Layout& layout, bool first, bool last) {
  const double blocks = blocks_of(model, layout, first, last);
  const double both = double(places_with_both(model, layout)) * layout.vpp;
  const double experts = both > 0 ? blocks : blocks * expert_share(model);
  Held out;
  out.dense = model.streams * (blocks * (model.attention_parameters_of_rank(layout.tp) +
                                         model.modulation / layout.tp + model.norm_parameters()) +
                               (blocks - experts + both) * model.dense_mlp_parameters() / layout.tp);
  if (model.experts > 0) {
    const double routed = model.experts * model.expert_parameters();
    out.dense += experts * (model.expert_block_parameters() - routed) / layout.tp;
    out.experts = experts * routed / layout.ep / layout.tp;
  }
  if (shares_ends(layout.schedule)) {
    const double ends = model.embedding_parameters() + model.input_parameters + model.class_parameters() +
                        (model.tied ? 0 : model.vocabulary * model.hidden);
    out.dense += ends / layout.tp / layout.pp;
    return out;
  }
  if (first) out.dense += (model.embedding_parameters() + model.input_parameters) / layout.tp;
  if (last) out.dense += model.class_parameters() / layout.tp;
  // A tied output layer is the embedding's copy where the last stage is not the first.
  if (last && !(first && model.tied)) out.dense += model.vocabulary * model.hidden / layout.tp;
  return out;
}

Memory stage_memory(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                    bool first, bool last) {
  const Model& model = job.model;
  const bool both_ends = is_v_shaped(layout.schedule) || layout.schedule == Schedule::kDualPipe;
  Held parameters = held(model, layout, first || both_ends, last || both_ends);
  parameters.dense *= stages_held(layout.schedule);
  parameters.experts *= stages_held(layout.schedule);
  const double shard = shard_of(layout), expert_shard = std::max(1.0, shard / layout.ep);
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  const auto cut = [&](double bytes, bool sharded) {
    return bytes * (sharded ? parameters.dense / shard + parameters.experts / expert_shard
                            : parameters.dense + parameters.experts);
  };
  Memory memory;
  memory.stage = first ? "first" : last ? "last" : "second";
  const bool fsdp = layout.zero >= 3;
  // FSDP keeps its shard in float32, which is the optimizer's master too.
  memory.weights = fsdp ? cut(4, true) : cut(element, false);
  memory.gradients = cut(stack.gradient_bytes, layout.zero >= 2);
  if (layout.pp > 1 && layout.schedule == Schedule::kDualInTicks) {  // and those of another stage
    memory.weights += cut(element, false);
    memory.gradients += cut(stack.gradient_bytes, false);
  }
  memory.optimizer =
      layout.offload ? 0 : cut(fsdp ? stack.master_bytes - 4 : stack.master_bytes, layout.zero >= 1);

  const double tokens = layout.micro_batch * job.seq / layout.cp;
  const double m = job.global_batch / (double(layout.dp) * layout.micro_batch);
  // The ends of a V are on one rank, and ranks of a pipeline of two directions keep as much.
  const bool all_alike = layout.schedule != Schedule::k1F1B;
  const auto count = static_cast<int64_t>(std::max(1.0, m));
  double flights = first || !last || all_alike ? in_flight(layout.schedule, layout.pp, layout.vpp, count) : 1;
  // The second stage keeps one micro-batch less than the first, once the first has more than all of them.
  if (!first && !last && !all_alike) flights = std::min(double(count), std::max(1.0, flights - 1));
  const double blocks = blocks_of(model, layout, first, last), share = expert_share(model);
  const auto kept = [&](const Layout& of) {
    return (1 - share) * kept_bytes_per_token(job, stack, of, false) +
           share * (model.experts > 0 ? kept_bytes_per_token(job, stack, of, true) : 0);
  };
  Layout whole = layout;
  whole.recompute = Recompute::kNone;
  const double again = blocks_again(layout, blocks);
  const double of_blocks =
      (again > 0 ? again * kept(layout) : 0) + (again < blocks ? (blocks - again) * kept(whole) : 0);
  memory.activations = tokens * of_blocks * std::max(1.0, flights);
  // A block that is recomputed is whole for the time of its backward pass, with its gradients.
  if (again > 0)
    memory.working += tokens * kept_bytes_per_token(job, stack, whole, model.expert_layers() > 0);
  const bool shares = shares_ends(layout.schedule);
  if (last || shares)
    memory.working = std::max(
        memory.working, tokens * model.vocabulary / layout.tp / (shares ? layout.pp : 1) * stack.logit_bytes);
  // GPipe keeps what the last blocks give until all micro-batches are through, and its gradients beside it;
  // 1F1B in ticks what is looked up, and what goes to other stages.
  if (shares)
    memory.activations += tokens * element * model.hidden / (layout.sp ? layout.tp : 1) *
                          (layout.schedule == Schedule::kGPipe ? 2 * flights : 4);
  if (layout.schedule == Schedule::kZbInTicks) memory.activations += layout.pp * split_bytes(job, layout);
  if (fsdp && layout.pp > 1) {
    // Between micro-batches nothing is cut again: whole weights stay gathered, whole gradients add up.
    memory.working += (parameters.dense + parameters.experts) * (element + stack.gradient_bytes);
  } else if (fsdp) {
    const double block = (parameters.dense + parameters.experts) / std::max(1.0, blocks);
    memory.working += 2 * block * element + block * 4;  // two gathered blocks, and one's gradients
  }
  memory.runtime = stack.runtime_bytes / std::max(1.0, machine.ranks_per_chip) +
                   stack.fragmentation * (memory.activations + memory.working);
  return memory;
}

}  // namespace

double split_bytes(const Job& job, const Layout& layout) {
  const Model& model = job.model;
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  const double tokens = double(layout.micro_batch) * job.seq / layout.cp;
  const double heads = 2.0 * model.head_dim * (model.heads + model.kv_heads);
  const double numbers = 4.0 * model.hidden + (heads + (model.gated ? 3.0 : 2.0) * model.ffn) / layout.tp;
  return blocks_per_stage(model, layout) * tokens * numbers * element;
}

int places_with_both(const Model& model, const Layout& layout) {
  if (layout.pp == 1 || !shares_ends(layout.schedule) || model.experts == 0) return 0;
  return std::min(model.dense_layers, blocks_per_stage(model, layout) / layout.vpp);
}

int blocks_per_stage(const Model& model, const Layout& layout) {
  if (layout.pp > 1 && shares_ends(layout.schedule)) {  // all chunks are as long as the longest one
    const int chunks = layout.pp * layout.vpp;
    return (model.layers + chunks - 1) / chunks * layout.vpp;
  }
  if (layout.pp <= 1 || model.layers % layout.pp == 0) return model.layers / std::max<int>(1, layout.pp);
  if (ends_count_as_blocks(model, layout)) return (model.layers + 2) / layout.pp;
  return (model.layers + layout.pp - 1) / layout.pp;
}

int blocks_of(const Model& model, const Layout& layout, bool first, bool last) {
  const int most = blocks_per_stage(model, layout);
  if (layout.pp <= 1 || model.layers % layout.pp == 0 || shares_ends(layout.schedule)) return most;
  if (ends_count_as_blocks(model, layout)) return first || last ? most - 1 : most;
  return last ? model.layers / layout.pp : most;
}

bool ends_count_as_blocks(const Model& model, const Layout& layout) {
  return layout.pp > 2 && model.layers % layout.pp != 0 && (model.layers + 2) % layout.pp == 0;
}

bool chunks_are_whole(const Model& model, const Layout& layout) {
  const int64_t chunks = int64_t{layout.pp} * layout.vpp;
  return model.layers % chunks == 0 || (layout.pp > 2 && (model.layers + 2) % chunks == 0);
}

double parameters_per_rank(const Model& model, const Layout& layout, bool first, bool last) {
  const Held parameters = held(model, layout, first, last);
  return parameters.dense + parameters.experts;
}

double expert_parameters_per_rank(const Model& model, const Layout& layout) {
  return held(model, layout, false, false).experts;
}

HeadWidths head_widths(const Model& model, int tp) {
  const double heads = model.heads, keys = std::max(tp, model.kv_heads);
  const double turned = model.nope_dim + model.rope_dim;
  if (model.latent())
    return {heads * turned, heads * turned, heads * model.value_dim, heads * model.value_dim};
  return {heads * model.head_dim, keys * model.head_dim, keys * model.head_dim, heads * model.head_dim};
}

double kept_product_bytes(const Job& job, const Layout& layout, const KeptProducts& kept, bool with_experts) {
  const Model& model = job.model;
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  const HeadWidths widths = head_widths(model, layout.tp);
  const double cut =
      (kept.query ? widths.query : 0) + (kept.key ? widths.key : 0) + (kept.value ? widths.value : 0) +
      (kept.context ? widths.out : 0) +
      mlp_width(model, with_experts) * (double(kept.up) + (model.gated ? double(kept.gate) : 0));
  const double wide = double(kept.out) + (kept.down ? with_experts ? model.active_experts : 1 : 0);
  return element * (cut / layout.tp + wide * model.hidden / (layout.sp ? layout.tp : 1));
}

double kept_bytes_per_token(const Job& job, const Stack& stack, const Layout& layout, bool with_experts) {
  const Model& model = job.model;
  const double h = model.hidden, tp = layout.tp, element = job.precision == Precision::kFp32 ? 4 : 2;
  const double cut = layout.sp ? tp : 1;
  if (layout.recompute == Recompute::kFull) return element * h / cut;
  if (const auto kept = kept_products(layout.recompute, stack, with_experts))
    return element * h / cut + (kept->on_host ? 0 : kept_product_bytes(job, layout, *kept, with_experts));
  const double mask = model.dropout ? 1 : 0;
  // Inputs of two norms and of the two products behind them, and dropout's masks: of all of a token's width.
  const double wide =
      (2 * element + 2 * (job.precision == Precision::kFp8 ? 1 : element) + 2 * mask) * h / cut;
  const HeadWidths widths = head_widths(model, layout.tp);
  const double ffn = mlp_width(model, with_experts);
  const double routed = with_experts ? 2 * element * model.active_experts * h / cut : 0;
  // What only feeds a product is kept as the product reads it.
  const double fed = job.precision == Precision::kFp8 ? 1 : element;
  const double inner =
      element * widths.all() + fed * widths.out + ffn * (element * (model.gated ? 2 : 1) + fed);
  double scores = 0;
  if (!stack.flash && layout.recompute == Recompute::kNone)
    scores = model.heads * job.seq * (model.dropout ? 2 * element + 1 : 2 * element);
  const double all = (wide + routed + (inner + scores) / tp) * stack.kept_share;
  return all;
}

Memory memory_of(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout) {
  const Memory first = stage_memory(job, machine, stack, layout, true, layout.pp == 1);
  if (layout.pp == 1) return first;
  const Memory last = stage_memory(job, machine, stack, layout, false, true);
  const Memory& fuller = first.total() >= last.total() ? first : last;
  if (blocks_of(job.model, layout, true, false) == blocks_per_stage(job.model, layout)) return fuller;
  const Memory second = stage_memory(job, machine, stack, layout, false, false);
  return second.total() > fuller.total() ? second : fuller;
}

}  // namespace opentrn::planner
