#include "spmd/propagate.h"

#include <algorithm>
#include <map>

namespace opentrn::spmd {

using graph::BlockId;
using graph::Function;
using graph::index_of;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

// The first axes whose count divides `size`.
Axes dividing(const AxisGrid& grid, const Axes& axes, int64_t size) {
  Axes fit;
  for (const int axis : axes) {
    fit.push_back(axis);
    if (size % grid.count(fit) == 0) continue;
    fit.pop_back();
    break;
  }
  return fit;
}

class FactorAxes {
 public:
  FactorAxes(const DimensionRule& rule, const AxisGrid& grid) : rule_(rule), grid_(grid) {
    axes.resize(rule.factors.size());
  }

  // What a value's cuts say.
  void hear(const DimensionFactors& dimensions, const Cuts& cuts) {
    for (size_t d = 0; d < dimensions.size(); ++d) hear(dimensions[d], cuts[d]);
  }

  void settle() {
    for (const auto* values : {&rule_.operands, &rule_.results})
      for (const DimensionFactors& dimensions : *values)
        for (const std::vector<int>& factors : dimensions)
          if (factors.size() > 1)
            for (const int f : factors) of(f) = dividing(grid_, of(f), factor(f).size);
    take_each_axis_once();
    while (clear_inner()) {
    }
  }

  std::vector<Axes> axes;

 private:
  Axes& of(int factor) { return axes[static_cast<size_t>(factor)]; }
  const Factor& factor(int f) const { return rule_.factors[static_cast<size_t>(f)]; }

  void hear(const std::vector<int>& factors, const Axes& cut_by) {
    if (factors.size() == 1) return hear(factors[0], cut_by);
    auto next = cut_by.begin();
    for (const int f : factors) {
      const Axes fit = dividing(grid_, Axes(next, cut_by.end()), factor(f).size);
      hear(f, fit);
      next += static_cast<ptrdiff_t>(fit.size());
      if (grid_.count(fit) != factor(f).size) return;
    }
  }

  // The longer one where one begins with the other, else what was there first.
  void hear(int f, const Axes& cut_by) {
    if (common_prefix(of(f), cut_by) == of(f)) of(f) = cut_by;
  }

  // Two factors of one value cannot have an axis both, and a sum over an axis is one of the whole op. Values
  // that an op only passes on (a barrier's) are cut each for itself.
  void take_each_axis_once() {
    std::map<int, std::vector<int>> takers;  // of an axis
    for (const FactorKind kind : {FactorKind::kParallel, FactorKind::kReduction})
      for (size_t f = 0; f < axes.size(); ++f) {
        if (rule_.factors[f].kind != kind) continue;
        const auto is_taken = [&](int axis) {
          return std::ranges::any_of(takers[axis], [&](int by) { return exclude(static_cast<int>(f), by); });
        };
        axes[f].erase(std::ranges::find_if(axes[f], is_taken), axes[f].end());
        for (const int axis : axes[f]) takers[axis].push_back(static_cast<int>(f));
      }
  }

  bool exclude(int a, int b) const {
    if (factor(a).kind == FactorKind::kReduction || factor(b).kind == FactorKind::kReduction) return true;
    const auto has = [](const DimensionFactors& dimensions, int f) {
      return std::ranges::any_of(
          dimensions, [f](const std::vector<int>& each) { return std::ranges::find(each, f) != each.end(); });
    };
    for (const auto* values : {&rule_.operands, &rule_.results})
      for (const DimensionFactors& dimensions : *values)
        if (has(dimensions, a) && has(dimensions, b)) return true;
    return false;
  }

  // Whether there was an inner factor to clear.
  bool clear_inner() {
    bool changed = false;
    for (const auto* values : {&rule_.operands, &rule_.results})
      for (const DimensionFactors& dimensions : *values)
        for (const std::vector<int>& factors : dimensions) {
          bool full = true;
          for (const int f : factors) {
            if (!full && !of(f).empty()) {
              of(f).clear();
              changed = true;
            }
            full = full && grid_.count(of(f)) == factor(f).size;
          }
        }
    return changed;
  }

  const DimensionRule& rule_;
  const AxisGrid& grid_;
};

class Propagation {
 public:
  Propagation(const Function& function, const AxisGrid& grid, const StatedCuts& stated)
      : function_(function), stated_(stated), grid_(grid), cuts_(function.value_count()) {
    for (size_t i = 0; i < cuts_.size(); ++i) {
      const graph::Type& type = function.type(ValueId{static_cast<uint32_t>(i)});
      if (type.is_tensor()) cuts_[i].resize(static_cast<size_t>(type.rank()));
    }
    for (const auto& [value, cuts] : stated) cuts_[index_of(value)] = cuts;
    graph::walk(function, function.body(), [&](OpId id) { add(function.op(id)); });
  }

