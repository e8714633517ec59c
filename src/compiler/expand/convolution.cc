// Convolutions in the form that the kernel takes (lowering/convolution.cc): windows forwards, batches in one
// group, at most two spatial dimensions.
#include <algorithm>
#include <optional>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

constexpr size_t kSpatialMax = 2;
// Places of a depthwise gradient, each an op of its own.
constexpr int64_t kPlacesMax = 64;

bool has_reversal(const Op& op) {
  const auto reversal =
      op.integers_or(Attr::window_reversal, op.integers(Attr::kernel_spatial_dimensions).size(), 0);
  return std::any_of(reversal.begin(), reversal.end(), [](int64_t reversed) { return reversed != 0; });
}

bool takes_convolution(const Function& function, const Op& op) {
  const graph::Type &lhs = function.type(op.operands[0]), &rhs = function.type(op.operands[1]);
  if (!lhs.is_tensor() || !lhs.is_static() || !rhs.is_static() || lhs.quantization() || rhs.quantization())
    return false;
  return has_reversal(op) || op.integer(Attr::batch_group_count) > 1 ||
         op.integers(Attr::kernel_spatial_dimensions).size() > kSpatialMax;
}

Builder::Attributes attributes_without(const Op& op, Attr dropped) {
  Builder::Attributes attributes;
  for (const auto& [attr, value] : op.attributes)
    if (attr != dropped) attributes.emplace_back(attr, value);
  return attributes;
}

ValueId forwards(Builder& builder, const Op& op, ValueId lhs, ValueId rhs, const graph::Type& type) {
  const Dims taps = dims_of(op, Attr::kernel_spatial_dimensions);
  const Dims reversal = op.integers_or(Attr::window_reversal, taps.size(), 0);
  Dims reversed;
  for (size_t i = 0; i < taps.size(); ++i)
    if (reversal[i] != 0) reversed.push_back(taps[i]);
  const ValueId kernel =
      builder.add(OpKind::reverse_, {rhs}, {{Attr::dimensions, graph::Attribute(std::move(reversed))}});
  return builder.add(OpKind::convolution_, {lhs, kernel}, attributes_without(op, Attr::window_reversal),
                     {type});
}

ValueId group_of(Builder& builder, ValueId value, int64_t dimension, int64_t index, int64_t groups) {
  const int64_t size = builder.type(value).dim(static_cast<int>(dimension)) / groups;
  return part_of(builder, value, dimension, size * index, size * (index + 1));
}

// Group g of the batches with group g of the kernel's output features.
ValueId by_batch_groups(Builder& builder, const Op& op, ValueId lhs, ValueId rhs, const graph::Type& type) {
  const int64_t groups = op.integer(Attr::batch_group_count),
                feature = op.integer(Attr::output_feature_dimension);
  Dims dims = type.dims_vector();
  dims[static_cast<size_t>(feature)] /= groups;
  Builder::Attributes attributes = attributes_without(op, Attr::batch_group_count);
  attributes.emplace_back(Attr::batch_group_count, graph::Attribute(int64_t{1}));
  std::vector<ValueId> results;
  for (int64_t g = 0; g < groups; ++g)
    results.push_back(
        builder.add(OpKind::convolution_,
                    {group_of(builder, lhs, op.integer(Attr::input_batch_dimension), g, groups),
                     group_of(builder, rhs, op.integer(Attr::kernel_output_feature_dimension), g, groups)},
                    attributes, {type.with_dims(dims)}));
  return builder.concatenate(std::move(results), feature);
}

// The gradient of depthwise weights: every batch is a group, and has one kernel. Channels lie in rows; the
// window's few places are sums of products with what each sees.
bool is_depthwise_gradient(const Function& function, const Op& op) {
  const int64_t groups = op.integer(Attr::batch_group_count);
  const graph::Type &lhs = function.type(op.operands[0]), &rhs = function.type(op.operands[1]),
                    &result = function.type(op.results[0]);
  int64_t places = 1;
  for (const int64_t d : op.integers(Attr::output_spatial_dimensions))
    places *= result.dim(static_cast<int>(d));
  return groups > 1 && groups == lhs.dim(static_cast<int>(op.integer(Attr::input_batch_dimension))) &&
         groups == rhs.dim(static_cast<int>(op.integer(Attr::kernel_output_feature_dimension))) &&
         places <= kPlacesMax && graph::is_float(lhs.element()) && !graph::is_complex(lhs.element());
}

// [first, second, spatial...].
ValueId in_order(Builder& builder, ValueId value, int64_t first, int64_t second, const Dims& spatial) {
  Dims order{first, second};
  order.insert(order.end(), spatial.begin(), spatial.end());
  return builder.transpose(value, std::move(order));
}

