#include "planner/step.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "planner/communication.h"
#include "planner/layer_cost.h"
#include "planner/memory.h"
#include "planner/pipeline.h"
#include "planner/recompute.h"
#include "planner/schedule.h"

namespace opentrn::planner {
namespace {

struct Groups {
  Group tp, cp, ep, dp, pp;
};

// TP next to each other, then CP, DP, and stages apart; experts over the ranks of CP and DP.
Groups groups_of(const Layout& layout) {
  const int64_t tp = layout.tp, cp = layout.cp;
  return {
      {tp, 1}, {cp, tp}, {layout.ep, tp}, {int64_t{layout.dp} * cp, tp}, {layout.pp, tp * cp * layout.dp}};
}

// Collectives of TP that a block's pass has, where `hides_tp` leaves their bytes.
std::vector<Call> tp_calls(const Job& job, const Stack& stack, const Layout& layout, const Groups& groups,
                           int64_t count) {
  if (layout.tp <= 1 || stack.hides_tp >= 1) return {};
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  const double bytes = layout.micro_batch * job.seq / layout.cp * job.model.hidden * element;
  return {{collectives::Kind::kAllReduce, groups.tp, bytes * (1 - stack.hides_tp), count}};
}

// Of what a block's forward pass waits for in collectives, the parts that it waits for again in the backward
// pass.
struct WaitsAgain {
  double tp = 0, cp = 0, ep = 0;
};

WaitsAgain waits_again(const Stack& stack, const Layout& layout, bool with_experts) {
  if (layout.recompute == Recompute::kFull)
    return {stack.skips_last_product && !with_experts ? 0.5 : 1, 1, 1};
  const auto kept = kept_products(layout.recompute, stack, with_experts);
  if (!kept) return {};
  // Of its two sums nothing reads the second one; what experts give comes back where that is not kept.
  return {kept->sums ? 0 : 0.5, kept->context ? 0.0 : 1.0,
          (kept->gate && kept->up ? 0 : 0.5) + (kept->down ? 0 : 0.5)};
}

int64_t tp_calls_backward(const Stack& stack, const Layout& layout) {
  return 2 + (layout.sp ? 1 : 0) + static_cast<int64_t>(2 * waits_again(stack, layout, false).tp);
}

// Of a micro-batch's activations, from a rank to the next stage.
double sent_bytes(const Job& job, const Stack& stack, const Layout& layout) {
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  return layout.micro_batch * job.seq / layout.cp * job.model.hidden * element /
         (layout.sp || stack.scatters_sends ? layout.tp : 1);
}

double sent_s(const Machine& machine, const Stack& stack, const Groups& groups, double bytes) {
  if (groups.pp.ranks <= 1) return 0;
  return stack.sums_sends ? all_reduce_s(machine, {2, groups.pp.stride}, bytes)
                          : send_s(machine, groups.pp, bytes);
}

// What one block's micro-batch waits for in collectives.
struct BlockWaits {
  double tp_forward = 0, tp_backward = 0, cp_forward = 0, cp_backward = 0, ep_forward = 0, ep_backward = 0;
};

BlockWaits block_waits(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                       const Groups& groups, const BlockTime& time, bool with_experts) {
  const Model& model = job.model;
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  const double tokens = layout.micro_batch * job.seq / layout.cp;
  BlockWaits waits;
  if (layout.tp > 1) {
    const double bytes = tokens * model.hidden * element, shown = 1 - stack.hides_tp;
    // Two all-reduces each way, or as many pairs of all-gather and reduce-scatter; with sequences cut, the
    // backward pass gathers its input again.
    const double pair = all_reduce_s(machine, groups.tp, bytes);
    waits.tp_forward = 2 * pair * shown;
    waits.tp_backward = (2 * pair + (layout.sp ? pair : 0)) * shown;
  }
  // The cores of a rank cut its work as ranks of tensor parallelism do: each sum is added up among them
  // first.
  const double inside = inside_rank_s(machine, tokens * model.hidden * element) * (1 - stack.hides_tp);
  waits.tp_forward += 2 * inside;
  waits.tp_backward += 2 * inside;
  if (layout.cp > 1) {
    const double width = model.latent()
                             ? model.kv_rank + model.rope_dim
                             : 2.0 * std::max(1.0, double(model.kv_heads) / layout.tp) * model.head_dim;
    const double ring = all_gather_s(machine, groups.cp, layout.micro_batch * job.seq * width * element);
    // Keys and values pass from rank to rank while attention computes on those that are there.
    waits.cp_forward = std::max(ring - time.attention_inside, stack.exposed_communication * ring);
    waits.cp_backward =
        std::max(2 * ring - 2 * time.attention_inside, stack.exposed_communication * 2 * ring);
  }
  if (with_experts && layout.ep > 1) {
    const double bytes = tokens / (layout.sp ? layout.tp : 1) * model.active_experts * model.hidden * element;
    // DualPipe's pairs of passes are made so that one's exchange goes on beside the other's products.
    const bool dual = layout.schedule == Schedule::kDualPipe;
    const double shown = dual ? stack.exposed_communication : 1;
    const double alone = stack.forwards_tokens ? forwarded_s(machine, groups.ep, bytes, model.active_experts)
                                               : all_to_all_s(machine, groups.ep, bytes);
    double exchange = 2 * alone * shown;
    if (dual && machine.links)
      exchange = std::max(exchange, beside_s(machine, time.forward, tp_calls(job, stack, layout, groups, 2),
                                             {collectives::Kind::kAllToAll, groups.ep, bytes, 2}));
    waits.ep_forward = waits.ep_backward = exchange;
  }
  return waits;
}

struct Stage {
  double forward = 0, backward = 0, recompute = 0, tp = 0, cp = 0, ep = 0;  // of one micro-batch
  double weights = 0;      // of backward: the weights' gradients
  double forward_all = 0;  // with what the forward pass waits for
  double all() const { return forward + backward + recompute + tp + cp + ep; }
};

// A pass of a stage, beside which other collectives go on.
struct StagePass {
  double compute_s = 0;
  int64_t tp_calls = 0;  // of a block
};

StagePass backward_of(const Stack& stack, const Layout& layout, const Stage& stage) {
  return {stage.backward + stage.recompute, tp_calls_backward(stack, layout)};
}

// What a block runs forward again; of times from elsewhere the share that the curves have.
double again_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
               const BlockTime& time, bool is_by_curves, bool experts) {
  if (layout.recompute == Recompute::kNone) return 0;
  if (layout.recompute == Recompute::kFull) return time.again.value_or(time.forward);
  if (!kept_products(layout.recompute, stack, experts)) return stack.flash ? 0 : time.attention_inside;
  const BlockTime curves = is_by_curves ? time : block_s(job, machine, stack, layout, experts);
  const double again = time.forward * *curves.again / curves.forward;
  const double moved = curves.kept_bytes > 0 ? curves.kept_bytes / machine.host_link_bytes_s : 0;
  return again + std::max(0.0, moved - time.forward) + std::max(0.0, moved - time.backward - again);
}

Stage stage_of(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
               const Groups& groups, const LayerTimes* layers) {
  const Model& model = job.model;
  const double blocks = blocks_per_stage(model, layout);
  const double both =
      layers != nullptr && layers->both_block ? double(places_with_both(model, layout)) * layout.vpp : 0;
  const double with_experts = both > 0           ? blocks
                              : model.layers > 0 ? blocks * model.expert_layers() / model.layers
                                                 : 0;
  Stage stage;
  const auto add = [&](double count, bool experts, bool has_both = false) {
    if (count <= 0) return;
    const BlockTime time = layers == nullptr                 ? block_s(job, machine, stack, layout, experts)
                           : has_both                        ? *layers->both_block
                           : experts && layers->expert_block ? *layers->expert_block
                                                             : layers->block;
    const BlockWaits waits = block_waits(job, machine, stack, layout, groups, time, experts);
    stage.forward += count * time.forward;
    stage.forward_all += count * (time.forward + waits.tp_forward + waits.cp_forward + waits.ep_forward);
    stage.backward += count * time.backward;
    stage.weights += count * time.weights;
    const double share = blocks_again(layout, blocks) / blocks;
    const WaitsAgain again = waits_again(stack, layout, experts);
    stage.recompute += count * share * again_s(job, machine, stack, layout, time, layers == nullptr, experts);
    stage.tp += count * (waits.tp_forward * (1 + share * again.tp) + waits.tp_backward);
    stage.cp += count * (waits.cp_forward * (1 + share * again.cp) + waits.cp_backward);
    stage.ep += count * (waits.ep_forward * (1 + share * again.ep) + waits.ep_backward);
  };
  add(blocks - with_experts, false);
  add(with_experts - both, true);
  add(both, true, true);
  if (layout.pp > 1 && stack.hides_sends && machine.links) {
    const Call send{collectives::Kind::kPermute, groups.pp, sent_bytes(job, stack, layout)};
    const auto slowed = [&](const StagePass& pass) {
      const auto count = static_cast<int64_t>(std::ceil(blocks)) * pass.tp_calls;
      return beside_s(machine, pass.compute_s, tp_calls(job, stack, layout, groups, count), send);
    };
    const double forward = slowed({stage.forward, 2});
    stage.tp += forward + slowed(backward_of(stack, layout, stage));
    stage.forward_all += forward;
  }
  return stage;
}

// Of the rank that holds most: on the first stage, or on one with more blocks.
double most_parameters(const Model& model, const Layout& layout) {
  const double first = parameters_per_rank(model, layout, true, layout.pp == 1);
  if (blocks_of(model, layout, true, false) == blocks_per_stage(model, layout)) return first;
  return std::max(first, parameters_per_rank(model, layout, false, false));
}

// A rank's weights with their experts apart, of which `ep` times fewer ranks have copies.
struct RankWeights {
  double dense = 0, experts = 0;
};

RankWeights weights_of(const Model& model, const Layout& layout) {
  const double all = most_parameters(model, layout);
  const double experts = std::min(all, model.experts > 0 ? expert_parameters_per_rank(model, layout) : 0.0);
  return {all - experts, experts};
}

// Of what `cut` ranks share.
double updated_of(const RankWeights& held, const Layout& layout, double cut) {
  return held.dense / cut + held.experts / std::max(1.0, cut / layout.ep);
}

// All ranks' dense weights, and experts among those that have them; `bytes` of a parameter, in so many parts.
double gathered_s(const Machine& machine, const Layout& layout, Group group, const RankWeights& held,
                  double bytes, double parts = 1) {
  double seconds = parts * all_gather_s(machine, group, held.dense * bytes / parts);
  const Group copies{std::max<int64_t>(1, group.ranks / layout.ep), group.stride * layout.ep};
  if (held.experts > 0 && copies.ranks > 1)
    seconds += parts * all_gather_s(machine, copies, held.experts * bytes / parts);
  return seconds;
}

// What the pass waits for collectives beside it that take `all_s` alone, in a part for each block. On links
// those of TP share the links with them.
double past_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
              const Groups& groups, const StagePass& pass, double all_s, const Call& of_block) {
  if (!machine.links) return all_s - pass.compute_s;
  const double blocks = blocks_per_stage(job.model, layout);
  return blocks * beside_s(machine, pass.compute_s / blocks,
                           tp_calls(job, stack, layout, groups, pass.tp_calls), of_block);
}

