// Convolutions whose windows neither overlap nor leave anything out, with large windows of few channels: the
// patches of a vision transformer. They are one product, which reads the kernel in rows as it lies, and
// contracts over a whole patch where the convolution would have a few channels at a time.
//
// And transposed convolutions of such windows, as a network goes up to twice the size (ConvTranspose with the
// window as its stride), and the gradient of patches. As convolutions they read images that are zero but at
// every n-th place. Here a window of one place gives the values of all taps as features, which are then put
// beside each other.
#include <algorithm>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

// Fewer taps, or more channels, fill the Tensor engine as a convolution does; shorter rows of a patch are
// slow to load.
constexpr int64_t kTapsMin = 64;
constexpr int64_t kChannelsMax = 32;
constexpr int64_t kRowBytesMin = 32;

// Of floats, in one group, with windows that skip nothing.
bool is_plain(const Function& function, const Op& op) {
  for (const ValueId value : {op.operands[0], op.operands[1], op.results[0]}) {
    const graph::Type& type = function.type(value);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || !graph::is_float(type.element()) ||
        type.element_count() == 0)
      return false;
  }
  const size_t rank = op.integers(Attr::kernel_spatial_dimensions).size();
  return op.integer(Attr::batch_group_count) == 1 && op.integer(Attr::feature_group_count) == 1 &&
         is_ones(op.integers_or(Attr::rhs_dilation, rank, 1));
}

bool is_patches(const Function& function, const Op& op) {
  if (!is_plain(function, op)) return false;
  const graph::Type &lhs = function.type(op.operands[0]), &rhs = function.type(op.operands[1]),
                    &result = function.type(op.results[0]);
  const Dims in = dims_of(op, Attr::input_spatial_dimensions),
             taps = dims_of(op, Attr::kernel_spatial_dimensions),
             out = dims_of(op, Attr::output_spatial_dimensions);
  const auto dtype = device_dtype(lhs.element());
  if (in.empty() || !dtype || lhs.element() != rhs.element() ||
      !is_ones(op.integers_or(Attr::lhs_dilation, in.size(), 1)))
    return false;
  const auto strides = op.integers_or(Attr::window_strides, in.size(), 1),
             reversal = op.integers_or(Attr::window_reversal, in.size(), 0);
  int64_t count = 1;
  for (size_t i = 0; i < in.size(); ++i) {
    const int64_t size = rhs.dim(static_cast<int>(taps[i]));
    count *= size;
    const bool padded =
        op.has(Attr::padding) && (op.matrix(Attr::padding).at(static_cast<int64_t>(i), 0) != 0 ||
                                  op.matrix(Attr::padding).at(static_cast<int64_t>(i), 1) != 0);
    if (strides[i] != size || reversal[i] != 0 || padded ||
        lhs.dim(static_cast<int>(in[i])) != size * result.dim(static_cast<int>(out[i])))
      return false;
  }
  return count >= kTapsMin &&
         rhs.dim(static_cast<int>(op.integer(Attr::kernel_input_feature_dimension))) <= kChannelsMax &&
         rhs.dim(static_cast<int>(taps.back())) * size_bytes(*dtype) >= kRowBytesMin;
}

