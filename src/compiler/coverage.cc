#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "compiler/analysis/cost.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/compile.h"
#include "compiler/expand/expand.h"
#include "compiler/lowering/takes.h"
#include "compiler/pipeline/phases.h"

namespace opentrn::compiler {

namespace {

std::string types_text(const Function& function, const Op& op) {
  std::string text;
  for (const auto value : op.operands) text += function.type(value).to_string() + " ";
  text += "->";
  for (const auto value : op.results) text += " " + function.type(value).to_string();
  return text;
}

bool has_narrowed_type(const Function& function, const Op& op) {
  const auto narrowed = [&](graph::ValueId value) {
    const graph::Type& type = function.type(value);
    return type.is_tensor() && is_narrowed(type.element());
  };
  return std::any_of(op.operands.begin(), op.operands.end(), narrowed) ||
         std::any_of(op.results.begin(), op.results.end(), narrowed);
}

// Bits seen as 64-bit numbers, which have no device form, by ops whose expansions read the words.
std::set<OpId> read_as_words(const Function& function) {
  std::set<OpId> read, left;
  graph::walk(function, function.body(), [&](OpId id) {
    const Op& op = function.op(id);
    const bool expands = op.kind != OpKind::return_ && has_expansion(function, op);
    for (const graph::ValueId operand : op.operands) {
      const OpId maker = function.value(operand).op;
      if (maker != graph::kNoOp && function.op(maker).kind == OpKind::bitcast_convert_)
        (expands ? read : left).insert(maker);
    }
  });
  for (const OpId id : left) read.erase(id);
  return read;
}

// Ops of the block, and of the bodies of control flow, which become programs of their own. `vanishing`: ops
// that the expansions of others do away with.
void count_ops(const graph::Module& module, const Function& function, graph::BlockId block,
               const std::set<OpId>& vanishing, std::map<std::string_view, OpCoverage>& found) {
  for (const OpId id : function.block(block).ops) {
    const Op& op = function.op(id);
    if (op.kind == OpKind::return_) continue;
    OpCoverage& row = found[graph::name(op.kind)];
    const bool expanded = has_expansion(function, op) || vanishing.contains(id);
    const bool supported = expanded || has_lowering(function, op);
    const bool emulated = supported && (expanded || has_narrowed_type(function, op));
    const bool shows = row.count == 0 || (!supported && row.unsupported == 0) ||
                       (emulated && row.unsupported + row.emulated == 0);
    row.op = graph::name(op.kind);
    ++row.count;
    row.emulated += emulated;
    row.unsupported += !supported;
    row.flops += flops(function, op);
    if (shows) {
      row.example = types_text(function, op);
      row.where = module.source(op.location);
    }
    if (op.kind == OpKind::while_ || op.kind == OpKind::if_ || op.kind == OpKind::case_)
      for (const graph::BlockId region : op.regions) count_ops(module, function, region, vanishing, found);
  }
}

}  // namespace

std::vector<OpCoverage> coverage(const graph::Module& module) {
  PassCounts counts;
  const Options options;
  const Function function = run_until(Phase::kCanonical, {module, options, /*kernel_ops=*/false}, counts);
  std::map<std::string_view, OpCoverage> found;
  count_ops(module, function, function.body(), read_as_words(function), found);
  std::vector<OpCoverage> rows;
  for (auto& [name, row] : found) rows.push_back(std::move(row));
  return rows;
}

}  // namespace opentrn::compiler
