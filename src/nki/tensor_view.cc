#include "nki/tensor_view.h"

#include <algorithm>
#include <numeric>

#include <fmt/ranges.h>

#include "nki/machine.h"

namespace opentrn::nki {

using isa::Dim;
using isa::IndirectKind;
using isa::Pattern;

namespace {

int64_t product(std::span<const int64_t> values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<>());
}

std::string shape_text(const Pattern& pattern) {
  std::string text = "[";
  for (int i = 0; i < pattern.rank; ++i) text += fmt::format("{}{}", i ? ", " : "", pattern.dims[i].count);
  return text + "]";
}

// Replaces one -1 by what is left of `total`. Returns false when the sizes do not multiply to it.
bool infer_sizes(std::vector<int64_t>& shape, int64_t total) {
  int64_t known = 1;
  int64_t* unknown = nullptr;
  for (int64_t& size : shape) {
    if (size == -1) {
      if (unknown) return false;
      unknown = &size;
    } else if (size <= 0) {
      return false;
    } else {
      known *= size;
    }
  }
  if (unknown) {
    if (total % known != 0) return false;
    *unknown = total / known;
    known *= *unknown;
  }
  return known == total;
}

void insert_dims(Pattern& pattern, int at, std::span<const Dim> dims, std::string_view what) {
  if (pattern.rank + static_cast<int>(dims.size()) > isa::kMaxRank)
    throw Fault(FaultKind::kProgram, fmt::format("NkiTensor.{}", what),
                fmt::format("the view would have {} dimensions; at most {} are possible",
                            pattern.rank + dims.size(), isa::kMaxRank));
  std::copy_backward(pattern.dims.begin() + at, pattern.dims.begin() + pattern.rank,
                     pattern.dims.begin() + pattern.rank + dims.size());
  std::ranges::copy(dims, pattern.dims.begin() + at);
  pattern.rank = static_cast<uint8_t>(pattern.rank + dims.size());
}

void remove_dim(Pattern& pattern, int at) {
  std::copy(pattern.dims.begin() + at + 1, pattern.dims.begin() + pattern.rank, pattern.dims.begin() + at);
  --pattern.rank;
  pattern.dims[pattern.rank] = Dim{};
}

std::vector<Dim> row_major(std::span<const int64_t> shape, int64_t innermost_step) {
  std::vector<Dim> dims(shape.size());
  int64_t step = innermost_step;
  for (size_t i = shape.size(); i-- > 0;) {
    dims[i] = {step, shape[i]};
    step *= shape[i];
  }
  return dims;
}

// New strides for `shape` over the elements of `dims`, or nothing when some new dimension would
// cross a gap. The usual two-pointer walk: match groups of equal size, require each old group to
// be contiguous in itself.
std::optional<std::vector<Dim>> regroup(std::span<const Dim> dims, std::span<const int64_t> shape) {
  std::vector<Dim> old;
  for (const Dim& dim : dims)
    if (dim.count != 1) old.push_back(dim);
  std::vector<Dim> result(shape.size());
  size_t from = 0, to = 0;
  while (to < shape.size()) {
    if (shape[to] == 1) {
      result[to++] = {1, 1};
      continue;
    }
    if (from == old.size()) return std::nullopt;
    size_t from_end = from + 1, to_end = to + 1;
    int64_t old_size = old[from].count, new_size = shape[to];
    while (old_size != new_size) {
      if (old_size < new_size) {
        if (from_end == old.size()) return std::nullopt;
        old_size *= old[from_end++].count;
      } else {
        if (to_end == shape.size()) return std::nullopt;
        new_size *= shape[to_end++];
      }
    }
    for (size_t i = from; i + 1 < from_end; ++i)
      if (old[i].step != old[i + 1].step * old[i + 1].count) return std::nullopt;
    int64_t step = old[from_end - 1].step;
    for (size_t i = to_end; i-- > to;) {
      result[i] = {step, shape[i]};
      step *= shape[i];
    }
    from = from_end;
    to = to_end;
  }
  if (from != old.size()) return std::nullopt;
  // A dimension of one element has the stride that more of them would have: it scales an index (ap).
  for (size_t i = result.size(); i-- > 0;)
    if (result[i].count == 1 && i + 1 < result.size())
      result[i].step = result[i + 1].step * result[i + 1].count;
  return result;
}

}  // namespace

