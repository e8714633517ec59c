// Views of NKI 0.1 by any index and as any shape: from Python's objects to nki::TileView and back.
#include "nki/tile_view.h"

#include "python/tile_objects.h"

namespace opentrn::python {

namespace {

using nki::IndexExpression;
using nki::TileView;

[[noreturn]] void not_modelled(std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kNotModelled, "nki.index", std::move(message), std::move(hint));
}

std::string text_of(PyObject* value) { return nb::repr(nb::handle(value)).c_str(); }
std::string text_of(TileObject* tile) { return text_of(object(tile)); }
nki::Describe describe(TileObject* tile) {
  return [tile] { return text_of(tile); };
}

nki::TileBlock block_of(PyObject* block) {
  if (Py_IS_TYPE(block, tile_types().range)) return {range_of_object(block), true};
  return {{int_of(block), 1, 1}, false};
}

TileView view_of(TileObject* tile) {
  TileView view;
  view.on_chip = is_on_chip(tile);
  view.offset = tile->offset;
  const auto item = [](PyObject* tuple, Py_ssize_t i) { return PyTuple_GET_ITEM(tuple, i); };
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tile->blocks); ++i)
    view.blocks.push_back(block_of(item(tile->blocks, i)));
  view.dims.reserve(static_cast<size_t>(PyTuple_GET_SIZE(tile->dims)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tile->dims); ++i) {
    PyObject* dim = item(tile->dims, i);
    view.dims.push_back({int_of(item(dim, 0)), int_of(item(dim, 1))});
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tile->limits); ++i) {
    const nb::handle limit = item(tile->limits, i);
    view.limits.push_back({nb::cast<int64_t>(limit[0]), to_ints(limit[1]), nb::cast<int64_t>(limit[2])});
  }
  return view;
}

nb::object limits_object(const std::vector<nki::IndexLimit>& limits) {
  if (limits.empty()) return checked(PyTuple_New(0));
  nb::list made;
  for (const nki::IndexLimit& limit : limits) {
    nb::list steps;
    for (const int64_t step : limit.steps) steps.append(step);
    made.append(nb::make_tuple(limit.constant, nb::tuple(steps), limit.size));
  }
  return nb::tuple(made);
}

nb::object blocks_object(const std::vector<nki::TileBlock>& blocks) {
  if (blocks.empty()) return checked(PyTuple_New(0));
  nb::list made;
  for (const nki::TileBlock& block : blocks)
    made.append(block.is_open ? range_object(block.range) : int_object(block.range.start));
  return nb::tuple(made);
}

// A view of the same memory as `base`.
nb::object tile_of(TileObject* base, const TileView& view, PyObject* dtype, PyObject* indirect) {
  TileDims dims;
  if (view.dims.size() > kTileRankMax) throw nb::value_error("a view has too many dimensions");
  for (const isa::Dim& dim : view.dims) {
    dims.step[dims.rank] = dim.step;
    dims.count[dims.rank++] = dim.count;
  }
  const nb::object blocks = blocks_object(view.blocks);
  const nb::object limits = limits_object(view.limits);
  return nb::steal(object(
      new_tile(base->tensor, blocks.ptr(), view.offset, dims_object(dims), dtype, indirect, limits.ptr())));
}

nb::object tile_of(TileObject* base, const TileView& view) {
  return tile_of(base, view, base->dtype, base->indirect);
}

// -- keys

using KeyList = std::vector<nb::object>;

bool is_expression(const nb::object& key) { return is_index_expression(key.ptr()); }
bool is_index_tile(const nb::object& key) { return is_tile(key.ptr()); }
bool is_slice_like(const nb::object& key) {
  return PySlice_Check(key.ptr()) || Py_IS_TYPE(key.ptr(), tile_types().dynamic_slice);
}
bool is_array(const nb::object& key) {
  static PyObject* const type = nb::object(nb::module_::import_("numpy").attr("ndarray")).release().ptr();
  return PyObject_TypeCheck(key.ptr(), reinterpret_cast<PyTypeObject*>(type));
}
int64_t size_of(const nb::object& tile) { return nb::cast<int64_t>(tile.attr("size")); }
nb::object whole_slice() { return checked(PySlice_New(nullptr, nullptr, nullptr)); }

