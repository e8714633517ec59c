#include "spmd/run/chain_cuts.h"

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "spmd/dimension_rule.h"
#include "spmd/propagate.h"
#include "spmd/run/cut_ways.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Attribute;
using graph::BlockId;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

// A dimension of a value.
using Place = std::pair<ValueId, int>;

// A product with a weight.
struct Product {
  OpId op{};
  size_t weight = 1;  // which operand
  DimensionRule rule;
  const std::vector<int>& factors(int dim) const { return rule.results[0][static_cast<size_t>(dim)]; }
};

class Chains {
 public:
  Chains(Function function, const AxisGrid& grid, const Axes& axes)
      : function_(std::move(function)), grid_(grid), axes_(axes) {}

  std::optional<ChainCuts> run() {
    mark_inputs();
    cut_tables();
    for (const auto& [value, readers] : readers_of_values()) readers_[value] = readers;
    if (!cut_columns()) return std::nullopt;
    cut_rows_between();
    cut_state();
    stated_.results.resize(function_.returned().size());
    return ChainCuts{std::move(function_), std::move(stated_)};
  }

 private:
  std::map<ValueId, std::vector<OpId>> readers_of_values() const {
    std::map<ValueId, std::vector<OpId>> all;
    graph::walk(function_, function_.body(), [&](OpId id) {
      for (const ValueId value : function_.op(id).operands) all[value].push_back(id);
    });
    return all;
  }

  std::optional<Product> product_of(OpId id) const {
    const Op& op = function_.op(id);
    if (op.kind != OpKind::dot_general_) return std::nullopt;
    const size_t weight = is_given(function_, op.operands[1]) ? 1 : 0;
    if (!is_given(function_, op.operands[weight])) return std::nullopt;
    auto rule = dimension_rule(function_, op);
    if (!rule) return std::nullopt;
    return Product{id, weight, std::move(*rule)};
  }

  // What a product with a weight reads, and other products of the same value: through an op that says how it
  // lies, and nothing else.
  void mark_inputs() {
    std::vector<ValueId> inputs;
    graph::walk(function_, function_.body(), [&](OpId id) {
      if (const auto product = product_of(id)) {
        const ValueId read = function_.op(id).operands[1 - product->weight];
        if (std::ranges::find(inputs, read) == inputs.end()) inputs.push_back(read);
      }
    });
    const auto readers = readers_of_values();
    for (const ValueId value : inputs) {
      const ValueId made = behind(value);
      inputs_.push_back(made);
      const auto is_product = [&](OpId id) { return function_.op(id).kind == OpKind::dot_general_; };
      for (const OpId id : readers.at(value))
        if (!is_product(id)) std::ranges::replace(function_.op(id).operands, made, value);
    }
  }

  // Tables of which rows are read, or added to, by number: a part of each row.
  void cut_tables() {
    graph::walk(function_, function_.body(), [&](OpId id) {
      const Op& op = function_.op(id);
      const auto rule = dimension_rule(function_, op);
      if (!rule) return;
      if (op.kind == OpKind::gather_ && is_given(function_, op.operands[0]))
        cut_last(op.operands[0], rule->operands[0]);
      if (op.kind == OpKind::scatter_ && op.results.size() == 1) cut_last(op.results[0], rule->results[0]);
    });
  }

  void cut_last(ValueId table, const DimensionFactors& dimensions) {
    const Type& type = function_.type(table);
    for (int d = type.rank(); d-- > 0;)
      if (!dimensions[static_cast<size_t>(d)].empty() && grid_.divides(axes_, type.dim(d)))
        return (void)stated_.values.try_emplace(table, cut_by(type, d));
  }

  // What devices exchange whole, its parts lie together where it is made (the gradient of a table).
  static bool gathers(OpKind kind) {
    return kind == OpKind::all_gather_ || kind == OpKind::all_to_all_ || kind == OpKind::reduce_scatter_;
  }

  bool is_product(OpId id, size_t operand) const {
    const Op& op = function_.op(id);
    return op.kind == OpKind::dot_general_ && operand < 2 && is_given(function_, op.operands[1 - operand]);
  }

