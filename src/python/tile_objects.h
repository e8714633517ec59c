// Tensors and views of NKI 0.1, as Python objects made here: python/opentrn/nki_legacy/tile.py derives from
// them.
//
// Recording a kernel of that dialect touches a view some twenty times per instruction, and each touch costs
// ten times less here than in Python. What is usual goes by a short way in tile_views.cc; every index, view
// and refusal is in tile_index.cc, by nki/tile_view.h. python/opentrn/oracle/nki_legacy does all of it in
// Python and is what this is compared with.
//
// Shapes, dimensions and boxes stay the tuples that Python code sees, so that nothing is converted twice.
#pragma once

#include "nki/index_expression.h"
#include "python/convert.h"
#include "python/psum_state.h"
#include "python/unlocked.h"

namespace opentrn::python {

// A Tensor: memory with a shape, on chip a grid of blocks of [partitions, free elements].
struct TensorObject {
  PyObject head;
  // None until __init__, never null afterwards.
  PyObject *dtype, *place, *region, *name, *shape, *blocks, *free, *storage, *spans, *psum_states;
  int64_t partitions, row;
  char on_chip, zero_filled, written, parameter;
};

// A Tile: a view of a tensor, or the future result of a deferred instruction.
struct TileObject {
  PyObject head;
  PyObject *tensor, *blocks, *dims, *dtype, *indirect, *limits, *deferred, *valid, *open;
  PyObject *shape, *raw;  // None until asked for
  int64_t offset;         // elements
};

// An instruction that waits for its destination.
struct DeferredObject {
  PyObject head;
  PyObject *shape, *dtype, *issue, *boxes, *sources, *region, *targets, *accumulate, *reduce;
  PyObject* code;              // of the kernel's line that wrote it; None outside of kernels
  int instruction;             // bytecode offset in `code`
  isa::IterationId iteration;  // of the kernel's written-out loops
  char in_place, exact;
};

// Objects of the Python layer, given once by configure().
struct TileTypes {
  PyTypeObject *tile = nullptr, *tensor = nullptr, *deferred = nullptr;
  PyTypeObject *par_dim = nullptr, *range = nullptr, *dynamic_slice = nullptr;
  nb::object indirect, place, sbuf, psum, float32;
  nb::object tile_dtype, host_dtype, device_dtype, refuse_shape, refuse_operand, settle_zeros, session,
      assign, add_in_place, issuer, on_chip;
  nb::str own_folder;  // code below it is OpenTrn's
};
TileTypes& tile_types();

inline constexpr int kTileRankMax = 16;

// The (stride, count) pairs of a view.
struct TileDims {
  int rank = 0;
  std::array<int64_t, kTileRankMax> step, count;
};

inline bool is_none(PyObject* value) { return value == Py_None; }
inline TensorObject* tensor_of(const TileObject* tile) {
  return reinterpret_cast<TensorObject*>(tile->tensor);
}
inline PyObject* object(void* of_ours) { return static_cast<PyObject*>(of_ours); }
inline bool is_tile(PyObject* value) { return PyObject_TypeCheck(value, tile_types().tile); }
inline TileObject* as_tile(PyObject* value) { return reinterpret_cast<TileObject*>(value); }

inline int64_t int_of(PyObject* value) {
  const long long result = PyLong_AsLongLong(value);
  if (result == -1 && PyErr_Occurred()) throw nb::python_error();
  return result;
}
inline nb::object checked(PyObject* made) {
  if (!made) throw nb::python_error();
  return nb::steal(made);
}
inline nb::object int_object(int64_t value) { return checked(PyLong_FromLongLong(value)); }
// of.name() or of.name(argument)
inline nb::object call_method(PyObject* of, const char* name, PyObject* argument = nullptr) {
  if (!argument) return checked(PyObject_CallMethod(of, name, nullptr));
  return checked(PyObject_CallMethod(of, name, "(O)", argument));
}
inline void assign(PyObject*& field, PyObject* value) {
  PyObject* old = field;
  field = Py_NewRef(value);
  Py_XDECREF(old);
}

// Runs `body`, which returns what Python gets, with C++ exceptions as Python's; `failed` when it threw.
template <typename Body, typename Result>
Result guarded(Result failed, Body&& body) {
  try {
    return body();
  } catch (nb::python_error& error) {
    error.restore();
  } catch (const nb::builtin_exception& error) {
    PyErr_SetString(error.type() == nb::exception_type::type_error ? PyExc_TypeError : PyExc_ValueError,
                    error.what());
  } catch (const Fault& fault) {
    raise_fault(fault);
  } catch (const Interrupted& stop) {
    raise_interrupted(stop);
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return failed;
}
template <typename Body>
PyObject* guarded_object(Body&& body) {
  return guarded<Body, PyObject*>(nullptr, std::forward<Body>(body));
}

// The kernel breaks the rule `label`.
[[noreturn]] inline void refuse_kernel(const char* label, std::string message, std::string hint = {}) {
  throw Fault(FaultKind::kProgram, label, std::move(message), std::move(hint));
}

// -- dtypes (tile_objects.cc)
struct HostDtype {
  nb::object dtype;  // numpy's
  int64_t itemsize;
};
const HostDtype& host_dtype_of(PyObject* given);  // anything that names a dtype
DType device_dtype_of(PyObject* numpy_dtype);
inline int64_t itemsize_of(PyObject* numpy_dtype) { return host_dtype_of(numpy_dtype).itemsize; }
inline bool same_dtype(PyObject* a, PyObject* b) {
  return a == b || PyObject_RichCompareBool(a, b, Py_EQ) == 1;
}

// -- views (tile_views.cc)
TileDims dims_of(PyObject* tuple);
nb::object dims_object(const TileDims& dims);
// Steals `dims`; borrows the rest.
TileObject* new_tile(PyObject* tensor, PyObject* blocks, int64_t offset, nb::object dims, PyObject* dtype,
                     PyObject* indirect, PyObject* limits);
void set_blocks(TileObject* tile, PyObject* blocks);
PyObject* shape_of(TileObject* tile);   // borrowed
PyObject* region_of(TileObject* tile);  // borrowed
bool is_on_chip(TileObject* tile);
void realised(TileObject* tile);
nb::object view_at(TileObject* tile, PyObject* key);
nb::object part_of(TileObject* tile, PyObject* box);
nb::object raw_of(TileObject* tile);
nb::object range_object(const nki::IndexRange& range);
nki::IndexRange range_of_object(PyObject* range);
nb::object box_object(const nki::IndexBox& box);
nb::tuple full_box(const nb::tuple& shape);
nb::object with_ones(TileObject* tile, PyObject* shape);
bool is_full_box(PyObject* box, PyObject* shape);
bool same_place(TileObject* a, TileObject* b);
bool overlaps(TileObject* a, TileObject* b);
nb::object whole_tile(TensorObject* tensor);
TensorObject* new_tensor(PyObject* shape, PyObject* dtype, PyObject* place);
PsumState& psum_state_of(TileObject* tile);
// What of the storage a view touches.
PsumView psum_view_of(TileObject* tile);

// -- any index and part (tile_index.cc)
nb::object any_view(TileObject* base, PyObject* key);
// The view of an expression or an int for each dimension; nothing for other keys.
nb::object expression_view(TileObject* base, PyObject* const* keys, Py_ssize_t count);
nb::object any_part(TileObject* tile, PyObject* box);
nb::object column(TileObject* tile, int64_t partitions, const char* what);
void check_limits(TileObject* tile);                    // Fault for an index that leaves the tensor
void require_tile(TileObject* tile, const char* what);  // Fault for one with dimensions before its partition

// -- index expressions (index_expressions.cc)
bool is_index_expression(PyObject* value);
const nki::IndexExpression& index_expression_of(PyObject* value);  // of one

// -- methods of the types, by file
std::vector<PyMethodDef> view_methods();                            // tile_index.cc
PyMethodDef* tile_methods();                                        // tile_views.cc
int tile_set_item(PyObject* self, PyObject* key, PyObject* value);  // tile_issue.cc
PyObject* tile_add_in_place(PyObject* self, PyObject* value);       // tile_issue.cc
void realise(TileObject* tile);                                     // tile_issue.cc
void bind_issue(nb::module_& tiles);                                // tile_issue.cc

void bind_index_expressions(nb::module_& tiles);
void bind_tiles(nb::module_& module);

}  // namespace opentrn::python
