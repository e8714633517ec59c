#include "decoder/step_ops.h"

#include <numbers>

#include <utility>

#include <fmt/format.h>

#include "compiler/weights/mx_product.h"
#include "decoder/narrow.h"

namespace opentrn::decoder {

using graph::Attr;
using graph::Attribute;
using graph::ElementType;
using graph::OpKind;
using graph::Type;

StepOps::StepOps(const Config& config, ElementType element)
    : config_(config),
      element_(element),
      function_(module_.add_function("main")),
      builder_(module_, function_, function_.body()) {}

void StepOps::at(const char* part) {
  graph::Location location;
  location.name = layer_ < 0 ? std::string(part) : fmt::format("layers/{}/{}", layer_, part);
  builder_.set_location(module_.intern(std::move(location)));
}

std::string StepOps::weight_name(std::string_view part) const {
  return layer_ < 0 ? std::string(part) : fmt::format("layers.{}.{}", layer_, part);
}

Matrix StepOps::matrix_of(const std::string& name, const WeightOf& part) {
  if (!is_narrow(config_, weight_name(name))) return {part(name)};
  const ValueId value = part(name);
  return {value, part(name + kScale)};
}

Matrix StepOps::matrix(const std::string& name) {
  return matrix_of(name, [&](std::string_view part) { return weight(part); });
}

graph::ValueId StepOps::biased(ValueId x, const char* name) {
  return binary(OpKind::add_, x, over_rows(weight(name), x));
}

graph::ValueId StepOps::over_rows(ValueId vector, ValueId x) {
  const Dims dims = builder_.type(x).dims_vector();
  return builder_.broadcast_in_dim(vector, dims, {static_cast<int64_t>(dims.size()) - 1});
}

graph::ValueId StepOps::scaled(ValueId value, double factor) {
  return binary(OpKind::multiply_, value, builder_.splat(builder_.type(value), factor));
}

graph::ValueId StepOps::capped(ValueId value, double cap) {
  return scaled(builder_.add(OpKind::tanh_, {scaled(value, 1 / cap)}), cap);
}

graph::ValueId StepOps::at_most(ValueId x, double limit) {
  return binary(OpKind::minimum_, x, builder_.splat(builder_.type(x), limit));
}

graph::ValueId StepOps::plus(ValueId x, ValueId y) {
  if (config_.residual_scale != 1) y = scaled(y, config_.residual_scale);
  return binary(OpKind::add_, x, y);
}

graph::ValueId StepOps::added_row(ValueId x, ValueId row) {
  const Dims dims = builder_.type(x).dims_vector();
  if (builder_.type(row).rank() == 2) row = builder_.reshape(row, {dims[1]});
  return binary(OpKind::add_, x, builder_.broadcast_in_dim(row, dims, {1}));
}

graph::ValueId StepOps::weighed(ValueId x, ValueId shares) {
  const Dims dims = builder_.type(x).dims_vector();
  return binary(OpKind::multiply_, x, builder_.broadcast_in_dim(shares, dims, {0}));
}

graph::ValueId StepOps::rows_of(ValueId table, ValueId indices) {
  const int64_t columns = builder_.type(table).dim(1);
  return builder_.add(OpKind::gather_, {table, indices},
                      {{Attr::offset_dims, Attribute(Dims{1})},
                       {Attr::collapsed_slice_dims, Attribute(Dims{0})},
                       {Attr::start_index_map, Attribute(Dims{0})},
                       {Attr::index_vector_dim, Attribute(int64_t{1})},
                       {Attr::slice_sizes, Attribute(Dims{1, columns})}});
}

graph::ValueId StepOps::activated(ValueId x) {
  switch (config_.activation) {
    case Activation::kSilu: return binary(OpKind::multiply_, x, builder_.add(OpKind::logistic_, {x}));
    case Activation::kRelu2: {
      const ValueId kept = binary(OpKind::maximum_, x, builder_.splat(builder_.type(x), 0.0));
      return binary(OpKind::multiply_, kept, kept);
    }
    case Activation::kRelu: return binary(OpKind::maximum_, x, builder_.splat(builder_.type(x), 0.0));
    case Activation::kGelu: {
      const ValueId share = builder_.add(OpKind::chlo_erf_, {scaled(x, std::numbers::sqrt2 / 2)});
      return binary(OpKind::multiply_, scaled(x, 0.5),
                    binary(OpKind::add_, share, builder_.splat(builder_.type(x), 1.0)));
    }
    case Activation::kGeluTanh: break;
  }
  constexpr double kRootOf2OverPi = 0.7978845608028654, kCubic = 0.044715;
  const ValueId cube = binary(OpKind::multiply_, x, binary(OpKind::multiply_, x, x));
  const ValueId inner = scaled(binary(OpKind::add_, x, scaled(cube, kCubic)), kRootOf2OverPi);
  const ValueId one = builder_.splat(builder_.type(x), 1.0);
  const ValueId share = binary(OpKind::add_, builder_.add(OpKind::tanh_, {inner}), one);
  return binary(OpKind::multiply_, scaled(x, 0.5), share);
}

graph::ValueId StepOps::dot(ValueId a, Dims a_batch, int64_t a_contracted, ValueId b, Dims b_batch,
                            int64_t b_contracted, Dims dims) {
  return builder_.add(OpKind::dot_general_, {a, b},
                      {{Attr::lhs_batching_dimensions, Attribute(std::move(a_batch))},
                       {Attr::rhs_batching_dimensions, Attribute(std::move(b_batch))},
                       {Attr::lhs_contracting_dimensions, Attribute(Dims{a_contracted})},
                       {Attr::rhs_contracting_dimensions, Attribute(Dims{b_contracted})}},
                      {Type::tensor(ElementType::kF32, std::move(dims))});
}

// A narrow weight is widened on the way, which is exact, and its scale meets the sums. A microscaled one is
// multiplied as it is kept, by x in MXFP8, which needs 16 bits on the way there.
graph::ValueId StepOps::product(ValueId x, const Matrix& weight) {
  const Dims dims{builder_.type(x).dim(0), builder_.type(weight.value).dim(1)};
  if (!weight.scale) return dot(x, {}, 1, weight.value, {}, 0, dims);
  if (is_microscaled(config_.narrow->type)) {
    const ElementType of_x = builder_.type(x).element();
    if (of_x == ElementType::kF32) x = builder_.convert(x, ElementType::kBF16);
    const int64_t depth = builder_.type(x).dim(1), held = rows_held(config_.narrow->type, depth);
    return compiler::mx_product_call(builder_, with_columns(x, held), weight.value, *weight.scale);
  }
  const ValueId sums = dot(x, {}, 1, narrow(weight.value), {}, 0, dims);
  const ValueId scale = builder_.reshape(*weight.scale, {dims[1]});
  return binary(OpKind::multiply_, sums, builder_.broadcast_in_dim(scale, dims, {1}));
}

// Behind its own ones, zeros up to so many.
graph::ValueId StepOps::with_columns(ValueId x, int64_t count) {
  const Type& type = builder_.type(x);
  if (type.dim(1) == count) return x;
  const Type more = Type::tensor(type.element(), {type.dim(0), count - type.dim(1)});
  return builder_.concatenate({x, builder_.splat(more, 0.0)}, 1);
}

Matrix StepOps::columns_of(const Matrix& weight, int64_t first, int64_t count) {
  const auto cut = [&](ValueId whole) {
    return builder_.slice(whole, {0, first}, {builder_.type(whole).dim(0), first + count});
  };
  Matrix part{cut(weight.value)};
  if (weight.scale) part.scale = cut(*weight.scale);
  return part;
}

graph::ValueId StepOps::gated(ValueId in, const Matrix& gate_up, const Matrix& down) {
  // Two products, so that what follows is done on their sums; a slice of a weight is only another place.
  const int64_t features = builder_.type(gate_up.value).dim(1) / 2;
  const ValueId gate = product(in, columns_of(gate_up, 0, features));
  const ValueId up = product(in, columns_of(gate_up, features, features));
  return product(narrow(binary(OpKind::multiply_, activated(gate), up)), down);
}

graph::ValueId StepOps::gated_within(ValueId in, const Matrix& gate_up, ValueId gate_up_bias,
                                     const Matrix& down, ValueId down_bias) {
  constexpr double kSteepness = 1.702;
  const int64_t features = builder_.type(gate_up.value).dim(1) / 2;
  const auto half = [&](int64_t first) {
    const ValueId made = product(in, columns_of(gate_up, first, features));
    return added_row(made, builder_.slice(gate_up_bias, {0, first}, {1, first + features}));
  };
  const ValueId gate = at_most(half(0), config_.gate_limit);
  const ValueId up = binary(OpKind::maximum_, at_most(half(features), config_.gate_limit),
                            builder_.splat(builder_.type(gate), -config_.gate_limit));
  const ValueId share = builder_.add(OpKind::logistic_, {scaled(gate, kSteepness)});
  const ValueId more = binary(OpKind::add_, up, builder_.splat(builder_.type(up), 1.0));
  const ValueId made = binary(OpKind::multiply_, binary(OpKind::multiply_, gate, share), more);
  return added_row(product(narrow(made), down), down_bias);
}

}  // namespace opentrn::decoder
