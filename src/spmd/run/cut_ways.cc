#include "spmd/run/cut_ways.h"

#include <algorithm>
#include <map>

#include "compiler/analysis/values.h"
#include "spmd/dimension_rule.h"
#include "spmd/propagate.h"
#include "spmd/sdy_ops.h"

namespace opentrn::spmd {

using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

// What a loop or branch gives a block for its argument.
ValueId from_outside(const Function& function, ValueId argument) {
  const graph::Value& value = function.value(argument);
  const OpId parent = function.block(value.block).parent;
  return parent == graph::kNoOp || function.op(parent).kind != OpKind::while_
             ? argument
             : function.op(parent).operands[value.index];
}

// What a value is read through to find where it comes from; none of an op that computes.
std::optional<ValueId> read_through(const Op& op, ValueId value) {
  switch (op.kind) {
    case OpKind::all_gather_:
    case OpKind::all_to_all_:
    case OpKind::optimization_barrier_: {
      const auto at = std::ranges::find(op.results, value) - op.results.begin();
      return op.operands[static_cast<size_t>(at)];
    }
    case OpKind::convert_:
    case OpKind::dynamic_slice_: return op.operands[0];
    case OpKind::custom_call_:
      return is_sharding_constraint(op) ? std::optional(op.operands[0]) : std::nullopt;
    default: return compiler::is_view_op(op.kind) ? std::optional(op.operands[0]) : std::nullopt;
  }
}

}  // namespace

std::optional<ValueId> given_origin(const Function& function, ValueId value) {
  for (;;) {
    const Op* op = compiler::maker(function, value);
    if (!op) {
      const ValueId outer = from_outside(function, value);
      if (outer == value) break;
      value = outer;
      continue;
    }
    if (op->kind == OpKind::constant_) return value;
    const auto from = read_through(*op, value);
    if (!from) return std::nullopt;
    value = *from;
  }
  if (std::ranges::find(function.arguments(), value) == function.arguments().end()) return std::nullopt;
  return value;
}

bool is_given(const Function& function, ValueId value) { return given_origin(function, value).has_value(); }

namespace {

// The largest dimension of a product's result that comes from a weight alone (its columns), or from what it
// is multiplied with, which devices can share out evenly; -1: none.
int free_dimension(const Function& function, const Op& op, const DimensionRule& rule, const AxisGrid& grid,
                   const Axes& axes, bool of_weight) {
  if (op.operands.size() != 2 || op.results.size() != 1) return -1;
  const auto has = [&](size_t operand, int factor) {
    return std::ranges::any_of(rule.operands[operand], [&](const std::vector<int>& dim) {
      return std::ranges::find(dim, factor) != dim.end();
    });
  };
  bool multiplies = false;
  for (size_t f = 0; f < rule.factors.size(); ++f)
    multiplies |= rule.factors[f].kind == FactorKind::kReduction && has(0, static_cast<int>(f)) &&
                  has(1, static_cast<int>(f));
  if (!multiplies) return -1;
  const size_t weight = is_given(function, op.operands[1]) ? 1 : 0;
  if (!is_given(function, op.operands[weight])) return -1;
  const size_t side = of_weight ? weight : 1 - weight;
  const Type& type = function.type(op.results[0]);
  int found = -1;
  for (int d = 0; d < type.rank(); ++d) {
    const std::vector<int>& factors = rule.results[0][static_cast<size_t>(d)];
    if (factors.size() != 1 || !has(side, factors[0]) || has(1 - side, factors[0])) continue;
    if (grid.divides(axes, type.dim(d)) && (found < 0 || type.dim(d) > type.dim(found))) found = d;
  }
  return found;
}

Cuts cut_by(const Type& type, int dim, const Axes& axes) {
  Cuts cuts(static_cast<size_t>(type.rank()));
  cuts[static_cast<size_t>(dim)] = axes;
  return cuts;
}

class Ways {
 public:
  Ways(const Function& function, const AxisGrid& grid) : function_(function), grid_(grid) {}

