#include "spmd/run/parallel.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>

#include "base/fault.h"
#include "compiler/analysis/counted_loop.h"
#include "device/presence.h"
#include "graph/eval/process_groups.h"
#include "graph/op_definitions.h"
#include "runtime/device_call.h"
#include "spmd/core_pairs.h"
#include "spmd/extract.h"
#include "spmd/run/weight_collectives.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::BlockId;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;
using graph::eval::RuntimeValue;

namespace {

bool is_collective(OpKind kind) {
  switch (kind) {
    case OpKind::all_gather_:
    case OpKind::all_reduce_:
    case OpKind::all_to_all_:
    case OpKind::collective_broadcast_:
    case OpKind::collective_permute_:
    case OpKind::collective_reduce_:
    case OpKind::reduce_scatter_:
    case OpKind::partition_id_:
    case OpKind::replica_id_: return true;
    default: return false;
  }
}

// Of those that move arrays.
std::optional<collectives::Kind> collective_kind(OpKind kind) {
  switch (kind) {
    case OpKind::all_gather_: return collectives::Kind::kAllGather;
    case OpKind::all_reduce_: return collectives::Kind::kAllReduce;
    case OpKind::collective_reduce_: return collectives::Kind::kReduce;
    case OpKind::all_to_all_: return collectives::Kind::kAllToAll;
    case OpKind::collective_broadcast_: return collectives::Kind::kBroadcast;
    case OpKind::collective_permute_: return collectives::Kind::kPermute;
    case OpKind::reduce_scatter_: return collectives::Kind::kReduceScatter;
    default: return std::nullopt;
  }
}

bool is_host_driven(OpKind kind) {
  return kind == OpKind::while_ || kind == OpKind::case_ || kind == OpKind::if_;
}

graph::eval::Options evaluator_options(const HostCalls& host) {
  graph::eval::Options options{.device_call = runtime::evaluate_device_call};
  options.custom_call = host.call;
  return options;
}

bool is_host_call(const HostCalls& host, const Op& op) { return host.is_call && host.is_call(op); }

bool is_for_all_devices(const HostCalls& host, const Op& op) {
  return host.is_for_all_devices && host.is_for_all_devices(op);
}

// Of a scalar: a branch's index, a loop's condition.
int64_t integer_of(const RuntimeValue& value) {
  const graph::Literal& literal = value.literal();
  if (literal.bytes().size() == 1) return static_cast<int64_t>(literal.bytes()[0]);
  int32_t index = 0;
  OPENTRN_CHECK(literal.bytes().size() == sizeof(index), "an index of {}", literal.type().to_string());
  std::memcpy(&index, literal.bytes().data(), sizeof(index));
  return index;
}

bool same(const ParallelProgram::Values& a, const ParallelProgram::Values& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const auto *x = std::get_if<graph::Literal>(&a[i].value), *y = std::get_if<graph::Literal>(&b[i].value);
    if (!x || !y) return false;
    if (x->bytes().data() != y->bytes().data() && !(*x == *y)) return false;
  }
  return true;
}

// One for all devices; nullopt where they differ.
std::optional<int64_t> agreed(std::span<const ParallelProgram::Values> scalars) {
  const int64_t first = integer_of(scalars.front().front());
  for (const auto& of_device : scalars)
    if (integer_of(of_device.front()) != first) return std::nullopt;
  return first;
}

bool calls_host(const graph::Function& function, const HostCalls& host) {
  bool found = false;
  graph::walk(function, function.body(), [&](OpId id) { found |= is_host_call(host, function.op(id)); });
  return found;
}

// Whether devices meet, or the host takes part, in an op or in its regions; or an op is one of a logical
// core.
bool synchronises(const graph::Function& function, OpId id, const HostCalls& host) {
  const Op& op = function.op(id);
  const auto is_token = [&](ValueId value) { return function.type(value).is_token(); };
  if (is_collective(op.kind) || is_host_call(host, op) || is_once_of_logical_core(op) ||
      std::any_of(op.operands.begin(), op.operands.end(), is_token) ||
      std::any_of(op.results.begin(), op.results.end(), is_token))
    return true;
  for (const BlockId region : op.regions)
    for (const OpId inner : function.block(region).ops)
      if (synchronises(function, inner, host)) return true;
  return false;
}

