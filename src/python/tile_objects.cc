#include "python/tile_objects.h"

#include <structmember.h>

#include <cstdlib>
#include <unordered_map>

namespace opentrn::python {

using namespace nb::literals;

TileTypes& tile_types() {
  static auto* instance = new TileTypes;
  return *instance;
}

// -- dtypes

namespace {

constexpr size_t kDtypesMax = 256;  // different objects that named a dtype; a kernel has a handful
constexpr char kCustomDtypesEnv[] = "OPENTRN_NKI01_CUSTOM_DTYPES";  // nki_legacy/dtypes.py
constexpr int64_t kPartitionsMax = 128;

// Values remembered by the identity of a Python object, which is kept alive.
template <typename Value>
class ByIdentity {
 public:
  template <typename Make>
  const Value& get(PyObject* key, Make&& make) {
    const auto found = values_.find(key);
    if (found != values_.end()) return found->second.second;
    Value value = make();
    if (values_.size() >= kDtypesMax) values_.clear();
    return values_.emplace(key, std::pair{nb::borrow(key), std::move(value)}).first->second.second;
  }

 private:
  std::unordered_map<PyObject*, std::pair<nb::object, Value>> values_;
};

}  // namespace

const HostDtype& host_dtype_of(PyObject* given) {
  static auto* known = new ByIdentity<HostDtype>;
  const auto convert = [&] {
    nb::object dtype = tile_types().host_dtype(nb::handle(given));
    const int64_t itemsize = nb::cast<int64_t>(dtype.attr("itemsize"));
    return HostDtype{std::move(dtype), itemsize};
  };
  if (!PyUnicode_Check(given)) return known->get(given, convert);
  // Text made at run time would pile up in the table; the dtype that it names does not.
  const nb::object dtype = tile_types().host_dtype(nb::handle(given));
  return known->get(dtype.ptr(), convert);
}

DType device_dtype_of(PyObject* numpy_dtype) {
  static auto* known = new ByIdentity<DType>;
  return known->get(numpy_dtype,
                    [&] { return to_dtype(tile_types().device_dtype(nb::handle(numpy_dtype))); });
}

// -- objects

namespace {

template <typename Object, PyObject* Object::*... fields>
struct Fields {
  static int traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    auto* of = reinterpret_cast<Object*>(self);
    int stop = 0;
    (void)((of->*fields && (stop = visit(of->*fields, arg)) != 0) || ...);
    return stop;
  }
  static int clear(PyObject* self) {
    auto* of = reinterpret_cast<Object*>(self);
    const auto drop = [](PyObject*& field) {
      PyObject* old = std::exchange(field, nullptr);
      Py_XDECREF(old);
    };
    (drop(of->*fields), ...);
    return 0;
  }
  static void dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    clear(self);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
  }
  static PyObject* create(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* self = type->tp_alloc(type, 0);
    if (self) ((reinterpret_cast<Object*>(self)->*fields = Py_NewRef(Py_None)), ...);
    return self;
  }
};

using TensorFields =
    Fields<TensorObject, &TensorObject::dtype, &TensorObject::place, &TensorObject::region,
           &TensorObject::name, &TensorObject::shape, &TensorObject::blocks, &TensorObject::free,
           &TensorObject::storage, &TensorObject::spans, &TensorObject::psum_states>;
using TileFields =
    Fields<TileObject, &TileObject::tensor, &TileObject::blocks, &TileObject::dims, &TileObject::dtype,
           &TileObject::indirect, &TileObject::limits, &TileObject::deferred, &TileObject::valid,
           &TileObject::open, &TileObject::shape, &TileObject::raw>;
using DeferredFields = Fields<DeferredObject, &DeferredObject::shape, &DeferredObject::dtype,
                              &DeferredObject::issue, &DeferredObject::boxes, &DeferredObject::sources,
                              &DeferredObject::region, &DeferredObject::targets, &DeferredObject::accumulate,
                              &DeferredObject::reduce, &DeferredObject::code>;