nki::Shape shape_of_tile(TileObject* tile) { return to_ints(nb::handle(shape_of(tile))); }

// What stands for the last dimensions that an index leaves out.
KeyList trailing(const KeyList& keys, const nki::Shape& shape, size_t missing) {
  const auto moves = [](const nb::object& key) {
    return is_expression(key) || (is_index_tile(key) && size_of(key) > 1);
  };
  if (std::ranges::none_of(keys, moves)) return KeyList(missing, whole_slice());
  const bool are_ones = std::all_of(shape.end() - static_cast<ptrdiff_t>(missing), shape.end(),
                                    [](int64_t size) { return size == 1; });
  return are_ones ? KeyList(missing, int_object(0)) : KeyList();
}

// The keys as one for each dimension, and the new axes.
KeyList keys_of(TileObject* base, PyObject* key) {
  KeyList keys;
  if (PyTuple_Check(key))
    for (nb::handle each : nb::handle(key)) keys.push_back(nb::borrow(each));
  else
    keys.push_back(nb::borrow(key));
  const nki::Shape shape = shape_of_tile(base);
  const auto is_ellipsis = [](const nb::object& each) { return each.ptr() == Py_Ellipsis; };
  const auto spots = std::ranges::count_if(keys, is_ellipsis);
  if (spots > 1) refuse_kernel("nki.index", "an index may hold one ellipsis");
  const auto is_none_key = [](const nb::object& each) { return each.is_none(); };
  const size_t present = keys.size() - static_cast<size_t>(spots + std::ranges::count_if(keys, is_none_key));
  const size_t missing = shape.size() - std::min(shape.size(), present);
  if (spots > 0) {
    auto at = keys.erase(std::ranges::find_if(keys, is_ellipsis));
    keys.insert(at, missing, whole_slice());
  } else {
    KeyList more = trailing(keys, shape, missing);
    keys.insert(keys.end(), more.begin(), more.end());
  }
  if (keys.size() - static_cast<size_t>(std::ranges::count_if(keys, is_none_key)) != shape.size())
    refuse_kernel(
        "nki.index",
        fmt::format(
            "{} indices for {}, which has {} dimensions (index expressions need one index per dimension "
            "longer than one)",
            present, text_of(base), shape.size()));
  return keys;
}

int64_t whole_number(nb::handle key, TileObject* base) {
  if (PyLong_Check(key.ptr())) return int_of(key.ptr());
  PyObject* number = PyNumber_Long(key.ptr());
  if (number) return int_of(nb::steal(number).ptr());
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw nb::python_error();
  PyErr_Clear();
  refuse_kernel("nki.index", fmt::format("{} is not an index of {}", text_of(key.ptr()), text_of(base)));
}

std::optional<int64_t> bound(PyObject* given) {
  if (is_none(given)) return std::nullopt;
  return int_of(checked(PyNumber_Long(given)).ptr());
}

nki::IndexKey plain_key(const nb::object& key, TileObject* base) {
  if (key.is_none()) return nki::NewAxis{};
  if (PySlice_Check(key.ptr())) {
    const auto* slice = reinterpret_cast<PySliceObject*>(key.ptr());
    return nki::IndexSlice{bound(slice->start), bound(slice->stop), bound(slice->step)};
  }
  if (Py_IS_TYPE(key.ptr(), tile_types().dynamic_slice))
    return nki::IndexRange{*bound(nb::object(key.attr("start")).ptr()), 1,
                           *bound(nb::object(key.attr("size")).ptr())};
  return whole_number(key, base);
}

// -- index expressions and index tiles