Storage::Storage(std::shared_ptr<Machine> machine, isa::TensorId id, const isa::Tensor& tensor)
    : machine(std::move(machine)),
      id(id),
      space(tensor.space),
      dtype(tensor.dtype),
      rows(tensor.rows),
      row_elements(tensor.row_elements),
      name(tensor.name) {}

Storage::Storage(std::shared_ptr<sim::Buffer> host_bytes, const isa::Tensor& tensor)
    : host_bytes(std::move(host_bytes)),
      space(tensor.space),
      dtype(tensor.dtype),
      rows(tensor.rows),
      row_elements(tensor.row_elements),
      name(tensor.name) {}

Storage::~Storage() {
  if (machine) machine->storage_died(id);
}

TensorView TensorView::whole(std::shared_ptr<Storage> storage, std::span<const int64_t> shape) {
  TensorView view;
  view.dtype = storage->dtype;
  view.storage = std::move(storage);
  const std::vector<Dim> dims = row_major(shape, 1);
  insert_dims(view.pattern, 0, dims, "ndarray");
  return view;
}

bool TensorView::is_contiguous() const {
  int64_t step = 1;
  const int last = on_chip() ? 1 : 0;
  for (int i = rank() - 1; i >= last; --i) {
    if (size(i) != 1 && stride(i) != step) return false;
    step *= size(i);
  }
  return true;
}

int64_t TensorView::own_row_elements() const {
  int64_t elements = 1;
  for (int i = 1; i < rank(); ++i) elements *= size(i);
  return is_contiguous() ? elements : 0;
}

std::string TensorView::describe() const {
  std::string text = fmt::format("{}{} in {}", name(dtype), shape_text(pattern), isa::name(storage->space));
  if (!storage->name.empty()) text += fmt::format(" ({})", storage->name);
  return text;
}

void TensorView::fail(std::string_view operation, std::string message, std::string hint) const {
  Fault fault(FaultKind::kProgram, fmt::format("NkiTensor.{}", operation), std::move(message),
              std::move(hint));
  fault.add_note("tensor: " + describe());
  throw fault;
}

void TensorView::check_dim(std::string_view operation, int dim) const {
  if (dim < 0 || dim >= rank())
    fail(operation, fmt::format("dimension {} does not exist; the tensor has {}", dim, rank()));
}

void TensorView::check_not_tied(std::string_view operation, int dim) const {
  if (indirection && indirection->dim == dim)
    fail(operation, fmt::format("dimension {} is addressed by an index and cannot be changed", dim));
}

void TensorView::check_partition_kept(std::string_view operation, int dim) const {
  if (dim == 0 && on_chip())
    fail(operation, "dimension 0 is the partition dimension of an on-chip tensor and cannot be changed");
  check_not_tied(operation, dim);
}

void TensorView::check_extent(std::string_view operation) const {
  const int64_t limit = storage->elements() * size_bytes(storage->dtype) / size_bytes(dtype);
  const int64_t first = offset + pattern.min_offset(), last = offset + pattern.max_offset();
  if (indirection) return;  // the index moves it; checked when it is known
  if (first < 0 || last >= limit)
    fail(operation,
         fmt::format("the view covers elements {} to {} of a tensor that has {}", first, last, limit));
}

TensorView TensorView::slice(int dim, int64_t start, int64_t end, int64_t step) const {
  check_dim("slice", dim);
  if (step < 1) fail("slice", fmt::format("step is {}; it must be at least 1", step));
  if (start < 0 || start >= end || end > size(dim))
    fail("slice", fmt::format("[{}:{}] does not lie in dimension {} of size {}", start, end, dim, size(dim)));
  if (start != 0 || end != size(dim) || step != 1) check_not_tied("slice", dim);
  TensorView view = *this;
  view.offset += start * stride(dim);
  const int64_t count = (end - start - 1) / step + 1;
  view.pattern.dims[dim] = {count > 1 ? stride(dim) * step : stride(dim), count};
  return view;
}

