// Index expressions and masks of NKI 0.1 as Python has them: operators, indices that add axes, and refusals.
#include "nki/index_expression.h"

#include <nanobind/ndarray.h>
#include <nanobind/operators.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/tile_objects.h"

namespace opentrn::python {

using namespace nb::literals;
using nki::IndexComparison;
using nki::IndexExpression;
using nki::IndexMask;
using nki::IndexOperator;

namespace {

constexpr char kAndHint[] =
    "use & | ~ on predicates (`and`, `or`, `not` work only in functions decorated with nki.jit)";

nb::object not_implemented() { return nb::borrow(Py_NotImplemented); }

PyObject* numpys(const char* name) {
  return nb::object(nb::module_::import_("numpy").attr(name)).release().ptr();
}

bool is_bool(nb::handle value) {
  static PyObject* const type = numpys("bool_");
  return PyBool_Check(value.ptr()) || PyObject_IsInstance(value.ptr(), type) == 1;
}

// An int of Python's or NumPy's that is no bool.
std::optional<int64_t> whole_number(nb::handle value) {
  PyObject* object = value.ptr();
  if (PyLong_CheckExact(object)) return int_of(object);
  static PyObject* const integer = numpys("integer");
  if (PyBool_Check(object) || !(PyLong_Check(object) || PyObject_IsInstance(object, integer) == 1))
    return std::nullopt;
  return int_of(checked(PyNumber_Long(object)).ptr());
}

const IndexExpression* as_expression(nb::handle value) {
  return is_index_expression(value.ptr()) ? nb::inst_ptr<IndexExpression>(value) : nullptr;
}

// Calls `with` with an expression or the number that stands for one; NotImplemented for anything else.
template <typename With>
nb::object combined(nb::handle other, With&& with) {
  if (const IndexExpression* expression = as_expression(other)) return nb::cast(with(*expression));
  if (const auto number = whole_number(other)) return nb::cast(with(nki::index_number(*number)));
  return not_implemented();
}

nb::object sum(const IndexExpression& self, nb::handle other, int sign) {
  if (PyLong_CheckExact(other.ptr())) {
    IndexExpression made = self;
    made.constant += sign * int_of(other.ptr());
    return nb::cast(std::move(made));
  }
  return combined(other, [&](const IndexExpression& b) { return nki::add(self, b, sign); });
}

nb::object difference_to(const IndexExpression& self, nb::handle other) {
  return combined(other, [&](const IndexExpression& b) { return nki::add(b, self, -1); });
}

nb::object product(const IndexExpression& self, nb::handle other) {
  if (const auto number = whole_number(other)) return nb::cast(nki::multiply(self, *number));
  return combined(other,
                  [&](const IndexExpression& b) { return nki::combine(self, b, IndexOperator::kMultiply); });
}

template <IndexOperator op>
nb::object quotient(const IndexExpression& self, nb::handle other) {
  return combined(other, [&](const IndexExpression& b) { return nki::combine(self, b, op); });
}

template <IndexComparison comparison>
nb::object compared(const IndexExpression& self, nb::handle other) {
  if (PyFloat_Check(other.ptr())) {
    const double number = PyFloat_AS_DOUBLE(other.ptr());
    if (number != std::trunc(number))
      refuse_kernel("nki.index",
                    fmt::format("index expressions compare with integers, not {}", nb::repr(other).c_str()));
    return compared<comparison>(self, nb::int_(static_cast<int64_t>(number)));
  }
  return combined(other, [&](const IndexExpression& b) {
    return IndexMask{{nki::IndexTest{nki::add(self, b, -1), comparison}}};
  });
}

std::string text_of(const IndexExpression& self) {
  return fmt::format("<index expression of shape {}>", nki::tuple_text(self.shape));
}

// == is element by element.
Py_hash_t unhashable(const char* type) {
  throw nb::type_error(fmt::format("unhashable type: '{}'", type).c_str());
}

bool is_whole_slice(nb::handle key) {
  if (!PySlice_Check(key.ptr())) return false;
  const auto* slice = reinterpret_cast<PySliceObject*>(key.ptr());
  return is_none(slice->start) && is_none(slice->stop) && is_none(slice->step);
}

// `i[:, None]`: axes of size one are inserted. Elements cannot be selected.
IndexExpression item(const IndexExpression& self, nb::handle key) {
  const bool is_tuple = PyTuple_Check(key.ptr());
  PyObject* const one = key.ptr();
  PyObject* const* keys = is_tuple ? &PyTuple_GET_ITEM(key.ptr(), 0) : &one;
  const std::span<PyObject* const> every(keys,
                                         is_tuple ? static_cast<size_t>(PyTuple_GET_SIZE(key.ptr())) : 1);
  const auto is_given = [](PyObject* each) { return !is_none(each) && each != Py_Ellipsis; };
  std::array<bool, kTileRankMax> added;
  ptrdiff_t rank = 0, kept = 0, ellipses = 0;
  const auto add = [&](bool is_new, ptrdiff_t count) {
    if (rank + count > kTileRankMax) throw nb::value_error("an index expression has too many axes");
    std::fill_n(added.begin() + rank, count, is_new);
    rank += count;
    kept += is_new ? 0 : count;
  };
  bool fits = true;
  for (PyObject* each : every) {
    if (each == Py_Ellipsis) {
      fits &= ++ellipses == 1;
      add(false, std::max<ptrdiff_t>(0, self.rank() - std::ranges::count_if(every, is_given)));
    } else {
      fits &= is_none(each) || is_whole_slice(each);
      add(is_none(each), 1);
    }
  }
  if (!fits || kept != self.rank())
    refuse_kernel("nki.index", fmt::format("{} takes only `:` and None as an index, to add axes; got {}",
                                           text_of(self), nb::repr(key).c_str()));
  return nki::with_axes(self, std::span<const bool>(added).first(static_cast<size_t>(rank)));
}

template <typename Value, typename Values>
nb::object array_of(const Values& values, const nki::Shape& shape) {
  auto owned = std::make_unique<Value[]>(values.size());
  std::ranges::copy(values, owned.get());
  const std::vector<size_t> sizes(shape.begin(), shape.end());
  Value* data = owned.release();
  nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<Value*>(memory); });
  return nb::cast(nb::ndarray<nb::numpy, Value>(data, sizes.size(), sizes.data(), owner));
}

