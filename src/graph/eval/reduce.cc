// reduce, map and scan: regions over elements and slices.
#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

// Strides of the result along the operand's dimensions: 0 along those that are reduced.
struct Reduction {
  Dims dims;
  Dims strides;
};

Reduction describe(const Call& call, const Tensor& input) {
  std::vector<bool> gone(static_cast<size_t>(input.rank()));
  for (const int64_t axis : call.op().integers(Attr::dimensions)) {
    if (axis < 0 || axis >= input.rank())
      call.fail(fmt::format("dimension {} of {}", axis, input.type().to_string()));
    gone[static_cast<size_t>(axis)] = true;
  }
  Reduction reduction;
  for (size_t axis = 0; axis < gone.size(); ++axis)
    if (!gone[axis]) reduction.dims.push_back(input.dims()[axis]);
  const Dims kept = row_major_strides(reduction.dims);
  size_t next = 0;
  for (size_t axis = 0; axis < gone.size(); ++axis)
    reduction.strides.push_back(gone[axis] ? 0 : kept[next++]);
  return reduction;
}

// Every element in row-major order joins its result, which starts at the initial value.
Items reduce_one(const Call& call, const Reduction& reduction) {
  const Tensor& input = call.tensor(0);
  return visit_values(input, [&]<typename T>(const std::vector<T>& values) -> Items {
    const Combiner<T> combine(call, 0);
    std::vector<T> results(static_cast<size_t>(product(reduction.dims)), call.tensor(1).values<T>().at(0));
    for_each_index(input.dims(), [&](const Dims& index, int64_t linear) {
      T& result = results[static_cast<size_t>(linear_index(index, reduction.strides))];
      result = combine(result, values[static_cast<size_t>(linear)]);
    });
    return {Tensor(call.result(reduction.dims), std::move(results))};
  });
}

Tensor scalar_item(const Item& item, const Call& call) {
  const auto* tensor = std::get_if<Tensor>(&item.value);
  if (!tensor || tensor->size() != 1) call.fail("its region does not return scalars");
  return *tensor;
}

// Collects one scalar per element into a tensor.
Tensor gathered(const Type& type, const std::vector<Items>& rows, size_t column) {
  Storage values = zeros(type.element(), type.element_count());
  std::visit(
      [&]<typename T>(std::vector<T>& all) {
        for (size_t i = 0; i < all.size(); ++i)
          all[i] = std::get<Tensor>(rows[i][column].value).values<T>()[0];
      },
      values);
  return Tensor(type, std::move(values));
}

}  // namespace

Items reduce(const Call& call) {
  if (call.operand_count() % 2 != 0) call.fail("inputs and initial values do not pair up");
  const size_t count = call.operand_count() / 2;
  const Reduction reduction = describe(call, call.tensor(0));
  if (count == 1) return reduce_one(call, reduction);
  Items initial;
  for (size_t k = 0; k < count; ++k)
    initial.push_back(element_at(call.tensor(count + k), 0, call.region_argument_type(0, k)));
  std::vector<Items> results(static_cast<size_t>(product(reduction.dims)), initial);
  for_each_index(call.tensor(0).dims(), [&](const Dims& index, int64_t linear) {
    Items& result = results[static_cast<size_t>(linear_index(index, reduction.strides))];
    Items arguments = result;
    for (size_t k = 0; k < count; ++k)
      arguments.push_back(element_at(call.tensor(k), linear, call.region_argument_type(0, count + k)));
    result = call.run_region(0, std::move(arguments));
    for (const Item& item : result) (void)scalar_item(item, call);
  });
  Items gathered_results;
  for (size_t k = 0; k < count; ++k)
    gathered_results.push_back(gathered(call.result(reduction.dims, k), results, k));
  return gathered_results;
}

Items map(const Call& call) {
  const Tensor& first = call.tensor(0);
  std::vector<Items> results;
  for (int64_t i = 0; i < first.size(); ++i) {
    Items arguments;
    for (size_t k = 0; k < call.operand_count(); ++k)
      arguments.push_back(element_at(call.tensor(k), i, call.region_argument_type(0, k)));
    results.push_back(call.run_region(0, std::move(arguments)));
    (void)scalar_item(results.back().at(0), call);
  }
  return {gathered(call.result(first.dims()), results, 0)};
}

// Operands are inputs, which lose the scanned dimension in the region, then initial carries. The region
// returns one slice of each output, then the carries.
Items scan(const Call& call) {
  const auto axis = static_cast<size_t>(call.op().integer(Attr::dimension));
  const bool reverse = call.op().boolean_or(Attr::is_reverse, false);
  size_t inputs = 0;
  while (inputs < call.operand_count() &&
         call.tensor(inputs).rank() == call.region_argument_type(0, inputs).rank() + 1)
    ++inputs;
  if (inputs == 0 || axis >= call.tensor(0).dims().size())
    call.fail("none of its operands has a dimension to scan");
  const int64_t length = call.tensor(0).dims()[axis];
  Items carries(call.operands().begin() + static_cast<std::ptrdiff_t>(inputs), call.operands().end());
  const size_t outputs = call.op().results.size() - carries.size();
  std::vector<std::vector<Tensor>> slices(outputs);
  for (int64_t step = 0; step < length; ++step) {
    const int64_t at = reverse ? length - 1 - step : step;
    Items arguments;
    for (size_t k = 0; k < inputs; ++k) {
      const Tensor part = slice_along(call.tensor(k), static_cast<int64_t>(axis), at, 1);
      Dims dims = copy_dims(part.dims());
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis));
      arguments.push_back(part.with_type(part.type().with_dims(dims)));
    }
    arguments.insert(arguments.end(), carries.begin(), carries.end());
    Items returned = call.run_region(0, std::move(arguments));
    if (returned.size() != outputs + carries.size()) call.fail("its region returns another number of values");
    for (size_t k = 0; k < outputs; ++k) {
      const Tensor& slice = std::get<Tensor>(returned[k].value);
      Dims dims = copy_dims(slice.dims());
      dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis), 1);
      slices[k].push_back(slice.with_type(slice.type().with_dims(dims)));
    }
    carries.assign(returned.begin() + static_cast<std::ptrdiff_t>(outputs), returned.end());
  }
  Items results;
  for (size_t k = 0; k < outputs; ++k) {
    if (reverse) std::reverse(slices[k].begin(), slices[k].end());
    results.push_back(slices[k].empty() ? zero_tensor(call.stated(k))
                                        : concatenate(slices[k], static_cast<int64_t>(axis)));
  }
  results.insert(results.end(), carries.begin(), carries.end());
  return results;
}

}  // namespace opentrn::graph::eval