// Which a logical core runs once.
bool is_kernel(const Op& op, const HostCalls& host) {
  return is_once_of_logical_core(op) && !is_host_call(host, op);
}

// Takes less time than writing its result and reading it again.
bool is_light(const graph::Function& function, const Op& op) {
  if (!op.regions.empty() || op.results.size() != 1 || !function.type(op.results[0]).is_static())
    return false;
  switch (op.kind) {
    case OpKind::broadcast_in_dim_:
    case OpKind::clamp_:
    case OpKind::compare_:
    case OpKind::convert_:
    case OpKind::iota_:
    case OpKind::reshape_:
    case OpKind::select_: return true;
    default: break;
  }
  const graph::OpDefinition& definition = graph::definition(op.kind);
  return !definition.has_side_effect && (definition.op_class == graph::OpClass::kUnaryElementwise ||
                                         definition.op_class == graph::OpClass::kBinaryElementwise);
}

// That it lies in memory costs nothing.
bool is_small(const graph::Type& type) {
  constexpr int64_t kBytes = 4096;
  return type.is_tensor() && type.is_static() && type.byte_count() <= kBytes;
}

}  // namespace

ParallelProgram::ParallelProgram(const graph::Module& module, graph::Function function, int64_t devices,
                                 const DeviceOptions& options)
    : module_(module),
      function_(std::move(function)),
      argument_types_(function_.argument_types()),
      devices_(static_cast<size_t>(devices)),
      check_(options.check),
      host_(options.host) {
  body_ = plan(function_.body(), options);
}

bool ParallelProgram::is_needed(const graph::Function& function, const HostCalls& host) {
  const auto is_token = [](const graph::Type& type) { return type.is_token(); };
  const std::vector<graph::Type> arguments = function.argument_types();
  const auto& ops = function.block(function.body()).ops;
  return std::any_of(arguments.begin(), arguments.end(), is_token) ||
         std::any_of(function.result_types.begin(), function.result_types.end(), is_token) ||
         std::any_of(ops.begin(), ops.end(), [&](OpId id) { return synchronises(function, id, host); });
}

std::unique_ptr<ParallelProgram::Sequence> ParallelProgram::plan(BlockId block,
                                                                 const DeviceOptions& options) {
  auto sequence = std::make_unique<Sequence>();
  const graph::Block& from = function_.block(block);
  sequence->arguments = from.arguments;
  sequence->returned = function_.op(from.ops.back()).operands;
  // Phases: ops that meet, then ops of devices.
  const std::set<ValueId> anew = remade(block);
  remade_.insert(anew.begin(), anew.end());
  std::vector<std::vector<OpId>> rendezvous(1), computing(1);
  const auto placed = places(block);
  read_past_barriers(placed, block);
  for (const auto& [id, place] : placed) {
    if (rendezvous.size() <= place.phase) {
      rendezvous.resize(place.phase + 1);
      computing.resize(place.phase + 1);
    }
    const auto& results = function_.op(id).results;
    if (results.empty() || !anew.contains(results[0]))
      (place.on_device ? computing : rendezvous)[place.phase].push_back(id);
  }
  struct Ops {
    std::vector<OpId> ops;
    bool together;
  };
  std::vector<Ops> steps;
  for (size_t phase = 0; phase < rendezvous.size(); ++phase) {
    for (const OpId id : rendezvous[phase]) steps.push_back({{id}, !is_kernel(function_.op(id), host_)});
    if (!computing[phase].empty()) steps.push_back({with_remade(computing[phase], block, anew), false});
  }
  // A step makes what it reads of `remade_` itself, so only what it lacks has to come from another.
  std::vector<ValueId> read = sequence->returned;
  for (const Ops& step : steps) {
    const std::vector<ValueId> own = values_read(function_, step.ops);
    read.insert(read.end(), own.begin(), own.end());
  }
  std::sort(read.begin(), read.end());
  for (Ops& step : steps)
    sequence->steps.push_back(make_step(std::move(step.ops), read, *sequence, options, step.together));
  return sequence;
}

