// Runs functions of a module op by op.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "graph/eval/call.h"
#include "graph/eval/process.h"

namespace opentrn::graph::eval {

// Nested calls (call, composite, regions excluded) beyond this are refused: a module that calls itself
// has no end, as StableHLO forbids recursion.
inline constexpr int kCallDepthMax = 200;

// The values of one running function, by ValueId.
class Frame {
 public:
  explicit Frame(const Function& function);
  const Function& function() const { return function_; }
  const Item& at(ValueId id) const { return values_[index_of(id)]; }
  void set(ValueId id, Item item) { values_[index_of(id)] = std::move(item); }
  // Drops the values that no op of the function's body after `position` reads.
  void release_after(size_t position);

 private:
  const Function& function_;
  Items values_;
  std::vector<std::vector<ValueId>> last_used_;  // by position in the body
};

class Interpreter {
 public:
  Interpreter(const Module& module, const Options& options, Process& process)
      : module_(module), options_(options), process_(process) {}

  const Module& module() const { return module_; }
  const Options& options() const { return options_; }
  Process& process() { return process_; }

  Items call(const Function& function, Items arguments);
  Items run_block(Frame& frame, BlockId block, Items arguments);

 private:
  Items run_op(Frame& frame, const Op& op);
  SourceLocation place_of(const Op& op) const;
  void check_results(const Frame& frame, const Op& op, const Items& results) const;
  void observe(const Frame& frame, OpId op, const Items& results) const;

  const Module& module_;
  const Options& options_;
  Process& process_;
  int depth_ = 0;
};

Item to_item(const RuntimeValue& value);
RuntimeValue to_runtime(const Item& item, bool float64);

}  // namespace opentrn::graph::eval