  // Of the results that have such a dimension and that the devices divide; whether there are any.
  bool cut_results(int dim, const Axes& axes, Stated& to) const {
    bool cut = false;
    const auto returned = function_.returned();
    to.results.resize(returned.size());
    for (size_t i = 0; i < returned.size(); ++i) {
      const Type& type = function_.type(returned[i]);
      if (!type.is_tensor() || type.rank() <= dim || type.dim(dim) < grid_.count(axes) ||
          !grid_.divides(axes, type.dim(dim)) || is_given(function_, returned[i]))
        continue;
      to.results[i] = cut_by(type, dim, axes);
      to.values.try_emplace(returned[i], *to.results[i]);
      cut = true;
    }
    return cut;
  }

  // Of products with a weight that no cut reaches: its columns, or the rows that it is multiplied with.
  bool cut_products(const Axes& axes, bool columns, Stated& to) const {
    bool cut = false;
    to.results.resize(function_.returned().size());
    std::vector<Cuts> known = propagate(function_, grid_, to.values);
    graph::walk(function_, function_.body(), [&](OpId id) {
      const Op& op = function_.op(id);
      const auto rule = dimension_rule(function_, op);
      if (!rule) return;
      const int dim = free_dimension(function_, op, *rule, grid_, axes, columns);
      if (dim < 0 || is_cut(op, *rule, known, axes)) return;
      Cuts wanted = known[graph::index_of(op.results[0])];
      wanted[static_cast<size_t>(dim)].insert(wanted[static_cast<size_t>(dim)].end(), axes.begin(),
                                              axes.end());
      if (!to.values.try_emplace(op.results[0], wanted).second) return;
      known = propagate(function_, grid_, to.values);
      cut = true;
    });
    return cut;
  }

 private:
  bool is_cut(const Op& op, const DimensionRule& rule, const std::vector<Cuts>& known,
              const Axes& axes) const {
    std::vector<const Cuts*> operands, results;
    for (const ValueId value : op.operands) operands.push_back(&known[graph::index_of(value)]);
    for (const ValueId value : op.results) results.push_back(&known[graph::index_of(value)]);
    const auto factors = factor_axes(rule, grid_, operands, results);
    return std::ranges::any_of(factors, [&](const Axes& by) {
      return std::ranges::any_of(by, [&](int axis) { return std::ranges::find(axes, axis) != axes.end(); });
    });
  }

  const Function& function_;
  const AxisGrid& grid_;
};

}  // namespace

std::vector<CutWay> cut_ways(const Function& function, const AxisGrid& grid,
                             std::span<const std::string> axes) {
  const Ways ways(function, grid);
  const auto axes_named = [&](size_t begin, size_t end) {
    Sharding sharding{grid.mesh(), {{}}, {}};
    for (size_t i = begin; i < end; ++i) sharding.dims[0].push_back({axes[i], 1, 0});
    return grid.cuts_of(sharding, 1)[0];
  };
  const size_t count = axes.size();
  const Axes all = axes_named(0, count);
  std::vector<CutWay> found{{"whole", {}}};
  found[0].stated.results.resize(function.returned().size());
  const auto add = [&](const std::string& name, auto&& cut) {
    Stated stated;
    if (cut(stated)) found.push_back({name, std::move(stated)});
  };
  for (const int dim : {0, 1})
    add("results by dim " + std::to_string(dim), [&](Stated& to) { return ways.cut_results(dim, all, to); });
  add("products by rows", [&](Stated& to) { return ways.cut_products(all, false, to); });
  add("products by columns", [&](Stated& to) { return ways.cut_products(all, true, to); });
  if (count > 1)
    add("batch and columns", [&](Stated& to) {
      return ways.cut_results(0, axes_named(0, 1), to) && ways.cut_products(axes_named(1, count), true, to);
    });
  return found;
}

}  // namespace opentrn::spmd
