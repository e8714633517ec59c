#include "planner/stack.h"

#include <algorithm>

#include <fmt/format.h>

#include "arch/closest.h"

namespace opentrn::planner {

std::vector<std::string> stacks(const arch::Tables& tables) { return tables.facts().items("planner.stack"); }

Stack stack_of(const arch::Tables& tables, const std::string& name) {
  const std::vector<std::string> names = stacks(tables);
  if (std::ranges::find(names, name) == names.end())
    throw Fault(FaultKind::kInput, "plan.stack", fmt::format("there is no training program '{}'", name),
                arch::did_you_mean(name, names, fmt::format("one of: {}", fmt::join(names, ", "))));
  Stack stack;
  stack.name = name;
  const auto fact = [&](const char* member) -> const arch::Fact& {
    return tables.facts().at(fmt::format("planner.stack.{}.{}", name, member));
  };
  const auto number = [&](const char* member) { return fact(member).as<double>(); };
  stack.flash = fact("flash").as<bool>();
  stack.elementwise = number("elementwise");
  stack.compute_efficiency = number("compute_efficiency");
  stack.exposed_communication = number("exposed_communication");
  stack.hides_gradients = fact("hides_gradients").as<bool>();
  stack.hides_sends = fact("hides_sends").as<bool>();
  stack.hides_tp = number("hides_tp");
  stack.gradient_bytes = number("gradient_bytes");
  stack.reduced_bytes = number("reduced_bytes");
  stack.master_bytes = number("master_bytes");
  stack.logit_bytes = number("logit_bytes");
  stack.kept_share = number("kept_share");
  stack.flash_share = number("flash_share");
  stack.score_passes = number("score_passes");
  stack.recomputes = fact("recomputes").as<std::string>();
  stack.every_second_product = fact("every_second_product").as<bool>();
  stack.skips_last_product = fact("skips_last_product").as<bool>();
  stack.balances_context = fact("balances_context").as<bool>();
  stack.adds_gradients = fact("adds_gradients").as<bool>();
  stack.output_share = number("output_share");
  stack.unpads = fact("unpads").as<bool>();
  stack.host_step_s = number("host_step_us") * 1e-6;
  stack.float32_slowdown = number("float32_slowdown");
  stack.scatters_sends = fact("scatters_sends").as<bool>();
  stack.host_block_s = number("host_block_us") * 1e-6;
  stack.host_trace_s = number("host_trace_us") * 1e-6;
  stack.sums_sends = fact("sums_sends").as<bool>();
  stack.one_graph = fact("one_graph").as<bool>();
  stack.runtime_bytes = number("runtime_gb") * 1e9;
  stack.fragmentation = number("fragmentation");
  for (const arch::Fact* each : tables.facts().under("planner.stack." + name))
    for (const std::string& row : each->calibrated_on)
      if (std::ranges::find(stack.calibrated_on, row) == stack.calibrated_on.end())
        stack.calibrated_on.push_back(row);
  return stack;
}

std::string default_stack(Kind kind) {
  switch (kind) {
    case Kind::kGpu: return "megatron-core";
    case Kind::kNeuron: return "neuron";
    case Kind::kTpu: return "maxtext";
  }
  OPENTRN_CHECK(false, "a kind of machine without a training program");
}

}  // namespace opentrn::planner