// Gradients reduced and weights gathered once a step, ZeRO 0 to 2.
double gradient_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                  const Groups& groups, const Stage& stage) {
  if (groups.dp.ranks <= 1) return 0;
  const double parameters = most_parameters(job.model, layout);
  const double reduced = parameters * stack.reduced_bytes,
               element = job.precision == Precision::kFp32 ? 4 : 2;
  const RankWeights held = weights_of(job.model, layout);
  // Some ranks that share the optimizer's states have parts of a sum that all have.
  Group sharing = groups.dp;
  if (layout.shard > 0) sharing.ranks = std::min<int64_t>(sharing.ranks, layout.shard);
  const bool in_parts = layout.zero >= 1 && sharing.ranks == groups.dp.ranks;
  // A sum that all get whole is both.
  const double reduce =
      held.experts <= 0 && !in_parts
          ? all_reduce_s(machine, groups.dp, reduced)
          : (in_parts ? 1 : 2) * gathered_s(machine, layout, groups.dp, held, stack.reduced_bytes);
  const double gather = layout.zero >= 1 ? gathered_s(machine, layout, sharing, held, element) : 0;
  if (!stack.hides_gradients) return reduce + gather;
  // Behind the last backward pass and the first forward pass of a stage.
  const double shown = stack.exposed_communication, blocks = blocks_per_stage(job.model, layout);
  const auto past = [&](const StagePass& pass, double all_s, const Call& of_all) {
    if (shown >= 1) return all_s;
    const Call of_block{of_all.kind, of_all.group, of_all.bytes / blocks};
    return std::max(past_s(job, machine, stack, layout, groups, pass, all_s, of_block), shown * all_s);
  };
  const auto reduces = in_parts ? collectives::Kind::kAllGather : collectives::Kind::kAllReduce;
  return past(backward_of(stack, layout, stage), reduce, {reduces, groups.dp, reduced}) +
         past({stage.forward, 2}, gather,
              {collectives::Kind::kAllGather, sharing, layout.zero >= 1 ? parameters * element : 0});
}