nb::tuple shape_object(const nki::Shape& shape) {
  nb::list sizes;
  for (const int64_t size : shape) sizes.append(size);
  return nb::tuple(sizes);
}

// Values along each axis along which there are several; the first is 0.
nb::dict axes_of(const IndexExpression& self) {
  nb::dict made;
  for (const nki::IndexLine& line : self.lines) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < self.size(line.axis); ++i) values.push_back(line.at(i));
    made[nb::int_(line.axis)] = array_of<int64_t>(values, {self.size(line.axis)});
  }
  return made;
}

// (pattern of the free axes, offset, channel_multiplier) of the hardware, for a box of the index space.
// `what` names the instruction.
nb::tuple pattern_of(const IndexExpression& self, nb::handle box, const std::string& what) {
  const auto fail = [&](std::string why) {
    throw Fault(FaultKind::kNotModelled, "nki.index", fmt::format("{}: {}", what, why));
  };
  if (!self.dense.empty()) fail(text_of(self) + " is not affine");
  nki::IndexBox ranges;
  for (nb::handle range : box) ranges.push_back(range_of_object(range.ptr()));
  const int rank = static_cast<int>(ranges.size());
  std::vector<int64_t> steps(ranges.size());
  int64_t offset = self.constant;
  for (const nki::IndexLine& line : self.lines) {
    if (!line.is_affine()) fail(fmt::format("the index along axis {} has no constant step", line.axis));
    const auto axis = static_cast<size_t>(line.axis + rank);
    steps.at(axis) = line.step * ranges[axis].step;
    offset += line.step * ranges[axis].start;
  }
  nb::list pattern;
  for (size_t axis = 1; axis < ranges.size(); ++axis)
    pattern.append(nb::make_tuple(steps[axis], ranges[axis].count));
  if (pattern.size() == 0) pattern.append(nb::make_tuple(0, 1));
  return nb::make_tuple(pattern, offset, steps.at(0));
}

int64_t whole(nb::handle value, const char* what) {
  if (PyFloat_Check(value.ptr())) {
    const double number = PyFloat_AS_DOUBLE(value.ptr());
    if (number != std::trunc(number))
      refuse_kernel("nki.operand",
                    fmt::format("{} takes whole numbers, got {}", what, nb::repr(value).c_str()),
                    "//, or math.ceil(a / b)");
  }
  return int_of(checked(PyNumber_Long(value.ptr())).ptr());
}

// How many indices start, start + step, ... are before `stop`.
int64_t count_of(int64_t start, int64_t stop, int64_t step) {
  if (step == 0) throw nb::value_error("range() arg 3 must not be zero");
  const int64_t distance = step > 0 ? stop - start : start - stop, stride = std::abs(step);
  return distance <= 0 ? 0 : (distance - 1) / stride + 1;
}

