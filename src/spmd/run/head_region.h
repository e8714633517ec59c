// Which dimensions of values around attention are one, for chain_cuts.cc.
#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "spmd/dimension_rule.h"

namespace opentrn::spmd {

// What lies between products with weights where attention is: which dimensions of its values are one.
class HeadRegion {
 public:
  using Place = std::pair<graph::ValueId, int>;  // a dimension of a value

  explicit HeadRegion(const graph::Function& function) : function_(function) {}

  void begin(graph::ValueId value) { values_.insert(value); }
  bool has(graph::ValueId value) const { return values_.contains(value); }

  // The next op in order, which is no product with a weight.
  void add(graph::OpId id) {
    const graph::Op& op = function_.op(id);
    if (op.kind == graph::OpKind::return_ || op.kind == graph::OpKind::while_ ||
        op.kind == graph::OpKind::if_)
      return;
    bool found = false;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (!has(op.operands[i])) continue;
      found = true;
      if (op.kind == graph::OpKind::optimization_barrier_)
        begin(op.results[i]);
      else
        values_.insert(op.results.begin(), op.results.end());
    }
    if (found) ops_.push_back(id);
  }

  // All ops are there.
  void close() {
    std::set<graph::ValueId> spread;
    for (const graph::OpId id : ops_)
      if (const graph::Op& op = function_.op(id); op.kind == graph::OpKind::broadcast_in_dim_)
        spread.insert(op.operands[0]);
    for (const graph::OpId id : ops_) {
      const graph::Op& op = function_.op(id);
      const auto rule = dimension_rule(function_, op);
      if (!rule) continue;
      std::map<int, Place> first;  // of a factor
      for (size_t i = 0; i < op.operands.size(); ++i) join(op.operands[i], rule->operands[i], *rule, first);
      for (size_t i = 0; i < op.results.size(); ++i) join(op.results[i], rule->results[i], *rule, first);
      // What is spread again over what it was made of; others (a bias's gradient) tell nothing.
      if (op.kind == graph::OpKind::reduce_ && spread.contains(op.results[0]))
        for (const int64_t d : op.integers(graph::Attr::dimensions))
          reduced_.push_back({op.operands[0], static_cast<int>(d)});
    }
  }

  // Which scores are made weights over.
  bool is_of_keys(Place place) const {
    return std::ranges::any_of(reduced_, [&](Place each) { return root(each) == root(place); });
  }

  // Of products without weights: keys and values that each query meets, and sums over queries, with their
  // dimension of keys.
  struct Products {
    std::set<graph::ValueId> keys;
    std::vector<Place> sums;
  };
  Products products_of(const std::vector<Place>& queries) const {
    Products found;
    std::set<Place> roots;
    for (const Place& each : queries) roots.insert(root(each));
    const auto is_of_queries = [&](Place place) { return roots.contains(root(place)); };
    for (const graph::OpId id : ops_) {
      const graph::Op& op = function_.op(id);
      if (op.kind != graph::OpKind::dot_general_ || !has(op.operands[0]) || !has(op.operands[1])) continue;
      for (const graph::ValueId value : op.operands)
        if (any(value, [&](Place place) { return is_of_keys(place); }) && !any(value, is_of_queries))
          found.keys.insert(value);
      const auto summed = op.integers(graph::Attr::lhs_contracting_dimensions);
      if (std::ranges::none_of(summed, [&](int64_t d) {
            return is_of_queries({op.operands[0], static_cast<int>(d)});
          }))
        continue;
      const graph::ValueId made = op.results[0];
      for (int d = 0; d < function_.type(made).rank(); ++d)
        if (is_of_keys({made, d})) found.sums.emplace_back(made, d);
    }
    return found;
  }

 private:
  template <typename Is>
  bool any(graph::ValueId value, Is&& is) const {
    for (int d = 0; d < function_.type(value).rank(); ++d)
      if (is(Place{value, d})) return true;
    return false;
  }

  Place root(Place place) const {
    for (auto above = above_.find(place); above != above_.end(); above = above_.find(place))
      place = above->second;
    return place;
  }

  // Dimensions of values of the region, by their first factor, which devices would cut: of rows in blocks the
  // blocks.
  void join(graph::ValueId value, const DimensionFactors& dimensions, const DimensionRule& rule,
            std::map<int, Place>& first) {
    if (!has(value)) return;
    for (size_t d = 0; d < dimensions.size(); ++d) {
      const auto cut = std::ranges::find_if(
          dimensions[d], [&](int factor) { return rule.factors[static_cast<size_t>(factor)].size > 1; });
      if (cut == dimensions[d].end()) continue;
      const Place place{value, static_cast<int>(d)};
      const Place own = root(place), known = root(first.try_emplace(*cut, place).first->second);
      if (own != known) above_[own] = known;
    }
  }

  const graph::Function& function_;
  std::set<graph::ValueId> values_;
  std::vector<graph::OpId> ops_;
  std::vector<Place> reduced_;
  std::map<Place, Place> above_;
};

}  // namespace opentrn::spmd