// ZeRO 3: every micro-batch gathers each block's weights before its forward and its backward pass, and
// reduces its gradients after.
double sharded_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                 const Groups& groups, const Stage& stage, double micro_batches) {
  Group group = groups.dp;
  if (layout.shard > 0) group.ranks = std::min<int64_t>(group.ranks, layout.shard);
  if (group.ranks <= 1) return 0;
  const double parameters = most_parameters(job.model, layout);
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  // Ranks that have the same part of a gradient add theirs up, once a step.
  const Group copies{groups.dp.ranks / group.ranks, groups.dp.stride * group.ranks};
  const double part = parameters * stack.reduced_bytes / double(group.ranks);
  const double summed = copies.ranks > 1 ? all_reduce_s(machine, copies, part) : 0;
  const double blocks = blocks_per_stage(job.model, layout);
  const RankWeights held = weights_of(job.model, layout);
  const double gather = gathered_s(machine, layout, group, held, element, blocks);
  const double reduce = gathered_s(machine, layout, group, held, stack.reduced_bytes, blocks);
  const double shown = stack.exposed_communication;
  const auto past = [&](const StagePass& pass, double all_s, double of_block) {
    if (shown >= 1) return all_s;
    return std::max(past_s(job, machine, stack, layout, groups, pass, all_s,
                           {collectives::Kind::kAllGather, group, of_block / blocks}),
                    shown * all_s);
  };
  const double beside = backward_of(stack, layout, stage).compute_s;
  const double once = shown >= 1 ? summed : std::max(summed - beside, shown * summed);
  // Gathering and reducing are the same traffic, one after the other.
  const double both = parameters * (element + stack.reduced_bytes);
  return once + micro_batches * (past({stage.forward, 2}, gather, parameters * element) +
                                 past(backward_of(stack, layout, stage), gather + reduce, both));
}

