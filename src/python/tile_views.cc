// Views: indices, parts, and the machine's view behind one.
#include "python/call_site.h"
#include "python/tile_objects.h"

namespace opentrn::python {

using namespace nb::literals;

namespace {

constexpr Py_ssize_t kShapesMax = 4096;  // a kernel has a handful

PyObject* item(PyObject* tuple, Py_ssize_t at) { return PyTuple_GET_ITEM(tuple, at); }
int64_t int_item(PyObject* tuple, Py_ssize_t at) { return int_of(item(tuple, at)); }
bool is_range(PyObject* value) { return Py_IS_TYPE(value, tile_types().range); }

// A Range of box.py: start, step, count.
struct Part {
  int64_t start, step, count;
};
Part part_of_range(PyObject* range) { return {int_item(range, 0), int_item(range, 1), int_item(range, 2)}; }

nb::object pair(int64_t step, int64_t count) {
  nb::object made = checked(PyTuple_New(2));
  PyTuple_SET_ITEM(made.ptr(), 0, int_object(step).release().ptr());
  PyTuple_SET_ITEM(made.ptr(), 1, int_object(count).release().ptr());
  return made;
}

// Items of a new tuple, fewer in the end than there was room for.
class Items {
 public:
  explicit Items(Py_ssize_t room) : tuple_(checked(PyTuple_New(room))) {}
  void add(nb::object value) { PyTuple_SET_ITEM(tuple_.ptr(), count_++, value.release().ptr()); }
  void add(PyObject* borrowed) { add(nb::borrow(borrowed)); }
  Py_ssize_t count() const { return count_; }
  nb::object take() {
    if (count_ == PyTuple_GET_SIZE(tuple_.ptr())) return std::move(tuple_);
    return checked(PyTuple_GetSlice(tuple_.ptr(), 0, count_));
  }

 private:
  nb::object tuple_;
  Py_ssize_t count_ = 0;
};

struct Keys {
  PyObject* const* items;
  Py_ssize_t count;
};

// The blocks of `base` with every open dimension fixed by an integer of `keys`; nothing where that is not so.
nb::object fixed_blocks(TileObject* base, PyObject* const* keys) {
  const Py_ssize_t count = PyTuple_GET_SIZE(base->blocks);
  Items chosen(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* block = item(base->blocks, i);
    if (!is_range(block)) {
      chosen.add(block);
      continue;
    }
    PyObject* key = *keys++;
    if (!PyLong_Check(key)) return {};
    const Part part = part_of_range(block);
    int64_t value = int_of(key);
    if (value < 0) value += part.count;
    if (value < 0 || value >= part.count) return {};
    chosen.add(int_object(part.start + part.step * value));
  }
  return chosen.take();
}

// -- ints, slices, nl.ds, within the bounds

bool bound_of(PyObject* given, int64_t missing, int64_t& value) {
  if (given == Py_None) {
    value = missing;
    return true;
  }
  if (!PyLong_Check(given)) return false;
  value = int_of(given);
  return true;
}

// What a slice or nl.ds takes of `size` elements; false where it is another key, or not within the bounds.
bool range_of_key(PyObject* key, int64_t size, Part& part) {
  if (PySlice_Check(key)) {
    auto* slice = reinterpret_cast<PySliceObject*>(key);
    int64_t stop;
    if (!bound_of(slice->start, 0, part.start) || !bound_of(slice->stop, size, stop) ||
        !bound_of(slice->step, 1, part.step))
      return false;
    if (part.start < 0 || part.start >= stop || stop > size || part.step < 1) return false;
    part.count = (stop - part.start - 1) / part.step + 1;
    return true;
  }
  if (!Py_IS_TYPE(key, tile_types().dynamic_slice)) return false;
  const nb::object start = nb::handle(key).attr("start"), count = nb::handle(key).attr("size");
  if (!PyLong_Check(start.ptr()) || !PyLong_Check(count.ptr())) return false;
  part = {int_of(start.ptr()), 1, int_of(count.ptr())};
  return part.start >= 0 && part.count >= 1 && part.start + part.count <= size;
}

nb::object basic_view(TileObject* base, Keys keys) {
  const Py_ssize_t open = PyTuple_GET_SIZE(base->open), rank = PyTuple_GET_SIZE(base->dims);
  if (keys.count < open || keys.count > open + rank) return {};
  nb::object blocks = nb::borrow(base->blocks);
  if (open > 0) {
    blocks = fixed_blocks(base, keys.items);
    if (!blocks.is_valid()) return {};
  }
  const bool on_chip = tensor_of(base)->on_chip;
  int64_t offset = base->offset;
  Items kept(rank + 1);
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject* dim = item(base->dims, i);
    if (open + i >= keys.count) {
      kept.add(dim);
      continue;
    }
    PyObject* key = keys.items[open + i];
    const int64_t stride = int_item(dim, 0), size = int_item(dim, 1);
    if (PyLong_Check(key)) {
      const int64_t index = int_of(key);
      if (index < 0 || index >= size) return {};
      offset += stride * index;
      if (on_chip && i == 0) kept.add(pair(stride, 1));
      continue;
    }
    Part part;
    if (!range_of_key(key, size, part)) return {};
    offset += stride * part.start;
    if (part.step == 1 && part.count == size)
      kept.add(dim);
    else
      kept.add(pair(stride * part.step, part.count));
  }
  if (on_chip && kept.count() < 2) kept.add(pair(0, 1));
  const nb::object no_limits = checked(PyTuple_New(0));
  return nb::steal(object(
      new_tile(base->tensor, blocks.ptr(), offset, kept.take(), base->dtype, Py_None, no_limits.ptr())));
}

// `t[...]`
nb::object same_view(TileObject* base) {
  nb::object dims = nb::borrow(base->dims);
  if (tensor_of(base)->on_chip && PyTuple_GET_SIZE(base->open) == 0 && PyTuple_GET_SIZE(base->dims) < 2) {
    Items kept(PyTuple_GET_SIZE(base->dims) + 1);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(base->dims); ++i) kept.add(item(base->dims, i));
    kept.add(pair(0, 1));
    dims = kept.take();
  }
  return nb::steal(object(new_tile(base->tensor, base->blocks, base->offset, std::move(dims), base->dtype,
                                   Py_None, base->limits)));
}