// The spatial dimensions (from 2 on) padded and dilated as the convolution says.
ValueId padded_images(Builder& builder, const Op& op, ValueId images) {
  const size_t rank = op.integers(Attr::input_spatial_dimensions).size();
  const Dims base = op.integers_or(Attr::lhs_dilation, rank, 1);
  Dims low(rank + 2, 0), high(rank + 2, 0), interior(rank + 2, 0);
  for (size_t i = 0; i < rank; ++i) {
    if (op.has(Attr::padding)) {
      low[i + 2] = op.matrix(Attr::padding).at(static_cast<int64_t>(i), 0);
      high[i + 2] = op.matrix(Attr::padding).at(static_cast<int64_t>(i), 1);
    }
    interior[i + 2] = base[i] - 1;
  }
  const ValueId zero = builder.splat(graph::Type::scalar(builder.type(images).element()), 0);
  return padded(builder, images, zero, low, high, interior);
}

ValueId depthwise_gradient(Builder& builder, const Op& op, ValueId lhs, ValueId rhs,
                           const graph::Type& type) {
  const Dims in = dims_of(op, Attr::input_spatial_dimensions),
             taps = dims_of(op, Attr::kernel_spatial_dimensions),
             out = dims_of(op, Attr::output_spatial_dimensions);
  const ValueId images = padded_images(builder, op,
                                       in_order(builder, lhs, op.integer(Attr::input_batch_dimension),
                                                op.integer(Attr::input_feature_dimension), in));
  const Expr kernel = Expr(builder, in_order(builder, rhs, op.integer(Attr::kernel_output_feature_dimension),
                                             op.integer(Attr::kernel_input_feature_dimension), taps))
                          .as(ElementType::kF32);
  const Dims strides = op.integers_or(Attr::window_strides, in.size(), 1),
             dilations = op.integers_or(Attr::rhs_dilation, in.size(), 1);
  const Dims seen = kernel.type().dims_vector();
  Dims summed, place(out.size(), 0);
  for (size_t i = 1; i < seen.size(); ++i) summed.push_back(static_cast<int64_t>(i));
  std::vector<ValueId> places;
  for (bool more = true; more;) {
    Dims start(seen.size(), 0), steps(seen.size(), 1);
    for (size_t i = 0; i < out.size(); ++i) {
      start[i + 2] = place[i] * strides[i];
      steps[i + 2] = dilations[i];
    }
    const Expr window(builder, strided(builder, images, start, seen, steps));
    const ValueId sum = builder.reduce(OpKind::add_, (window.as(ElementType::kF32) * kernel).id(), summed);
    places.push_back(builder.reshape(sum, {seen[0], 1}));
    more = false;
    for (size_t i = out.size(); i-- > 0 && !more; more = place[i] != 0)
      place[i] = (place[i] + 1) % type.dim(static_cast<int>(out[i]));
  }
  const ValueId joined = places.size() == 1 ? places[0] : builder.concatenate(std::move(places), 1);
  Dims flat{1, seen[0]}, permutation(static_cast<size_t>(type.rank()));
  permutation[static_cast<size_t>(op.integer(Attr::output_batch_dimension))] = 0;
  permutation[static_cast<size_t>(op.integer(Attr::output_feature_dimension))] = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    flat.push_back(type.dim(static_cast<int>(out[i])));
    permutation[static_cast<size_t>(out[i])] = static_cast<int64_t>(i) + 2;
  }
  const ValueId result = builder.transpose(builder.reshape(joined, std::move(flat)), std::move(permutation));
  return builder.convert(result, type.element());
}

// Along the first spatial dimension its places are batches of a convolution over the others, and what its
// taps see are channels side by side, which the Tensor engine adds up. In groups: a sum over its taps of such
// convolutions.
class ByTaps {
 public:
  ByTaps(Builder& builder, const Op& op, const graph::Type& type)
      : builder_(builder),
        op_(op),
        type_(type),
        in_(dims_of(op, Attr::input_spatial_dimensions)),
        taps_(dims_of(op, Attr::kernel_spatial_dimensions)),
        out_(dims_of(op, Attr::output_spatial_dimensions)),
        padding_{static_cast<int64_t>(in_.size()), 2, Dims(2 * in_.size(), 0)} {
    if (op.has(Attr::padding)) padding_ = op.matrix(Attr::padding);
    places_ = type.dim(static_cast<int>(out_[0]));
  }