// `keys` with expressions in the place of slices where every index tile is one number, which leaves out its
// dimension as an integer does.
KeyList slices_as_expressions(TileObject* base, const KeyList& keys) {
  std::vector<size_t> spots;
  for (size_t i = 0; i < keys.size(); ++i)
    if (is_slice_like(keys[i])) spots.push_back(i);
  const auto is_other = [](const nb::object& key) {
    return is_expression(key) || key.is_none() || (is_index_tile(key) && size_of(key) != 1);
  };
  if (spots.empty() || std::ranges::any_of(keys, is_other)) return keys;
  KeyList made = keys;
  const nki::Shape shape = shape_of_tile(base);
  const size_t rank = std::min<size_t>(std::max<size_t>(2, spots.size()), kTileRankMax);
  for (size_t dim = 0; dim < spots.size(); ++dim) {
    const nki::IndexKey key = plain_key(keys[spots[dim]], base);
    const auto* slice = std::get_if<nki::IndexSlice>(&key);
    const nki::IndexRange part =
        slice ? nki::range_of(*slice, shape[spots[dim]], describe(base)) : std::get<nki::IndexRange>(key);
    std::array<bool, kTileRankMax> added;
    added.fill(true);
    added.at(dim) = false;
    made[spots[dim]] = nb::cast(nki::with_axes(nki::index_range(part.count, part.start, part.step),
                                               std::span<const bool>(added).first(rank)));
  }
  return made;
}

// What indexes a dimension of `stride` when the program runs.
nb::object indirect_of(TileObject* base, nb::object index, const isa::Dim& dim, bool is_first,
                       const nki::Shape& shape) {
  TileObject* tile = as_tile(index.ptr());
  realised(tile);
  const auto kind = nb::cast<std::string>(nb::handle(tile->dtype).attr("kind"));
  if (kind != "i" && kind != "u")
    refuse_kernel("nki.index",
                  fmt::format("{}: the index tile {} must hold integers", text_of(base), text_of(tile)));
  const bool on_chip = is_on_chip(base);
  if (!is_on_chip(tile))
    refuse_kernel("nki.index",
                  fmt::format("{}: the index tile {} must be in SBUF", text_of(base), text_of(tile)),
                  "nl.load it first");
  const auto made = [&](int64_t rows, bool is_vector) {
    return tile_types().indirect(column(tile, rows, "an index tile"), dim.step, is_vector, dim.count);
  };
  const nki::Shape own = shape_of_tile(tile);
  if (size_of(index) == 1) {
    if (on_chip && is_first) not_modelled(text_of(base) + ": a dynamic partition index");
    return made(1, false);
  }
  if (on_chip)
    not_modelled(fmt::format("err_copy_dynamic_indirect_indices_not_natively_supported: {} indexed by {}",
                             text_of(base), text_of(tile)),
                 "an index per row, which works on HBM tensors only");
  if (size_of(index) != own[0] || own[0] != shape[0])
    not_modelled(
        fmt::format("{}: the index tile {} must have shape ({}, 1)", text_of(base), text_of(tile), shape[0]));
  return made(shape[0], true);
}

// An expression of each key but of tiles.
std::vector<std::optional<IndexExpression>> expressions_of(TileObject* base, const KeyList& keys) {
  std::vector<std::optional<IndexExpression>> made;
  for (const nb::object& key : keys) {
    if (is_index_tile(key)) {
      made.push_back(std::nullopt);
    } else if (is_expression(key)) {
      made.push_back(index_expression_of(key.ptr()));
      if (made.back()->rank() < 2)
        refuse_kernel("nki.index",
                      fmt::format("err_1d_arange_not_supported: {} indexed with a 1-D arange", text_of(base)),
                      "nl.arange(n)[:, None]");
    } else if (is_slice_like(key) || key.is_none()) {
      refuse_kernel("nki.index",
                    fmt::format("{}: slices and index expressions cannot be mixed in one index "
                                "(nki/programming_model.rst, Tensor Indexing)",
                                text_of(base)),
                    "nl.arange or nl.mgrid for both");
    } else if (is_array(key)) {
      refuse_kernel("nki.index", text_of(base) + ": a numpy array is not an index", "nl.arange or nl.mgrid");
    } else {
      made.push_back(nki::index_number(int_of(checked(PyNumber_Long(key.ptr())).ptr())));
    }
  }
  return made;
}

