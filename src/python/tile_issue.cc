// Instructions that wait for a destination, and what reads and writes tiles: nki_legacy/emit.py has the
// rules.
#include <nanobind/stl/optional.h>

#include <cstring>
#include <unordered_map>

#include "python/call_site.h"
#include "python/tile_objects.h"

namespace opentrn::python {

namespace {

// The launch that this thread is in, and the tile whose instruction waits. At most one does.
struct Recording {
  PyObject* session = nullptr;
  PyObject* waiting = nullptr;
};
thread_local Recording recording;

// Reference counts of a value that only its statement holds; 0 where a name looks the same. Measured by
// emit.py.
int temporary_in_set_item = 0, temporary_in_iadd = 0;

void set_waiting(PyObject* tile) {
  PyObject* old = std::exchange(recording.waiting, Py_XNewRef(tile));
  Py_XDECREF(old);
}

void set_session(nb::object session) {
  set_waiting(nullptr);
  PyObject* old = std::exchange(recording.session, session.is_none() ? nullptr : session.release().ptr());
  Py_XDECREF(old);
}

nb::object session_or_none() { return recording.session ? nb::borrow(recording.session) : nb::none(); }

void flush_waiting() {
  if (!recording.session) tile_types().session();  // refuses
  if (recording.waiting) realised(as_tile(recording.waiting));
}

DeferredObject* work_of(TileObject* tile) { return reinterpret_cast<DeferredObject*>(tile->deferred); }

// The instruction of `tile` is issued now, by whoever calls this; `tile` is to become the view it wrote.
nb::object take_work(TileObject* tile) {
  nb::object work = nb::borrow(tile->deferred);
  if (recording.waiting == object(tile)) set_waiting(nullptr);
  return work;
}

void become(TileObject* tile, TileObject* other) {
  assign(tile->deferred, Py_None);
  const nb::object done = call_method(object(tile), "become", object(other));
}

// -- where a deferred instruction was written

// Code objects, and places in them, that something is remembered of: more come up where kernels are
// generated.
constexpr size_t kPlacesMax = 4096;

bool is_own_code(PyObject* code) {
  static auto* known = new std::unordered_map<PyObject*, std::pair<nb::object, bool>>;  // keeps the code
  const auto found = known->find(code);
  if (found != known->end()) return found->second.second;
  PyObject* file = reinterpret_cast<PyCodeObject*>(code)->co_filename;
  const bool own = PyUnicode_Tailmatch(file, tile_types().own_folder.ptr(), 0, PY_SSIZE_T_MAX, -1) == 1;
  if (known->size() >= kPlacesMax) known->clear();
  known->emplace(code, std::pair{nb::borrow(code), own});
  return own;
}

// The innermost code outside of OpenTrn, and the offset of the bytecode that it executes.
std::pair<nb::object, int> user_code() {
  PyFrameObject* frame = PyEval_GetFrame();
  Py_XINCREF(reinterpret_cast<PyObject*>(frame));
  while (frame) {
    nb::object code = nb::steal(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
    if (!is_own_code(code.ptr())) {
      const int at = bytecode_offset(frame);
      Py_DECREF(reinterpret_cast<PyObject*>(frame));
      return {std::move(code), at};
    }
    PyFrameObject* back = PyFrame_GetBack(frame);
    Py_DECREF(reinterpret_cast<PyObject*>(frame));
    frame = back;
  }
  return {nb::none(), 0};
}

// A function that calls its first argument with its second from a frame at the place of `work`.
nb::object issuer_at(const DeferredObject* work) {
  struct Key {
    PyObject* code;
    int instruction;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    size_t operator()(const Key& key) const {
      return reinterpret_cast<size_t>(key.code) * 31 + static_cast<size_t>(key.instruction);
    }
  };
  static auto* known =
      new std::unordered_map<Key, std::pair<nb::object, nb::object>, Hash>;  // keeps the code
  const Key key{work->code, work->instruction};
  const auto found = known->find(key);
  if (found != known->end()) return found->second.second;
  const int line = PyCode_Addr2Line(reinterpret_cast<PyCodeObject*>(work->code), work->instruction);
  nb::object issuer = tile_types().issuer(nb::handle(work->code), line);
  if (known->size() >= kPlacesMax) known->clear();
  known->emplace(key, std::pair{nb::borrow(work->code), issuer});
  return issuer;
}

// Records into an iteration of the kernel's loops, for as long as it lives.
class AtIteration {
 public:
  explicit AtIteration(isa::IterationId iteration) : machine_(current_machine()) {
    if (machine_ == nullptr) return;
    before_ = machine_->program()->iteration();
    machine_->program()->set_iteration(iteration);
  }
  ~AtIteration() {
    if (machine_ != nullptr) machine_->program()->set_iteration(before_);
  }
  AtIteration(const AtIteration&) = delete;
  AtIteration& operator=(const AtIteration&) = delete;

 private:
  nki::Machine* machine_;
  isa::IterationId before_ = isa::kNoIteration;
};

void issue_at_site(const DeferredObject* work, TileObject* tile) {
  const AtIteration at(work->iteration);
  if (is_none(work->code)) {
    checked(PyObject_CallOneArg(work->issue, object(tile)));
    return;
  }
  PyObject* const arguments[] = {work->issue, object(tile)};
  const nb::object issuer = issuer_at(work);
  checked(PyObject_Vectorcall(issuer.ptr(), arguments, 2, nullptr));
}

nb::object place_in(PyObject* region) {
  static auto* known = new std::unordered_map<PyObject*, nb::object>;  // a handful of enum members
  const auto [found, added] = known->try_emplace(region);
  if (added) found->second = tile_types().place(nb::borrow(region));
  return found->second;
}

bool is_one_full_box(PyObject* boxes, PyObject* shape) {
  return PyList_CheckExact(boxes) && PyList_GET_SIZE(boxes) == 1 &&
         is_full_box(PyList_GET_ITEM(boxes, 0), shape);
}

// -- PSUM

PsumContent content_of(int kind) { return static_cast<PsumContent>(kind); }

// Zeros that a region was promised are written before something reads it.
void settle_zeros(TileObject* tile) {
  const auto state = psum_state_of(tile).uniform(psum_view_of(tile));
  if (!state || *state == kZeroPending) tile_types().settle_zeros(nb::handle(object(tile)));
}

bool is_psum(TileObject* tile) { return tensor_of(tile)->region == tile_types().psum.ptr(); }

nb::object narrowed(TileObject* tile, PyObject* box) {
  realised(tile);
  return is_none(box) ? nb::borrow(object(tile)) : part_of(tile, box);
}

nb::object read_view(TileObject* tile, PyObject* box) {
  const nb::object part = narrowed(tile, box);
  check_limits(as_tile(part.ptr()));
  if (is_psum(as_tile(part.ptr()))) settle_zeros(as_tile(part.ptr()));
  return raw_of(as_tile(part.ptr()));
}

// Remembers what of its block was written, for Tile.holds_something.
void add_span(TileObject* tile, const PsumView& view) {
  PyObject* spans = tensor_of(tile)->spans;
  nb::object of_block = nb::borrow(PyDict_GetItemWithError(spans, tile->blocks));
  if (!of_block.is_valid()) {
    of_block = checked(PySet_New(nullptr));
    if (PyErr_Occurred() || PyDict_SetItem(spans, tile->blocks, of_block.ptr()) < 0) throw nb::python_error();
  }
  const nb::tuple span = nb::make_tuple(view.first_row, view.rows, view.low, view.high);
  if (PySet_Add(of_block.ptr(), span.ptr()) < 0) throw nb::python_error();
}

nb::object write_view(TileObject* tile, PyObject* box, int kind) {
  const nb::object part = narrowed(tile, box);
  TileObject* target = as_tile(part.ptr());
  tensor_of(target)->written = true;
  check_limits(target);
  if (tensor_of(target)->on_chip && PyTuple_GET_SIZE(target->open) == 0) {
    const PsumView view = psum_view_of(target);
    add_span(target, view);
    if (is_psum(target)) psum_state_of(target).fill(view, content_of(kind));
  }
  return raw_of(target);
}

PyObject* read_tile(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 1 || count > 2 || !is_tile(arguments[0])) {
    PyErr_SetString(PyExc_TypeError, "read(tile, box=None)");
    return nullptr;
  }
  return guarded_object(
      [&] { return read_view(as_tile(arguments[0]), count > 1 ? arguments[1] : Py_None).release().ptr(); });
}

PyObject* write_tile(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 1 || count > 3 || !is_tile(arguments[0])) {
    PyErr_SetString(PyExc_TypeError, "write(tile, box=None, kind=OTHER)");
    return nullptr;
  }
  return guarded_object([&] {
    const int kind = count > 2 ? static_cast<int>(int_of(arguments[2])) : int{kOther};
    return write_view(as_tile(arguments[0]), count > 1 ? arguments[1] : Py_None, kind).release().ptr();
  });
}

PyObject* flush(PyObject*, PyObject*) {
  return guarded_object([&] {
    flush_waiting();
    return Py_NewRef(Py_None);
  });
}

// operand(value, what, name=None): `value` as an on-chip tile with its instruction issued.
PyObject* operand(PyObject*, PyObject* const* arguments, Py_ssize_t count) {
  if (count < 2 || count > 3) {
    PyErr_SetString(PyExc_TypeError, "operand(value, what, name=None)");
    return nullptr;
  }
  return guarded_object([&] {
    PyObject* value = arguments[0];
    if (is_tile(value)) {
      TileObject* tile = as_tile(value);
      realised(tile);
      if (PyTuple_GET_SIZE(tile->open) == 0 && tensor_of(tile)->on_chip) return Py_NewRef(value);
    }
    PyObject* name = count > 2 ? arguments[2] : Py_None;
    return tile_types()
        .refuse_operand(nb::handle(value), nb::handle(arguments[1]), nb::handle(name))
        .release()
        .ptr();
  });
}

// -- defer

// Keyword arguments of defer(); positional are shape, dtype, issue.
enum DeferArgument {
  kShape,
  kDtype,
  kIssue,
  kBoxes,
  kSources,
  kRegion,
  kTargets,
  kInPlace,
  kExact,
  kAccumulate,
  kDeferArguments
};
// Their names, interned, as those of a call usually are.
const std::array<PyObject*, kDeferArguments>& defer_names() {
  static const auto* const names = new std::array<PyObject*, kDeferArguments>{
      PyUnicode_InternFromString("shape"),   PyUnicode_InternFromString("dtype"),
      PyUnicode_InternFromString("issue"),   PyUnicode_InternFromString("boxes"),
      PyUnicode_InternFromString("sources"), PyUnicode_InternFromString("region"),
      PyUnicode_InternFromString("targets"), PyUnicode_InternFromString("in_place"),
      PyUnicode_InternFromString("exact"),   PyUnicode_InternFromString("accumulate")};
  return *names;
}

using DeferValues = std::array<PyObject*, kDeferArguments>;

DeferValues match_defer(PyObject* const* arguments, Py_ssize_t positional, PyObject* keywords) {
  DeferValues values{};
  if (positional > kIssue + 1) throw nb::type_error("defer takes shape, dtype and issue; the rest by name");
  std::copy_n(arguments, positional, values.begin());
  const auto& names = defer_names();
  const Py_ssize_t count = keywords ? PyTuple_GET_SIZE(keywords) : 0;
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* name = PyTuple_GET_ITEM(keywords, k);
    auto found = std::ranges::find(names, name);
    if (found == names.end())
      found = std::ranges::find_if(names, [&](PyObject* one) { return PyUnicode_Compare(one, name) == 0; });
    if (found == names.end()) throw nb::type_error("defer got an unknown argument");
    values[static_cast<size_t>(found - names.begin())] = arguments[positional + k];
  }
  if (!values[kShape] || !values[kDtype] || !values[kIssue])
    throw nb::type_error("defer needs more arguments");
  return values;
}

