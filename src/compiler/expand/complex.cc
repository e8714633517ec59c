// Ops on complex numbers as ops on their two parts. What remains complex are arguments, results, and the
// complex_, real_ and imag_ between them and the rest, which kernels take (lowering/complex.cc).
#include <algorithm>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/expand/complex_parts.h"
#include "compiler/expand/expand.h"
#include "graph/element_value.h"

namespace opentrn::compiler {

namespace {

using Values = std::vector<ValueId>;
using Operands = std::span<const ValueId>;

bool is_complex(const Function& function, ValueId value) {
  const graph::Type& type = function.type(value);
  return type.is_tensor() && type.is_static() && graph::is_complex(type.element());
}

ValueId constant_part(Builder& builder, const graph::Literal& literal, bool imaginary) {
  const ElementType real = graph::real_part(literal.type().element());
  const int64_t size = graph::storage_bytes(real),
                count = static_cast<int64_t>(literal.bytes().size()) / (2 * size);
  std::vector<std::byte> bytes;
  for (int64_t i = 0; i < count; ++i) {
    const std::byte* part = literal.bytes().data() + (2 * i + (imaginary ? 1 : 0)) * size;
    bytes.insert(bytes.end(), part, part + size);
  }
  return builder.constant(graph::Literal(literal.type().with_element(real), std::move(bytes)));
}

Parts in_f32(const Parts& parts) { return {parts.re.as(ElementType::kF32), parts.im.as(ElementType::kF32)}; }

Values result_of(const Function& function, const Op& op, const Parts& parts) {
  const ElementType real = graph::real_part(function.type(op.results[0]).element());
  return {complex_value({parts.re.as(real), parts.im.as(real)})};
}

bool is_part_of_known(const Function& function, const Op& op) {
  const Op* made = maker(function, op.operands[0]);
  return !is_complex(function, op.operands[0]) ||
         (made && (made->kind == OpKind::complex_ || made->kind == OpKind::constant_));
}

template <bool kImaginary>
Values part(Builder& builder, const Function&, const Op&, Operands operands) {
  const Parts parts = parts_of(builder, operands[0]);
  return {(kImaginary ? parts.im : parts.re).id()};
}

bool on_complex(const Function& function, const Op& op) {
  return std::any_of(op.operands.begin(), op.operands.end(),
                     [&](ValueId value) { return is_complex(function, value); }) ||
         std::any_of(op.results.begin(), op.results.end(),
                     [&](ValueId value) { return is_complex(function, value); });
}

Values elementwise(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const Parts x = in_f32(parts_of(builder, operands[0]));
  const auto value = operands.size() == 1
                         ? complex_function(op.kind, x)
                         : complex_function(op.kind, x, in_f32(parts_of(builder, operands[1])));
  OPENTRN_CHECK(value.has_value(), "{} of complex numbers is in the table and has no formula",
                graph::name(op.kind));
  return result_of(function, op, *value);
}

Values absolute(Builder& builder, const Function& function, const Op& op, Operands operands) {
  return {magnitude(in_f32(parts_of(builder, operands[0]))).as(function.type(op.results[0]).element()).id()};
}

Values convert(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const Parts parts = parts_of(builder, operands[0]);
  const ElementType to = function.type(op.results[0]).element();
  if (!graph::is_complex(to)) return {parts.re.as(to).id()};
  return result_of(function, op, parts);
}

bool keeps_complex(const Function& function, const Op& op) {
  return is_complex(function, op.operands[0]) &&
         function.type(op.operands[0]).element() == function.type(op.results[0]).element();
}

Values same(Builder&, const Function&, const Op&, Operands operands) { return {operands[0]}; }

Values iota(Builder& builder, const Function& function, const Op& op, Operands) {
  const graph::Type& type = function.type(op.results[0]);
  const Expr re(builder, builder.add(op.kind, {}, op.attributes,
                                     {type.with_element(graph::real_part(type.element()))}));
  return {complex_value({re, re.number(0)})};
}

bool compares_complex(const Function& function, const Op& op) {
  const auto direction = op.enumeration(Attr::comparison_direction, graph::ComparisonDirection::kEq);
  return is_complex(function, op.operands[0]) &&
         (direction == graph::ComparisonDirection::kEq || direction == graph::ComparisonDirection::kNe);
}

Values compare(Builder& builder, const Function&, const Op& op, Operands operands) {
  const Parts a = parts_of(builder, operands[0]), b = parts_of(builder, operands[1]);
  if (op.enumeration(Attr::comparison_direction, graph::ComparisonDirection::kEq) ==
      graph::ComparisonDirection::kEq)
    return {((a.re == b.re) & (a.im == b.im)).id()};
  return {((a.re != b.re) | (a.im != b.im)).id()};
}

// The op on the real parts and on the imaginary parts; operands that are not complex serve both.
Values by_parts(Builder& builder, const Function& function, const Op& op, Operands operands) {
  Values halves[2];
  for (const ValueId operand : operands) {
    if (!graph::is_complex(builder.type(operand).element())) {
      halves[0].push_back(operand);
      halves[1].push_back(operand);
      continue;
    }
    const Parts parts = parts_of(builder, operand);
    halves[0].push_back(parts.re.id());
    halves[1].push_back(parts.im.id());
  }
  std::vector<graph::Type> types;
  for (const ValueId value : op.results) {
    const graph::Type& type = function.type(value);
    types.push_back(type.with_element(graph::real_part(type.element())));
  }
  const OpId re = builder.add_op(op.kind, halves[0], op.attributes, types);
  const OpId im = builder.add_op(op.kind, halves[1], op.attributes, types);
  Values results;
  for (size_t i = 0; i < op.results.size(); ++i)
    results.push_back(complex_value({Expr(builder, builder.function().op(re).results[i]),
                                     Expr(builder, builder.function().op(im).results[i])}));
  return results;
}

Values product(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const Parts a = parts_of(builder, operands[0]), b = parts_of(builder, operands[1]);
  const graph::Type& type = function.type(op.results[0]);
  const auto times = [&](const Expr& x, const Expr& y) {
    return Expr(builder, builder.add(op.kind, {x.id(), y.id()}, op.attributes,
                                     {type.with_element(graph::real_part(type.element()))}));
  };
  const Expr re = times(a.re, b.re) - times(a.im, b.im);
  if (!graph::is_complex(type.element())) return {re.id()};  // a real result of complex factors
  return result_of(function, op, {re, times(a.re, b.im) + times(a.im, b.re)});
}

// A sum: the region adds its two arguments.
bool sums(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.regions.size() != 1 || !is_complex(function, op.operands[0])) return false;
  const graph::Block& body = function.block(op.regions[0]);
  if (body.ops.size() != 2) return false;
  const Op &first = function.op(body.ops[0]), &last = function.op(body.ops[1]);
  return first.kind == OpKind::add_ && last.operands.size() == 1 && last.operands[0] == first.results[0] &&
         std::is_permutation(first.operands.begin(), first.operands.end(), body.arguments.begin(),
                             body.arguments.end());
}

Values sum(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const Parts x = parts_of(builder, operands[0]), start = parts_of(builder, operands[1]);
  const graph::Type& type = function.type(op.results[0]);
  const graph::Type real = type.with_element(graph::real_part(type.element()));
  const auto summed = [&](const Expr& values, const Expr& initial) {
    const graph::Type scalar = graph::Type::scalar(real.element());
    const graph::RegionBody body{{scalar, scalar}, [](Builder& b, std::span<const ValueId> arguments) {
                                   return Values{b.add(OpKind::add_, {arguments[0], arguments[1]})};
                                 }};
    const OpId id =
        builder.add_with_regions(op.kind, {values.id(), initial.id()}, op.attributes, {real}, {body});
    return Expr(builder, builder.function().op(id).results[0]);
  };
  return {complex_value({summed(x.re, start.re), summed(x.im, start.im)})};
}

// What a scatter's region gives: the update, or both added.
enum class Scatter { kOther, kPlaces, kAdds };
Scatter scatter_kind(const Function& function, const Op& op) {
  if (op.results.size() != 1 || op.regions.size() != 1 || !is_complex(function, op.operands[0]))
    return Scatter::kOther;
  const graph::Block& body = function.block(op.regions[0]);
  const Op& last = function.op(body.ops.back());
  if (body.ops.size() == 1 && last.operands[0] == body.arguments[1]) return Scatter::kPlaces;
  return sums(function, op) ? Scatter::kAdds : Scatter::kOther;
}

bool scatters(const Function& function, const Op& op) {
  return scatter_kind(function, op) != Scatter::kOther;
}

Values scatter(Builder& builder, const Function& function, const Op& op, Operands operands) {
  const bool adds = scatter_kind(function, op) == Scatter::kAdds;
  const Parts x = parts_of(builder, operands[0]), updates = parts_of(builder, operands[2]);
  const graph::Type& type = function.type(op.results[0]);
  const graph::Type real = type.with_element(graph::real_part(type.element()));
  const auto scattered = [&](const Expr& into, const Expr& values) {
    const graph::Type scalar = graph::Type::scalar(real.element());
    const graph::RegionBody body{
        {scalar, scalar}, [adds](Builder& b, std::span<const ValueId> arguments) {
          return adds ? Values{b.add(OpKind::add_, {arguments[0], arguments[1]})} : Values{arguments[1]};
        }};
    const OpId id = builder.add_with_regions(op.kind, {into.id(), operands[1], values.id()}, op.attributes,
                                             {real}, {body});
    return Expr(builder, builder.function().op(id).results[0]);
  };
  return {complex_value({scattered(x.re, updates.re), scattered(x.im, updates.im)})};
}

bool transforms(const Function&, const Op& op) { return has_fourier_transform(op); }

Values transform(Builder& builder, const Function&, const Op& op, Operands operands) {
  return {*fourier_transform(builder, op, operands[0])};
}

constexpr Expansion kComplexExpansions[] = {
    {OpKind::real_, is_part_of_known, part<false>},
    {OpKind::imag_, is_part_of_known, part<true>},
    {OpKind::abs_, on_complex, absolute},
    {OpKind::convert_, on_complex, convert},
    {OpKind::bitcast_convert_, keeps_complex, same},
    {OpKind::iota_, on_complex, iota},
    {OpKind::compare_, compares_complex, compare},
    {OpKind::fft_, transforms, transform},
    {OpKind::dot_general_, on_complex, product},
    {OpKind::convolution_, on_complex, product},
    {OpKind::reduce_, sums, sum},
    {OpKind::reduce_window_, sums, sum},
    {OpKind::scatter_, scatters, scatter},
    // as they are, for each part
    {OpKind::broadcast_in_dim_, on_complex, by_parts},
    {OpKind::transpose_, on_complex, by_parts},
    {OpKind::reshape_, on_complex, by_parts},
    {OpKind::slice_, on_complex, by_parts},
    {OpKind::reverse_, on_complex, by_parts},
    {OpKind::concatenate_, on_complex, by_parts},
    {OpKind::pad_, on_complex, by_parts},
    {OpKind::select_, on_complex, by_parts},
    {OpKind::gather_, on_complex, by_parts},
    {OpKind::dynamic_slice_, on_complex, by_parts},
    {OpKind::dynamic_update_slice_, on_complex, by_parts},
    {OpKind::optimization_barrier_, on_complex, by_parts},
    // by formulas
    {OpKind::negate_, on_complex, elementwise},
    {OpKind::exponential_, on_complex, elementwise},
    {OpKind::exponential_minus_one_, on_complex, elementwise},
    {OpKind::log_, on_complex, elementwise},
    {OpKind::log_plus_one_, on_complex, elementwise},
    {OpKind::logistic_, on_complex, elementwise},
    {OpKind::sqrt_, on_complex, elementwise},
    {OpKind::rsqrt_, on_complex, elementwise},
    {OpKind::cbrt_, on_complex, elementwise},
    {OpKind::sine_, on_complex, elementwise},
    {OpKind::cosine_, on_complex, elementwise},
    {OpKind::tan_, on_complex, elementwise},
    {OpKind::tanh_, on_complex, elementwise},
    {OpKind::sign_, on_complex, elementwise},
    {OpKind::chlo_conj_, on_complex, elementwise},
    {OpKind::chlo_square_, on_complex, elementwise},
    {OpKind::chlo_tan_, on_complex, elementwise},
    {OpKind::chlo_sinh_, on_complex, elementwise},
    {OpKind::chlo_cosh_, on_complex, elementwise},
    {OpKind::chlo_asin_, on_complex, elementwise},
    {OpKind::chlo_acos_, on_complex, elementwise},
    {OpKind::chlo_atan_, on_complex, elementwise},
    {OpKind::chlo_asinh_, on_complex, elementwise},
    {OpKind::chlo_acosh_, on_complex, elementwise},
    {OpKind::chlo_atanh_, on_complex, elementwise},
    {OpKind::add_, on_complex, elementwise},
    {OpKind::subtract_, on_complex, elementwise},
    {OpKind::multiply_, on_complex, elementwise},
    {OpKind::divide_, on_complex, elementwise},
    {OpKind::power_, on_complex, elementwise},
    {OpKind::maximum_, on_complex, elementwise},
    {OpKind::minimum_, on_complex, elementwise},
    {OpKind::atan2_, on_complex, elementwise},
};

}  // namespace

