// gather, dynamic_gather, scatter, torch_index_select.
#include <algorithm>

#include "graph/shape/rules.h"

namespace opentrn::graph::shape {

namespace {

int64_t dim(const Type& type, int64_t axis) { return type.dim(static_cast<int>(axis)); }

// Dimension numbers that gather and scatter share under different names: `inserted` are the dimensions of
// the big tensor that a slice does not have.
struct IndexDimensions {
  Dims window, inserted, batching, indices_batching, map;
  int64_t vector_dim;
};

// The constraints' numbers in gather or scatter; 0 where an op has none.
struct IndexConstraints {
  int rank_sum, window_order, window_range, inserted_unique, inserted_sorted, inserted_range, batching_sorted,
      batching_range, indices_unique, indices_range, vector_not_batching, batching_sizes, batching_dims,
      map_size, map_unique, map_range, vector_range;
};

constexpr IndexConstraints kGatherConstraints{1, 4, 5, 6, 7, 8, 10, 11, 13, 14, 15, 16, 17, 3, 18, 19, 2};
constexpr IndexConstraints kDynamicGatherConstraints{1, 4, 5, 6, 6, 7, 0, 0, 0, 0, 0, 0, 0, 3, 9, 10, 2};
constexpr IndexConstraints kScatterConstraints{2,  7,  8,  9,  10, 11, 12, 13, 14,
                                               15, 16, 17, 18, 19, 20, 21, 22};

// `sliced`: the tensor that is gathered from or scattered into. `window_rank`: rank of the result or update.
void check_index_dimensions(const Context& c, const Type& sliced, const Type& indices,
                            const IndexDimensions& d, const IndexConstraints& n, int64_t window_rank) {
  const size_t rank = d.window.size() + d.inserted.size() + d.batching.size();
  c.check(static_cast<size_t>(sliced.rank()) == rank, n.rank_sum,
          "{} has rank {}; window, collapsed and batching dimensions {}, {} and {} make {}",
          sliced.to_string(), sliced.rank(), text(d.window), text(d.inserted), text(d.batching), rank);
  c.check(0 <= d.vector_dim && d.vector_dim <= indices.rank(), n.vector_range,
          "index_vector_dim is {} for {}", d.vector_dim, indices.to_string());
  const int64_t components = d.vector_dim < indices.rank() ? dim(indices, d.vector_dim) : 1;
  c.check(agrees(components, static_cast<int64_t>(d.map.size())), n.map_size,
          "index vectors have {} components and the index map {}", components, text(d.map));
  c.check(is_unique(d.window) && is_sorted(d.window), n.window_order,
          "window dimensions are {}; they must ascend", text(d.window));
  c.check(in_range(d.window, 0, window_rank), n.window_range, "window dimensions are {} for rank {}",
          text(d.window), window_rank);
  c.check(is_unique(concatenated({d.inserted, d.batching})), n.inserted_unique,
          "collapsed {} and batching {} dimensions repeat one", text(d.inserted), text(d.batching));
  c.check(is_sorted(d.inserted), n.inserted_sorted, "collapsed dimensions are {}; they must ascend",
          text(d.inserted));
  c.check(in_range(d.inserted, 0, sliced.rank()), n.inserted_range, "collapsed dimensions are {} for {}",
          text(d.inserted), sliced.to_string());
  c.check(is_sorted(d.batching), n.batching_sorted, "batching dimensions are {}; they must ascend",
          text(d.batching));
  c.check(in_range(d.batching, 0, sliced.rank()), n.batching_range, "batching dimensions are {} for {}",
          text(d.batching), sliced.to_string());
  c.check(is_unique(d.indices_batching), n.indices_unique, "indices' batching dimensions are {}",
          text(d.indices_batching));
  c.check(in_range(d.indices_batching, 0, indices.rank()), n.indices_range,
          "indices' batching dimensions are {} for {}", text(d.indices_batching), indices.to_string());
  c.check(!contains(d.indices_batching, d.vector_dim), n.vector_not_batching,
          "index_vector_dim {} is a batching dimension", d.vector_dim);
  c.check(d.batching.size() == d.indices_batching.size(), n.batching_sizes,
          "batching dimensions are {} and of the indices {}", text(d.batching), text(d.indices_batching));
  for (size_t i = 0; i < d.batching.size(); ++i)
    c.check(agrees(dim(sliced, d.batching[i]), dim(indices, d.indices_batching[i])), n.batching_dims,
            "batching dimension {} of {} and {} of {} have different sizes", d.batching[i],
            sliced.to_string(), d.indices_batching[i], indices.to_string());
  c.check(is_unique(concatenated({d.map, d.batching})), n.map_unique,
          "index map {} and batching dimensions {} repeat one", text(d.map), text(d.batching));
  c.check(in_range(d.map, 0, sliced.rank()), n.map_range, "index map is {} for {}", text(d.map),
          sliced.to_string());
}

// Dimensions of `indices` without the one of index vectors.
Dims batch_sizes(const Type& indices, int64_t vector_dim) {
  Dims dims;
  for (int i = 0; i < indices.rank(); ++i)
    if (i != vector_dim) dims.push_back(indices.dim(i));
  return dims;
}

// Puts `window` at the axes `window_dims` and `batch` at the others.
Dims combined(const Dims& batch, const Dims& window, const Dims& window_dims) {
  Dims dims;
  size_t from_batch = 0;
  size_t from_window = 0;
  for (size_t i = 0; i < batch.size() + window.size(); ++i)
    dims.push_back(contains(window_dims, static_cast<int64_t>(i)) ? window[from_window++]
                                                                  : batch[from_batch++]);
  return dims;
}

Dims without(std::span<const int64_t> sizes, const Dims& a, const Dims& b) {
  Dims dims;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (const auto at = static_cast<int64_t>(i); !contains(a, at) && !contains(b, at))
      dims.push_back(sizes[i]);
  return dims;
}

IndexDimensions gather_dimensions(const Context& c) {
  return {c.list(Attr::offset_dims),           c.list(Attr::collapsed_slice_dims),
          c.list(Attr::operand_batching_dims), c.list(Attr::start_indices_batching_dims),
          c.list(Attr::start_index_map),       c.integer(Attr::index_vector_dim)};
}

int64_t gathered_rank(const Type& indices, const IndexDimensions& d) {
  return static_cast<int64_t>(d.window.size()) + indices.rank() - (d.vector_dim < indices.rank() ? 1 : 0);
}

}  // namespace

Types gather(const Context& c) {
  const Type& operand = c.tensor(0);
  const Type& indices = c.tensor(1, kInts);
  const IndexDimensions d = gather_dimensions(c);
  check_index_dimensions(c, operand, indices, d, kGatherConstraints, gathered_rank(indices, d));
  const auto sizes = c.integers(Attr::slice_sizes);
  c.check(static_cast<int>(sizes.size()) == operand.rank(), 20, "slice_sizes has {} entries for {}",
          sizes.size(), operand.to_string());
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = operand.dim(static_cast<int>(i));
    c.check(0 <= sizes[i] && (is_dynamic(size) || sizes[i] <= size), 21, "slice_sizes[{}] is {} for {}", i,
            sizes[i], operand.to_string());
  }
  for (const int64_t i : d.inserted)
    c.check(sizes[static_cast<size_t>(i)] <= 1, 9, "slice size {} of collapsed dimension {} is above 1",
            sizes[static_cast<size_t>(i)], i);
  for (const int64_t i : d.batching)
    c.check(sizes[static_cast<size_t>(i)] <= 1, 12, "slice size {} of batching dimension {} is above 1",
            sizes[static_cast<size_t>(i)], i);
  return {typed(operand, combined(batch_sizes(indices, d.vector_dim), without(sizes, d.inserted, d.batching),
                                  d.window))};
}