nb::object plain_sizes(PyObject* shape) {
  if (PyTuple_CheckExact(shape)) {
    bool plain = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i)
      plain = plain && PyLong_CheckExact(PyTuple_GET_ITEM(shape, i));
    if (plain) return nb::borrow(shape);
  }
  nb::list sizes;
  for (nb::handle size : nb::handle(shape)) sizes.append(nb::steal(PyNumber_Long(size.ptr())));
  return checked(PySequence_Tuple(sizes.ptr()));
}

nb::object new_full_box(PyObject* shape) {
  nb::object box = checked(PyTuple_New(PyTuple_GET_SIZE(shape)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); ++i) {
    nb::object range =
        checked(PyObject_CallFunction(object(tile_types().range), "iiO", 0, 1, PyTuple_GET_ITEM(shape, i)));
    PyTuple_SET_ITEM(box.ptr(), i, range.release().ptr());
  }
  return box;
}

// The whole index space of a shape, as box.py's full_box.
nb::object full_box(PyObject* shape) {
  static PyObject* const known = PyDict_New();  // shape -> box
  constexpr Py_ssize_t kShapesMax = 4096;
  if (PyObject* found = PyDict_GetItemWithError(known, shape)) return nb::borrow(found);
  if (PyErr_Occurred()) throw nb::python_error();
  if (PyDict_GET_SIZE(known) >= kShapesMax) PyDict_Clear(known);
  nb::object box = new_full_box(shape);
  if (PyDict_SetItem(known, shape, box.ptr()) < 0) throw nb::python_error();
  return box;
}

