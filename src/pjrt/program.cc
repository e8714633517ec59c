#include "pjrt/program.h"

#include <cstring>

#include <fmt/format.h>

#include "base/fnv1a.h"
#include "compiler/passes/passes.h"
#include "graph/eval/evaluate.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "import/load.h"
#include "pjrt/compiler_flags.h"
#include "pjrt/device_program.h"
#include "runtime/device_call.h"
#include "sim/functional/custom_op.h"

namespace opentrn::pjrt {

namespace {

constexpr std::string_view kMagic = "OPENTRN-PJRT-1\n";

std::span<const std::byte> bytes_of(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

std::vector<size_t> donated_arguments(const graph::Function& function) {
  std::vector<size_t> donated;
  for (size_t i = 0; i < function.argument_attributes.size(); ++i) {
    const graph::Dictionary& attributes = function.argument_attributes[i];
    if (attributes.contains("tf.aliasing_output") || attributes.contains("jax.buffer_donor"))
      donated.push_back(i);
  }
  return donated;
}

void append_sized(std::string& to, std::string_view part) {
  const uint64_t size = part.size();
  to.append(reinterpret_cast<const char*>(&size), sizeof(size));
  to.append(part);
}

std::string take_sized(std::string_view& from) {
  uint64_t size = 0;
  if (from.size() >= sizeof(size)) {
    std::memcpy(&size, from.data(), sizeof(size));
    from.remove_prefix(sizeof(size));
    if (size <= from.size()) {
      std::string part(from.substr(0, size));
      from.remove_prefix(size);
      return part;
    }
  }
  throw Fault(FaultKind::kInput, "pjrt.serialised", "the serialised executable ends early",
              "remove it from the compilation cache");
}

}  // namespace

Program::Program(std::string code, std::string options, const Settings& settings, Shardy& shardy)
    : code_(std::move(code)),
      options_bytes_(std::move(options)),
      options_(read_compile_options(options_bytes_)) {
  fingerprint_ = fmt::format(
      "{:016x}", fnv1a(settings.target + settings.compiler_flags, fnv1a(options_bytes_, fnv1a(code_))));
  sim::load_custom_ops_of_environment();
  module_ = import::load(bytes_of(code_), "program");
  graph::verify(module_);
  const graph::Function& entry = module_.entry();
  name_ = module_.name.empty() ? entry.name : module_.name;
  whole_inputs_ = entry.argument_types();
  whole_outputs_ = entry.result_types;
  donated_ = donated_arguments(entry);
  spread(shardy);
  compile(settings);
}

void Program::spread(Shardy& shardy) {
  if (options_.replicas != 1)
    throw Fault(FaultKind::kNotModelled, "pjrt.replicas",
                fmt::format("{} runs {} replicas of its program", name_, options_.replicas),
                "use partitions, as JAX's shardings do");
  const Meshes meshes = meshes_of(module_);
  const auto sharding_of = [&](const std::vector<graph::Dictionary>& attributes, size_t i) {
    if (i < attributes.size())
      if (const auto found = attributes[i].find("sdy.sharding"); found != attributes[i].end())
        if (const auto* text = found->second.get<graph::Opaque>()) return parse_sharding(text->text, meshes);
    return Sharding{};
  };
  const graph::Function& entry = module_.entry();
  if (options_.partitions > 1) partition_ = shardy.partition(code_);
  const auto found_by_shardy = [](const std::vector<std::string>& texts, size_t i) {
    return i < texts.size() && !texts[i].empty() ? parse_sharding(texts[i], {}) : Sharding{};
  };
  for (size_t i = 0; i < whole_inputs_.size(); ++i) {
    input_shardings_.push_back(partition_ ? found_by_shardy(partition_->inputs, i)
                                          : sharding_of(entry.argument_attributes, i));
    inputs_.push_back(input_shardings_.back().local(whole_inputs_[i]));
  }
  for (size_t i = 0; i < whole_outputs_.size(); ++i)
    output_shardings_.push_back(partition_ ? found_by_shardy(partition_->outputs, i)
                                           : sharding_of(entry.result_attributes, i));
}

// Without Shardy, a result that nobody has asked for otherwise stays as a manual computation leaves it, or
// whole.
void Program::spread_results() {
  for (size_t i = 0; i < whole_outputs_.size(); ++i) {
    const bool stated = partition_ || output_is_stated(i);
    const graph::ValueId value = flat_->returned()[i];
    const graph::OpId maker = flat_->value(value).op;
    if (!stated && maker != graph::kNoOp)
      if (const auto found = manual_.find(&flat_->op(maker)); found != manual_.end())
        output_shardings_[i] = found->second.results()[flat_->value(value).index];
    outputs_.push_back(output_shardings_[i].local(whole_outputs_[i]));
  }
}

bool Program::output_is_stated(size_t i) const {
  const auto& attributes = module_.entry().result_attributes;
  return i < attributes.size() && attributes[i].contains("sdy.sharding");
}

DeviceOptions Program::device_options(const Settings& settings) {
  CompilerFlags flags = parse_compiler_flags(settings.compiler_flags);
  add_compiler_options(flags, options_.overrides);
  if (!flags.target.empty() && arch::resolve_target(flags.target) != settings.generation)
    throw Fault(FaultKind::kInput, "pjrt.compiler_flags",
                fmt::format("--target {} where the devices are those of {}", flags.target, settings.target),
                "set NEURON_PLATFORM_TARGET_OVERRIDE to the target");
  flags_without_effect_ = flags.without_effect;
  DeviceOptions options{compiler::options_from(settings.generation, flags.options), 0};
  options.compiler.stochastic_rounding |= settings.rounds_stochastically;
  options.compiler.strict = settings.strict;
  // Programs draw apart.
  options.rounding_seed = fnv1a(code_) + settings.rounding_seed;
  return options;
}

void Program::compile(const Settings& settings) {
  const DeviceOptions options = device_options(settings);
  flat_ = compiler::inline_calls(module_, module_.entry());
  graph::walk(*flat_, flat_->body(), [&](graph::OpId id) {
    const graph::Op& op = flat_->op(id);
    if (!is_manual_computation(op)) return;
    const auto [made, fresh] = manual_.try_emplace(&op, module_, *flat_, op, options_.partitions, options);
    if (host_reason_.empty()) host_reason_ = made->second.host_reason();
  });
  spread_results();
  if (settings.strict && !host_reason_.empty())
    throw Fault(FaultKind::kNotModelled, "compiler.no_lowering", host_reason_);
  if (!manual_.empty()) return;
  try {
    model_ = compile_for_device(module_, options);
    flat_.reset();
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled || settings.strict) throw;
    host_reason_ = fault.message();
  }
}

std::vector<std::vector<graph::Literal>> Program::run(
    std::vector<std::vector<graph::Literal>> arguments) const {
  if (arguments.size() == 1) return {run_whole(arguments[0])};
  std::vector<graph::Literal> whole;
  for (size_t i = 0; i < whole_inputs_.size(); ++i) {
    std::vector<graph::Literal> parts;
    for (const auto& of_device : arguments) parts.push_back(of_device[i]);
    whole.push_back(joined(parts, whole_inputs_[i], input_shardings_[i]));
  }
  const std::vector<graph::Literal> results = run_whole(whole);
  std::vector<std::vector<graph::Literal>> parts(arguments.size());
  for (size_t device = 0; device < parts.size(); ++device)
    for (size_t i = 0; i < results.size(); ++i)
      parts[device].push_back(part_of(results[i], output_shardings_[i], static_cast<int64_t>(device)));
  return parts;
}

std::vector<graph::Literal> Program::run_whole(std::span<const graph::Literal> arguments) const {
  return model_ ? run_on_device(*model_, whole_outputs_, arguments) : evaluate(arguments);
}

std::vector<graph::Literal> Program::evaluate(std::span<const graph::Literal> arguments) const {
  using graph::eval::RuntimeValue;
  std::vector<RuntimeValue> values;
  for (const graph::Literal& argument : arguments) values.push_back({argument});
  graph::eval::Options options{.device_call = runtime::evaluate_device_call};
  options.custom_call =
      [this](const graph::Op& op, const graph::Module&,
             std::span<const RuntimeValue> operands) -> std::optional<std::vector<RuntimeValue>> {
    const auto found = manual_.find(&op);
    if (found == manual_.end()) return std::nullopt;
    std::vector<graph::Literal> literals;
    for (const RuntimeValue& operand : operands) literals.push_back(operand.literal());
    std::vector<RuntimeValue> results;
    for (graph::Literal& result : found->second.run(literals)) results.push_back({std::move(result)});
    return results;
  };
  std::vector<graph::Literal> results;
  for (const RuntimeValue& value : graph::eval::evaluate(module_, *flat_, values, options)) {
    const graph::Literal& literal = value.literal();
    results.push_back(literal.is_splat() ? graph::Literal(literal.type(), literal.dense()) : literal);
  }
  return results;
}

std::string Program::local_text() const {
  if (partition_ && !partition_->local.empty())
    return graph::print_module(import::load(bytes_of(partition_->local), name_));
  return graph::print_module(module_);
}

std::string Program::serialised() const {
  std::string bytes(kMagic);
  append_sized(bytes, options_bytes_);
  append_sized(bytes, code_);
  return bytes;
}

std::shared_ptr<const Program> Program::deserialised(std::string_view bytes, const Settings& settings,
                                                     Shardy& shardy) {
  if (!bytes.starts_with(kMagic))
    throw Fault(FaultKind::kInput, "pjrt.serialised", "this is no executable of OpenTrn's",
                "remove it from the compilation cache");
  bytes.remove_prefix(kMagic.size());
  std::string options = take_sized(bytes);
  std::string code = take_sized(bytes);
  return std::make_shared<const Program>(std::move(code), std::move(options), settings, shardy);
}

}  // namespace opentrn::pjrt
