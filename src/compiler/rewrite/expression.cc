#include "compiler/rewrite/expression.h"

#include <algorithm>

#include "compiler/analysis/graph_names.h"

namespace opentrn::compiler {

Expr Expr::seen_as(ElementType element) const {
  if (type().element() == element) return *this;
  return {*builder_, builder_->add(OpKind::bitcast_convert_, {id_}, {}, {type().with_element(element)})};
}

Expr select(const Expr& condition, const Expr& on_true, const Expr& on_false) {
  return {condition.builder(),
          condition.builder().add(OpKind::select_, {condition.id(), on_true.id(), on_false.id()})};
}

Expr abs(const Expr& x) { return x.unary(OpKind::abs_); }
Expr exp(const Expr& x) { return x.unary(OpKind::exponential_); }
Expr expm1(const Expr& x) { return x.unary(OpKind::exponential_minus_one_); }
Expr log(const Expr& x) { return x.unary(OpKind::log_); }
Expr log1p(const Expr& x) { return x.unary(OpKind::log_plus_one_); }
Expr sqrt(const Expr& x) { return x.unary(OpKind::sqrt_); }
Expr sin(const Expr& x) { return x.unary(OpKind::sine_); }
Expr cos(const Expr& x) { return x.unary(OpKind::cosine_); }
Expr floor(const Expr& x) { return x.unary(OpKind::floor_); }
Expr nearest(const Expr& x) { return x.unary(OpKind::round_nearest_even_); }
Expr min(const Expr& a, const Expr& b) { return a.binary(OpKind::minimum_, b); }
Expr max(const Expr& a, const Expr& b) { return a.binary(OpKind::maximum_, b); }
Expr is_nan(const Expr& x) { return x != x; }
Expr is_negative(const Expr& x) { return x.seen_as(ElementType::kI32) < 0.0; }

Expr polynomial(const Expr& x, std::span<const double> coefficients) {
  Expr sum = x.number(coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = sum * x + coefficients[i];
  return sum;
}

graph::ValueId part_of(graph::Builder& builder, graph::ValueId value, int64_t dimension, int64_t begin,
                       int64_t end) {
  const auto dims = builder.type(value).dims_vector();
  std::vector<int64_t> start(dims.size(), 0), limit = dims;
  start[static_cast<size_t>(dimension)] = begin;
  limit[static_cast<size_t>(dimension)] = end;
  return begin == 0 && limit == dims ? value : builder.slice(value, start, limit);
}

graph::ValueId padded(graph::Builder& builder, graph::ValueId value, graph::ValueId filling, const Dims& low,
                      const Dims& high, const Dims& interior) {
  const auto is_none = [](const Dims& list) {
    return std::ranges::all_of(list, [](int64_t n) { return n == 0; });
  };
  if (is_none(low) && is_none(high) && is_none(interior)) return value;
  return builder.add(
      OpKind::pad_, {value, filling},
      {{Attr::edge_padding_low, low}, {Attr::edge_padding_high, high}, {Attr::interior_padding, interior}});
}

graph::ValueId strided(graph::Builder& builder, graph::ValueId value, const Dims& start, const Dims& count,
                       const Dims& step) {
  if (builder.type(value).dims_vector() == count) return value;
  Dims limit(start.size());
  for (size_t d = 0; d < start.size(); ++d) limit[d] = start[d] + (count[d] - 1) * step[d] + 1;
  return builder.add(OpKind::slice_, {value},
                     {{Attr::start_indices, start}, {Attr::limit_indices, limit}, {Attr::strides, step}});
}

}  // namespace opentrn::compiler
