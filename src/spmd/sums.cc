#include "spmd/sums.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/analysis/values.h"
#include "graph/op_definitions.h"
#include "spmd/scatter_sums.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Attribute;
using graph::BlockId;
using graph::Function;
using graph::Module;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

using Readers = std::map<ValueId, std::vector<OpId>>;

Readers readers_of(const Function& function) {
  Readers readers;
  graph::walk(function, function.body(), [&](OpId id) {
    for (const ValueId value : function.op(id).operands) readers[value].push_back(id);
  });
  return readers;
}

std::vector<OpId> all_ops(const Function& function) {
  std::vector<OpId> ops;
  graph::walk(function, function.body(), [&](OpId id) { ops.push_back(id); });
  return ops;
}

bool is_sum(const Op& op) {
  return (op.kind == OpKind::all_reduce_ || op.kind == OpKind::reduce_scatter_) && op.operands.size() == 1;
}

void drop(Function& function, OpId id) { std::erase(function.block(function.op(id).block).ops, id); }

size_t place_of(const Function& function, OpId id) {
  const auto& ops = function.block(function.op(id).block).ops;
  return static_cast<size_t>(std::ranges::find(ops, id) - ops.begin());
}

// Whether the permutation of a product's result puts the free dimensions of the right operand before those of
// the left one, and changes nothing else.
bool exchanges_operands(const Function& function, const Op& product, std::span<const int64_t> permutation) {
  const auto batch = static_cast<int64_t>(product.integers_or(Attr::lhs_batching_dimensions, 0, 0).size());
  const auto contracted =
      static_cast<int64_t>(product.integers_or(Attr::lhs_contracting_dimensions, 0, 0).size());
  const int64_t left = function.type(product.operands[0]).rank() - batch - contracted;
  const auto rank = static_cast<int64_t>(permutation.size());
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t right = rank - batch - left;
    const int64_t expected = i < batch ? i : i < batch + right ? i + left : i - right;
    if (permutation[static_cast<size_t>(i)] != expected) return false;
  }
  return true;
}

void exchange_operands(Op& product) {
  std::swap(product.operands[0], product.operands[1]);
  const auto exchange = [&](Attr a, Attr b) {
    std::optional<Attribute> of_a, of_b;
    if (const Attribute* found = product.find(a)) of_a = *found;
    if (const Attribute* found = product.find(b)) of_b = *found;
    product.remove(a);
    product.remove(b);
    if (of_b) product.set(a, *of_b);
    if (of_a) product.set(b, *of_a);
  };
  exchange(Attr::lhs_batching_dimensions, Attr::rhs_batching_dimensions);
  exchange(Attr::lhs_contracting_dimensions, Attr::rhs_contracting_dimensions);
  exchange(Attr::lhs_precision_type, Attr::rhs_precision_type);
  exchange(Attr::lhs_component_count, Attr::rhs_component_count);
  if (product.has(Attr::precision_config)) {
    const auto given = product.integers(Attr::precision_config);
    product.set(Attr::precision_config, Attribute(std::vector<int64_t>(given.rbegin(), given.rend())));
  }
}

// Sums of anything among the same devices.
bool are_among_the_same(const Function& function, const Op& a, const Op& b) {
  const auto but_for_channel = [](const Op& op) {
    auto attributes = op.attributes;
    std::erase_if(attributes, [](const auto& each) { return each.first == Attr::channel_id; });
    return attributes;
  };
  const auto adds = [&](const Op& op) { return compiler::combiner_of(function, op) == OpKind::add_; };
  return a.kind == b.kind && a.block == b.block && adds(a) && adds(b) &&
         but_for_channel(a) == but_for_channel(b);
}

// Alike but for the operand and the channel's number.
bool meet_alike(const Function& function, const Op& a, const Op& b) {
  return function.type(a.operands[0]) == function.type(b.operands[0]) && are_among_the_same(function, a, b);
}

// Results of a sum with one operand become those of another one with more; the region is that of one term
// each.
void join_into(Function& function, OpId first, OpId second) {
  const Op joined = function.op(second);
  const ValueId made = function.add_result(first, function.type(joined.results[0]));
  function.op(first).operands.push_back(joined.operands[0]);
  function.replace_uses(joined.results[0], made);
  drop(function, second);
}

class EarlyCuts {
 public:
  explicit EarlyCuts(Function& function) : function_(function), readers_(readers_of(function)) {}

  int run() {
    find_sums();
    int moved = 0;
    std::vector<OpId> waiting = all_ops(function_);
    while (!waiting.empty()) {
      const OpId id = waiting.back();
      waiting.pop_back();
      if (!can_move(id)) continue;
      const std::vector<OpId> cuts = readers_.at(function_.op(id).results[0]);
      for (const OpId cut : cuts) move(cut, id);
      drop(function_, id);
      for (const ValueId value : function_.op(id).operands) std::erase(readers_[value], id);
      for (const ValueId value : function_.op(id).operands)
        if (const OpId maker = function_.value(value).op; maker != graph::kNoOp) waiting.push_back(maker);
      ++moved;
    }
    return moved;
  }

