// Convolutions with few places and a kernel of many, as products over positions: the gradient of a
// convolution's weights, whose kernel is the gradient of the result.
//
// As a convolution each position of the kernel would be a tap, with the images' channels to sum over nothing
// but the batch: one row of the Tensor engine, again for every position. Here each place of the result is one
// product of two matrices, positions by channels. Positions go over partitions, where channels are innermost
// in memory, so nothing is transposed; images with channels first are turned once. A single place, as of a
// convolution of one tap, is one product in every order.
#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"

namespace opentrn::compiler {

namespace {

// Each place of the result is a product of its own, with loads of its own.
constexpr int64_t kGradientPlacesMax = 64;
// Fewer positions for each place leave rows of the Tensor engine idle here too.
constexpr int64_t kPositionsMin = 16;
// Channels of a layer, which are this convolution's batch, that are worth a turn: a few images are not.
constexpr int64_t kTurnedBatchMin = 16;

int64_t size_of(const Type& type, int64_t dimension) { return type.dim(static_cast<int>(dimension)); }

class WeightGradient {
 public:
  WeightGradient(const Function& function, const Op& op)
      : op_(op),
        image_(function.type(op.operands[0])),
        kernel_(function.type(op.operands[1])),
        result_(function.type(op.results[0])),
        in_(dims_of(op, Attr::input_spatial_dimensions)),
        taps_(dims_of(op, Attr::kernel_spatial_dimensions)),
        out_(dims_of(op, Attr::output_spatial_dimensions)),
        stride_(op.integers_or(Attr::window_strides, in_.size(), 1)),
        dilation_(op.integers_or(Attr::rhs_dilation, in_.size(), 1)),
        spread_(op.integers_or(Attr::lhs_dilation, in_.size(), 1)),
        low_(in_.size(), 0),
        high_(in_.size(), 0) {
    if (!op.has(Attr::padding)) return;
    for (size_t i = 0; i < in_.size(); ++i) {
      low_[i] = op.matrix(Attr::padding).at(static_cast<int64_t>(i), 0);
      high_[i] = op.matrix(Attr::padding).at(static_cast<int64_t>(i), 1);
    }
  }

  bool fits() const {
    if (in_.empty() || op_.integer(Attr::batch_group_count) != 1 ||
        op_.integer(Attr::feature_group_count) != 1)
      return false;
    const auto reversal = op_.integers_or(Attr::window_reversal, in_.size(), 0);
    if (std::ranges::any_of(reversal, [](int64_t reversed) { return reversed != 0; })) return false;
    for (size_t i = 0; i < in_.size(); ++i)
      if (low_[i] < 0 || (high_[i] < 0 && spread_[i] > 1)) return false;
    const int64_t places = count_of(result_, out_), positions = count_of(kernel_, taps_);
    if (places == 1) return positions >= kPositionsMin;
    return places <= kGradientPlacesMax && positions >= kPositionsMin && positions >= 4 * places &&
           (has_positions_in_front() || batch_size() >= kTurnedBatchMin);
  }

  // What is summed over lies over partitions as it is.
  bool has_positions_in_front() const {
    return count_of(result_, out_) == 1 ||
           (op_.integer(Attr::input_batch_dimension) == image_.rank() - 1 &&
            op_.integer(Attr::kernel_output_feature_dimension) == kernel_.rank() - 1);
  }

  // The same convolution of operands with what was their channels last.
  ValueId turned(Builder& builder, ValueId image, ValueId kernel) const {
    Dims of_image{op_.integer(Attr::input_feature_dimension)},
        of_kernel{op_.integer(Attr::kernel_input_feature_dimension)}, spatial;
    of_image.insert(of_image.end(), in_.begin(), in_.end());
    of_kernel.insert(of_kernel.end(), taps_.begin(), taps_.end());
    of_image.push_back(op_.integer(Attr::input_batch_dimension));
    of_kernel.push_back(op_.integer(Attr::kernel_output_feature_dimension));
    for (int64_t d = 1; d <= std::ssize(in_); ++d) spatial.push_back(d);
    const int64_t last = std::ssize(in_) + 1;
    Builder::Attributes attributes;
    const auto moved = [&](Attr attr) -> std::optional<graph::Attribute> {
      switch (attr) {
        case Attr::input_feature_dimension:
        case Attr::kernel_input_feature_dimension: return graph::Attribute(int64_t{0});
        case Attr::input_batch_dimension:
        case Attr::kernel_output_feature_dimension: return graph::Attribute(last);
        case Attr::input_spatial_dimensions:
        case Attr::kernel_spatial_dimensions: return graph::Attribute(spatial);
        default: return std::nullopt;
      }
    };
    for (const auto& [attr, value] : op_.attributes) {
      const auto changed = moved(attr);
      attributes.emplace_back(attr, changed ? *changed : value);
    }
    return builder.add(OpKind::convolution_,
                       {builder.transpose(image, of_image), builder.transpose(kernel, of_kernel)},
                       std::move(attributes), {result_});
  }

