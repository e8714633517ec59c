// gather and scatter: one index computation, read or written through.
#include <algorithm>

#include "graph/eval/bodies.h"
#include "graph/eval/indexing.h"

namespace opentrn::graph::eval {

namespace {

bool contains(std::span<const int64_t> list, int64_t value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}

// The attributes of both ops under common names. A window is the part of the operand that one index
// vector starts; `skipped` dimensions of the operand have no dimension in the window's shape.
struct IndexMap {
  Dims window_dims;       // dimensions of the result (updates) that walk the window
  Dims skipped;           // collapsed_slice_dims or inserted_window_dims
  Dims operand_batching;  // operand dimensions indexed by
  Dims indices_batching;  // these dimensions of the indices
  Dims index_to_operand;  // operand dimension of each component of an index vector
  int64_t index_vector_dim = 0;
};

Dims list_or_empty(const Call& call, Attr attr) { return call.op().integers_or(attr, 0, 0); }

// One entry of the indices tensor for each batch index.
class StartIndices {
 public:
  StartIndices(const Call& call, const IndexMap& map, const Tensor& indices, size_t operand_rank)
      : map_(map), values_(integers_of(indices)), strides_(row_major_strides(indices.dims())) {
    if (map.index_vector_dim < 0 || map.index_vector_dim > indices.rank())
      call.fail(fmt::format("index_vector_dim {} for {}", map.index_vector_dim, indices.type().to_string()));
    const bool implicit = map.index_vector_dim == indices.rank();
    const int64_t components = implicit ? 1 : indices.dims()[static_cast<size_t>(map.index_vector_dim)];
    if (components != static_cast<int64_t>(map.index_to_operand.size()))
      call.fail(fmt::format("index vectors of {} for {} operand dimensions", components,
                            map.index_to_operand.size()));
    for (const Dims* list : {&map.index_to_operand, &map.operand_batching, &map.skipped})
      for (const int64_t axis : *list)
        if (axis < 0 || static_cast<size_t>(axis) >= operand_rank)
          call.fail(fmt::format("the operand has no dimension {}", axis));
    component_stride_ = implicit ? 0 : strides_[static_cast<size_t>(map.index_vector_dim)];
    for (int64_t axis = 0; axis < indices.rank(); ++axis) {
      if (axis == map.index_vector_dim) continue;
      batch_axes_.push_back(axis);
      batch_dims_.push_back(indices.dims()[static_cast<size_t>(axis)]);
    }
  }

  const Dims& batch_dims() const { return batch_dims_; }

  // The window's start in the operand, not yet clamped.
  void start(std::span<const int64_t> batch_index, Dims& full) const {
    std::fill(full.begin(), full.end(), 0);
    int64_t at = 0;
    for (size_t i = 0; i < batch_index.size(); ++i)
      at += batch_index[i] * strides_[static_cast<size_t>(batch_axes_[i])];
    for (size_t component = 0; component < map_.index_to_operand.size(); ++component)
      full[static_cast<size_t>(map_.index_to_operand[component])] =
          values_[static_cast<size_t>(at + static_cast<int64_t>(component) * component_stride_)];
    for (size_t i = 0; i < map_.operand_batching.size(); ++i) {
      const int64_t axis = map_.indices_batching[i];
      const auto place = std::find(batch_axes_.begin(), batch_axes_.end(), axis) - batch_axes_.begin();
      full[static_cast<size_t>(map_.operand_batching[i])] = batch_index[static_cast<size_t>(place)];
    }
  }

 private:
  const IndexMap& map_;
  Dims values_;
  Dims strides_;
  Dims batch_axes_;
  Dims batch_dims_;
  int64_t component_stride_ = 0;
};

// Splits an index of the result (updates) into its batch part and its place in the operand's window.
class IndexSplit {
 public:
  IndexSplit(const Call& call, const IndexMap& map, size_t result_rank, size_t operand_rank) {
    for (size_t axis = 0; axis < result_rank; ++axis)
      if (!contains(map.window_dims, static_cast<int64_t>(axis))) batch_.push_back(axis);
    size_t next = 0;
    for (size_t axis = 0; axis < operand_rank; ++axis) {
      const auto at = static_cast<int64_t>(axis);
      if (contains(map.skipped, at) || contains(map.operand_batching, at)) continue;
      if (next < map.window_dims.size())
        window_.emplace_back(static_cast<size_t>(map.window_dims[next]), axis);
      ++next;
    }
    if (next != map.window_dims.size())
      call.fail(
          fmt::format("{} window dimensions for {} dimensions of the operand", map.window_dims.size(), next));
    for (const auto& [from, to] : window_)
      if (from >= result_rank) call.fail(fmt::format("window dimension {} of rank {}", from, result_rank));
  }
  void batch(const Dims& index, Dims& part) const {
    part.resize(batch_.size());
    for (size_t i = 0; i < batch_.size(); ++i) part[i] = index[batch_[i]];
  }
  void window(const Dims& index, Dims& full) const {
    std::fill(full.begin(), full.end(), 0);
    for (const auto& [from, to] : window_) full[to] = index[from];
  }
  const std::vector<size_t>& batch_axes() const { return batch_; }