// The view of a usual index; nothing where any_view() has to look.
nb::object quick_view(TileObject* base, PyObject* key) {
  if (!is_none(base->indirect) || PyTuple_GET_SIZE(base->limits) > 0 || is_none(base->tensor)) return {};
  if (key == Py_Ellipsis) return same_view(base);
  Keys keys{&key, 1};
  if (PyTuple_CheckExact(key)) keys = {&PyTuple_GET_ITEM(key, 0), PyTuple_GET_SIZE(key)};
  for (Py_ssize_t i = 0; i < keys.count; ++i)
    if (is_index_expression(keys.items[i])) return expression_view(base, keys.items, keys.count);
  return basic_view(base, keys);
}

// -- the machine

nb::object machine_tensor(TensorObject* tensor, PyObject* block) {
  if (PyObject* found = PyDict_GetItemWithError(tensor->storage, block)) return nb::borrow(found);
  if (PyErr_Occurred()) throw nb::python_error();
  nki::Machine* machine = current_machine();
  const bool placed = PyTuple_GET_SIZE(tensor->place) < 2 || !is_none(item(tensor->place, 1));
  if (!machine || placed || !PyUnicode_Check(tensor->name))
    return call_method(object(tensor), "_make_machine", block);
  std::vector<int64_t> shape;
  if (tensor->on_chip)
    shape = {tensor->partitions, tensor->row};
  else
    shape = PyTuple_GET_SIZE(tensor->shape) == 0 ? std::vector<int64_t>{1} : to_ints(tensor->shape);
  nb::object made = nb::cast(
      machine->ndarray(shape, device_dtype_of(tensor->dtype), to_memory_space(tensor->region),
                       nb::cast<std::string>(nb::handle(tensor->name)), std::nullopt, call_site(*machine)));
  if (PyDict_SetItem(tensor->storage, block, made.ptr()) < 0) throw nb::python_error();
  return made;
}

int64_t storage_row(const TileObject* tile) {
  const TensorObject* tensor = tensor_of(tile);
  if (tensor->dtype == tile->dtype) return tensor->row;
  return tensor->row * itemsize_of(tensor->dtype) / itemsize_of(tile->dtype);
}

