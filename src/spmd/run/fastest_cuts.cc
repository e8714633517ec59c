#include "spmd/run/fastest_cuts.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/fault.h"
#include "compiler/analysis/values.h"
#include "compiler/canonicalise/passes.h"
#include "graph/verify.h"
#include "spmd/dimension_rule.h"
#include "spmd/one_device.h"
#include "spmd/propagate.h"

namespace opentrn::spmd {

using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::Type;
using graph::ValueId;

namespace {

// A constant or an argument, through ops that only lay it out anew or change its type.
bool is_given(const Function& function, ValueId value) {
  for (const Op* op = compiler::maker(function, value); op; op = compiler::maker(function, value)) {
    if (op->kind == OpKind::constant_) return true;
    if (!compiler::is_view_op(op->kind) && op->kind != OpKind::convert_) return false;
    value = op->operands[0];
  }
  return std::ranges::find(function.arguments(), value) != function.arguments().end();
}

// The dimension of a product's result that comes from a weight alone, which devices can share out evenly; -1:
// none.
int column_dimension(const Function& function, const Op& op, const DimensionRule& rule, const AxisGrid& grid,
                     const Axes& axes) {
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
  const Type& type = function.type(op.results[0]);
  int found = -1;
  for (int d = 0; d < type.rank(); ++d) {
    const std::vector<int>& factors = rule.results[0][static_cast<size_t>(d)];
    if (factors.size() != 1 || !has(weight, factors[0]) || has(1 - weight, factors[0])) continue;
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

  bool cut_products(const Axes& axes, Stated& to) const {
    bool cut = false;
    to.results.resize(function_.returned().size());
    std::vector<Cuts> known = propagate(function_, grid_, to.values);
    graph::walk(function_, function_.body(), [&](OpId id) {
      const Op& op = function_.op(id);
      const auto rule = dimension_rule(function_, op);
      if (!rule) return;
      const int dim = column_dimension(function_, op, *rule, grid_, axes);
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

std::vector<std::pair<std::string, Stated>> ways_of(const Function& function, const AxisGrid& grid,
                                                    const Mesh& mesh) {
  const Ways ways(function, grid);
  const auto axes_named = [&](size_t begin, size_t end) {
    Sharding sharding{mesh, {{}}, {}};
    for (size_t i = begin; i < end; ++i) sharding.dims[0].push_back({mesh.axes[i].name, 1, 0});
    return grid.cuts_of(sharding, 1)[0];
  };
  const size_t count = mesh.axes.size();
  const Axes all = axes_named(0, count);
  std::vector<std::pair<std::string, Stated>> found{{"whole", {}}};
  found[0].second.results.resize(function.returned().size());
  const auto add = [&](const std::string& name, auto&& cut) {
    Stated stated;
    if (cut(stated)) found.emplace_back(name, std::move(stated));
  };
  for (const int dim : {0, 1})
    add("results by dim " + std::to_string(dim), [&](Stated& to) { return ways.cut_results(dim, all, to); });
  add("products by columns", [&](Stated& to) { return ways.cut_products(all, to); });
  if (count > 1)
    add("batch and columns", [&](Stated& to) {
      return ways.cut_results(0, axes_named(0, 1), to) && ways.cut_products(axes_named(1, count), to);
    });
  return found;
}

}  // namespace

FastestCuts fastest_cuts(const graph::Module& module, const Mesh& mesh, const compiler::Options& options,
                         const runtime::Settings& settings) {
  graph::verify(module);
  const AxisGrid grid(mesh);
  const Function flat = compiler::inline_calls(module, module.entry());
  if (is_of_one_device(flat))
    throw Fault(FaultKind::kInput, "spmd.one_device",
                "the program is one device's, with collectives of its own: there is nothing to choose",
                "leave auto out, and state how its inputs and results lie");
  FastestCuts best;
  double least = std::numeric_limits<double>::infinity();
  for (auto& [name, stated] : ways_of(flat, grid, mesh)) {
    auto made = std::make_shared<ShardedModel>(module, mesh, std::move(stated), options, settings, name);
    const std::optional<double> us = made->host_reason().empty() ? made->cost().device_us : std::nullopt;
    best.ways.push_back({name, us});
    if (best.model && us.value_or(least) >= least && least < std::numeric_limits<double>::infinity())
      continue;
    least = us.value_or(least);
    best.model = std::move(made);
  }
  return best;
}

}  // namespace opentrn::spmd
