#include "pjrt/program.h"

#include <fmt/format.h>

#include "base/build_id.h"
#include "base/fnv1a.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/flags.h"
#include "compiler/narrowing.h"
#include "graph/eval/evaluate.h"
#include "graph/text/text.h"
#include "graph/verify.h"
#include "import/load.h"
#include "pjrt/callback.h"
#include "pjrt/client.h"
#include "runtime/device_call.h"
#include "sim/functional/custom_op.h"
#include "spmd/core_pairs.h"
#include "spmd/run/cost.h"
#include "spmd/run/step_time.h"
#include "spmd/sums.h"

namespace opentrn::pjrt {

namespace {

constexpr std::string_view kMagic = "OPENTRN-PJRT-2\n";

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

// What a compiled program depends on beside the program and its options.
std::string compiled_under(const Settings& settings) {
  return fmt::format("{} {} {} {} {} {} {}", build_id(), settings.target, settings.strict,
                     settings.rounds_stochastically, settings.compiler_flags,
                     settings.physical_cores_per_core, settings.uses_both_cores);
}

// JAX passes an empty array for a token.
graph::Type boundary_type(const graph::Type& type) {
  return type.is_token() ? graph::Type::tensor(graph::ElementType::kI1, {0}) : type;
}

std::vector<graph::Type> boundary_types(std::vector<graph::Type> types) {
  for (graph::Type& type : types) type = boundary_type(type);
  return types;
}

graph::eval::RuntimeValue runtime_value(const graph::Type& type, const graph::Literal& literal) {
  if (type.is_token()) return {graph::eval::Token{}};
  return {literal};
}

graph::Literal dense(const graph::eval::RuntimeValue& value) {
  if (!std::holds_alternative<graph::Literal>(value.value))
    return {boundary_type(graph::Type::token()), std::vector<std::byte>{}};
  const graph::Literal& literal = value.literal();
  return literal.is_splat() ? graph::Literal(literal.type(), literal.dense()) : literal;
}

std::vector<std::vector<graph::Literal>> run_parallel(
    const ParallelProgram& program, const std::vector<std::vector<graph::Literal>>& arguments,
    Rendezvous* rendezvous = nullptr) {
  std::vector<ParallelProgram::Values> values;
  for (const auto& of_device : arguments) {
    auto& each = values.emplace_back();
    for (size_t i = 0; i < of_device.size(); ++i)
      each.push_back(runtime_value(program.argument_types()[i], of_device[i]));
  }
  std::vector<std::vector<graph::Literal>> results;
  for (const auto& of_device : program.run(values, rendezvous)) {
    auto& each = results.emplace_back();
    for (const auto& value : of_device) each.push_back(dense(value));
  }
  return results;
}

bool has_manual_computation(const graph::Function& function) {
  bool found = false;
  graph::walk(function, function.body(),
              [&](graph::OpId id) { found |= spmd::is_manual_computation(function.op(id)); });
  return found;
}

// The cores of logical cores, of which each process has those of its devices.
class CoreRendezvous final : public Rendezvous {
 public:
  explicit CoreRendezvous(Rendezvous& of_devices) : of_devices_(of_devices) {}
  bool is_own(size_t core) const override { return of_devices_.is_own(core / kCores); }
  size_t first_own() const override { return of_devices_.first_own() * kCores; }
  void complete(std::vector<std::vector<graph::Literal>>& values) override { complete_pairs(values); }
  void complete(std::vector<std::vector<graph::eval::RuntimeValue>>& values) override {
    complete_pairs(values);
  }

 private:
  static constexpr size_t kCores = static_cast<size_t>(spmd::kCoresOfPair);

  // What the cores of a device have goes as one list.
  template <typename Value>
  void complete_pairs(std::vector<std::vector<Value>>& values) {
    std::vector<std::vector<Value>> pairs(values.size() / kCores);
    for (size_t core = 0; core < values.size(); ++core)
      for (Value& value : values[core]) pairs[core / kCores].push_back(std::move(value));
    of_devices_.complete(pairs);
    for (size_t core = 0; core < values.size(); ++core) {
      const size_t count = pairs[core / kCores].size() / kCores;
      const auto first = pairs[core / kCores].begin() + static_cast<ptrdiff_t>(core % kCores * count);
      values[core].assign(first, first + static_cast<ptrdiff_t>(count));
    }
  }