// An op is in the first phase that has what it reads. What is made of arguments, constants and small values
// (a device's number) alone by light ops, or is a part of an argument, is made in the phase that reads it
// first: it would lie in memory until then.
std::vector<std::pair<OpId, ParallelProgram::Place>> ParallelProgram::places(BlockId block) const {
  std::vector<std::pair<OpId, Place>> all;
  std::map<ValueId, size_t> made;  // value -> which of `all`
  std::vector<bool> can_wait;
  const std::vector<OpId>& ops = function_.block(block).ops;
  for (const OpId id : ops) {
    const Op& op = function_.op(id);
    if (op.kind == OpKind::constant_ || id == ops.back()) continue;
    Place place{0, !synchronises(function_, id, host_)};
    bool waits = place.on_device && (is_light(function_, op) || op.kind == OpKind::dynamic_slice_);
    for (const ValueId value : values_read(function_, std::span(&id, 1)))
      if (const auto found = made.find(value); found != made.end()) {
        const Place& from = all[found->second].second;
        place.phase = std::max(place.phase, from.phase + (from.on_device && !place.on_device ? 1 : 0));
        waits = waits && (can_wait[found->second] || is_small(function_.type(value)));
      }
    for (const ValueId result : op.results) made[result] = all.size();
    all.emplace_back(id, place);
    can_wait.push_back(waits);
  }
  std::map<ValueId, size_t> needed;  // value -> the first phase that has to find it
  for (const ValueId value : function_.op(ops.back()).operands) needed[value] = 0;
  for (size_t i = all.size(); i-- > 0;) {
    auto& [id, place] = all[i];
    if (can_wait[i])
      if (const auto found = needed.find(function_.op(id).results[0]); found != needed.end())
        place.phase = std::max(place.phase, found->second);
    const size_t phase = place.on_device ? place.phase : std::max<size_t>(place.phase, 1) - 1;
    for (const ValueId value : values_read(function_, std::span(&id, 1))) {
      const auto [found, fresh] = needed.try_emplace(value, phase);
      if (!fresh) found->second = std::min(found->second, phase);
    }
  }
  return all;
}

// What a barrier passes on has served its end once ops have their phases: those of other phases read what it
// was given, where that comes from elsewhere, and the barrier's part does not write it again (all weights of
// a block that runs again).
void ParallelProgram::read_past_barriers(const std::vector<std::pair<OpId, Place>>& placed, BlockId block) {
  std::map<OpId, std::pair<size_t, bool>> at;
  for (const auto& [id, place] : placed) at[id] = {place.phase, place.on_device};
  std::map<ValueId, std::pair<ValueId, OpId>> passed;  // result -> what it is, and the barrier
  for (const auto& [id, place] : placed) {
    const Op& op = function_.op(id);
    if (op.kind != OpKind::optimization_barrier_ || !place.on_device) continue;
    for (size_t i = 0; i < op.results.size(); ++i) {
      const auto maker = at.find(function_.value(op.operands[i]).op);
      if (maker == at.end() || maker->second != at.at(id)) passed[op.results[i]] = {op.operands[i], id};
    }
  }
  for (const OpId id : function_.block(block).ops)
    for (ValueId& value : function_.op(id).operands)
      for (auto found = passed.find(value); found != passed.end(); found = passed.find(value)) {
        const auto reader = at.find(id);
        if (reader != at.end() && reader->second == at.at(found->second.second)) break;
        value = found->second.first;
      }
}

