#include "spmd/run/manual.h"

#include <map>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/eval/evaluate.h"
#include "graph/op_definitions.h"
#include "runtime/device_call.h"
#include "spmd/extract.h"
#include "spmd/run/device_program.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::BlockId;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

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

ManualComputation::ManualComputation(const graph::Module& module, const Function& function, const Op& op,
                                     int64_t devices, const DeviceOptions& options)
    : module_(module), body_("manual_computation"), devices_(devices), host_(options.host) {
  const graph::Block& region = function.block(op.regions[0]);
  body_ = extract(function, std::span(region.ops).first(region.ops.size() - 1), region.arguments,
                  function.op(region.ops.back()).operands);
  ManualShardings shardings = manual_shardings(op, meshes_of(module));
  in_ = std::move(shardings.in);
  out_ = std::move(shardings.out);
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
    for (const auto& each : arguments) parts.push_back(model_->run(body_.result_types, each));
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
  for (const auto& results : graph::eval::evaluate_parallel(
           module_, functions, 1, devices_, values,
           {.custom_call = host_.call, .device_call = runtime::evaluate_device_call})) {
    std::vector<graph::Literal>& part = parts.emplace_back();
    for (const RuntimeValue& value : results) part.push_back(value.literal());
  }
  return parts;
}

}  // namespace opentrn::spmd
