// Ops that run a computation over elements: reduce, reduce_window, select_and_scatter, map, sort.
#include <algorithm>
#include <numeric>

#include "graph/shape/rules.h"

namespace opentrn::graph::shape {

namespace {

// Inputs are operands [0, n), initial values [n, 2n).
struct Reduction {
  size_t n;
  Type shape;  // inputs' shape, most specific
  Types initial;
};

Reduction checked_inputs(const Context& c, int count_constraint, int shape_constraint,
                         int element_constraint) {
  const size_t n = c.operand_count() / 2;
  c.check(n > 0 && c.operand_count() == 2 * n, count_constraint,
          "{} operands; there must be as many initial values as inputs", c.operand_count());
  c.check(!c.has_stated() || c.stated().size() == n, count_constraint, "{} results for {} inputs",
          c.stated().size(), n);
  Reduction r{n, c.tensor(0), {}};
  for (size_t i = 0; i < n; ++i) {
    const Type& input = c.tensor(i);
    const Type& initial = c.tensor(n + i);
    c.check(shapes_agree(r.shape.dims(), input.dims()), shape_constraint,
            "inputs are {} and {}; their shapes must be the same", r.shape.to_string(), input.to_string());
    c.check(initial.rank() == 0 && same_element(initial, input), element_constraint,
            "input {} is {} and its initial value {}", i, input.to_string(), initial.to_string());
    r.shape = merged(r.shape, input);
    r.initial.push_back(initial);
  }
  return r;
}

}  // namespace

Types reduce(const Context& c) {
  const Reduction r = checked_inputs(c, 3, 1, 2);
  const auto dimensions = c.integers(Attr::dimensions);
  c.check(in_range(dimensions, 0, r.shape.rank()), 4, "dimensions is {} for {}", text(dimensions),
          r.shape.to_string());
  c.check(is_unique(dimensions), 5, "dimensions is {}; entries must differ", text(dimensions));
  const Types elements = combiner(c, 0, r.initial, 6);
  Dims dims;
  Dims bounds;
  for (int i = 0; i < r.shape.rank(); ++i) {
    if (contains(dimensions, i)) continue;
    dims.push_back(r.shape.dim(i));
    if (!r.shape.bounds().empty()) bounds.push_back(r.shape.bounds()[static_cast<size_t>(i)]);
  }
  if (std::all_of(bounds.begin(), bounds.end(), is_dynamic)) bounds.clear();
  Types results;
  for (const Type& element : elements) {
    results.push_back(typed(element, dims));
    results.back().set_bounds(bounds);
  }
  return results;
}

namespace {

void check_positive(const Context& c, std::span<const int64_t> values, size_t rank, int constraint,
                    std::string_view what) {
  c.check(values.size() == rank, constraint, "{} has {} entries for rank {}", what, values.size(), rank);
  c.check(in_range(values, 1, INT64_MAX), constraint + 1, "{} is {}; entries must be positive", what,
          text(values));
}

// Padding of an op that has windows, zeros where the program gives none.
IntMatrix padding_of(const Context& c, size_t rank, int constraint) {
  const auto n = static_cast<int64_t>(rank);
  if (!c.op().has(Attr::padding)) return {n, 2, Dims(2 * rank, 0)};
  const IntMatrix& padding = c.op().matrix(Attr::padding);
  c.check(padding.rows == n && (padding.columns == 2 || n == 0), constraint,
          "padding is {} x {}; it must be {} x 2", padding.rows, padding.columns, n);
  return padding;
}

}  // namespace

Types reduce_window(const Context& c) {
  const Reduction r = checked_inputs(c, 1, 2, 3);
  const auto rank = static_cast<size_t>(r.shape.rank());
  const auto sizes = c.integers(Attr::window_dimensions);
  const Dims strides = c.integers_or(Attr::window_strides, rank, 1);
  const Dims base = c.integers_or(Attr::base_dilations, rank, 1);
  const Dims dilations = c.integers_or(Attr::window_dilations, rank, 1);
  check_positive(c, sizes, rank, 4, "window_dimensions");
  check_positive(c, strides, rank, 6, "window_strides");
  check_positive(c, base, rank, 8, "base_dilations");
  check_positive(c, dilations, rank, 10, "window_dilations");
  const IntMatrix padding = padding_of(c, rank, 12);
  const Types elements = combiner(c, 0, r.initial, 13);
  Dims dims(rank);
  for (size_t i = 0; i < rank; ++i)
    dims[i] = window_count(r.shape.dim(static_cast<int>(i)),
                           {.size = sizes[i],
                            .stride = strides[i],
                            .padding_low = padding.at(static_cast<int64_t>(i), 0),
                            .padding_high = padding.at(static_cast<int64_t>(i), 1),
                            .base_dilation = base[i],
                            .window_dilation = dilations[i]});
  Types results;
  for (const Type& element : elements) results.push_back(typed(element, dims));
  return results;
}

Types select_and_scatter(const Context& c) {
  const Type& operand = c.tensor(0);
  const Type& source = c.tensor(1);
  const Type& initial = c.tensor(2);
  const auto rank = static_cast<size_t>(operand.rank());
  c.check(same_element(operand, source), 1, "operand is {} and source {}", operand.to_string(),
          source.to_string());
  c.check(initial.rank() == 0 && same_element(operand, initial), 3, "operand is {} and init_value {}",
          operand.to_string(), initial.to_string());
  const Dims sizes = c.list(Attr::window_dimensions);
  const Dims strides = c.integers_or(Attr::window_strides, rank, 1);
  check_positive(c, sizes, rank, 4, "window_dimensions");
  check_positive(c, strides, rank, 6, "window_strides");
  const IntMatrix padding = padding_of(c, rank, 8);
  Dims windows(rank);
  for (size_t i = 0; i < rank; ++i)
    windows[i] = window_count(operand.dim(static_cast<int>(i)),
                              {.size = sizes[i],
                               .stride = strides[i],
                               .padding_low = padding.at(static_cast<int64_t>(i), 0),
                               .padding_high = padding.at(static_cast<int64_t>(i), 1)});
  c.check(shapes_agree(windows, source.dims()), 2, "source is {}; the windows are {}", source.to_string(),
          text(windows));
  const Signature select = c.region(0);
  c.check(select.arguments.size() == 2 && select.results.size() == 1 &&
              agree(select.results[0], Type::scalar(ElementType::kI1)),
          9, "select must take two values and return i1");
  for (const Type& argument : select.arguments)
    c.check(agree(argument, typed(operand, {})), 9, "select takes {} for the operand {}",
            argument.to_string(), operand.to_string());
  const Types inputs{initial};
  return {typed(combiner(c, 1, inputs, 10)[0], operand.dims_vector())};
}

Types map(const Context& c) {
  c.check(c.operand_count() > 0, 2, "no inputs");
  Type shape = c.tensor(0);
  for (size_t i = 1; i < c.operand_count(); ++i) {
    const Type& input = c.tensor(i);
    c.check(shapes_agree(shape.dims(), input.dims()), 1,
            "inputs are {} and {}; their shapes must be the same", shape.to_string(), input.to_string());
    shape = merged(shape, input);
  }
  Dims all(static_cast<size_t>(shape.rank()));
  std::iota(all.begin(), all.end(), 0);
  const auto dimensions = c.integers(Attr::dimensions);
  c.check(std::equal(all.begin(), all.end(), dimensions.begin(), dimensions.end()), 3,
          "dimensions is {}; it must be {}", text(dimensions), text(all));
  const Signature computation = c.region(0);
  c.check(computation.arguments.size() == c.operand_count() && computation.results.size() == 1, 4,
          "the computation takes {} values and returns {} for {} inputs", computation.arguments.size(),
          computation.results.size(), c.operand_count());
  for (size_t i = 0; i < c.operand_count(); ++i)
    c.check(agree(computation.arguments[i], typed(c.tensor(i), {})), 4, "the computation takes {} for {}",
            computation.arguments[i].to_string(), c.tensor(i).to_string());
  const Type& result = computation.results[0];
  c.check(result.is_tensor() && result.rank() == 0, 4, "the computation returns {}", result.to_string());
  return {typed(result, shape.dims_vector())};
}

Types sort(const Context& c) {
  c.check(c.operand_count() > 0, 1, "no inputs");
  Types results;
  for (size_t i = 0; i < c.operand_count(); ++i) {
    const Type& input = c.tensor(i);
    c.check(shapes_agree(c.tensor(0).dims(), input.dims()), 3,
            "inputs are {} and {}; their shapes must be the same", c.tensor(0).to_string(),
            input.to_string());
    results.push_back(input);
  }
  const int64_t axis = c.op().integer_or(Attr::dimension, -1);
  const int rank = c.tensor(0).rank();
  c.check(-rank <= axis && axis < rank, 4, "dimension is {} for {}", axis, c.tensor(0).to_string());
  const Signature comparator = c.region(0);
  c.check(comparator.arguments.size() == 2 * c.operand_count() && comparator.results.size() == 1 &&
              agree(comparator.results[0], Type::scalar(ElementType::kI1)),
          5, "the comparator must take {} values and return i1", 2 * c.operand_count());
  for (size_t i = 0; i < comparator.arguments.size(); ++i)
    c.check(agree(comparator.arguments[i], typed(c.tensor(i / 2), {})), 5,
            "the comparator takes {} as argument {} for {}", comparator.arguments[i].to_string(), i,
            c.tensor(i / 2).to_string());
  return results;
}

}  // namespace opentrn::graph::shape