Types dynamic_gather(const Context& c) {
  const Type& operand = c.tensor(0);
  const Type& indices = c.tensor(1, kInts);
  const Type& sizes = c.vector(2, kInts);
  const IndexDimensions d = gather_dimensions(c);
  check_index_dimensions(c, operand, indices, d, kDynamicGatherConstraints, gathered_rank(indices, d));
  c.check(agrees(sizes.dim(0), operand.rank()), 11, "slice_sizes is {} for {}", sizes.to_string(),
          operand.to_string());
  return {typed(operand,
                combined(batch_sizes(indices, d.vector_dim), Dims(d.window.size(), kDynamic), d.window))};
}

Types scatter(const Context& c) {
  c.check(c.operand_count() % 2 == 1, 5, "{} operands; there must be as many updates as inputs",
          c.operand_count());
  const size_t n = c.operand_count() / 2;
  const Type& indices = c.tensor(n, kInts);
  const Type& first = c.tensor(0);
  const Type& update = c.tensor(n + 1);
  Types inputs;
  for (size_t i = 0; i < n; ++i) {
    const Type& input = c.tensor(i);
    const Type& each = c.tensor(n + 1 + i);
    c.check(shapes_agree(first.dims(), input.dims()), 1,
            "inputs are {} and {}; their shapes must be the same", first.to_string(), input.to_string());
    c.check(shapes_agree(update.dims(), each.dims()), 3,
            "updates are {} and {}; their shapes must be the same", update.to_string(), each.to_string());
    c.check(same_element(input, each), 6, "input {} is {} and its update {}", i, input.to_string(),
            each.to_string());
    inputs.push_back(input);
  }
  const IndexDimensions d{
      c.list(Attr::update_window_dims),           c.list(Attr::inserted_window_dims),
      c.list(Attr::input_batching_dims),          c.list(Attr::scatter_indices_batching_dims),
      c.list(Attr::scatter_dims_to_operand_dims), c.integer(Attr::index_vector_dim)};
  check_index_dimensions(c, first, indices, d, kScatterConstraints, update.rank());
  const Dims batch = batch_sizes(indices, d.vector_dim);
  const Dims window = without(first.dims(), d.inserted, d.batching);
  c.check(static_cast<size_t>(update.rank()) == batch.size() + window.size(), 4,
          "updates are {}; rank {} is wanted", update.to_string(), batch.size() + window.size());
  const Dims limits = combined(batch, window, d.window);
  for (size_t i = 0; i < limits.size(); ++i) {
    const int64_t size = update.dim(static_cast<int>(i));
    const bool in_window = contains(d.window, static_cast<int64_t>(i));
    c.check(agrees(size, limits[i]) || (in_window && size < limits[i]), 4,
            "dimension {} of updates {} does not fit {}", i, update.to_string(), text(limits));
  }
  const Types elements = combiner(c, 0, inputs, 23);
  Types results;
  for (size_t i = 0; i < n; ++i) results.push_back(typed(elements[i], inputs[i].dims_vector()));
  return results;
}

Types torch_index_select(const Context& c) {
  const Type& operand = c.tensor(0);
  const Type& index = c.tensor(1, kInts);
  int64_t axis = c.integer(Attr::dim);
  int64_t batch = c.integer(Attr::batch_dims);
  if (axis < 0) axis += operand.rank();
  if (batch < 0) batch += index.rank();
  c.check(0 <= axis && axis < operand.rank() && 0 <= batch && batch <= index.rank() && batch <= axis, 0,
          "dim {} and batch_dims {} for {} and {}", c.integer(Attr::dim), c.integer(Attr::batch_dims),
          operand.to_string(), index.to_string());
  Dims dims;
  for (int i = 0; i < axis; ++i) dims.push_back(operand.dim(i));
  for (int i = static_cast<int>(batch); i < index.rank(); ++i) dims.push_back(index.dim(i));
  for (int i = static_cast<int>(axis) + 1; i < operand.rank(); ++i) dims.push_back(operand.dim(i));
  return {typed(operand, std::move(dims))};
}

}  // namespace opentrn::graph::shape