 private:
  // An op that only cuts read and that comes from a sum.
  bool can_move(OpId id) const {
    const Op& op = function_.op(id);
    if (!is_movable(op) || !from_sum_.contains(op.results[0])) return false;
    const auto found = readers_.find(op.results[0]);
    return found != readers_.end() && !found->second.empty() &&
           std::ranges::all_of(found->second, [&](OpId reader) {
             const Op& cut = function_.op(reader);
             return cut.kind == OpKind::dynamic_slice_ && cut.block == op.block &&
                    cut.operands[0] == op.results[0] && std::ranges::count(cut.operands, op.results[0]) == 1;
           });
  }

  bool is_movable(const Op& op) const {
    if (op.results.size() != 1 || !op.regions.empty()) return false;
    const Type& type = function_.type(op.results[0]);
    if (!type.is_static() || type.rank() == 0) return false;
    if (op.kind == OpKind::transpose_) return true;
    const graph::OpDefinition& definition = graph::definition(op.kind);
    const bool by_element = op.kind == OpKind::convert_ ||
                            definition.op_class == graph::OpClass::kUnaryElementwise ||
                            definition.op_class == graph::OpClass::kBinaryElementwise;
    return by_element && !definition.has_side_effect && std::ranges::all_of(op.operands, [&](ValueId value) {
             return function_.type(value).dims_vector() == type.dims_vector();
           });
  }

  // What movable ops make of sums of their block.
  void find_sums() {
    for (const OpId id : all_ops(function_)) {
      const Op& op = function_.op(id);
      const bool is_one = op.kind == OpKind::all_reduce_ && op.operands.size() == 1;
      if (is_one || (is_movable(op) && std::ranges::any_of(op.operands, [&](ValueId value) {
                       return from_sum_.contains(value) &&
                              function_.op(function_.value(value).op).block == op.block;
                     })))
        from_sum_.insert(op.results[0]);
    }
  }

  // In place of the cut: cuts of what `id` reads, and the op on them.
  void move(OpId cut, OpId id) {
    const Op op = function_.op(id);
    const Type part = function_.type(function_.op(cut).results[0]);
    std::vector<ValueId> starts(function_.op(cut).operands.begin() + 1, function_.op(cut).operands.end());
    std::vector<int64_t> sizes = part.dims_vector();
    if (op.kind == OpKind::transpose_) {
      const auto permutation = op.integers(Attr::permutation);
      std::vector<ValueId> turned_starts(starts.size());
      std::vector<int64_t> turned(sizes.size());
      for (size_t i = 0; i < turned.size(); ++i) {
        const auto from = static_cast<size_t>(permutation[i]);
        turned_starts[from] = starts[i];
        turned[from] = sizes[i];
      }
      starts = std::move(turned_starts);
      sizes = std::move(turned);
    }
    std::vector<ValueId> operands;
    for (const ValueId value : op.operands) operands.push_back(part_of(value, starts, sizes, cut));
    const ValueId made = add(cut, op.kind, std::move(operands), part, op.attributes);
    const ValueId before = function_.op(cut).results[0];
    function_.replace_uses(before, made);
    readers_[made] = std::exchange(readers_[before], {});
    drop(function_, cut);
    for (const ValueId value : function_.op(cut).operands) std::erase(readers_[value], cut);
  }

  ValueId part_of(ValueId value, const std::vector<ValueId>& starts, const std::vector<int64_t>& sizes,
                  OpId before) {
    const Type type = function_.type(value).with_dims(sizes);
    if (const Op* made = compiler::maker(function_, value)) {
      if (made->kind == OpKind::constant_ && made->literal(Attr::value).is_splat()) {
        const auto bytes = made->literal(Attr::value).bytes();
        graph::Literal literal(type, std::vector<std::byte>(bytes.begin(), bytes.end()));
        return add(before, OpKind::constant_, {}, type, {{Attr::value, Attribute(std::move(literal))}});
      }
      if (made->kind == OpKind::broadcast_in_dim_ && function_.type(made->operands[0]).rank() == 0)
        return add(before, made->kind, {made->operands[0]}, type, made->attributes);
    }
    std::vector<ValueId> operands{value};
    operands.insert(operands.end(), starts.begin(), starts.end());
    return add(before, OpKind::dynamic_slice_, std::move(operands), type,
               {{Attr::slice_sizes, Attribute(sizes)}});
  }

  ValueId add(OpId before, OpKind kind, std::vector<ValueId> operands, const Type& type,
              std::vector<std::pair<Attr, Attribute>> attributes) {
    const Op& at = function_.op(before);
    const OpId id = function_.insert(at.block, place_of(function_, before), kind, std::move(operands), {type},
                                     at.location);
    Op& made = function_.op(id);
    made.attributes = std::move(attributes);
    for (const ValueId value : made.operands) readers_[value].push_back(id);
    return made.results[0];
  }