// nl.arange(stop), (start, stop) or (start, stop, step)
IndexExpression arange(const nb::args& given) {
  if (given.size() == 1 && PyLong_CheckExact(nb::handle(given[0]).ptr()))
    if (const int64_t count = int_of(nb::handle(given[0]).ptr()); count > 0)
      return nki::index_range(count, 0, 1);
  std::vector<int64_t> numbers;
  for (nb::handle each : given) numbers.push_back(whole(each, "nl.arange"));
  if (numbers.empty() || numbers.size() > 3)
    throw nb::type_error("nl.arange takes a stop, or a start, a stop and a step");
  const int64_t start = numbers.size() == 1 ? 0 : numbers[0],
                stop = numbers.size() == 1 ? numbers[0] : numbers[1];
  const int64_t step = numbers.size() == 3 ? numbers[2] : 1, count = count_of(start, stop, step);
  if (count == 0) refuse_kernel("nki.index", fmt::format("nl.arange{} is empty", nb::repr(given).c_str()));
  return nki::index_range(count, start, step);
}

// An expression for each axis of nl.mgrid[...], all of one shape.
std::vector<IndexExpression> grid_of(nb::handle key) {
  const nb::object slices = PyTuple_Check(key.ptr()) ? nb::borrow(key) : nb::object(nb::make_tuple(key));
  std::vector<std::pair<int64_t, int64_t>> lines;  // first, step
  nki::Shape shape;
  for (nb::handle each : slices) {
    const auto* slice = reinterpret_cast<PySliceObject*>(each.ptr());
    if (!PySlice_Check(each.ptr()) || is_none(slice->stop))
      refuse_kernel("nki.index",
                    fmt::format("nl.mgrid takes slices with an end, got {}", nb::repr(each).c_str()));
    const auto bound = [](PyObject* given, int64_t missing) {
      return is_none(given) ? missing : whole(given, "nl.mgrid");
    };
    const int64_t first = bound(slice->start, 0), step = bound(slice->step, 1);
    shape.push_back(count_of(first, bound(slice->stop, 0), step));
    if (shape.back() == 0)
      refuse_kernel("nki.index", fmt::format("nl.mgrid: {} is empty", nb::repr(each).c_str()));
    lines.emplace_back(first, step);
  }
  std::vector<IndexExpression> made;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    IndexExpression each{shape, lines[axis].first, {}, {}};
    if (shape[axis] > 1) each.lines.push_back({static_cast<int>(axis) - each.rank(), lines[axis].second, {}});
    made.push_back(std::move(each));
  }
  return made;
}

// -- masks

using Truth = nb::ndarray<const bool, nb::c_contig, nb::device::cpu>;

IndexMask mask_of(nki::Shape shape, std::vector<bool> values) {
  return {{nki::IndexTruth{std::move(shape), std::move(values)}}};
}

IndexMask mask_of_array(const Truth& truth) {
  nki::Shape shape;
  for (size_t axis = 0; axis < truth.ndim(); ++axis) shape.push_back(static_cast<int64_t>(truth.shape(axis)));
  return mask_of(std::move(shape), std::vector<bool>(truth.data(), truth.data() + truth.size()));
}

nb::object both(const IndexMask& self, nb::handle other) {
  if (nb::isinstance<IndexMask>(other)) {
    IndexMask made = self;
    const auto& more = nb::cast<const IndexMask&>(other).terms;
    made.terms.insert(made.terms.end(), more.begin(), more.end());
    return nb::cast(std::move(made));
  }
  if (!is_bool(other)) return not_implemented();
  return nb::cast(PyObject_IsTrue(other.ptr()) == 1 ? self : mask_of({1}, {false}));
}

nb::object either(const IndexMask& self, nb::handle other) {
  if (nb::isinstance<IndexMask>(other)) {
    const auto inverted = [](const IndexMask& mask) {
      std::vector<bool> values = mask.values();
      values.flip();
      return nki::IndexTruth{mask.shape(), std::move(values)};
    };
    IndexMask neither{{inverted(self), inverted(nb::cast<const IndexMask&>(other))}};
    std::vector<bool> values = neither.values();
    values.flip();
    return nb::cast(mask_of(neither.shape(), std::move(values)));
  }
  if (!is_bool(other)) return not_implemented();
  return nb::cast(PyObject_IsTrue(other.ptr()) == 1 ? mask_of({1}, {true}) : self);
}