// The dtype that a tensor asked for as `given` gets, see tile_dtype in nki_legacy/dtypes.py.
nb::object tensor_dtype(PyObject* given, bool on_chip) {
  const char* mode = std::getenv(kCustomDtypesEnv);
  if (mode && *mode) return tile_types().tile_dtype(nb::handle(given), on_chip);
  return host_dtype_of(given).dtype;
}

int64_t product(PyObject* sizes) {
  int64_t total = 1;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(sizes); ++i) total *= int_of(PyTuple_GET_ITEM(sizes, i));
  return total;
}

void set_sizes(TensorObject* self, PyObject* shape) {
  const TileTypes& t = tile_types();
  const nb::object given = checked(PySequence_Tuple(shape));
  const Py_ssize_t rank = PyTuple_GET_SIZE(given.ptr());
  nb::object sizes = checked(PyTuple_New(rank));
  Py_ssize_t partition_at = 0;
  bool marked = false, positive = true;
  for (Py_ssize_t i = 0; i < rank; ++i) {
    PyObject* size = PyTuple_GET_ITEM(given.ptr(), i);
    if (!marked && PyObject_TypeCheck(size, t.par_dim)) {
      partition_at = i;
      marked = true;
    }
    nb::object plain = PyLong_CheckExact(size) ? nb::borrow(size) : checked(PyNumber_Long(size));
    positive = positive && int_of(plain.ptr()) > 0;
    PyTuple_SET_ITEM(sizes.ptr(), i, plain.release().ptr());
  }
  assign(self->shape, sizes.ptr());
  if (!positive || (self->on_chip && rank == 0)) t.refuse_shape(nb::handle(object(self)));
  const Py_ssize_t at = self->on_chip ? partition_at : 0;
  self->partitions = rank == 0 ? 1 : int_of(PyTuple_GET_ITEM(sizes.ptr(), at));
  if (self->on_chip && self->partitions > kPartitionsMax) t.refuse_shape(nb::handle(object(self)));
  assign(self->blocks, checked(PyTuple_GetSlice(sizes.ptr(), 0, at)).ptr());
  assign(self->free, checked(PyTuple_GetSlice(sizes.ptr(), at + 1, rank)).ptr());
  self->row = product(self->free);
}

void fill_tensor(TensorObject* self, PyObject* shape, PyObject* dtype, PyObject* place, PyObject* name,
                 PyObject* storage) {
  assign(self->place, place);
  PyObject* region =
      PyTuple_Check(place) && PyTuple_GET_SIZE(place) > 0 ? PyTuple_GET_ITEM(place, 0) : nullptr;
  if (!region) throw nb::type_error("place is a Place");
  assign(self->region, region);
  self->on_chip = isa::is_on_chip(to_memory_space(region));
  assign(self->dtype, tensor_dtype(dtype, self->on_chip).ptr());
  assign(self->name, name);
  self->zero_filled = self->written = self->parameter = false;
  set_sizes(self, shape);
  assign(self->spans, checked(PyDict_New()).ptr());
  assign(self->psum_states, checked(PyDict_New()).ptr());
  const nb::object memory = checked(PyDict_New());
  if (!is_none(storage)) {
    const nb::object whole = checked(PyTuple_New(0));
    if (PyDict_SetItem(memory.ptr(), whole.ptr(), storage) < 0) throw nb::python_error();
  }
  assign(self->storage, memory.ptr());
}

int tensor_init(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"shape", "dtype", "place", "name", "storage", nullptr};
  PyObject *shape, *dtype, *place, *name = nullptr, *storage = Py_None;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OOO|OO", const_cast<char**>(names), &shape, &dtype,
                                   &place, &name, &storage))
    return -1;
  return guarded(-1, [&] {
    const nb::object no_name = nb::str("");
    fill_tensor(reinterpret_cast<TensorObject*>(self), shape, dtype, place, name ? name : no_name.ptr(),
                storage);
    return 0;
  });
}