// The machine's view of a tile without limits and index tiles; nothing where any_raw() has to look.
nb::object plain_raw(TileObject* tile) {
  if (PyTuple_GET_SIZE(tile->open) > 0 || PyTuple_GET_SIZE(tile->limits) > 0 || !is_none(tile->indirect))
    return {};
  const nb::object storage = machine_tensor(tensor_of(tile), tile->blocks);
  const nki::TensorView* view = as_tensor(storage);
  if (!view) return {};
  const Py_ssize_t rank = PyTuple_GET_SIZE(tile->dims);
  nki::TensorView::ApArguments a;
  a.pattern.reserve(static_cast<size_t>(rank) + 1);
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject* dim = item(tile->dims, i);
    a.pattern.push_back({int_item(dim, 0), int_item(dim, 1)});
    if (a.pattern.back().count < 1) return {};
  }
  if (rank == 0) a.pattern.push_back({0, 1});
  if (tensor_of(tile)->on_chip) {
    const int64_t row = storage_row(tile);
    if (a.pattern[0].count > 1 && a.pattern[0].step != row) return {};
    a.pattern[0].step = row;
  }
  a.offset = tile->offset;
  a.dtype = device_dtype_of(tile->dtype);
  return nb::cast(view->ap(a));
}

// The table of rows that an index tile chooses from, and how.
nb::object indirect_raw(TileObject* tile, const nb::object& storage, const nb::list& pattern,
                        nb::handle dtype) {
  const TensorObject* tensor = tensor_of(tile);
  const nb::handle how = tile->indirect;
  const auto stride = nb::cast<int64_t>(how.attr("stride"));
  const nb::object index = how.attr("tile").attr("raw")();
  if (nb::cast<bool>(how.attr("vector"))) {
    pattern[0] = nb::make_tuple(stride, pattern[0][1]);
    const nb::object table =
        storage.attr("reshape")(nb::make_tuple(tensor->partitions * tensor->row / stride, stride));
    return table.attr("ap")(pattern, tile->offset, "vector_offset"_a = index, "indirect_dim"_a = 0,
                            "dtype"_a = dtype);
  }
  const bool on_chip = is_on_chip(tile);
  const nb::object table = storage.attr("reshape")(
      on_chip ? nb::object(nb::make_tuple(tensor->partitions, tensor->row / stride, stride))
              : nb::object(nb::make_tuple(tensor->partitions * tensor->row / stride, stride)));
  return table.attr("ap")(pattern, tile->offset, "scalar_offset"_a = index,
                          "indirect_dim"_a = on_chip ? 1 : 0, "dtype"_a = dtype);
}

// The machine's view of a tile, whatever kind of view it is, and whatever machine.
nb::object any_raw(TileObject* tile) {
  require_tile(tile, "an instruction");
  check_limits(tile);
  const nb::object storage = machine_tensor(tensor_of(tile), tile->blocks);
  TileDims dims = dims_of(tile->dims);
  if (dims.rank == 0) {
    dims.rank = 1;
    dims.step[0] = 0;
    dims.count[0] = 1;
  }
  if (is_on_chip(tile)) {
    const int64_t row = storage_row(tile);
    if (dims.count[0] > 1 && dims.step[0] != row)
      throw Fault(
          FaultKind::kNotModelled, "nki.view",
          fmt::format("{}: consecutive rows must be consecutive partitions, this access steps {:g} (flexible "
                      "indexing is for free dimensions only)",
                      nb::repr(nb::handle(object(tile))).c_str(),
                      static_cast<double>(dims.step[0]) / static_cast<double>(row)));
    dims.step[0] = row;
  }
  nb::list pattern;
  for (int i = 0; i < dims.rank; ++i) pattern.append(pair(dims.step[i], dims.count[i]));
  const nb::object dtype = tile_types().device_dtype(nb::handle(tile->dtype));
  if (!is_none(tile->indirect)) return indirect_raw(tile, storage, pattern, dtype);
  nb::object view = storage.attr("ap")(pattern, tile->offset, "dtype"_a = dtype);
  assign(tile->raw, view.ptr());
  return view;
}

}  // namespace

