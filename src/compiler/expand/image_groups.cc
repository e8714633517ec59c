// Depthwise convolutions of few channels, with images beside one another among the channels.
//
// Each channel takes a partition of the Vector engine (lowering/convolution.cc), which leaves most of the 128
// idle where there are 32 of them, while images go one after another. Two images of 32 channels are one of
// 64, whose kernels are those of the 32, twice. Nothing else changes: every sum has the same terms.
//
// Where there is one image, bands of its rows lie beside one another so. Neighbours have the rows in common
// that windows of both read, so that bands are copied out of the image, and their results into one.
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

// -- bands of one image

// Columns of the Vector engine's time that four more kernels begin in, and in which HBM moves an element
// there and back.
constexpr double kBandKernels = 10000, kColumnsOfByte = 2.0 / 375;

struct Bands {
  int64_t count = 1, rows = 0;                             // of each band's result
  size_t input = 0, output = 0;                            // the dimension that is cut
  int64_t taps = 0, stride = 1, dilation = 1, before = 0;  // along it
};

// Rows of the image that a window of `rows` rows of the result reads.
int64_t rows_read(const Bands& bands, int64_t rows) {
  return (rows - 1) * bands.stride + (bands.taps - 1) * bands.dilation + 1;
}

Bands bands_of(const Function& function, const Op& op) {
  const Dims spatial = dims_of(op, Attr::input_spatial_dimensions);
  if (!is_depthwise(function, op) || spatial.size() < 2 || images_together(function, op) > 1) return {};
  const size_t rank = spatial.size();
  if (!is_ones(op.integers_or(Attr::lhs_dilation, rank, 1)) ||
      op.integers_or(Attr::window_reversal, rank, 0)[0])
    return {};
  const graph::Type &lhs = function.type(op.operands[0]), &result = function.type(op.results[0]);
  const int64_t groups = op.integer(Attr::feature_group_count);
  Bands bands{.input = static_cast<size_t>(spatial[0]),
              .output = static_cast<size_t>(dims_of(op, Attr::output_spatial_dimensions)[0]),
              .taps = function.type(op.operands[1])
                          .dim(static_cast<int>(dims_of(op, Attr::kernel_spatial_dimensions)[0])),
              .stride = op.integers_or(Attr::window_strides, rank, 1)[0],
              .dilation = op.integers_or(Attr::rhs_dilation, rank, 1)[0]};
  bands.before = op.has(Attr::padding) ? op.matrix(Attr::padding).values[0] : 0;
  if (bands.before < 0) return {};
  const int64_t rows = result.dim(static_cast<int>(bands.output)),
                positions = function.type(op.operands[1]).element_count() / groups *
                            (result.element_count() / groups);
  const auto bytes = [](const graph::Type& type) {
    return static_cast<double>(type.element_count()) * graph::bit_width(type.element()) / 8;
  };
  const double image_row = bytes(lhs) / static_cast<double>(lhs.dim(static_cast<int>(bands.input)));
  double best = 0;
  int64_t most = 1;
  for (int64_t count = kPartitions / groups; count > 1; --count) {
    if (rows % count != 0) continue;
    const double read = image_row * static_cast<double>(count * rows_read(bands, rows / count));
    const double gained = static_cast<double>(positions) * (1 - 1 / static_cast<double>(count)) -
                          (read + bytes(result)) * kColumnsOfByte - kBandKernels;
    if (gained > best) best = gained, most = count;
  }
  bands.count = most;
  bands.rows = rows / most;
  return bands;
}

bool takes_bands(const Function& function, const Op& op) { return bands_of(function, op).count > 1; }

// Rows [begin, end) of the image, zeros where it has none.
ValueId rows_of(Builder& builder, ValueId image, size_t dimension, int64_t begin, int64_t end) {
  const Dims dims = builder.type(image).dims_vector();
  const int64_t all = dims[dimension], from = std::clamp<int64_t>(begin, 0, all),
                to = std::clamp<int64_t>(end, 0, all);
  Dims none(dims.size(), 0), low = none, high = none;
  low[dimension] = from - begin;
  high[dimension] = end - to;
  const ValueId part = part_of(builder, image, static_cast<int64_t>(dimension), from, to);
  if (low == none && high == none) return part;
  const ValueId zero = builder.splat(builder.type(image).with_dims({}), 0);
  return padded(builder, part, zero, low, high, none);
}

// The bands that lie outermost among the features go back in front of their rows.
ValueId bands_to_rows(Builder& builder, ValueId value, size_t rows, size_t feature, int64_t count) {
  const Dims dims = builder.type(value).dims_vector();
  Dims cut, order, whole;
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d == feature) cut.push_back(count);
    cut.push_back(d == feature ? dims[d] / count : dims[d]);
    whole.push_back(d == rows ? dims[d] * count : d == feature ? dims[d] / count : dims[d]);
  }
  for (size_t d = 0; d < dims.size(); ++d) {
    if (d == rows) order.push_back(static_cast<int64_t>(feature));
    order.push_back(static_cast<int64_t>(d >= feature ? d + 1 : d));
  }
  return builder.reshape(builder.transpose(builder.reshape(value, cut), order), whole);
}

std::vector<ValueId> with_bands(Builder& builder, const Function& function, const Op& op,
                                std::span<const ValueId> operands) {
  const Bands bands = bands_of(function, op);
  const auto feature = static_cast<size_t>(op.integer(Attr::output_feature_dimension));
  std::vector<ValueId> parts;
  for (int64_t band = 0; band < bands.count; ++band) {
    const int64_t begin = band * bands.rows * bands.stride - bands.before;
    parts.push_back(rows_of(builder, operands[0], bands.input, begin, begin + rows_read(bands, bands.rows)));
  }
  const ValueId images = builder.concatenate(std::move(parts), op.integer(Attr::input_feature_dimension));
  const ValueId kernels =
      builder.concatenate(std::vector<ValueId>(static_cast<size_t>(bands.count), operands[1]),
                          op.integer(Attr::kernel_output_feature_dimension));
  const auto rank = static_cast<int64_t>(dims_of(op, Attr::input_spatial_dimensions).size());
  graph::IntMatrix padding = op.has(Attr::padding)
                                 ? op.matrix(Attr::padding)
                                 : graph::IntMatrix{rank, 2, Dims(static_cast<size_t>(2 * rank), 0)};
  padding.values[0] = padding.values[1] = 0;
  Builder::Attributes attributes;
  for (const auto& [attr, value] : op.attributes)
    if (attr != Attr::feature_group_count && attr != Attr::padding) attributes.emplace_back(attr, value);
  attributes.emplace_back(Attr::feature_group_count,
                          graph::Attribute(op.integer(Attr::feature_group_count) * bands.count));
  attributes.emplace_back(Attr::padding, graph::Attribute(std::move(padding)));
  Dims dims = function.type(op.results[0]).dims_vector();
  dims[bands.output] = bands.rows;
  dims[feature] *= bands.count;
  const ValueId result = builder.add(OpKind::convolution_, {images, kernels}, std::move(attributes),
                                     {function.type(op.results[0]).with_dims(dims)});
  return {bands_to_rows(builder, result, bands.output, feature, bands.count)};
}

constexpr Expansion kExpansions[] = {{OpKind::convolution_, takes_images_together, with_images_together},
                                     {OpKind::convolution_, takes_bands, with_bands}};

}  // namespace

std::span<const Expansion> image_group_expansions() { return kExpansions; }

}  // namespace opentrn::compiler