int tile_init(PyObject* self, PyObject* args, PyObject* keywords) {
  static const char* names[] = {"tensor", "blocks", "offset", "dims", "dtype", "indirect", "limits", nullptr};
  PyObject *tensor, *blocks, *dims, *dtype, *indirect = Py_None, *limits = nullptr;
  long long offset;
  if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO!LOO|OO!", const_cast<char**>(names), &tensor,
                                   &PyTuple_Type, &blocks, &offset, &dims, &dtype, &indirect, &PyTuple_Type,
                                   &limits))
    return -1;
  return guarded(-1, [&] {
    TileObject* tile = as_tile(self);
    const nb::object none = checked(PyTuple_New(0));
    assign(tile->tensor, tensor);
    set_blocks(tile, blocks);
    tile->offset = offset;
    assign(tile->dims, checked(PySequence_Tuple(dims)).ptr());
    assign(tile->dtype, dtype);
    assign(tile->indirect, indirect);
    assign(tile->limits, limits ? limits : none.ptr());
    return 0;
  });
}

#define FIELD(name, Object, member) \
  { name, T_OBJECT, offsetof(Object, member), 0, nullptr }
PyMemberDef tensor_members[] = {FIELD("dtype", TensorObject, dtype),
                                FIELD("place", TensorObject, place),
                                FIELD("region", TensorObject, region),
                                FIELD("name", TensorObject, name),
                                FIELD("shape", TensorObject, shape),
                                FIELD("blocks", TensorObject, blocks),
                                FIELD("free", TensorObject, free),
                                FIELD("_storage", TensorObject, storage),
                                FIELD("spans", TensorObject, spans),
                                {"partitions", T_LONGLONG, offsetof(TensorObject, partitions), 0, nullptr},
                                {"row", T_LONGLONG, offsetof(TensorObject, row), 0, nullptr},
                                {"on_chip", T_BOOL, offsetof(TensorObject, on_chip), 0, nullptr},
                                {"zero_filled", T_BOOL, offsetof(TensorObject, zero_filled), 0, nullptr},
                                {"written", T_BOOL, offsetof(TensorObject, written), 0, nullptr},
                                {"parameter", T_BOOL, offsetof(TensorObject, parameter), 0, nullptr},
                                {nullptr, 0, 0, 0, nullptr}};
PyMemberDef tile_members[] = {FIELD("_tensor", TileObject, tensor),
                              FIELD("_blocks", TileObject, blocks),
                              FIELD("_dims", TileObject, dims),
                              FIELD("_dtype", TileObject, dtype),
                              FIELD("_indirect", TileObject, indirect),
                              FIELD("_limits", TileObject, limits),
                              FIELD("_open", TileObject, open),
                              FIELD("_raw", TileObject, raw),
                              FIELD("deferred", TileObject, deferred),
                              FIELD("valid", TileObject, valid),
                              {"_offset", T_LONGLONG, offsetof(TileObject, offset), 0, nullptr},
                              {nullptr, 0, 0, 0, nullptr}};
PyMemberDef deferred_members[] = {FIELD("shape", DeferredObject, shape),
                                  FIELD("dtype", DeferredObject, dtype),
                                  FIELD("issue", DeferredObject, issue),
                                  FIELD("boxes", DeferredObject, boxes),
                                  FIELD("sources", DeferredObject, sources),
                                  FIELD("region", DeferredObject, region),
                                  FIELD("targets", DeferredObject, targets),
                                  FIELD("accumulate", DeferredObject, accumulate),
                                  FIELD("reduce", DeferredObject, reduce),
                                  {"in_place", T_BOOL, offsetof(DeferredObject, in_place), 0, nullptr},
                                  {"exact", T_BOOL, offsetof(DeferredObject, exact), 0, nullptr},
                                  {nullptr, 0, 0, 0, nullptr}};
#undef FIELD

PyObject* tensor_tile(PyObject* self, PyObject*) {
  return guarded_object([&] { return whole_tile(reinterpret_cast<TensorObject*>(self)).release().ptr(); });
}

PyMethodDef tensor_methods[] = {{"tile", tensor_tile, METH_NOARGS, "The whole tensor as a view."},
                                {nullptr, nullptr, 0, nullptr}};