nb::object range_object(const nki::IndexRange& range) {
  PyTypeObject* type = tile_types().range;  // a named tuple
  nb::object made = checked(type->tp_alloc(type, 3));
  const int64_t parts[] = {range.start, range.step, range.count};
  for (Py_ssize_t i = 0; i < 3; ++i) PyTuple_SET_ITEM(made.ptr(), i, int_object(parts[i]).release().ptr());
  return made;
}

nb::object box_object(const nki::IndexBox& box) {
  Items ranges(static_cast<Py_ssize_t>(box.size()));
  for (const nki::IndexRange& range : box) ranges.add(range_object(range));
  return ranges.take();
}

nb::tuple full_box(const nb::tuple& shape) {
  static PyObject* const known = PyDict_New();  // by shape
  if (PyObject* found = PyDict_GetItemWithError(known, shape.ptr())) return nb::borrow<nb::tuple>(found);
  if (PyErr_Occurred()) throw nb::python_error();
  const Py_ssize_t rank = PyTuple_GET_SIZE(shape.ptr());
  Items ranges(rank);
  for (Py_ssize_t i = 0; i < rank; ++i) ranges.add(range_object({0, 1, int_item(shape.ptr(), i)}));
  nb::tuple made(ranges.take());
  if (PyDict_GET_SIZE(known) >= kShapesMax) PyDict_Clear(known);
  if (PyDict_SetItem(known, shape.ptr(), made.ptr()) < 0) throw nb::python_error();
  return made;
}

TileDims dims_of(PyObject* tuple) {
  TileDims dims;
  dims.rank = static_cast<int>(PyTuple_GET_SIZE(tuple));
  if (dims.rank > kTileRankMax) throw nb::value_error("a view has too many dimensions");
  for (int i = 0; i < dims.rank; ++i) {
    PyObject* dim = item(tuple, i);
    dims.step[i] = int_item(dim, 0);
    dims.count[i] = int_item(dim, 1);
  }
  return dims;
}

nb::object dims_object(const TileDims& dims) {
  Items made(dims.rank);
  for (int i = 0; i < dims.rank; ++i) made.add(pair(dims.step[i], dims.count[i]));
  return made.take();
}

void set_blocks(TileObject* tile, PyObject* blocks) {
  assign(tile->blocks, blocks);
  const Py_ssize_t count = PyTuple_GET_SIZE(blocks);
  Items open(count);
  for (Py_ssize_t i = 0; i < count; ++i)
    if (is_range(item(blocks, i))) open.add(item(blocks, i));
  assign(tile->open, open.take().ptr());
}

TileObject* new_tile(PyObject* tensor, PyObject* blocks, int64_t offset, nb::object dims, PyObject* dtype,
                     PyObject* indirect, PyObject* limits) {
  PyTypeObject* type = tile_types().tile;
  auto* tile = as_tile(type->tp_alloc(type, 0));
  if (!tile) throw nb::python_error();
  const nb::object owner = nb::steal(object(tile));
  tile->tensor = Py_NewRef(tensor);
  tile->dims = dims.release().ptr();
  tile->dtype = Py_NewRef(dtype);
  tile->indirect = Py_NewRef(indirect);
  tile->limits = Py_NewRef(limits);
  tile->deferred = Py_NewRef(Py_None);
  tile->valid = Py_NewRef(Py_None);
  tile->shape = Py_NewRef(Py_None);
  tile->raw = Py_NewRef(Py_None);
  tile->offset = offset;
  set_blocks(tile, blocks);
  Py_INCREF(object(tile));
  return tile;
}

PyObject* shape_of(TileObject* tile) {
  if (!is_none(tile->deferred)) return reinterpret_cast<DeferredObject*>(tile->deferred)->shape;
  if (!is_none(tile->shape)) return tile->shape;
  const Py_ssize_t open = PyTuple_GET_SIZE(tile->open), rank = PyTuple_GET_SIZE(tile->dims);
  Items sizes(open + rank);
  for (Py_ssize_t i = 0; i < open; ++i) sizes.add(item(item(tile->open, i), 2));
  for (Py_ssize_t i = 0; i < rank; ++i) sizes.add(item(item(tile->dims, i), 1));
  assign(tile->shape, sizes.take().ptr());
  return tile->shape;
}

