#include "planner/contributors.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include <fmt/format.h>

#include "arch/evidence.h"

namespace opentrn::planner {
namespace {

// What a plan is evaluated from; each input changes a copy of it.
struct Inputs {
  Machine machine;
  Stack stack;
  std::optional<LayerTimes> layers;
};
using Scale = std::function<void(Inputs&, double)>;

class Propagation {
 public:
  Propagation(const arch::Tables& tables, const Job& job, const Estimate& plan, Inputs inputs)
      : tables_(tables), job_(job), plan_(plan), inputs_(std::move(inputs)) {}

  // An input between `low` and `high` of its value.
  void between(const std::string& what, const std::string& key, const std::string& confidence, double low,
               double high, const Scale& scale) {
    Contributor out{what, key, confidence, low, high};
    const double a = step_s(scale, low), b = step_s(scale, high);
    out.low_s = std::min(a, b);
    out.high_s = std::max(a, b);
    if (out.width_s() > 0) found_.push_back(std::move(out));
  }

  // An input whose interval follows from the confidence of the value that it rests on.
  void fact(const std::string& what, const std::string& key, const Scale& scale) {
    const arch::Fact* fact = tables_.facts().find(key);
    if (fact == nullptr) return;
    const std::string confidence(arch::to_string(fact->confidence));
    const arch::Fact* share = tables_.facts().find("planner.uncertainty." + confidence);
    const double off = share != nullptr ? share->as<double>() : number("planner.uncertainty.assumed");
    between(what, key, confidence, 1 / (1 + off), 1 + off, scale);
  }

  // What our timing model predicts, in the band of its evidence.
  void band(const std::string& what, const arch::TimedKind& kind, const Scale& scale) {
    const arch::Band known = arch::band(tables_, kind);
    if (known.known())
      return between(what, "evidence." + kind.key(), "measured", known.low, known.high, scale);
    const double off = number("planner.uncertainty.assumed");
    between(what, "planner.uncertainty.assumed", "assumed", 1 / (1 + off), 1 + off, scale);
  }

  std::vector<Contributor> finish() {
    const Interval all = interval_of(tables_, inputs_.stack, inputs_.machine, plan_.step_s);
    double squares = 0;
    for (const Contributor& each : found_) squares += each.width_s() * each.width_s();
    const double width = all.high - all.low;
    // The residuals hold what no input says: kernels of other sizes, noise, what the program does beside.
    if (width * width > squares) {
      const double rest = std::sqrt(width * width - squares) / width;
      const std::string key = fmt::format("planner.stack.{}.measured_to_predicted_high", inputs_.stack.name);
      Contributor out{all.measured ? "published steps beside these inputs"
                                   : "published steps of Trn1 beside these inputs, widened",
                      key, std::string(arch::to_string(tables_.facts().at(key).confidence))};
      out.low_s = plan_.step_s - rest * std::max(0.0, plan_.step_s - all.low);
      out.high_s = plan_.step_s + rest * std::max(0.0, all.high - plan_.step_s);
      out.low = out.low_s / plan_.step_s;
      out.high = out.high_s / plan_.step_s;
      found_.push_back(std::move(out));
    }
    std::ranges::stable_sort(found_, std::greater{}, &Contributor::width_s);
    return std::move(found_);
  }

 private:
  double number(const char* key) const { return tables_.facts().at(key).as<double>(); }

  double step_s(const Scale& scale, double factor) const {
    Inputs changed = inputs_;
    scale(changed, factor);
    return evaluate(job_, changed.machine, changed.stack, plan_.layout,
                    changed.layers ? &*changed.layers : nullptr)
        .step_s;
  }

