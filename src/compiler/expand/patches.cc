// Convolutions whose windows neither overlap nor leave anything out, with large windows of few channels: the
// patches of a vision transformer. They are one product, which reads the kernel in rows as it lies, and
// contracts over a whole patch where the convolution would have a few channels at a time.
#include <algorithm>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/dims.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Builder;
using graph::ElementType;
using graph::Function;
using graph::Op;
using graph::OpKind;
using graph::ValueId;

namespace {

// Fewer taps, or more channels, fill the Tensor engine as a convolution does; shorter rows of a patch are
// slow to load.
constexpr int64_t kTapsMin = 64;
constexpr int64_t kChannelsMax = 32;
constexpr int64_t kRowBytesMin = 32;

bool is_patches(const Function& function, const Op& op) {
  const graph::Type &lhs = function.type(op.operands[0]), &rhs = function.type(op.operands[1]),
                    &result = function.type(op.results[0]);
  for (const graph::Type* type : {&lhs, &rhs, &result})
    if (!type->is_tensor() || !type->is_static() || type->quantization() ||
        !graph::is_float(type->element()) || type->element_count() == 0)
      return false;
  const Dims in = dims_of(op, Attr::input_spatial_dimensions),
             taps = dims_of(op, Attr::kernel_spatial_dimensions),
             out = dims_of(op, Attr::output_spatial_dimensions);
  const auto dtype = device_dtype(lhs.element());
  if (in.empty() || !dtype || lhs.element() != rhs.element() || op.integer(Attr::batch_group_count) != 1 ||
      op.integer(Attr::feature_group_count) != 1 ||
      !is_ones(op.integers_or(Attr::lhs_dilation, in.size(), 1)) ||
      !is_ones(op.integers_or(Attr::rhs_dilation, in.size(), 1)))
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

constexpr Expansion kPatchExpansions[] = {{OpKind::convolution_, is_patches, one_product}};

}  // namespace

std::span<const Expansion> patch_expansions() { return kPatchExpansions; }

}  // namespace opentrn::compiler