TensorView TensorView::empty_slice(int dim, int64_t start) const {
  check_dim("slice", dim);
  if (start < 0 || start > size(dim))
    fail("slice",
         fmt::format("[{}:{}] does not lie in dimension {} of size {}", start, start, dim, size(dim)));
  check_not_tied("slice", dim);
  TensorView view = *this;
  view.pattern.dims[dim].count = 0;
  return view;
}

TensorView TensorView::select(int dim, int64_t index) const {
  check_dim("select", dim);
  if (index < 0 || index >= size(dim))
    fail("select", fmt::format("index {} is outside dimension {} of size {}", index, dim, size(dim)));
  check_not_tied("select", dim);
  TensorView view = *this;
  view.offset += index * stride(dim);
  remove_dim(view.pattern, dim);
  if (view.indirection && view.indirection->dim > dim) --view.indirection->dim;
  return view;
}

TensorView TensorView::with_scalar_index(int dim, Indirection index) const {
  check_dim("select", dim);
  if (indirection) fail("select", "the tensor already carries a run-time index; only one is possible");
  if (dim == 0 && on_chip()) fail("select", "a run-time index cannot choose the partition");
  TensorView view = *this;
  index.kind = IndirectKind::kScalar;
  index.dim = -1;
  index.stride = stride(dim);
  index.bound = size(dim);
  view.indirection = std::move(index);
  return view;
}

TensorView TensorView::select_scalar(int dim, std::shared_ptr<const TensorView> index) const {
  Indirection indirect;
  indirect.index = std::move(index);
  TensorView view = with_scalar_index(dim, std::move(indirect));
  remove_dim(view.pattern, dim);
  return view;
}

TensorView TensorView::select_register(int dim, isa::RegisterId index) const {
  Indirection indirect;
  indirect.index_register = index;
  TensorView view = with_scalar_index(dim, std::move(indirect));
  remove_dim(view.pattern, dim);
  return view;
}

TensorView TensorView::slice_register(int dim, isa::RegisterId start, int64_t count) const {
  Indirection indirect;
  indirect.index_register = start;
  if (count < 1 || count > size(dim))
    fail("slice", fmt::format("{} elements do not fit in dimension {} of size {}", count, dim, size(dim)));
  TensorView view = with_scalar_index(dim, std::move(indirect));
  view.indirection->bound = size(dim) - count + 1;
  view.pattern.dims[dim].count = count;
  return view;
}

TensorView TensorView::vector_select(int dim, std::shared_ptr<const TensorView> offsets) const {
  if (dim != 0)
    fail("vector_select", fmt::format("dim is {}; only dimension 0 can be indexed per partition", dim));
  if (on_chip()) fail("vector_select", "only HBM tensors can be indexed per partition");
  if (indirection) fail("vector_select", "the tensor already carries a run-time index; only one is possible");
  TensorView view = *this;
  view.pattern.dims[0].count = offsets->size(0);
  view.indirection = Indirection{IndirectKind::kVector, 0, std::move(offsets), 0, stride(0), size(0), 1};
  return view;
}

TensorView TensorView::permute(std::span<const int64_t> dims) const {
  if (static_cast<int>(dims.size()) != rank())
    fail("permute", fmt::format("{} dimensions given, the tensor has {}", dims.size(), rank()));
  std::array<bool, isa::kMaxRank> seen{};
  TensorView view = *this;
  for (int i = 0; i < rank(); ++i) {
    const int64_t dim = dims[i];
    if (dim < 0 || dim >= rank() || seen[dim]) fail("permute", "the dimensions given are not a permutation");
    seen[dim] = true;
    view.pattern.dims[i] = pattern.dims[dim];
    if (indirection && indirection->dim == dim) view.indirection->dim = i;
  }
  if (dims[0] != 0 && (on_chip() || (indirection && indirection->dim == 0)))
    fail("permute", "the partition dimension must stay first");
  return view;
}

