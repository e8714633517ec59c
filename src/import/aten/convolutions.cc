// Convolutions of any number of dimensions, their transposes and gradients.
#include <fmt/format.h>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

// How windows lie: along each dimension of space.
struct Window {
  Shape strides, padding, dilation;
  int64_t groups = 1;
};

struct Form {
  // Letters of the first two dimensions of value, kernel and result; then space.
  const char* value = "b, f";
  const char* kernel = "o, i";
  const char* result = "b, f";
  Shape strides;
  Pairs padding;
  Shape dilation;
  Shape gaps;  // of the value's elements (transposed convolution)
  int64_t groups = 1;
  int64_t batch_groups = 1;
};

Value convolve(Body& body, const Value& value, const Value& kernel, const Shape& shape, const Form& form,
               ElementType dtype) {
  if (is_empty(shape) || is_empty(value.shape) || is_empty(kernel.shape)) return body.splat(0, dtype, shape);
  std::string space;
  for (size_t axis = 0; axis < form.strides.size(); ++axis) space += fmt::format(", {}", axis);
  const std::string text = fmt::format(
      "window_strides = {}, padding = {}, lhs_dilation = {}, rhs_dilation = {}, "
      "dimension_numbers = #stablehlo.conv<[{}{}]x[{}{}]->[{}{}]>, "
      "feature_group_count = {} : i64, batch_group_count = {} : i64",
      numbers(form.strides), pairs(form.padding), numbers(form.gaps), numbers(form.dilation), form.value,
      space, form.kernel, space, form.result, space, form.groups, form.batch_groups);
  return body.op("convolution", {value, kernel}, shape, dtype, text);
}

// [in, out / groups, ...] as [out, in / groups, ...], each window reversed.
Value transposed_kernel(Body& body, const Value& kernel, int64_t groups) {
  const int64_t inputs = kernel.shape.at(0);
  const int64_t outputs = kernel.shape.at(1);
  Shape split = {groups, inputs / groups, outputs};
  Shape joined = {groups * outputs, inputs / groups};
  split.insert(split.end(), kernel.shape.begin() + 2, kernel.shape.end());
  joined.insert(joined.end(), kernel.shape.begin() + 2, kernel.shape.end());
  Shape order = counted_up(static_cast<int64_t>(split.size()));
  std::swap(order[1], order[2]);
  const Value turned = body.reshape(body.transpose(body.reshape(kernel, split), order), joined);
  Shape window = counted_up(turned.rank());
  window.erase(window.begin(), window.begin() + 2);
  return body.reverse(turned, window);
}

Value forward(Body& body, const Value& value, const Value& kernel, const Shape& shape, const Window& window,
              ElementType dtype) {
  Form form;
  form.strides = window.strides;
  for (const int64_t edge : window.padding) form.padding.emplace_back(edge, edge);
  form.dilation = window.dilation;
  form.gaps = Shape(window.strides.size(), 1);
  form.groups = window.groups;
  return convolve(body, value, kernel, shape, form, dtype);
}

// What sends a result back to the input of forward(); shape says which of the possible sizes.
Value transposed(Body& body, const Value& value, const Value& kernel, const Shape& shape,
                 const Window& window, ElementType dtype) {
  Form form;
  for (size_t i = 0; i < window.strides.size(); ++i) {
    const int64_t reach = window.dilation[i] * (kernel.shape.at(i + 2) - 1);
    const int64_t low = reach - window.padding[i];
    const int64_t spread = (value.shape.at(i + 2) - 1) * window.strides[i] + 1;
    form.padding.emplace_back(low, shape.at(i + 2) + reach - spread - low);
  }
  form.strides = Shape(window.strides.size(), 1);
  form.dilation = window.dilation;
  form.gaps = window.strides;
  form.groups = window.groups;
  return convolve(body, value, transposed_kernel(body, kernel, window.groups), shape, form, dtype);
}

// Of forward(value) = result, for a kernel of `shape`: batches are summed over.
Value kernel_gradient(Body& body, const Value& value, const Value& result, const Shape& shape,
                      const Window& window) {
  Form form;
  form.value = form.result = "f, b";
  form.kernel = "i, o";
  for (size_t i = 0; i < window.strides.size(); ++i) {
    const int64_t reach = (result.shape.at(i + 2) - 1) * window.strides[i] + 1;
    const int64_t edge = window.padding[i];
    form.padding.emplace_back(
        edge, reach + (shape.at(i + 2) - 1) * window.dilation[i] - value.shape.at(i + 2) - edge);
  }
  form.strides = window.dilation;
  form.dilation = window.strides;
  form.gaps = Shape(window.strides.size(), 1);
  form.batch_groups = window.groups;
  return convolve(body, value, result, shape, form, value.dtype);
}

Window window_of(Call& call, size_t space) {
  return {many(call.named("stride"), space), many(call.named("padding"), space),
          many(call.named("dilation"), space), call.named("groups").integer()};
}

Value convolution(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  const Window window = window_of(call, value.shape.size() - 2);
  const Arg& bias = call.at(2);
  const bool is_wider = !bias.is_none() && graph::storage_bytes(dtype) == 2;
  const ElementType wide = is_wider ? ElementType::kF32 : dtype;
  const auto make = call.named("transposed").flag() ? transposed : forward;
  Value made = make(body, value, call.value(1), shape, window, wide);
  if (!bias.is_none())
    made = body.add(made, body.broadcast_in_dim(body.convert(bias.value(), wide), shape, {1}));
  return body.convert(made, dtype);
}

Value bias_gradient(Body& body, const Value& gradient) {
  const bool is_narrow = graph::storage_bytes(gradient.dtype) == 2;
  const Value wide = body.convert(gradient, is_narrow ? ElementType::kF32 : gradient.dtype);
  Shape axes = counted_up(gradient.rank());
  axes.erase(axes.begin() + 1);
  return body.convert(body.reduce("add", wide, axes, 0), gradient.dtype);
}

// Of the value, of the kernel and of the bias, where they are wanted.
Results convolution_backward(Call& call) {
  Body& body = call.body;
  const Value& gradient = call.value(0);
  const Value& value = call.value(1);
  const Value& kernel = call.value(2);
  const Window window = window_of(call, value.shape.size() - 2);
  const bool is_transposed = call.named("transposed").flag();
  const auto& wanted = call.named("output_mask").list();
  Results made(3);
  if (wanted.at(0).flag()) {
    const auto back = is_transposed ? forward : transposed;
    made[0] = back(body, gradient, kernel, value.shape, window, gradient.dtype);
  }
  if (wanted.at(1).flag())
    made[1] = is_transposed ? kernel_gradient(body, gradient, value, kernel.shape, window)
                            : kernel_gradient(body, value, gradient, kernel.shape, window);
  if (wanted.at(2).flag()) made[2] = bias_gradient(body, gradient);
  return made;
}

}  // namespace

Table convolutions() {
  return {{{"convolution.default"}, convolution}, {{"convolution_backward.default"}, convolution_backward}};
}

}  // namespace opentrn::import::aten
