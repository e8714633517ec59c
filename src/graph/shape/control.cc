// Control flow, calls, tuples, tokens and what talks to the world outside.
#include <algorithm>
#include <cctype>

#include "graph/shape/rules.h"
#include "graph/shape/solver.h"

namespace opentrn::graph::shape {

namespace {

void check_no_arguments(const Context& c, const Signature& branch, int constraint) {
  c.check(branch.arguments.empty(), constraint, "a branch takes {} arguments; it must take none",
          branch.arguments.size());
}

Types merged_results(const Types& a, const Types& b) {
  Types results;
  for (size_t i = 0; i < a.size(); ++i) {
    // Branches that give different sizes give a dynamic one.
    if (!a[i].is_tensor()) {
      results.push_back(a[i]);
      continue;
    }
    Dims dims = a[i].dims_vector();
    for (size_t d = 0; d < dims.size(); ++d)
      if (dims[d] != b[i].dim(static_cast<int>(d))) dims[d] = kDynamic;
    results.push_back(dims == a[i].dims_vector() ? a[i] : typed(a[i], std::move(dims)));
  }
  return results;
}

std::string spelled(std::span<const Type> types) {
  std::vector<std::string> words;
  for (const Type& type : types) words.push_back(type.to_string());
  return fmt::format("({})", fmt::join(words, ", "));
}

}  // namespace

Types if_(const Context& c) {
  c.scalar(0, kBools);
  const Signature on_true = c.region(0);
  const Signature on_false = c.region(1);
  check_no_arguments(c, on_true, 1);
  check_no_arguments(c, on_false, 1);
  c.check(agree(on_true.results, on_false.results), 2, "the branches return {} and {}",
          spelled(on_true.results), spelled(on_false.results));
  return merged_results(on_true.results, on_false.results);
}

Types case_(const Context& c) {
  const Type& index = c.scalar(0, kInts);
  if (index.element() != ElementType::kI32)
    c.fail("I1", fmt::format("the index is {}; it must be i32", index.to_string()));
  c.check(c.region_count() > 0, 1, "no branches");
  Types results;
  for (size_t i = 0; i < c.region_count(); ++i) {
    const Signature branch = c.region(i);
    check_no_arguments(c, branch, 2);
    if (i == 0) results = branch.results;
    c.check(agree(results, branch.results), 3, "branch 0 returns {} and branch {} returns {}",
            spelled(results), i, spelled(branch.results));
    results = merged_results(results, branch.results);
  }
  return results;
}

Types while_(const Context& c) {
  Types operands;
  for (size_t i = 0; i < c.operand_count(); ++i) operands.push_back(c.operand_type(i));
  const Signature cond = c.region(0);
  const Signature body = c.region(1);
  c.check(agree(cond.arguments, operands), 1, "operands are {} and cond takes {}", spelled(operands),
          spelled(cond.arguments));
  c.check(cond.results.size() == 1 && agree(cond.results[0], Type::scalar(ElementType::kI1)), 1,
          "cond returns {}; it must return tensor<i1>", spelled(cond.results));
  c.check(agree(body.arguments, operands), 2, "operands are {} and body takes {}", spelled(operands),
          spelled(body.arguments));
  c.check(agree(body.results, operands), 2, "operands are {} and body returns {}", spelled(operands),
          spelled(body.results));
  // A dimension that the body or its arguments leave open is open in the result.
  return merged_results(merged_results(operands, body.arguments), body.results);
}

namespace {

Types callee_results(const Context& c, const Function& callee, int argument_constraint) {
  Types operands;
  for (size_t i = 0; i < c.operand_count(); ++i) operands.push_back(c.operand_type(i));
  c.check(agree(callee.argument_types(), operands), argument_constraint, "@{} takes {} and is given {}",
          callee.name, spelled(callee.argument_types()), spelled(operands));
  return callee.result_types;
}

const Function& callee_of(const Context& c, Attr attr, int constraint) {
  const SymbolRef* symbol = c.op().find(attr)->get<SymbolRef>();
  const Function* callee = symbol ? c.module().find(symbol->name) : nullptr;
  c.check(callee != nullptr, constraint, "there is no function @{}", symbol ? symbol->name : "?");
  return *callee;
}

}  // namespace

Types call(const Context& c) { return callee_results(c, callee_of(c, Attr::callee, 0), 0); }

Types composite(const Context& c) {
  const std::string& composite_name = c.op().string(Attr::name);
  const size_t dot = composite_name.find('.');
  const bool plain = std::all_of(composite_name.begin(), composite_name.end(), [](char ch) {
    return std::isalnum(static_cast<unsigned char>(ch)) || ch == '_' || ch == '.' || ch == '$' || ch == '-';
  });
  const bool starts = !composite_name.empty() && !std::isdigit(static_cast<unsigned char>(composite_name[0]));
  c.check(plain && starts && dot != std::string::npos && dot > 0 && dot + 1 < composite_name.size(), 1,
          "name is {}; it must have a namespace: my_namespace.my_op", composite_name);
  return callee_results(c, callee_of(c, Attr::decomposition, 2), 3);
}

Types custom_call(const Context& c) {
  if (const auto kind = solver_of(c.op())) return solver(c, *kind);
  return {c.stated().begin(), c.stated().end()};
}

Types optimization_barrier(const Context& c) {
  Types types;
  for (size_t i = 0; i < c.operand_count(); ++i) types.push_back(c.operand_type(i));
  return types;
}

Types tuple(const Context& c) { return {Type::tuple(optimization_barrier(c))}; }

Types get_tuple_element(const Context& c) {
  const Type& operand = c.operand_type(0);
  if (!operand.is_tuple()) c.fail("I1", fmt::format("operand 0 is {}, not a tuple", operand.to_string()));
  const int64_t index = c.integer(Attr::index);
  c.check(0 <= index && index < static_cast<int64_t>(operand.elements().size()), 1, "index is {} for {}",
          index, operand.to_string());
  return {operand.elements()[static_cast<size_t>(index)]};
}

namespace {

void want_token(const Context& c, size_t i) {
  if (!c.operand_type(i).is_token())
    c.fail(fmt::format("I{}", i + 1),
           fmt::format("operand {} is {}, not a token", i, c.operand_type(i).to_string()));
}

// channel_type 1 is device to device, 2 device to host, 3 host to device.
void check_channel(const Context& c, int64_t host_channel_type) {
  if (const Attribute* pairs = c.op().find(Attr::source_target_pairs)) {
    (void)pairs;
    check_source_target_pairs(c);
  }
  const bool host = c.op().boolean_or(Attr::is_host_transfer, false);
  const int64_t wanted = host ? host_channel_type : 1;
  c.check(c.integer(Attr::channel_type) == wanted, 5,
          "channel_type is {}; with is_host_transfer = {} it is {}", c.integer(Attr::channel_type), host,
          wanted);
}

}  // namespace

Types token(const Context& c) {
  for (size_t i = 0; i < c.operand_count(); ++i) want_token(c, i);
  return {Type::token()};
}

Types infeed(const Context& c) {
  want_token(c, 0);
  const auto stated = c.stated();
  c.check(!stated.empty(), 1, "no results; state their types");
  for (size_t i = 0; i + 1 < stated.size(); ++i)
    c.check(stated[i].is_tensor(), 2, "result {} is {}, not a tensor", i, stated[i].to_string());
  c.check(stated.back().is_token(), 3, "the last result is {}, not a token", stated.back().to_string());
  return {stated.begin(), stated.end()};
}

Types outfeed(const Context& c) {
  for (size_t i = 0; i + 1 < c.operand_count(); ++i) c.tensor(i, kAnyElement);
  want_token(c, c.operand_count() - 1);
  return {Type::token()};
}

Types send(const Context& c) {
  Types result = outfeed(c);
  check_channel(c, 2);
  return result;
}

Types recv(const Context& c) {
  want_token(c, 0);
  check_channel(c, 3);
  const auto stated = c.stated();
  if (stated.empty() || !stated.back().is_token()) c.fail("results", "the last result must be a token");
  for (const Type& type : stated.first(stated.size() - 1))
    if (!type.is_tensor()) c.fail("results", fmt::format("a result is {}, not a tensor", type.to_string()));
  return {stated.begin(), stated.end()};
}

Types return_(const Context&) { return {}; }

}  // namespace opentrn::graph::shape