TensorView TensorView::broadcast(int dim, int64_t count) const {
  check_dim("broadcast", dim);
  check_partition_kept("broadcast", dim);
  if (size(dim) != 1)
    fail("broadcast", fmt::format("dimension {} has size {}; only size 1 can be repeated", dim, size(dim)));
  if (count < 1) fail("broadcast", fmt::format("size is {}; it must be at least 1", count));
  TensorView view = *this;
  view.pattern.dims[dim] = {0, count};
  return view;
}

TensorView TensorView::expand_dim(int dim) const {
  if (dim < 0 || dim > rank())
    fail("expand_dim", fmt::format("position {} does not exist; the tensor has {} dimensions", dim, rank()));
  if (dim == 0 && (on_chip() || (indirection && indirection->dim == 0)))
    fail("expand_dim", "nothing can stand before the partition dimension");
  TensorView view = *this;
  const Dim one{dim < rank() ? stride(dim) * size(dim) : 1, 1};
  insert_dims(view.pattern, dim, {&one, 1}, "expand_dim");
  if (view.indirection && view.indirection->dim >= dim) ++view.indirection->dim;
  return view;
}

TensorView TensorView::squeeze_dim(int dim) const {
  check_dim("squeeze_dim", dim);
  check_partition_kept("squeeze_dim", dim);
  if (size(dim) != 1) fail("squeeze_dim", fmt::format("dimension {} has size {}, not 1", dim, size(dim)));
  TensorView view = *this;
  remove_dim(view.pattern, dim);
  if (view.indirection && view.indirection->dim > dim) --view.indirection->dim;
  return view;
}

TensorView TensorView::reshape_dim(int dim, std::vector<int64_t> shape) const {
  check_dim("reshape_dim", dim);
  if (!infer_sizes(shape, size(dim)))
    fail("reshape_dim", fmt::format("the sizes given do not multiply to {}", size(dim)));
  if (shape.size() == 1) return *this;
  if (!(shape.size() > 1 && product(std::span(shape).subspan(1)) == 1))
    check_partition_kept("reshape_dim", dim);
  TensorView view = *this;
  const std::vector<Dim> dims = row_major(shape, stride(dim));
  remove_dim(view.pattern, dim);
  insert_dims(view.pattern, dim, dims, "reshape_dim");
  if (view.indirection && view.indirection->dim > dim)
    view.indirection->dim += static_cast<int>(shape.size()) - 1;
  return view;
}

TensorView TensorView::rearrange(const NamedDims& source, const NamedDims& target,
                                 const std::map<std::string, int64_t>& sizes) const {
  if (static_cast<int>(source.groups.size()) != rank())
    fail("rearrange", fmt::format("pattern {} for a tensor of rank {}", source.text, rank()));
  TensorView view = *this;
  std::vector<std::string> names;
  for (int dim = 0; dim < rank(); ++dim) {
    const auto& group = source.groups[dim];
    std::vector<int64_t> parts;
    for (const std::string& name : group) {
      const auto known = sizes.find(name);
      parts.push_back(known == sizes.end() ? -1 : known->second);
    }
    if (!infer_sizes(parts, size(dim)))
      throw Fault(FaultKind::kProgram, "nki.shape",
                  fmt::format("{} elements do not split into {}", size(dim), fmt::join(group, " ")));
    if (group.size() != 1) view = view.reshape_dim(static_cast<int>(names.size()), parts);
    names.insert(names.end(), group.begin(), group.end());
  }
  std::vector<int64_t> order;
  for (const auto& group : target.groups)
    for (const std::string& name : group) order.push_back(std::ranges::find(names, name) - names.begin());
  std::vector<int64_t> sorted = order;
  std::ranges::sort(sorted);
  std::vector<int64_t> every(names.size());
  std::iota(every.begin(), every.end(), 0);
  if (sorted != every)
    fail("rearrange", fmt::format("{} must hold the names of {}", target.text, source.text));
  view = view.permute(order);
  for (size_t i = 0; i < target.groups.size(); ++i)
    if (const size_t count = target.groups[i].size(); count != 1)
      view = view.flatten_dims(static_cast<int>(i), static_cast<int>(i + count) - 1);
  return view;
}