namespace {

// Ops of one place: an element of the result depends on the same element of an operand.
bool is_by_element(const graph::Function& function, const Op& op) {
  if (op.results.size() != 1 || !op.regions.empty()) return false;
  const graph::OpClass of = graph::definition(op.kind).op_class;
  return op.kind == OpKind::convert_ || op.kind == OpKind::select_ || op.kind == OpKind::clamp_ ||
         of == graph::OpClass::kUnaryElementwise || of == graph::OpClass::kBinaryElementwise;
}

// A part of what a loop carries and never changes, at a place that is known: a chunk's weights on a tick.
bool is_part_of_carried(const graph::Function& function, BlockId block, const Op& op) {
  const std::vector<ValueId>& arguments = function.block(block).arguments;
  const auto at = std::ranges::find(arguments, op.operands[0]);
  const std::vector<ValueId>& returned = function.op(function.block(block).ops.back()).operands;
  const auto index = static_cast<size_t>(at - arguments.begin());
  return op.kind == OpKind::dynamic_slice_ && at != arguments.end() && index < returned.size() &&
         returned[index] == *at;
}

// Of a slice that is read where it lies: bytes in all, as of the compiler (decision 0255), and of what lies
// together, of which shorter runs take DMA as long.
constexpr int64_t kReadWhereItLies = 1 << 20, kRunLeast = 512;

int64_t bytes_together(const graph::Type& part, const graph::Type& whole) {
  int64_t count = 1;
  for (int d = part.rank(); d-- > 0;) {
    count *= part.dim(d);
    if (part.dim(d) != whole.dim(d)) break;
  }
  return count * graph::storage_bytes(part.element());
}

// A large part of what a collective gives that all who read it can read where it lies: a core's part of a
// table that ranks exchange.
bool is_part_of_given(const graph::Function& function, const Op& op, const std::vector<OpId>& readers) {
  if (op.kind != OpKind::dynamic_slice_ || op.operands.empty()) return false;
  const OpId maker = function.value(op.operands[0]).op;
  if (maker == graph::kNoOp || !is_collective(function.op(maker).kind)) return false;
  const graph::Type& type = function.type(op.results[0]);
  return type.byte_count() >= kReadWhereItLies &&
         bytes_together(type, function.type(op.operands[0])) >= kRunLeast &&
         std::ranges::all_of(readers, [&](OpId id) {
           const Op& reader = function.op(id);
           return reader.kind == OpKind::dot_general_ || is_by_element(function, reader);
         });
}

}  // namespace

// Results of broadcasts that only ops of devices read, what light ops make of constants (masks by index),
// parts of what a loop only reads or a collective gives, and new shapes of arguments and of what collectives
// give. Each step makes those that it reads anew: what they are made of is smaller or lies in memory anyway,
// and its compiler then knows what they are: a causal mask that comes as an input is any mask, and a part
// that is large is read where it lies.
std::set<ValueId> ParallelProgram::remade(BlockId block) const {
  constexpr size_t kMaskOps = 16;  // more of them are a computation (random bits of a constant key)
  std::set<ValueId> values, parts;
  std::map<ValueId, size_t> of_constants;  // and of how many ops
  const auto lies_in_memory = [&](ValueId value) {
    const OpId maker = function_.value(value).op;
    if (maker == graph::kNoOp || is_collective(function_.op(maker).kind)) return true;
    return function_.op(maker).kind == OpKind::reshape_ && values.contains(value);
  };
  const std::vector<OpId>& ops = function_.block(block).ops;
  std::map<OpId, std::vector<OpId>> readers;  // of an op's results
  for (const OpId id : ops)
    for (const ValueId value : values_read(function_, std::span(&id, 1)))
      if (const OpId maker = function_.value(value).op; maker != graph::kNoOp) readers[maker].push_back(id);
  for (const OpId id : ops) {
    const Op& op = function_.op(id);
    size_t made_by = 1;
    const bool is_constant = std::ranges::all_of(op.operands, [&](ValueId value) {
      if (const auto found = of_constants.find(value); found != of_constants.end()) {
        made_by += found->second;
        return true;
      }
      const OpId maker = function_.value(value).op;
      return maker != graph::kNoOp && function_.op(maker).kind == OpKind::constant_;
    });
    if (is_constant && made_by <= kMaskOps && is_light(function_, op) && !synchronises(function_, id, host_))
      of_constants.emplace(op.results[0], made_by);
    const auto is_part = [&](ValueId value) { return parts.contains(value); };
    if (op.kind == OpKind::reshape_ ? is_part(op.operands[0])
                                    : !op.operands.empty() && (is_part_of_carried(function_, block, op) ||
                                                               is_part_of_given(function_, op, readers[id])))
      parts.insert(op.results[0]);
    if (op.kind == OpKind::broadcast_in_dim_) values.insert(op.results[0]);
    if (op.kind == OpKind::reshape_ && lies_in_memory(op.operands[0])) values.insert(op.results[0]);
  }
  values.insert(parts.begin(), parts.end());
  for (const auto& [value, made_by] : of_constants) values.insert(value);
  for (const OpId id : ops)
    if (id == ops.back() || synchronises(function_, id, host_))
      for (const ValueId value : values_read(function_, std::span(&id, 1))) values.erase(value);
  return values;
}