  ValueId made(Builder& builder, ValueId image, ValueId kernel) const {
    const bool is_spread = std::ranges::any_of(spread_, [](int64_t step) { return step > 1; });
    const ValueId around = is_spread ? image : side_by_side(builder, with_padding(builder, image));
    if (count_of(result_, out_) == 1)
      return builder.reshape(product_at(builder, around, kernel, Dims(out_.size(), 0), is_spread),
                             result_.dims_vector());
    // Places of the last dimension lie beside each other as channels do.
    const size_t dims = is_spread ? out_.size() : out_.size() - 1;
    const int64_t places = count_of(result_, std::span(out_).first(dims)),
                  beside = count_of(result_, out_) / places;
    std::vector<ValueId> products;
    Dims place(out_.size(), 0);
    for (int64_t number = 0; number < places; ++number) {
      int64_t left = number;
      for (size_t i = dims; i-- > 0; left /= size_of(result_, out_[i]))
        place[i] = left % size_of(result_, out_[i]);
      products.push_back(builder.reshape(product_at(builder, around, kernel, place, is_spread),
                                         {beside, batch_size(), feature_size()}));
    }
    const ValueId all = products.size() == 1 ? products[0] : builder.concatenate(products, 0);
    return in_order(builder, all);
  }

 private:
  int64_t batch_size() const { return size_of(image_, op_.integer(Attr::input_batch_dimension)); }
  int64_t feature_size() const {
    return size_of(kernel_, op_.integer(Attr::kernel_output_feature_dimension));
  }

  ValueId with_padding(Builder& builder, ValueId image) const {
    Dims low(static_cast<size_t>(image_.rank()), 0), high = low;
    const Dims none = low;
    bool any = false;
    for (size_t i = 0; i < in_.size(); ++i) {
      low[static_cast<size_t>(in_[i])] = low_[i];
      high[static_cast<size_t>(in_[i])] = high_[i];
      any = any || low_[i] != 0 || high_[i] != 0;
    }
    if (!any) return image;
    return padded(builder, image, builder.splat(image_.with_dims({}), 0.0), low, high, none);
  }

  // What each place of the last dimension has of the image, one beside the other in the channels: rows of
  // several places are one run of memory.
  ValueId side_by_side(Builder& builder, ValueId image) const {
    const size_t last = in_.size() - 1, d = static_cast<size_t>(in_[last]);
    const Dims whole = builder.type(image).dims_vector();
    std::vector<ValueId> parts;
    for (int64_t place = 0; place < size_of(result_, out_[last]); ++place) {
      Dims start(whole.size(), 0), step(whole.size(), 1), count = whole;
      start[d] = place * stride_[last];
      step[d] = dilation_[last];
      count[d] = size_of(kernel_, taps_[last]);
      parts.push_back(strided(builder, image, start, count, step));
    }
    return parts.size() == 1 ? parts[0] : builder.concatenate(parts, image_.rank() - 1);
  }

  // Along one dimension: elements of the kernel that meet elements of the image.
  struct Meeting {
    int64_t image = 0, kernel = 0, image_step = 1, kernel_step = 1, count = 0;
  };

  // kernel[k] meets place * stride + k * dilation - low in the image, where that is a multiple of `spread`.
  Meeting meeting(size_t i, int64_t place, bool is_spread) const {
    const int64_t first = place * stride_[i], taps = size_of(kernel_, taps_[i]);
    if (!is_spread) return {first, 0, dilation_[i], 1, taps};
    Meeting found;
    const int64_t common = std::gcd(dilation_[i], spread_[i]);
    found.kernel_step = spread_[i] / common;
    found.image_step = dilation_[i] / common;
    const int64_t length = size_of(image_, in_[i]);
    for (int64_t k = 0; k < taps; ++k) {
      const int64_t at = first + k * dilation_[i] - low_[i];
      if (at < 0 || at % spread_[i] != 0 || at / spread_[i] >= length) continue;
      if (found.count++ == 0) found.kernel = k, found.image = at / spread_[i];
    }
    return found;
  }

