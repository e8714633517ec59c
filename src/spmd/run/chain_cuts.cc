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
#include "spmd/run/head_region.h"

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

using Place = HeadRegion::Place;

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
    divide_splats();
    mark_inputs();
    cut_tables();
    turn_tables();
    readers_ = readers_of_values();
    known_ = propagate(function_, grid_, stated_.values);
    find_uneven_heads();
    if (!cut_columns() && around_heads_.empty()) return std::nullopt;
    cut_rows_between();
    cut_choices();
    cut_state();
    join_splats();
    stated_.results.resize(function_.returned().size());
    return ChainCuts{std::move(function_), std::move(stated_)};
  }

 private:
  // What is the same everywhere is made for each use: that two read one says nothing of how what they stand
  // beside lies (a constant of the optimizer, or zeros to which gradients are added, which is one for all
  // weights of a shape).
  void divide_splats() {
    const auto readers = readers_of_values();
    std::vector<OpId> splats;
    graph::walk(function_, function_.body(), [&](OpId id) {
      const Op& op = function_.op(id);
      if (op.kind == OpKind::broadcast_in_dim_ && function_.type(op.operands[0]).rank() == 0)
        splats.push_back(id);
    });
    for (const OpId id : splats) {
      const ValueId made = function_.op(id).results[0];
      const auto found = readers.find(made);
      if (found == readers.end()) continue;
      bool is_first = true;
      for (const OpId reader : std::set<OpId>(found->second.begin(), found->second.end()))
        for (size_t i = 0; i < function_.op(reader).operands.size(); ++i) {
          if (function_.op(reader).operands[i] != made) continue;
          if (!std::exchange(is_first, false)) function_.op(reader).operands[i] = copy_of(id);
        }
    }
  }

  ValueId copy_of(OpId id) {
    const Op& op = function_.op(id);
    const auto& ops = function_.block(op.block).ops;
    const auto at = static_cast<size_t>(std::ranges::find(ops, id) - ops.begin()) + 1;
    const OpId copy = function_.insert(op.block, at, op.kind, op.operands, {function_.type(op.results[0])});
    function_.op(copy).attributes = op.attributes;
    const ValueId made = function_.op(copy).results[0];
    splats_[op.results[0]].push_back(made);
    return made;
  }

  // Those that came to lie alike are one again: each is written somewhere.
  void join_splats() {
    known_ = propagate(function_, grid_, stated_.values);
    for (const auto& [splat, copies] : splats_) {
      std::map<Cuts, ValueId> kept{{known_[graph::index_of(splat)], splat}};
      for (const ValueId copy : copies)
        if (!stated_.values.contains(copy))
          function_.replace_uses(copy, kept.try_emplace(known_[graph::index_of(copy)], copy).first->second);
    }
  }

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
    constexpr int64_t kLeast = 64;  // elements of a row: of fewer a part takes as long as all
    for (int d = type.rank(); d-- > 0;)
      if (type.dim(d) >= kLeast && !dimensions[static_cast<size_t>(d)].empty() &&
          grid_.divides(axes_, type.dim(d)))
        return (void)stated_.values.try_emplace(table, cut_by(type, d));
  }

  // A table that products read too (one for both ends of a model): they read other parts of it than those
  // that read rows by number.
  void turn_tables() {
    const auto readers = readers_of_values();
    const StatedCuts tables = stated_.values;
    for (const auto& [table, cuts] : tables) {
      const auto found = readers.find(table);
      if (found == readers.end()) continue;
      std::optional<Cuts> wanted;
      std::vector<OpId> others;
      for (const OpId id : found->second) {
        const auto product = product_of(id);
        if (!product || function_.op(id).operands[product->weight] != table)
          others.push_back(id);
        else if (!wanted)
          wanted = columns_of_weight(*product);
      }
      if (!wanted) continue;
      const ValueId turned = behind(table);
      for (const OpId id : others) std::ranges::replace(function_.op(id).operands, turned, table);
      stated_.values.try_emplace(turned, *wanted);
    }
  }

  Cuts columns_of_weight(const Product& product) const {
    const Type& type = function_.type(function_.op(product.op).operands[product.weight]);
    const int columns = free_dimension(product, product.weight, true);
    if (columns < 0) return cut_by(type, -1);
    for (int d = 0; d < type.rank(); ++d)
      if (product.rule.operands[product.weight][static_cast<size_t>(d)] == product.factors(columns))
        return cut_by(type, d);
    return cut_by(type, -1);
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
  bool ends_well(Place from, bool in_products = true) const {
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
        if ((!in_products && function_.op(id).kind == OpKind::dot_general_) || !goes_on(id, value, dim, go))
          return false;
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

  // Whether few columns are only compared with each other, as those of a router's experts: half of them fill
  // the array no better, and each step of a comparison would wait for the other core's.
  // Products with the same weight, of the pass back, go with it.
  bool chooses(const Product& product, int columns) {
    constexpr int64_t kArray = 128;  // columns of the Tensor engine
    if (rows_of(product) < 0) return false;
    const Op& op = function_.op(product.op);
    const auto weight = given_origin(function_, op.operands[product.weight]);
    const ValueId made = op.results[0];
    if ((function_.type(made).dim(columns) <= kArray * grid_.count(axes_) &&
         ends_well({made, columns}, false)) ||
        compresses(product, columns))
      choosing_weights_.insert(*weight);
    return choosing_weights_.contains(*weight);
  }

  // Whether a norm is taken of columns before a product with another weight reads them (latent attention):
  // cut along them, cores would meet for the norm, and again for what it gives. Not of many more columns than
  // what they are made of, whose weight would be read whole by each.
  bool compresses(const Product& product, int columns) const {
    const Op& op = function_.op(product.op);
    const Type& read = function_.type(op.operands[1 - product.weight]);
    return function_.type(op.results[0]).dim(columns) <= 2 * read.dim(read.rank() - 1) &&
           is_normed({op.results[0], columns});
  }

  // Whether a dimension is reduced over, and summed over by a product with a weight.
  bool is_normed(Place from) const {
    constexpr size_t kMost = 256;
    bool is_reduced = false, is_multiplied = false;
    std::set<Place> seen{from};
    std::vector<Place> waiting{from};
    while (!waiting.empty() && seen.size() < kMost) {
      const auto [value, dim] = waiting.back();
      waiting.pop_back();
      const auto readers = readers_.find(value);
      if (readers == readers_.end()) continue;
      for (const OpId id : readers->second)
        follow(id, value, dim, is_reduced, is_multiplied, [&](ValueId next, int along) {
          if (seen.insert({next, along}).second) waiting.emplace_back(next, along);
        });
    }
    return is_reduced && is_multiplied;
  }

  // What an op makes of a dimension, or of a part of it.
  template <typename Go>
  void follow(OpId id, ValueId value, int dim, bool& is_reduced, bool& is_multiplied, Go&& go) const {
    const Op& op = function_.op(id);
    if (op.kind == OpKind::slice_) return go(op.results[0], dim);
    const auto rule = dimension_rule(function_, op);
    if (!rule) return;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (op.operands[i] != value) continue;
      const auto& factors = rule->operands[i][static_cast<size_t>(dim)];
      if (factors.size() != 1) continue;
      if (rule->factors[static_cast<size_t>(factors[0])].kind == FactorKind::kReduction) {
        is_reduced |= op.kind == OpKind::reduce_;
        is_multiplied |= is_product(id, i);
        continue;
      }
      if (op.kind == OpKind::dot_general_) continue;
      for (size_t r = 0; r < rule->results.size(); ++r)
        for (size_t d = 0; d < rule->results[r].size(); ++d)
          if (rule->results[r][d] == factors) go(op.results[r], static_cast<int>(d));
    }
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
      if (around_heads_.contains(id) || sums(last)) return;
      const ValueId made = function_.op(id).results[0];
      const int dim = free_dimension(last, last.weight, true);
      if (dim < 0) return;
      if (chooses(last, dim)) return (void)choices_.insert(id);
      const Cuts columns = cut_by(function_.type(made), dim), &cuts = known_[graph::index_of(made)];
      if (cuts != columns && (!is_whole(cuts) || !ends_well({made, dim}))) return;
      stated_.values.insert_or_assign(made, columns);
      changed = cuts != columns;
      any = true;
    });
    return any;
  }

  // -- heads that the devices do not divide
  //
  // Between products whose columns are such heads and those that read what becomes of them, devices have
  // sequences, or else rows of queries, of which each meets all keys and values.
  void find_uneven_heads() {
    std::set<ValueId> read, divided;  // by products whose columns are such heads, or others
    std::map<OpId, Product> products;
    graph::walk(function_, function_.body(), [&](OpId id) {
      auto product = product_of(id);
      if (!product) return;
      const ValueId from = function_.op(id).operands[1 - product->weight];
      if (const auto divides = divides_heads(*product)) (*divides ? divided : read).insert(from);
      products.emplace(id, std::move(*product));
    });
    // One head of keys that several of queries meet is no reason.
    std::erase_if(read, [&](ValueId value) { return divided.contains(value); });
    if (read.empty()) return;
    HeadRegion region(function_);
    std::vector<const Product*> before;
    graph::walk(function_, function_.body(), [&](OpId id) {
      const auto product = products.find(id);
      if (product == products.end()) return region.add(id);
      const ValueId made = function_.op(id).results[0];
      const ValueId from = function_.op(id).operands[1 - product->second.weight];
      const int columns = free_dimension(product->second, product->second.weight, true);
      if (region.has(from)) {
        ends_.insert(made);
      } else if (read.contains(from) && columns >= 0 && !ends_well({made, columns})) {
        before.push_back(&product->second);
        region.begin(made);
      } else {
        return;
      }
      around_heads_.insert(id);
    });
    region.close();
    std::vector<Place> queries;
    for (const Product* product : before) {
      const Place rows{function_.op(product->op).results[0], rows_of(*product)};
      if (rows.second >= 0 && !region.is_of_keys(rows)) queries.push_back(rows);
    }
    const auto [keys, sums] = region.products_of(queries);
    for (const ValueId value : keys) make_whole(value);
    for (const auto& [sum, rows] : sums) {
      stated_.values.try_emplace(sum, cut_by(function_.type(sum), -1));
      const ValueId part = behind(sum);
      if (grid_.divides(axes_, function_.type(part).dim(rows))) key_rows_.emplace_back(part, rows);
    }
    readers_ = readers_of_values();
  }

  int rows_of(const Product& product) const { return free_dimension(product, 1 - product.weight, false); }

  void make_whole(ValueId value) {
    const ValueId whole = behind(value);
    stated_.values.try_emplace(whole, cut_by(function_.type(whole), -1));
  }

  // What comes of a value that only an addition reads, or the value.
  ValueId with_bias(ValueId value) const {
    const auto readers = readers_.find(value);
    if (readers == readers_.end() || readers->second.size() != 1) return value;
    const Op& op = function_.op(readers->second[0]);
    return op.kind == OpKind::add_ ? op.results[0] : value;
  }

  // Of a product whose columns are read as heads; nullopt of others, and of heads that cannot be followed.
  std::optional<bool> divides_heads(const Product& product) const {
    const ValueId result = with_bias(function_.op(product.op).results[0]);
    const int columns = free_dimension(product, product.weight, true);
    const auto readers = readers_.find(result);
    if (columns < 0 || readers == readers_.end()) return std::nullopt;
    bool divides = true;
    for (const OpId id : readers->second) {
      const Op& op = function_.op(id);
      const auto rule = op.kind == OpKind::reshape_ ? dimension_rule(function_, op) : std::nullopt;
      if (!rule) return std::nullopt;
      const auto& factors = rule->operands[0][static_cast<size_t>(columns)];
      const Type& made = function_.type(op.results[0]);
      // One head is no factor, but a dimension in front of its features.
      const bool is_one = factors.size() == 1 && made.rank() > function_.type(op.operands[0]).rank() &&
                          made.dim(made.rank() - 2) == 1;
      if (!is_one && factors.size() < 2) return std::nullopt;
      divides &= !is_one && grid_.divides(axes_, rule->factors[static_cast<size_t>(factors[0])].size);
    }
    if (divides && !ends_well({result, columns})) return std::nullopt;
    return divides;
  }

  // What several products behind heads give is added up before devices exchange it.
  std::map<ValueId, const Product*> added_ends() const {
    std::map<ValueId, const Product*> found;
    for (const Product& product : products_)
      if (const ValueId made = function_.op(product.op).results[0]; ends_.contains(made))
        found[made] = &product;
    graph::walk(function_, function_.body(), [&](OpId id) {
      const Op& op = function_.op(id);
      if (op.kind != OpKind::add_) return;
      for (const ValueId operand : op.operands)
        if (!found.contains(operand) || readers_.at(operand).size() != 1) return;
      const Product* first = found.at(op.operands[0]);
      for (const ValueId operand : op.operands) found.erase(operand);
      found[op.results[0]] = first;
    });
    return found;
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
    for (const auto& [value, rows] : key_rows_)
      stated_.values.try_emplace(value, cut_by(function_.type(value), rows));
    for (const auto& [made, product] : added_ends()) scatter_columns(made, *product);
    for (const Product& product : products_) {
      if (around_heads_.contains(product.op)) {
        const ValueId made = function_.op(product.op).results[0];
        if (const int rows = rows_of(product); rows >= 0)
          stated_.values.try_emplace(made, cut_by(function_.type(made), rows));
        continue;
      }
      if (choices_.contains(product.op)) continue;
      const ValueId read = function_.op(product.op).operands[1 - product.weight];
      if (sums(product)) {
        const ValueId terms = function_.op(product.op).results[0];
        if (rows_of(product) < 0) continue;
        stated_.values.try_emplace(terms, cut_by(function_.type(terms), -1));
        cut_rows_of(terms, product);
      } else if (std::ranges::find(inputs_, read) != inputs_.end()) {
        stated_.values.try_emplace(read, cut_by(function_.type(read), -1));
      }
    }
  }

  // Of columns that a norm is taken of, others that lie beside them and that it leaves out: all heads read
  // them.
  void keep_parts_whole() {
    for (const OpId id : choices_) {
      const ValueId made = function_.op(id).results[0];
      const int last = function_.type(made).rank() - 1;
      const auto found = readers_.find(made);
      if (found == readers_.end() || !is_normed({made, last})) continue;
      for (const OpId reader : std::vector(found->second))
        if (const Op& op = function_.op(reader);
            op.kind == OpKind::slice_ && !is_normed({op.results[0], last}))
          make_whole(op.results[0]);
    }
    readers_ = readers_of_values();
  }

  // Rows of what chooses, and of what is read as it chose: by rows too where those that read are cut, else a
  // part of each row.
  void cut_choices() {
    if (choices_.empty()) return;
    keep_parts_whole();
    for (const OpId id : choices_) {
      const auto product = product_of(id);
      const ValueId made = function_.op(id).results[0];
      stated_.values.insert_or_assign(made, cut_by(function_.type(made), rows_of(*product)));
    }
    known_ = propagate(function_, grid_, stated_.values);
    graph::walk(function_, function_.body(), [&](OpId id) {
      const Op& op = function_.op(id);
      if (op.kind != OpKind::gather_ || is_given(function_, op.operands[0])) return;
      const ValueId made = op.results[0];
      if (const auto rule = dimension_rule(function_, op); rule && is_whole(known_[graph::index_of(made)]))
        cut_last(made, rule->results[0]);
    });
  }

  // Where devices of the program get rows of a sum, rows of ours are columns there.
  void scatter_columns(ValueId made, const Product& product) {
    const int rows = rows_of(product), columns = free_dimension(product, product.weight, true);
    if (rows < 0 || columns < 0 || scattered(made, rows) == made) return;
    const ValueId turned = behind(made);
    stated_.values.try_emplace(turned, cut_by(function_.type(turned), columns));
    readers_ = readers_of_values();
    cut_rows_of(turned, product);
  }

  // Of what a product, or several together, give: behind their sum over the devices of the program.
  void cut_rows_of(ValueId made, const Product& product) {
    const int dim = rows_of(product);
    if (dim < 0) return;
    const ValueId sum = scattered(made, dim);
    if (!grid_.divides(axes_, function_.type(sum).dim(dim))) return;
    const ValueId rows = behind(sum);
    stated_.values.try_emplace(rows, cut_by(function_.type(rows), dim));
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
  std::map<ValueId, std::vector<ValueId>> splats_;  // copies of each
  std::vector<Product> products_;
  std::vector<ValueId> inputs_;
  std::set<OpId> around_heads_;  // products in front of and behind heads that the devices do not divide
  std::set<OpId> choices_;       // products whose columns are only compared, and those with their weights:
  std::set<ValueId> choosing_weights_;
  std::set<ValueId> ends_;       // of those behind
  std::vector<Place> key_rows_;  // sums over queries between them, and their rows
  std::vector<Cuts> known_;      // propagated
  Stated stated_;
};

}  // namespace

std::optional<ChainCuts> chain_cuts(Function function, const AxisGrid& grid, const Axes& axes) {
  return Chains(std::move(function), grid, axes).run();
}

}  // namespace opentrn::spmd
