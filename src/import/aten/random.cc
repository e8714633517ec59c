// Random numbers: words of Threefry whose key comes from torch's generator at each call
// (opentrn/torch/program.py).
//
// torch.manual_seed() makes a run the same again; the numbers are not those of torch's own CPU generator.
#include <cmath>

#include <fmt/format.h>

#include "import/aten/rules.h"

namespace opentrn::import::aten {

namespace {

const Shape kOne = {1};

// sqrt 2 erf_inv(2u - 1), u in the middle of its step so that it is never an end.
Value normal_f32(Body& body, const Shape& shape) {
  const Value number = uniform_f32(body, shape);
  const Value doubled = body.multiply(number, body.like(2.0, number));
  const Value centred = body.add(doubled, body.like(0x1p-24 - 1, number));
  const Value made = body.unary("chlo.erf_inv", centred);
  return body.multiply(made, body.like(std::sqrt(2), number));
}

// In the result's type; a uniform number that rounds up to 1 becomes 0.
Value rand(Call& call) {
  Body& body = call.body;
  const Value made = body.convert(uniform_f32(body, call.out().shape), call.out().dtype);
  if (graph::storage_bytes(made.dtype) >= 4) return made;
  const Value is_one = body.compare("GE", made, body.like(1, made));
  return body.select(is_one, body.like(0, made), made);
}

Value randn(Call& call) {
  return call.body.convert(normal_f32(call.body, call.out().shape), call.out().dtype);
}

Value uniform(Call& call) {
  Body& body = call.body;
  const double low = call.at(1).real();
  const double high = call.at(2).real();
  const Value number = uniform_f32(body, call.out().shape);
  const Value spread = body.multiply(number, body.like(high - low, number));
  return body.convert(body.add(spread, body.like(low, number)), call.out().dtype);
}

Value normal(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  const auto given = [&](std::string_view name, double otherwise) {
    const Arg& found = call.named(name);
    return found.is_none() ? Arg{Number(otherwise)} : found;
  };
  const Value number = normal_f32(body, shape);
  const Value scaled = body.multiply(number, body.tensor(given("std", 1), ElementType::kF32, shape));
  return body.convert(body.add(scaled, body.tensor(given("mean", 0), ElementType::kF32, shape)), dtype);
}

Value bernoulli(Call& call) {
  Body& body = call.body;
  const Arg& given = call.named("p");
  const Value chance = body.tensor(given.is_none() ? call.at(0) : given, ElementType::kF32, call.out().shape);
  const Value number = uniform_f32(body, call.out().shape);
  return body.convert(body.compare("LT", number, chance), call.out().dtype);
}

// A word's remainder: as uneven as torch's own.
Value randint(Call& call) {
  Body& body = call.body;
  const auto& [shape, dtype, _] = call.out();
  const int64_t low = call.named("low").is_none() ? 0 : call.named("low").integer();
  const int64_t high = call.named("high").integer();
  require(low < high && high - low <= int64_t{1} << 31,
          fmt::format("in [{}, {}) is beyond 32 bits", low, high));
  if (is_empty(shape)) return body.splat(0, dtype, shape);
  const Value words = body.reshape(body.random_words(shape.empty() ? kOne : shape), shape);
  const Value positive = body.binary("shift_right_logical", words, body.like(1, words));
  const Value number = body.op("bitcast_convert", {positive}, shape, ElementType::kI32);
  const Value rest = body.binary("remainder", number, body.like(high - low, number));
  return body.convert(body.add(rest, body.like(low, rest)), dtype);
}

// The order that sorts random words.
Value randperm(Call& call) {
  Body& body = call.body;
  const int64_t count = call.at(0).integer();
  if (count <= 1) return body.splat(0, call.out().dtype, call.out().shape);
  const Value words = body.random_words({count});
  const Value key = body.op("bitcast_convert", {words}, {count}, ElementType::kI32);
  return body.convert(sorted_with_places(body, key, 0, false).second, call.out().dtype);
}

// (kept elements over 1 - chance, which are kept)
Results native_dropout(Call& call) {
  Body& body = call.body;
  const Value& value = call.value(0);
  const double chance = call.at(1).real();
  const bool is_off = !call.at(2).is_none() && !call.at(2).flag();
  if (is_off || chance == 0) return {value, body.splat(true, ElementType::kI1, value.shape)};
  if (chance == 1) {
    const Value none = body.like(0, value);
    return {none, body.splat(false, ElementType::kI1, value.shape)};
  }
  const Value number = uniform_f32(body, value.shape);
  const Value kept = body.compare("GE", number, body.like(chance, number));
  const Value scaled = body.multiply(value, body.like(1 / (1 - chance), value));
  return {body.select(kept, scaled, body.like(0, value)), kept};
}

}  // namespace

Value uniform_f32(Body& body, const Shape& shape) {
  if (is_empty(shape)) return body.splat(0, ElementType::kF32, shape);
  const Value words = body.random_words(shape.empty() ? kOne : shape);
  const Value top = body.binary("shift_right_logical", words, body.like(8, words));
  const Value bits = body.op("bitcast_convert", {top}, top.shape, ElementType::kI32);
  const Value number = body.convert(bits, ElementType::kF32);
  return body.reshape(body.multiply(number, body.like(0x1p-24, number)), shape);
}

Table random_numbers() {
  return {
      {{"rand.default", "rand_like.default", "rand.generator"}, rand},
      {{"randn.default", "randn_like.default", "randn.generator"}, randn},
      {{"uniform.default"}, uniform},
      {{"normal_functional.default", "prims.normal", "normal.float_float", "normal.Tensor_float",
        "normal.float_Tensor", "normal.Tensor_Tensor"},
       normal},
      {{"bernoulli.default", "bernoulli.p", "bernoulli.Tensor"}, bernoulli},
      {{"randint.default", "randint.low", "randint_like.default", "randint_like.low_dtype"}, randint},
      {{"randperm.default", "randperm.generator"}, randperm},
      {{"native_dropout.default"}, native_dropout},
  };
}

}  // namespace opentrn::import::aten