  ValueId product_at(Builder& builder, ValueId image, ValueId kernel, const Dims& place,
                     bool is_spread) const {
    Dims image_start(static_cast<size_t>(image_.rank()), 0), image_step(image_start.size(), 1),
        image_count = builder.type(image).dims_vector(), kernel_start(image_start.size(), 0),
        kernel_step(image_start.size(), 1), kernel_count = kernel_.dims_vector();
    Dims left{op_.integer(Attr::input_feature_dimension)},
        right{op_.integer(Attr::kernel_input_feature_dimension)};
    for (size_t i = 0; i < in_.size(); ++i) {
      if (!is_spread && i + 1 == in_.size()) {  // side_by_side() has taken what meets
        left.push_back(in_[i]);
        right.push_back(taps_[i]);
        break;
      }
      const Meeting m = meeting(i, place[i], is_spread);
      if (m.count == 0) return nothing(builder, image_count);
      const auto a = static_cast<size_t>(in_[i]), b = static_cast<size_t>(taps_[i]);
      image_start[a] = m.image, image_step[a] = m.image_step, image_count[a] = m.count;
      kernel_start[b] = m.kernel, kernel_step[b] = m.kernel_step, kernel_count[b] = m.count;
      left.push_back(in_[i]);
      right.push_back(taps_[i]);
    }
    ValueId lhs = strided(builder, image, image_start, image_count, image_step),
            rhs = strided(builder, kernel, kernel_start, kernel_count, kernel_step);
    const int64_t batch = op_.integer(Attr::input_batch_dimension);
    Type type = Type::tensor(result_.element(), {image_count[static_cast<size_t>(batch)], feature_size()});
    if (features_come_first()) {
      std::swap(lhs, rhs);
      std::swap(left, right);
      type = Type::tensor(result_.element(), {type.dim(1), type.dim(0)});
    }
    return builder.add(OpKind::dot_general_, {lhs, rhs},
                       {{Attr::lhs_batching_dimensions, graph::Attribute(Dims{})},
                        {Attr::rhs_batching_dimensions, graph::Attribute(Dims{})},
                        {Attr::lhs_contracting_dimensions, graph::Attribute(std::move(left))},
                        {Attr::rhs_contracting_dimensions, graph::Attribute(std::move(right))}},
                       {type});
  }

  // A single place's product has the order of the result.
  bool features_come_first() const {
    return count_of(result_, out_) == 1 &&
           op_.integer(Attr::output_feature_dimension) < op_.integer(Attr::output_batch_dimension);
  }

  ValueId nothing(Builder& builder, const Dims& image_count) const {
    const auto batch = static_cast<size_t>(op_.integer(Attr::input_batch_dimension));
    const Dims dims{image_count[batch], feature_size()};
    return builder.splat(
        Type::tensor(result_.element(), features_come_first() ? Dims{dims[1], dims[0]} : dims), 0.0);
  }

  // [places, batch, feature] to the dimensions of the result.
  ValueId in_order(Builder& builder, ValueId all) const {
    Dims shape, permutation(static_cast<size_t>(result_.rank()), 0);
    for (size_t i = 0; i < out_.size(); ++i) {
      permutation[static_cast<size_t>(out_[i])] = static_cast<int64_t>(i);
      shape.push_back(size_of(result_, out_[i]));
    }
    permutation[static_cast<size_t>(op_.integer(Attr::output_batch_dimension))] =
        static_cast<int64_t>(out_.size());
    permutation[static_cast<size_t>(op_.integer(Attr::output_feature_dimension))] =
        static_cast<int64_t>(out_.size()) + 1;
    shape.push_back(batch_size());
    shape.push_back(feature_size());
    return builder.transpose(builder.reshape(all, std::move(shape)), std::move(permutation));
  }

  const Op& op_;
  const Type &image_, &kernel_, &result_;
  Dims in_, taps_, out_;
  std::vector<int64_t> stride_, dilation_, spread_;
  Dims low_, high_;
};

bool is_weight_gradient(const Function& function, const Op& op) {
  for (const ValueId id : {op.operands[0], op.operands[1], op.results[0]}) {
    const Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || !graph::is_float(type.element()) ||
        !device_dtype(type.element()) || type.element_count() == 0)
      return false;
  }
  return function.type(op.operands[0]).element() == function.type(op.operands[1]).element() &&
         WeightGradient(function, op).fits();
}

std::vector<ValueId> as_products(Builder& builder, const Function& function, const Op& op,
                                 std::span<const ValueId> operands) {
  const WeightGradient gradient(function, op);
  if (!gradient.has_positions_in_front()) return {gradient.turned(builder, operands[0], operands[1])};
  return {gradient.made(builder, operands[0], operands[1])};
}

constexpr Expansion kWeightGradients[] = {{OpKind::convolution_, is_weight_gradient, as_products}};

}  // namespace

std::span<const Expansion> weight_gradient_expansions() { return kWeightGradients; }

}  // namespace opentrn::compiler