std::vector<ValueId> one_product(Builder& builder, const Function& function, const Op& op,
                                 std::span<const ValueId> operands) {
  const graph::Type &lhs = function.type(op.operands[0]), &rhs = function.type(op.operands[1]),
                    &type = function.type(op.results[0]);
  const Dims in = dims_of(op, Attr::input_spatial_dimensions),
             taps = dims_of(op, Attr::kernel_spatial_dimensions),
             out = dims_of(op, Attr::output_spatial_dimensions);
  const int64_t batch = op.integer(Attr::input_batch_dimension),
                feature = op.integer(Attr::input_feature_dimension);
  // Every spatial dimension as places and taps, where it is. `kept`: what the product leaves, by the result's
  // dimension.
  Dims split, kept, left{0}, right{op.integer(Attr::kernel_input_feature_dimension)};
  left.resize(in.size() + 1);
  for (int64_t d = 0; d < lhs.rank(); ++d) {
    const auto found = std::ranges::find(in, d);
    if (d == feature) left[0] = static_cast<int64_t>(split.size());
    if (d == batch) kept.push_back(op.integer(Attr::output_batch_dimension));
    if (found == in.end()) {
      split.push_back(lhs.dim(static_cast<int>(d)));
      continue;
    }
    const auto i = static_cast<size_t>(found - in.begin());
    kept.push_back(out[i]);
    split.push_back(type.dim(static_cast<int>(out[i])));
    left[i + 1] = static_cast<int64_t>(split.size());
    split.push_back(rhs.dim(static_cast<int>(taps[i])));
  }
  kept.push_back(op.integer(Attr::output_feature_dimension));
  right.insert(right.end(), taps.begin(), taps.end());
  Dims dims, permutation(kept.size());
  for (size_t i = 0; i < kept.size(); ++i) {
    dims.push_back(type.dim(static_cast<int>(kept[i])));
    permutation[static_cast<size_t>(kept[i])] = static_cast<int64_t>(i);
  }
  const ValueId product =
      builder.add(OpKind::dot_general_, {builder.reshape(operands[0], std::move(split)), operands[1]},
                  {{Attr::lhs_batching_dimensions, graph::Attribute(Dims{})},
                   {Attr::rhs_batching_dimensions, graph::Attribute(Dims{})},
                   {Attr::lhs_contracting_dimensions, graph::Attribute(std::move(left))},
                   {Attr::rhs_contracting_dimensions, graph::Attribute(std::move(right))}},
                  {graph::Type::tensor(type.element(), std::move(dims))});
  return {builder.transpose(product, std::move(permutation))};
}

// --- the other way: transposed
// -------------------------------------------------------------------------------------

// Values of taps go through memory once more, features times places; as a convolution the Tensor engine
// passes over all taps at each place, whatever the number of features, four times as long in fp32. Above
// these many features memory takes longer (U-Net's 64 in bf16 on Trainium: 302 us in place of 84).
int64_t features_max(graph::ElementType element) { return element == graph::ElementType::kF32 ? 256 : 16; }

bool is_spread_patches(const Function& function, const Op& op) {
  if (!is_plain(function, op)) return false;
  const graph::Type &lhs = function.type(op.operands[0]), &rhs = function.type(op.operands[1]),
                    &result = function.type(op.results[0]);
  const Dims taps = dims_of(op, Attr::kernel_spatial_dimensions);
  const size_t rank = taps.size();
  if (!op.has(Attr::padding) || !is_ones(op.integers_or(Attr::window_strides, rank, 1))) return false;
  const auto dilation = op.integers_or(Attr::lhs_dilation, rank, 1);
  const graph::IntMatrix& padding = op.matrix(Attr::padding);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size = rhs.dim(static_cast<int>(taps[i]));
    if (dilation[i] != size || padding.at(static_cast<int64_t>(i), 0) != size - 1 ||
        padding.at(static_cast<int64_t>(i), 1) != size - 1)
      return false;
  }
  return !is_ones(dilation) && result.dim(static_cast<int>(op.integer(Attr::output_feature_dimension))) <=
                                   features_max(lhs.element());
}

// [input features, 1..., taps and output features], the taps in the order of the places that they give.
ValueId kernel_of_all_taps(Builder& builder, const Op& op, ValueId kernel) {
  const Dims taps = dims_of(op, Attr::kernel_spatial_dimensions);
  const auto reversal = op.integers_or(Attr::window_reversal, taps.size(), 0);
  const int64_t in = op.integer(Attr::kernel_input_feature_dimension);
  Dims turned, order{in};
  for (size_t i = 0; i < taps.size(); ++i) {
    // A window that is not read backwards meets a value with its last tap first.
    if (reversal[i] == 0) turned.push_back(taps[i]);
    order.push_back(taps[i]);
  }
  order.push_back(op.integer(Attr::kernel_output_feature_dimension));
  if (!turned.empty())
    kernel =
        builder.add(OpKind::reverse_, {kernel}, {{Attr::dimensions, graph::Attribute(std::move(turned))}});
  const graph::Type type = builder.type(kernel);
  Dims flat(taps.size() + 2, 1);
  flat.front() = type.dim(static_cast<int>(in));
  flat.back() = type.element_count() / flat.front();
  return builder.reshape(builder.transpose(kernel, std::move(order)), std::move(flat));
}

