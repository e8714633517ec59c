#include "compiler/expand/decompositions.h"

#include <algorithm>
#include <numeric>

#include "compiler/analysis/graph_names.h"
#include "compiler/expand/eigen.h"
#include "compiler/expand/lu.h"
#include "compiler/expand/qr.h"
#include "compiler/lowering/takes.h"
#include "compiler/rewrite/rewrite.h"
#include "graph/solver_call.h"

namespace opentrn::compiler {

namespace {

using Values = std::vector<ValueId>;

// No device has wider numbers.
ElementType computed(ElementType element) {
  return graph::is_complex(element) ? ElementType::kComplexF32 : ElementType::kF32;
}

// The last two dimensions as they are, all others as one.
Batch batch_of(Writer& writer, ValueId id) {
  const graph::Type type = writer.builder().type(id);
  const auto dims = type.dims();
  const int64_t batch = std::accumulate(dims.begin(), dims.end() - 2, int64_t{1}, std::multiplies<>());
  return Batch(writer, id).reshape({batch, dims[dims.size() - 2], dims.back()}).as(computed(type.element()));
}

Batch vectors_of(Writer& writer, ValueId id, int64_t batch) {
  const graph::Type type = writer.builder().type(id);
  return Batch(writer, id).reshape({batch, 1, type.dims().back()}).as(computed(type.element()));
}

Values of_nothing(Builder& builder, const Function& function, const Op& op,
                  std::span<const ValueId> operands) {
  if (graph::solver_of(op) == graph::Solver::kOrmqr) return {operands[2]};  // Nothing is reflected.
  Values results;
  for (const ValueId id : op.results) {
    const graph::Type& type = function.type(id);
    // U and V of a matrix without elements are identities.
    if (graph::solver_of(op) == graph::Solver::kSvd && type.element_count() > 0) {
      Writer writer(builder);
      const Dims dims = type.dims_vector();
      const Batch like(writer, builder.splat(graph::Type::scalar(type.element()), 0));
      const Batch one = identity(like, dims[dims.size() - 2], dims.back());
      results.push_back(builder.broadcast_in_dim(
          one.reshape({dims[dims.size() - 2], dims.back()}).id(), dims,
          {static_cast<int64_t>(dims.size()) - 2, static_cast<int64_t>(dims.size()) - 1}));
    } else {
      results.push_back(builder.splat(type, 0));
    }
  }
  return results;
}

// Hermitian matrices of which one triangle is read; the diagonal is real.
Batch hermitian(const Batch& a, bool upper) {
  const Batch half = triangle(a, upper), is_diagonal = a.places(a.dims(), 1) == a.places(a.dims(), 2);
  return half.real().as(a.element()).where(is_diagonal, half + half.adjoint());
}

// `only_values`: of singular values, nobody reads the vectors.
std::vector<Batch> decomposed(Writer& writer, const Op& op, std::span<const ValueId> operands,
                              bool only_values) {
  const Batch a = batch_of(writer, operands[0]);
  switch (*graph::solver_of(op)) {
    case graph::Solver::kGeqrf: {
      const Reflections q = reflections_of(a);
      return {q.packed, q.taus};
    }
    case graph::Solver::kOrmqr: {
      const Reflections q{a, vectors_of(writer, operands[1], a.dim(0))};
      return {reflected(q, batch_of(writer, operands[2]), graph::solver_says(op, "adjoint"))};
    }
    case graph::Solver::kGetrf: {
      const Elimination lu = eliminated(a, !graph::solver_says(op, "no_pivot"));
      if (!graph::solver_says(op, "permutation")) return {lu.packed, lu.pivots, lu.info};
      return {lu.packed, lu.pivots, lu.info, lu.order};
    }
    case graph::Solver::kEigh: {
      const Eigen made =
          eigen_of(hermitian(a, graph::solver_says(op, "upper")), graph::solver_says(op, "sorted"));
      return {made.values, made.vectors};
    }
    case graph::Solver::kSvd: {
      const bool is_wide = a.dim(1) < a.dim(2);
      const Singular made =
          singular_of(is_wide ? a.adjoint() : a, graph::solver_says(op, "full"), only_values);
      return is_wide ? std::vector<Batch>{made.v, made.values, made.u.adjoint()}
                     : std::vector<Batch>{made.u, made.values, made.v.adjoint()};
    }
  }
  OPENTRN_CHECK(false, "a decomposition without an expansion");
}

bool is_solver(const Function& function, const Op& op) {
  return graph::solver_of(op).has_value() && !has_small_lu(function, op) && !has_small_qr(function, op);
}

Values make(Builder& builder, const Function& function, const Op& op, std::span<const ValueId> operands) {
  const auto is_empty = [&](ValueId id) { return function.type(id).element_count() == 0; };
  if (std::ranges::any_of(op.operands, is_empty) || std::ranges::any_of(op.results, is_empty))
    return of_nothing(builder, function, op, operands);
  Writer writer(builder);
  const auto is_read = [&](ValueId value) {
    bool found = false;
    graph::walk(function, function.body(),
                [&](graph::OpId id) { found |= std::ranges::count(function.op(id).operands, value) > 0; });
    return found;
  };
  const bool only_values =
      graph::solver_of(op) == graph::Solver::kSvd && !is_read(op.results[0]) && !is_read(op.results[2]);
  const std::vector<Batch> made = decomposed(writer, op, operands, only_values);
  Values results;
  for (size_t i = 0; i < made.size(); ++i) {
    const graph::Type& type = function.type(op.results[i]);
    results.push_back(made[i].as(type.element()).reshape(type.dims_vector()).id());
  }
  return results;
}

constexpr Expansion kDecompositionExpansions[] = {{OpKind::custom_call_, is_solver, make}};

}  // namespace

std::span<const Expansion> decomposition_expansions() { return kDecompositionExpansions; }

bool expand_decompositions(Function& function) {
  bool found = false;
  graph::walk(function, function.body(),
              [&](graph::OpId id) { found |= is_solver(function, function.op(id)); });
  if (!found) return false;
  function = rewritten(
      function,
      [&](Builder& builder, const Op& op, std::span<const ValueId> operands) -> std::optional<Values> {
        if (!is_solver(function, op)) return std::nullopt;
        return make(builder, function, op, operands);
      });
  return true;
}

}  // namespace opentrn::compiler