  std::vector<Cuts> run() {
    do {
      changed_ = false;
      for (const Tie& tie : ties_) step(tie);
      for (size_t i = ties_.size(); i-- > 0;) step(ties_[i]);
    } while (changed_);
    return std::move(cuts_);
  }

 private:
  struct Tie {
    DimensionRule rule;
    std::vector<ValueId> operands, results;
  };

  void add(const Op& op) {
    for (const std::vector<ValueId>& values : tied_values(function_, op)) {
      Tie tie{{}, {}, values};
      const graph::Type& type = function_.type(values[0]);
      DimensionFactors dimensions;
      for (int d = 0; d < (type.is_tensor() ? type.rank() : 0); ++d) {
        tie.rule.factors.push_back({type.dim(d), FactorKind::kParallel});
        dimensions.push_back({d});
      }
      tie.rule.results.assign(values.size(), dimensions);
      ties_.push_back(std::move(tie));
    }
    if (auto rule = dimension_rule(function_, op))
      ties_.push_back({std::move(*rule), op.operands, op.results});
  }

  std::vector<const Cuts*> of(const std::vector<ValueId>& values) const {
    std::vector<const Cuts*> all;
    for (const ValueId value : values) all.push_back(&cuts_[index_of(value)]);
    return all;
  }

  void step(const Tie& tie) {
    const std::vector<Axes> axes = factor_axes(tie.rule, grid_, of(tie.operands), of(tie.results));
    for (size_t i = 0; i < tie.operands.size(); ++i) grow(tie.operands[i], tie.rule.operands[i], axes);
    for (size_t i = 0; i < tie.results.size(); ++i) grow(tie.results[i], tie.rule.results[i], axes);
  }

  // Cuts only get longer, so this ends.
  void grow(ValueId value, const DimensionFactors& dimensions, const std::vector<Axes>& axes) {
    if (stated_.contains(value)) return;
    Cuts& cuts = cuts_[index_of(value)];
    const Cuts wanted = cuts_from(dimensions, axes);
    for (size_t d = 0; d < cuts.size(); ++d) {
      if (wanted[d].size() <= cuts[d].size() || common_prefix(wanted[d], cuts[d]) != cuts[d]) continue;
      Axes more = cuts[d];
      for (size_t i = cuts[d].size(); i < wanted[d].size() && !is_used(cuts, wanted[d][i]); ++i)
        more.push_back(wanted[d][i]);
      changed_ |= more.size() > cuts[d].size();
      cuts[d] = std::move(more);
    }
  }

  static bool is_used(const Cuts& cuts, int axis) {
    return std::ranges::any_of(cuts,
                               [&](const Axes& axes) { return std::ranges::find(axes, axis) != axes.end(); });
  }

  const Function& function_;
  const StatedCuts& stated_;
  const AxisGrid& grid_;
  std::vector<Cuts> cuts_;
  std::vector<Tie> ties_;
  bool changed_ = false;
};

}  // namespace

std::vector<std::vector<ValueId>> tied_values(const Function& function, const Op& op) {
  const auto returned = [&](BlockId region) {
    return function.op(function.block(region).ops.back()).operands;
  };
  std::vector<std::vector<ValueId>> ties;
  if (op.kind == OpKind::while_) {
    const graph::Block &condition = function.block(op.regions[0]), &body = function.block(op.regions[1]);
    for (size_t i = 0; i < op.results.size(); ++i)
      ties.push_back({op.operands[i], condition.arguments[i], body.arguments[i], returned(op.regions[1])[i],
                      op.results[i]});
  }
  if (op.kind == OpKind::if_ || op.kind == OpKind::case_)
    for (size_t i = 0; i < op.results.size(); ++i) {
      std::vector<ValueId>& tie = ties.emplace_back();
      for (const BlockId region : op.regions) tie.push_back(returned(region)[i]);
      tie.push_back(op.results[i]);
    }
  return ties;
}

std::vector<Axes> factor_axes(const DimensionRule& rule, const AxisGrid& grid,
                              const std::vector<const Cuts*>& operands,
                              const std::vector<const Cuts*>& results) {
  FactorAxes made(rule, grid);
  for (size_t i = 0; i < results.size(); ++i) made.hear(rule.results[i], *results[i]);
  for (size_t i = 0; i < operands.size(); ++i) made.hear(rule.operands[i], *operands[i]);
  made.settle();
  return std::move(made.axes);
}

Cuts cuts_from(const DimensionFactors& dimensions, const std::vector<Axes>& of_factors) {
  Cuts cuts;
  for (const std::vector<int>& factors : dimensions) {
    Axes& axes = cuts.emplace_back();
    for (const int f : factors) {
      const Axes& more = of_factors[static_cast<size_t>(f)];
      axes.insert(axes.end(), more.begin(), more.end());
    }
  }
  return cuts;
}

std::vector<Cuts> propagate(const Function& function, const AxisGrid& grid, const StatedCuts& stated) {
  return Propagation(function, grid, stated).run();
}

}  // namespace opentrn::spmd
