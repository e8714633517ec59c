#include "graph/shape/solver.h"

#include <algorithm>

namespace opentrn::graph::shape {

namespace {

void want(const Context& c, bool holds, std::string_view what) {
  if (holds) return;
  std::string given;
  for (size_t i = 0; i < c.operand_count(); ++i)
    given += fmt::format("{}{}", i ? ", " : "", c.operand_type(i).to_string());
  c.fail("solver",
         fmt::format("@{} takes {}; operands are {}", c.op().string(Attr::call_target_name), what, given));
}

const Type& matrices(const Context& c, size_t i) {
  const Type& type = c.operand_type(i);
  want(c,
       type.is_tensor() && type.is_static() && type.rank() >= 2 && !type.quantization() &&
           (is_float(type.element()) || is_complex(type.element())),
       "matrices of floats or complex numbers, of known sizes");
  return type;
}

// The element that stands for what is real of these.
ElementType real_of(ElementType element) {
  if (element == ElementType::kComplexF32) return ElementType::kF32;
  return element == ElementType::kComplexF64 ? ElementType::kF64 : element;
}

// Leading dimensions of `a`, then `last`.
Dims ending(const Type& a, std::initializer_list<int64_t> last) {
  Dims dims = a.dims_vector();
  dims.resize(dims.size() - 2);
  dims.insert(dims.end(), last);
  return dims;
}

Types reflected(const Context& c) {
  want(c, c.operand_count() == 3, "packed factors, coefficients and matrices");
  const Type &packed = matrices(c, 0), &taus = c.operand_type(1), &b = matrices(c, 2);
  const int last = packed.rank() - 1;
  const bool fits = taus.is_tensor() && taus.is_static() && taus.rank() == last &&
                    b.rank() == packed.rank() && taus.element() == packed.element() &&
                    b.element() == packed.element() &&
                    taus.dim(last - 1) <= std::min(packed.dim(last - 1), packed.dim(last)) &&
                    b.dim(last - 1) == packed.dim(last - 1);
  want(c, fits, "[.., n, k] factors, at most min(n, k) coefficients and [.., n, m] of one element type");
  const auto batch = static_cast<size_t>(last - 1);
  want(c,
       std::ranges::equal(taus.dims().first(batch), packed.dims().first(batch)) &&
           std::ranges::equal(b.dims().first(batch), packed.dims().first(batch)),
       "the same leading dimensions three times");
  return {b};
}

}  // namespace

Types solver(const Context& c, Solver kind) {
  if (kind == Solver::kOrmqr) return reflected(c);
  want(c, c.operand_count() == 1, "one operand");
  const Type& a = matrices(c, 0);
  const int64_t rows = a.dim(a.rank() - 2), columns = a.dim(a.rank() - 1), least = std::min(rows, columns);
  const auto typed = [&](ElementType element, std::initializer_list<int64_t> last) {
    return Type::tensor(element, ending(a, last));
  };
  const ElementType real = real_of(a.element());
  switch (kind) {
    case Solver::kGeqrf: return {a, typed(a.element(), {least})};
    case Solver::kGetrf: {
      const ElementType place = ElementType::kI32;
      Types types{a, typed(place, {least}), typed(place, {})};
      if (solver_says(c.op(), "permutation")) types.push_back(typed(place, {rows}));
      return types;
    }
    case Solver::kEigh: want(c, rows == columns, "square matrices"); return {typed(real, {rows}), a};
    case Solver::kSvd: {
      const bool full = solver_says(c.op(), "full");
      return {typed(a.element(), {rows, full ? rows : least}), typed(real, {least}),
              typed(a.element(), {full ? columns : least, columns})};
    }
    case Solver::kOrmqr: break;
  }
  OPENTRN_CHECK(false, "a decomposition without a rule");
}

}  // namespace opentrn::graph::shape