IndexMask inverse(const IndexMask& self) {
  std::vector<bool> values = self.values();
  values.flip();
  return mask_of(self.shape(), std::move(values));
}

// (expression, operator) of `expression <operator> 0`, where the mask is that alone.
nb::object single_test(const IndexMask& self) {
  const auto* test = self.terms.size() == 1 ? std::get_if<nki::IndexTest>(&self.terms[0]) : nullptr;
  if (!test) return nb::none();
  const std::string_view op = name(test->comparison);
  return nb::make_tuple(test->difference, nb::str(op.data(), op.size()));
}

nb::list to_list(const std::vector<nki::IndexBox>& boxes) {
  nb::list made;
  for (const nki::IndexBox& box : boxes) made.append(box_object(box));
  return made;
}

// The boxes of an index space that `mask` leaves: one full box for None or True, none for False.
nb::list regions(nb::handle mask, const nb::tuple& shape, const nb::str& what) {
  const bool is_number = PyLong_Check(mask.ptr()) && !PyBool_Check(mask.ptr());
  const bool is_truth =
      is_number ? (int_of(mask.ptr()) == 0 || int_of(mask.ptr()) == 1) : !mask.is_none() && is_bool(mask);
  if (mask.is_none() || is_truth) {
    nb::list made;
    if (mask.is_none() || PyObject_IsTrue(mask.ptr()) == 1) made.append(full_box(shape));
    return made;
  }
  if (!nb::isinstance<IndexMask>(mask))
    refuse_kernel("nki.mask",
                  fmt::format("{}: mask must be a comparison of index expressions or a bool, got {}",
                              what.c_str(), Py_TYPE(mask.ptr())->tp_name),
                  "select by data with nl.where");
  return to_list(nki::boxes_of(nb::cast<const IndexMask&>(mask), to_ints(shape), what.c_str()));
}

nb::list boxes_of(const Truth& truth) {
  std::vector<int64_t> shape;
  for (size_t axis = 0; axis < truth.ndim(); ++axis) shape.push_back(static_cast<int64_t>(truth.shape(axis)));
  return to_list(nki::boxes_of(truth.data(), shape));
}

void bind_masks(nb::module_& tiles) {
  auto mask = nb::class_<IndexMask>(tiles, "Predicate", "A conjunction of comparisons of index expressions.");
  mask.def_static("of_values", &mask_of_array, "truth"_a, "A mask of these truth values.")
      .def_prop_ro("shape", [](const IndexMask& self) { return shape_object(self.shape()); })
      .def("values", [](const IndexMask& self) { return array_of<bool>(self.values(), self.shape()); })
      .def("single_test", &single_test, nb::sig("def single_test(self) -> tuple[IndexExpr, str] | None"),
           "(expression, operator) of a mask that is one comparison of an expression with 0; else None.")
      .def("__repr__",
           [](const IndexMask& self) {
             return fmt::format("<predicate of shape {}, {} terms>", nki::tuple_text(self.shape()),
                                self.terms.size());
           })
      .def("__bool__",
           [](const IndexMask&) -> bool {
             refuse_kernel(
                 "nki.truth",
                 "err_ambiguous_tensor_truth_value: a predicate over indices has no single truth value",
                 kAndHint);
           })
      .def("__and__", &both, nb::is_operator())
      .def("__rand__", &both, nb::is_operator())
      .def("__or__", &either, nb::is_operator())
      .def("__ror__", &either, nb::is_operator())
      .def("__invert__", &inverse)
      .def("__hash__", [](const IndexMask&) { return unhashable("Predicate"); });
  mask.attr("__array_priority__") = 1000;
  tiles.def("regions", &regions, "mask"_a.none(), "shape"_a, "what"_a,
            "The boxes of an index space that a mask leaves: one full box for None or True, none for False.");
  tiles.def("boxes_of", &boxes_of, "truth"_a, "Boxes that cover exactly the true values.");
  tiles.def(
      "full_box", [](const nb::tuple& shape) { return full_box(shape); }, "shape"_a,
      "The whole index space of a shape.");
  tiles.def(
      "is_full",
      [](const nb::tuple& box, const nb::tuple& shape) { return is_full_box(box.ptr(), shape.ptr()); },
      "box"_a, "shape"_a, "Whether a box covers the shape in order.");
  tiles.def(
      "whole", [](nb::handle value, const std::string& what) { return whole(value, what.c_str()); },
      "value"_a, "what"_a, "A count or an index as an int; a fraction is refused.");
  tiles.def(
      "broadcast_shapes",
      [](const nb::args& given) {
        std::vector<nki::Shape> shapes;
        for (nb::handle shape : given) shapes.push_back(to_ints(shape));
        return shape_object(nki::broadcast_shapes(shapes));
      },
      "NumPy's broadcasting of shapes.");
}

}  // namespace

