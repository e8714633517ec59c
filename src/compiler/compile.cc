#include "compiler/compile.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "base/utf8.h"
#include "compiler/cost.h"
#include "compiler/hbm_capacity.h"
#include "compiler/host_ops.h"
#include "compiler/lowering/device_type.h"
#include "compiler/lowering/lowering.h"
#include "compiler/narrowing.h"
#include "compiler/passes/activations.h"
#include "compiler/passes/attention.h"
#include "compiler/passes/endless_loops.h"
#include "compiler/passes/expand.h"
#include "compiler/passes/passes.h"
#include "compiler/search.h"
#include "graph/element_value.h"
#include "graph/verify.h"

namespace opentrn::compiler {

using graph::ElementType;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;

namespace {

// A pass: an interrupt in it says its name.
template <typename Pass, typename... Arguments>
auto during(std::string_view activity, Pass&& pass, Arguments&&... arguments) {
  return interrupt::during(activity, [&] {
    interrupt::poll();
    return pass(std::forward<Arguments>(arguments)...);
  });
}

// Passes that leave less to do for one another.
void improve(Function& function, PassCounts& counts) {
  for (bool more = true; more;) {
    const int64_t simplified = during("compiling: simplifying ops", simplify, function);
    remove_dead_ops(function);  // before they are folded
    const int64_t folded =
                      during("compiling: folding constants", fold_constants, function, /*fold_ops=*/true),
                  sliced = during("compiling: folding slices", slice_at_known_places, function),
                  shared = during("compiling: sharing equal ops", share_equal_ops, function),
                  hoisted = during("compiling: simplifying loops", simplify_loops, function);
    counts.simplified += simplified + sliced + hoisted;
    counts.folded += folded;
    counts.shared += shared;
    remove_dead_ops(function);
    more = simplified + folded + sliced + shared + hoisted > 0;
  }
}

// The program's own ops, improved.
Function improved(const graph::Module& module, const Options& options, PassCounts& counts, bool kernel_ops) {
  during("compiling: verifying", [&] { graph::verify(module); });
  Function function = during("compiling: inlining calls", inline_calls, module, module.entry());
  replace_empty_values(function);
  if (options.level >= Level::k2) counts.integer_weights = keep_integer_weights(function);
  split_complex_carries(function);
  if (options.weight_type != WeightType::kAsGiven) {
    improve(function, counts);  // so that weights are constants
    const bool mx = options.weight_type == WeightType::kMxFp8 || options.weight_type == WeightType::kMxFp4;
    counts.weights = during("compiling: quantising weights", [&] {
      return mx ? microscale_weights(function, options.weight_type, kernel_ops)
                : quantise_weights(function, options.weight_type);
    });
  }
  if (options.weight_sparsity && options.prune_weights) {
    improve(function, counts);
    during("compiling: pruning weights", prune_weights, function, *options.weight_sparsity);
  }
  widen_product_operands(function);
  counts.casts = auto_cast(function, options.auto_cast, options.auto_cast_type);
  if (options.level >= Level::k2) {
    improve(function, counts);
  } else {
    counts.folded = fold_constants(function, /*fold_ops=*/false);
    slice_at_known_places(function);
    remove_dead_ops(function);
  }
  return function;
}

// What kernels are made from. `kernel_ops`: what kernels take whole becomes one op, which the evaluator does
// not know.
Function prepared(const graph::Module& module, const Options& options, PassCounts& counts, bool kernel_ops) {
  Function function = improved(module, options, counts, kernel_ops);
  refuse_endless_loops(module, function);
  const bool improves = options.level >= Level::k2;
  if (improves && kernel_ops)
    counts.activations = during("compiling: recognising activations", recognise_activations, function);
  const bool expanded = during("compiling: expanding ops", expand, function);
  if (expanded && improves) improve(function, counts);
  if (improves && arrange_constants(function) > 0) fold_constants(function, /*fold_ops=*/true);
  if (improves && kernel_ops)
    counts.attention = during("compiling: recognising attention", recognise_attention, function);
  if (counts.attention > 0) simplify(function);
  remove_dead_ops(function);
  // What attention reads its masks from is data to other kernels.
  if (kernel_ops) expect_hbm_for_written(module, function, options.generation);
  if (kernel_ops) counts.folded += fold_constants(function, /*fold_ops=*/false);
  if (kernel_ops && options.weight_sparsity)
    counts.weights =
        during("compiling: compressing weights", compress_weights, function, *options.weight_sparsity);
  if (kernel_ops && improves && read_narrow_constants(function) > 0) remove_dead_ops(function);
  return function;
}

std::string port_name(const std::vector<graph::Dictionary>& attributes, size_t i,
                      std::string_view otherwise) {
  if (i < attributes.size())
    if (const auto found = attributes[i].find("onnx.name"); found != attributes[i].end())
      if (const auto* name = found->second.get<std::string>()) return printable(*name);
  return fmt::format("{}{}", otherwise, i);
}

template <typename Wide, typename Narrow>
std::optional<std::string> first_beyond(std::span<const std::byte> bytes) {
  for (size_t i = 0; i + sizeof(Wide) <= bytes.size(); i += sizeof(Wide)) {
    Wide value;
    std::memcpy(&value, bytes.data() + i, sizeof(value));
    if (!std::in_range<Narrow>(value)) return fmt::format("{}", value);
  }
  return std::nullopt;
}

template <typename From, typename To>
std::vector<std::byte> converted(std::span<const std::byte> bytes) {
  std::vector<std::byte> result(bytes.size() / sizeof(From) * sizeof(To));
  for (size_t i = 0; i < bytes.size() / sizeof(From); ++i) {
    From from;
    std::memcpy(&from, bytes.data() + i * sizeof(From), sizeof(From));
    const To to = static_cast<To>(from);
    std::memcpy(result.data() + i * sizeof(To), &to, sizeof(To));
  }
  return result;
}

// The upper bits of a byte that holds a smaller integer are the host's own; the device reads all of them.
std::vector<std::byte> extended(const graph::Literal& literal) {
  std::vector<std::byte> result(literal.bytes().begin(), literal.bytes().end());
  for (std::byte& byte : result)
    graph::store_integer(literal.type().element(), std::to_integer<int64_t>(byte), &byte);
  return result;
}

std::string types_text(const Function& function, const Op& op) {
  std::string text;
  for (const auto value : op.operands) text += function.type(value).to_string() + " ";
  text += "->";
  for (const auto value : op.results) text += " " + function.type(value).to_string();
  return text;
}

bool has_narrowed_type(const Function& function, const Op& op) {
  const auto narrowed = [&](graph::ValueId value) {
    const graph::Type& type = function.type(value);
    return type.is_tensor() && is_narrowed(type.element());
  };
  return std::any_of(op.operands.begin(), op.operands.end(), narrowed) ||
         std::any_of(op.results.begin(), op.results.end(), narrowed);
}

// Bits seen as 64-bit numbers, which have no device form, by ops whose expansions read the words.
std::set<OpId> read_as_words(const Function& function) {
  std::set<OpId> read, left;
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    const bool expands = op.kind != OpKind::return_ && has_expansion(function, op);
    for (const graph::ValueId operand : op.operands) {
      const OpId maker = function.value(operand).op;
      if (maker != graph::kNoOp && function.op(maker).kind == OpKind::bitcast_convert_)
        (expands ? read : left).insert(maker);
    }
  });
  for (const OpId id : left) read.erase(id);
  return read;
}

