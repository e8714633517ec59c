// NkiTensor: TensorView with Python's indexing.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <map>

#include "python/convert.h"

namespace opentrn::python {

using namespace nb::literals;
using nki::TensorView;

namespace {

template <typename Value>
nb::tuple to_tuple(int count, Value&& value) {
  nb::tuple result = nb::steal<nb::tuple>(PyTuple_New(count));
  for (int i = 0; i < count; ++i) PyTuple_SET_ITEM(result.ptr(), i, PyLong_FromLongLong(value(i)));
  return result;
}

int normalise_dim(const TensorView& view, nb::handle dim) {
  const int64_t value = to_int(dim);
  return static_cast<int>(value < 0 ? value + view.rank() : value);
}

// A pattern of rearrange(): names, and tuples of names.
TensorView::NamedDims named_dims(nb::handle pattern) {
  TensorView::NamedDims named;
  for (const nb::handle entry : pattern) {
    std::vector<std::string> group;
    if (PyUnicode_Check(entry.ptr()))
      group.push_back(nb::cast<std::string>(entry));
    else
      for (const nb::handle name : entry) group.push_back(nb::cast<std::string>(name));
    named.groups.push_back(std::move(group));
  }
  named.text = nb::cast<std::string>(nb::repr(pattern));
  return named;
}

std::map<std::string, int64_t> named_sizes(const nb::object& given) {
  std::map<std::string, int64_t> sizes;
  if (given.is_none()) return sizes;
  for (const auto& [name, size] : nb::cast<nb::dict>(given))
    sizes[nb::cast<std::string>(name)] = to_int(size);
  return sizes;
}

bool is_dynamic_slice(nb::handle key) { return nb::hasattr(key, "start") && nb::hasattr(key, "size"); }

// A register index can stay a run-time index where the hardware has one: HBM and free dimensions, once.
bool can_be_dynamic(const TensorView& view, int dim, VirtualRegister* reg) {
  return reg && !reg->constant() && !view.indirection && !(dim == 0 && view.on_chip());
}

TensorView apply_slice(const TensorView& view, int dim, nb::handle key) {
  PyObject* const raw = key.ptr();
  const int64_t size = view.size(dim);
  auto* slice = reinterpret_cast<PySliceObject*>(raw);
  const auto bound = [&](PyObject* value, int64_t missing) {
    if (value == Py_None) return missing;
    const int64_t given = to_int(value);
    return given < 0 ? given + size : given;
  };
  const int64_t step = slice->step == Py_None ? 1 : to_int(slice->step);
  const int64_t start = bound(slice->start, 0), stop = bound(slice->stop, size);
  if (start == 0 && stop == size && step == 1) return view;
  return view.slice(dim, start, stop, step);
}

TensorView apply_dynamic_slice(const TensorView& view, int dim, nb::handle key) {
  const nb::object start = key.attr("start");
  const int64_t size = to_int(key.attr("size"));
  VirtualRegister* reg = as_register(start);
  if (can_be_dynamic(view, dim, reg)) return view.slice_register(dim, reg->allocate(), size);
  const int64_t first = to_int(start);
  if (size == 0) return view.empty_slice(dim, first);
  return view.slice(dim, first, first + size, 1);
}

// Drops dimension `dim`, or narrows it to one element where it must stay.
TensorView apply_index(const TensorView& view, int dim, nb::handle key) {
  if (const TensorView* tensor = as_tensor(key)) return view.select_scalar(dim, share(*tensor));
  VirtualRegister* reg = as_register(key);
  if (can_be_dynamic(view, dim, reg)) return view.select_register(dim, reg->allocate());
  if (reg == nullptr && !PyIndex_Check(key.ptr()))
    throw Fault(FaultKind::kProgram, "NkiTensor.index",
                fmt::format("a {} is not an index of a tensor", Py_TYPE(key.ptr())->tp_name),
                "index with integers, slices (a:b), nl.ds(), registers or [1, 1] tensors");
  int64_t index = to_int(key);
  if (index < 0) index += view.size(dim);
  const bool keep = view.on_chip() ? dim == 0 || view.rank() <= 2 : view.rank() <= 1;
  if (!keep) return view.select(dim, index);
  return view.select(dim, index), view.slice(dim, index, index + 1, 1);
}

TensorView get_item(const TensorView& view, nb::handle key) {
  const bool is_tuple = PyTuple_Check(key.ptr());
  const Py_ssize_t count = is_tuple ? PyTuple_GET_SIZE(key.ptr()) : 1;
  const auto item = [&](Py_ssize_t i) { return is_tuple ? nb::handle(PyTuple_GET_ITEM(key.ptr(), i)) : key; };
  Py_ssize_t explicit_count = 0;
  bool has_ellipsis = false;
  for (Py_ssize_t i = 0; i < count; ++i) {
    if (item(i).ptr() != Py_Ellipsis)
      ++explicit_count;
    else if (std::exchange(has_ellipsis, true))
      throw nb::index_error("an index may hold one ellipsis");
  }
  if (explicit_count > view.rank())
    throw Fault(FaultKind::kProgram, "NkiTensor.index_bounds",
                fmt::format("{} indices for a tensor of {} dimensions", explicit_count, view.rank()));
  TensorView result = view;
  // Slices first, left to right; indices that drop their dimension afterwards, right to left.
  struct Drop {
    int dim;
    nb::handle key;
  };
  std::array<Drop, isa::kMaxRank> drops;
  int drop_count = 0, dim = 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    const nb::handle k = item(i);
    if (k.ptr() == Py_Ellipsis) {
      dim += view.rank() - static_cast<int>(explicit_count);
      continue;
    }
    if (PySlice_Check(k.ptr()))
      result = apply_slice(result, dim, k);
    else if (k.is_none())
      throw Fault(FaultKind::kProgram, "NkiTensor.index", "None is not an index of a tensor",
                  "use expand_dim()");
    else if (PyLong_Check(k.ptr()) || as_tensor(k) || as_register(k) || !is_dynamic_slice(k))
      drops[drop_count++] = {dim, k};
    else
      result = apply_dynamic_slice(result, dim, k);
    ++dim;
  }
  for (int i = drop_count; i-- > 0;) result = apply_index(result, drops[i].dim, drops[i].key);
  return result;
}

TensorView ap(const TensorView& view, nb::handle pattern, nb::handle offset, nb::handle scalar_offset,
              nb::handle vector_offset, nb::handle indirect_dim, nb::handle dtype) {
  TensorView::ApArguments a;
  for (nb::handle pair : pattern) {
    const std::vector<int64_t> values = to_ints(pair);
    if (values.size() != 2) throw nb::value_error("a pattern is a list of [step, count] pairs");
    if (values[1] < 1)
      throw Fault(FaultKind::kProgram, "NkiTensor.ap",
                  fmt::format("a count of the pattern is {}; it must be positive", values[1]));
    a.pattern.push_back({values[0], values[1]});
  }
  if (!offset.is_none()) a.offset = to_int(offset);
  if (const TensorView* tensor = as_tensor(scalar_offset))
    a.scalar_offset = share(*tensor);
  else if (VirtualRegister* reg = as_register(scalar_offset))
    a.scalar_register = reg->allocate();
  else if (!scalar_offset.is_none())
    throw nb::type_error("scalar_offset is a [1, 1] tensor or a register");
  if (const TensorView* tensor = as_tensor(vector_offset))
    a.vector_offset = share(*tensor);
  else if (!vector_offset.is_none())
    throw nb::type_error("vector_offset is a tensor");
  a.indirect_dim = static_cast<int>(to_int(indirect_dim));
  if (!dtype.is_none()) a.dtype = to_dtype(dtype);
  return view.ap(a);
}

TensorView select(const TensorView& view, nb::handle dim, nb::handle index) {
  const int d = normalise_dim(view, dim);
  if (const TensorView* tensor = as_tensor(index)) return view.select_scalar(d, share(*tensor));
  VirtualRegister* reg = as_register(index);
  if (can_be_dynamic(view, d, reg)) return view.select_register(d, reg->allocate());
  const int64_t i = to_int(index);
  if (d == 0 && view.on_chip()) return view.slice(0, i, i + 1, 1);
  return view.select(d, i < 0 ? i + view.size(d) : i);
}

nb::list get_pattern(const TensorView& view) {
  nb::list result;
  for (const isa::Dim& dim : view.pattern.view()) {
    nb::list pair;
    pair.append(dim.step);
    pair.append(dim.count);
    result.append(pair);
  }
  return result;
}

}  // namespace