PyObject* region_of(TileObject* tile) {
  if (!is_none(tile->deferred)) return reinterpret_cast<DeferredObject*>(tile->deferred)->region;
  if (is_none(tile->tensor)) throw nb::type_error("a tile without memory");
  return tensor_of(tile)->region;
}

bool is_on_chip(TileObject* tile) {
  if (is_none(tile->deferred) && !is_none(tile->tensor)) return tensor_of(tile)->on_chip;
  return isa::is_on_chip(to_memory_space(region_of(tile)));
}

void realised(TileObject* tile) {
  if (!is_none(tile->deferred)) realise(tile);
}

nb::object view_at(TileObject* tile, PyObject* key) {
  nb::object quick = quick_view(tile, key);
  if (quick.is_valid()) return quick;
  return any_view(tile, key);
}

bool is_full_box(PyObject* box, PyObject* shape) {
  const Py_ssize_t rank = std::min(PyTuple_GET_SIZE(box), PyTuple_GET_SIZE(shape));
  for (Py_ssize_t i = 0; i < rank; ++i) {
    const Part part = part_of_range(item(box, i));
    const int64_t size = int_item(shape, i);
    if (part.start != 0 || part.count != size || (part.step != 1 && size != 1)) return false;
  }
  return true;
}

nb::object part_of(TileObject* tile, PyObject* box) {
  realised(tile);
  if (!PyTuple_Check(box) || PyTuple_GET_SIZE(tile->limits) > 0 || !is_none(tile->indirect))
    return any_part(tile, box);
  if (is_full_box(box, shape_of(tile))) return nb::borrow(object(tile));
  const Py_ssize_t rank = std::min(PyTuple_GET_SIZE(box), PyTuple_GET_SIZE(tile->dims));
  int64_t offset = tile->offset;
  Items dims(rank);
  for (Py_ssize_t i = 0; i < rank; ++i) {
    const Part part = part_of_range(item(box, i));
    const int64_t stride = int_item(item(tile->dims, i), 0);
    offset += stride * part.start;
    dims.add(pair(stride * part.step, part.count));
  }
  return nb::steal(
      object(new_tile(tile->tensor, tile->blocks, offset, dims.take(), tile->dtype, Py_None, tile->limits)));
}

nb::object raw_of(TileObject* tile) {
  if (!is_none(tile->raw)) return nb::borrow(tile->raw);
  realised(tile);
  nb::object view = plain_raw(tile);
  if (!view.is_valid()) return any_raw(tile);
  assign(tile->raw, view.ptr());
  return view;
}

nb::object with_ones(TileObject* tile, PyObject* shape) {
  realised(tile);
  if (PyObject_RichCompareBool(shape_of(tile), shape, Py_EQ) == 1) return nb::borrow(object(tile));
  check_limits(tile);
  const Py_ssize_t rank = PyTuple_GET_SIZE(shape), own = PyTuple_GET_SIZE(tile->dims);
  Items dims(rank);
  Py_ssize_t next = 0;
  for (Py_ssize_t i = 0; i < rank; ++i) {
    if (int_item(shape, i) == 1) {
      dims.add(pair(0, 1));
      continue;
    }
    while (next < own && int_item(item(tile->dims, next), 1) == 1) ++next;
    if (next == own) throw nb::type_error("a view with these sizes has no such shape");
    dims.add(item(tile->dims, next++));
  }
  const nb::object no_limits = checked(PyTuple_New(0));
  return nb::steal(object(new_tile(tile->tensor, tile->blocks, tile->offset, dims.take(), tile->dtype,
                                   tile->indirect, no_limits.ptr())));
}