// With those that the ops read, in the order of the block.
std::vector<OpId> ParallelProgram::with_remade(std::vector<OpId> ops, BlockId block,
                                               const std::set<ValueId>& remade) const {
  std::set<OpId> all(ops.begin(), ops.end());
  for (size_t before = 0; before != all.size();) {
    before = all.size();
    for (const ValueId value : values_read(function_, ops))
      if (remade.contains(value)) all.insert(function_.value(value).op);
    ops.assign(all.begin(), all.end());
  }
  ops.clear();
  for (const OpId id : function_.block(block).ops)
    if (all.contains(id)) ops.push_back(id);
  return ops;
}

// `read`: sorted, what steps of the block read that they do not make, and what it returns.
std::unique_ptr<ParallelProgram::Step> ParallelProgram::make_step(std::vector<OpId> ops,
                                                                  std::span<const ValueId> read,
                                                                  const Sequence& sequence,
                                                                  const DeviceOptions& options,
                                                                  bool together) {
  auto step = std::make_unique<Step>();
  step->ops = std::move(ops);
  step->together = together;
  step->once_of_logical_core = is_once_of_logical_core(function_.op(step->ops.front()));
  step->inputs = values_read(function_, step->ops);
  for (const OpId id : step->ops)
    for (const ValueId result : function_.op(id).results)
      if (together || (std::ranges::binary_search(read, result) && !remade_.contains(result)))
        step->outputs.push_back(result);
  for (const ValueId value : step->outputs) step->types.push_back(function_.type(value));
  step->function = extract(function_, step->ops, step->inputs, step->outputs);
  const Op& first = function_.op(step->ops.front());
  if (together && is_host_driven(first.kind))
    for (const BlockId region : first.regions) step->regions.push_back(plan(region, options));
  if (together && first.kind == OpKind::while_) step->trips = compiler::constant_trips(function_, first);
  if (together) return step;
  donate(*step, sequence);
  compile(*step, options);
  return step;
}

// The first input in whose place an output may be written, element by element; `may`: those that nobody reads
// any more.
std::optional<size_t> ParallelProgram::updated_by(const Step& step, ValueId output,
                                                  const std::function<bool(ValueId)>& may) const {
  const std::set<OpId> inside(step.ops.begin(), step.ops.end());
  std::set<ValueId> seen{output};
  std::vector<ValueId> waiting{output};
  while (!waiting.empty()) {
    const OpId made = function_.value(waiting.back()).op;
    waiting.pop_back();
    if (made == graph::kNoOp || !inside.contains(made) || !is_by_element(function_, function_.op(made)))
      continue;
    for (const ValueId operand : function_.op(made).operands)
      if (seen.insert(operand).second) waiting.push_back(operand);
  }
  for (size_t i = 0; i < step.inputs.size(); ++i)
    if (const ValueId input = step.inputs[i];
        seen.contains(input) && function_.type(input) == function_.type(output) && may(input))
      return i;
  return std::nullopt;
}