  ValueId run(ValueId lhs, ValueId rhs) {
    const ValueId images = pad(lhs);
    const ValueId last = op_.integer(Attr::feature_group_count) == 1
                             ? convolved(inputs(images, taps_of(rhs)), kernels(rhs), type_.element())
                             : sum_over_taps(images, rhs);
    // [batch, place, feature, others...] to the result's order.
    const auto batch = op_.integer(Attr::output_batch_dimension),
               feature = op_.integer(Attr::output_feature_dimension);
    Dims dims{type_.dim(static_cast<int>(batch)), places_, type_.dim(static_cast<int>(feature))};
    Dims permutation(static_cast<size_t>(type_.rank()));
    permutation[static_cast<size_t>(batch)] = 0;
    permutation[static_cast<size_t>(out_[0])] = 1;
    permutation[static_cast<size_t>(feature)] = 2;
    for (size_t i = 1; i < out_.size(); ++i) {
      permutation[static_cast<size_t>(out_[i])] = static_cast<int64_t>(dims.size());
      dims.push_back(type_.dim(static_cast<int>(out_[i])));
    }
    return builder_.transpose(builder_.reshape(last, std::move(dims)), std::move(permutation));
  }

 private:
  // The first dimension padded and dilated.
  ValueId pad(ValueId lhs) {
    const auto rank = static_cast<size_t>(builder_.type(lhs).rank()), d = static_cast<size_t>(in_[0]);
    Dims low(rank, 0), high(rank, 0), interior(rank, 0);
    low[d] = padding_.values[0];
    high[d] = padding_.values[1];
    interior[d] = op_.integers_or(Attr::lhs_dilation, in_.size(), 1)[0] - 1;
    const ValueId zero = builder_.splat(graph::Type::scalar(builder_.type(lhs).element()), 0);
    return padded(builder_, lhs, zero, low, high, interior);
  }

  // What the tap sees, [batch * place, feature, others...].
  ValueId input(ValueId images, int64_t tap) {
    const Dims dims = builder_.type(images).dims_vector();
    const auto d = static_cast<size_t>(in_[0]);
    const int64_t stride = op_.integers_or(Attr::window_strides, in_.size(), 1)[0],
                  dilation = op_.integers_or(Attr::rhs_dilation, in_.size(), 1)[0];
    Dims start(dims.size(), 0), count = dims, strides(dims.size(), 1);
    start[d] = tap * dilation;
    count[d] = places_;
    strides[d] = stride;
    const ValueId seen = strided(builder_, images, start, count, strides);
    const int64_t batch = op_.integer(Attr::input_batch_dimension),
                  feature = op_.integer(Attr::input_feature_dimension);
    Dims permutation{batch, in_[0], feature};
    Dims flat{dims[static_cast<size_t>(batch)] * places_, dims[static_cast<size_t>(feature)]};
    for (size_t i = 1; i < in_.size(); ++i) {
      permutation.push_back(in_[i]);
      flat.push_back(dims[static_cast<size_t>(in_[i])]);
    }
    return builder_.reshape(builder_.transpose(seen, std::move(permutation)), std::move(flat));
  }

  int64_t taps_of(ValueId rhs) const { return builder_.type(rhs).dim(static_cast<int>(taps_[0])); }

  ValueId sum_over_taps(ValueId images, ValueId rhs) {
    const ElementType sums = graph::is_float(type_.element()) ? ElementType::kF32 : type_.element();
    std::optional<Expr> sum;
    for (int64_t tap = 0; tap < taps_of(rhs); ++tap) {
      const Expr term(builder_, convolved(input(images, tap), kernel(rhs, tap), sums));
      sum = sum ? *sum + term : term;
    }
    return sum->as(type_.element()).id();
  }

  // What all taps see, [batch * place, feature * tap, others...].
  ValueId inputs(ValueId images, int64_t taps) {
    std::vector<ValueId> seen;
    Dims flat;
    for (int64_t tap = 0; tap < taps; ++tap) {
      const ValueId one = input(images, tap);
      flat = builder_.type(one).dims_vector();
      Dims beside = flat;
      beside.insert(beside.begin() + 2, 1);
      seen.push_back(builder_.reshape(one, std::move(beside)));
    }
    flat[1] *= taps;
    return builder_.reshape(taps == 1 ? seen[0] : builder_.concatenate(std::move(seen), 2), std::move(flat));
  }

  // [output feature, input feature * tap, others...], which is what PyTorch's weights are.
  ValueId kernels(ValueId rhs) {
    const int64_t in = op_.integer(Attr::kernel_input_feature_dimension),
                  out = op_.integer(Attr::kernel_output_feature_dimension);
    Dims permutation{out, in, taps_[0]}, flat;
    permutation.insert(permutation.end(), taps_.begin() + 1, taps_.end());
    const graph::Type& type = builder_.type(rhs);
    const auto count = [&](int64_t d) { return type.dim(static_cast<int>(d)); };
    flat = {count(out), count(in) * count(taps_[0])};
    for (size_t i = 1; i < taps_.size(); ++i) flat.push_back(count(taps_[i]));
    return builder_.reshape(builder_.transpose(rhs, std::move(permutation)), std::move(flat));
  }