// Ops of the block, and of the bodies of control flow, which become programs of their own. `vanishing`: ops
// that the expansions of others do away with.
void count_ops(const graph::Module& module, const Function& function, graph::BlockId block,
               const std::set<OpId>& vanishing, std::map<std::string_view, OpCoverage>& found) {
  for (const OpId id : function.block(block).ops) {
    const Op& op = function.op(id);
    if (op.kind == OpKind::return_) continue;
    OpCoverage& row = found[graph::name(op.kind)];
    const bool expanded = has_expansion(function, op) || vanishing.contains(id);
    const bool supported = expanded || has_lowering(function, op);
    const bool emulated = supported && (expanded || has_narrowed_type(function, op));
    const bool shows = row.count == 0 || (!supported && row.unsupported == 0) ||
                       (emulated && row.unsupported + row.emulated == 0);
    row.op = graph::name(op.kind);
    ++row.count;
    row.emulated += emulated;
    row.unsupported += !supported;
    row.flops += flops(function, op);
    if (shows) {
      row.example = types_text(function, op);
      row.where = module.source(op.location);
    }
    if (op.kind == OpKind::while_ || op.kind == OpKind::if_ || op.kind == OpKind::case_)
      for (const graph::BlockId region : op.regions) count_ops(module, function, region, vanishing, found);
  }
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
  Lowering lowering(module, function, compiled.program, options.generation, chosen);
  try {
    during("compiling: making kernels", [&] { lowering.run(); });
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

}  // namespace

namespace {

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

}  // namespace

CompiledModule compile(const graph::Module& module, const Options& options) {
  PassCounts counts;
  Function function = prepared(module, options, counts, options.recognise);
  CompiledModule compiled = compile_prepared(module, function, options, counts);
  counts.turned = options.level < Level::k2 ? 0 : put_channels_first(function);
  if (counts.turned > 0) {
    simplify(function);
    remove_dead_ops(function);
    compiled = faster(std::move(compiled), compile_prepared(module, function, options, counts), options);
  }
  compiled.narrowing = to_text(narrowing(module));
  return compiled;
}

graph::Module prepare(const graph::Module& module, const Options& options) {
  PassCounts counts;
  graph::Module result = module;  // for the locations
  result.functions.clear();
  result.functions.push_back(prepared(module, options, counts, /*kernel_ops=*/false));
  return result;
}

std::vector<OpCoverage> coverage(const graph::Module& module) {
  PassCounts counts;
  const Function function = improved(module, {}, counts, /*kernel_ops=*/false);
  std::map<std::string_view, OpCoverage> found;
  count_ops(module, function, function.body(), read_as_words(function), found);
  std::vector<OpCoverage> rows;
  for (auto& [name, row] : found) rows.push_back(std::move(row));
  return rows;
}

std::vector<std::byte> to_device(const graph::Literal& literal) {
  switch (literal.type().element()) {
    case ElementType::kI64:
    case ElementType::kIndex:
    case ElementType::kUI64: return converted<uint64_t, uint32_t>(literal.bytes());
    case ElementType::kComplexF64:
    case ElementType::kF64: return converted<double, float>(literal.bytes());
    case ElementType::kI2:
    case ElementType::kI4:
    case ElementType::kUI2:
    case ElementType::kUI4: return extended(literal);
    default: return {literal.bytes().begin(), literal.bytes().end()};
  }
}

std::optional<std::string> beyond_device(const graph::Literal& literal) {
  switch (literal.type().element()) {
    case ElementType::kI64: return first_beyond<int64_t, int32_t>(literal.bytes());
    case ElementType::kUI64: return first_beyond<uint64_t, uint32_t>(literal.bytes());
    default: return std::nullopt;
  }
}

bool same_on_device(ElementType element) { return !is_narrowed(element); }

graph::Literal from_device(const graph::Type& type, std::span<const std::byte> bytes) {
  switch (type.element()) {
    case ElementType::kI64:
    case ElementType::kIndex: return {type, converted<int32_t, int64_t>(bytes)};
    case ElementType::kUI64: return {type, converted<uint32_t, uint64_t>(bytes)};
    case ElementType::kComplexF64:
    case ElementType::kF64: return {type, converted<float, double>(bytes)};
    default: return {type, std::vector<std::byte>(bytes.begin(), bytes.end())};
  }
}

}  // namespace opentrn::compiler