nb::object new_deferred(const DeferValues& values, PyObject* shape, PyObject* dtype) {
  PyTypeObject* type = tile_types().deferred;
  const nb::object made = checked(type->tp_alloc(type, 0));
  auto* work = reinterpret_cast<DeferredObject*>(made.ptr());
  const auto given = [](PyObject* value, PyObject* missing) { return Py_NewRef(value ? value : missing); };
  const nb::object no_sources = checked(PyTuple_New(0));
  work->shape = Py_NewRef(shape);
  work->dtype = Py_NewRef(dtype);
  work->issue = Py_NewRef(values[kIssue]);
  if (values[kBoxes] && !is_none(values[kBoxes])) {
    work->boxes = Py_NewRef(values[kBoxes]);
  } else {
    nb::list boxes;
    boxes.append(full_box(shape));
    work->boxes = boxes.release().ptr();
  }
  work->sources = given(values[kSources], no_sources.ptr());
  work->region = given(values[kRegion], tile_types().sbuf.ptr());
  work->targets = given(values[kTargets], tile_types().on_chip.ptr());
  work->accumulate = given(values[kAccumulate], Py_None);
  work->reduce = Py_NewRef(Py_None);
  work->in_place = !values[kInPlace] || PyObject_IsTrue(values[kInPlace]) == 1;
  work->exact = !values[kExact] || PyObject_IsTrue(values[kExact]) == 1;
  auto [code, instruction] = user_code();
  work->code = code.release().ptr();
  work->instruction = instruction;
  const nki::Machine* machine = current_machine();
  work->iteration = machine != nullptr ? machine->program()->iteration() : isa::kNoIteration;
  return made;
}

