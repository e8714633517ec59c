#include "runtime/host_ops.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <mutex>

#include <fmt/format.h>

#include "graph/element_value.h"
#include "graph/eval/evaluate.h"
#include "graph/text/text.h"
#include "isa/custom_ops.h"
#include "isa/opcode.h"
#include "profile/model.h"
#include "runtime/settings.h"
#include "sim/functional/custom_op.h"

namespace opentrn::runtime {

namespace {

using graph::ElementType;
using graph::Literal;
using graph::eval::RuntimeValue;

// Modules that were read, the newest first: a call in a loop is read once.
class Modules {
 public:
  std::shared_ptr<const graph::Module> get(std::string_view text) {
    std::lock_guard lock(mutex_);
    for (const auto& [known, module] : recent_)
      if (known == text) return module;
    auto module = std::make_shared<const graph::Module>(graph::parse_module(text, "host ops"));
    recent_.emplace_front(std::string(text), module);
    if (recent_.size() > kRecentMax) recent_.pop_back();
    return module;
  }

 private:
  static constexpr size_t kRecentMax = 64;
  std::mutex mutex_;
  std::deque<std::pair<std::string, std::shared_ptr<const graph::Module>>> recent_;
};

template <typename From, typename To>
std::vector<std::byte> converted(const std::byte* from, int64_t count) {
  std::vector<std::byte> bytes(static_cast<size_t>(count) * sizeof(To));
  for (int64_t i = 0; i < count; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    const To wide = static_cast<To>(value);
    std::memcpy(bytes.data() + i * static_cast<int64_t>(sizeof(To)), &wide, sizeof(To));
  }
  return bytes;
}

// A device keeps 64-bit numbers in 32 bits, complex ones as pairs (compiler/analysis/device_type.h).
Literal literal_of(const sim::CustomOpTensor& tensor, const graph::Type& type) {
  const int64_t count = type.element_count();
  switch (type.element()) {
    case ElementType::kI64:
    case ElementType::kIndex: return {type, converted<int32_t, int64_t>(tensor.data, count)};
    case ElementType::kUI64: return {type, converted<uint32_t, uint64_t>(tensor.data, count)};
    case ElementType::kF64: return {type, converted<float, double>(tensor.data, count)};
    case ElementType::kComplexF64: return {type, converted<float, double>(tensor.data, 2 * count)};
    default: {
      const int64_t bytes = count * graph::storage_bytes(type.element());
      return {type, std::vector<std::byte>(tensor.data, tensor.data + bytes)};
    }
  }
}

std::vector<std::byte> device_bytes(const Literal& literal) {
  const std::vector<std::byte> bytes = literal.dense();
  const int64_t count = literal.type().element_count();
  switch (literal.type().element()) {
    case ElementType::kI64:
    case ElementType::kIndex:
    case ElementType::kUI64: return converted<uint64_t, uint32_t>(bytes.data(), count);
    case ElementType::kF64: return converted<double, float>(bytes.data(), count);
    case ElementType::kComplexF64: return converted<double, float>(bytes.data(), 2 * count);
    default: return bytes;
  }
}

void run(const graph::Module& module, std::span<sim::CustomOpTensor> outputs,
         std::span<const sim::CustomOpTensor> inputs) {
  const graph::Function& function = module.entry();
  OPENTRN_CHECK(inputs.size() == function.arguments().size(), "{} operands of {}", inputs.size(),
                function.arguments().size());
  std::vector<RuntimeValue> values;
  for (size_t i = 0; i < inputs.size(); ++i)
    values.push_back({literal_of(inputs[i], function.type(function.arguments()[i]))});
  graph::eval::Options options;
  if (const auto limit = loop_limit_of_environment()) options.while_trips_max = *limit;
  const auto results = graph::eval::evaluate(module, function, values, options);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<std::byte> bytes = device_bytes(results[i].literal());
    std::ranges::copy(bytes, outputs[i].data);
  }
}

}  // namespace

void prepare_host_ops() {
  static std::once_flag once;
  std::call_once(once, [] {
    auto* modules = new Modules;  // as long as the process: a plugin's threads may outlive static objects
    sim::set_host_ops([modules](std::string_view text) -> sim::CustomOp {
      return [module = modules->get(text)](std::span<sim::CustomOpTensor> outputs,
                                           std::span<const sim::CustomOpTensor> inputs) {
        run(*module, outputs, inputs);
      };
    });
  });
}

HostOps host_ops(const Model& model) {
  HostOps found;
  const isa::Program& program = *model.program;
  for (const isa::ModelOp& op : model.origin.ops) found.model_flops += op.flops;
  for (isa::InstructionIndex i = 0; i < program.size(); ++i)
    found.memory_bytes += profile::hbm_bytes(program, program.instruction(i));
  for (const profile::HostCall& call :
       profile::host_work(program, model.origin, arch::default_tables()).calls) {
    OPENTRN_CHECK(call.op != isa::kNoModelOp, "a host op of no op of the model");
    const isa::ModelOp& op = model.origin.ops[call.op];
    found.calls.push_back({op.kind.substr(op.kind.find('.') + 1), op.result, op.where, op.flops, call.bytes});
  }
  return found;
}

}  // namespace opentrn::runtime