void bind_tensor(nb::module_& module) {
  module.def(
      "common_shape",
      [](const std::vector<int64_t>& x, const std::vector<int64_t>& y) {
        return nb::tuple(nb::cast(nki::common_shape(x, y)));
      },
      "x"_a, "y"_a, "In which two tiles of one rank meet, dimension by dimension.");
  nb::class_<TensorView>(module, "NkiTensor", nb::dynamic_attr())
      .def_prop_ro("shape",
                   [](const TensorView& v) { return to_tuple(v.rank(), [&](int i) { return v.size(i); }); })
      .def_prop_ro("strides",
                   [](const TensorView& v) { return to_tuple(v.rank(), [&](int i) { return v.stride(i); }); })
      .def_ro("offset", &TensorView::offset)
      .def_prop_ro("dtype", [](const TensorView& v) { return from_dtype(v.dtype); })
      .def_prop_ro(
          "buffer", [](const TensorView& v) { return from_memory_space(v.storage->space); },
          nb::sig("def buffer(self) -> opentrn.types.isa_enums.MemoryRegion"))
      .def_prop_rw(
          "name", [](const TensorView& v) { return v.storage->name; },
          [](TensorView& v, const std::string& name) { v.storage->name = name; })
      .def_prop_ro("ndim", &TensorView::rank)
      .def_prop_ro("size", &TensorView::element_count)
      .def_prop_ro("itemsize", [](const TensorView& v) { return size_bytes(v.dtype); })
      .def_prop_ro("_storage_dtype", [](const TensorView& v) { return from_dtype(v.storage->dtype); })
      .def("__getitem__", &get_item, "key"_a.none())
      .def("__len__", [](const TensorView& v) { return v.size(0); })
      .def("__repr__", [](const TensorView& v) { return fmt::format("NkiTensor({})", v.describe()); })
      .def(
          "slice",
          [](const TensorView& v, nb::handle dim, nb::handle start, nb::handle end, nb::handle step) {
            return v.slice(normalise_dim(v, dim), to_int(start), to_int(end), to_int(step));
          },
          "dim"_a, "start"_a, "end"_a, "step"_a = 1)
      .def("select", &select, "dim"_a, "index"_a)
      .def(
          "vector_select",
          [](const TensorView& v, nb::handle dim, const TensorView& offsets) {
            return v.vector_select(normalise_dim(v, dim), share(offsets));
          },
          "dim"_a, "vector_offset"_a)
      .def(
          "permute", [](const TensorView& v, nb::handle dims) { return v.permute(to_ints(dims)); }, "dims"_a)
      .def(
          "broadcast",
          [](const TensorView& v, nb::handle dim, nb::handle size) {
            return v.broadcast(normalise_dim(v, dim), to_int(size));
          },
          "dim"_a, "size"_a)
      .def(
          "expand_dim",
          [](const TensorView& v, nb::handle dim) {
            const int64_t d = to_int(dim);
            return v.expand_dim(static_cast<int>(d < 0 ? d + v.rank() + 1 : d));
          },
          "dim"_a)
      .def(
          "squeeze_dim",
          [](const TensorView& v, nb::handle dim) { return v.squeeze_dim(normalise_dim(v, dim)); }, "dim"_a)
      .def(
          "reshape_dim",
          [](const TensorView& v, nb::handle dim, nb::handle shape) {
            return v.reshape_dim(normalise_dim(v, dim), to_ints(shape));
          },
          "dim"_a, "shape"_a)
      .def(
          "rearrange",
          [](const TensorView& v, nb::handle source, nb::handle target, const nb::object& sizes) {
            return v.rearrange(named_dims(source), named_dims(target), named_sizes(sizes));
          },
          "src_pattern"_a, "dst_pattern"_a, "fixed_sizes"_a = nb::none(),
          "Split, permute and merge by dimension names, as einops does.")
      .def(
          "flatten_dims",
          [](const TensorView& v, nb::handle start, nb::handle end) {
            return v.flatten_dims(normalise_dim(v, start), normalise_dim(v, end));
          },
          "start_dim"_a, "end_dim"_a)
      .def("reshape",
           [](const TensorView& v, nb::args shape) {
             return v.reshape(shape.size() == 1 && !PyLong_Check(nb::handle(shape[0]).ptr())
                                  ? to_ints(shape[0])
                                  : to_ints(shape));
           })
      .def(
          "reshape", [](const TensorView& v, nb::handle shape) { return v.reshape(to_ints(shape)); },
          "shape"_a)
      .def(
          "view", [](const TensorView& v, nb::handle dtype) { return v.reinterpret(to_dtype(dtype)); },
          "dtype"_a)
      .def(
          "reinterpret_cast",
          [](const TensorView& v, nb::handle dtype) { return v.reinterpret(to_dtype(dtype)); }, "dtype"_a)
      .def(
          "indirect",
          [](const TensorView& v, const TensorView& index, std::optional<int64_t> num_elem) {
            return v.indirect(share(index), num_elem);
          },
          "index"_a, "num_elem"_a = nb::none())
      .def("ap", &ap, "pattern"_a, "offset"_a = nb::none(), "scalar_offset"_a = nb::none(),
           "vector_offset"_a = nb::none(), "indirect_dim"_a = 0, "dtype"_a = nb::none())
      .def("get_pattern", &get_pattern)
      .def("is_contiguous", &TensorView::is_contiguous)
      .def("is_indirect", [](const TensorView& v) { return v.indirection.has_value(); });
}

}  // namespace opentrn::python