// [batch, taps and output features, places...].
ValueId all_taps(Builder& builder, const Op& op, ValueId images, ValueId kernel, graph::ElementType element) {
  const Dims in = dims_of(op, Attr::input_spatial_dimensions);
  const auto rank = static_cast<int64_t>(in.size());
  Dims spatial, inside,
      dims{builder.type(images).dim(static_cast<int>(op.integer(Attr::input_batch_dimension))),
           builder.type(kernel).dim(static_cast<int>(rank) + 1)};
  for (int64_t i = 0; i < rank; ++i) {
    inside.push_back(i + 1);
    spatial.push_back(i + 2);
    dims.push_back(builder.type(images).dim(static_cast<int>(in[static_cast<size_t>(i)])));
  }
  const graph::Attribute ones(Dims(in.size(), 1));
  return builder.add(
      OpKind::convolution_, {images, kernel},
      {{Attr::input_batch_dimension, graph::Attribute(op.integer(Attr::input_batch_dimension))},
       {Attr::input_feature_dimension, graph::Attribute(op.integer(Attr::input_feature_dimension))},
       {Attr::input_spatial_dimensions, graph::Attribute(in)},
       {Attr::kernel_input_feature_dimension, graph::Attribute(int64_t{0})},
       {Attr::kernel_spatial_dimensions, graph::Attribute(inside)},
       {Attr::kernel_output_feature_dimension, graph::Attribute(rank + 1)},
       {Attr::output_batch_dimension, graph::Attribute(int64_t{0})},
       {Attr::output_feature_dimension, graph::Attribute(int64_t{1})},
       {Attr::output_spatial_dimensions, graph::Attribute(spatial)},
       {Attr::window_strides, ones},
       {Attr::padding, graph::Attribute(graph::IntMatrix{rank, 2, Dims(2 * in.size(), 0)})},
       {Attr::lhs_dilation, ones},
       {Attr::rhs_dilation, ones},
       {Attr::feature_group_count, graph::Attribute(int64_t{1})},
       {Attr::batch_group_count, graph::Attribute(int64_t{1})}},
      {graph::Type::tensor(element, std::move(dims))});
}

std::vector<ValueId> spread(Builder& builder, const Function& function, const Op& op,
                            std::span<const ValueId> operands) {
  const graph::Type &rhs = function.type(op.operands[1]), &type = function.type(op.results[0]);
  const Dims taps = dims_of(op, Attr::kernel_spatial_dimensions),
             out = dims_of(op, Attr::output_spatial_dimensions);
  const ValueId kernel = kernel_of_all_taps(builder, op, operands[1]),
                values = all_taps(builder, op, operands[0], kernel, type.element());
  // [batch, taps..., output feature, places...], and where each dimension of the result finds its own.
  const auto rank = static_cast<int64_t>(taps.size());
  Dims split{builder.type(values).dim(0)}, order;
  for (const int64_t d : taps) split.push_back(rhs.dim(static_cast<int>(d)));
  split.push_back(type.dim(static_cast<int>(op.integer(Attr::output_feature_dimension))));
  for (int64_t i = 0; i < rank; ++i) split.push_back(builder.type(values).dim(static_cast<int>(i) + 2));
  for (int64_t d = 0; d < type.rank(); ++d) {
    const auto found = std::ranges::find(out, d);
    if (found != out.end()) {
      const int64_t i = found - out.begin();
      order.push_back(rank + 2 + i);
      order.push_back(1 + i);
    } else {
      order.push_back(d == op.integer(Attr::output_batch_dimension) ? 0 : rank + 1);
    }
  }
  const ValueId beside = builder.transpose(builder.reshape(values, std::move(split)), std::move(order));
  return {builder.reshape(beside, type.dims_vector())};
}

constexpr Expansion kPatchExpansions[] = {{OpKind::convolution_, is_patches, one_product},
                                          {OpKind::convolution_, is_spread_patches, spread}};

}  // namespace

std::span<const Expansion> patch_expansions() { return kPatchExpansions; }

}  // namespace opentrn::compiler
