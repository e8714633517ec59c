#include "compiler/rewrite/rewrite.h"

#include "compiler/analysis/graph_names.h"
#include "graph/copy.h"

namespace opentrn::compiler {

namespace {

class Rewriter {
 public:
  Rewriter(const Function& source, Function& target, const Replace& replace)
      : source_(source), target_(target), replace_(replace), map_(source.value_count()) {}

  void arguments(BlockId from, BlockId to) {
    for (const ValueId value : source_.block(from).arguments)
      map_[index_of(value)] = target_.add_argument(to, source_.type(value));
  }

  void block(BlockId from, BlockId to) {
    Builder builder(scratch_, target_, to);
    for (const OpId id : source_.block(from).ops) {
      const Op& op = source_.op(id);
      builder.set_location(op.location);
      std::vector<ValueId> operands;
      for (const ValueId value : op.operands) operands.push_back(map_[index_of(value)]);
      if (const auto made = replace_(builder, op, operands))
        for (size_t i = 0; i < made->size(); ++i) map_[index_of(op.results[i])] = (*made)[i];
      else
        copy(op, std::move(operands), to);
    }
  }

 private:
  void copy(const Op& op, std::vector<ValueId> operands, BlockId to) {
    const OpId made = graph::copy_op(source_, op, std::move(operands), target_, to);
    for (size_t i = 0; i < op.results.size(); ++i)
      map_[index_of(op.results[i])] = target_.op(made).results[i];
    for (const BlockId region : op.regions) {
      const BlockId inner = target_.add_block(made);
      arguments(region, inner);
      block(region, inner);
    }
  }

  const Function& source_;
  Function& target_;
  const Replace& replace_;
  std::vector<ValueId> map_;
  graph::Module scratch_;  // what a Builder wants; no op here names another function
};

}  // namespace

Function rewritten(const Function& function, const Replace& replace) {
  Function result(function.name);
  result.is_public = function.is_public;
  result.result_types = function.result_types;
  result.result_attributes = function.result_attributes;
  result.attributes = function.attributes;
  Rewriter rewriter(function, result, replace);
  rewriter.arguments(function.body(), result.body());
  result.argument_attributes = function.argument_attributes;  // arguments have made empty ones
  rewriter.block(function.body(), result.body());
  return result;
}

}  // namespace opentrn::compiler
