#include "pjrt/manual.h"

#include <map>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/eval/evaluate.h"
#include "graph/op_definitions.h"
#include "pjrt/device_program.h"
#include "runtime/device_call.h"

namespace opentrn::pjrt {

using graph::Attr;
using graph::BlockId;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

const std::string& text_of(const Op& op, const char* key) {
  if (op.extra)
    if (const auto found = op.extra->find(key); found != op.extra->end())
      if (const auto* opaque = found->second.get<graph::Opaque>()) return opaque->text;
  throw Fault(FaultKind::kInput, "sdy.manual_computation", fmt::format("it has no {}", key));
}

// A region as a function of its arguments.
class Extractor {
 public:
  Extractor(const Function& from, Function& to) : from_(from), to_(to) {}

  void extract(BlockId region) {
    for (const ValueId argument : from_.block(region).arguments) {
      map_[argument] = to_.add_argument(to_.body(), from_.type(argument));
    }
    for (const ValueId result : from_.op(from_.block(region).ops.back()).operands) {
      to_.result_types.push_back(from_.type(result));
      to_.result_attributes.emplace_back();
    }
    clone(region, to_.body());
  }

 private:
  void clone(BlockId block, BlockId into) {
    for (const OpId id : from_.block(block).ops) {
      const Op& op = from_.op(id);
      std::vector<ValueId> operands;
      for (const ValueId value : op.operands) operands.push_back(inside(value));
      std::vector<graph::Type> types;
      for (const ValueId value : op.results) types.push_back(from_.type(value));
      const OpId made = to_.append(into, op.kind, std::move(operands), std::move(types), op.location);
      to_.op(made).attributes = op.attributes;
      to_.op(made).extra = op.extra;
      for (size_t i = 0; i < op.results.size(); ++i) map_[op.results[i]] = to_.op(made).results[i];
      for (const BlockId region : op.regions) {
        const BlockId inner = to_.add_block(made);
        for (const ValueId argument : from_.block(region).arguments)
          map_[argument] = to_.add_argument(inner, from_.type(argument));
        clone(region, inner);
      }
    }
  }

  // Constants outside come along.
  ValueId inside(ValueId value) {
    if (const auto found = map_.find(value); found != map_.end()) return found->second;
    const OpId maker = from_.value(value).op;
    if (maker == graph::kNoOp || from_.op(maker).kind != OpKind::constant_)
      throw Fault(FaultKind::kNotModelled, "sdy.manual_computation", "its region reads a value from outside");
    const OpId made =
        to_.append(to_.body(), OpKind::constant_, {}, {from_.type(value)}, from_.op(maker).location);
    to_.op(made).attributes = from_.op(maker).attributes;
    return map_[value] = to_.op(made).results[0];
  }

  const Function& from_;
  Function& to_;
  std::map<ValueId, ValueId> map_;
};

// The first op that needs other devices.
const Op* first_collective(const Function& function) {
  const Op* found = nullptr;
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    switch (op.kind) {
      case OpKind::all_gather_:
      case OpKind::all_reduce_:
      case OpKind::all_to_all_:
      case OpKind::collective_broadcast_:
      case OpKind::collective_permute_:
      case OpKind::reduce_scatter_:
      case OpKind::partition_id_:
      case OpKind::replica_id_:
        if (!found) found = &op;
        break;
      default: break;
    }
  });
  return found;
}

}  // namespace

bool is_manual_computation(const Op& op) {
  return op.kind == OpKind::custom_call_ && op.string(Attr::call_target_name) == "sdy.manual_computation";
}

ManualComputation::ManualComputation(const graph::Module& module, const Function& function, const Op& op,
                                     int64_t devices, const DeviceOptions& options)
    : module_(module), body_("manual_computation"), devices_(devices) {
  Extractor(function, body_).extract(op.regions[0]);
  const Meshes meshes = meshes_of(module);
  const std::vector<std::string> axes = parse_manual_axes(text_of(op, "manual_axes"));
  for (const Sharding& sharding : parse_shardings(text_of(op, "in_shardings"), meshes))
    in_.push_back(sharding.restricted_to(axes));
  for (const Sharding& sharding : parse_shardings(text_of(op, "out_shardings"), meshes))
    out_.push_back(sharding.restricted_to(axes));
  if (in_.size() != op.operands.size() || out_.size() != op.results.size())
    throw Fault(FaultKind::kInput, "sdy.manual_computation",
                fmt::format("{} shardings for {} operands, {} for {} results", in_.size(), op.operands.size(),
                            out_.size(), op.results.size()));
  for (const ValueId value : op.results) result_types_.push_back(function.type(value));
  if (const Op* collective = first_collective(body_)) {
    host_reason_ = fmt::format("{} between devices has no device kernel yet", graph::name(collective->kind));
    return;
  }
  graph::Module alone = module;
  alone.functions.clear();
  alone.functions.push_back(body_);
  try {
    model_ = compile_for_device(alone, options);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kNotModelled) throw;
    host_reason_ = fault.message();
  }
}

std::vector<graph::Literal> ManualComputation::run(std::span<const graph::Literal> operands) const {
  std::vector<std::vector<graph::Literal>> arguments(static_cast<size_t>(devices_)), parts;
  for (int64_t device = 0; device < devices_; ++device)
    for (size_t i = 0; i < operands.size(); ++i)
      arguments[static_cast<size_t>(device)].push_back(part_of(operands[i], in_[i], device));
  if (model_) {
    for (const auto& each : arguments) parts.push_back(run_on_device(*model_, body_.result_types, each));
  } else {
    parts = evaluate(std::move(arguments));
  }
  std::vector<graph::Literal> results;
  for (size_t i = 0; i < result_types_.size(); ++i) {
    std::vector<graph::Literal> of_devices;
    for (const auto& part : parts) of_devices.push_back(part[i]);
    results.push_back(joined(of_devices, result_types_[i], out_[i]));
  }
  return results;
}

std::vector<std::vector<graph::Literal>> ManualComputation::evaluate(
    std::vector<std::vector<graph::Literal>> arguments) const {
  using graph::eval::RuntimeValue;
  std::vector<std::vector<RuntimeValue>> values;
  for (auto& of_device : arguments) {
    std::vector<RuntimeValue>& each = values.emplace_back();
    for (graph::Literal& literal : of_device) each.push_back({std::move(literal)});
  }
  const std::vector<const Function*> functions(values.size(), &body_);
  std::vector<std::vector<graph::Literal>> parts;
  for (const auto& results : graph::eval::evaluate_parallel(module_, functions, 1, devices_, values,
                                                            {.device_call = runtime::evaluate_device_call})) {
    std::vector<graph::Literal>& part = parts.emplace_back();
    for (const RuntimeValue& value : results) part.push_back(value.literal());
  }
  return parts;
}

}  // namespace opentrn::pjrt
