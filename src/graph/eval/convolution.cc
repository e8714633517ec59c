// convolution and dynamic_conv: for every output position the window's elements are gathered into a row
// and multiplied with the kernel as a matrix [window x input features, output features].
#include "base/interrupt.h"
#include "graph/eval/accumulator.h"
#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

struct Convolution {
  // Operands as [batch, feature, spatial...] and [output feature, input feature, spatial...].
  int64_t batch = 0, features = 0, output_features = 0, kernel_features = 0;
  Dims input, kernel, output;  // spatial sizes
  Dims strides, low, high, lhs_dilation, rhs_dilation, reversed;
  int64_t feature_groups = 1, batch_groups = 1;
};

Dims spatial_padding(const Call& call, size_t spatial) {
  if (call.kind() == OpKind::dynamic_conv_) return integers_of(call.tensor(2));
  const Attribute* padding = call.op().find(Attr::padding);
  if (!padding) return Dims(2 * spatial, 0);
  return call.op().matrix(Attr::padding).values;
}

int64_t dilated(int64_t size, int64_t dilation) { return size == 0 ? 0 : (size - 1) * dilation + 1; }

Convolution describe(const Call& call, const Tensor& lhs, const Tensor& rhs) {
  const Op& op = call.op();
  const size_t spatial = lhs.dims().size() - 2;
  Convolution conv;
  conv.batch = lhs.dims()[0];
  conv.features = lhs.dims()[1];
  conv.output_features = rhs.dims()[0];
  conv.kernel_features = rhs.dims()[1];
  conv.input = copy_dims(lhs.dims().subspan(2));
  conv.kernel = copy_dims(rhs.dims().subspan(2));
  conv.strides = op.integers_or(Attr::window_strides, spatial, 1);
  conv.lhs_dilation = op.integers_or(Attr::lhs_dilation, spatial, 1);
  conv.rhs_dilation = op.integers_or(Attr::rhs_dilation, spatial, 1);
  conv.reversed = op.integers_or(Attr::window_reversal, spatial, 0);
  const Dims padding = spatial_padding(call, spatial);
  for (const Dims* list : {&conv.strides, &conv.lhs_dilation, &conv.rhs_dilation, &conv.reversed})
    if (list->size() != spatial)
      call.fail(fmt::format("a list of {} for {} dimensions", list->size(), spatial));
  if (padding.size() != 2 * spatial)
    call.fail(fmt::format("{} padding numbers for {} dimensions", padding.size(), spatial));
  conv.feature_groups = op.integer_or(Attr::feature_group_count, 1);
  conv.batch_groups = op.integer_or(Attr::batch_group_count, 1);
  if (conv.feature_groups < 1 || conv.batch_groups < 1 || conv.features % conv.feature_groups != 0 ||
      conv.batch % conv.batch_groups != 0 ||
      conv.output_features % (conv.feature_groups * conv.batch_groups) != 0 ||
      conv.features / conv.feature_groups != conv.kernel_features)
    call.fail(fmt::format("{} and {} with {} feature groups and {} batch groups", lhs.type().to_string(),
                          rhs.type().to_string(), conv.feature_groups, conv.batch_groups));
  for (size_t axis = 0; axis < spatial; ++axis) {
    if (conv.strides[axis] < 1 || conv.lhs_dilation[axis] < 1 || conv.rhs_dilation[axis] < 1)
      call.fail("a stride or dilation below 1");
    conv.low.push_back(padding[2 * axis]);
    conv.high.push_back(padding[2 * axis + 1]);
    const int64_t padded =
        conv.low[axis] + dilated(conv.input[axis], conv.lhs_dilation[axis]) + conv.high[axis];
    const int64_t window = dilated(conv.kernel[axis], conv.rhs_dilation[axis]);
    conv.output.push_back(padded <= 0 || window > padded ? 0 : (padded - window) / conv.strides[axis] + 1);
  }
  return conv;
}

// For each output position, for each kernel position, the linear spatial index of the input; -1 in the
// padding or between dilated elements.
Dims window_sources(const Convolution& conv) {
  const size_t spatial = conv.input.size();
  const Dims strides = row_major_strides(conv.input);
  const int64_t taps = product(conv.kernel);
  Dims sources(static_cast<size_t>(product(conv.output) * taps), -1);
  for_each_index(conv.output, [&](const Dims& out, int64_t position) {
    for_each_index(conv.kernel, [&](const Dims& tap, int64_t number) {
      int64_t at = 0;
      for (size_t axis = 0; axis < spatial; ++axis) {
        const int64_t step = conv.reversed[axis] ? conv.kernel[axis] - 1 - tap[axis] : tap[axis];
        const int64_t place =
            out[axis] * conv.strides[axis] + step * conv.rhs_dilation[axis] - conv.low[axis];
        if (place < 0 || place % conv.lhs_dilation[axis] != 0) return;
        if (place / conv.lhs_dilation[axis] >= conv.input[axis]) return;
        at += place / conv.lhs_dilation[axis] * strides[axis];
      }
      sources[static_cast<size_t>(position * taps + number)] = at;
    });
  });
  return sources;
}

