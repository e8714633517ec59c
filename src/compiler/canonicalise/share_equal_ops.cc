#include <algorithm>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "compiler/rewrite/replacements.h"
#include "graph/op_definitions.h"

namespace opentrn::compiler {

namespace {

// Constants are compared byte by byte; larger ones are weights, which nobody writes twice.
constexpr size_t kComparedBytes = 4096;

bool can_be_shared(const Function& function, const Op& op) {
  const graph::OpDefinition& definition = graph::definition(op.kind);
  // Of ops with regions those that combine elements, whose regions are a few ops on arguments.
  for (const BlockId region : op.regions)
    for (const OpId inside : function.block(region).ops) {
      const Op& part = function.op(inside);
      if (part.kind != OpKind::return_ && (!part.regions.empty() || !can_be_shared(function, part)))
        return false;
    }
  if (definition.has_side_effect || definition.op_class == OpClass::kCollective) return false;
  switch (op.kind) {
    case OpKind::return_:
    case OpKind::rng_:  // two draws are two numbers
    case OpKind::custom_call_:
    case OpKind::while_:
    case OpKind::if_:
    case OpKind::case_: return false;
    case OpKind::constant_: return op.literal(graph::Attr::value).bytes().size() <= kComparedBytes;
    default: return !op.results.empty();
  }
}

size_t hash_of(const Op& op) {
  size_t hash = static_cast<size_t>(op.kind);
  for (const graph::ValueId operand : op.operands) hash = hash * 1000003 + index_of(operand);
  return hash;
}

// Values of the second op's regions, by those of the first that stand for them.
using Twins = std::unordered_map<size_t, ValueId>;

bool equal(const Function& function, const Op& a, const Op& b, Twins& twins) {
  if (a.kind != b.kind || a.operands.size() != b.operands.size() || a.results.size() != b.results.size() ||
      a.regions.size() != b.regions.size())
    return false;
  for (size_t i = 0; i < a.operands.size(); ++i) {
    const auto twin = twins.find(index_of(a.operands[i]));
    if ((twin == twins.end() ? a.operands[i] : twin->second) != b.operands[i]) return false;
  }
  const auto same_types = [&](const std::vector<ValueId>& ours, const std::vector<ValueId>& theirs) {
    return std::ranges::equal(ours, theirs, [&](ValueId x, ValueId y) {
      twins.emplace(index_of(x), y);
      return function.type(x) == function.type(y);
    });
  };
  if (!same_types(a.results, b.results) || a.attributes != b.attributes) return false;
  for (size_t r = 0; r < a.regions.size(); ++r) {
    const graph::Block &one = function.block(a.regions[r]), &other = function.block(b.regions[r]);
    if (!same_types(one.arguments, other.arguments) ||
        !std::ranges::equal(one.ops, other.ops, [&](OpId x, OpId y) {
          return equal(function, function.op(x), function.op(y), twins);
        }))
      return false;
  }
  return true;
}

class Sharing {
 public:
  explicit Sharing(Function& function) : function_(function), replacements_(function) {}

  int64_t run() {
    block(function_.body());
    return shared_;
  }

 private:
  bool is_twin(const Op& a, const Op& b) const {
    Twins twins;
    return equal(function_, a, b, twins);
  }

  // What a block makes is known in it and in the regions inside, not after it.
  void block(BlockId id) {
    std::vector<size_t> added;
    for (const OpId op_id : function_.block(id).ops) {
      replacements_.apply(function_.op(op_id));
      for (const BlockId region : std::vector(function_.op(op_id).regions)) block(region);
      const Op& op = function_.op(op_id);
      if (!can_be_shared(function_, op)) continue;
      const size_t hash = hash_of(op);
      const auto [begin, end] = known_.equal_range(hash);
      auto found = begin;
      while (found != end && !is_twin(function_.op(found->second), op)) ++found;
      if (found == end) {
        known_.emplace(hash, op_id);
        added.push_back(hash);
        continue;
      }
      const Op& first = function_.op(found->second);
      for (size_t i = 0; i < op.results.size(); ++i) replacements_.replace(op.results[i], first.results[i]);
      ++shared_;
    }
    if (id == function_.body()) return;
    for (const size_t hash : added)
      for (auto [at, end] = known_.equal_range(hash); at != end;)
        at = function_.op(at->second).block == id ? known_.erase(at) : std::next(at);
  }

  Function& function_;
  Replacements replacements_;
  std::unordered_multimap<size_t, OpId> known_;
  int64_t shared_ = 0;
};

}  // namespace

int64_t share_equal_ops(Function& function) { return Sharing(function).run(); }

}  // namespace opentrn::compiler
