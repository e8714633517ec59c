#include "compiler/analysis/index_pattern.h"

#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

// The dimensions that are not one, in order.
std::vector<size_t> wide_dimensions(std::span<const int64_t> dims) {
  std::vector<size_t> wide;
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] != 1) wide.push_back(i);
  return wide;
}

int64_t element(const Literal& literal, int64_t index) {
  return graph::load_integer(literal.type().element(), literal.element(index));
}

// The steps are read off the first neighbours, then every element is compared.
std::optional<IndexPattern> pattern_of(const Literal& literal) {
  const graph::Type& type = literal.type();
  const auto strides = graph::row_major_strides(type.dims());
  if (type.element_count() == 0) return std::nullopt;
  IndexPattern pattern{std::vector<int64_t>(strides.size()), element(literal, 0)};
  if (literal.is_splat()) return pattern;
  for (size_t d = 0; d < strides.size(); ++d)
    if (type.dims()[d] > 1) pattern.steps[d] = element(literal, strides[d]) - pattern.offset;
  for (int64_t i = 0; i < type.element_count(); ++i) {
    int64_t expected = pattern.offset, rest = i;
    for (size_t d = 0; d < strides.size(); ++d) {
      expected += rest / strides[d] * pattern.steps[d];
      rest %= strides[d];
    }
    if (element(literal, i) != expected) return std::nullopt;
  }
  return pattern;
}

std::optional<IndexPattern> broadcast(const Function& function, const Op& op) {
  const auto inner = index_pattern(function, op.operands[0]);
  if (!inner) return std::nullopt;
  IndexPattern pattern{std::vector<int64_t>(function.type(op.results[0]).dims().size()), inner->offset};
  const auto places = op.integers(Attr::broadcast_dimensions);
  const auto from = function.type(op.operands[0]).dims();
  for (size_t i = 0; i < places.size(); ++i)
    if (from[i] != 1) pattern.steps[static_cast<size_t>(places[i])] = inner->steps[i];
  return pattern;
}

std::optional<IndexPattern> reshaped(const Function& function, const Op& op) {
  const auto inner = index_pattern(function, op.operands[0]);
  const auto from = function.type(op.operands[0]).dims(), to = function.type(op.results[0]).dims();
  const auto from_wide = wide_dimensions(from), to_wide = wide_dimensions(to);
  if (!inner || from_wide.size() != to_wide.size()) return std::nullopt;
  IndexPattern pattern{std::vector<int64_t>(to.size()), inner->offset};
  for (size_t i = 0; i < from_wide.size(); ++i) {
    if (from[from_wide[i]] != to[to_wide[i]]) return std::nullopt;
    pattern.steps[to_wide[i]] = inner->steps[from_wide[i]];
  }
  return pattern;
}

std::optional<IndexPattern> sum(const Function& function, const Op& op, int64_t sign) {
  auto a = index_pattern(function, op.operands[0]);
  const auto b = index_pattern(function, op.operands[1]);
  if (!a || !b) return std::nullopt;
  a->offset += sign * b->offset;
  for (size_t i = 0; i < a->steps.size(); ++i) a->steps[i] += sign * b->steps[i];
  return a;
}

// Calls `visit` with row, column and element index of every element of the last two dimensions; false when
// the other dimensions are not one, or as soon as `visit` is false.
template <typename Visit>
bool all_of_matrix(const graph::Type& type, Visit&& visit) {
  const int rank = type.rank();
  if (rank < 2 || type.element_count() != type.dim(rank - 2) * type.dim(rank - 1)) return false;
  for (int64_t i = 0; i < type.dim(rank - 2); ++i)
    for (int64_t j = 0; j < type.dim(rank - 1); ++j)
      if (!visit(i, j, i * type.dim(rank - 1) + j)) return false;
  return true;
}

// How many elements of the first row hold; the diagonal follows.
template <typename Holds>
std::optional<int64_t> diagonal_of(const graph::Type& type, Holds&& holds) {
  if (type.rank() < 2 || type.element_count() == 0) return std::nullopt;
  const int64_t columns = type.dim(type.rank() - 1);
  int64_t first = 0;
  while (first < columns && holds(first)) ++first;
  const int64_t diagonal = first - 1;
  const bool all =
      all_of_matrix(type, [&](int64_t i, int64_t j, int64_t at) { return holds(at) == (j <= i + diagonal); });
  return all ? std::optional(diagonal) : std::nullopt;
}