 private:
  std::vector<size_t> batch_;
  std::vector<std::pair<size_t, size_t>> window_;  // dimension of the result, of the operand
};

}  // namespace

// Indices are clamped so that every window lies inside the operand.
Tensor gather(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const Tensor& indices = call.tensor(1);
  const auto rank = static_cast<size_t>(operand.rank());
  const IndexMap map{.window_dims = list_or_empty(call, Attr::offset_dims),
                     .skipped = list_or_empty(call, Attr::collapsed_slice_dims),
                     .operand_batching = list_or_empty(call, Attr::operand_batching_dims),
                     .indices_batching = list_or_empty(call, Attr::start_indices_batching_dims),
                     .index_to_operand = list_or_empty(call, Attr::start_index_map),
                     .index_vector_dim = call.op().integer(Attr::index_vector_dim)};
  const Dims sizes = call.kind() == OpKind::dynamic_gather_
                         ? integers_of(call.tensor(2))
                         : copy_dims(call.op().integers(Attr::slice_sizes));
  if (sizes.size() != rank) call.fail(fmt::format("{} slice_sizes for rank {}", sizes.size(), rank));
  for (size_t axis = 0; axis < rank; ++axis)
    if (sizes[axis] < 0 || sizes[axis] > operand.dims()[axis])
      call.fail(
          fmt::format("slices of {} in dimension {} of {}", sizes[axis], axis, operand.type().to_string()));
  const StartIndices starts(call, map, indices, rank);
  const size_t result_rank = starts.batch_dims().size() + map.window_dims.size();
  const IndexSplit split(call, map, result_rank, rank);

  Dims dims(result_rank);
  for (size_t i = 0; i < split.batch_axes().size(); ++i) dims[split.batch_axes()[i]] = starts.batch_dims()[i];
  size_t window = 0;
  for (size_t axis = 0; axis < rank; ++axis) {
    const auto at = static_cast<int64_t>(axis);
    if (contains(map.skipped, at) || contains(map.operand_batching, at)) continue;
    dims[static_cast<size_t>(map.window_dims[window++])] = sizes[axis];
  }

  const Dims strides = row_major_strides(operand.dims());
  Dims from(static_cast<size_t>(product(dims)));
  Dims batch;
  Dims start(rank);
  Dims offset(rank);
  for_each_index(dims, [&](const Dims& index, int64_t linear) {
    split.batch(index, batch);
    starts.start(batch, start);
    split.window(index, offset);
    int64_t at = 0;
    for (size_t axis = 0; axis < rank; ++axis)
      at += (std::clamp<int64_t>(start[axis], 0, operand.dims()[axis] - sizes[axis]) + offset[axis]) *
            strides[axis];
    from[static_cast<size_t>(linear)] = at;
  });
  return take(operand, call.result(dims), from);
}

// The elements of `dim` that each batch's indices name; the first batch_dims dimensions of both go
// together. Indices are clamped.
Tensor torch_index_select(const Call& call) {
  const Tensor& operand = call.tensor(0);
  const Tensor& index = call.tensor(1);
  const auto dim = static_cast<size_t>(call.op().integer(Attr::dim));
  const auto batch = static_cast<size_t>(call.op().integer(Attr::batch_dims));
  if (dim >= operand.dims().size() || batch > dim || batch > index.dims().size())
    call.fail(fmt::format("dim {} and {} batch dimensions of {}", dim, batch, operand.type().to_string()));
  Dims dims = copy_dims(operand.dims().first(dim));
  dims.insert(dims.end(), index.dims().begin() + static_cast<std::ptrdiff_t>(batch), index.dims().end());
  dims.insert(dims.end(), operand.dims().begin() + static_cast<std::ptrdiff_t>(dim) + 1,
              operand.dims().end());
  const size_t index_rank = index.dims().size() - batch;
  const Dims strides = row_major_strides(operand.dims());
  const Dims index_strides = row_major_strides(index.dims());
  const Dims names = integers_of(index);
  Dims from(static_cast<size_t>(product(dims)));
  for_each_index(dims, [&](const Dims& at, int64_t linear) {
    int64_t name = 0;
    for (size_t i = 0; i < batch; ++i) name += at[i] * index_strides[i];
    for (size_t i = 0; i < index_rank; ++i) name += at[dim + i] * index_strides[batch + i];
    int64_t source =
        std::clamp<int64_t>(names[static_cast<size_t>(name)], 0, operand.dims()[dim] - 1) * strides[dim];
    for (size_t i = 0; i < dim; ++i) source += at[i] * strides[i];
    for (size_t i = dim + 1; i < operand.dims().size(); ++i) source += at[index_rank + i - 1] * strides[i];
    from[static_cast<size_t>(linear)] = source;
  });
  return take(operand, call.result(dims), from);
}

namespace {

// Where each update goes: -1 where its window does not lie wholly inside of the input, which drops all of the
// window, as in XLA and in the device's kernels; StableHLO's text would drop the elements that lie outside.
Dims scatter_targets(const Call& call, const Tensor& input, const Tensor& indices, const Tensor& updates) {
  const auto rank = static_cast<size_t>(input.rank());
  const IndexMap map{.window_dims = list_or_empty(call, Attr::update_window_dims),
                     .skipped = list_or_empty(call, Attr::inserted_window_dims),
                     .operand_batching = list_or_empty(call, Attr::input_batching_dims),
                     .indices_batching = list_or_empty(call, Attr::scatter_indices_batching_dims),
                     .index_to_operand = list_or_empty(call, Attr::scatter_dims_to_operand_dims),
                     .index_vector_dim = call.op().integer(Attr::index_vector_dim)};
  const StartIndices starts(call, map, indices, rank);
  const IndexSplit split(call, map, updates.dims().size(), rank);
  if (split.batch_axes().size() != starts.batch_dims().size())
    call.fail(fmt::format("{} for indices {}", updates.type().to_string(), indices.type().to_string()));
  const Dims strides = row_major_strides(input.dims());
  Dims last(updates.dims().begin(), updates.dims().end());  // of each window
  for (int64_t& at : last) --at;
  Dims reach(rank);
  split.window(last, reach);
  Dims targets(static_cast<size_t>(updates.size()), -1);
  Dims batch;
  Dims start(rank);
  Dims offset(rank);
  for_each_index(updates.dims(), [&](const Dims& index, int64_t linear) {
    split.batch(index, batch);
    for (size_t i = 0; i < batch.size(); ++i)
      if (batch[i] >= starts.batch_dims()[i])
        call.fail(fmt::format("{} for indices {}", updates.type().to_string(), indices.type().to_string()));
    starts.start(batch, start);
    split.window(index, offset);
    int64_t at = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      if (start[axis] < 0 || start[axis] + reach[axis] >= input.dims()[axis]) return;
      at += (start[axis] + offset[axis]) * strides[axis];
    }
    targets[static_cast<size_t>(linear)] = at;
  });
  return targets;
}

Items scatter_one(const Call& call, const Tensor& input, const Tensor& updates, const Dims& targets) {
  return visit_values(input, [&]<typename T>(std::vector<T> values) -> Items {
    const Combiner<T> combine(call, 0);
    const std::vector<T>& news = updates.values<T>();
    for (size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] < 0) continue;
      T& value = values[static_cast<size_t>(targets[i])];
      value = combine(value, news[i]);
    }
    return {Tensor(call.result(input.dims()), std::move(values))};
  });
}

}  // namespace