Parts parts_of(Builder& builder, ValueId value) {
  const graph::Type type = builder.type(value);
  if (!graph::is_complex(type.element()))
    return {Expr(builder, value), Expr(builder, builder.splat(type, 0))};
  if (const Op* made = maker(builder.function(), value)) {
    if (made->kind == OpKind::complex_)
      return {Expr(builder, made->operands[0]), Expr(builder, made->operands[1])};
    if (made->kind == OpKind::constant_) {
      const graph::Literal literal = made->literal(Attr::value);
      return {Expr(builder, constant_part(builder, literal, false)),
              Expr(builder, constant_part(builder, literal, true))};
    }
  }
  return {Expr(builder, builder.add(OpKind::real_, {value})),
          Expr(builder, builder.add(OpKind::imag_, {value}))};
}

ValueId complex_value(const Parts& parts) { return parts.re.binary(OpKind::complex_, parts.im).id(); }

std::vector<ValueId> real_values(Builder& builder, ValueId value) {
  if (!graph::is_complex(builder.type(value).element())) return {value};
  const Parts parts = parts_of(builder, value);
  return {parts.re.id(), parts.im.id()};
}

ValueId from_real_values(Builder& builder, std::span<const ValueId> values) {
  return values.size() == 1 ? values[0] : complex_value({Expr(builder, values[0]), Expr(builder, values[1])});
}

std::span<const Expansion> complex_expansions() { return kComplexExpansions; }

}  // namespace opentrn::compiler