PyObject* defer(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return guarded_object([&] {
    const DeferValues values = match_defer(arguments, count, keywords);
    flush_waiting();
    const nb::object shape = plain_sizes(values[kShape]), dtype = host_dtype_of(values[kDtype]).dtype;
    const nb::object nothing = checked(PyTuple_New(0));
    nb::object tile =
        nb::steal(object(new_tile(Py_None, nothing.ptr(), 0, nothing, dtype.ptr(), Py_None, nothing.ptr())));
    assign(as_tile(tile.ptr())->deferred, new_deferred(values, shape.ptr(), dtype.ptr()).ptr());
    set_waiting(tile.ptr());
    return tile.release().ptr();
  });
}

// -- assignment

// The memories in a frozenset of regions, as bits: 1 SBUF, 2 PSUM.
int memories_of(PyObject* targets) {
  static auto* known = new std::unordered_map<PyObject*, std::pair<nb::object, int>>;
  const auto found = known->find(targets);
  if (found != known->end()) return found->second.second;
  const TileTypes& t = tile_types();
  const auto has = [&](const nb::object& region) { return PySequence_Contains(targets, region.ptr()) == 1; };
  const int memories = (has(t.sbuf) ? 1 : 0) | (has(t.psum) ? 2 : 0);
  if (known->size() >= 64) known->clear();
  known->emplace(targets, std::pair{nb::borrow(targets), memories});
  return memories;
}

