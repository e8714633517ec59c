// Reading by computed indices. They are held to be in range, as torch demands.
#include <fmt/format.h>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

struct GatherForm {
  Shape offsets;
  Shape collapsed;
  Shape starts;
  Shape sizes;
};

// StableHLO's gather; a place is the last dimension of `places`.
Value gather_op(Body& body, const Value& value, const Value& places, const Shape& shape,
                const GatherForm& form) {
  if (is_empty(shape)) return body.splat(0, value.dtype, shape);
  const std::string text = fmt::format(
      "dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, start_index_map = "
      "{}, "
      "index_vector_dim = {}>, slice_sizes = {}, indices_are_sorted = false",
      list_text(form.offsets), list_text(form.collapsed), list_text(form.starts), places.rank() - 1,
      numbers(form.sizes));
  return body.op("gather", {value, places}, shape, value.dtype, text);
}

Shape with_one_more(Shape shape, int64_t size = 1) {
  shape.push_back(size);
  return shape;
}

Value index_select(Call& call) {
  const Value& value = call.value(0);
  const Value& index = call.value(2);
  if (value.rank() == 0) return call.body.reshape(value, call.out().shape);
  const Value flat = call.body.reshape(index, {index.rank() ? index.shape[0] : 1});
  return take(call.body, value, flat, axis_of(call.at(1).integer(), value.rank()));
}

Value gather(Call& call) {
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape)) return call.body.splat(0, dtype, shape);
  if (value.rank() == 0) return call.body.reshape(value, shape);
  const Value& index = call.value(2);
  const Value line = index.rank() == 0 ? call.body.reshape(index, {1}) : index;
  return call.body.reshape(gathered(call.body, value, axis_of(call.at(1).integer(), value.rank()), line),
                           shape);
}

bool any_given(const std::vector<Arg>& indices) {
  for (const Arg& each : indices)
    if (!each.is_none()) return true;
  return false;
}

Value index(Call& call) {
  const Value& value = call.value(0);
  const auto& [shape, dtype, _] = call.out();
  if (is_empty(shape)) return call.body.splat(0, dtype, shape);
  if (!any_given(call.at(1).list())) return value;
  const JointPlaces joint = joint_places(call.body, value, call.at(1).list());
  GatherForm form{{}, joint.axes, joint.axes, value.shape};
  const auto end = joint.at + static_cast<int64_t>(joint.shape.size());
  for (int64_t axis = 0; axis < static_cast<int64_t>(shape.size()); ++axis)
    if (axis < joint.at || axis >= end) form.offsets.push_back(axis);
  for (const int64_t axis : joint.axes) form.sizes[axis] = 1;
  return gather_op(call.body, value, joint.places, shape, form);
}

Value take_flat(Call& call) {
  const int64_t count = size_of(call.value(0).shape);
  const Value flat = call.body.reshape(call.value(0), {count});
  return take(call.body, flat, counted(call.body, call.value(1), count), 0);
}

}  // namespace

Value counted(Body& body, const Value& given, int64_t size) {
  const Value index = body.convert(given, ElementType::kI32);
  const Value zero = body.like(0, index);
  const Value negative = body.compare("LT", index, zero);
  const Value from_end = body.add(index, body.like(size, index));
  return body.select(negative, from_end, index);
}

Value take(Body& body, const Value& value, const Value& index, int64_t axis) {
  Shape shape(value.shape.begin(), value.shape.begin() + axis);
  shape.insert(shape.end(), index.shape.begin(), index.shape.end());
  shape.insert(shape.end(), value.shape.begin() + axis + 1, value.shape.end());
  const Value numbers = body.convert(index, ElementType::kI32);
  const Value places = body.reshape(numbers, with_one_more(index.shape));
  GatherForm form{counted_up(axis), {axis}, {axis}, value.shape};
  for (auto each = axis + index.rank(); each < static_cast<int64_t>(shape.size()); ++each)
    form.offsets.push_back(each);
  form.sizes[axis] = 1;
  return gather_op(body, value, places, shape, form);
}

Value coordinates(Body& body, const Value& index, int64_t axis) {
  std::vector<Value> parts;
  for (int each = 0; each < index.rank(); ++each)
    parts.push_back(each == axis ? index : body.iota(index.shape, each, ElementType::kI32));
  for (Value& part : parts) part = body.reshape(part, with_one_more(index.shape));
  return body.concatenate(parts, index.rank());
}

Value gathered(Body& body, const Value& value, int64_t axis, const Value& index) {
  const Value places = coordinates(body, counted(body, index, value.shape.at(axis)), axis);
  const Shape every = counted_up(value.rank());
  return gather_op(body, value, places, index.shape, {{}, every, every, Shape(value.shape.size(), 1)});
}

JointPlaces joint_places(Body& body, const Value& value, const std::vector<Arg>& indices) {
  JointPlaces joint;
  std::vector<Shape> shapes;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (indices[axis].is_none()) continue;
    const Value& index = indices[axis].value();
    require(index.dtype != ElementType::kI1 && index.dtype != ElementType::kUI8,
            "by a mask has a result whose size depends on values");
    joint.axes.push_back(static_cast<int64_t>(axis));
    shapes.push_back(index.shape);
  }
  joint.shape = broadcast_shape(shapes);
  std::vector<Value> parts;
  for (const int64_t axis : joint.axes) {
    const Value numbers = counted(body, indices[axis].value(), value.shape.at(axis));
    parts.push_back(body.reshape(body.broadcast(numbers, joint.shape), with_one_more(joint.shape)));
  }
  const bool adjacent = joint.axes.back() - joint.axes.front() + 1 == static_cast<int64_t>(joint.axes.size());
  joint.places = body.concatenate(parts, static_cast<int64_t>(joint.shape.size()));
  joint.at = adjacent ? joint.axes.front() : 0;
  return joint;
}

Table indexing() {
  return {
      {{"index_select.default"}, index_select},
      {{"embedding.default"}, [](Call& call) { return take(call.body, call.value(0), call.value(1), 0); }},
      {{"gather.default"}, gather},
      {{"index.Tensor", "_unsafe_index.Tensor"}, index},
      {{"take.default"}, take_flat},
  };
}

}  // namespace opentrn::import::aten
