// Depthwise convolutions of few channels, with images beside one another among the channels.
//
// Each channel takes a partition of the Vector engine (lowering/convolution.cc), which leaves most of the 128
// idle where there are 32 of them, while images go one after another. Two images of 32 channels are one of
// 64, whose kernels are those of the 32, twice. Nothing else changes: every sum has the same terms.
#include <algorithm>
#include <optional>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

constexpr int64_t kPartitions = 128;
// Columns of the Vector engine's time: two kernels' beginnings, one of which repeats the weights. Images and
// channels that lie apart are moved by this convolution in any case.
constexpr int64_t kLeastGain = 4000;

bool is_depthwise(const Function& function, const Op& op) {
  const graph::Type &lhs = function.type(op.operands[0]), &rhs = function.type(op.operands[1]);
  if (!lhs.is_tensor() || !lhs.is_static() || !rhs.is_static() || lhs.quantization() || rhs.quantization())
    return false;
  if (!graph::is_float(lhs.element()) || graph::is_complex(lhs.element())) return false;
  const int64_t groups = op.integer(Attr::feature_group_count);
  return groups > 1 && op.integer(Attr::batch_group_count) == 1 &&
         lhs.dim(static_cast<int>(op.integer(Attr::input_feature_dimension))) == groups &&
         rhs.dim(static_cast<int>(op.integer(Attr::kernel_output_feature_dimension))) == groups;
}

// As many images as find room beside each other; 1: there is no room, or too little to be gained.
int64_t images_together(const Function& function, const Op& op) {
  if (!is_depthwise(function, op)) return 1;
  const graph::Type &lhs = function.type(op.operands[0]), &result = function.type(op.results[0]);
  const int64_t groups = op.integer(Attr::feature_group_count),
                batch = op.integer(Attr::input_batch_dimension), images = lhs.dim(static_cast<int>(batch));
  int64_t together = std::min(images, kPartitions / groups);
  while (together > 1 && images % together != 0) --together;
  if (together <= 1) return 1;
  const int64_t positions = result.element_count() / groups,
                taps = function.type(op.operands[1]).element_count() / groups;
  const int64_t gained = taps * positions / together * (together - 1);
  return gained > kLeastGain ? together : 1;
}

bool takes_images_together(const Function& function, const Op& op) {
  return images_together(function, op) > 1;
}

// `count` of the indices of `batch` go outside of `feature`, whose indices they multiply.
ValueId batch_to_feature(Builder& builder, ValueId value, int64_t batch, int64_t feature, int64_t count) {
  const Dims dims = builder.type(value).dims_vector();
  Dims cut, order, whole;
  for (size_t d = 0; d < dims.size(); ++d) {
    cut.push_back(static_cast<int64_t>(d) == batch ? dims[d] / count : dims[d]);
    if (static_cast<int64_t>(d) == batch) cut.push_back(count);
  }
  const auto at = [&](int64_t d) { return d > batch ? d + 1 : d; };
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    if (d == feature) order.push_back(batch + 1);
    order.push_back(at(d));
    whole.push_back(d == batch     ? dims[static_cast<size_t>(d)] / count
                    : d == feature ? dims[static_cast<size_t>(d)] * count
                                   : dims[static_cast<size_t>(d)]);
  }
  return builder.reshape(builder.transpose(builder.reshape(value, cut), order), whole);
}

// And back.
ValueId feature_to_batch(Builder& builder, ValueId value, int64_t batch, int64_t feature, int64_t count) {
  const Dims dims = builder.type(value).dims_vector();
  Dims cut, order, whole;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (static_cast<int64_t>(d) == feature) cut.push_back(count);
    cut.push_back(static_cast<int64_t>(d) == feature ? dims[d] / count : dims[d]);
  }
  const auto at = [&](int64_t d) { return d >= feature ? d + 1 : d; };
  for (int64_t d = 0; d < static_cast<int64_t>(dims.size()); ++d) {
    order.push_back(at(d));
    if (d == batch) order.push_back(feature);
    whole.push_back(d == batch     ? dims[static_cast<size_t>(d)] * count
                    : d == feature ? dims[static_cast<size_t>(d)] / count
                                   : dims[static_cast<size_t>(d)]);
  }
  return builder.reshape(builder.transpose(builder.reshape(value, cut), order), whole);
}

std::vector<ValueId> with_images_together(Builder& builder, const Function& function, const Op& op,
                                          std::span<const ValueId> operands) {
  const int64_t together = images_together(function, op), groups = op.integer(Attr::feature_group_count),
                batch = op.integer(Attr::output_batch_dimension),
                feature = op.integer(Attr::output_feature_dimension);
  const ValueId images = batch_to_feature(builder, operands[0], op.integer(Attr::input_batch_dimension),
                                          op.integer(Attr::input_feature_dimension), together);
  const ValueId kernels =
      builder.concatenate(std::vector<ValueId>(static_cast<size_t>(together), operands[1]),
                          op.integer(Attr::kernel_output_feature_dimension));
  Builder::Attributes attributes;
  for (const auto& [attr, value] : op.attributes)
    if (attr != Attr::feature_group_count) attributes.emplace_back(attr, value);
  attributes.emplace_back(Attr::feature_group_count, graph::Attribute(groups * together));
  const graph::Type& type = function.type(op.results[0]);
  Dims dims = type.dims_vector();
  dims[static_cast<size_t>(batch)] /= together;
  dims[static_cast<size_t>(feature)] *= together;
  const ValueId result =
      builder.add(OpKind::convolution_, {images, kernels}, std::move(attributes), {type.with_dims(dims)});
  return {feature_to_batch(builder, result, batch, feature, together)};
}

constexpr Expansion kExpansions[] = {{OpKind::convolution_, takes_images_together, with_images_together}};

}  // namespace

std::span<const Expansion> image_group_expansions() { return kExpansions; }

}  // namespace opentrn::compiler
