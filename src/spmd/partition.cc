#include "spmd/partition.h"

#include <algorithm>
#include <cstring>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "base/fault.h"
#include "compiler/analysis/values.h"
#include "graph/builder.h"
#include "graph/copy.h"
#include "spmd/reshard.h"
#include "spmd/sdy_ops.h"
#include "spmd/sums.h"

namespace opentrn::spmd {

using graph::Attr;
using graph::Attribute;
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

Cuts whole_cuts(const Type& type) { return Cuts(type.is_tensor() ? static_cast<size_t>(type.rank()) : 0); }

bool has_dynamic_values(const Function& function) {
  for (size_t i = 0; i < function.value_count(); ++i) {
    const Type& type = function.type(ValueId{static_cast<uint32_t>(i)});
    if (type.is_tensor() && !type.is_static()) return true;
  }
  return false;
}

// Whether a conversion or a division of terms gives terms: not where it cuts fractions off, or asks whether a
// number is zero.
bool is_of_floats(const Function& function, const Op& op) {
  return graph::is_float(function.type(op.operands[0]).element()) &&
         graph::is_float(function.type(op.results[0]).element());
}

// Whether the op makes of terms of this operand (and of the others for which this holds) terms of its result.
bool is_linear_in(const Function& function, const Op& op, const DimensionRule& rule, size_t operand) {
  struct Linear {
    OpKind kind;
    size_t begin = 0, end = ~size_t{0};  // operands
  };
  static constexpr Linear kLinear[] = {
      {OpKind::add_},          {OpKind::subtract_},
      {OpKind::negate_},       {OpKind::multiply_},
      {OpKind::convert_},      {OpKind::transpose_},
      {OpKind::reshape_},      {OpKind::broadcast_in_dim_},
      {OpKind::slice_},        {OpKind::concatenate_},
      {OpKind::pad_},          {OpKind::reverse_},
      {OpKind::reduce_},       {OpKind::divide_, 0, 1},
      {OpKind::gather_, 0, 1}, {OpKind::dynamic_slice_, 0, 1},
      {OpKind::select_, 1},    {OpKind::dynamic_update_slice_, 0, 2},
  };
  if (op.kind == OpKind::reduce_ && rule.combiner != OpKind::add_) return false;
  if (op.kind == OpKind::scatter_)
    return op.results.size() == 1 && operand != 1 && compiler::combiner_of(function, op) == OpKind::add_;
  if ((op.kind == OpKind::convert_ || op.kind == OpKind::divide_) && !is_of_floats(function, op))
    return false;
  const auto* found = std::ranges::find(kLinear, op.kind, &Linear::kind);
  return found != std::end(kLinear) && operand >= found->begin && operand < found->end;
}

// Copies an op's regions as they are; what they read from outside has been made before.
class RegionCopier : public graph::Copier {
 public:
  using Copier::Copier;
  void copy_regions(const Op& op, OpId made) {
    for (const BlockId region : op.regions) {
      const BlockId inner = to().add_block(made);
      for (const ValueId value : from().block(region).arguments) argument(value, inner);
      for (const OpId each : from().block(region).ops) copy(from().op(each), inner);
    }
  }
};

class Partitioner {
 public:
  Partitioner(const graph::Module& module, const Function& from, const AxisGrid& grid,
              const StatedCuts& stated)
      : from_(from),
        grid_(grid),
        stated_(stated),
        meshes_(meshes_of(module)),
        cuts_(propagate(from, grid, stated)) {
    made_.module = module.without_functions();
    to_ = &made_.module.add_function("main");
    resharder_.emplace(made_.module, *to_, grid);
  }

