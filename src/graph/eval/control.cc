// Calls, branches and loops, and what leaves the program: custom calls, infeed, outfeed.
#include "graph/eval/bodies.h"
#include "graph/eval/interpreter.h"
#include "graph/eval/solvers.h"

namespace opentrn::graph::eval {

namespace {

Items call_symbol(const Call& call, Attr attr) {
  const Attribute* symbol = call.op().find(attr);
  const auto* reference = symbol ? symbol->get<SymbolRef>() : nullptr;
  if (!reference) call.fail("it names no function");
  const Function* callee = call.module().find(reference->name);
  if (!callee) call.fail(fmt::format("the module has no function @{}", reference->name));
  if (callee->arguments().size() != call.operand_count())
    call.fail(fmt::format("@{} takes {} arguments, {} are given", callee->name, callee->arguments().size(),
                          call.operand_count()));
  return call.interpreter().call(*callee, call.operands());
}

std::vector<RuntimeValue> runtime_operands(const Call& call, bool float64) {
  std::vector<RuntimeValue> values;
  for (const Item& operand : call.operands()) values.push_back(to_runtime(operand, float64));
  return values;
}

// Values from outside, in the types that the program states.
Items from_outside(const Call& call, const std::vector<RuntimeValue>& values, size_t count) {
  if (values.size() != count)
    call.fail(fmt::format("{} values came back, the program states {}", values.size(), count));
  Items items;
  for (size_t i = 0; i < count; ++i) {
    Item item = to_item(values[i]);
    auto* tensor = std::get_if<Tensor>(&item.value);
    const Type& stated = call.stated(i);
    if (tensor && stated.is_tensor()) {
      const Type& own = tensor->type();
      // Under Options::float64 a handler sees and returns f64 for every float type.
      const bool widened =
          call.options().float64 && tensor->storage().index() == zeros(stated.element(), 0).index();
      if (own.element() != stated.element() && !widened)
        call.fail(fmt::format("{} came back, the program states {}", own.to_string(), stated.to_string()));
      item = tensor->with_type(call.result(tensor->dims(), i));
    }
    items.push_back(std::move(item));
  }
  return items;
}

bool predicate(const Call& call, const Item& item) {
  const auto* tensor = std::get_if<Tensor>(&item.value);
  if (!tensor || !is_bool(tensor->element()) || tensor->size() != 1)
    call.fail("its condition is not a single i1");
  return tensor->values<Bool>()[0] != 0;
}

}  // namespace

Items call_function(const Call& call) { return call_symbol(call, Attr::callee); }

// A composite means its decomposition.
Items composite(const Call& call) { return call_symbol(call, Attr::decomposition); }

Items if_op(const Call& call) { return call.run_region(predicate(call, call.operands().at(0)) ? 0 : 1, {}); }

// An index out of range takes the last branch.
Items case_op(const Call& call) {
  const int64_t index = integer_at(call.tensor(0), 0);
  const auto branches = static_cast<int64_t>(call.op().regions.size());
  return call.run_region(static_cast<size_t>(index < 0 || index >= branches ? branches - 1 : index), {});
}

Items while_op(const Call& call) {
  Items state = call.operands();
  for (int64_t trip = 0;; ++trip) {
    const Items answer = call.run_region(0, state);
    if (answer.size() != 1) call.fail("its condition region returns more than one value");
    if (!predicate(call, answer[0])) return state;
    if (trip >= call.options().while_trips_max)
      call.fail(fmt::format("the loop is still running after {} trips", trip),
                "if it does end, raise the limit: OPENTRN_LOOP_LIMIT=N or --loop-limit N");
    state = call.run_region(1, std::move(state));
  }
}

// "Sharding" marks how a value is spread over devices; the value is its operand's.
Items custom_call(const Call& call) {
  const std::string& target = call.op().string(Attr::call_target_name);
  if (target == "Sharding") return call.operands();
  if (const auto kind = solver_of(call.op())) return solver(call, *kind);
  if (call.options().device_call) {
    std::vector<Type> stated;
    for (size_t i = 0; i < call.op().results.size(); ++i) stated.push_back(call.stated(i));
    const auto results =
        call.options().device_call(call.op(), stated, runtime_operands(call, /*float64=*/false));
    if (results) return from_outside(call, *results, stated.size());
  }
  if (call.options().custom_call) {
    const auto results =
        call.options().custom_call(call.op(), call.module(), runtime_operands(call, call.options().float64));
    if (results) return from_outside(call, *results, call.op().results.size());
  }
  call.not_modelled(fmt::format("the custom call @{}", target),
                    "write it with other ops, or call the host (jax.pure_callback); from C++, give a "
                    "handler for it (Options::custom_call)");
}

Items infeed(const Call& call) {
  if (!call.options().infeed) call.fail("nothing feeds this run", "set Options::infeed");
  Items items = from_outside(call, call.options().infeed(), call.op().results.size() - 1);
  items.emplace_back();
  return items;
}

Items outfeed(const Call& call) {
  std::vector<RuntimeValue> values = runtime_operands(call, call.options().float64);
  values.pop_back();  // the token
  if (call.options().outfeed) call.options().outfeed(values);
  return {Item()};
}

}  // namespace opentrn::graph::eval