// Properties of a tile: of the instruction that it waits for, or of its memory.
DeferredObject* waiting(PyObject* self) {
  PyObject* deferred = as_tile(self)->deferred;
  return is_none(deferred) ? nullptr : reinterpret_cast<DeferredObject*>(deferred);
}

PyObject* get_shape(PyObject* self, void*) {
  return guarded_object([&] { return Py_NewRef(shape_of(as_tile(self))); });
}
PyObject* get_dtype(PyObject* self, void*) {
  const DeferredObject* work = waiting(self);
  return Py_NewRef(work ? work->dtype : as_tile(self)->dtype);
}
PyObject* get_region(PyObject* self, void*) {
  return guarded_object([&] { return Py_NewRef(region_of(as_tile(self))); });
}
PyObject* get_ndim(PyObject* self, void*) {
  return guarded_object([&] { return PyLong_FromSsize_t(PyTuple_GET_SIZE(shape_of(as_tile(self)))); });
}
PyObject* get_size(PyObject* self, void*) {
  return guarded_object([&] { return PyLong_FromLongLong(product(shape_of(as_tile(self)))); });
}
PyObject* get_itemsize(PyObject* self, void*) {
  return guarded_object([&] {
    const DeferredObject* work = waiting(self);
    return PyLong_FromLongLong(itemsize_of(work ? work->dtype : as_tile(self)->dtype));
  });
}
PyObject* get_on_chip(PyObject* self, void*) {
  return guarded_object([&] { return PyBool_FromLong(is_on_chip(as_tile(self))); });
}
PyObject* get_open(PyObject* self, void*) { return Py_NewRef(as_tile(self)->open); }
PyObject* get_tensor(PyObject* self, void*) {
  return guarded_object([&] {
    realised(as_tile(self));
    return Py_NewRef(as_tile(self)->tensor);
  });
}