  const arch::Tables& tables_;
  const Job& job_;
  const Estimate& plan_;
  const Inputs inputs_;
  std::vector<Contributor> found_;
};

void scale_block(BlockTime& block, double factor) {
  for (double* each : {&block.forward, &block.backward, &block.attention_inside, &block.weights})
    *each *= factor;
}

void scale_layers(Inputs& inputs, double factor) {
  LayerTimes& layers = *inputs.layers;
  scale_block(layers.block, factor);
  if (layers.expert_block) scale_block(*layers.expert_block, factor);
  layers.output_s *= factor;
  if (layers.embedding_s) *layers.embedding_s *= factor;
  if (layers.optimizer_s_of_parameter) *layers.optimizer_s_of_parameter *= factor;
  layers.optimizer_s_of_tensor *= factor;
}

void scale_inside(Inputs& inputs, double factor) {
  inputs.machine.inside.bytes_s *= factor;
  for (Tier& tier : inputs.machine.inside_by_group) tier.bytes_s *= factor;
}

void scale_inside_latency(Inputs& inputs, double factor) {
  inputs.machine.inside.latency_s *= factor;
  for (Tier& tier : inputs.machine.inside_by_group) tier.latency_s *= factor;
}

// Of a NeuronCore or TPU a share that is assumed, of a GPU a measured maximum.
std::string products_key(const std::string& chip, const Machine& machine) {
  const std::string assumed = chip + ".matmul_share", peak = ".peak_tflops.bf16";
  if (std::ranges::find(machine.basis, assumed) != machine.basis.end()) return assumed;
  for (const std::string& key : machine.basis)
    if (key.ends_with(peak)) return key.substr(0, key.size() - peak.size()) + ".achieved_tflops.bf16";
  return assumed;
}

void add_layers(Propagation& to, const std::string& chip, const Machine& machine, bool are_compiled) {
  if (are_compiled) {
    if (machine.generation)
      to.band("compiled layers", {.generation = *machine.generation, .model = true}, scale_layers);
    return;
  }
  const auto products = [](Inputs& inputs, double factor) {
    for (double& rate : inputs.machine.rates.matmul) rate *= factor;
  };
  to.fact("rate of large products", products_key(chip, machine), products);
  to.fact("what hours sustain of it", chip + ".sustained_share", products);
  to.fact("rate of fused attention", chip + ".flash_forward_share", [](Inputs& inputs, double factor) {
    inputs.machine.rates.flash_forward *= factor;
    inputs.machine.rates.flash_backward *= factor;
  });
}

void add_tiers(Propagation& to, const std::string& chip, const Machine& machine) {
  if (machine.kind == Kind::kNeuron && machine.generation)
    to.band("links inside a server", {.generation = *machine.generation, .collective = true},
            [](Inputs& inputs, double factor) { scale_inside(inputs, 1 / factor); });
  else
    to.fact("links inside a server", chip + ".inside_share", scale_inside);
  to.fact("latency inside a server", chip + ".inside_latency_us", scale_inside_latency);
  to.fact("network between servers", chip + ".across_share",
          [](Inputs& inputs, double factor) { inputs.machine.across.bytes_s *= factor; });
  to.fact("rings through many servers", chip + ".across_ring_share", [](Inputs& inputs, double factor) {
    inputs.machine.across_ring_share = std::min(1.0, inputs.machine.across_ring_share * factor);
  });
  to.fact("latency between servers", chip + ".across_latency_us",
          [](Inputs& inputs, double factor) { inputs.machine.across.latency_s *= factor; });
}

void add_machine(Propagation& to, const std::string& chip, const Machine& machine) {
  to.fact("rate of the memory", chip + ".memory_share",
          [](Inputs& inputs, double factor) { inputs.machine.rates.memory_bytes_s *= factor; });
  if (machine.links)
    to.band("collectives on the links", {.generation = *machine.generation, .collective = true},
            [](Inputs& inputs, double factor) { inputs.machine.links_factor *= factor; });
  else
    add_tiers(to, chip, machine);
  to.fact("link to the host", chip + ".host_link_gb_s",
          [](Inputs& inputs, double factor) { inputs.machine.host_link_bytes_s *= factor; });
  to.fact("memory of the host", chip + ".host_memory_gb_s",
          [](Inputs& inputs, double factor) { inputs.machine.host_memory_bytes_s *= factor; });
}

void add_program(Propagation& to, const std::string& stack) {
  const auto number = [&](const char* what, const char* member, double Stack::*field, bool is_share) {
    to.fact(what, stack + "." + member, [field, is_share](Inputs& inputs, double factor) {
      double& value = inputs.stack.*field;
      value = is_share ? std::min(1.0, value * factor) : value * factor;
    });
  };
  number("efficiency of the program's kernels", "compute_efficiency", &Stack::compute_efficiency, true);
  number("transfers that stay exposed", "exposed_communication", &Stack::exposed_communication, true);
  number("transfers of TP that are hidden", "hides_tp", &Stack::hides_tp, true);
  number("traffic of element-wise kernels", "elementwise", &Stack::elementwise, false);
  number("passes over attention's scores", "score_passes", &Stack::score_passes, false);
  number("the program's fused attention", "flash_share", &Stack::flash_share, true);
  number("the host's time for a step", "host_step_us", &Stack::host_step_s, false);
  number("the host's time for a block", "host_block_us", &Stack::host_block_s, false);
  number("the host's time to trace a block", "host_trace_us", &Stack::host_trace_s, false);
  number("bytes sent for a gradient", "reduced_bytes", &Stack::reduced_bytes, false);
}

}  // namespace

std::vector<Contributor> contributors(const arch::Tables& tables, const Job& job, const Machine& machine,
                                      const Stack& stack, const Estimate& plan, const LayerTimes* layers) {
  Inputs inputs{machine, stack, {}};
  if (!plan.tiers_s) inputs.machine.links = nullptr;  // its collectives are not there
  if (layers != nullptr) inputs.layers = *layers;
  const Machine evaluated = inputs.machine;
  Propagation to(tables, job, plan, std::move(inputs));
  const std::string chip = "planner.chip." + machine.chip;
  // Stated times are as their author says.
  if (layers == nullptr || plan.layers == "compiled") add_layers(to, chip, evaluated, layers != nullptr);
  add_machine(to, chip, evaluated);
  add_program(to, "planner.stack." + stack.name);
  return to.finish();
}

}  // namespace opentrn::planner