// Ranks that share the ends' work, as if all were of tensor parallelism.
Layout of_ends(Layout layout) {
  if (shares_ends(layout.schedule)) layout.tp = static_cast<int16_t>(layout.tp * layout.pp);
  return layout;
}

double first_s(const Job& job, const Machine& machine, const Layout& layout, const LayerTimes* layers) {
  return layers != nullptr && layers->embedding_s ? *layers->embedding_s : embedding_s(job, machine, layout);
}

double last_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
              const LayerTimes* layers) {
  return layers != nullptr ? layers->output_s : output_s(job, machine, stack, of_ends(layout));
}

// What tensor parallelism waits for at the ends of a micro-batch's passes.
struct EndWaits {
  double first = 0, last = 0;
};

// Ranks share the embedding's width, so tokens are gathered (or exchanged for a part of the sequence) and
// their gradients scattered; they share the vocabulary, so the loss needs the largest logit of each token,
// the sum of its powers, and its label's logit.
EndWaits end_waits(const Job& job, const Machine& machine, const Layout& layout, const Groups& groups) {
  if (job.model.vocabulary <= 0) return {};
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  const double tokens = layout.micro_batch * job.seq / layout.cp, bytes = tokens * job.model.hidden * element;
  if (shares_ends(layout.schedule)) {
    // Stages share them too: all have what the last one made, and it has the sum of their gradients.
    const double cut = layout.sp ? layout.tp : 1;
    const double sums = all_reduce_s(machine, groups.pp, bytes / cut) +
                        all_reduce_s(machine, groups.pp, bytes) +
                        3 * all_reduce_s(machine, groups.pp, tokens * 4);
    Layout of_tp = layout;
    of_tp.schedule = Schedule::k1F1B;
    const EndWaits waits = end_waits(job, machine, of_tp, groups);
    return {waits.first + 2 * all_gather_s(machine, groups.pp, bytes / cut), waits.last + sums};
  }
  if (layout.tp <= 1) return {};
  const double gather = all_gather_s(machine, groups.tp, bytes);
  EndWaits out{2 * gather, 3 * all_reduce_s(machine, groups.tp, tokens * 4)};
  if (layout.sp) {
    out.first = 2 * all_to_all_s(machine, groups.tp, bytes / layout.tp);
    out.last += 2 * gather;
  }
  return out;
}