bool can_reach(TileObject* target, PyObject* targets) {
  PyObject* region = tensor_of(target)->region;
  if (region == tile_types().sbuf.ptr()) return (memories_of(targets) & 1) != 0;
  if (region == tile_types().psum.ptr()) return (memories_of(targets) & 2) != 0;
  return PySequence_Contains(targets, region) == 1;
}

// Equal but for dimensions of size one, the first excepted.
bool same_sizes(PyObject* a, PyObject* b) {
  if (PyObject_RichCompareBool(a, b, Py_EQ) == 1) return true;
  const auto size = [](PyObject* shape, Py_ssize_t i) { return int_of(PyTuple_GET_ITEM(shape, i)); };
  const Py_ssize_t left = PyTuple_GET_SIZE(a), right = PyTuple_GET_SIZE(b);
  if (left == 0 || right == 0 || size(a, 0) != size(b, 0)) return false;
  Py_ssize_t i = 0, j = 0;
  while (true) {
    while (i < left && size(a, i) == 1) ++i;
    while (j < right && size(b, j) == 1) ++j;
    if (i == left || j == right) return i == left && j == right;
    if (size(a, i++) != size(b, j++)) return false;
  }
}

// Whether writing straight to `target` changes no value, see the head of emit.py.
bool can_write_directly(TileObject* target, const DeferredObject* work, bool temporary) {
  if (!temporary || PyTuple_GET_SIZE(target->open) > 0 || !can_reach(target, work->targets) ||
      !is_none(target->indirect))
    return false;
  if (!same_sizes(shape_of(target), work->shape)) return false;
  if (!same_dtype(target->dtype, work->dtype) &&
      !(work->exact && same_dtype(work->dtype, tile_types().float32.ptr())))
    return false;
  for (nb::handle source : nb::handle(work->sources))
    if (overlaps(target, as_tile(source.ptr())) &&
        !(work->in_place && same_place(target, as_tile(source.ptr()))))
      return false;
  return true;
}

// `target[...] = value` where that is one instruction or none; false where emit.assign has to look.
bool assign_quickly(TileObject* target, TileObject* value, bool temporary) {
  if (is_none(value->deferred)) return same_place(target, value);
  const DeferredObject* work = work_of(value);
  if (!recording.session || !is_none(work->reduce) || !can_write_directly(target, work, temporary))
    return false;
  const nb::object kept = take_work(value);
  assign(value->deferred, Py_None);
  nb::object view = nb::borrow(object(target));
  if (PyObject_RichCompareBool(shape_of(target), work->shape, Py_EQ) != 1)
    view = with_ones(target, work->shape);
  checked(PyObject_CallOneArg(work->issue, view.ptr()));
  become(value, as_tile(view.ptr()));
  return true;
}

// -- accumulation