nb::object whole_tile(TensorObject* tensor) {
  const bool on_chip = tensor->on_chip;
  const Py_ssize_t block_count = PyTuple_GET_SIZE(tensor->blocks);
  Items blocks(block_count);
  for (Py_ssize_t i = 0; i < block_count; ++i) blocks.add(range_object({0, 1, int_item(tensor->blocks, i)}));
  PyObject* sizes = on_chip ? tensor->free : tensor->shape;
  const int count = static_cast<int>(PyTuple_GET_SIZE(sizes)), first = on_chip ? 1 : 0;
  if (count + first > kTileRankMax) throw nb::value_error("a tensor has too many dimensions");
  TileDims dims;
  dims.rank = count + first;
  int64_t step = 1;
  for (int i = count; i-- > 0;) {
    dims.step[i + first] = step;
    dims.count[i + first] = int_item(sizes, i);
    step *= dims.count[i + first];
  }
  if (on_chip) {
    dims.step[0] = tensor->row;
    dims.count[0] = tensor->partitions;
  }
  const nb::object no_limits = checked(PyTuple_New(0));
  return nb::steal(object(new_tile(object(tensor), blocks.take().ptr(), 0, dims_object(dims), tensor->dtype,
                                   Py_None, no_limits.ptr())));
}

// -- what a view touches

namespace {

// True when the dimensions after the first are one run of a row.
bool one_run(const TileDims& dims) {
  int64_t step = 1;
  for (int i = dims.rank; i-- > 1;) {
    if (dims.count[i] == 1) continue;
    if (dims.step[i] != step) return false;
    step *= dims.count[i];
  }
  return true;
}

}  // namespace

PsumView psum_view_of(TileObject* tile) {
  const TileDims dims = dims_of(tile->dims);
  PsumView view;
  view.other_size = tensor_of(tile)->dtype != tile->dtype &&
                    itemsize_of(tensor_of(tile)->dtype) != itemsize_of(tile->dtype);
  const int64_t row = std::max<int64_t>(1, storage_row(tile));
  view.row_elements = row;
  view.offset = tile->offset;
  view.rank = dims.rank;
  view.first_row = tile->offset / row;
  view.low = view.high = tile->offset % row;
  view.rows = dims.rank > 0 ? dims.count[0] : 1;
  for (int i = 0; i < dims.rank; ++i) {
    view.dims[i] = {dims.step[i], dims.count[i]};
    if (dims.step[i] < 0) view.bounded = false;
    if (i > 0 && dims.step[i] > 0) view.high += dims.step[i] * (dims.count[i] - 1);
  }
  view.rectangle = view.bounded && (view.rows == 1 || dims.step[0] == row) && one_run(dims);
  return view;
}

bool same_place(TileObject* a, TileObject* b) {
  if (!is_none(a->deferred) || !is_none(b->deferred)) return false;
  if (a->tensor != b->tensor || a->offset != b->offset || a->indirect != b->indirect) return false;
  if (a->blocks != b->blocks && PyObject_RichCompareBool(a->blocks, b->blocks, Py_EQ) != 1) return false;
  if (!same_dtype(a->dtype, b->dtype)) return false;
  const TileDims left = dims_of(a->dims), right = dims_of(b->dims);
  int i = 0, j = 0;
  while (true) {
    while (i < left.rank && left.count[i] == 1) ++i;
    while (j < right.rank && right.count[j] == 1) ++j;
    if (i == left.rank || j == right.rank) return i == left.rank && j == right.rank;
    if (left.step[i] != right.step[j] || left.count[i] != right.count[j]) return false;
    ++i, ++j;
  }
}

bool overlaps(TileObject* a, TileObject* b) {
  if (a->tensor != b->tensor) return false;
  if (a->blocks != b->blocks && PyObject_RichCompareBool(a->blocks, b->blocks, Py_EQ) != 1) return false;
  if (!is_on_chip(a) || itemsize_of(a->dtype) != itemsize_of(b->dtype)) return true;
  return psum_view_of(a).overlaps(psum_view_of(b));
}

// -- methods