// Updates are applied in row-major order of the updates tensors; the spec leaves the order open.
Items scatter(const Call& call) {
  if (call.operand_count() % 2 == 0) call.fail("an even number of operands");
  const size_t count = (call.operand_count() - 1) / 2;
  const std::vector<Tensor> inputs = call.tensors(0, count);
  const Tensor& indices = call.tensor(count);
  const std::vector<Tensor> updates = call.tensors(count + 1, call.operand_count());
  const Dims targets = scatter_targets(call, inputs[0], indices, updates[0]);
  if (count == 1) return scatter_one(call, inputs[0], updates[0], targets);

  std::vector<Storage> values;
  for (const Tensor& input : inputs) values.push_back(input.storage());
  for (size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] < 0) continue;
    const auto target = static_cast<size_t>(targets[i]);
    Items arguments;
    for (size_t k = 0; k < count; ++k)
      std::visit(
          [&]<typename T>(const std::vector<T>& v) {
            arguments.push_back(Tensor(call.region_argument_type(0, k), std::vector<T>{v[target]}));
          },
          values[k]);
    for (size_t k = 0; k < count; ++k)
      arguments.push_back(
          element_at(updates[k], static_cast<int64_t>(i), call.region_argument_type(0, count + k)));
    const Items combined = call.run_region(0, std::move(arguments));
    for (size_t k = 0; k < count; ++k)
      std::visit([&]<typename T>(
                     std::vector<T>& v) { v[target] = std::get<Tensor>(combined[k].value).values<T>()[0]; },
                 values[k]);
  }
  Items results;
  for (size_t k = 0; k < count; ++k)
    results.push_back(Tensor(call.result(inputs[k].dims(), k), std::move(values[k])));
  return results;
}

}  // namespace opentrn::graph::eval