// The shape of an access: an index tile holds one index per row, and runs along axis 0 whatever the rank.
nki::Shape access_shape(const KeyList& keys, const std::vector<std::optional<IndexExpression>>& expressions) {
  size_t rank = 0;
  std::vector<nki::Shape> shapes;
  for (size_t i = 0; i < keys.size(); ++i) {
    shapes.push_back(expressions[i] ? expressions[i]->shape : shape_of_tile(as_tile(keys[i].ptr())));
    rank = std::max(rank, shapes.back().size());
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (expressions[i]) continue;
    shapes[i].resize(1);
    shapes[i].resize(rank, 1);
  }
  return nki::broadcast_shapes(shapes);
}

nb::object advanced_view(TileObject* base, const KeyList& given) {
  const KeyList keys = slices_as_expressions(base, given);
  const auto expressions = expressions_of(base, keys);
  const nki::Shape shape = access_shape(keys, expressions);
  const TileView view = view_of(base);
  std::vector<const IndexExpression*> pointers;
  for (const auto& each : expressions) pointers.push_back(each ? &*each : nullptr);
  const size_t open = view.open_blocks();
  const TileView made = nki::indexed(view, pointers, shape, describe(base));
  nb::object indirect = nb::none();
  for (size_t i = open; i < keys.size(); ++i) {
    if (expressions[i]) continue;
    if (!indirect.is_none()) not_modelled(text_of(base) + ": two index tiles in one access");
    indirect = indirect_of(base, keys[i], view.dims[i - open], i == open, shape);
  }
  return tile_of(base, made, base->dtype, indirect.ptr());
}

// An index again of what is indexed by a tile, or may leave its tensor.
nb::object view_of_view(TileObject* base, const KeyList& keys) {
  const auto is_whole = [](const nb::object& key) {
    const auto* slice = reinterpret_cast<PySliceObject*>(key.ptr());
    return PySlice_Check(key.ptr()) && is_none(slice->start) && is_none(slice->stop) && is_none(slice->step);
  };
  if (std::ranges::all_of(keys, is_whole)) return nb::borrow(object(base));
  check_limits(base);
  if (!is_none(base->indirect))
    not_modelled(fmt::format("indexing {} again after an index tile", text_of(base)));
  TileView view = view_of(base);
  view.limits.clear();
  nb::list listed;
  for (const nb::object& key : keys) listed.append(key);
  return any_view(as_tile(tile_of(base, view).ptr()), nb::tuple(listed).ptr());
}

}  // namespace

nki::IndexRange range_of_object(PyObject* range) {
  const auto item = [&](Py_ssize_t i) { return int_of(PyTuple_GET_ITEM(range, i)); };
  return {item(0), item(1), item(2)};
}

nb::object any_view(TileObject* base, PyObject* key) {
  const KeyList keys = keys_of(base, key);
  if (!is_none(base->indirect) || PyTuple_GET_SIZE(base->limits) > 0) return view_of_view(base, keys);
  if (std::ranges::any_of(keys, [](const nb::object& each) {
        return is_expression(each) || is_index_tile(each) || is_array(each);
      }))
    return advanced_view(base, keys);
  std::vector<nki::IndexKey> plain;
  for (const nb::object& each : keys) plain.push_back(plain_key(each, base));
  return tile_of(base, nki::indexed(view_of(base), plain, describe(base)));
}

nb::object expression_view(TileObject* base, PyObject* const* keys, Py_ssize_t count) {
  if (count != PyTuple_GET_SIZE(base->open) + PyTuple_GET_SIZE(base->dims) || count > kTileRankMax) return {};
  std::vector<IndexExpression> numbers;
  std::array<const IndexExpression*, kTileRankMax> expressions;
  std::array<const nki::Shape*, kTileRankMax> shapes;
  const auto number_at = [&](Py_ssize_t i) {
    numbers.reserve(static_cast<size_t>(count));  // what is pointed to stays
    return &numbers.emplace_back(nki::index_number(int_of(keys[i])));
  };
  for (Py_ssize_t i = 0; i < count; ++i) {
    const auto at = static_cast<size_t>(i);
    if (is_index_expression(keys[i]))
      expressions[at] = &index_expression_of(keys[i]);
    else if (PyLong_CheckExact(keys[i]))
      expressions[at] = number_at(i);
    else
      return {};
    if (expressions[at]->rank() == 1) return {};
    shapes[at] = &expressions[at]->shape;
  }
  const auto used = static_cast<size_t>(count);
  const nki::Shape shape = nki::broadcast_shapes(std::span(shapes).first(used));
  return tile_of(base,
                 nki::indexed(view_of(base), std::span(expressions).first(used), shape, describe(base)));
}