PyGetSetDef tile_properties[] = {{"shape", get_shape, nullptr, nullptr, nullptr},
                                 {"dtype", get_dtype, nullptr, nullptr, nullptr},
                                 {"region", get_region, nullptr, nullptr, nullptr},
                                 {"buffer", get_region, nullptr, nullptr, nullptr},
                                 {"ndim", get_ndim, nullptr, nullptr, nullptr},
                                 {"size", get_size, nullptr, nullptr, nullptr},
                                 {"itemsize", get_itemsize, nullptr, nullptr, nullptr},
                                 {"is_on_chip", get_on_chip, nullptr, nullptr, nullptr},
                                 {"block_ranges", get_open, nullptr, nullptr, nullptr},
                                 {"tensor", get_tensor, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyObject* tile_get_item(PyObject* self, PyObject* key) {
  return guarded_object([&] {
    realised(as_tile(self));
    return view_at(as_tile(self), key).release().ptr();
  });
}

// What makes a tile iterable, as a class of Python with __getitem__ is.
PyObject* tile_item(PyObject* self, Py_ssize_t index) {
  return guarded_object([&] {
    realised(as_tile(self));
    return view_at(as_tile(self), int_object(index).ptr()).release().ptr();
  });
}

template <typename Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

PyTypeObject* make_type(nb::module_& module, const char* name, int size, PyType_Slot* slots) {
  PyType_Spec spec = {name, size, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  const nb::object type = checked(PyType_FromSpec(&spec));
  module.attr(strrchr(name, '.') + 1) = type;
  return reinterpret_cast<PyTypeObject*>(nb::object(type).release().ptr());
}

template <typename Object>
constexpr int size_of() {
  return static_cast<int>(sizeof(Object));
}

void make_types(nb::module_& module) {
  PyType_Slot tensor[] = {{Py_tp_new, slot(TensorFields::create)},
                          {Py_tp_init, slot(tensor_init)},
                          {Py_tp_dealloc, slot(TensorFields::dealloc)},
                          {Py_tp_traverse, slot(TensorFields::traverse)},
                          {Py_tp_clear, slot(TensorFields::clear)},
                          {Py_tp_members, tensor_members},
                          {Py_tp_methods, tensor_methods},
                          {0, nullptr}};
  PyType_Slot tile[] = {{Py_tp_new, slot(TileFields::create)},
                        {Py_tp_init, slot(tile_init)},
                        {Py_tp_dealloc, slot(TileFields::dealloc)},
                        {Py_tp_traverse, slot(TileFields::traverse)},
                        {Py_tp_clear, slot(TileFields::clear)},
                        {Py_tp_members, tile_members},
                        {Py_tp_getset, tile_properties},
                        {Py_tp_methods, tile_methods()},
                        {Py_mp_subscript, slot(tile_get_item)},
                        {Py_mp_ass_subscript, slot(tile_set_item)},
                        {Py_sq_item, slot(tile_item)},
                        {Py_nb_inplace_add, slot(tile_add_in_place)},
                        {0, nullptr}};
  PyType_Slot deferred[] = {{Py_tp_new, slot(DeferredFields::create)},
                            {Py_tp_dealloc, slot(DeferredFields::dealloc)},
                            {Py_tp_traverse, slot(DeferredFields::traverse)},
                            {Py_tp_clear, slot(DeferredFields::clear)},
                            {Py_tp_members, deferred_members},
                            {0, nullptr}};
  make_type(module, "opentrn._core.tiles.Tensor", size_of<TensorObject>(), tensor);
  make_type(module, "opentrn._core.tiles.Tile", size_of<TileObject>(), tile);
  tile_types().deferred =
      make_type(module, "opentrn._core.tiles.Deferred", size_of<DeferredObject>(), deferred);
}

PyTypeObject* type_in(const nb::kwargs& given, const char* name) {
  return reinterpret_cast<PyTypeObject*>(nb::object(given[name]).release().ptr());
}

// Every object by the name of its field in TileTypes.
void configure_tiles(const nb::kwargs& given) {
  TileTypes& t = tile_types();
  t.tile = type_in(given, "tile");
  t.tensor = type_in(given, "tensor");
  t.par_dim = type_in(given, "par_dim");
  t.range = type_in(given, "range");
  t.dynamic_slice = type_in(given, "dynamic_slice");
  const std::pair<const char*, nb::object*> objects[] = {{"indirect", &t.indirect},
                                                         {"place", &t.place},
                                                         {"sbuf", &t.sbuf},
                                                         {"psum", &t.psum},
                                                         {"float32", &t.float32},
                                                         {"tile_dtype", &t.tile_dtype},
                                                         {"host_dtype", &t.host_dtype},
                                                         {"device_dtype", &t.device_dtype},
                                                         {"refuse_shape", &t.refuse_shape},
                                                         {"settle_zeros", &t.settle_zeros},
                                                         {"session", &t.session},
                                                         {"assign", &t.assign},
                                                         {"add_in_place", &t.add_in_place},
                                                         {"issuer", &t.issuer},
                                                         {"on_chip", &t.on_chip},
                                                         {"refuse_operand", &t.refuse_operand}};
  for (const auto& [name, object] : objects) *object = given[name];
  t.own_folder = nb::str(nb::object(given["own_folder"]));
}

}  // namespace

TensorObject* new_tensor(PyObject* shape, PyObject* dtype, PyObject* place) {
  PyTypeObject* type = tile_types().tensor;
  const nb::object made = checked(TensorFields::create(type, nullptr, nullptr));
  const nb::object no_name = nb::str("");
  fill_tensor(reinterpret_cast<TensorObject*>(made.ptr()), shape, dtype, place, no_name.ptr(), Py_None);
  return reinterpret_cast<TensorObject*>(nb::object(made).release().ptr());
}

void bind_tiles(nb::module_& module) {
  nb::module_ tiles = module.def_submodule("tiles", "Tensors and views of NKI 0.1.");
  make_types(tiles);
  tiles.def("configure", &configure_tiles);
  bind_index_expressions(tiles);
  bind_issue(tiles);
}

}  // namespace opentrn::python