// `target += value` as one matmul that overwrites or adds; false where emit.add_in_place has to look.
bool accumulate_quickly(TileObject* target, TileObject* value, bool temporary) {
  if (is_none(value->deferred) || !temporary || target == value || !is_none(target->deferred)) return false;
  const DeferredObject* work = work_of(value);
  if (!recording.session || is_none(work->accumulate) || !is_psum(target) ||
      PyTuple_GET_SIZE(target->open) > 0)
    return false;
  if (PyObject_RichCompareBool(shape_of(target), work->shape, Py_EQ) != 1 ||
      !is_one_full_box(work->boxes, work->shape) || PyTuple_GET_SIZE(target->limits) > 0)
    return false;
  const auto state = psum_state_of(target).uniform(psum_view_of(target));
  if (!state || *state == kOther) return false;
  const nb::object kept = take_work(value);
  PyObject* const arguments[] = {object(target), *state == kMatmul ? Py_True : Py_False};
  checked(PyObject_Vectorcall(work->accumulate, arguments, 2, nullptr));
  become(value, target);
  return true;
}

// -- reference counts of values in assignments

// What emit.py measures them with: t[k] = value and t += value on it remember the count.
struct Probe {
  PyObject head;
};
Py_ssize_t probed = 0;

int probe_set_item(PyObject*, PyObject*, PyObject* value) {
  probed = value ? Py_REFCNT(value) : 0;
  return 0;
}
PyObject* probe_add_in_place(PyObject* self, PyObject* value) {
  probed = Py_REFCNT(value);
  return Py_NewRef(self);
}

void make_probe(nb::module_& tiles) {
  PyType_Slot slots[] = {{Py_mp_ass_subscript, reinterpret_cast<void*>(probe_set_item)},
                         {Py_nb_inplace_add, reinterpret_cast<void*>(probe_add_in_place)},
                         {0, nullptr}};
  PyType_Spec spec = {"opentrn._core.tiles.Probe", sizeof(Probe), 0, Py_TPFLAGS_DEFAULT, slots};
  tiles.attr("Probe") = checked(PyType_FromSpec(&spec));
}

PyMethodDef functions[] = {
    {"flush", flush, METH_NOARGS, "Issue the waiting instruction, if there is one."},
    {"read", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(read_tile)), METH_FASTCALL,
     "The machine's view of an operand, narrowed to a box."},
    {"write", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(write_tile)), METH_FASTCALL,
     "The machine's view of a destination, narrowed to a box."},
    {"operand", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(operand)), METH_FASTCALL,
     "A value as an on-chip tile with its instruction issued."},
    {"defer", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(defer)),
     METH_FASTCALL | METH_KEYWORDS, "The result of an operation, a tile that waits for its destination."},
    {nullptr, nullptr, 0, nullptr}};

// A tile from Python code, with all of it inside its tensor.
TileObject* checked_tile(nb::handle tile) {
  if (!is_tile(tile.ptr()) || !is_none(as_tile(tile.ptr())->deferred))
    throw nb::type_error("a tile is needed");
  check_limits(as_tile(tile.ptr()));
  return as_tile(tile.ptr());
}

// A tile whose indices stay in its tensor, so that there are states of all its elements.
TileObject* inside_tile(nb::handle tile) {
  TileObject* checked = checked_tile(tile);
  check_limits(checked);
  return checked;
}

nb::object psum_uniform(nb::handle tile) {
  TileObject* of = inside_tile(tile);
  const auto state = psum_state_of(of).uniform(psum_view_of(of));
  return state ? nb::object(nb::int_(static_cast<int>(*state))) : nb::none();
}

}  // namespace

