#include "import/onnx/fold.h"

#include "graph/element_value.h"

#include <algorithm>
#include <unordered_set>

#include "graph/copy.h"
#include "graph/eval/evaluate.h"

namespace opentrn::import::onnx {

using graph::BlockId;
using graph::Function;
using graph::index_of;
using graph::Literal;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

// Shapes are small; whoever asks for the value of more is told that it is no constant.
constexpr int64_t kFoldedElementsMax = 1 << 22;
constexpr size_t kFoldedOpsMax = 20000;

bool small(const Type& type) {
  return type.is_tensor() && type.is_static() && type.element_count() <= kFoldedElementsMax;
}

// Every op that `value` needs, in order, regions' own ops excluded. False: it needs an argument.
class Slice {
 public:
  Slice(const Function& function, const std::unordered_map<uint32_t, Literal>& known)
      : function_(function), known_(known) {}

  bool collect(ValueId wanted) {
    // Explicit stack: shape arithmetic of deep models makes long chains.
    std::vector<std::pair<ValueId, bool>> work{{wanted, false}};
    while (!work.empty()) {
      const auto [value, ready] = work.back();
      work.pop_back();
      if (known_.contains(static_cast<uint32_t>(value))) continue;
      const OpId id = function_.value(value).op;
      if (id == graph::kNoOp) {
        if (inside_.contains(static_cast<uint32_t>(value))) continue;
        return false;
      }
      if (done_.contains(static_cast<uint32_t>(id))) continue;
      if (ready) {
        done_.insert(static_cast<uint32_t>(id));
        ops.push_back(id);
        if (ops.size() > kFoldedOpsMax) return false;
        continue;
      }
      const Op& op = function_.op(id);
      if (op.kind == OpKind::custom_call_ || op.kind == OpKind::rng_) return false;
      for (const ValueId result : op.results)
        if (!small(function_.type(result))) return false;
      work.emplace_back(value, true);
      for (const ValueId operand : op.operands) work.emplace_back(operand, false);
      for (const BlockId region : op.regions)
        if (!captures(region, work)) return false;
    }
    return true;
  }

  std::vector<OpId> ops;

 private:
  // What a region uses of the blocks around it.
  bool captures(BlockId block, std::vector<std::pair<ValueId, bool>>& work) {
    for (const ValueId argument : function_.block(block).arguments)
      inside_.insert(static_cast<uint32_t>(argument));
    for (const OpId id : function_.block(block).ops) {
      const Op& op = function_.op(id);
      for (const ValueId operand : op.operands) {
        const OpId maker = function_.value(operand).op;
        const bool local = maker == graph::kNoOp ? inside_.contains(static_cast<uint32_t>(operand))
                                                 : local_.contains(static_cast<uint32_t>(maker));
        if (!local) work.emplace_back(operand, false);
      }
      local_.insert(static_cast<uint32_t>(id));
      for (const BlockId region : op.regions)
        if (!captures(region, work)) return false;
    }
    return true;
  }

  const Function& function_;
  const std::unordered_map<uint32_t, Literal>& known_;
  std::unordered_set<uint32_t> done_, inside_, local_;
};

// Copies what a value is made of; values that are known already become constants.
class Slicer : public graph::Copier {
 public:
  Slicer(const Function& from, Function& to, const std::unordered_map<uint32_t, Literal>& known)
      : Copier(from, to), known_(known) {}

 protected:
  ValueId missing(ValueId value) override {
    const Literal& literal = known_.at(static_cast<uint32_t>(value));
    const OpId made = to().insert(to().body(), 0, OpKind::constant_, {}, {literal.type()});
    to().op(made).set(graph::Attr::value, literal);
    return to().op(made).results[0];
  }

 private:
  const std::unordered_map<uint32_t, Literal>& known_;
};

}  // namespace

std::optional<Literal> Folder::fold(ValueId value) {
  const auto found = known_.find(static_cast<uint32_t>(value));
  if (found != known_.end()) return found->second;
  const OpId maker = function_.value(value).op;
  if (maker != graph::kNoOp && function_.op(maker).kind == OpKind::constant_)
    return function_.op(maker).literal(graph::Attr::value);
  Slice slice(function_, known_);
  if (!small(function_.type(value)) || !slice.collect(value)) return std::nullopt;
  graph::Module module;
  Function& target = module.add_function("fold");
  Slicer copier(function_, target, known_);
  for (const OpId id : slice.ops) copier.copy(function_.op(id), target.body());
  target.append(target.body(), OpKind::return_, {copier.at(value)}, {});
  target.result_types = {function_.type(value)};
  const auto results = graph::eval::evaluate(module, target, {});
  return known_.emplace(static_cast<uint32_t>(value), results.at(0).literal()).first->second;
}

std::vector<ValueId> Folder::arguments_of(ValueId value) const {
  std::vector<ValueId> arguments;
  std::unordered_set<uint32_t> seen;
  std::vector<ValueId> work{value};
  while (!work.empty()) {
    const ValueId next = work.back();
    work.pop_back();
    if (!seen.insert(static_cast<uint32_t>(next)).second) continue;
    const graph::Value& v = function_.value(next);
    if (v.op == graph::kNoOp) {
      if (v.block == function_.body()) arguments.push_back(next);
      continue;
    }
    const Op& op = function_.op(v.op);
    work.insert(work.end(), op.operands.begin(), op.operands.end());
    for (const BlockId region : op.regions)
      graph::walk(function_, region, [&](OpId id) {
        const Op& inner = function_.op(id);
        work.insert(work.end(), inner.operands.begin(), inner.operands.end());
      });
  }
  std::sort(arguments.begin(), arguments.end());
  return arguments;
}

std::optional<int64_t> integer_of(const graph::Literal& literal) {
  const graph::ElementType element = literal.type().element();
  if (literal.type().element_count() != 1 || (!graph::is_integer(element) && !graph::is_bool(element)))
    return std::nullopt;
  return graph::load_integer(element, literal.element(0));
}

}  // namespace opentrn::import::onnx