namespace {

PyObject* tile_realised(PyObject* self, PyObject*) {
  return guarded_object([&] {
    realised(as_tile(self));
    return Py_NewRef(self);
  });
}

PyObject* tile_become(PyObject* self, PyObject* given) {
  if (!is_tile(given)) {
    PyErr_SetString(PyExc_TypeError, "a tile becomes another tile");
    return nullptr;
  }
  TileObject *tile = as_tile(self), *other = as_tile(given);
  PyObject* TileObject::*const fields[] = {&TileObject::tensor, &TileObject::blocks, &TileObject::dims,
                                           &TileObject::dtype,  &TileObject::limits, &TileObject::open,
                                           &TileObject::shape,  &TileObject::raw};
  for (PyObject* TileObject::*field : fields) assign(tile->*field, other->*field);
  tile->offset = other->offset;
  assign(tile->deferred, Py_None);
  Py_RETURN_NONE;
}

PyObject* tile_require(PyObject* self, PyObject* what) {
  return guarded_object([&] {
    require_tile(as_tile(self), nb::cast<std::string>(nb::handle(what)).c_str());
    return Py_NewRef(self);
  });
}

PyObject* tile_sub(PyObject* self, PyObject* box) {
  return guarded_object([&] { return part_of(as_tile(self), box).release().ptr(); });
}

PyObject* tile_raw(PyObject* self, PyObject*) {
  return guarded_object([&] { return raw_of(as_tile(self)).release().ptr(); });
}

PyObject* tile_with_ones(PyObject* self, PyObject* shape) {
  return guarded_object([&] {
    const nb::object sizes = checked(PySequence_Tuple(shape));
    return with_ones(as_tile(self), sizes.ptr()).release().ptr();
  });
}

template <bool compare(TileObject*, TileObject*)>
PyObject* tile_compare(PyObject* self, PyObject* other) {
  return guarded_object([&] {
    if (!is_tile(other)) throw nb::type_error("a tile is needed");
    return PyBool_FromLong(compare(as_tile(self), as_tile(other)));
  });
}

// _replace(offset=, dims=, dtype=, indirect=, limits=): the same view with some of these changed.
PyObject* tile_replace(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"offset", "dims", "dtype", "indirect", "limits", nullptr};
  PyObject *offset = nullptr, *dims = nullptr, *dtype = nullptr, *indirect = nullptr, *limits = nullptr;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "|$OOOOO", const_cast<char**>(names), &offset, &dims,
                                   &dtype, &indirect, &limits))
    return nullptr;
  return guarded_object([&] {
    TileObject* tile = as_tile(self);
    realised(tile);
    const auto or_own = [](PyObject* given, PyObject* own) { return given ? given : own; };
    return object(new_tile(tile->tensor, tile->blocks, offset ? int_of(offset) : tile->offset,
                           checked(PySequence_Tuple(or_own(dims, tile->dims))), or_own(dtype, tile->dtype),
                           or_own(indirect, tile->indirect), or_own(limits, tile->limits)));
  });
}

// (rows as a Range, first and last element of a row) that the view touches.
PyObject* tile_span(PyObject* self, PyObject*) {
  return guarded_object([&] {
    realised(as_tile(self));
    const PsumView view = psum_view_of(as_tile(self));
    const nb::object rows = range_object({view.first_row, 1, view.rows});
    return nb::make_tuple(rows, view.low, view.high).release().ptr();
  });
}

}  // namespace

PyMethodDef* tile_methods() {
  static auto* const methods = new std::vector<PyMethodDef>{
      {"realised", tile_realised, METH_NOARGS, "self, after issuing the instruction that it waits for."},
      {"become", tile_become, METH_O, "Be the same view of the same memory as another, waiting for nothing."},
      {"require_tile", tile_require, METH_O, "self, if its partition dimension comes first; else refused."},
      {"sub", tile_sub, METH_O, "The part of this tile in a box."},
      {"raw", tile_raw, METH_NOARGS, "The machine's view of this tile."},
      {"with_ones", tile_with_ones, METH_O, "The view with dimensions of size one added or dropped."},
      {"same_place", tile_compare<same_place>, METH_O, "True for the same view of the same memory."},
      {"overlaps", tile_compare<overlaps>, METH_O, "True when both may share an element (conservative)."},
      {"addresses_span", tile_span, METH_NOARGS, "(rows, first, last) of the storage that it touches."},
      {"_replace", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tile_replace)),
       METH_VARARGS | METH_KEYWORDS, "The view with some of its parts changed."}};
  const std::vector<PyMethodDef> more = view_methods();
  methods->insert(methods->end(), more.begin(), more.end());
  methods->push_back({nullptr, nullptr, 0, nullptr});
  return methods->data();
}

}  // namespace opentrn::python
