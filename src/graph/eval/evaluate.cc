#include "graph/eval/evaluate.h"

#include <exception>
#include <thread>

#include "base/floating_point.h"
#include "base/interrupt.h"
#include "graph/eval/interpreter.h"

namespace opentrn::graph::eval {

namespace {

// A run with many processes is a test of collectives, not a benchmark: one thread each.
constexpr int64_t kProcessesMax = 4096;

void check_argument(const Function& function, size_t index, const Type& parameter,
                    const RuntimeValue& value) {
  const auto* literal = std::get_if<Literal>(&value.value);
  if (parameter.is_tensor() != (literal != nullptr))
    throw Fault(FaultKind::kInput, "eval.arguments",
                fmt::format("argument {} of @{} must be {}", index, function.name, parameter.to_string()));
  if (!literal) return;
  const Type& type = literal->type();
  bool agrees = type.element() == parameter.element() && type.rank() == parameter.rank();
  for (int axis = 0; agrees && axis < type.rank(); ++axis) {
    const bool dynamic = parameter.dim(axis) == kDynamic;
    const auto bounds = parameter.bounds();
    const int64_t bound = dynamic && !bounds.empty() ? bounds[static_cast<size_t>(axis)] : kDynamic;
    agrees = dynamic ? bound == kDynamic || type.dim(axis) <= bound : type.dim(axis) == parameter.dim(axis);
  }
  if (!agrees)
    throw Fault(FaultKind::kInput, "eval.arguments",
                fmt::format("argument {} of @{} is {}, the function takes {}", index, function.name,
                            type.to_string(), parameter.to_string()));
}

Items to_items(const Function& function, std::span<const RuntimeValue> arguments) {
  const auto parameters = function.arguments();
  if (arguments.size() != parameters.size())
    throw Fault(FaultKind::kInput, "eval.arguments",
                fmt::format("@{} takes {} arguments, {} were given", function.name, parameters.size(),
                            arguments.size()));
  Items items;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Type& parameter = function.type(parameters[i]);
    check_argument(function, i, parameter, arguments[i]);
    Item item = to_item(arguments[i]);
    // A quantized parameter gives meaning to the stored integers.
    if (auto* tensor = std::get_if<Tensor>(&item.value); tensor && parameter.quantization())
      item = tensor->with_type(parameter.with_dims({tensor->dims().begin(), tensor->dims().end()}));
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<RuntimeValue> run_process(const Module& module, const Function& function, Process process,
                                      std::span<const RuntimeValue> arguments, const Options& options) {
  const StandardFloatingPoint standard;
  Interpreter interpreter(module, options, process);
  std::vector<RuntimeValue> results;
  for (const Item& item : interpreter.call(function, to_items(function, arguments)))
    results.push_back(to_runtime(item, options.float64));
  return results;
}

}  // namespace

const Literal& RuntimeValue::literal() const {
  const auto* found = std::get_if<Literal>(&value);
  OPENTRN_CHECK(found != nullptr, "a token or a tuple where a tensor was asked for");
  return *found;
}

Item to_item(const RuntimeValue& value) {
  if (const auto* literal = std::get_if<Literal>(&value.value)) return from_literal(*literal);
  if (const auto* tuple = std::get_if<RuntimeTuple>(&value.value)) {
    Items elements;
    for (const RuntimeValue& element : **tuple) elements.push_back(to_item(element));
    return ItemTuple(std::make_shared<const Items>(std::move(elements)));
  }
  return {};
}

RuntimeValue to_runtime(const Item& item, bool float64) {
  if (const auto* tensor = std::get_if<Tensor>(&item.value)) {
    const ElementType element = tensor->element();
    if (float64 && is_float(element))
      return {to_literal(tensor->with_type(tensor->type().with_element(ElementType::kF64)))};
    if (float64 && is_complex(element))
      return {to_literal(tensor->with_type(tensor->type().with_element(ElementType::kComplexF64)))};
    return {to_literal(*tensor)};
  }
  if (const auto* tuple = std::get_if<ItemTuple>(&item.value)) {
    std::vector<RuntimeValue> elements;
    for (const Item& element : **tuple) elements.push_back(to_runtime(element, float64));
    return {RuntimeTuple(std::make_shared<const std::vector<RuntimeValue>>(std::move(elements)))};
  }
  return {Token{}};
}

std::vector<RuntimeValue> evaluate(const Module& module, const Function& function,
                                   std::span<const RuntimeValue> arguments, const Options& options) {
  ProcessGrid grid(1, 1);
  return run_process(module, function, Process(grid, 0), arguments, options);
}

std::vector<std::vector<RuntimeValue>> evaluate_parallel(const Module& module,
                                                         std::span<const Function* const> functions,
                                                         int64_t num_replicas, int64_t num_partitions,
                                                         std::span<const std::vector<RuntimeValue>> arguments,
                                                         const Options& options) {
  const size_t count = functions.size();
  if (num_replicas < 1 || num_partitions < 1 || num_replicas > kProcessesMax / num_partitions ||
      static_cast<size_t>(num_replicas * num_partitions) != count || arguments.size() != count)
    throw Fault(FaultKind::kInput, "eval.grid",
                fmt::format("{} functions and {} argument lists for a grid of {} x {} processes (at most {})",
                            count, arguments.size(), num_replicas, num_partitions, kProcessesMax));
  ProcessGrid grid(num_replicas, num_partitions);
  std::vector<std::vector<RuntimeValue>> results(count);
  std::vector<std::exception_ptr> errors(count);
  std::mutex mutex;
  std::condition_variable ended;
  size_t running = count;
  {
    std::vector<std::jthread> threads;
    for (size_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i, scope = interrupt::current()] {
        const interrupt::Inherited inherited(scope);
        try {
          results[i] = run_process(module, *functions[i], Process(grid, static_cast<int64_t>(i)),
                                   arguments[i], options);
        } catch (...) {
          errors[i] = std::current_exception();
        }
        grid.leave(errors[i] != nullptr);
        const std::lock_guard guard(mutex);
        --running;
        ended.notify_all();
      });
    }
    std::unique_lock lock(mutex);
    interrupt::wait_for_end(ended, lock, [&] { return running == 0; });
  }
  // A process that failed by itself explains those that then waited in vain.
  std::exception_ptr first;
  for (const std::exception_ptr& error : errors) {
    if (!error) continue;
    if (!first) first = error;
    try {
      std::rethrow_exception(error);
    } catch (const Fault& fault) {
      if (fault.label() != "eval.deadlock") throw;
    }
  }
  if (first) std::rethrow_exception(first);
  return results;
}

}  // namespace opentrn::graph::eval
