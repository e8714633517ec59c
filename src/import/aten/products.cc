// Matrix products. Narrow floats are summed in the Tensor engine's fp32 and rounded once.
#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

struct Contraction {
  std::pair<Shape, Shape> contract;
  std::pair<Shape, Shape> batch;
};

const Contraction kMatrices = {{{1}, {0}}, {}};
const Contraction kBatches = {{{2}, {1}}, {{0}, {0}}};
const Contraction kVectors = {{{0}, {0}}, {}};
const Contraction kSumOfBatches = {{{0, 2}, {0, 1}}, {}};

Rule product(const Contraction& form) {
  return
      [form](Call& call) { return call.body.dot(call.value(0), call.value(1), form.contract, form.batch); };
}

// int8 by int8, summed in int32.
Value int_mm(Call& call) {
  return call.body.dot(call.value(0), call.value(1), kMatrices.contract, {}, call.out().dtype);
}

// The left one conjugated.
Value vdot(Call& call) {
  const Value& left = call.value(0);
  const Value given = graph::is_complex(left.dtype) ? call.body.unary("chlo.conj", left) : left;
  return call.body.dot(given, call.value(1), kVectors.contract);
}

Value times_factor(Body& body, const Value& value, const Arg& factor) {
  if (equals(factor.number(), 1)) return value;
  return body.multiply(value, body.like(factor.number(), value));
}

// beta to + alpha product; with beta 0 `to` is not read, whatever it holds.
Rule added_product(const Contraction& form) {
  return [form](Call& call) {
    Body& body = call.body;
    const auto& [shape, dtype, _] = call.out();
    const Value product =
        body.dot(call.value(1), call.value(2), form.contract, form.batch, math_dtype(dtype));
    Value made = times_factor(body, product, call.named("alpha"));
    if (const Arg& beta = call.named("beta"); !equals(beta.number(), 0)) {
      const Value to = times_factor(body, body.tensor(call.at(0), made.dtype, shape), beta);
      made = body.add(made, to);
    }
    return body.convert(made, dtype);
  };
}

}  // namespace

Table products() {
  return {
      {{"mm.default", "mv.default"}, product(kMatrices)},
      {{"bmm.default"}, product(kBatches)},
      {{"dot.default"}, product(kVectors)},
      {{"_int_mm.default"}, int_mm},
      {{"vdot.default"}, vdot},
      {{"addmm.default", "addmv.default"}, added_product(kMatrices)},
      {{"addbmm.default"}, added_product(kSumOfBatches)},
      {{"baddbmm.default"}, added_product(kBatches)},
  };
}

}  // namespace opentrn::import::aten