  // One tap, [output feature, input feature, others...].
  ValueId kernel(ValueId rhs, int64_t tap) {
    const Dims dims = builder_.type(rhs).dims_vector();
    const auto d = static_cast<size_t>(taps_[0]);
    Dims start(dims.size(), 0), limit = dims;
    start[d] = tap;
    limit[d] = tap + 1;
    const int64_t in = op_.integer(Attr::kernel_input_feature_dimension),
                  out = op_.integer(Attr::kernel_output_feature_dimension);
    Dims permutation{taps_[0], out, in};
    Dims flat{dims[static_cast<size_t>(out)], dims[static_cast<size_t>(in)]};
    for (size_t i = 1; i < taps_.size(); ++i) {
      permutation.push_back(taps_[i]);
      flat.push_back(dims[static_cast<size_t>(taps_[i])]);
    }
    return builder_.reshape(builder_.transpose(builder_.slice(rhs, start, limit), std::move(permutation)),
                            std::move(flat));
  }

  ValueId convolved(ValueId lhs, ValueId rhs, ElementType sums) {
    const size_t left = in_.size() - 1;
    Dims spatial;
    for (size_t i = 0; i < left; ++i) spatial.push_back(static_cast<int64_t>(i) + 2);
    const auto rest = [&](Attr attr) {
      const Dims all = op_.integers_or(attr, in_.size(), 1);
      return graph::Attribute(Dims(all.begin() + 1, all.end()));
    };
    const graph::IntMatrix padding{static_cast<int64_t>(left), 2,
                                   Dims(padding_.values.begin() + 2, padding_.values.end())};
    Dims dims{builder_.type(lhs).dim(0), builder_.type(rhs).dim(0)};
    for (size_t i = 1; i < out_.size(); ++i) dims.push_back(type_.dim(static_cast<int>(out_[i])));
    return builder_.add(
        OpKind::convolution_, {lhs, rhs},
        {{Attr::input_batch_dimension, graph::Attribute(int64_t{0})},
         {Attr::input_feature_dimension, graph::Attribute(int64_t{1})},
         {Attr::input_spatial_dimensions, graph::Attribute(spatial)},
         {Attr::kernel_output_feature_dimension, graph::Attribute(int64_t{0})},
         {Attr::kernel_input_feature_dimension, graph::Attribute(int64_t{1})},
         {Attr::kernel_spatial_dimensions, graph::Attribute(spatial)},
         {Attr::output_batch_dimension, graph::Attribute(int64_t{0})},
         {Attr::output_feature_dimension, graph::Attribute(int64_t{1})},
         {Attr::output_spatial_dimensions, graph::Attribute(spatial)},
         {Attr::window_strides, rest(Attr::window_strides)},
         {Attr::padding, graph::Attribute(padding)},
         {Attr::lhs_dilation, rest(Attr::lhs_dilation)},
         {Attr::rhs_dilation, rest(Attr::rhs_dilation)},
         {Attr::feature_group_count, graph::Attribute(op_.integer(Attr::feature_group_count))},
         {Attr::batch_group_count, graph::Attribute(int64_t{1})}},
        {graph::Type::tensor(sums, std::move(dims))});
  }

  Builder& builder_;
  const Op& op_;
  const graph::Type& type_;
  Dims in_, taps_, out_;
  graph::IntMatrix padding_;
  int64_t places_ = 0;
};

std::vector<ValueId> convolution(Builder& builder, const Function& function, const Op& op,
                                 std::span<const ValueId> operands) {
  const graph::Type& type = function.type(op.results[0]);
  if (type.element_count() == 0) return {builder.splat(type, 0.0)};  // windows that fit nowhere
  if (has_reversal(op)) return {forwards(builder, op, operands[0], operands[1], type)};
  if (is_depthwise_gradient(function, op))
    return {depthwise_gradient(builder, op, operands[0], operands[1], type)};
  if (op.integer(Attr::batch_group_count) > 1)
    return {by_batch_groups(builder, op, operands[0], operands[1], type)};
  return {ByTaps(builder, op, type).run(operands[0], operands[1])};
}

constexpr Expansion kConvolutionExpansions[] = {{OpKind::convolution_, takes_convolution, convolution}};

}  // namespace

std::span<const Expansion> convolution_expansions() { return kConvolutionExpansions; }

}  // namespace opentrn::compiler