  SpmdModule run(const std::vector<const Cuts*>& outputs, const OpenSums& open, const OtherMeshes& other) {
    open_ = &open;
    find_kept();
    to_->attributes = from_.attributes;
    for (const ValueId argument : from_.arguments()) {
      if (const auto found = other.arguments.find(argument); found != other.arguments.end()) {
        const Type& type = from_.type(argument);
        locals_[argument] = {
            to_->add_argument(to_->body(), local_type(type, found->second)), whole_cuts(type), {}};
        made_.inputs.push_back(found->second);
        continue;
      }
      const Cuts& cuts = cuts_[index_of(argument)];
      const auto terms = open.arguments.find(argument);
      locals_[argument] = {to_->add_argument(to_->body(), grid_.local(from_.type(argument), cuts)), cuts,
                           terms == open.arguments.end() ? Axes() : terms->second};
      made_.inputs.push_back(grid_.sharding_of(cuts));
    }
    to_->argument_attributes = from_.argument_attributes;
    to_->result_attributes = from_.result_attributes;
    block_ = to_->body();
    for (const auto& [argument, sharding] : other.arguments) {
      ValueId& value = locals_.at(argument).value;
      value = gathered_by(sharding, value, from_.type(argument), made_.module, *to_, block_);
    }
    ops_of(from_.body());
    give(outputs, open, other);
    to_->argument_attributes.resize(to_->arguments().size());
    rearrange_sums(made_.module, *to_, grid_.devices());
    return std::move(made_);
  }

 private:
  struct Local {
    ValueId value;
    Cuts cuts;
    Axes open;  // along which devices hold terms of it, in the grid's order
  };

  // Values that somebody wants in terms: what makes them may leave them so.
  void find_kept() {
    graph::walk(from_, from_.body(), [&](OpId id) {
      const Op& op = from_.op(id);
      if (!is_sharding_constraint(op)) return;
      if (const auto found = open_->values.find(op.results[0]); found != open_->values.end())
        kept_[op.operands[0]] = found->second;
    });
    for (const auto& [place, axes] : open_->results) kept_.try_emplace(from_.returned()[place], axes);
  }
  Axes kept(ValueId value) const {
    const auto found = kept_.find(value);
    return found == kept_.end() ? Axes() : found->second;
  }

  void give(const std::vector<const Cuts*>& outputs, const OpenSums& open, const OtherMeshes& other) {
    std::vector<ValueId> returned;
    const auto values = from_.returned();
    for (size_t i = 0; i < values.size(); ++i) {
      if (const auto found = other.results.find(i); found != other.results.end()) {
        returned.push_back(shared_out_by(found->second, whole(values[i]), made_.module, *to_, block_));
        to_->result_types.push_back(to_->type(returned.back()));
        made_.outputs.push_back(found->second);
        continue;
      }
      const Cuts& wanted = i < outputs.size() && outputs[i] ? *outputs[i] : cuts_[index_of(values[i])];
      const auto terms = open.results.find(i);
      returned.push_back(in_terms(values[i], wanted, terms == open.results.end() ? Axes() : terms->second));
      to_->result_types.push_back(to_->type(returned.back()));
      made_.outputs.push_back(grid_.sharding_of(wanted));
    }
    to_->append(block_, OpKind::return_, std::move(returned), {});
  }

  // All ops of a block but its return.
  void ops_of(BlockId block) {
    const auto& ops = from_.block(block).ops;
    for (const OpId id : ops)
      if (id != ops.back()) run_op(id);
  }

  void run_op(OpId id) {
    const Op& op = from_.op(id);
    if (op.kind == OpKind::constant_) return;  // made where it is read
    if (op.kind == OpKind::while_ || op.kind == OpKind::if_ || op.kind == OpKind::case_) return led(op);
    if (is_manual_computation(op)) return manual(op);
    if (is_sharding_constraint(op)) return constrained(op);
    if (op.kind == OpKind::iota_ && counts_in_parts(op)) return counted(op);
    if (const auto rule = dimension_rule(from_, op))
      run_in_parts(op, *rule);
    else
      run_whole(op);
    for (const ValueId result : op.results)
      if (const auto found = stated_.find(result); found != stated_.end()) {
        const Axes open = locals_.at(result).open;
        const ValueId moved = in_terms(result, found->second, open);
        locals_[result] = {moved, found->second, open};
      }
  }

  // A value's part under other cuts, its sum made. A constant is made as it is wanted, unless it is stated
  // how it lies.
  ValueId under(ValueId value, const Cuts& wanted) { return in_terms(value, wanted, {}); }