  Rendezvous& of_devices_;
};

}  // namespace

Program::Program(std::string code, std::string options, const Settings& settings, Shardy& shardy, Parts parts)
    : code_(std::move(code)),
      options_bytes_(std::move(options)),
      compiled_under_(compiled_under(settings)),
      settings_(settings),
      options_(read_compile_options(options_bytes_)),
      parts_(std::move(parts)) {
  fingerprint_ = fmt::format(
      "{:016x}", fnv1a(settings.target + settings.compiler_flags, fnv1a(options_bytes_, fnv1a(code_))));
  code_digest_ = fmt::format("{:016x}", fnv1a(code_));
  sim::load_custom_ops_of_environment();
  module_ = import::load(bytes_of(code_), "program");
  graph::verify(module_);
  const graph::Function& entry = module_.entry();
  name_ = module_.name.empty() ? entry.name : module_.name;
  whole_inputs_ = boundary_types(entry.argument_types());
  whole_outputs_ = boundary_types(entry.result_types);
  layouts_ = layouts_of(entry, whole_inputs_, whole_outputs_, name_);
  row_major_ = layouts_.are_row_major();
  for (size_t i = 0; i < whole_outputs_.size(); ++i)
    memory_outputs_.push_back(in_memory(whole_outputs_[i], layouts_.results[i]));
  donated_ = donated_arguments(entry);
  spread(shardy);
  lay_out(module_.entry(), layouts_);
  compile(settings);
  if (settings.tells_narrowing && host_reason_.empty())
    narrowing_ = compiler::to_text(compiler::narrowing(module_));
}

void Program::spread(Shardy& shardy) {
  if (options_.replicas != 1)
    throw Fault(FaultKind::kNotModelled, "pjrt.replicas",
                fmt::format("{} runs {} replicas of its program", name_, options_.replicas),
                "use partitions, as JAX's shardings do");
  const spmd::Meshes meshes = spmd::meshes_of(module_);
  const auto sharding_of = [&](const std::vector<graph::Dictionary>& attributes, size_t i) {
    if (i < attributes.size())
      if (const auto found = attributes[i].find("sdy.sharding"); found != attributes[i].end())
        if (const auto* text = found->second.get<graph::Opaque>())
          return spmd::parse_sharding(text->text, meshes);
    return Sharding{};
  };
  const graph::Function& entry = module_.entry();
  if (options_.partitions > 1) partition_ = parts_.partition([&] { return shardy.partition(code_); });
  const auto found_by_shardy = [](const std::vector<std::string>& texts, size_t i) {
    return i < texts.size() && !texts[i].empty() ? spmd::parse_sharding(texts[i], {}) : Sharding{};
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
    const bool stated = partition_ || output_is_stated(i) || on_each_;
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

// Their memory becomes that of results; the compiler counts it twice.
int64_t Program::donated_bytes() const {
  int64_t bytes = 0;
  for (const size_t i : donated_) bytes += inputs_[i].byte_count();
  return bytes;
}

DeviceOptions Program::device_options(const Settings& settings) {
  compiler::CompilerFlags flags = compiler::parse_compiler_flags(settings.compiler_flags);
  add_compiler_options(flags, options_.overrides);
  if (!flags.target.empty() && arch::resolve_target(flags.target) != settings.generation)
    throw Fault(FaultKind::kInput, "compiler.flags",
                fmt::format("--target {} where the devices are those of {}", flags.target, settings.target),
                "set NEURON_PLATFORM_TARGET_OVERRIDE to the target");
  flags_without_effect_ = flags.without_effect;
  flags_without_effect_.insert(flags_without_effect_.end(), options_.without_effect.begin(),
                               options_.without_effect.end());
  DeviceOptions options{compiler::options_from(settings.generation, flags.options), 0, false, &parts_,
                        host_calls()};
  options.compiler.stochastic_rounding |= settings.rounds_stochastically;
  options.compiler.strict = settings.strict;
  options.compiler.hbm_bytes_of_core = spmd::hbm_bytes_of_core(settings) + donated_bytes();
  options.check = check_ = settings.check;
  // Programs draw apart.
  options.rounding_seed = fnv1a(code_) + settings.rounding_seed;
  return options;
}

void Program::compile(const Settings& settings) {
  const DeviceOptions options = device_options(settings);
  flat_ = compiler::inline_calls(module_, module_.entry());
  // Shardy's program has dimensions whole that its devices do not divide; ours pads them.
  const bool own_first = partition_ && partition_->uneven;
  if (!(own_first && compile_by_own_partition(options)) && !compile_parallel(options) &&
      !(!own_first && compile_by_own_partition(options))) {
    if (settings.strict && !whole_reason_.empty())
      throw Fault(FaultKind::kNotModelled, "pjrt.one_device_for_all",
                  fmt::format("one device would compute {} for all of them: {}", name_,
                              whole_reason_.substr(0, whole_reason_.find('\n'))),
                  "shard dimensions that the mesh divides, or run without OPENTRN_STRICT=1");
    graph::walk(*flat_, flat_->body(), [&](graph::OpId id) {
      const graph::Op& op = flat_->op(id);
      if (!spmd::is_manual_computation(op)) return;
      const auto [made, fresh] = manual_.try_emplace(&op, module_, *flat_, op, options_.partitions, options);
      if (host_reason_.empty()) host_reason_ = made->second.host_reason();
    });
    if (manual_.empty() && ParallelProgram::is_needed(*flat_, options.host) &&
        !(options_.partitions == 1 && cut_over_cores(module_, *flat_, options)))
      parallel_ = std::make_unique<ParallelProgram>(module_, *flat_, 1, options);
  }
  spread_results();
  if (parallel_ && host_reason_.empty()) host_reason_ = parallel_->host_reason();
  if (settings.strict && !host_reason_.empty())
    throw Fault(FaultKind::kNotModelled, "compiler.no_lowering", host_reason_);
  if (!manual_.empty() || (parallel_ && !both_cores_) || on_each_) return;
  if (both_cores_ || (options_.partitions == 1 && cut_over_cores(module_, *flat_, options))) {
    on_each_ = true;
    flat_.reset();
    return;
  }
  try {
    model_ = spmd::compile_for_device(module_, options);
    flat_.reset();
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled || settings.strict) throw;
    host_reason_ = fault.message();
  }
}

// Whether both physical cores of each logical core compute `function` of a device.
bool Program::cut_over_cores(const graph::Module& module, const graph::Function& function,
                             const DeviceOptions& options) {
  if (settings_.physical_cores_per_core != spmd::kCoresOfPair) return false;
  if (!settings_.uses_both_cores) {
    one_core_reason_ = "OPENTRN_LOGICAL_CORE=one";
    return false;
  }
  core_settings_ = spmd::settings_of_cores(settings_);
  const int64_t devices = options_.partitions;
  spmd::MayBeFaster others;
  auto both = spmd::BothCores::of(module, function, devices, core_settings_, one_core_reason_, &others);
  if (!both && others.cuts.empty()) return false;
  const auto compiled = [&](const spmd::BothCores& of) {
    return std::make_unique<ParallelProgram>(of.module(), of.module().entry(), devices * spmd::kCoresOfPair,
                                             options);
  };
  const auto us_of = [](const ParallelProgram& of, const Settings& settings) -> std::optional<double> {
    return of.host_reason().empty() ? spmd::cost_of(of, settings).device_us : std::nullopt;
  };
  const bool is_promised = both.has_value();
  if (!is_promised) both = std::move(others.cuts.back()), others.cuts.pop_back();
  auto made = compiled(*both);
  for (spmd::BothCores& each : others.cuts) {
    auto other = compiled(each);
    const auto other_us = us_of(*other, core_settings_), made_us = us_of(*made, core_settings_);
    const bool is_better = !made->host_reason().empty() || (other_us && made_us && *other_us < *made_us);
    if (other->host_reason().empty() && is_better) made = std::move(other), both = std::move(each);
  }
  if (others.one_core && made->host_reason().empty()) {
    const ParallelProgram one(module, function, devices, options);
    const auto one_us = us_of(one, settings_), both_us = us_of(*made, core_settings_);
    if (one_us && both_us ? *one_us <= *both_us : !is_promised) {
      one_core_reason_ = "no cut of it is faster";
      return false;
    }
  }
  if (!made->host_reason().empty()) {
    one_core_reason_ = made->host_reason();
    return false;
  }
  both_cores_ = std::move(both);
  parallel_ = std::move(made);
  return true;
}

void Program::make_parallel(const graph::Module& module, graph::Function function,
                            const DeviceOptions& options) {
  if (cut_over_cores(module, function, options)) return;
  parallel_ = std::make_unique<ParallelProgram>(module, std::move(function), options_.partitions, options);
}

// False where Shardy has no program of one device, or one that does not fit what it says of the shardings.
bool Program::compile_parallel(const DeviceOptions& options) {
  if (!partition_) return false;
  whole_reason_ = partition_->problem;
  if (partition_->local.empty()) return false;
  try {
    graph::Module local = import::load(bytes_of(partition_->local), name_);
    graph::verify(local);
    graph::Function function = compiler::inline_calls(local, local.entry());
    spmd::rearrange_sums(local, function, options_.partitions);
    bool fits = boundary_types(function.argument_types()) == inputs_ &&
                function.result_types.size() == output_shardings_.size();
    for (size_t i = 0; fits && i < output_shardings_.size(); ++i)
      fits = boundary_type(function.result_types[i]) == output_shardings_[i].local(whole_outputs_[i]);
    if (fits) {
      lay_out(function, layouts_);
      make_parallel(local, std::move(function), options);
      on_each_ = true;
      return true;
    }
    whole_reason_ = "Shardy's program of one device has other shapes than its shardings say";
  } catch (const Fault& fault) {
    whole_reason_ = fault.message();
  }
  return false;
}

// As the program itself says how its values lie, and Shardy of arguments and results. Results whose sharding
// nobody states lie as propagation leaves them, but for those that would end in padding, of which PJRT has no
// form: they are whole.
spmd::SpmdModule Program::own_partition() const {
  const graph::Function flat =
      compiler::inline_calls(module_, module_.entry(), compiler::ShardingNotes::kKept);
  graph::walk(flat, flat.body(), [&](graph::OpId id) {
    const graph::Op& op = flat.op(id);
    if (is_host_call(op) && !is_for_all_devices(op) && !spmd::is_inside_manual_computation(flat, id))
      throw Fault(FaultKind::kNotModelled, "pjrt.callback",
                  "a callback that is made once for the whole program");
  });
  std::vector<std::optional<Sharding>> outputs(whole_outputs_.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    if (partition_ || output_is_stated(i)) outputs[i] = output_shardings_[i];
  for (;;) {
    const spmd::ProgramShardings stated =
        spmd::program_shardings(module_, flat, input_shardings_, outputs, options_.partitions);
    std::vector<std::optional<spmd::Cuts>> cuts(outputs.size());
    std::vector<const spmd::Cuts*> wanted(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i)
      if (outputs[i] && whole_outputs_[i].is_tensor() && !stated.other.results.contains(i)) {
        cuts[i] = stated.grid.cuts_of(*outputs[i], flat.type(flat.returned()[i]).rank());
        wanted[i] = &*cuts[i];
      }
    spmd::SpmdModule made =
        spmd::partition(module_, flat, stated.grid, stated.values, wanted, stated.open, stated.other);
    bool even = true;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (!outputs[i] && !made.outputs[i].divides(whole_outputs_[i])) {
        outputs[i] = Sharding{};
        even = false;
      }
    if (even) return made;
  }
}

bool Program::compile_by_own_partition(const DeviceOptions& options) {
  if (options_.partitions == 1 && !has_manual_computation(*flat_)) return false;
  try {
    spmd::SpmdModule made = own_partition();
    graph::verify(made.module);
    for (size_t i = 0; i < whole_outputs_.size(); ++i)
      if (!partition_ && !output_is_stated(i)) output_shardings_[i] = made.outputs[i];
    graph::Function function = made.module.entry();
    lay_out(function, layouts_);
    make_parallel(made.module, std::move(function), options);
    held_.resize(static_cast<size_t>(options_.partitions));
    for (size_t device = 0; device < held_.size(); ++device)
      for (const spmd::HeldConstant& constant : made.constants)
        held_[device].push_back(
            spmd::part_of(constant.whole, constant.sharding, static_cast<int64_t>(device)));
    own_local_ = std::move(made.module);
    on_each_ = true;
    whole_reason_.clear();
    return true;
  } catch (const Fault& fault) {
    // Notes on sharding that only Shardy understands are no reason to refuse a program that it spreads.
    if (fault.kind() != FaultKind::kNotModelled && fault.kind() != FaultKind::kInput) throw;
    if (!whole_reason_.empty()) whole_reason_ += "; ";
    whole_reason_ += fault.message();
  }
  return false;
}

// Each device's values, in memory's order there and back.
std::vector<std::vector<graph::Literal>> Program::run_on_each(
    std::vector<std::vector<graph::Literal>> arguments, Rendezvous* rendezvous) const {
  if (rendezvous)
    for (size_t device = 0; device < arguments.size(); ++device)
      if (!rendezvous->is_own(device)) arguments[device] = arguments[rendezvous->first_own()];
  if (!row_major_)
    for (auto& of_device : arguments) of_device = in_memory(of_device, layouts_.arguments);
  for (size_t device = 0; device < held_.size(); ++device)
    arguments[device].insert(arguments[device].end(), held_[device].begin(), held_[device].end());
  auto results = both_cores_ ? run_on_both_cores(arguments, rendezvous)
                             : run_parallel(*parallel_, arguments, rendezvous);
  if (row_major_) return results;
  for (auto& of_device : results) of_device = from_memory(of_device, outputs_, layouts_.results);
  return results;
}

std::vector<std::vector<graph::Literal>> Program::run_on_both_cores(
    const std::vector<std::vector<graph::Literal>>& arguments, Rendezvous* rendezvous) const {
  if (!rendezvous) return both_cores_->joined(run_parallel(*parallel_, both_cores_->split(arguments)));
  CoreRendezvous of_cores(*rendezvous);
  return both_cores_->joined(run_parallel(*parallel_, both_cores_->split(arguments), &of_cores));
}

std::vector<std::vector<graph::Literal>> Program::run(std::vector<std::vector<graph::Literal>> arguments,
                                                      Rendezvous* rendezvous) const {
  if (on_each_) return run_on_each(std::move(arguments), rendezvous);
  // One computes for all, so each process has to know all.
  if (rendezvous) rendezvous->complete(arguments);
  if (arguments.size() == 1) return {run_whole(arguments[0])};
  std::vector<graph::Literal> whole;
  for (size_t i = 0; i < whole_inputs_.size(); ++i) {
    std::vector<graph::Literal> parts;
    for (const auto& of_device : arguments) parts.push_back(of_device[i]);
    whole.push_back(spmd::joined(parts, whole_inputs_[i], input_shardings_[i]));
  }
  const std::vector<graph::Literal> results = run_whole(whole);
  std::vector<std::vector<graph::Literal>> parts(arguments.size());
  for (size_t device = 0; device < parts.size(); ++device)
    for (size_t i = 0; i < results.size(); ++i)
      parts[device].push_back(spmd::part_of(results[i], output_shardings_[i], static_cast<int64_t>(device)));
  return parts;
}

bool Program::is_short() const {
  // Waking a thread and being woken by it takes some ten microseconds, and more on a busy machine.
  constexpr int64_t kShortNs = 100'000;
  const int64_t last = last_run_.load(std::memory_order_relaxed);
  return model_ != nullptr && last >= 0 && last < kShortNs;
}

spmd::Cost Program::cost() const {
  if (model_) return spmd::cost_of(*model_);
  if (!parallel_) return spmd::cost_on_host(host_reason_);
  spmd::Cost cost = spmd::cost_of(*parallel_, parallel_settings());
  if (!both_cores_) return cost;
  cost.cores = static_cast<int>(spmd::kCoresOfPair);
  for (double* of_one : {&cost.tensor_flops, &cost.model_flops, &cost.hbm_bytes}) *of_one *= cost.cores;
  cost.instructions *= cost.cores;
  return cost;
}

std::vector<graph::Literal> Program::run_whole(std::span<const graph::Literal> arguments) const {
  if (row_major_) return run_as_laid_out(arguments);
  return from_memory(run_as_laid_out(in_memory(arguments, layouts_.arguments)), whole_outputs_,
                     layouts_.results);
}

std::vector<graph::Literal> Program::run_as_laid_out(std::span<const graph::Literal> arguments) const {
  if (model_) {
    if (check_ && !checked_.exchange(true)) check_on_host(module_, arguments);
    return model_->run(memory_outputs_, arguments);
  }
  if (parallel_) return run_parallel(*parallel_, {{arguments.begin(), arguments.end()}}).front();
  return evaluate(arguments);
}

std::vector<graph::Literal> Program::evaluate(std::span<const graph::Literal> arguments) const {
  using graph::eval::RuntimeValue;
  std::vector<RuntimeValue> values;
  const std::vector<graph::Type> types = flat_->argument_types();
  for (size_t i = 0; i < arguments.size(); ++i) values.push_back(runtime_value(types[i], arguments[i]));
  graph::eval::Options options{.device_call = runtime::evaluate_device_call};
  options.custom_call =
      [this](const graph::Op& op, const graph::Module&,
             std::span<const RuntimeValue> operands) -> std::optional<std::vector<RuntimeValue>> {
    const auto found = manual_.find(&op);
    if (found == manual_.end()) return call_host(op, module_, operands);
    std::vector<graph::Literal> literals;
    for (const RuntimeValue& operand : operands) literals.push_back(operand.literal());
    std::vector<RuntimeValue> results;
    for (graph::Literal& result : found->second.run(literals)) results.push_back({std::move(result)});
    return results;
  };
  std::vector<graph::Literal> results;
  for (const RuntimeValue& value : graph::eval::evaluate(module_, *flat_, values, options))
    results.push_back(dense(value));
  return results;
}

// Without notes on sharding, which jaxlib's HLO cannot have on one device.
std::string Program::local_text() const {
  const bool by_shardy = !own_local_ && partition_ && !partition_->local.empty();
  graph::Module module = by_shardy    ? import::load(bytes_of(partition_->local), name_)
                         : own_local_ ? *own_local_
                                      : module_;
  graph::Function flat = compiler::inline_calls(module, module.entry());
  if (by_shardy) spmd::rearrange_sums(module, flat, options_.partitions);  // as what runs
  module.functions.clear();
  module.functions.push_back(std::move(flat));
  return graph::print_module(module);
}

std::string Program::serialised() const {
  std::string bytes(kMagic);
  for (const std::string& part : {options_bytes_, code_, compiled_under_, parts_.to_bytes()})
    spmd::append_sized(bytes, part);
  return bytes;
}

std::shared_ptr<const Program> Program::deserialised(std::string_view bytes, const Settings& settings,
                                                     Shardy& shardy) {
  if (!bytes.starts_with(kMagic))
    throw Fault(FaultKind::kInput, "pjrt.serialised", "this is not an executable of OpenTrn's",
                "remove it from the compilation cache");
  bytes.remove_prefix(kMagic.size());
  std::string options = spmd::take_sized(bytes), code = spmd::take_sized(bytes);
  const std::string under = spmd::take_sized(bytes), parts = spmd::take_sized(bytes);
  return std::make_shared<const Program>(
      std::move(code), std::move(options), settings, shardy,
      under == compiled_under(settings) ? Parts::of_bytes(parts) : Parts{});
}

}  // namespace opentrn::pjrt