bool is_index_expression(PyObject* value) {
  static PyObject* const type = nb::type<IndexExpression>().ptr();
  return reinterpret_cast<PyObject*>(Py_TYPE(value)) == type;
}

const IndexExpression& index_expression_of(PyObject* value) { return *nb::inst_ptr<IndexExpression>(value); }

void bind_index_expressions(nb::module_& tiles) {
  auto expression = nb::class_<IndexExpression>(tiles, "IndexExpr", "Integers over index axes; immutable.");
  expression
      .def(
          "__init__",
          [](IndexExpression* self, int64_t value) {
            new (self) IndexExpression{{1, 1}, value, {}, {}};
          },
          "value"_a)
      .def_prop_ro("shape", [](const IndexExpression& self) { return shape_object(self.shape); })
      .def_prop_ro("ndim", &IndexExpression::rank)
      .def_ro("constant", &IndexExpression::constant)
      .def_prop_ro("axes", &axes_of,
                   "Values along each axis that matters, by its number from the last; the first is 0.")
      .def_prop_ro(
          "dense",
          [](const IndexExpression& self) {
            return self.dense.empty() ? nb::none() : array_of<int64_t>(self.dense, self.shape);
          },
          nb::rv_policy::automatic, "What mixes axes; None where nothing does.")
      .def("values", [](const IndexExpression& self) { return array_of<int64_t>(self.values(), self.shape); })
      .def("range", &IndexExpression::range, "Smallest and largest value.")
      .def("pattern", &pattern_of, "box"_a, "what"_a,
           "(pattern of the free axes, offset, channel_multiplier) of an affine expression in a box.")
      .def("__repr__", &text_of)
      .def("__len__", [](const IndexExpression& self) { return self.shape.at(0); })
      .def("__bool__",
           [](const IndexExpression&) -> bool {
             refuse_kernel(
                 "nki.truth",
                 "err_control_flow_condition_depending_on_arange: an index expression has no truth value",
                 "select elements with mask=");
           })
      .def("__setitem__",
           [](const IndexExpression&, nb::handle, nb::handle) {
             refuse_kernel("nki.index",
                           "err_cannot_assign_to_index: an index expression cannot be assigned to",
                           "nisa.iota, which makes a tile");
           })
      .def("__getitem__", &item)
      .def(
          "__add__", [](const IndexExpression& a, nb::handle b) { return sum(a, b, 1); }, nb::is_operator())
      .def(
          "__radd__", [](const IndexExpression& a, nb::handle b) { return sum(a, b, 1); }, nb::is_operator())
      .def(
          "__sub__", [](const IndexExpression& a, nb::handle b) { return sum(a, b, -1); }, nb::is_operator())
      .def("__rsub__", &difference_to, nb::is_operator())
      .def("__mul__", &product, nb::is_operator())
      .def("__rmul__", &product, nb::is_operator())
      .def("__neg__", [](const IndexExpression& self) { return nki::multiply(self, -1); })
      .def("__floordiv__", &quotient<IndexOperator::kFloorDivide>, nb::is_operator())
      .def("__mod__", &quotient<IndexOperator::kModulo>, nb::is_operator())
      .def("__lt__", &compared<IndexComparison::kLess>, nb::is_operator())
      .def("__le__", &compared<IndexComparison::kLessEqual>, nb::is_operator())
      .def("__gt__", &compared<IndexComparison::kGreater>, nb::is_operator())
      .def("__ge__", &compared<IndexComparison::kGreaterEqual>, nb::is_operator())
      .def("__eq__", &compared<IndexComparison::kEqual>, nb::is_operator(),
           nb::sig("def __eq__(self, arg: object, /) -> Any"))
      .def("__ne__", &compared<IndexComparison::kNotEqual>, nb::is_operator(),
           nb::sig("def __ne__(self, arg: object, /) -> Any"))
      .def("__hash__", [](const IndexExpression&) { return unhashable("IndexExpr"); });
  expression.attr("__array_priority__") = 1000;  // NumPy's scalars leave the operation to us
  tiles.def("arange", &arange, "Indices as numpy.arange, of shape [n].");
  tiles.def("grid_of", &grid_of, "key"_a, "An expression for each axis of nl.mgrid[key], all of one shape.");
  bind_masks(tiles);
}

}  // namespace opentrn::python
