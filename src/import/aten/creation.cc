// Constants, counters, copies and conversions.
#include <cmath>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

Value filled(Call& call, const Arg& value) {
  return call.body.tensor(value, call.out().dtype, call.out().shape);
}

Rule constant(int64_t value) {
  return [value](Call& call) { return call.body.splat(value, call.out().dtype, call.out().shape); };
}

// start + step i, computed in fp32 or in whole numbers.
Value counted_from(Call& call, const Number& start, const Number& step) {
  Body& body = call.body;
  const ElementType dtype = graph::is_float(call.out().dtype) ? ElementType::kF32 : ElementType::kI32;
  Value count = body.iota(call.out().shape, 0, dtype);
  if (!equals(step, 1)) count = body.multiply(count, body.like(step, count));
  if (!equals(start, 0)) count = body.add(count, body.like(start, count));
  return body.convert(count, call.out().dtype);
}

// Whole numbers from bounds that are not: torch rounds each of them down.
Value counted_by_fractions(Call& call, double start, double step) {
  std::vector<int32_t> elements;
  for (int64_t i = 0; i < size_of(call.out().shape); ++i) {
    const auto first = static_cast<int64_t>(start);
    elements.push_back(static_cast<int32_t>(first + i * static_cast<int64_t>(step)));
  }
  return call.body.convert(call.body.constant(call.out().shape, elements), call.out().dtype);
}

Value arange(Call& call) {
  const Number zero = int64_t{0};
  const Number one = int64_t{1};
  const Arg& start = call.named("start");
  const Arg& step = call.named("step");
  const Number& first = start.is_none() ? zero : start.number();
  const Number& stride = step.is_none() ? one : step.number();
  const bool is_whole = (start.is_none() || start.is_integer()) && (step.is_none() || step.is_integer());
  if (graph::is_integer(call.out().dtype) && !is_whole)
    return counted_by_fractions(call, real_of(first), real_of(stride));
  return counted_from(call, first, stride);
}

Value same(Call& call) { return call.value(0); }

Value conjugate(Call& call) {
  const Value& value = call.value(0);
  return graph::is_complex(value.dtype) ? call.body.unary("chlo.conj", value) : value;
}

Value converted(Call& call) { return call.body.convert(call.value(0), call.out().dtype); }

Value part(Call& call, std::string_view name) {
  return call.body.op(name, {call.value(0)}, call.value(0).shape, call.out().dtype);
}

Value view_as_real(Call& call) {
  Body& body = call.body;
  Shape shape = call.value(0).shape;
  shape.push_back(1);
  const Value real = part(call, "real");
  const Value imaginary = part(call, "imag");
  const Value first = body.reshape(real, shape);
  return body.concatenate({first, body.reshape(imaginary, shape)}, call.value(0).rank());
}

Value view_as_complex(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  std::vector<Value> parts;
  for (const int i : {0, 1})
    parts.push_back(body.reshape(body.slice_axis(value, value.rank() - 1, i, i + 1), call.out().shape));
  return body.op("complex", parts, call.out().shape, call.out().dtype);
}

// Both operands in the type of a complex number's parts.
std::pair<Value, Value> both_parts(Call& call) {
  return both(call, call.at(0), call.at(1), graph::real_part(call.out().dtype));
}

Value complex_of(Call& call) {
  const auto [real, imaginary] = both_parts(call);
  return call.body.op("complex", {real, imaginary}, call.out().shape, call.out().dtype);
}

// torch's own decomposition writes into views of an empty tensor, which the traced graph cannot hold.
Value polar(Call& call) {
  Body& body = call.body;
  const auto [length, angle] = both_parts(call);
  const Value real = body.multiply(length, body.unary("cosine", angle));
  const Value imaginary = body.multiply(length, body.unary("sine", angle));
  return body.op("complex", {real, imaginary}, call.out().shape, call.out().dtype);
}

Value eye(Call& call) {
  Body& body = call.body;
  const Value rows = body.iota(call.out().shape, 0, ElementType::kI32);
  const Value columns = body.iota(call.out().shape, 1, ElementType::kI32);
  return body.convert(body.compare("EQ", rows, columns), call.out().dtype);
}

}  // namespace

Table creation() {
  return {
      {{"full.default", "full_like.default", "fill.Scalar", "fill.Tensor"},
       [](Call& call) { return filled(call, call.at(1)); }},
      {{"new_full.default"}, [](Call& call) { return filled(call, call.at(2)); }},
      {{"scalar_tensor.default", "prims.scalar_tensor"}, [](Call& call) { return filled(call, call.at(0)); }},
      {{"copy.default"}, [](Call& call) { return filled(call, call.at(1)); }},
      {{"zeros.default", "zeros_like.default", "new_zeros.default", "_efficientzerotensor.default"},
       constant(0)},
      {{"ones.default", "ones_like.default", "new_ones.default"}, constant(1)},
      // Any values will do.
      {{"empty.memory_format", "empty_like.default", "empty_strided.default", "new_empty.default",
        "new_empty_strided.default", "empty_permuted.default", "prims.empty_strided", "prims.empty_permuted"},
       constant(0)},
      {{"arange.start_step", "arange.start", "arange.default"}, arange},
      {{"prims.iota"},
       [](Call& call) {
         return counted_from(call, call.named("start").number(), call.named("step").number());
       }},
      // Values have no memory of their own here.
      {{"clone.default", "alias.default", "alias_copy.default", "detach.default", "detach_copy.default",
        "lift_fresh_copy.default", "lift.default", "lift_fresh.default", "prims.clone", "prims.view_of"},
       same},
      {{"conj_physical.default", "_conj.default", "_conj_physical.default", "prims.conj",
        "prims.conj_physical"},
       conjugate},
      // Floats to whole numbers towards zero; a NaN or what does not fit gives any number, as in torch.
      {{"_to_copy.default", "prims.convert_element_type", "prims.device_put"}, converted},
      {{"view_as_real.default", "view_as_real_copy.default"}, view_as_real},
      {{"view_as_complex.default", "view_as_complex_copy.default"}, view_as_complex},
      {{"complex.default"}, complex_of},
      {{"polar.default"}, polar},
      {{"real.default", "prims.real"},
       [](Call& call) {
         return graph::is_complex(call.value(0).dtype) ? part(call, "real") : call.value(0);
       }},
      {{"imag.default", "prims.imag"}, [](Call& call) { return part(call, "imag"); }},
      {{"eye.default", "eye.m"}, eye},
  };
}

}  // namespace opentrn::import::aten