// The slowest stage, for which the others wait: its share of a middle one's blocks, and what it does beside
// them, of which it waits.
struct End {
  double share = 1, more = 0, waits = 0;
};

End slowest_end(const Model& model, const Layout& layout, double per_batch, double first, double last,
                const EndWaits& waits) {
  if (layout.pp == 1 || shares_ends(layout.schedule)) return {1, first + last, waits.first + waits.last};
  const double blocks = blocks_per_stage(model, layout);
  const End ends[] = {{blocks_of(model, layout, true, false) / blocks, first, waits.first},
                      {blocks_of(model, layout, false, true) / blocks, last, waits.last}};
  End slowest{layout.pp > 2 ? 1.0 : 0.0, 0};
  for (const End& each : ends)
    if (each.share * per_batch + each.more > slowest.share * per_batch + slowest.more) slowest = each;
  return slowest;
}

constexpr double kEndTensors = 3;  // embedding, last norm, output layer

// Tensors of weights on the fullest stage: norms, projections and MLP of each block, experts one tensor a
// product; the ends.
double tensors_per_rank(const Model& model, const Layout& layout) {
  const double block = 2 + 4 + (model.gated ? 3 : 2);
  return blocks_per_stage(model, layout) * block * model.streams + kEndTensors;
}

// Of the embedding and the output layer.
double end_parameters(const Model& model, const Layout& layout) {
  return (model.embedding_parameters() + model.input_parameters + model.class_parameters() +
          (model.tied ? 0 : model.vocabulary * model.hidden)) /
         layout.tp;
}

int64_t micro_batches(const Job& job, const Layout& layout) {
  return static_cast<int64_t>(
      std::max(1.0, std::ceil(job.global_batch / (double(layout.dp) * layout.micro_batch))));
}