void realise(TileObject* tile) {
  if (!recording.session) tile_types().session();    // refuses
  const nb::object self = nb::borrow(object(tile));  // waiting may be all that holds it
  const nb::object kept = take_work(tile);
  const auto* work = reinterpret_cast<const DeferredObject*>(kept.ptr());
  const nb::object place = place_in(work->region);
  const nb::object fresh = nb::steal(object(new_tensor(work->shape, work->dtype, place.ptr())));
  const nb::object view = whole_tile(reinterpret_cast<TensorObject*>(fresh.ptr()));
  become(tile, as_tile(view.ptr()));
  if (!is_one_full_box(work->boxes, work->shape)) assign(tile->valid, work->boxes);
  issue_at_site(work, tile);
}

PsumState& psum_state_of(TileObject* tile) {
  TensorObject* tensor = tensor_of(tile);
  if (PyObject* found = PyDict_GetItemWithError(tensor->psum_states, tile->blocks))
    return *nb::inst_ptr<PsumState>(found);
  const PsumContent initial = tensor->zero_filled ? kZeroPending : kUnwritten;
  const nb::object made = nb::cast(PsumState(tensor->partitions * tensor->row, initial));
  if (PyErr_Occurred() || PyDict_SetItem(tensor->psum_states, tile->blocks, made.ptr()) < 0)
    throw nb::python_error();
  return *nb::inst_ptr<PsumState>(made);
}

int tile_set_item(PyObject* self, PyObject* key, PyObject* value) {
  if (!value) {
    PyErr_SetString(PyExc_TypeError, "an element of a tile cannot be deleted");
    return -1;
  }
  const bool temporary = Py_REFCNT(value) <= temporary_in_set_item;
  return guarded(-1, [&] {
    realised(as_tile(self));
    const nb::object target = view_at(as_tile(self), key);
    if (is_tile(value) && assign_quickly(as_tile(target.ptr()), as_tile(value), temporary)) return 0;
    tile_types().assign(target, nb::handle(value), temporary);
    return 0;
  });
}

PyObject* tile_add_in_place(PyObject* self, PyObject* value) {
  if (!is_tile(self)) Py_RETURN_NOTIMPLEMENTED;
  const bool temporary = Py_REFCNT(value) <= temporary_in_iadd;
  return guarded_object([&] {
    if (is_tile(value) && accumulate_quickly(as_tile(self), as_tile(value), temporary))
      return Py_NewRef(self);
    return tile_types().add_in_place(nb::handle(self), nb::handle(value), temporary).release().ptr();
  });
}

void bind_issue(nb::module_& tiles) {
  if (PyModule_AddFunctions(tiles.ptr(), functions) < 0) throw nb::python_error();
  make_probe(tiles);
  nb::class_<PsumState>(tiles, "PsumState");
  tiles.def("set_session", &set_session, nb::arg().none());
  tiles.def("session_or_none", &session_or_none);
  tiles.def("waiting", [] { return recording.waiting ? nb::borrow(recording.waiting) : nb::none(); });
  tiles.def("drop_waiting", [] { set_waiting(nullptr); });
  tiles.def("probed", [] { return probed; });
  tiles.def("set_temporary", [](int set_item, int iadd) {
    temporary_in_set_item = set_item;
    temporary_in_iadd = iadd;
  });
  tiles.def("psum_uniform", &psum_uniform);
  tiles.def("psum_fill", [](nb::handle tile, int state) {
    TileObject* of = inside_tile(tile);
    psum_state_of(of).fill(psum_view_of(of), content_of(state));
  });
  // Writable, one byte per element of the tile's block.
  tiles.def("psum_elements", [](nb::handle tile) {
    const std::span<uint8_t> states = psum_state_of(inside_tile(tile)).elements();
    return checked(PyMemoryView_FromMemory(reinterpret_cast<char*>(states.data()),
                                           static_cast<Py_ssize_t>(states.size()), PyBUF_WRITE));
  });
  tiles.def("can_write_directly", [](nb::handle target, nb::handle work, bool temporary) {
    return can_write_directly(as_tile(target.ptr()), reinterpret_cast<const DeferredObject*>(work.ptr()),
                              temporary);
  });
}

}  // namespace opentrn::python