TensorView TensorView::flatten_dims(int start, int end) const {
  check_dim("flatten_dims", start);
  check_dim("flatten_dims", end);
  if (start > end) fail("flatten_dims", fmt::format("start {} lies after end {}", start, end));
  if (start == end) return *this;
  check_partition_kept("flatten_dims", start);
  int64_t total = 1;
  for (int i = start; i <= end; ++i) total *= size(i);
  const auto merged = regroup({pattern.dims.data() + start, static_cast<size_t>(end - start + 1)}, {{total}});
  if (!merged) fail("flatten_dims", fmt::format("dimensions {} to {} are not contiguous", start, end));
  TensorView view = *this;
  for (int i = end; i > start; --i) remove_dim(view.pattern, i);
  view.pattern.dims[start] = merged->front();
  if (view.indirection && view.indirection->dim > end) view.indirection->dim -= end - start;
  return view;
}

TensorView TensorView::reshape(std::vector<int64_t> shape) const {
  if (!infer_sizes(shape, element_count()))
    fail("reshape",
         fmt::format("the sizes given do not multiply to the {} elements of the tensor", element_count()));
  const bool keep_first = on_chip() || (indirection && indirection->dim == 0);
  if (keep_first && (shape.empty() || shape[0] != size(0)))
    fail("reshape", fmt::format("dimension 0 must stay {}, the number of partitions", size(0)));
  const size_t skip = keep_first ? 1 : 0;
  const auto dims = regroup({pattern.dims.data() + skip, static_cast<size_t>(rank()) - skip},
                            std::span(shape).subspan(skip));
  if (!dims)
    fail("reshape", "the memory layout of this view does not allow the new shape",
         "copy it to a new tensor first");
  TensorView view = *this;
  view.pattern.rank = static_cast<uint8_t>(skip);
  std::fill(view.pattern.dims.begin() + skip, view.pattern.dims.end(), Dim{});
  insert_dims(view.pattern, static_cast<int>(skip), *dims, "reshape");
  return view;
}

TensorView TensorView::reinterpret(DType to) const {
  if (indirection) fail("view", "a view with a run-time index cannot be reinterpreted");
  const int64_t from_bytes = size_bytes(dtype), to_bytes = size_bytes(to);
  TensorView view = *this;
  view.dtype = to;
  if (from_bytes == to_bytes) return view;
  const int last = rank() - 1;
  if (size(last) != 1 && stride(last) != 1) fail("view", "the last dimension is not contiguous");
  const auto rescale = [&](int64_t elements, std::string_view what) {
    if (elements * from_bytes % to_bytes != 0)
      fail("view", fmt::format("{} of {} {} elements is not a whole number of {} elements", what, elements,
                               name(dtype), name(to)));
    return elements * from_bytes / to_bytes;
  };
  view.offset = rescale(offset, "the offset");
  for (int i = 0; i < last; ++i)
    if (size(i) != 1)
      view.pattern.dims[i].step = rescale(stride(i), "a stride");
    else
      view.pattern.dims[i].step = stride(i) * from_bytes / to_bytes;
  view.pattern.dims[last] = {1, rescale(size(last), "the last dimension")};
  return view;
}

TensorView TensorView::indirect(std::shared_ptr<const TensorView> index,
                                std::optional<int64_t> num_elem) const {
  if (!on_chip()) fail("indirect", "tensor indirection addresses the free dimension of SBUF and PSUM tiles");
  if (indirection) fail("indirect", "the tensor already carries a run-time index; only one is possible");
  if (index->size(0) != size(0))
    fail("indirect", fmt::format("the index has {} partitions, the tensor {}", index->size(0), size(0)));
  TensorView view = *this;
  const int64_t available = pattern.elements_per_partition();
  const int64_t count = num_elem.value_or(index->element_count());
  view.pattern.rank = 2;
  std::fill(view.pattern.dims.begin() + 2, view.pattern.dims.end(), Dim{});
  view.pattern.dims[1] = {0, count};
  view.indirection =
      Indirection{IndirectKind::kTensor, 1, std::move(index), 0, stride(rank() - 1), available, 1};
  return view;
}

