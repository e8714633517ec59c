#include "spmd/dimension_rule.h"

#include <algorithm>
#include <set>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/values.h"
#include "graph/op_definitions.h"
#include "graph/solver_call.h"
#include "spmd/sdy_ops.h"

namespace opentrn::spmd {

using compiler::Dims;
using compiler::dims_of;
using graph::Attr;
using graph::Function;
using graph::Op;
using graph::OpKind;
using graph::Type;

namespace {

bool contains(const Dims& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

int64_t place_in(const Dims& list, int64_t value) {
  return std::find(list.begin(), list.end(), value) - list.begin();
}

DimensionFactors no_factors(const Type& type) {
  return DimensionFactors(type.is_tensor() ? static_cast<size_t>(type.rank()) : 0);
}

// The rule of one op while it is made.
class Rule {
 public:
  Rule(const Function& function, const Op& op) : function_(function), op(op) {
    for (const graph::ValueId value : op.operands) made.operands.push_back(no_factors(function.type(value)));
    for (const graph::ValueId value : op.results) made.results.push_back(no_factors(function.type(value)));
  }

  const Type& operand(size_t i) const { return function_.type(op.operands[i]); }
  const Type& result(size_t i = 0) const { return function_.type(op.results[i]); }
  const Function& function() const { return function_; }

  int factor(int64_t size, FactorKind kind = FactorKind::kParallel) {
    made.factors.push_back({size, kind});
    return static_cast<int>(made.factors.size()) - 1;
  }
  void of_operand(size_t i, int64_t d, int factor) {
    made.operands[i][static_cast<size_t>(d)].push_back(factor);
  }
  void of_result(size_t i, int64_t d, int factor) {
    made.results[i][static_cast<size_t>(d)].push_back(factor);
  }
  // A dimension of operand 0 that is one of all results, at the same place or at `to`.
  void passes(int64_t from, int64_t to) {
    const int f = factor(operand(0).dim(static_cast<int>(from)));
    of_operand(0, from, f);
    for (size_t i = 0; i < made.results.size(); ++i) of_result(i, to, f);
  }

  DimensionRule made;

 private:
  const Function& function_;

 public:
  const Op& op;
};

// Every dimension but `whole` is the same one of all operands and results that have the first result's rank;
// scalars among the operands are whole.
void alike(Rule& rule, const Dims& whole = {}) {
  for (int64_t d = 0; d < rule.result().rank(); ++d) {
    if (contains(whole, d)) continue;
    const int f = rule.factor(rule.result().dim(static_cast<int>(d)));
    for (size_t i = 0; i < rule.made.operands.size(); ++i)
      if (rule.operand(i).is_tensor() && rule.operand(i).rank() == rule.result().rank())
        rule.of_operand(i, d, f);
    for (size_t i = 0; i < rule.made.results.size(); ++i) rule.of_result(i, d, f);
  }
}

void broadcast_in_dim(Rule& rule) {
  const Dims to = dims_of(rule.op, Attr::broadcast_dimensions);
  for (int64_t d = 0; d < rule.result().rank(); ++d) {
    const int f = rule.factor(rule.result().dim(static_cast<int>(d)));
    rule.of_result(0, d, f);
    const int64_t from = place_in(to, d);
    if (from < static_cast<int64_t>(to.size()) &&
        rule.operand(0).dim(static_cast<int>(from)) == rule.result().dim(static_cast<int>(d)))
      rule.of_operand(0, from, f);
  }
}

void transpose(Rule& rule) {
  const Dims permutation = dims_of(rule.op, Attr::permutation);
  for (size_t d = 0; d < permutation.size(); ++d) rule.passes(permutation[d], static_cast<int64_t>(d));
}

// Dimensions of one side that hold the same elements as some of the other: cut into the factors of both, as
// long as one's size divides the other's.
void reshape(Rule& rule) {
  const auto from = rule.operand(0).dims(), to = rule.result().dims();
  size_t i = 0, j = 0;
  int64_t left_from = 0, left_to = 0;  // of the dimensions i and j, what has no factor yet
  while (i < from.size() && j < to.size()) {
    if (left_from == 0) left_from = from[i];
    if (left_to == 0) left_to = to[j];
    if (left_from == 1) {
      left_from = 0;
      ++i;
      continue;
    }
    if (left_to == 1) {
      left_to = 0;
      ++j;
      continue;
    }
    const int64_t size = std::min(left_from, left_to);
    if (size == 0 || left_from % size != 0 || left_to % size != 0) return;  // the rest is whole
    const int f = rule.factor(size);
    rule.of_operand(0, static_cast<int64_t>(i), f);
    rule.of_result(0, static_cast<int64_t>(j), f);
    left_from = left_from == size ? (++i, 0) : left_from / size;
    left_to = left_to == size ? (++j, 0) : left_to / size;
  }
}

void dot_general(Rule& rule) {
  const Dims batch[] = {dims_of(rule.op, Attr::lhs_batching_dimensions),
                        dims_of(rule.op, Attr::rhs_batching_dimensions)};
  const Dims contracting[] = {dims_of(rule.op, Attr::lhs_contracting_dimensions),
                              dims_of(rule.op, Attr::rhs_contracting_dimensions)};
  int64_t result = 0;
  for (size_t k = 0; k < batch[0].size(); ++k) {
    const int f = rule.factor(rule.operand(0).dim(static_cast<int>(batch[0][k])));
    for (size_t side = 0; side < 2; ++side) rule.of_operand(side, batch[side][k], f);
    rule.of_result(0, result++, f);
  }
  for (size_t side = 0; side < 2; ++side)
    for (int64_t d = 0; d < rule.operand(side).rank(); ++d) {
      if (contains(batch[side], d) || contains(contracting[side], d)) continue;
      const int f = rule.factor(rule.operand(side).dim(static_cast<int>(d)));
      rule.of_operand(side, d, f);
      rule.of_result(0, result++, f);
    }
  for (size_t k = 0; k < contracting[0].size(); ++k) {
    const int f =
        rule.factor(rule.operand(0).dim(static_cast<int>(contracting[0][k])), FactorKind::kReduction);
    for (size_t side = 0; side < 2; ++side) rule.of_operand(side, contracting[side][k], f);
  }
}

// [m, k] x [k, n], either of them without its outer dimension.
void dot(Rule& rule) {
  const int f = rule.factor(rule.operand(1).dim(0), FactorKind::kReduction);
  rule.of_operand(0, rule.operand(0).rank() - 1, f);
  rule.of_operand(1, 0, f);
  int64_t result = 0;
  for (const auto& [side, d] : {std::pair{0, 0}, {1, 1}}) {
    if (rule.operand(static_cast<size_t>(side)).rank() < 2) continue;
    const int free = rule.factor(rule.operand(static_cast<size_t>(side)).dim(d));
    rule.of_operand(static_cast<size_t>(side), d, free);
    rule.of_result(0, result++, free);
  }
}

// Operands are arrays, then a start value for each.
void reduce(Rule& rule) {
  const Dims reduced = dims_of(rule.op, Attr::dimensions);
  const size_t arrays = rule.op.operands.size() / 2;
  const auto combiner = arrays == 1 ? compiler::combiner_of(rule.function(), rule.op) : std::nullopt;
  if (combiner) rule.made.combiner = *combiner;
  int64_t result = 0;
  for (int64_t d = 0; d < rule.operand(0).rank(); ++d) {
    const bool is_reduced = contains(reduced, d);
    if (is_reduced && !combiner) continue;
    const int f = rule.factor(rule.operand(0).dim(static_cast<int>(d)),
                              is_reduced ? FactorKind::kReduction : FactorKind::kParallel);
    for (size_t i = 0; i < arrays; ++i) {
      rule.of_operand(i, d, f);
      if (!is_reduced) rule.of_result(i, result, f);
    }
    if (!is_reduced) ++result;
  }
}

// Along which the windows of an op are more than one element after the other.
Dims windowed(const Op& op, int64_t rank) {
  Dims moving;
  for (const Attr attr :
       {Attr::window_dimensions, Attr::window_strides, Attr::base_dilations, Attr::window_dilations}) {
    const Dims sizes = dims_of(op, attr);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] != 1) moving.push_back(static_cast<int64_t>(d));
  }
  if (op.has(Attr::padding)) {
    const graph::IntMatrix& padding = op.matrix(Attr::padding);
    for (int64_t d = 0; d < rank; ++d)
      if (padding.at(d, 0) != 0 || padding.at(d, 1) != 0) moving.push_back(d);
  }
  return moving;
}

void pad(Rule& rule) {
  Dims padded;
  for (const Attr attr : {Attr::edge_padding_low, Attr::edge_padding_high, Attr::interior_padding}) {
    const Dims sizes = dims_of(rule.op, attr);
    for (size_t d = 0; d < sizes.size(); ++d)
      if (sizes[d] != 0) padded.push_back(static_cast<int64_t>(d));
  }
  for (int64_t d = 0; d < rule.result().rank(); ++d)
    if (!contains(padded, d)) rule.passes(d, d);
}

// Of the slices, what is a whole dimension of the operand passes; so do dimensions of the indices.
void gather(Rule& rule) {
  const Dims offset = dims_of(rule.op, Attr::offset_dims), sizes = dims_of(rule.op, Attr::slice_sizes);
  const Dims collapsed = dims_of(rule.op, Attr::collapsed_slice_dims);
  const Dims batch = dims_of(rule.op, Attr::operand_batching_dims);
  const Dims batch_indices = dims_of(rule.op, Attr::start_indices_batching_dims);
  const int64_t vector = rule.op.integer(Attr::index_vector_dim);
  size_t next_offset = 0;
  for (int64_t d = 0; d < rule.operand(0).rank(); ++d) {
    if (contains(collapsed, d) || contains(batch, d)) continue;
    const int64_t to = offset[next_offset++];
    if (sizes[static_cast<size_t>(d)] == rule.operand(0).dim(static_cast<int>(d))) rule.passes(d, to);
  }
  int64_t from = 0;  // of the indices
  for (int64_t d = 0; d < rule.result().rank(); ++d) {
    if (contains(offset, d)) continue;
    if (from == vector) ++from;
    const int f = rule.factor(rule.result().dim(static_cast<int>(d)));
    rule.of_result(0, d, f);
    rule.of_operand(1, from, f);
    if (contains(batch_indices, from))
      rule.of_operand(0, batch[static_cast<size_t>(place_in(batch_indices, from))], f);
    ++from;
  }
}

// Operands are arrays, indices, and updates for each array. Dimensions of the arrays that updates have whole
// pass, and those that are batches of the indices. Along the other dimensions of indices devices have updates
// of their own, where it is known how two are combined: the array is then added to once, by all of them.
void scatter(Rule& rule) {
  const size_t arrays = rule.op.results.size();
  const auto combiner = arrays == 1 ? compiler::combiner_of(rule.function(), rule.op) : std::nullopt;
  if (combiner) rule.made.combiner = *combiner;
  const Dims window = dims_of(rule.op, Attr::update_window_dims);
  const Dims inserted = dims_of(rule.op, Attr::inserted_window_dims);
  const Dims batch = dims_of(rule.op, Attr::input_batching_dims);
  const Dims batch_indices = dims_of(rule.op, Attr::scatter_indices_batching_dims);
  const int64_t vector = rule.op.integer(Attr::index_vector_dim);
  const auto of_arrays = [&](int64_t d, int f) {
    for (size_t i = 0; i < arrays; ++i) {
      rule.of_operand(i, d, f);
      rule.of_result(i, d, f);
    }
  };
  const auto of_updates = [&](int64_t d, int f) {
    for (size_t i = 0; i < arrays; ++i) rule.of_operand(arrays + 1 + i, d, f);
  };
  const Type& updates = rule.operand(arrays + 1);
  size_t next_window = 0;
  for (int64_t d = 0; d < rule.operand(0).rank(); ++d) {
    if (contains(inserted, d) || contains(batch, d)) continue;
    const int64_t from = window[next_window++];
    if (updates.dim(static_cast<int>(from)) != rule.operand(0).dim(static_cast<int>(d))) continue;
    const int f = rule.factor(updates.dim(static_cast<int>(from)));
    of_arrays(d, f);
    of_updates(from, f);
  }
  int64_t index = 0;
  for (int64_t d = 0; d < updates.rank(); ++d) {
    if (contains(window, d)) continue;
    if (index == vector) ++index;
    if (contains(batch_indices, index)) {
      const int f = rule.factor(updates.dim(static_cast<int>(d)));
      of_arrays(batch[static_cast<size_t>(place_in(batch_indices, index))], f);
      rule.of_operand(arrays, index, f);
      of_updates(d, f);
    } else if (combiner) {
      const int f = rule.factor(updates.dim(static_cast<int>(d)), FactorKind::kReduction);
      rule.of_operand(arrays, index, f);
      of_updates(d, f);
    }
    ++index;
  }
}

void convolution(Rule& rule) {
  const Op& op = rule.op;
  if (op.integer_or(Attr::batch_group_count, 1) != 1) return;
  const int64_t batch = op.integer(Attr::input_batch_dimension);
  const int b = rule.factor(rule.operand(0).dim(static_cast<int>(batch)));
  rule.of_operand(0, batch, b);
  rule.of_result(0, op.integer(Attr::output_batch_dimension), b);
  if (op.integer_or(Attr::feature_group_count, 1) != 1) return;
  const int64_t out = op.integer(Attr::kernel_output_feature_dimension);
  const int o = rule.factor(rule.operand(1).dim(static_cast<int>(out)));
  rule.of_operand(1, out, o);
  rule.of_result(0, op.integer(Attr::output_feature_dimension), o);
  const int64_t in = op.integer(Attr::input_feature_dimension);
  const int k = rule.factor(rule.operand(0).dim(static_cast<int>(in)), FactorKind::kReduction);
  rule.of_operand(0, in, k);
  rule.of_operand(1, op.integer(Attr::kernel_input_feature_dimension), k);
}

// Leading dimensions of all operands and results are batches; the last `inner` of each operand are whole.
void batches(Rule& rule, int64_t inner) {
  const int64_t count = rule.operand(0).rank() - inner;
  for (int64_t d = 0; d < count; ++d) {
    const int f = rule.factor(rule.operand(0).dim(static_cast<int>(d)));
    for (size_t i = 0; i < rule.made.operands.size(); ++i) rule.of_operand(i, d, f);
    for (size_t i = 0; i < rule.made.results.size(); ++i) rule.of_result(i, d, f);
  }
}

// Results that are each one operand, but for the dimensions `whole`.
void identity(Rule& rule, const Dims& whole = {}) {
  for (size_t i = 0; i < rule.op.results.size(); ++i) {
    if (!rule.result(i).is_tensor()) continue;
    for (int64_t d = 0; d < rule.result(i).rank(); ++d) {
      if (contains(whole, d)) continue;
      const int f = rule.factor(rule.result(i).dim(static_cast<int>(d)));
      rule.of_operand(i, d, f);
      rule.of_result(i, d, f);
    }
  }
}

bool is_static_tensor(const Type& type) { return type.is_tensor() && type.is_static(); }

bool make(Rule& rule) {
  const Op& op = rule.op;
  switch (op.kind) {
    case OpKind::clamp_:
    case OpKind::select_: alike(rule); return true;
    case OpKind::bitcast_convert_:
      if (rule.operand(0).rank() != rule.result().rank()) return false;
      alike(rule);
      return true;
    case OpKind::optimization_barrier_: identity(rule); return true;
    case OpKind::custom_call_:
      if (graph::solver_of(op)) {
        batches(rule, 2);
        return true;
      }
      if (!is_sharding_constraint(op)) return false;
      alike(rule);
      return true;
    case OpKind::all_reduce_:
    case OpKind::collective_broadcast_:
    case OpKind::collective_permute_: identity(rule); return true;
    case OpKind::all_gather_: identity(rule, {op.integer(Attr::all_gather_dim)}); return true;
    case OpKind::reduce_scatter_: identity(rule, {op.integer(Attr::scatter_dimension)}); return true;
    case OpKind::all_to_all_:
      identity(rule, {op.integer(Attr::split_dimension), op.integer(Attr::concat_dimension)});
      return true;
    case OpKind::iota_: alike(rule, {op.integer(Attr::iota_dimension)}); return true;
    case OpKind::broadcast_in_dim_: broadcast_in_dim(rule); return true;
    case OpKind::transpose_: transpose(rule); return true;
    case OpKind::reshape_: reshape(rule); return true;
    case OpKind::reverse_: alike(rule, dims_of(op, Attr::dimensions)); return true;
    case OpKind::concatenate_: alike(rule, {op.integer(Attr::dimension)}); return true;
    case OpKind::sort_: {
      const int64_t d = op.integer_or(Attr::dimension, -1);
      alike(rule, {d < 0 ? d + rule.result().rank() : d});
      return true;
    }
    case OpKind::slice_:
    case OpKind::dynamic_slice_:
      for (int64_t d = 0; d < rule.result().rank(); ++d)
        if (rule.result().dim(static_cast<int>(d)) == rule.operand(0).dim(static_cast<int>(d)))
          rule.passes(d, d);
      return true;
    case OpKind::dynamic_update_slice_:
      for (int64_t d = 0; d < rule.result().rank(); ++d)
        if (rule.operand(1).dim(static_cast<int>(d)) == rule.operand(0).dim(static_cast<int>(d))) {
          rule.passes(d, d);
          rule.of_operand(1, d, static_cast<int>(rule.made.factors.size()) - 1);
        }
      return true;
    case OpKind::pad_: pad(rule); return true;
    case OpKind::dot_general_: dot_general(rule); return true;
    case OpKind::dot_: dot(rule); return true;
    case OpKind::reduce_: reduce(rule); return true;
    case OpKind::gather_: gather(rule); return true;
    case OpKind::scatter_: scatter(rule); return true;
    case OpKind::convolution_: convolution(rule); return true;
    case OpKind::reduce_window_: {
      Dims whole = windowed(op, rule.result().rank());
      alike(rule, whole);
      return true;
    }
    case OpKind::cholesky_: batches(rule, 2); return true;
    case OpKind::triangular_solve_: batches(rule, 2); return true;
    case OpKind::fft_: batches(rule, static_cast<int64_t>(dims_of(op, Attr::fft_length).size())); return true;
    case OpKind::chlo_top_k_: batches(rule, 1); return true;
    default: break;
  }
  const graph::OpClass op_class = graph::definition(op.kind).op_class;
  if (op_class != graph::OpClass::kUnaryElementwise && op_class != graph::OpClass::kBinaryElementwise)
    return false;
  alike(rule);
  return true;
}

}  // namespace

std::optional<DimensionRule> dimension_rule(const Function& function, const Op& op) {
  if (op.results.empty()) return std::nullopt;
  for (const auto* values : {&op.operands, &op.results})
    for (const graph::ValueId value : *values) {
      const Type& type = function.type(value);
      if (!is_static_tensor(type) || (type.quantization() && type.quantization()->per_axis()))
        return std::nullopt;
    }
  Rule rule(function, op);
  if (!make(rule)) return std::nullopt;
  return std::move(rule.made);
}

}  // namespace opentrn::spmd
