#include "planner/serve/serve.h"

#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "collectives/summary.h"
#include "fabric/platform.h"
#include "numerics/dtype.h"
#include "planner/communication.h"

namespace opentrn::planner {
namespace {

double weight_bytes(Precision precision) {
  return precision == Precision::kFp32 ? 4 : precision == Precision::kFp8 ? 1 : 2;
}
double value_bytes(Precision precision) { return precision == Precision::kFp32 ? 4 : 2; }

// Heads and widths that a copy's ranks do not divide are filled up with zeros.
Model padded(Model model, int tp) {
  const auto up = [&](int size) { return (size + tp - 1) / tp * tp; };
  model.heads = up(model.heads);
  if (model.kv_heads > tp) model.kv_heads = up(model.kv_heads);
  if (model.ffn > 0) model.ffn = up(model.ffn);
  if (model.expert_ffn > 0) model.expert_ffn = up(model.expert_ffn);
  if (model.shared_ffn > 0) model.shared_ffn = up(model.shared_ffn);
  return model;
}

// Keys and values of a token in one block, of one rank: elements.
double kv_width(const Model& model, int tp) {
  if (model.latent()) return model.kv_rank + model.rope_dim;  // each rank has all of them
  return 2.0 * std::max(1.0, std::ceil(double(model.kv_heads) / tp)) * model.head_dim;
}

// Experts that a step of so many tokens meets, each of them going to `active` drawn ones.
double experts_met(const Model& model, double tokens) {
  return model.experts *
         (1 - std::pow(1 - double(model.active_experts) / model.experts, std::max(1.0, tokens)));
}

struct Decode {
  double weights = 0, kv = 0, compute = 0;  // seconds of each, had it nothing to wait for
  double total() const { return std::max(compute, weights) + kv; }
};

// A step of decode of all blocks, on one rank.
Decode decode_blocks(const ServeJob& job, const Machine& machine, const ServeProgram& program, int tp,
                     const ServeStep& step) {
  const Model model = padded(job.model, tp);
  const Rates& rates = machine.rates;
  const double rows = double(step.sequences), memory = rates.memory_bytes_s * program.memory_efficiency;
  const double dense_blocks = model.layers - model.expert_layers();
  // Of all ranks together, as every rank has a head of keys and values.
  double weights = model.layers * tp * model.attention_parameters_of_rank(tp) +
                   dense_blocks * model.dense_mlp_parameters();
  double multiplied = weights;
  if (model.experts > 0) {
    const double met = experts_met(model, rows);
    const double shared = (model.gated ? 3.0 : 2.0) * model.hidden * model.shared_ffn;
    weights += model.expert_layers() * (met * model.expert_parameters() + shared);
    multiplied += model.expert_layers() * (model.active_experts * model.expert_parameters() + shared);
  }
  Decode out;
  // NeuronCore-v2 has no faster products of 8 bits: weights are widened to 16 before them.
  const bool widened = machine.generation == Generation::kV2 && job.precision == Precision::kFp8;
  out.weights = weights / tp * (widened ? 2 : weight_bytes(job.precision)) / memory;
  const double windowed = model.layers > 0 ? double(model.window_layers) / model.layers : 0;
  const double context =
      (1 - windowed) * double(step.context) + windowed * std::min(double(step.context), double(model.window));
  out.kv = rows * context * model.layers * kv_width(model, tp) * value_bytes(job.precision) / memory;
  // All products of a rank as one: of as many rows as there are sequences.
  out.compute = product_compute_s(rates, job.precision, rows, multiplied / tp / model.hidden, model.hidden);
  return out;
}

Layout layout_of(int tp, int64_t sequences) {
  Layout layout;
  layout.tp = static_cast<int16_t>(tp);
  layout.micro_batch = static_cast<int32_t>(sequences);
  return layout;
}

double prefill_blocks(const ServeJob& job, const Machine& machine, const ServeProgram& program, int tp,
                      const ServeStep& step) {
  Job forward{.model = padded(job.model, tp), .seq = double(step.tokens), .precision = job.precision};
  Stack stack;  // nothing of a training program
  // NxD Inference, which later generations run, has fused attention.
  stack.flash = program.score_passes == 0 || machine.generation > Generation::kV2;
  stack.counts_passes = true;
  stack.score_passes = program.score_passes;
  stack.compute_efficiency = program.compute_efficiency;
  const Layout layout = layout_of(tp, step.sequences);
  const Model& model = forward.model;
  const double with_experts = model.expert_layers();
  double out = (model.layers - with_experts) * block_s(forward, machine, stack, layout, false).forward;
  if (with_experts > 0) out += with_experts * block_s(forward, machine, stack, layout, true).forward;
  return out;
}

double output_layer(const ServeJob& job, const Machine& machine, int tp, const ServeStep& step) {
  const double columns = std::ceil(job.model.vocabulary / tp), h = job.model.hidden;
  return std::max(product_compute_s(machine.rates, job.precision, double(step.sequences), columns, h),
                  columns * h * 2 / machine.rates.memory_bytes_s);
}

int64_t bucket(double tokens, double most) {
  double size = 128;
  while (size < tokens) size *= 2;
  return static_cast<int64_t>(std::min(size, std::max(most, tokens)));
}

std::string_view bound(const Decode& decode, const ServeStepTime& step) {
  std::pair<double, std::string_view> largest{decode.weights, "weights"};
  for (const auto& cause : {std::pair<double, std::string_view>{decode.compute, "compute"},
                            {decode.kv, "keys"},
                            {step.collectives, "collectives"},
                            {step.fixed, "fixed"}})
    if (cause.first > largest.first) largest = cause;
  return largest.second;
}

ServeMemory memory_of(const ServeJob& job, const Machine& machine, const ServeLayout& layout) {
  const Model model = padded(job.model, layout.tp);
  ServeMemory memory;
  const double repeated =
      model.attention_parameters_of_rank(layout.tp) - model.attention_parameters() / layout.tp;
  memory.weights = (model.parameters() / layout.tp + model.layers * repeated) * weight_bytes(job.precision);
  memory.kv = layout.batch * job.longest * kv_bytes_per_token(model, layout.tp);
  const double ffn = model.experts > 0 ? double(model.active_experts) * model.expert_ffn + model.shared_ffn
                                       : double(model.ffn);
  // A prompt's activations: the residual, a block's widest values, and the logits of a step.
  memory.working = job.prompt * (4.0 * model.hidden + 4.0 * ffn / layout.tp) * 2 +
                   layout.batch * model.vocabulary * 8 / layout.tp;
  memory.runtime = 1e9 / std::max(1.0, machine.ranks_per_chip);
  return memory;
}

}  // namespace

double kv_bytes_per_token(const Model& model, int tp) { return model.layers * kv_width(model, tp) * 2; }

ServeProgram serve_program_of(const arch::Tables& tables, Kind kind) {
  ServeProgram program;
  program.name = kind == Kind::kNeuron ? "neuron" : "gpu";
  const auto fact = [&](const char* member) -> const arch::Fact& {
    return tables.facts().at(fmt::format("planner.serve.{}.{}", program.name, member));
  };
  const auto number = [&](const char* member) {
    const arch::Fact& found = fact(member);
    program.calibrated_on.insert(program.calibrated_on.end(), found.calibrated_on.begin(),
                                 found.calibrated_on.end());
    return found.as<double>();
  };
  program.reads_buckets = fact("reads_buckets").as<bool>();
  program.step_s = number("step_us") * 1e-6;
  program.block_s = number("block_us") * 1e-6;
  program.compute_efficiency = number("compute_efficiency");
  program.score_passes = number("score_passes");
  program.memory_efficiency = number("memory_efficiency");
  program.prefill_low = number("prefill_measured_to_predicted_low");
  program.prefill_high = number("prefill_measured_to_predicted_high");
  program.decode_low = number("decode_measured_to_predicted_low");
  program.decode_high = number("decode_measured_to_predicted_high");
  return program;
}

struct AllReduces::State {
  const arch::Tables& tables;
  const Machine& machine;
  std::optional<fabric::Platform> platform;
  std::optional<collectives::RankCores> cores;
  std::map<std::pair<int, int64_t>, double> asked;
};

AllReduces::AllReduces(const arch::Tables& tables, const Machine& machine)
    : state_(new State{tables, machine, std::nullopt, std::nullopt, {}}) {
  if (machine.kind != Kind::kNeuron) return;
  state_->platform.emplace(fabric::Platform::make(tables, machine.instance, 1));
  state_->cores = collectives::place_ranks(*state_->platform, machine.ranks_per_server,
                                           machine.cores_per_rank, state_->platform->servers());
}

AllReduces::~AllReduces() = default;

double AllReduces::seconds(int ranks, double bytes) {
  if (ranks <= 1 || bytes <= 0) return 0;
  if (!state_->platform) return all_reduce_s(state_->machine, {ranks, 1}, bytes);
  const auto [at, is_new] = state_->asked.try_emplace({ranks, static_cast<int64_t>(bytes)}, 0.0);
  if (is_new)
    at->second = collectives::summary_of(state_->tables, *state_->platform, *state_->cores,
                                         {collectives::Kind::kAllReduce, DType::kBFloat16,
                                          static_cast<int64_t>(bytes), ranks, ""})
                     .us *
                 1e-6;
  return at->second;
}

ServeStepTime serve_step(const ServeJob& job, const Machine& machine, const ServeProgram& program, int tp,
                         const ServeStep& step, AllReduces& reduces, LayerSource* source, std::string& why) {
  ServeStepTime time;
  std::optional<ServeTimes> given;
  if (source != nullptr) given = source->serve(job.model, job.precision, machine, tp, step, why);
  if (given)
    time.layers = job.model.layers * given->block_s;
  else if (step.tokens == 1)
    time.layers = decode_blocks(job, machine, program, tp, step).total();
  else
    time.layers = prefill_blocks(job, machine, program, tp, step);
  time.output = given ? given->output_s : output_layer(job, machine, tp, step);
  const double bytes = double(step.sequences * step.tokens) * job.model.hidden * value_bytes(job.precision);
  // The cores of a rank cut its work too, and add each sum up among themselves first.
  time.collectives = 2.0 * job.model.layers * (reduces.seconds(tp, bytes) + inside_rank_s(machine, bytes));
  time.fixed = program.step_s + job.model.layers * program.block_s;
  return time;
}

ServeEstimate serve(const ServeJob& job, const Machine& machine, const ServeProgram& program,
                    const ServeLayout& layout, AllReduces& reduces, LayerSource* source, std::string& why) {
  ServeEstimate out;
  out.layout = layout;
  out.copies = machine.ranks / layout.tp;
  const double prompt = std::max(2.0, job.prompt), halfway = job.prompt + job.output / 2;
  ServeStep prefill{1, static_cast<int64_t>(prompt), static_cast<int64_t>(prompt)};
  ServeStep decode{layout.batch, 1, static_cast<int64_t>(std::ceil(halfway))};
  if (program.reads_buckets) {
    prefill.tokens = prefill.context = bucket(prompt, job.longest);
    decode.context = bucket(halfway, job.longest);
  }
  std::string none;
  out.prefill = serve_step(job, machine, program, layout.tp, prefill, reduces, source, why);
  out.compiled = source != nullptr && why.empty();
  out.decode = serve_step(job, machine, program, layout.tp, decode, reduces, out.compiled ? source : nullptr,
                          out.compiled ? why : none);
  if (out.compiled && !why.empty()) {  // half of a source is none
    out.compiled = false;
    out.prefill = serve_step(job, machine, program, layout.tp, prefill, reduces, nullptr, none);
  }
  const double step_s = out.decode.total(), prefill_s = out.prefill.total();
  out.ttft_s = prefill_s + (layout.batch > 1 ? step_s : 0);
  out.tpot_s = step_s + (layout.batch - 1) * prefill_s / std::max(1.0, job.output);
  const double cycle = job.output * step_s + layout.batch * prefill_s;
  out.requests_s = double(out.copies) * layout.batch / cycle;
  out.tokens_s = out.requests_s * job.output;
  out.memory = memory_of(job, machine, layout);
  out.fits = out.memory.total() <= machine.memory_bytes;
  out.meets = (!job.ttft_s || out.ttft_s <= *job.ttft_s) && (!job.tpot_s || out.tpot_s <= *job.tpot_s);
  out.bound_by = out.tpot_s > 2 * step_s
                     ? "prefills"
                     : bound(decode_blocks(job, machine, program, layout.tp, decode), out.decode);
  return out;
}

namespace {

// How far a plan misses the limits: 1 where it meets them.
double miss(const ServeJob& job, const ServeEstimate& plan) {
  return std::max(
      {1.0, job.ttft_s ? plan.ttft_s / *job.ttft_s : 0, job.tpot_s ? plan.tpot_s / *job.tpot_s : 0});
}

}  // namespace

ServeResult serve_search(const ServeJob& job, const Machine& machine, const ServeProgram& program,
                         const ServeSearch& search, AllReduces& reduces) {
  ServeResult result;
  std::string why;
  for (int tp = 1; tp <= std::min(machine.domain, job.model.heads); ++tp) {
    if (machine.ranks_per_server % tp != 0 || (search.tp && *search.tp != tp)) continue;
    for (int batch = 1; batch <= search.batch_most; ++batch) {
      interrupt::poll();
      if (search.batch ? batch != *search.batch : (batch & (batch - 1)) != 0) continue;
      ServeEstimate plan = serve(job, machine, program, {tp, batch}, reduces, nullptr, why);
      ++result.evaluated;
      if (!plan.fits) {
        if (!result.smallest || plan.memory.total() < result.smallest->memory.total()) result.smallest = plan;
      } else if (plan.meets) {
        result.best.push_back(plan);
      } else if (!result.nearest || miss(job, plan) < miss(job, *result.nearest)) {
        result.nearest = plan;
      }
    }
  }
  std::ranges::stable_sort(result.best, [](const ServeEstimate& a, const ServeEstimate& b) {
    return std::pair(-a.tokens_s, a.tpot_s) < std::pair(-b.tokens_s, b.tpot_s);
  });
  double quickest = INFINITY;
  std::erase_if(result.best, [&](const ServeEstimate& plan) {
    const bool beaten = plan.tpot_s >= quickest;
    quickest = std::min(quickest, plan.tpot_s);
    return beaten;
  });
  if (result.best.size() > search.top) result.best.resize(search.top);
  return result;
}

}  // namespace opentrn::planner