// That a program in ticks keeps: what blocks were given; of GPipe what the last one made, with its gradient.
double out_of_ticks_bytes(const Job& job, const Layout& layout) {
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  const double tokens = layout.micro_batch * job.seq / layout.cp / (layout.sp ? layout.tp : 1);
  return in_flight(layout.schedule, layout.pp, layout.vpp, micro_batches(job, layout)) *
         (blocks_per_stage(job.model, layout) + (layout.schedule == Schedule::kGPipe ? 2 : 0)) * tokens *
         job.model.hidden * element;
}

std::string_view bound(const StepTime& time) {
  const double compute = time.compute + time.recompute;
  const std::pair<double, std::string_view> causes[] = {{time.tp, "tp"},
                                                        {time.cp, "cp"},
                                                        {time.ep, "ep"},
                                                        {time.pp, "pp"},
                                                        {time.bubble, "bubble"},
                                                        {time.gradients, "dp"},
                                                        {time.optimizer, "optimizer"}};
  std::pair<double, std::string_view> largest{0.15 * compute, "compute"};
  for (const auto& cause : causes)
    if (cause.first > largest.first) largest = cause;
  return largest.second;
}

}  // namespace

MicroBatch micro_batch_of(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                          const LayerTimes* layers) {
  const Groups groups = groups_of(layout);
  const Stage stage = stage_of(job, machine, stack, layout, groups, layers);
  MicroBatch out;
  out.forward_s = stage.forward_all;
  out.backward_s = stage.all() - stage.forward_all;
  out.weight_s = stage.weights;
  const double blocks = blocks_per_stage(job.model, layout);
  out.first_share = blocks_of(job.model, layout, true, layout.pp == 1) / blocks;
  out.last_share = blocks_of(job.model, layout, layout.pp == 1, true) / blocks;
  const EndWaits waits = end_waits(job, machine, layout, groups);
  out.first_s = first_s(job, machine, layout, layers) + waits.first;
  out.last_s = last_s(job, machine, stack, layout, layers) + waits.last;
  if (shares_ends(layout.schedule)) {  // of all stages, half of it each way
    const double each = (std::exchange(out.first_s, 0) + std::exchange(out.last_s, 0)) / 2;
    out.forward_s += each;
    out.backward_s += each;
  }
  const double sent = sent_bytes(job, stack, layout);
  out.send_s = stack.hides_sends ? 0 : sent_s(machine, stack, groups, sent);
  out.count = micro_batches(job, layout);
  return out;
}