void ParallelProgram::donate(Step& step, const Sequence& sequence) const {
  std::set<OpId> inside(step.ops.begin(), step.ops.end()), before = inside;
  for (const auto& earlier : sequence.steps)
    if (!earlier->together) before.insert(earlier->ops.begin(), earlier->ops.end());
  // What a loop carries is copied when it begins. An argument of the program is the caller's, unless it is
  // given up; parts run one after the other, but a collective may still read it.
  const std::set<ValueId> returned(sequence.returned.begin(), sequence.returned.end());
  std::set<ValueId> kept = returned, kept_argument = returned;
  const BlockId block = function_.op(step.ops.front()).block;
  for (const OpId id : function_.block(block).ops) {
    const auto& results = function_.op(id).results;
    const bool again = !results.empty() && remade_.contains(results[0]);
    for (const ValueId value : values_read(function_, std::span(&id, 1))) {
      if (!inside.contains(id) || again) kept.insert(value);
      if (!before.contains(id) || again) kept_argument.insert(value);
    }
  }
  const auto mark = [&](size_t input, size_t output) {
    step.function.argument_attributes[input]["tf.aliasing_output"] =
        graph::Attribute(static_cast<int64_t>(output));
  };
  const auto arguments = function_.arguments();
  for (size_t output = 0; output < step.outputs.size(); ++output) {
    if (block == function_.body() && returned.contains(step.outputs[output])) {
      const auto input = updated_by(step, step.outputs[output], [&](ValueId value) {
        const auto at = std::ranges::find(arguments, value);
        return at != arguments.end() && !kept_argument.contains(value) &&
               is_given_up(static_cast<size_t>(at - arguments.begin()));
      });
      if (input) {
        kept_argument.insert(step.inputs[*input]);
        mark(*input, output);
        continue;
      }
    }
    // A chain of updates leads to what they begin with.
    ValueId value = step.outputs[output];
    for (OpId made = function_.value(value).op; made != graph::kNoOp && inside.contains(made) &&
                                                function_.op(made).kind == OpKind::dynamic_update_slice_;
         made = function_.value(value).op)
      value = function_.op(made).operands[0];
    const auto input = std::find(step.inputs.begin(), step.inputs.end(), value);
    if (input == step.inputs.end() || value == step.outputs[output] ||
        (block == function_.body() && function_.value(value).op == graph::kNoOp))
      continue;
    if (kept.insert(value).second) mark(static_cast<size_t>(input - step.inputs.begin()), output);
  }
}

graph::Module ParallelProgram::alone(const Step& step) const {
  graph::Module module = module_;
  module.functions.clear();
  module.functions.push_back(step.function);
  return module;
}

void ParallelProgram::compile(Step& step, const DeviceOptions& options) {
  try {
    step.model = compile_for_device(alone(step), options);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled) throw;
    if (host_reason_.empty()) host_reason_ = fault.message();
  }
}

RuntimeValue ParallelProgram::value(const Environment& environment, size_t device, ValueId id) const {
  if (const auto& found = environment.values[device][index_of(id)]) return *found;
  const OpId maker = function_.value(id).op;
  OPENTRN_CHECK(maker != graph::kNoOp && function_.op(maker).kind == OpKind::constant_,
                "a value that no step has made");
  return {function_.op(maker).literal(Attr::value)};
}

std::vector<ParallelProgram::Values> ParallelProgram::values(const Environment& environment,
                                                             std::span<const ValueId> ids) const {
  std::vector<Values> all(devices_);
  for (size_t device = 0; device < devices_; ++device)
    for (const ValueId id : ids) all[device].push_back(value(environment, device, id));
  return all;
}

std::vector<ParallelProgram::Values> ParallelProgram::run(const std::vector<Values>& arguments,
                                                          Rendezvous* rendezvous) const {
  Environment environment;
  environment.rendezvous = rendezvous;
  environment.values.resize(devices_);
  for (auto& of_device : environment.values) of_device.resize(function_.value_count());
  runs_.fetch_add(static_cast<int64_t>(devices_), std::memory_order_relaxed);
  return run(*body_, environment, arguments);
}

std::vector<ParallelProgram::Values> ParallelProgram::run(const Sequence& sequence, Environment& environment,
                                                          const std::vector<Values>& arguments) const {
  for (size_t device = 0; device < devices_; ++device)
    for (size_t i = 0; i < sequence.arguments.size(); ++i)
      environment.values[device][index_of(sequence.arguments[i])] = arguments[device][i];
  for (const auto& step : sequence.steps) run(*step, environment);
  return values(environment, sequence.returned);
}

void ParallelProgram::run(const Step& step, Environment& environment) const {
  std::optional<std::vector<Values>> results;
  if (!step.regions.empty())
    results = function_.op(step.ops.front()).kind == OpKind::while_ ? run_loop(step, environment)
                                                                    : run_branch(step, environment);
  if (results) {
    step.runs.fetch_add(static_cast<int64_t>(devices_), std::memory_order_relaxed);
  } else {
    const std::vector<Values> inputs = values(environment, step.inputs);
    results = step.together ? run_together(step, inputs, environment.rendezvous)
                            : run_devices(step, inputs, environment.rendezvous);
  }
  for (size_t device = 0; device < devices_; ++device)
    for (size_t i = 0; i < step.outputs.size(); ++i)
      environment.values[device][index_of(step.outputs[i])] = std::move((*results)[device][i]);
}

