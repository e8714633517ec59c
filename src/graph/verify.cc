#include "graph/verify.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "base/fault.h"
#include "graph/op_definitions.h"
#include "graph/shape/context.h"
#include "graph/shape_rules.h"

namespace opentrn::graph {

namespace {

// Regions nest at most this deep: each level is a level of recursion here and in every pass.
constexpr int kDepthMax = 200;

class FunctionVerifier {
 public:
  FunctionVerifier(const Module& module, const Function& function)
      : module_(module), function_(function), visible_(function.value_count(), false) {}

  void run() {
    if (function_.argument_attributes.size() != function_.arguments().size())
      fail(nullptr, "graph.function",
           fmt::format("@{} has {} arguments and {} dictionaries of their attributes", function_.name,
                       function_.arguments().size(), function_.argument_attributes.size()));
    // A private function without a body is declared elsewhere.
    if (!function_.is_public && function_.block(function_.body()).ops.empty()) return;
    check_block(function_.body(), 0);
    check_returned_types();
  }

 private:
  [[noreturn]] void fail(const Op* op, std::string_view label, std::string message) const {
    Fault fault(FaultKind::kInput, std::string(label), std::move(message));
    if (op) fault.set_location(module_.source(op->location));
    throw fault;
  }

  // Ops in order: what a block makes is visible after it was made, in the block and in regions inside, and
  // no longer after the block's end.
  void check_block(BlockId id, int depth) {
    if (depth > kDepthMax)
      fail(nullptr, "graph.depth", fmt::format("regions nest more than {} deep", kDepthMax));
    const Block& block = function_.block(id);
    std::vector<ValueId> made;
    const auto define = [&](ValueId value) {
      if (index_of(value) >= visible_.size()) fail(nullptr, "graph.value", "a value is not in the table");
      visible_[index_of(value)] = true;
      made.push_back(value);
    };
    for (const ValueId argument : block.arguments) define(argument);
    if (block.ops.empty() || function_.op(block.ops.back()).kind != OpKind::return_)
      fail(block.ops.empty() ? nullptr : &function_.op(block.ops.back()), "graph.terminator",
           fmt::format("a block of @{} does not end in a return", function_.name));
    for (const OpId op_id : block.ops) {
      const Op& op = function_.op(op_id);
      if (op.kind == OpKind::return_ && op_id != block.ops.back())
        fail(&op, "graph.terminator", "a return stands before the end of its block");
      check_op(op, depth);
      for (const ValueId result : op.results) define(result);
    }
    for (const ValueId value : made) visible_[index_of(value)] = false;
  }

  void check_op(const Op& op, int depth) {
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId operand = op.operands[i];
      if (index_of(operand) >= visible_.size() || !visible_[index_of(operand)])
        fail(&op, "graph.dominance",
             fmt::format("operand {} of {} is not made before it is used", i, name(op.kind)));
    }
    for (const BlockId region : op.regions) check_block(region, depth + 1);
    std::vector<Type> stated;
    for (const ValueId result : op.results) stated.push_back(function_.type(result));
    const std::vector<Type> inferred = infer_types(module_, function_, op, stated);
    if (inferred.size() != stated.size())
      fail(&op, fmt::format("{}.results", name(op.kind)),
           fmt::format("{} results; the op makes {}", stated.size(), inferred.size()));
  }

  void check_returned_types() const {
    const Op& last = function_.op(function_.block(function_.body()).ops.back());
    std::vector<Type> types;
    for (const ValueId value : last.operands) types.push_back(function_.type(value));
    if (!shape::agree(types, function_.result_types))
      fail(&last, "graph.return",
           fmt::format("@{} returns {} values whose types are not its {} result types", function_.name,
                       types.size(), function_.result_types.size()));
  }

  const Module& module_;
  const Function& function_;
  std::vector<bool> visible_;
};

// A call graph with a cycle would never end.
void check_acyclic(const Module& module, const Function& function, std::vector<const Function*>& path,
                   std::set<const Function*>& done) {
  if (done.contains(&function)) return;
  if (std::find(path.begin(), path.end(), &function) != path.end())
    throw Fault(FaultKind::kInput, "graph.recursion", fmt::format("@{} calls itself", function.name));
  path.push_back(&function);
  walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    for (const Attr attr : {Attr::callee, Attr::decomposition})
      if (const Attribute* found = op.find(attr))
        if (const SymbolRef* symbol = found->get<SymbolRef>())
          if (const Function* callee = module.find(symbol->name)) check_acyclic(module, *callee, path, done);
  });
  path.pop_back();
  done.insert(&function);
}

}  // namespace

void verify(const Module& module) {
  std::set<std::string_view> names;
  for (const Function& function : module.functions) {
    if (!names.insert(function.name).second)
      throw Fault(FaultKind::kInput, "graph.symbol", fmt::format("@{} is defined twice", function.name));
    FunctionVerifier(module, function).run();
  }
  std::set<const Function*> done;
  for (const Function& function : module.functions) {
    std::vector<const Function*> path;
    check_acyclic(module, function, path, done);
  }
}

}  // namespace opentrn::graph