TensorView TensorView::ap(const ApArguments& a) const {
  TensorView view = *this;
  view.indirection.reset();
  const DType to = a.dtype.value_or(dtype);
  const int64_t from_bytes = size_bytes(dtype), to_bytes = size_bytes(to);
  view.dtype = to;
  const auto rescale = [&](int64_t elements) { return elements * from_bytes / to_bytes; };
  view.offset = rescale(offset) + a.offset.value_or(0);
  view.pattern = {};
  insert_dims(view.pattern, 0, a.pattern, "ap");
  if (a.scalar_offset || a.scalar_register || a.vector_offset) {
    if ((a.scalar_offset || a.scalar_register) && a.vector_offset)
      fail("ap", "scalar_offset and vector_offset are mutually exclusive");
    check_dim("ap", a.indirect_dim);
    Indirection index;
    index.stride = rescale(stride(a.indirect_dim));
    // The dimension gives the stride [doc: ap]: one of size 1 has that of the dimension before it, and means
    // it as much.
    for (int dim = 0; dim < rank(); ++dim)
      if (stride(dim) == stride(a.indirect_dim)) index.bound = std::max(index.bound, size(dim));
    if (a.vector_offset) {
      if (a.indirect_dim != 0)
        fail("ap", fmt::format("indirect_dim is {}; vector_offset needs 0", a.indirect_dim));
      if (on_chip()) fail("ap", "vector_offset needs a tensor in HBM");
      index.kind = IndirectKind::kVector;
      index.dim = 0;
      index.index = a.vector_offset;
    } else {
      index.kind = IndirectKind::kScalar;
      index.dim = -1;
      index.index = a.scalar_offset;
      if (a.scalar_register) index.index_register = *a.scalar_register;
    }
    view.indirection = std::move(index);
  }
  // Kernels of nki-library call .ap on a view of part of each partition with the view's own row as the first
  // step (mlp_tkg_gate_up_projection.py, TensorView(output_tile)). The documents of 0.6 only allow the step
  // of the storage, so no documented program changes its meaning: the pattern is one of the view's rows.
  // With one partition the first step says nothing, so such a pattern is one of the storage.
  if (const int64_t own_row = rescale(own_row_elements()); on_chip() && own_row > 0 && view.rank() > 0 &&
                                                           view.size(0) > 1 && view.stride(0) == own_row &&
                                                           own_row < view.row_elements()) {
    const int64_t first = a.offset.value_or(0);
    view.pattern.dims[0].step = view.row_elements();
    view.offset = rescale(offset) + first / own_row * view.row_elements() + first % own_row;
  }
  if (on_chip() && view.rank() > 0 && view.size(0) > 1 && view.stride(0) != view.row_elements())
    view.fail("ap", fmt::format("the first step is {}; it must be {}, the elements of one partition",
                                view.stride(0), view.row_elements()));
  // Kernels make views beyond the end of a tensor that they then do not use (nki-library,
  // output_projection_tkg.py).
  view.may_leave_storage = true;
  return view;
}

std::vector<int64_t> common_shape(std::span<const int64_t> x, std::span<const int64_t> y) {
  const auto text = [](std::span<const int64_t> sizes) {
    return fmt::format("({}{})", fmt::join(sizes, ", "), sizes.size() == 1 ? "," : "");
  };
  if (x.size() != y.size())
    throw Fault(
        FaultKind::kProgram, "nki.shape",
        fmt::format("operands of ranks {} and {}, shapes {} and {}", x.size(), y.size(), text(x), text(y)),
        "expand_dim or reshape first; tiles broadcast dimension by dimension");
  std::vector<int64_t> shape;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i] && x[i] != 1 && y[i] != 1)
      throw Fault(FaultKind::kProgram, "nki.shape",
                  fmt::format("shapes {} and {} do not broadcast", text(x), text(y)));
    shape.push_back(x[i] == 1 ? y[i] : x[i]);
  }
  return shape;
}

}  // namespace opentrn::nki