void check_limits(TileObject* tile) {
  if (PyTuple_GET_SIZE(tile->limits) == 0) return;
  nki::check_limits(view_of(tile), [tile] { return text_of(tile->tensor); });
}

void require_tile(TileObject* tile, const char* what) {
  if (!is_none(tile->deferred) || PyTuple_GET_SIZE(tile->open) == 0) return;
  refuse_kernel("nki.index",
                fmt::format("{} needs a tile, but {} still has {} dimensions before its partition dimension",
                            what, text_of(tile), PyTuple_GET_SIZE(tile->open)),
                "index them");
}

nb::object any_part(TileObject* tile, PyObject* box) {
  realised(tile);
  if (is_full_box(box, shape_of(tile))) {
    check_limits(tile);
    return nb::borrow(object(tile));
  }
  nki::IndexBox ranges;
  for (nb::handle range : nb::handle(box)) ranges.push_back(range_of_object(range.ptr()));
  nb::object indirect = nb::borrow(tile->indirect);
  if (!indirect.is_none() && nb::cast<bool>(indirect.attr("vector"))) {  // its rows go with those of the view
    TileObject* index = as_tile(nb::object(indirect.attr("tile")).ptr());
    const nb::object rows =
        nb::make_tuple(range_object(ranges.at(0)), range_object({0, 1, shape_of_tile(index).at(1)}));
    indirect = tile_types().indirect(part_of(index, rows.ptr()), indirect.attr("stride"), true,
                                     indirect.attr("size"));
  }
  nb::object made = tile_of(tile, nki::part_of(view_of(tile), ranges), tile->dtype, indirect.ptr());
  check_limits(as_tile(made.ptr()));
  return made;
}

nb::object column(TileObject* tile, int64_t partitions, const char* what) {
  realised(tile);
  require_tile(tile, what);
  const TileView view = view_of(tile);
  const nki::Shape shape = view.shape();
  if (shape.empty() || view.size() != shape[0] || shape[0] != partitions)
    refuse_kernel("nki.shape", fmt::format("{}: {} must have one element in each of {} partitions", what,
                                           text_of(tile), partitions));
  if (partitions != 1) {
    const nb::object sizes = nb::make_tuple(partitions, 1);
    return with_ones(tile, sizes.ptr());
  }
  TileView made = view;
  made.dims = {view.dims[0], {0, 1}};
  return tile_of(tile, made);
}

// -- methods