std::optional<int64_t> compared_diagonal(const Function& function, const Op& op) {
  const auto difference = sum(function, op, -1);
  if (!difference || difference->steps.size() < 2) return std::nullopt;
  const size_t rank = difference->steps.size();
  for (size_t i = 0; i + 2 < rank; ++i)
    if (difference->steps[i] != 0) return std::nullopt;
  const int64_t row = difference->steps[rank - 2], column = difference->steps[rank - 1];
  // row * i + column * j + offset, compared with zero, as i - j + d >= 0.
  switch (op.enumeration(Attr::comparison_direction, ComparisonDirection::kEq)) {
    case ComparisonDirection::kGe:
      if (row == 1 && column == -1) return difference->offset;
      return std::nullopt;
    case ComparisonDirection::kGt:
      if (row == 1 && column == -1) return difference->offset - 1;
      return std::nullopt;
    case ComparisonDirection::kLe:
      if (row == -1 && column == 1) return -difference->offset;
      return std::nullopt;
    case ComparisonDirection::kLt:
      if (row == -1 && column == 1) return -difference->offset - 1;
      return std::nullopt;
    default: return std::nullopt;
  }
}

// Adds or repeats dimensions in front of the last two.
bool keeps_matrix(const Function& function, const Op& op) {
  const auto from = function.type(op.operands[0]).dims(), to = function.type(op.results[0]).dims();
  if (from.size() < 2 || to.size() < 2) return false;
  if (!std::equal(from.end() - 2, from.end(), to.end() - 2)) return false;
  if (op.kind == OpKind::reshape_) return true;
  if (op.kind != OpKind::broadcast_in_dim_) return false;
  const auto places = op.integers(Attr::broadcast_dimensions);
  const auto rank = static_cast<int64_t>(to.size());
  return places[places.size() - 2] == rank - 2 && places[places.size() - 1] == rank - 1;
}

}  // namespace

std::optional<IndexPattern> index_pattern(const Function& function, ValueId value) {
  const Op* op = maker(function, value);
  // Narrower integers may wrap.
  if (!op || !graph::is_integer(function.type(value).element()) ||
      graph::bit_width(function.type(value).element()) < 32)
    return std::nullopt;
  switch (op->kind) {
    case OpKind::iota_: {
      IndexPattern pattern{std::vector<int64_t>(function.type(value).dims().size()), 0};
      pattern.steps[static_cast<size_t>(op->integer(Attr::iota_dimension))] = 1;
      return pattern;
    }
    case OpKind::constant_: return pattern_of(op->literal(Attr::value));
    case OpKind::broadcast_in_dim_: return broadcast(function, *op);
    case OpKind::reshape_: return reshaped(function, *op);
    case OpKind::convert_: return index_pattern(function, op->operands[0]);
    case OpKind::add_: return sum(function, *op, 1);
    case OpKind::subtract_: return sum(function, *op, -1);
    default: return std::nullopt;
  }
}

std::optional<int64_t> kept_diagonal(const Function& function, ValueId value) {
  const Op* op = maker(function, value);
  if (!op || !graph::is_bool(function.type(value).element())) return std::nullopt;
  switch (op->kind) {
    case OpKind::compare_: return compared_diagonal(function, *op);
    case OpKind::constant_: {
      const Literal& literal = op->literal(Attr::value);
      return diagonal_of(literal.type(), [&](int64_t at) { return element(literal, at) != 0; });
    }
    case OpKind::reshape_:
    case OpKind::broadcast_in_dim_:
      return keeps_matrix(function, *op) ? kept_diagonal(function, op->operands[0]) : std::nullopt;
    default: return std::nullopt;
  }
}

std::optional<CausalBias> causal_bias(const Function& function, ValueId value) {
  const Op* op = maker(function, value);
  if (!op || !graph::is_float(function.type(value).element())) return std::nullopt;
  switch (op->kind) {
    case OpKind::select_: {
      const auto diagonal = kept_diagonal(function, op->operands[0]);
      const auto kept = splat_of(function, op->operands[1]), fill = splat_of(function, op->operands[2]);
      if (!diagonal || !kept || !fill || *kept != 0) return std::nullopt;
      return CausalBias{*diagonal, *fill};
    }
    case OpKind::constant_: {
      const Literal& literal = op->literal(Attr::value);
      const auto number = [&](int64_t at) {
        return graph::load_real(literal.type().element(), literal.element(at));
      };
      const auto diagonal = diagonal_of(literal.type(), [&](int64_t at) { return number(at) == 0; });
      const int64_t count = literal.type().element_count();
      if (!diagonal || literal.is_splat()) return std::nullopt;
      std::optional<double> fill;
      for (int64_t i = 0; i < count; ++i) {
        if (number(i) == 0) continue;
        if (fill && number(i) != *fill) return std::nullopt;
        fill = number(i);
      }
      return fill ? std::optional(CausalBias{*diagonal, *fill}) : std::nullopt;
    }
    case OpKind::convert_: return causal_bias(function, op->operands[0]);
    case OpKind::reshape_:
    case OpKind::broadcast_in_dim_:
      return keeps_matrix(function, *op) ? causal_bias(function, op->operands[0]) : std::nullopt;
    default: return std::nullopt;
  }
}

}  // namespace opentrn::compiler
