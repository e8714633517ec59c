// Matrix products. Narrow floats are summed in the Tensor engine's fp32 and rounded once.
#include "import/aten/rules.h"

#include <algorithm>

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

// An operand of a sum of products: which dimension of the whole product each of its own is.
struct Factor {
  Value value;
  Shape dims;
};

// Sums over the dimensions that neither `kept` nor the other factor has are taken in the product.
Factor contracted(Body& body, const Factor& left, const Factor& right, const Shape& kept) {
  std::pair<Shape, Shape> batch, contract;
  Shape both, of_left, of_right;
  for (size_t i = 0; i < left.dims.size(); ++i) {
    const auto found = std::ranges::find(right.dims, left.dims[i]);
    if (found == right.dims.end()) {
      of_left.push_back(left.dims[i]);
      continue;
    }
    const auto j = static_cast<size_t>(found - right.dims.begin());
    require(left.value.shape[i] == right.value.shape[j], "has dimensions that are broadcast");
    auto& [in_left, in_right] = has(kept, left.dims[i]) ? batch : contract;
    if (has(kept, left.dims[i])) both.push_back(left.dims[i]);
    in_left.push_back(static_cast<int64_t>(i));
    in_right.push_back(static_cast<int64_t>(j));
  }
  for (const int64_t dim : right.dims)
    if (!has(left.dims, dim)) of_right.push_back(dim);
  Factor made{body.dot(left.value, right.value, contract, batch), both};
  for (const Shape& free : {of_left, of_right}) made.dims.insert(made.dims.end(), free.begin(), free.end());
  Shape summed;
  for (size_t i = 0; i < made.dims.size(); ++i)
    if (!has(kept, made.dims[i])) summed.push_back(static_cast<int64_t>(i));
  if (!summed.empty()) made.value = body.reduce("add", made.value, summed, 0.0);
  std::erase_if(made.dims, [&](int64_t dim) { return !has(kept, dim); });
  return made;
}

// (one, two, three, expand one, two, three, sums): of nn.Bilinear and its gradients. Each operand has the
// dimensions of the whole product but those that it expands.
Value trilinear(Call& call) {
  Body& body = call.body;
  const Shape summed = call.at(6).integers();
  const int64_t rank = static_cast<int64_t>(call.value(0).shape.size() + call.at(3).integers().size());
  std::vector<Factor> factors;
  for (size_t i = 0; i < 3; ++i) {
    const Shape expanded = call.at(3 + i).integers();
    Factor factor{body.convert(call.value(i), math_dtype(call.value(i).dtype)), {}};
    for (int64_t dim = 0; dim < rank; ++dim)
      if (!has(expanded, dim)) factor.dims.push_back(dim);
    factors.push_back(factor);
  }
  Shape results;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (!has(summed, dim)) results.push_back(dim);
  Shape kept = results;
  kept.insert(kept.end(), factors[2].dims.begin(), factors[2].dims.end());
  const Factor two = contracted(body, factors[0], factors[1], kept);
  const Factor three = contracted(body, two, factors[2], results);
  Shape order;  // that of the product, without dimensions that no operand has
  for (const int64_t dim : results)
    if (const auto found = std::ranges::find(three.dims, dim); found != three.dims.end())
      order.push_back(found - three.dims.begin());
  const Value sorted = body.transpose(three.value, order);
  return body.convert(body.reshape(sorted, call.out().shape), call.out().dtype);
}

}  // namespace

Table products() {
  return {
      {{"mm.default", "mv.default"}, product(kMatrices)},
      {{"bmm.default"}, product(kBatches)},
      {{"dot.default"}, product(kVectors)},
      {{"_int_mm.default"}, int_mm},
      {{"vdot.default"}, vdot},
      {{"_trilinear.default"}, trilinear},
      {{"addmm.default", "addmv.default"}, added_product(kMatrices)},
      {{"addbmm.default"}, added_product(kSumOfBatches)},
      {{"baddbmm.default"}, added_product(kBatches)},
  };
}

}  // namespace opentrn::import::aten