  // Whether all that depends on the dimension can be cut along it, up to where it is summed over.
  bool ends_well(Place from) const {
    constexpr size_t kMost = 4096;
    std::set<Place> seen{from};
    std::vector<Place> waiting{from};
    const auto go = [&](ValueId value, int dim) {
      if (seen.insert({value, dim}).second) waiting.emplace_back(value, dim);
    };
    while (!waiting.empty()) {
      if (seen.size() > kMost) return false;
      const auto [value, dim] = waiting.back();
      waiting.pop_back();
      const auto readers = readers_.find(value);
      if (readers == readers_.end()) continue;
      for (const OpId id : readers->second)
        if (!goes_on(id, value, dim, go)) return false;
    }
    return true;
  }

  template <typename Go>
  bool goes_on(OpId id, ValueId value, int dim, Go&& go) const {
    const Op& op = function_.op(id);
    if (op.kind == OpKind::return_) {
      const OpId parent = function_.block(op.block).parent;
      if (parent == graph::kNoOp) return true;
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (op.operands[i] == value) {
          if (function_.op(parent).kind != OpKind::while_) return false;
          pass_loop(parent, i, dim, go);
        }
      return true;
    }
    if (op.kind == OpKind::while_) {
      for (size_t i = 0; i < op.operands.size(); ++i)
        if (op.operands[i] == value) pass_loop(id, i, dim, go);
      return true;
    }
    const auto rule = dimension_rule(function_, op);
    if (!rule) return false;
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i] == value ? !passes(id, *rule, i, dim, go)
                                  : op.kind == OpKind::add_ && comes_from_terms(op.operands[i]))
        return false;
    return true;
  }

  // Whether a value adds up what chains end in: it lies between them.
  bool comes_from_terms(ValueId value) const {
    std::set<ValueId> seen{value};
    std::vector<ValueId> waiting{value};
    while (!waiting.empty()) {
      const OpId id = function_.value(waiting.back()).op;
      waiting.pop_back();
      if (id == graph::kNoOp) continue;
      const Op& op = function_.op(id);
      if (const auto product = product_of(id); product && sums(*product)) return true;
      const bool adds = op.kind == OpKind::add_ || op.kind == OpKind::convert_ ||
                        op.kind == OpKind::all_reduce_ || op.kind == OpKind::reduce_scatter_ ||
                        op.kind == OpKind::all_gather_ || op.kind == OpKind::custom_call_ ||
                        op.kind == OpKind::optimization_barrier_;
      if (!adds) continue;
      for (const ValueId operand : op.operands)
        if (seen.insert(operand).second) waiting.push_back(operand);
    }
    return false;
  }

  template <typename Go>
  void pass_loop(OpId loop, size_t i, int dim, Go&& go) const {
    const Op& op = function_.op(loop);
    for (const BlockId region : op.regions) go(function_.block(region).arguments[i], dim);
    go(op.results[i], dim);
  }

  template <typename Go>
  bool passes(OpId id, const DimensionRule& rule, size_t operand, int dim, Go&& go) const {
    const std::vector<int>& factors = rule.operands[operand][static_cast<size_t>(dim)];
    if (factors.empty()) return gathers(function_.op(id).kind);
    const int factor = factors[0];
    if (!grid_.divides(axes_, rule.factors[static_cast<size_t>(factor)].size)) return false;
    if (rule.factors[static_cast<size_t>(factor)].kind == FactorKind::kReduction)
      return function_.op(id).kind == OpKind::reduce_ || is_product(id, operand);
    bool found = false;
    for (size_t r = 0; r < rule.results.size(); ++r)
      for (size_t d = 0; d < rule.results[r].size(); ++d) {
        const auto& of_result = rule.results[r][d];
        const auto at = std::ranges::find(of_result, factor);
        if (at == of_result.end()) continue;
        if (at != of_result.begin()) return false;
        found = true;
        go(function_.op(id).results[r], static_cast<int>(d));
      }
    return found;
  }

  // The dimension of a product's result that comes from one operand alone; of several the largest, or the
  // first. -1: none that the devices divide.
  int free_dimension(const Product& product, size_t operand, bool largest) const {
    const Type& type = function_.type(function_.op(product.op).results[0]);
    int found = -1;
    for (int d = 0; d < type.rank(); ++d) {
      const auto& factors = product.factors(d);
      const auto has = [&](size_t side) {
        return std::ranges::any_of(product.rule.operands[side], [&](const auto& dim) {
          return std::ranges::find(dim, factors[0]) != dim.end();
        });
      };
      if (factors.size() != 1 || !has(operand) || has(1 - operand)) continue;
      if (!grid_.divides(axes_, type.dim(d)) || type.dim(d) < grid_.count(axes_)) continue;
      if (found < 0 || (largest && type.dim(d) > type.dim(found))) found = d;
    }
    return found;
  }

  Cuts cut_by(const Type& type, int dim) const {
    Cuts cuts(static_cast<size_t>(type.rank()));
    if (dim >= 0) cuts[static_cast<size_t>(dim)] = axes_;
    return cuts;
  }

  // Whether devices have terms of what it gives, by the cuts that are known.
  bool sums(const Product& product) const {
    const Op& op = function_.op(product.op);
    std::vector<const Cuts*> operands, results;
    for (const ValueId value : op.operands) operands.push_back(&known_[graph::index_of(value)]);
    for (const ValueId value : op.results) results.push_back(&known_[graph::index_of(value)]);
    const auto by = factor_axes(product.rule, grid_, operands, results);
    for (size_t f = 0; f < by.size(); ++f)
      if (product.rule.factors[f].kind == FactorKind::kReduction && !by[f].empty()) return true;
    return false;
  }

  // In the order of the program: a product behind another one's columns ends that chain. Tables that several
  // chains read (of positions) bring the first one's cut to the others.
  bool cut_columns() {
    known_ = propagate(function_, grid_, stated_.values);
    bool changed = false, any = false;
    graph::walk(function_, function_.body(), [&](OpId id) {
      auto product = product_of(id);
      if (!product) return;
      if (changed) known_ = propagate(function_, grid_, stated_.values);
      changed = false;
      products_.push_back(std::move(*product));
      const Product& last = products_.back();
      if (sums(last)) return;
      const ValueId made = function_.op(id).results[0];
      const int dim = free_dimension(last, last.weight, true);
      if (dim < 0) return;
      const Cuts columns = cut_by(function_.type(made), dim), &cuts = known_[graph::index_of(made)];
      if (cuts != columns && (!is_whole(cuts) || !ends_well({made, dim}))) return;
      stated_.values.insert_or_assign(made, columns);
      changed = cuts != columns;
      any = true;
    });
    return any;
  }

  // Sequences that the devices of the program cut themselves: that of their sum which cuts the dimension.
  ValueId scattered(ValueId value, int dim) const {
    const auto readers = readers_.find(value);
    if (readers == readers_.end() || readers->second.size() != 1) return value;
    const Op& reader = function_.op(readers->second[0]);
    return reader.kind == OpKind::reduce_scatter_ && reader.integer(Attr::scatter_dimension) == dim
               ? reader.results[0]
               : value;
  }

  void cut_rows_between() {
    known_ = propagate(function_, grid_, stated_.values);
    for (const Product& product : products_) {
      const ValueId read = function_.op(product.op).operands[1 - product.weight];
      if (sums(product)) {
        const ValueId terms = function_.op(product.op).results[0];
        const int dim = free_dimension(product, 1 - product.weight, false);
        if (dim < 0) continue;
        stated_.values.try_emplace(terms, cut_by(function_.type(terms), -1));
        const ValueId sum = scattered(terms, dim);
        if (!grid_.divides(axes_, function_.type(sum).dim(dim))) continue;
        const ValueId rows = behind(sum);
        stated_.values.try_emplace(rows, cut_by(function_.type(rows), dim));
      } else if (std::ranges::find(inputs_, read) != inputs_.end()) {
        stated_.values.try_emplace(read, cut_by(function_.type(read), -1));
      }
    }
  }

  // An op behind that which makes the value, to say how the value lies for those that read it.
  ValueId behind(ValueId value) {
    const OpId maker = function_.value(value).op;
    const BlockId block = maker == graph::kNoOp ? function_.value(value).block : function_.op(maker).block;
    const auto& ops = function_.block(block).ops;
    const size_t at =
        maker == graph::kNoOp ? 0 : static_cast<size_t>(std::ranges::find(ops, maker) - ops.begin()) + 1;
    const OpId id = function_.insert(block, at, OpKind::custom_call_, {value}, {function_.type(value)});
    say_how_it_lies(function_.op(id));
    const ValueId made = function_.op(id).results[0];
    function_.replace_uses(value, made);
    function_.op(id).operands = {value};
    return made;
  }

  // Of the dimensions of a result, the first that can be cut up to the op that makes it, element-wise ops and
  // collectives aside; else the first.
  int state_dimension(ValueId value) const {
    const Type& type = function_.type(value);
    int first = -1;
    for (int d = 0; d < type.rank(); ++d) {
      if (!grid_.divides(axes_, type.dim(d)) || type.dim(d) < grid_.count(axes_)) continue;
      if (first < 0) first = d;
      if (can_be_cut(value, d)) return d;
    }
    return first;
  }

  bool can_be_cut(ValueId value, int dim) const {
    std::set<ValueId> seen{value};
    std::vector<ValueId> waiting{value};
    while (!waiting.empty()) {
      const ValueId made = waiting.back();
      const OpId id = function_.value(made).op;
      const Type& type = function_.type(made);
      waiting.pop_back();
      if (id == graph::kNoOp || function_.op(id).kind == OpKind::constant_) continue;
      const Op& op = function_.op(id);
      if (op.kind == OpKind::all_to_all_) continue;
      if (op.kind == OpKind::while_) {
        const auto at = static_cast<size_t>(std::ranges::find(op.results, made) - op.results.begin());
        const auto& body = function_.block(op.regions[1]).ops;
        if (const ValueId last = function_.op(body.back()).operands[at]; seen.insert(last).second)
          waiting.push_back(last);
        continue;
      }
      const auto rule = dimension_rule(function_, op);
      if (!rule || op.results.size() != 1 || rule->results[0][static_cast<size_t>(dim)].empty()) return false;
      if (op.kind == OpKind::dot_general_ || op.kind == OpKind::scatter_) continue;
      for (const ValueId operand : op.operands)
        if (function_.type(operand).rank() == type.rank() && seen.insert(operand).second)
          waiting.push_back(operand);
    }
    return true;
  }

  void cut_state() {
    const std::vector<Cuts> known = propagate(function_, grid_, stated_.values);
    for (const ValueId value : function_.returned()) {
      const Type& type = function_.type(value);
      if (!type.is_tensor() || type.rank() < 2 || is_given(function_, value)) continue;
      if (!is_whole(known[graph::index_of(value)])) continue;
      if (const int dim = state_dimension(value); dim >= 0)
        stated_.values.try_emplace(value, cut_by(type, dim));
    }
  }

  // An op of Shardy's whose cuts are stated, as its result's.
  static void say_how_it_lies(Op& op) {
    op.set(Attr::call_target_name, Attribute(std::string("sdy.sharding_constraint")));
    graph::Dictionary extra;
    extra.insert_or_assign("sharding", Attribute(graph::Opaque{"#sdy.sharding<@mesh, []>"}));
    op.extra = std::make_shared<const graph::Dictionary>(std::move(extra));
  }

  Function function_;
  const AxisGrid& grid_;
  const Axes axes_;
  std::map<ValueId, std::vector<OpId>> readers_;
  std::vector<Product> products_;
  std::vector<ValueId> inputs_;
  std::vector<Cuts> known_;  // propagated
  Stated stated_;
};

}  // namespace

std::optional<ChainCuts> chain_cuts(Function function, const AxisGrid& grid, const Axes& axes) {
  return Chains(std::move(function), grid, axes).run();
}

}  // namespace opentrn::spmd
