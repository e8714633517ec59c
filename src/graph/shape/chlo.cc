// CHLO: implicit broadcasting, top_k, ragged_dot, scan. The specification numbers no constraints for these;
// their label is the op's name. Source: stablehlo/dialect/ChloOps.td.
#include <algorithm>

#include "graph/shape/rules.h"

namespace opentrn::graph::shape {

namespace {

// Numpy's rule, or the dimensions of the longer operand that those of the shorter one are.
Dims broadcast_dims(const Context& c, const Type& a, const Type& b) {
  const Type& longer = a.rank() >= b.rank() ? a : b;
  const Type& shorter = a.rank() >= b.rank() ? b : a;
  const auto shift = static_cast<int64_t>(longer.rank() - shorter.rank());
  Dims places = c.list(Attr::broadcast_dimensions);
  if (!c.op().has(Attr::broadcast_dimensions))
    for (int i = 0; i < shorter.rank(); ++i) places.push_back(shift + i);
  c.check(static_cast<int>(places.size()) == shorter.rank() && in_range(places, 0, longer.rank()) &&
              is_unique(places) && is_sorted(places),
          0, "broadcast_dimensions is {} for {} and {}", text(places), a.to_string(), b.to_string());
  Dims dims = longer.dims_vector();
  for (size_t i = 0; i < places.size(); ++i) {
    int64_t& to = dims[static_cast<size_t>(places[i])];
    const int64_t from = shorter.dim(static_cast<int>(i));
    c.check(from == 1 || to == 1 || agrees(from, to), 0, "{} and {} do not broadcast", a.to_string(),
            b.to_string());
    // A dynamic size beside one that is not 1 must be 1 or that size.
    if (to == 1 || (is_dynamic(to) && from != 1)) to = from;
  }
  return dims;
}

Type broadcast_pair(const Context& c) {
  const Type& a = c.tensor(0);
  const Type& b = c.tensor(1);
  c.check(same_element(a, b), 0, "operands are {} and {}; their elements must be the same", a.to_string(),
          b.to_string());
  return typed(a, broadcast_dims(c, a, b));
}

}  // namespace

Types broadcasting(const Context& c) {
  if (c.operand_count() == 1) return {c.tensor(0)};
  return {broadcast_pair(c)};
}

Types broadcast_compare(const Context& c) { return {broadcast_pair(c).with_element(ElementType::kI1)}; }

Types broadcast_complex(const Context& c) {
  const Type pair = broadcast_pair(c);
  c.check(pair.element() == ElementType::kF32 || pair.element() == ElementType::kF64, 0,
          "parts are {}; f32 or f64 are wanted", pair.to_string());
  return {pair.with_element(pair.element() == ElementType::kF32 ? ElementType::kComplexF32
                                                                : ElementType::kComplexF64)};
}

Types broadcast_select(const Context& c) {
  const Type& pred = c.tensor(0, kBools);
  const Type& on_true = c.tensor(1);
  const Type& on_false = c.tensor(2);
  c.check(same_element(on_true, on_false), 0, "values are {} and {}", on_true.to_string(),
          on_false.to_string());
  const Type values = typed(on_true, broadcast_dims(c, on_true, on_false));
  return {typed(on_true, broadcast_dims(c, pred, values))};
}

Types constant_like(const Context& c) { return {c.tensor(0)}; }

Types top_k(const Context& c) {
  const Type& operand = c.tensor(0, kAnyPlain);
  const int64_t k = c.integer(Attr::k);
  c.check(operand.rank() >= 1, 0, "{} has no last dimension", operand.to_string());
  Dims dims = operand.dims_vector();
  c.check(k >= 0 && (is_dynamic(dims.back()) || k <= dims.back()), 0, "k is {} for {}", k,
          operand.to_string());
  dims.back() = k;
  return {typed(operand, dims), Type::tensor(ElementType::kI32, dims)};
}

// lhs [b, m, k], rhs [g, b, k, n], group sizes [g]: the ragged dimension of lhs is not contracted (m), is
// contracted (k), or is a batch dimension (b).
Types ragged_dot(const Context& c) {
  const Type& lhs = c.tensor(0);
  const Type& rhs = c.tensor(1);
  const Type& sizes = c.tensor(2, kInts);
  const Dims lb = c.list(Attr::lhs_batching_dimensions);
  const Dims rb = c.list(Attr::rhs_batching_dimensions);
  const Dims lc = c.list(Attr::lhs_contracting_dimensions);
  const Dims rc = c.list(Attr::rhs_contracting_dimensions);
  const Dims ragged = c.list(Attr::lhs_ragged_dimensions);
  const Dims groups = c.list(Attr::rhs_group_dimensions);
  c.check(ragged.size() == 1 && in_range(ragged, 0, lhs.rank()), 0, "lhs_ragged_dimensions is {} for {}",
          text(ragged), lhs.to_string());
  c.check(in_range(concatenated({lb, lc}), 0, lhs.rank()) && is_unique(concatenated({lb, lc})), 0,
          "dimension numbers {} and {} for {}", text(lb), text(lc), lhs.to_string());
  c.check(
      in_range(concatenated({rb, rc, groups}), 0, rhs.rank()) && is_unique(concatenated({rb, rc, groups})), 0,
      "dimension numbers {}, {} and {} for {}", text(rb), text(rc), text(groups), rhs.to_string());
  c.check(lb.size() == rb.size() && lc.size() == rc.size(), 0,
          "batching or contracting dimensions are not paired");
  const bool grouped = !contains(lb, ragged[0]) && !contains(lc, ragged[0]);
  c.check(groups.size() == (grouped ? 1U : 0U), 0,
          "rhs_group_dimensions is {}; one is wanted where the ragged dimension is neither batching nor "
          "contracting, none elsewhere",
          text(groups));
  for (const auto& [a, b] : {std::pair(&lb, &rb), std::pair(&lc, &rc)})
    for (size_t i = 0; i < a->size(); ++i)
      c.check(agrees(lhs.dim(static_cast<int>((*a)[i])), rhs.dim(static_cast<int>((*b)[i]))), 0,
              "dimension {} of {} and {} of {} differ", (*a)[i], lhs.to_string(), (*b)[i], rhs.to_string());
  c.check(sizes.rank() >= 1, 0, "group_sizes is {}", sizes.to_string());
  const int64_t group_count = sizes.dim(sizes.rank() - 1);
  if (grouped)
    c.check(agrees(rhs.dim(static_cast<int>(groups[0])), group_count), 0, "{} groups in {}", group_count,
            rhs.to_string());
  Dims dims;
  if (contains(lc, ragged[0])) dims.push_back(group_count);
  for (const int64_t i : lb) dims.push_back(lhs.dim(static_cast<int>(i)));
  for (int i = 0; i < lhs.rank(); ++i)
    if (!contains(lb, i) && !contains(lc, i)) dims.push_back(lhs.dim(i));
  for (int i = 0; i < rhs.rank(); ++i)
    if (!contains(rb, i) && !contains(rc, i) && !contains(groups, i)) dims.push_back(rhs.dim(i));
  const Type& element = c.has_stated() && c.stated()[0].is_tensor() ? c.stated()[0] : lhs;
  return {typed(element, std::move(dims))};
}

// The body takes carries and slices of the inputs and returns outputs' slices and carries; the program
// states the results.
Types scan(const Context& c) {
  if (!c.has_stated()) c.fail("results", "state the types of the results");
  const Signature body = c.region(0);
  c.check(body.results.size() == c.stated().size(), 0, "the body returns {} values for {} results",
          body.results.size(), c.stated().size());
  for (size_t i = 0; i < c.operand_count(); ++i) c.tensor(i);
  return {c.stated().begin(), c.stated().end()};
}

}  // namespace opentrn::graph::shape