// The device whose results are also this one's, as their inputs are equal; the device itself where none is
// before it.
size_t ParallelProgram::twin_of(const Step& step, const std::vector<Values>& inputs, size_t device,
                                const Rendezvous* rendezvous) const {
  if (step.once_of_logical_core) return device - device % static_cast<size_t>(kCoresOfPair);
  size_t twin = 0;
  while (twin < device && !((!rendezvous || rendezvous->is_own(twin)) && same(inputs[twin], inputs[device])))
    ++twin;
  return twin;
}

// Devices with equal inputs make equal results: one of them computes.
std::vector<ParallelProgram::Values> ParallelProgram::run_devices(const Step& step,
                                                                  const std::vector<Values>& inputs,
                                                                  const Rendezvous* rendezvous) const {
  std::vector<Values> results(devices_);
  std::vector<std::optional<device::Execution>> executions(devices_);
  const auto runs_here = [&](size_t device) { return !rendezvous || rendezvous->is_own(device); };
  for (size_t device = 0; device < devices_; ++device) {
    const device::CoreScope scope(device::CoresScope::core(device));
    step.runs.fetch_add(1, std::memory_order_relaxed);
    if (!runs_here(device)) continue;
    if (const size_t twin = twin_of(step, inputs, device, rendezvous); twin < device) {
      results[device] = results[twin];
      executions[device] = executions[twin];
      if (executions[device]) device::executed_again(*executions[device]);
    } else if (step.model) {
      std::vector<graph::Literal> literals;
      for (const RuntimeValue& input : inputs[device]) literals.push_back(input.literal());
      if (check_ && host_.check && !step.checked.exchange(true)) host_.check(alone(step), literals);
      for (graph::Literal& result : step.model->run(step.types, literals))
        results[device].push_back({std::move(result)});
      executions[device] = device::last_execution();
    } else {
      results[device] =
          graph::eval::evaluate(module_, step.function, inputs[device], evaluator_options(host_));
    }
  }
  for (size_t device = 0; device < devices_; ++device)
    if (!runs_here(device)) results[device] = results[rendezvous->first_own()];
  return results;
}

std::vector<ParallelProgram::Values> ParallelProgram::run_together(const Step& step,
                                                                   std::vector<Values> inputs,
                                                                   Rendezvous* rendezvous) const {
  step.runs.fetch_add(static_cast<int64_t>(devices_), std::memory_order_relaxed);
  if (rendezvous) {
    if (calls_host(step.function, host_))
      throw Fault(FaultKind::kNotModelled, "pjrt.processes",
                  "a callback of the host in a program that several processes run",
                  "call the host outside of it, or in a program on jax.local_devices()");
    rendezvous->complete(inputs);
  }
  if (is_for_all_devices(host_, function_.op(step.ops.front())))
    return std::vector<Values>(
        devices_, graph::eval::evaluate(module_, step.function, inputs.front(), evaluator_options(host_)));
  if (!step.once_of_logical_core) return evaluated_together(step, inputs);
  std::vector<Values> of_logical_cores, results;
  for (size_t device = 0; device < devices_; device += static_cast<size_t>(kCoresOfPair))
    of_logical_cores.push_back(std::move(inputs[device]));
  for (const Values& values : evaluated_together(step, of_logical_cores))
    results.insert(results.end(), static_cast<size_t>(kCoresOfPair), values);
  return results;
}

std::vector<ParallelProgram::Values> ParallelProgram::evaluated_together(
    const Step& step, const std::vector<Values>& inputs) const {
  const std::vector<const graph::Function*> functions(inputs.size(), &step.function);
  return graph::eval::evaluate_parallel(module_, functions, 1, static_cast<int64_t>(inputs.size()), inputs,
                                        evaluator_options(host_));
}

