// Index expressions of NKI 0.1: a form and a constant, and the arithmetic that leaves the form's structure to
// what nki_legacy/index_form.py already knows of it (Form.derived). The rest is IndexExpr's `_..._any`.
#include "python/tile_objects.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>
#include <structmember.h>

#include "nki/boxes.h"

namespace opentrn::python {

using namespace nb::literals;

namespace {

IndexObject* as_index(PyObject* value) { return reinterpret_cast<IndexObject*>(value); }
bool is_index(PyObject* value) { return Py_IS_TYPE(value, tile_types().index_expression); }
bool is_plain_int(PyObject* value) { return PyLong_Check(value) && !PyBool_Check(value); }

PyObject* new_index(PyObject* form, int64_t constant) {
  PyTypeObject* type = tile_types().index_expression;
  PyObject* made = type->tp_alloc(type, 0);
  if (!made) return nullptr;
  as_index(made)->form = Py_NewRef(form);
  as_index(made)->constant = constant;
  return made;
}

// What is known of the form under `key`, borrowed; null when nothing is.
PyObject* derived(PyObject* form, PyObject* key) {
  static auto* const name = new nb::str("derived");
  const nb::object known = checked(PyObject_GetAttr(form, name->ptr()));
  PyObject* found = PyDict_GetItemWithError(known.ptr(), key);
  if (!found && PyErr_Occurred()) throw nb::python_error();
  return found;  // the form keeps it
}

bool is_whole_slice(PyObject* key) {
  if (!PySlice_Check(key)) return false;
  const auto* slice = reinterpret_cast<PySliceObject*>(key);
  return is_none(slice->start) && is_none(slice->stop) && is_none(slice->step);
}

// `i[:, None]`, where the form has been seen with these axes before.
PyObject* quick_item(PyObject* self, PyObject* key) {
  if (!PyTuple_CheckExact(key)) return nullptr;
  const Py_ssize_t count = PyTuple_GET_SIZE(key);
  const nb::object added = checked(PyTuple_New(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* one = PyTuple_GET_ITEM(key, i);
    if (!is_none(one) && !is_whole_slice(one)) return nullptr;
    PyTuple_SET_ITEM(added.ptr(), i, Py_NewRef(is_none(one) ? Py_True : Py_False));
  }
  PyObject* form = derived(as_index(self)->form, added.ptr());
  return form ? new_index(form, as_index(self)->constant) : nullptr;
}

PyObject* index_get_item(PyObject* self, PyObject* key) {
  return guarded_object([&] {
    if (PyObject* quick = quick_item(self, key)) return quick;
    if (PyErr_Occurred()) throw nb::python_error();
    return call_method(self, "_item_any", key).release().ptr();
  });
}

nb::object add_any(PyObject* self, PyObject* other, int sign) {
  return checked(PyObject_CallMethod(self, "_add_any", "Oi", other, sign));
}

// self + sign * other
PyObject* add_to(PyObject* self, PyObject* other, int sign) {
  if (is_plain_int(other))
    return new_index(as_index(self)->form, as_index(self)->constant + sign * int_of(other));
  if (is_index(other)) {
    const nb::object key = nb::make_tuple(nb::handle(as_index(other)->form), sign);
    if (PyObject* form = derived(as_index(self)->form, key.ptr()))
      return new_index(form, as_index(self)->constant + sign * as_index(other)->constant);
  }
  return add_any(self, other, sign).release().ptr();
}

PyObject* index_add(PyObject* left, PyObject* right) {
  return guarded_object([&] { return is_index(left) ? add_to(left, right, 1) : add_to(right, left, 1); });
}

PyObject* index_subtract(PyObject* left, PyObject* right) {
  return guarded_object([&] {
    if (is_index(left)) return add_to(left, right, -1);
    return call_method(right, "_subtracted_from", left).release().ptr();
  });
}

PyObject* index_multiply(PyObject* left, PyObject* right) {
  return guarded_object([&] {
    PyObject *self = is_index(left) ? left : right, *other = is_index(left) ? right : left;
    if (is_plain_int(other))
      if (PyObject* form = derived(as_index(self)->form, other))
        return new_index(form, as_index(self)->constant * int_of(other));
    return call_method(self, "_multiply_any", other).release().ptr();
  });
}

int index_traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(as_index(self)->form);
  return 0;
}
int index_clear(PyObject* self) {
  Py_CLEAR(as_index(self)->form);
  return 0;
}
void index_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  index_clear(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef members[] = {{"form", T_OBJECT, offsetof(IndexObject, form), 0, nullptr},
                         {"constant", T_LONGLONG, offsetof(IndexObject, constant), 0, nullptr},
                         {nullptr, 0, 0, 0, nullptr}};

// [((start, step, count) of each axis)]
nb::list to_list(const std::vector<nki::IndexBox>& boxes) {
  nb::list made;
  for (const nki::IndexBox& box : boxes) {
    nb::list parts;
    for (const auto& [start, step, count] : box) parts.append(nb::make_tuple(start, step, count));
    made.append(nb::tuple(parts));
  }
  return made;
}

using Truth = nb::ndarray<const bool, nb::c_contig, nb::device::cpu>;

nb::list boxes_of(const Truth& truth) {
  std::vector<int64_t> shape;
  for (size_t axis = 0; axis < truth.ndim(); ++axis) shape.push_back(static_cast<int64_t>(truth.shape(axis)));
  return to_list(nki::boxes_of(truth.data(), shape));
}

nb::list boxes_of_axes(const std::vector<Truth>& axes) {
  std::vector<std::vector<bool>> given;
  for (const Truth& axis : axes) given.emplace_back(axis.data(), axis.data() + axis.size());
  return to_list(nki::boxes_of_axes(given));
}

}  // namespace

void bind_boxes(nb::module_& module) {
  module.def("boxes_of", &boxes_of, "truth"_a,
             "Boxes that cover exactly the true values: (start, step, count) of each axis.");
  module.def("boxes_of_axes", &boxes_of_axes, "axes"_a, "Boxes of a product of one set of indices per axis.");
}

void bind_index_expressions(nb::module_& tiles) {
  const auto slot = [](auto* function) { return reinterpret_cast<void*>(function); };
  PyType_Slot slots[] = {{Py_tp_new, slot(PyType_GenericNew)},
                         {Py_tp_dealloc, slot(index_dealloc)},
                         {Py_tp_traverse, slot(index_traverse)},
                         {Py_tp_clear, slot(index_clear)},
                         {Py_tp_members, members},
                         {Py_mp_subscript, slot(index_get_item)},
                         {Py_nb_add, slot(index_add)},
                         {Py_nb_subtract, slot(index_subtract)},
                         {Py_nb_multiply, slot(index_multiply)},
                         {0, nullptr}};
  PyType_Spec spec = {"opentrn._core.tiles.IndexExpr", static_cast<int>(sizeof(IndexObject)), 0,
                      Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC, slots};
  tiles.attr("IndexExpr") = checked(PyType_FromSpec(&spec));
}

}  // namespace opentrn::python