Estimate evaluate(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout,
                  const LayerTimes* layers) {
  const Groups groups = groups_of(layout);
  const auto m = static_cast<double>(micro_batches(job, layout));
  const Stage stage = stage_of(job, machine, stack, layout, groups, layers);
  const EndWaits waits = end_waits(job, machine, layout, groups);
  const double last = last_s(job, machine, stack, layout, layers) + waits.last;
  const double first = first_s(job, machine, layout, layers) + waits.first;

  Estimate out;
  out.layout = layout;
  const double per_batch = stage.all(), blocks = blocks_per_stage(job.model, layout);
  const End end = slowest_end(job.model, layout, per_batch, first, last, waits);
  const bool in_ticks = layout.pp > 1 && shares_ends(layout.schedule);
  // What weights' gradients are made of on a later tick is kept until then.
  const double kept_s = layout.schedule == Schedule::kZbInTicks
                            ? 2 * split_bytes(job, layout) / machine.rates.memory_bytes_s
                            : 0;
  const double beside_blocks = in_ticks && layers != nullptr ? layers->tick_s * layout.vpp + kept_s : 0;
  const double slowest = end.share * per_batch + end.more + beside_blocks;
  const double sent = sent_bytes(job, stack, layout);
  // Stages that share the embedding have their tokens from all of them on each tick.
  const double in_passes = in_ticks ? (waits.first + beside_blocks) / 2 : 0;
  const PipelineTime pipeline = pipeline_s({.stages = layout.pp,
                                            .schedule = layout.schedule,
                                            .chunks = layout.vpp,
                                            .micro_batches = static_cast<int64_t>(m),
                                            .slowest_s = slowest,
                                            .sum_s = job.model.layers / blocks * per_batch + last + first,
                                            .forward_s = stage.forward_all + in_passes,
                                            .backward_s = per_batch - stage.forward_all + in_passes,
                                            .weight_s = stage.weights,
                                            .send_s = sent_s(machine, stack, groups, sent),
                                            .hides_sends = stack.hides_sends});
  out.time.bubble = pipeline.bubble_s;
  out.time.pp = pipeline.sends_s;
  const double parameters = most_parameters(job.model, layout);
  // Each micro-batch but the first adds its gradients to those that are there. Where the layers' times hold
  // that, there are zeros before the first.
  // Parts of gradients, which ZeRO-3 sums in each micro-batch, are added behind that.
  const double adds_of_parts = layers != nullptr ? 3 * m * parameters * stack.gradient_bytes /
                                                       double(groups.dp.ranks) / machine.rates.memory_bytes_s
                                                 : 0;
  const bool adds_inside = layers != nullptr && layers->add_gradients;
  const double adds = m <= 1             ? 0
                      : adds_inside      ? parameters * stack.gradient_bytes / machine.rates.memory_bytes_s
                      : layout.zero >= 3 ? adds_of_parts
                      : stack.adds_gradients ? (m - 1) * parameters * (2 * stack.gradient_bytes + 2) /
                                                   machine.rates.memory_bytes_s
                                             : 0;
  out.time.compute =
      m * (end.share * (stage.forward + stage.backward) + end.more - end.waits + beside_blocks) + adds;
  // Room for what ticks keep is made, as for sums of gradients.
  if (beside_blocks > 0) out.time.compute += out_of_ticks_bytes(job, layout) / machine.rates.memory_bytes_s;
  out.time.recompute = m * end.share * stage.recompute;
  out.time.tp = m * (end.share * stage.tp + end.waits);
  out.time.cp = m * end.share * stage.cp;
  out.time.ep = m * end.share * stage.ep;
  out.time.gradients = layout.zero >= 3 ? sharded_s(job, machine, stack, layout, groups, stage, m)
                                        : gradient_s(job, machine, stack, layout, groups, stage);
  // A compiled program's collectives go on beside its passes; on links they have times of their own.
  const double element = job.precision == Precision::kFp32 ? 4 : 2;
  const bool is_program = layers != nullptr && layers->waits && !machine.links && stack.hides_tp <= 0 &&
                          stack.reduced_bytes == element;
  if (is_program) {
    out.time.ep = m * layers->waits->experts_s;
    out.time.cp = m * layers->waits->context_s;
    out.time.tp = m * layers->waits->activations_s - out.time.ep - out.time.cp;
  }
  if (layers != nullptr && layers->ticks && !machine.links && stack.hides_tp <= 0) {
    TickWaits ticks = *layers->ticks;
    // What one of two runs waits for goes on beside the other's work, as far as there is some.
    if (layout.schedule == Schedule::kDualInTicks) {
      const double other = (stage.forward + stage.backward + stage.recompute) / layout.vpp;
      for (double* each :
           {&ticks.tick_s, &ticks.experts_s, &ticks.context_s, &ticks.sends_s, &ticks.loss_s, &ticks.ends_s})
        *each = std::max(0.0, *each - other);
    }
    out.time.ep = m * ticks.experts_s;
    out.time.cp = m * ticks.context_s;
    const double chunks = layout.vpp;
    const double ways = layout.schedule == Schedule::kDualInTicks ? 2 : 1;
    out.time.ep *= chunks;
    out.time.cp *= chunks;
    out.time.pp = (m * chunks + ways * (layout.pp - 1)) * ticks.sends_s;
    out.time.tp =
        m * (chunks * (ticks.tick_s - ticks.sends_s - ticks.experts_s - ticks.context_s) + ticks.loss_s) +
        ticks.once_s;
    out.time.bubble = ways * (layout.pp - 1) *
                      ((stage.forward + stage.backward + stage.recompute + beside_blocks) / chunks +
                       ticks.tick_s - ticks.sends_s);
    // 1F1B looks tokens up on ticks of their own, and once before all ticks, until there are losses.
    if (layout.schedule == Schedule::kZbInTicks) out.time.bubble -= (layout.pp - 1) * stage.weights;
    if (goes_both_ways(layout.schedule))
      out.time.bubble += ways * layout.pp * (ticks.ends_s + layers->embedding_s.value_or(0));
  }
  // Weights of the stage that is as far from the other end come before all ticks, and gradients go back.
  if (layout.pp > 1 && layout.schedule == Schedule::kDualInTicks) {
    const double copied = parameters * (job.precision == Precision::kFp32 ? 4 : 2);
    out.time.pp += 2 * sent_s(machine, stack, groups, copied);
    out.time.compute += 4 * copied / machine.rates.memory_bytes_s;  // made as zeros, and added up
  }
  const bool goes_beside = is_program && layers->waits->weights_s.has_value();
  if (goes_beside) out.time.gradients = m * *layers->waits->weights_s;
  const double sharing =
      layout.shard > 0 ? std::min(double(groups.dp.ranks), double(layout.shard)) : double(groups.dp.ranks);
  const double cut = layout.zero >= 1 ? sharing : 1;
  const double updated = updated_of(weights_of(job.model, layout), layout, cut);
  out.time.optimizer = updated * (2 * stack.master_bytes + 8) / machine.rates.memory_bytes_s;
  if (layers != nullptr && layers->optimizer_s_of_parameter) {
    const bool ends = layers->update_blocks;
    out.time.optimizer =
        (ends ? end_parameters(job.model, layout) : updated) * *layers->optimizer_s_of_parameter +
        (ends ? kEndTensors : tensors_per_rank(job.model, layout)) * layers->optimizer_s_of_tensor;
    // Gradients of blocks are reduced beside the backward pass too, one after the other.
    if (ends && !goes_beside) {
      const double share = std::min(1.0, end_parameters(job.model, layout) / parameters);
      const double all = out.time.gradients;
      out.time.gradients = share * all;
      if (machine.links && groups.dp.ranks > 1)
        out.time.gradients +=
            past_s(job, machine, stack, layout, groups, backward_of(stack, layout, stage), (1 - share) * all,
                   {collectives::Kind::kAllReduce, groups.dp,
                    (1 - share) * parameters * stack.reduced_bytes / blocks});
    }
  }
  if (layout.offload)  // gradients go to the host, which updates its states, and weights come back
    out.time.optimizer = updated * ((stack.gradient_bytes + 2) / machine.host_link_bytes_s +
                                    (2 * stack.master_bytes + 8) / machine.host_memory_bytes_s);
  // Where stages' graphs come between those that send, and the host hands over one at a time, each is traced
  // while the device has nothing but a send to do.
  const double slots = stack.one_graph && layout.pp > 1 ? m + double(layout.pp - 1) / layout.vpp : 1;
  const double beside = slots > 1 ? 2 * sent_s(machine, stack, groups, sent) : 0;
  out.time.host = stack.host_step_s + slots * std::max(0.0, blocks * stack.host_trace_s - beside);
  out.step_s = out.time.total();
  out.memory = memory_of(job, machine, stack, layout);
  out.fits = out.memory.total() <= machine.memory_bytes;
  const double flops = job.model.flops_per_token(job.seq) * job.seq * job.global_batch;
  const double peak = machine.rates.peak[job.precision == Precision::kFp32 ? 2 : 0];
  out.mfu = flops / (out.step_s * peak * double(layout.ranks()));
  out.bound_by = bound(out.time);
  return out;
}

}  // namespace opentrn::planner