// Output as [batch, output feature, spatial...].
template <typename T>
std::vector<T> convolve(const Convolution& conv, const std::vector<T>& lhs, const std::vector<T>& rhs) {
  const int64_t taps = product(conv.kernel);
  const int64_t inputs = product(conv.input);
  const int64_t outputs = product(conv.output);
  const int64_t row_size = conv.kernel_features * taps;
  const int64_t batch = conv.batch / conv.batch_groups;
  const int64_t groups = conv.feature_groups * conv.batch_groups;  // one of them is 1
  const int64_t group_outputs = conv.output_features / groups;
  const Dims sources = window_sources(conv);
  std::vector<T> result(static_cast<size_t>(batch * conv.output_features * outputs));
  // The kernel of a group with output features innermost, so that the inner loop runs along memory.
  std::vector<T> matrix(static_cast<size_t>(row_size * group_outputs));
  std::vector<T> sums(static_cast<size_t>(group_outputs));
  for (int64_t group = 0; group < groups; ++group) {
    const int64_t first_output = group * group_outputs;
    for (int64_t o = 0; o < group_outputs; ++o)
      for (int64_t k = 0; k < row_size; ++k)
        matrix[static_cast<size_t>(k * group_outputs + o)] =
            rhs[static_cast<size_t>((first_output + o) * row_size + k)];
    const int64_t first_feature = conv.feature_groups > 1 ? group * conv.kernel_features : 0;
    const int64_t first_batch = conv.batch_groups > 1 ? group * batch : 0;
    for (int64_t n = 0; n < batch; ++n) {
      for (int64_t position = 0; position < outputs; ++position) {
        interrupt::poll();
        std::fill(sums.begin(), sums.end(), T{});
        for (int64_t feature = 0; feature < conv.kernel_features; ++feature) {
          const int64_t plane = ((first_batch + n) * conv.features + first_feature + feature) * inputs;
          for (int64_t tap = 0; tap < taps; ++tap) {
            const int64_t source = sources[static_cast<size_t>(position * taps + tap)];
            if (source < 0) continue;
            const T value = lhs[static_cast<size_t>(plane + source)];
            const T* weights = matrix.data() + (feature * taps + tap) * group_outputs;
            for (int64_t o = 0; o < group_outputs; ++o)
              sums[static_cast<size_t>(o)] = multiply_add(sums[static_cast<size_t>(o)], value, weights[o]);
          }
        }
        for (int64_t o = 0; o < group_outputs; ++o)
          result[static_cast<size_t>((n * conv.output_features + first_output + o) * outputs + position)] =
              sums[static_cast<size_t>(o)];
      }
    }
  }
  return result;
}

Dims permutation(int64_t first, int64_t second, std::span<const int64_t> spatial) {
  Dims axes{first, second};
  axes.insert(axes.end(), spatial.begin(), spatial.end());
  return axes;
}

Dims inverse(const Dims& permutation) {
  Dims back(permutation.size());
  for (size_t i = 0; i < permutation.size(); ++i)
    back[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
  return back;
}

}  // namespace

Tensor convolution(const Call& call) {
  const Op& op = call.op();
  if (call.tensor(0).rank() < 2 || call.tensor(0).rank() != call.tensor(1).rank())
    call.fail(fmt::format("{} and {}", call.tensor(0).type().to_string(), call.tensor(1).type().to_string()));
  const Tensor lhs = transpose(call.tensor(0), permutation(op.integer(Attr::input_batch_dimension),
                                                           op.integer(Attr::input_feature_dimension),
                                                           op.integers(Attr::input_spatial_dimensions)));
  const Tensor rhs = transpose(call.tensor(1), permutation(op.integer(Attr::kernel_output_feature_dimension),
                                                           op.integer(Attr::kernel_input_feature_dimension),
                                                           op.integers(Attr::kernel_spatial_dimensions)));
  const Convolution conv = describe(call, lhs, rhs);
  Dims dims{conv.batch / conv.batch_groups, conv.output_features};
  dims.insert(dims.end(), conv.output.begin(), conv.output.end());
  // Rounded before it is moved to the stated order of dimensions.
  const ElementType element = call.stated().element();
  const Tensor plain = call.finish(
      Type::tensor(element, dims),
      sum_in_accumulator(call, lhs, rhs,
                         [&]<typename S>(const std::vector<S>& inputs, const std::vector<S>& weights) {
                           return convolve(conv, inputs, weights);
                         }));
  const Dims order =
      permutation(op.integer(Attr::output_batch_dimension), op.integer(Attr::output_feature_dimension),
                  op.integers(Attr::output_spatial_dimensions));
  const Tensor moved = transpose(plain, inverse(order));
  return moved.with_type(call.result(moved.dims()));
}

}  // namespace opentrn::graph::eval