  // The same with terms along the axes.
  ValueId in_terms(ValueId value, const Cuts& wanted, const Axes& open) {
    const Op* maker = compiler::maker(from_, value);
    const bool is_constant = maker && maker->kind == OpKind::constant_;
    const auto said = stated_.find(value);
    if (is_constant && said == stated_.end() && open.empty()) return constant(*maker, wanted);
    Local local;
    if (!is_constant)
      local = locals_.at(value);
    else if (said == stated_.end())
      local = {constant(*maker, wanted), wanted, {}};
    else
      local = {constant(*maker, said->second), said->second, {}};
    if (local.cuts == wanted && local.open == open) return local.value;
    for (auto& [block, moved] : moved_)
      if (const auto found = moved.find({value, wanted, open}); found != moved.end()) return found->second;
    open_along(local, open, from_.type(value));
    const ValueId made = resharder_->reshard(local.value, from_.type(value), local.cuts, wanted, block_);
    if (moved_.empty() || moved_.back().first != block_) moved_.push_back({block_, {}});
    return moved_.back().second[{value, wanted, open}] = made;
  }

  static Axes without(const Axes& axes, const Axes& others) {
    Axes rest;
    for (const int axis : axes)
      if (std::ranges::find(others, axis) == others.end()) rest.push_back(axis);
    return rest;
  }

  // Makes the sum along axes that are not wanted, and terms along those that are.
  void open_along(Local& local, const Axes& open, const Type& whole) {
    if (const Axes closed = without(local.open, open); !closed.empty())
      local.value = resharder_->all_reduce(local.value, closed, OpKind::add_, block_);
    Axes left = without(open, local.open);
    local.open = open;
    if (left.empty()) return;
    for (size_t d = 0; d < local.cuts.size(); ++d) {
      const Axes kept = without(local.cuts[d], left);
      if (kept == local.cuts[d]) continue;
      const Axes cut(local.cuts[d].begin() + static_cast<ptrdiff_t>(kept.size()), local.cuts[d].end());
      Cuts wanted = local.cuts;
      wanted[d] = kept;
      const bool is_even = grid_.divides(local.cuts[d], whole.dim(static_cast<int>(d)));
      if (is_even && common_prefix(kept, local.cuts[d]) == kept) {
        local.value = resharder_->in_place(local.value, cut, static_cast<int64_t>(d), block_);
        left = without(left, cut);
      } else {  // not the innermost of the dimension: gathered, and in the first term
        local.value = resharder_->reshard(local.value, whole, local.cuts, wanted, block_);
      }
      local.cuts = wanted;
    }
    if (!left.empty()) local.value = resharder_->first_term(local.value, left, block_);
  }

  ValueId whole(ValueId value) { return under(value, whole_cuts(from_.type(value))); }

  // One of a single value is made wherever it is read; parts of others are held by the devices.
  ValueId constant(const Op& op, const Cuts& wanted) {
    const Literal& literal = op.literal(Attr::value);
    const Type local = grid_.local(literal.type(), wanted);
    if (literal.is_splat() || is_whole(wanted)) {
      const OpId made = to_->append(block_, OpKind::constant_, {}, {local}, op.location);
      to_->op(made).attributes = op.attributes;
      if (literal.is_splat() && !(local == literal.type())) {
        const auto one =
            std::span(literal.element(0), static_cast<size_t>(graph::storage_bytes(local.element())));
        to_->op(made).set(Attr::value, Attribute(Literal(local, {one.begin(), one.end()})));
      }
      return to_->op(made).results[0];
    }
    const auto key = std::tuple(op.results[0], wanted, Axes());
    if (const auto found = held_.find(key); found != held_.end()) return found->second;
    made_.constants.push_back({made_.module.location(op.location).name, literal, grid_.sharding_of(wanted)});
    return held_[key] = to_->add_argument(to_->body(), local);
  }

  std::vector<ValueId> captured(const Op& op) const {
    return op.regions.empty() ? std::vector<ValueId>() : compiler::captured_by(from_, op);
  }

  // What regions read from outside stands before the op.
  OpId append_with_regions(const Op& op, std::vector<ValueId> operands) {
    RegionCopier copier(from_, *to_);
    for (const ValueId value : captured(op)) copier.set(value, whole(value));
    const OpId made = graph::copy_op(from_, op, std::move(operands), *to_, block_);
    copier.copy_regions(op, made);
    return made;
  }

  void run_whole(const Op& op) {
    std::vector<ValueId> operands;
    for (const ValueId value : op.operands) operands.push_back(whole(value));
    const OpId made = append_with_regions(op, std::move(operands));
    for (size_t i = 0; i < op.results.size(); ++i)
      locals_[op.results[i]] = {to_->op(made).results[i], whole_cuts(from_.type(op.results[i])), {}};
  }