// nullopt where devices leave the loop at different times.
std::optional<std::vector<ParallelProgram::Values>> ParallelProgram::run_loop(
    const Step& step, Environment& environment) const {
  std::vector<Values> carried = values(environment, function_.op(step.ops.front()).operands);
  for (;;) {
    std::vector<Values> conditions = run(*step.regions[0], environment, carried);
    if (environment.rendezvous) environment.rendezvous->complete(conditions);
    const auto going = agreed(conditions);
    if (!going) return std::nullopt;
    if (*going == 0) return carried;
    carried = run(*step.regions[1], environment, carried);
  }
}

// nullopt where devices take different branches.
std::optional<std::vector<ParallelProgram::Values>> ParallelProgram::run_branch(
    const Step& step, Environment& environment) const {
  const Op& op = function_.op(step.ops.front());
  std::vector<Values> indices = values(environment, std::span(op.operands.data(), 1));
  if (environment.rendezvous) environment.rendezvous->complete(indices);
  const auto index = agreed(indices);
  if (!index) return std::nullopt;
  const auto last = static_cast<int64_t>(step.regions.size()) - 1;
  int64_t taken = op.kind == OpKind::if_ ? (*index != 0 ? 0 : 1) : *index;
  if (taken < 0 || taken > last) taken = last;
  return run(*step.regions[static_cast<size_t>(taken)], environment, std::vector<Values>(devices_));
}

std::optional<ParallelProgram::Collective> collective_of(const graph::Function& function, const Op& op,
                                                         int64_t devices) {
  const auto kind = collective_kind(op.kind);
  if (!kind) return std::nullopt;
  ParallelProgram::Collective made{*kind, 0, {}, std::string(graph::name(op.kind))};
  made.groups = graph::eval::process_groups(op, 1, devices, [](const std::string& what) {
    throw Fault(FaultKind::kInput, "graph.collective", what);
  });
  for (const ValueId value : op.operands)
    made.bytes += static_cast<int64_t>(function.type(value).byte_count());
  made.is_inside_logical_core = is_inside_logical_core(op);
  if (const auto bytes = bytes_of_logical_core(op)) {
    // The second cores meet beside the first ones: one exchange of logical cores.
    made.cores = static_cast<int>(kCoresOfPair);
    made.bytes = *bytes;
    std::erase_if(made.groups,
                  [](const auto& group) { return group.empty() || group[0] % kCoresOfPair != 0; });
    for (auto& group : made.groups)
      for (int64_t& device : group) device /= kCoresOfPair;
  }
  return made;
}

std::optional<ParallelProgram::Collective> ParallelProgram::collective(const Step& step) const {
  if (!step.together) return std::nullopt;
  return collective_of(function_, function_.op(step.ops.front()), static_cast<int64_t>(devices_));
}

std::vector<ParallelProgram::Stage> ParallelProgram::stages() const { return stages(*body_, 1.0); }

std::vector<ParallelProgram::Stage> ParallelProgram::stages(const Sequence& sequence,
                                                            std::optional<double> times) const {
  std::vector<Stage> all;
  const auto runs = static_cast<double>(runs_.load());
  for (const auto& step : sequence.steps) {
    Stage& stage = all.emplace_back();
    stage.program = step->model.get();
    stage.collective = collective(*step);
    stage.times = runs > 0 ? static_cast<double>(step->runs.load()) / runs : times;
    if (stage.collective) {
      const Op& op = function_.op(step->ops.front());
      stage.stream = stream_of(op);
      stage.weight = weight_of(function_, op);
    }
    stage.reads = step->inputs;
    stage.writes = step->outputs;
    stage.once_of_logical_core = step->once_of_logical_core;
    const bool loops = !step->regions.empty() && function_.op(step->ops.front()).kind == OpKind::while_;
    std::optional<double> inside = stage.times;
    if (loops && inside)
      inside = step->trips ? std::optional(*inside * static_cast<double>(*step->trips)) : std::nullopt;
    for (size_t i = 0; i < step->regions.size(); ++i) {
      // The condition is asked once more than the body runs.
      const bool is_condition = loops && i == 0;
      stage.regions.push_back(
          stages(*step->regions[i], is_condition && inside ? std::optional(*inside + *stage.times) : inside));
    }
  }
  return all;
}

}  // namespace opentrn::spmd
