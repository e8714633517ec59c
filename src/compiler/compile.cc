#include "compiler/compile.h"

#include <set>
#include <utility>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/utf8.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/expand/host_ops.h"
#include "compiler/lowering/hbm_capacity.h"
#include "compiler/lowering/lowering.h"
#include "compiler/narrowing.h"
#include "compiler/pipeline/phases.h"
#include "compiler/pipeline/search.h"
#include "graph/kernel_call.h"

namespace opentrn::compiler {

namespace {

std::string port_name(const std::vector<graph::Dictionary>& attributes, size_t i,
                      std::string_view otherwise) {
  if (i < attributes.size())
    if (const auto found = attributes[i].find("onnx.name"); found != attributes[i].end())
      if (const auto* name = found->second.get<std::string>()) return printable(*name);
  return fmt::format("{}{}", otherwise, i);
}

// Ops that turned out to have no kernel when they were lowered.
struct NoKernel {
  std::set<OpId> ops;
  Fault fault;
};

// Throws NoKernel.
Lowered lower(const graph::Module& module, const Function& function, const Options& options,
              const Choices& choices) {
  CompiledModule compiled;
  compiled.program = std::make_shared<isa::Program>();
  compiled.program->name = printable(module.name.empty() ? function.name : module.name);
  Choices chosen = choices;
  chosen.donated_inputs = options.donate_inputs;
  chosen.costs_of = options.costs_of;
  Lowering lowering(module, function, compiled.program, options.generation, chosen);
  try {
    interrupt::during("compiling: making kernels", [&] { lowering.run(); });
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled || lowering.failed().empty()) throw;
    throw NoKernel{{lowering.failed().begin(), lowering.failed().end()}, fault};
  }
  const auto arguments = function.arguments(), returned = function.returned();
  for (size_t i = 0; i < arguments.size(); ++i)
    compiled.inputs.push_back({lowering.inputs()[i], function.type(arguments[i]),
                               port_name(function.argument_attributes, i, "input")});
  for (size_t i = 0; i < returned.size(); ++i)
    compiled.outputs.push_back({lowering.outputs()[i], function.type(returned[i]),
                                port_name(function.result_attributes, i, "output")});
  compiled.constants = lowering.take_constants();
  compiled.origin = lowering.take_origin();
  compiled.passes.prologues = lowering.prologues();
  return {std::move(compiled), lowering.crowded()};
}

void expect_hbm(const CompiledModule& compiled, const Options& options) {
  std::vector<isa::TensorId> always;
  for (const auto* ports : {&compiled.inputs, &compiled.outputs})
    for (const Port& port : *ports) always.push_back(port.tensor);
  for (const Constant& constant : compiled.constants) always.push_back(constant.tensor);
  expect_hbm_for(*compiled.program, always, options.generation, options.hbm_bytes_of_core);
}

std::optional<NoKernel> lower(const graph::Module& module, const Function& function, const Options& options,
                              CompiledModule& compiled) {
  bool is_first = true;
  try {
    CompiledModule made = fastest(
        [&](const Choices& choices) {
          Lowered lowered = lower(module, function, options, choices);
          if (std::exchange(is_first, false)) expect_hbm(lowered.module, options);
          return lowered;
        },
        options);
    const int64_t prologues = made.passes.prologues;
    made.passes = compiled.passes;
    made.passes.prologues = prologues;
    compiled = std::move(made);
  } catch (const NoKernel& failed) {
    return failed;
  }
  return std::nullopt;
}

CompiledModule compile_prepared(const graph::Module& module, const Function& function, const Options& options,
                                const PassCounts& counts) {
  CompiledModule compiled;
  compiled.passes = counts;
  if (options.strict) {
    if (const auto failed = lower(module, function, options, compiled)) throw failed->fault;
    return compiled;
  }
  // Kernels may find only when they are made that they do not take an op.
  std::set<OpId> moved;
  while (true) {
    Function spread = function;
    move_to_host(module, spread, moved);
    const auto failed = lower(module, spread, options, compiled);
    if (!failed) return compiled;
    const size_t before = moved.size();
    for (const OpId id : failed->ops)
      if (graph::index_of(id) < function.op_count()) moved.insert(id);
    if (moved.size() == before) throw failed->fault;
  }
}

// Kernels that users write take the time in a model that they take by themselves.
bool calls_kernels(const Function& function) {
  bool found = false;
  graph::walk(function, function.body(), [&](OpId id) { found |= graph::is_kernel_call(function.op(id)); });
  return found;
}

}  // namespace

int64_t hbm_bytes_at_most(const isa::Program& program, std::span<const isa::TensorId> always) {
  return hbm_bytes_of(program, always);
}

CompiledModule compile(const graph::Module& module, const Options& options) {
  PassCounts counts;
  const PassInput input{module, options, /*kernel_ops=*/options.recognise};
  Function function = run_until(Phase::kReady, input, counts);
  CompiledModule compiled = compile_prepared(module, function, options, counts);
  if (options.level >= Level::k2 && run(pass_named("put-channels-first"), function, input, counts) > 0) {
    for (const std::string_view name : {"simplify", "remove-dead-ops"})
      run(pass_named(name), function, input, counts);
    compiled = faster(std::move(compiled), compile_prepared(module, function, options, counts), options);
  }
  if (options.level >= Level::k2 && !calls_kernels(function))
    compiled = with_shared_work(std::move(compiled), options);
  compiled.narrowing = to_text(narrowing(module));
  return compiled;
}

graph::Module prepare(const graph::Module& module, const Options& options) {
  PassCounts counts;
  graph::Module result = module;  // for the locations
  result.functions.clear();
  result.functions.push_back(run_until(Phase::kReady, {module, options, /*kernel_ops=*/false}, counts));
  return result;
}

}  // namespace opentrn::compiler