namespace {

template <typename Made>
PyObject* made_view(PyObject* self, Made&& made) {
  return guarded_object([&] {
    TileObject* tile = as_tile(self);
    realised(tile);
    return made(tile).release().ptr();
  });
}

PyObject* tile_permute(PyObject* self, PyObject* axes) {
  return made_view(self, [&](TileObject* tile) {
    if (PyTuple_GET_SIZE(tile->limits) > 0 || !is_none(tile->indirect) || PyTuple_GET_SIZE(tile->open) > 0)
      throw Fault(FaultKind::kNotModelled, "nki.view", fmt::format("a permuted view of {}", text_of(tile)));
    return tile_of(tile, nki::permuted(view_of(tile), to_ints(axes)));
  });
}

PyObject* tile_broadcast_view(PyObject* self, PyObject* shape) {
  return made_view(self, [&](TileObject* tile) {
    require_tile(tile, "a broadcast");
    const nki::Shape sizes = to_ints(shape);
    if (shape_of_tile(tile) == sizes) return nb::borrow(self);
    return tile_of(tile, nki::broadcast(view_of(tile), sizes, describe(tile)));
  });
}

PyObject* tile_column(PyObject* self, PyObject* args) {
  long long partitions;
  const char* what;
  if (!PyArg_ParseTuple(args, "Ls", &partitions, &what)) return nullptr;
  return made_view(self, [&](TileObject* tile) { return column(tile, partitions, what); });
}

// reshape(sizes) or reshape(size, ...)
PyObject* tile_reshape(PyObject* self, PyObject* args) {
  return made_view(self, [&](TileObject* tile) {
    const bool is_one = PyTuple_GET_SIZE(args) == 1 && PySequence_Check(PyTuple_GET_ITEM(args, 0));
    const nki::Shape sizes = to_ints(is_one ? PyTuple_GET_ITEM(args, 0) : args);
    TileView view = nki::reshaped(view_of(tile), sizes, describe(tile));
    check_limits(tile);
    if (!is_none(tile->indirect))
      refuse_kernel("nki.view", fmt::format("reshape of {} to {} would need a copy", text_of(tile),
                                            nki::tuple_text(sizes)));
    return tile_of(tile, view);
  });
}

PyObject* tile_expand_dims(PyObject* self, PyObject* axis) {
  return made_view(self, [&](TileObject* tile) {
    require_tile(tile, "expand_dims");
    const nki::Shape axes = PyLong_Check(axis) ? nki::Shape{int_of(axis)} : nki::Shape(to_ints(axis));
    return tile_of(tile, nki::with_dims_of_one(view_of(tile), axes));
  });
}

PyObject* tile_view_as(PyObject* self, PyObject* given) {
  return made_view(self, [&](TileObject* tile) {
    const HostDtype& dtype = host_dtype_of(given);
    const auto name = nb::cast<std::string>(dtype.dtype.attr("name"));
    const TileView view =
        nki::reinterpreted(view_of(tile), itemsize_of(tile->dtype), dtype.itemsize, name, describe(tile));
    return tile_of(tile, view, dtype.dtype.ptr(), tile->indirect);
  });
}

PyObject* tile_check_limits(PyObject* self, PyObject*) {
  return guarded_object([&] {
    check_limits(as_tile(self));
    return Py_NewRef(Py_None);
  });
}

// Whether an instruction wrote part of what the view covers, or it was created with a value.
PyObject* tile_holds_something(PyObject* self, PyObject*) {
  return guarded_object([&] {
    TileObject* tile = as_tile(self);
    realised(tile);
    if (tensor_of(tile)->zero_filled) return Py_NewRef(Py_True);
    const PsumView view = psum_view_of(tile);
    PyObject* spans = PyDict_GetItemWithError(tensor_of(tile)->spans, tile->blocks);
    if (!spans) return Py_NewRef(Py_False);
    for (nb::handle span : nb::handle(spans)) {  // first row, rows, first element, last element
      const auto at = [&](size_t i) { return nb::cast<int64_t>(span[i]); };
      if (at(0) < view.first_row + view.rows && view.first_row < at(0) + at(1) && view.low <= at(3) &&
          at(2) <= view.high)
        return Py_NewRef(Py_True);
    }
    return Py_NewRef(Py_False);
  });
}

}  // namespace

std::vector<PyMethodDef> view_methods() {
  return {
      {"permute", tile_permute, METH_O, "Dimensions in another order; no data moves."},
      {"broadcast_view", tile_broadcast_view, METH_O,
       "Free dimensions of size one repeated with stride 0; the rank may grow behind the partition."},
      {"column", tile_column, METH_VARARGS, "This tile as one value per partition, [partitions, 1]."},
      {"reshape", tile_reshape, METH_VARARGS,
       "Another shape over the same elements, which must be contiguous; on chip the partition stays."},
      {"expand_dims", tile_expand_dims, METH_O, "Dimensions of size one inserted behind the partition."},
      {"view", tile_view_as, METH_O, "The same bytes as another dtype; the last dimension is scaled."},
      {"_check_limits", tile_check_limits, METH_NOARGS, "Refuses an index that leaves the tensor."},
      {"holds_something", tile_holds_something, METH_NOARGS,
       "Whether an instruction wrote part of what this view covers, or it was created with a value."},
  };
}

}  // namespace opentrn::python