  Axes open_of(ValueId value) const {
    const auto found = locals_.find(value);
    return found == locals_.end() ? Axes() : found->second.open;
  }

  // The axes along which the op is done on terms: those of its operands, where its result is wanted so.
  Axes axes_of_terms(const Op& op, const DimensionRule& rule, const std::vector<Axes>& of_factors) const {
    if (op.results.size() != 1) return {};
    Axes open;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Axes more = without(open_of(op.operands[i]), open);
      if (more.empty()) continue;
      if (!is_linear_in(from_, op, rule, i) || (op.kind == OpKind::multiply_ && !open.empty())) return {};
      open.insert(open.end(), more.begin(), more.end());
    }
    std::ranges::sort(open);
    if (!without(open, kept(op.results[0])).empty()) return {};
    for (const Axes& axes : of_factors)
      if (without(open, axes) != open) return {};
    return open;
  }

  std::vector<const Cuts*> propagated(const std::vector<ValueId>& values) const {
    std::vector<const Cuts*> all;
    for (const ValueId value : values) all.push_back(&cuts_[index_of(value)]);
    return all;
  }

  void run_in_parts(const Op& op, const DimensionRule& rule) {
    const std::vector<Axes> axes = factor_axes(rule, grid_, propagated(op.operands), propagated(op.results));
    Axes reduced;
    for (size_t f = 0; f < axes.size(); ++f)
      if (rule.factors[f].kind == FactorKind::kReduction)
        reduced.insert(reduced.end(), axes[f].begin(), axes[f].end());
    const Axes open = axes_of_terms(op, rule, axes);
    std::vector<ValueId> operands;
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Cuts wanted = cuts_from(rule.operands[i], axes);
      operands.push_back(in_terms(op.operands[i], wanted, wants_terms(op, rule, i) ? open : Axes()));
      if (!reduced.empty()) operands.back() = terms_only(op, rule, i, wanted, axes, operands.back());
    }
    std::optional<ValueId> start;
    if (op.kind == OpKind::reduce_ && !reduced.empty()) {
      start = operands.back();
      graph::Builder builder(made_.module, *to_, block_);
      operands.back() = builder.constant(graph::neutral_element(rule.combiner, to_->type(*start).element()));
    }
    const bool adds_later = op.kind == OpKind::scatter_ && !reduced.empty() && !is_neutral(op, rule.combiner);
    if (adds_later) operands[0] = neutral_like(operands[0], rule.combiner);
    const OpId made = append_with_regions(op, std::move(operands));
    localise(op, made, rule, axes);
    for (size_t i = 0; i < op.results.size(); ++i) {
      Local& local = locals_[op.results[i]];
      local = {to_->op(made).results[i], cuts_from(rule.results[i], axes), open};
      if (!reduced.empty()) combine(local, rule.combiner, reduced, op.results[i], start);
    }
    if (adds_later) add_array(op, rule.combiner);
  }

  // Whether a scatter's array changes no update: then each device may begin with it.
  bool is_neutral(const Op& op, OpKind combiner) const {
    const Op* maker = compiler::maker(from_, op.operands[0]);
    if (maker && maker->kind == OpKind::broadcast_in_dim_) maker = compiler::maker(from_, maker->operands[0]);
    if (!maker || maker->kind != OpKind::constant_) return false;
    const Literal& literal = maker->literal(Attr::value);
    if (!literal.is_splat()) return false;
    const Literal neutral = graph::neutral_element(combiner, literal.type().element());
    const auto size = static_cast<size_t>(graph::storage_bytes(literal.type().element()));
    return std::memcmp(literal.element(0), neutral.element(0), size) == 0;
  }

  ValueId neutral_like(ValueId value, OpKind combiner) {
    const Type& type = to_->type(value);
    graph::Builder builder(made_.module, *to_, block_);
    const ValueId one = builder.constant(graph::neutral_element(combiner, type.element()));
    return builder.broadcast_in_dim(one, type.dims_vector(), {});
  }

  // The array that a scatter adds to, behind what the devices' updates come to: in the first term of those.
  void add_array(const Op& op, OpKind combiner) {
    Local& local = locals_.at(op.results[0]);
    const ValueId array = in_terms(op.operands[0], local.cuts, local.open);
    graph::Builder builder(made_.module, *to_, block_);
    local.value = builder.add(combiner, {array, local.value});
  }

  // Of an operand that is summed over, without what is padding of the dimensions that are.
  ValueId terms_only(const Op& op, const DimensionRule& rule, size_t operand, const Cuts& cuts,
                     const std::vector<Axes>& axes, ValueId value) {
    Cuts summed(cuts.size());
    for (size_t d = 0; d < cuts.size(); ++d)
      for (const int f : rule.operands[operand][d])
        if (rule.factors[static_cast<size_t>(f)].kind == FactorKind::kReduction)
          summed[d] = axes[static_cast<size_t>(f)];
    return resharder_->without_padding(value, from_.type(op.operands[operand]), summed, rule.combiner,
                                       block_);
  }

  // Of an operand of an op that is done on terms. One factor of a product is whole.
  bool wants_terms(const Op& op, const DimensionRule& rule, size_t operand) const {
    return is_linear_in(from_, op, rule, operand) &&
           (op.kind != OpKind::multiply_ || !open_of(op.operands[operand]).empty());
  }

  // Terms of all devices. Where the result is wanted in parts along the same axes, each gets its own only.
  void combine(Local& local, OpKind combiner, const Axes& axes, ValueId result,
               std::optional<ValueId> start) {
    const Type& type = from_.type(result);
    Axes closed = axes;
    if (combiner == OpKind::add_) {
      closed = without(axes, kept(result));
      const Axes terms = without(axes, closed);
      local.open.insert(local.open.end(), terms.begin(), terms.end());
      std::ranges::sort(local.open);
    }
    if (!closed.empty()) close(local, combiner, closed, result, type);
    if (!start) return;
    ValueId first = *start;
    if (const Axes terms = without(axes, closed); !terms.empty())
      first = resharder_->first_term(first, terms, block_);
    graph::Builder builder(made_.module, *to_, block_);
    const ValueId all = builder.broadcast_in_dim(first, to_->type(local.value).dims_vector(), {});
    local.value = builder.add(combiner, {local.value, all});
  }

  void close(Local& local, OpKind combiner, const Axes& axes, ValueId result, const Type& type) {
    const Cuts& wanted = cuts_[index_of(result)];
    size_t target = wanted.size();
    for (size_t d = 0; d < wanted.size(); ++d) {
      Axes longer = local.cuts[d];
      longer.insert(longer.end(), axes.begin(), axes.end());
      if (wanted[d] == longer && grid_.divides(longer, type.dim(static_cast<int>(d)))) target = d;
    }
    if (target < wanted.size()) {
      local.value =
          resharder_->reduce_scatter(local.value, axes, combiner, static_cast<int64_t>(target), block_);
      local.cuts[target] = wanted[target];
    } else {
      local.value = resharder_->all_reduce(local.value, axes, combiner, block_);
    }
  }

  // Types and sizes of one device's part.
  void localise(const Op& op, OpId made, const DimensionRule& rule, const std::vector<Axes>& axes) {
    Op& local = to_->op(made);
    for (size_t i = 0; i < op.results.size(); ++i)
      to_->value(local.results[i]).type =
          grid_.local(from_.type(op.results[i]), cuts_from(rule.results[i], axes));
    if (op.kind == OpKind::slice_) {
      std::vector<int64_t> limits(op.integers(Attr::limit_indices).begin(),
                                  op.integers(Attr::limit_indices).end());
      const Cuts cuts = cuts_from(rule.operands[0], axes);
      for (size_t d = 0; d < limits.size(); ++d)
        if (!cuts[d].empty()) limits[d] = grid_.local_size(limits[d], cuts[d]);
      local.set(Attr::limit_indices, Attribute(std::move(limits)));
    }
    if (op.kind == OpKind::dynamic_slice_)
      local.set(Attr::slice_sizes, Attribute(to_->type(local.results[0]).dims_vector()));
    if (op.kind == OpKind::scatter_) {  // indices of padding are all the same place
      for (size_t f = 0; f < axes.size(); ++f)
        if (rule.factors[f].kind == FactorKind::kReduction && !grid_.divides(axes[f], rule.factors[f].size))
          for (const Attr promise : {Attr::indices_are_sorted, Attr::unique_indices})
            local.set(promise, Attribute(false));
    }
    if (op.kind == OpKind::gather_) {
      std::vector<int64_t> sizes(op.integers(Attr::slice_sizes).begin(),
                                 op.integers(Attr::slice_sizes).end());
      const Cuts cuts = cuts_from(rule.operands[0], axes);
      for (size_t d = 0; d < sizes.size(); ++d) sizes[d] = grid_.local_size(sizes[d], cuts[d]);
      local.set(Attr::slice_sizes, Attribute(std::move(sizes)));
    }
  }

  bool counts_in_parts(const Op& op) const {
    const auto along = static_cast<size_t>(op.integer(Attr::iota_dimension));
    const Axes& axes = cuts_[index_of(op.results[0])][along];
    return !axes.empty() && grid_.divides(axes, from_.type(op.results[0]).dim(static_cast<int>(along)));
  }

  // Numbers along a dimension that is cut: from where the device's part begins. The sum is of one row of
  // them.
  void counted(const Op& op) {
    const Cuts& cuts = cuts_[index_of(op.results[0])];
    const auto along = static_cast<size_t>(op.integer(Attr::iota_dimension));
    const Type local = grid_.local(from_.type(op.results[0]), cuts);
    const Type row = local.with_dims({local.dim(static_cast<int>(along))});
    graph::Builder builder(made_.module, *to_, block_);
    const ValueId index = resharder_->index(cuts[along]);
    const ValueId first = builder.add(
        OpKind::multiply_, {index, builder.splat(to_->type(index), static_cast<double>(row.dim(0)))});
    const ValueId begin =
        builder.broadcast_in_dim(builder.convert(first, local.element()), row.dims_vector(), {});
    const OpId numbers = graph::copy_op(from_, op, {}, *to_, block_);
    to_->value(to_->op(numbers).results[0]).type = row;
    to_->op(numbers).set(Attr::iota_dimension, Attribute(int64_t{0}));
    const ValueId counted = builder.add(OpKind::add_, {to_->op(numbers).results[0], begin});
    locals_[op.results[0]] = {
        builder.broadcast_in_dim(counted, local.dims_vector(), {static_cast<int64_t>(along)}), cuts, {}};
  }

  // An op that only says how its operand is to lie.
  void constrained(const Op& op) {
    const Cuts& cuts = cuts_[index_of(op.results[0])];
    const auto found = open_->values.find(op.results[0]);
    const Axes open = found == open_->values.end() ? Axes() : found->second;
    locals_[op.results[0]] = {in_terms(op.operands[0], cuts, open), cuts, open};
  }

  // A region in which the program is one device's already: its ops take the place of the op.
  void manual(const Op& op) {
    const ManualShardings shardings = manual_shardings(op, meshes_);
    RegionCopier copier(from_, *to_);
    const graph::Block& body = from_.block(op.regions[0]);
    for (const ValueId value : captured(op)) copier.set(value, whole(value));
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const ValueId operand = lying(op.operands[i], shardings.in[i]);
      if (!(to_->type(operand) == from_.type(body.arguments[i])))
        throw Fault(FaultKind::kNotModelled, "sdy.divisible",
                    fmt::format("a manual computation takes {}, of which its devices have parts of {}",
                                from_.type(body.arguments[i]).to_string(), to_->type(operand).to_string()),
                    "pad it, or shard another dimension");
      copier.set(body.arguments[i], operand);
    }
    for (const OpId id : std::span(body.ops).first(body.ops.size() - 1)) {
      if (is_manual_computation(from_.op(id)))
        throw Fault(FaultKind::kNotModelled, "sdy.manual_computation", "one inside another");
      (void)copier.copy(from_.op(id), block_);
    }
    const auto& returned = from_.op(body.ops.back()).operands;
    for (size_t i = 0; i < op.results.size(); ++i) {
      const ValueId part = copier.at(returned[i]), result = op.results[i];
      if (grid_.expresses(shardings.out[i]))
        locals_[result] = {part, grid_.cuts_of(shardings.out[i], static_cast<int>(rank(result))),
                           grid_.open_axes_of(shardings.out[i])};
      else
        locals_[result] = {
            gathered_by(closed(shardings.out[i]), part, from_.type(result), made_.module, *to_, block_),
            whole_cuts(from_.type(result)),
            {}};
    }
  }

  static const Sharding& closed(const Sharding& sharding) {
    if (!sharding.unreduced.empty())
      throw Fault(FaultKind::kNotModelled, "sdy.unreduced",
                  "a sum that stays open between devices of another mesh than the program's");
    return sharding;
  }

  // A value's part under a sharding of any mesh.
  ValueId lying(ValueId value, const Sharding& sharding) {
    if (grid_.expresses(sharding))
      return in_terms(value, grid_.cuts_of(sharding, static_cast<int>(rank(value))),
                      grid_.open_axes_of(sharding));
    return shared_out_by(closed(sharding), whole(value), made_.module, *to_, block_);
  }

  size_t rank(ValueId value) const {
    const Type& type = from_.type(value);
    return type.is_tensor() ? static_cast<size_t>(type.rank()) : 0;
  }

  // A loop or branch: its regions are partitioned too.
  void led(const Op& op) {
    const bool loops = op.kind == OpKind::while_;
    std::vector<ValueId> operands;
    std::vector<Axes> open(op.results.size());  // what a loop begins with in terms stays in terms
    for (size_t i = 0; i < op.operands.size(); ++i) {
      if (const auto found = locals_.find(op.operands[i]); loops && found != locals_.end())
        open[i] = found->second.open;
      operands.push_back(loops ? in_terms(op.operands[i], cuts_[index_of(op.results[i])], open[i])
                               : whole(op.operands[i]));
    }
    const OpId made = graph::copy_op(from_, op, std::move(operands), *to_, block_);
    for (size_t i = 0; i < op.results.size(); ++i) {
      const Cuts& cuts = cuts_[index_of(op.results[i])];
      const ValueId result = to_->op(made).results[i];
      to_->value(result).type = grid_.local(from_.type(op.results[i]), cuts);
      locals_[op.results[i]] = {result, cuts, open[i]};
    }
    for (size_t r = 0; r < op.regions.size(); ++r) region(op, made, r, loops && r == 0, open);
  }

  void region(const Op& op, OpId made, size_t number, bool is_condition, const std::vector<Axes>& open) {
    const BlockId outer = block_, from = op.regions[number];
    block_ = to_->add_block(made);
    const auto& arguments = from_.block(from).arguments;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Cuts& cuts = cuts_[index_of(op.results[i])];
      locals_[arguments[i]] = {to_->add_argument(block_, grid_.local(from_.type(arguments[i]), cuts)), cuts,
                               open[i]};
    }
    ops_of(from);
    std::vector<ValueId> returned;
    const auto& values = from_.op(from_.block(from).ops.back()).operands;
    for (size_t i = 0; i < values.size(); ++i)
      returned.push_back(is_condition ? whole(values[i])
                                      : in_terms(values[i], cuts_[index_of(op.results[i])], open[i]));
    to_->append(block_, OpKind::return_, std::move(returned), {});
    // What was moved inside is not there outside.
    std::erase_if(moved_, [&](const auto& each) { return each.first == block_; });
    block_ = outer;
  }

  const Function& from_;
  const AxisGrid& grid_;
  const StatedCuts& stated_;
  const Meshes meshes_;
  const std::vector<Cuts> cuts_;  // propagated
  const OpenSums* open_ = nullptr;
  std::map<ValueId, Axes> kept_;
  SpmdModule made_;
  Function* to_ = nullptr;
  std::optional<Resharder> resharder_;
  BlockId block_{};
  std::unordered_map<ValueId, Local> locals_;
  using Moved = std::map<std::tuple<ValueId, Cuts, Axes>, ValueId>;  // with the axes of its terms
  std::vector<std::pair<BlockId, Moved>> moved_;                     // by the block that it was made in
  Moved held_;                                                       // constants that are arguments
};

}  // namespace

SpmdModule partition(const graph::Module& module, const Function& function, const AxisGrid& grid,
                     const StatedCuts& stated, const std::vector<const Cuts*>& outputs, const OpenSums& open,
                     const OtherMeshes& other) {
  if (has_dynamic_values(function))
    throw Fault(FaultKind::kNotModelled, "spmd.dynamic_shape",
                fmt::format("@{} has arrays whose sizes are known when it runs only", function.name),
                "state the sizes, or run it on one core");
  return Partitioner(module, function, grid, stated).run(outputs, open, other);
}

}  // namespace opentrn::spmd
