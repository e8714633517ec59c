// reduce_window and select_and_scatter.
#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

struct Window {
  Dims dims;  // of the window
  Dims strides, base_dilations, window_dilations;
  Dims low;     // padding before
  Dims output;  // how many windows along each dimension
};

Window describe_window(const Call& call, const Tensor& input) {
  const auto rank = static_cast<size_t>(input.rank());
  const Op& op = call.op();
  Window window{.dims = op.integers_or(Attr::window_dimensions, rank, 1),
                .strides = op.integers_or(Attr::window_strides, rank, 1),
                .base_dilations = op.integers_or(Attr::base_dilations, rank, 1),
                .window_dilations = op.integers_or(Attr::window_dilations, rank, 1),
                .low = {},
                .output = {}};
  const Dims padding = op.has(Attr::padding) ? op.matrix(Attr::padding).values : Dims(2 * rank, 0);
  if (padding.size() != 2 * rank)
    call.fail(fmt::format("{} padding numbers for rank {}", padding.size(), rank));
  for (const Dims* list : {&window.dims, &window.strides, &window.base_dilations, &window.window_dilations}) {
    if (list->size() != rank) call.fail(fmt::format("a list of {} for rank {}", list->size(), rank));
    for (const int64_t value : *list)
      if (value < 1) call.fail(fmt::format("a window dimension, stride or dilation of {}", value));
  }
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t own = input.dims()[axis];
    const int64_t base = own == 0 ? 0 : (own - 1) * window.base_dilations[axis] + 1;
    const int64_t padded = padding[2 * axis] + base + padding[2 * axis + 1];
    const int64_t extent = (window.dims[axis] - 1) * window.window_dilations[axis] + 1;
    window.low.push_back(padding[2 * axis]);
    window.output.push_back(padded <= 0 || extent > padded ? 0
                                                           : (padded - extent) / window.strides[axis] + 1);
  }
  return window;
}

// Calls visit(source) for every element of the window at `out`: the linear index in the input, or -1 for
// an element that is padding or lies between dilated ones.
template <typename Visit>
void for_each_in_window(const Window& window, const Tensor& input, const Dims& input_strides, const Dims& out,
                        Visit&& visit) {
  for_each_index(window.dims, [&](const Dims& step, int64_t) {
    int64_t at = 0;
    for (size_t axis = 0; axis < step.size(); ++axis) {
      const int64_t place =
          out[axis] * window.strides[axis] + step[axis] * window.window_dilations[axis] - window.low[axis];
      const int64_t dilation = window.base_dilations[axis];
      if (place < 0 || place % dilation != 0 || place / dilation >= input.dims()[axis])
        return visit(int64_t{-1});
      at += place / dilation * input_strides[axis];
    }
    visit(at);
  });
}

Items reduce_window_one(const Call& call, const Window& window) {
  const Tensor& input = call.tensor(0);
  const Dims strides = row_major_strides(input.dims());
  return visit_values(input, [&]<typename T>(const std::vector<T>& values) -> Items {
    const Combiner<T> combine(call, 0);
    const T initial = call.tensor(1).values<T>().at(0);
    std::vector<T> results(static_cast<size_t>(product(window.output)), initial);
    for_each_index(window.output, [&](const Dims& out, int64_t linear) {
      T& result = results[static_cast<size_t>(linear)];
      for_each_in_window(window, input, strides, out, [&](int64_t source) {
        result = combine(result, source < 0 ? initial : values[static_cast<size_t>(source)]);
      });
    });
    return {Tensor(call.result(window.output), std::move(results))};
  });
}

}  // namespace

// Padding holds the initial value and takes part in the reduction.
Items reduce_window(const Call& call) {
  if (call.operand_count() % 2 != 0) call.fail("inputs and initial values do not pair up");
  const size_t count = call.operand_count() / 2;
  const Window window = describe_window(call, call.tensor(0));
  if (count == 1) return reduce_window_one(call, window);
  const Dims strides = row_major_strides(call.tensor(0).dims());
  std::vector<Storage> values;
  for (size_t k = 0; k < count; ++k)
    values.push_back(zeros(call.stated(k).element(), product(window.output)));
  for_each_index(window.output, [&](const Dims& out, int64_t linear) {
    Items result;
    for (size_t k = 0; k < count; ++k)
      result.push_back(element_at(call.tensor(count + k), 0, call.region_argument_type(0, k)));
    for_each_in_window(window, call.tensor(0), strides, out, [&](int64_t source) {
      Items arguments = result;
      for (size_t k = 0; k < count; ++k)
        arguments.push_back(
            source < 0 ? element_at(call.tensor(count + k), 0, call.region_argument_type(0, count + k))
                       : element_at(call.tensor(k), source, call.region_argument_type(0, count + k)));
      result = call.run_region(0, std::move(arguments));
    });
    for (size_t k = 0; k < count; ++k)
      std::visit(
          [&]<typename T>(std::vector<T>& all) {
            all[static_cast<size_t>(linear)] = std::get<Tensor>(result[k].value).values<T>().at(0);
          },
          values[k]);
  });
  Items results;
  for (size_t k = 0; k < count; ++k)
    results.push_back(Tensor(call.result(window.output, k), std::move(values[k])));
  return results;
}

// In every window one element is selected; the source's value joins the result there. Padding is not
// looked at; a window of padding alone selects nothing.
Tensor select_and_scatter(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const Tensor& source = call.tensor(1);
  const Window window = describe_window(call, operand);
  if (!std::equal(window.output.begin(), window.output.end(), source.dims().begin(), source.dims().end()))
    call.fail(fmt::format("a source of {} for {} windows", source.type().to_string(),
                          fmt::join(window.output, "x")));
  const Dims strides = row_major_strides(operand.dims());
  // `select` by its one comparison where it has only one.
  const auto simple = call.simple_region(0);
  const Op* comparison =
      simple == OpKind::compare_ ? &call.function().op(call.region_block(0).ops[0]) : nullptr;
  return visit_values(operand, [&]<typename T>(const std::vector<T>& values) {
    const auto selects = [&](int64_t a, int64_t b) {
      if (comparison)
        return compare<T>(comparison->enumeration(Attr::comparison_direction, ComparisonDirection::kEq),
                          comparison->enumeration(Attr::compare_type, ComparisonType::kNone),
                          values[static_cast<size_t>(a)], values[static_cast<size_t>(b)]);
      const Items answer = call.run_region(0, {element_at(operand, a, call.region_argument_type(0, 0)),
                                               element_at(operand, b, call.region_argument_type(0, 1))});
      return std::get<Tensor>(answer.at(0).value).values<Bool>().at(0) != 0;
    };
    const Combiner<T> combine(call, 1);
    std::vector<T> results(values.size(), call.tensor(2).values<T>().at(0));
    for_each_index(window.output, [&](const Dims& out, int64_t linear) {
      int64_t selected = -1;
      for_each_in_window(window, operand, strides, out, [&](int64_t at) {
        if (at >= 0 && (selected < 0 || !selects(selected, at))) selected = at;
      });
      if (selected < 0) return;
      T& result = results[static_cast<size_t>(selected)];
      result = combine(result, source.values<T>()[static_cast<size_t>(linear)]);
    });
    return Tensor(call.result(operand.dims()), std::move(results));
  });
}

}  // namespace opentrn::graph::eval