  Function& function_;
  Readers readers_;
  std::set<ValueId> from_sum_;
};

}  // namespace

int turn_products(Function& function) {
  int turned = 0;
  const Readers readers = readers_of(function);
  const auto read_once = [&](ValueId value) {
    const auto found = readers.find(value);
    return found != readers.end() && found->second.size() == 1;
  };
  for (const OpId id : all_ops(function)) {
    if (function.op(id).kind != OpKind::transpose_) continue;
    const OpId sum = function.value(function.op(id).operands[0]).op;
    if (sum == graph::kNoOp || !is_sum(function.op(sum)) || !read_once(function.op(sum).results[0])) continue;
    const OpId product = function.value(function.op(sum).operands[0]).op;
    if (product == graph::kNoOp || function.op(product).kind != OpKind::dot_general_ ||
        !read_once(function.op(product).results[0]) || function.op(product).block != function.op(id).block ||
        function.op(sum).block != function.op(id).block)
      continue;
    const auto permutation = function.op(id).integers(Attr::permutation);
    if (!exchanges_operands(function, function.op(product), permutation)) continue;
    const auto turn = [&](ValueId value) {
      Type& type = function.value(value).type;
      std::vector<int64_t> dims;
      for (const int64_t from : permutation) dims.push_back(type.dim(static_cast<int>(from)));
      type = type.with_dims(std::move(dims));
    };
    exchange_operands(function.op(product));
    turn(function.op(product).results[0]);
    turn(function.op(sum).results[0]);
    if (function.op(sum).has(Attr::scatter_dimension)) {
      const int64_t dim = function.op(sum).integer(Attr::scatter_dimension);
      const auto at = std::ranges::find(permutation, dim) - permutation.begin();
      function.op(sum).set(Attr::scatter_dimension, Attribute(static_cast<int64_t>(at)));
    }
    function.replace_uses(function.op(id).results[0], function.op(sum).results[0]);
    drop(function, id);
    ++turned;
  }
  return turned;
}

int join_sums(Function& function) {
  int joined = 0;
  Readers readers = readers_of(function);
  for (const OpId id : all_ops(function)) {
    const Op& addition = function.op(id);
    if (addition.kind != OpKind::add_ || addition.operands[0] == addition.operands[1]) continue;
    const OpId first = function.value(addition.operands[0]).op,
               second = function.value(addition.operands[1]).op;
    const auto is_term = [&](OpId maker) {
      return maker != graph::kNoOp && is_sum(function.op(maker)) &&
             function.op(maker).block == addition.block && readers[function.op(maker).results[0]].size() == 1;
    };
    if (!is_term(first) || !is_term(second) || !meet_alike(function, function.op(first), function.op(second)))
      continue;
    const std::vector<ValueId> terms{function.op(first).operands[0], function.op(second).operands[0]};
    const OpId made = function.insert(addition.block, place_of(function, id), OpKind::add_, terms,
                                      {function.type(terms[0])}, addition.location);
    // The first sum stands where the addition was, and sums what is added.
    drop(function, second);
    drop(function, first);
    auto& ops = function.block(addition.block).ops;
    *std::ranges::find(ops, id) = first;
    function.op(first).operands = {function.op(made).results[0]};
    const ValueId whole = function.op(first).results[0];
    function.replace_uses(addition.results[0], whole);
    readers[whole] = readers[addition.results[0]];
    ++joined;
  }
  return joined;
}

int join_behind_loops(Function& function) {
  int joined = 0;
  std::map<OpId, std::vector<OpId>> sums;  // by loop: the first of each kind
  for (const OpId id : all_ops(function)) {
    const Op& op = function.op(id);
    if (op.kind != OpKind::all_reduce_ || op.operands.size() != 1) continue;
    const OpId maker = function.value(op.operands[0]).op;
    if (maker == graph::kNoOp || function.op(maker).kind != OpKind::while_ ||
        function.op(maker).block != op.block)
      continue;
    std::vector<OpId>& firsts = sums[maker];
    const auto found = std::ranges::find_if(firsts, [&](OpId each) {
      return function.type(function.op(each).operands[0]).element() ==
                 function.type(op.operands[0]).element() &&
             are_among_the_same(function, function.op(each), op);
    });
    if (found == firsts.end()) {
      firsts.push_back(id);
      continue;
    }
    join_into(function, *found, id);
    ++joined;
  }
  return joined;
}

int cut_early(Function& function) { return EarlyCuts(function).run(); }

void rearrange_sums(Module& module, Function& function, int64_t devices) {
  (void)turn_products(function);
  (void)join_sums(function);
  (void)cut_early(function);
  (void)scatter_sums(module, function, devices);
  (void)join_sums(function);
  (void)join_behind_loops(function);
}

}  // namespace opentrn::spmd
