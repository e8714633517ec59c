// batch_norm_*, cholesky, triangular_solve, fft, rng, rng_bit_generator.
#include <algorithm>

#include "graph/shape/rules.h"

namespace opentrn::graph::shape {

namespace {

constexpr uint32_t kNormElements = kFloats | kQuantizedPerTensor;
constexpr uint32_t kMatrixElements = kFloats | kComplexes | kQuantizedPerTensor;

// feature_index within rank (C1), operands of one element type (C2); the size of the feature dimension.
int64_t checked_features(const Context& c) {
  const Type& operand = c.tensor(0, kNormElements);
  const int64_t axis = c.integer(Attr::feature_index);
  c.check(0 <= axis && axis < operand.rank(), 1, "feature_index is {} for {}", axis, operand.to_string());
  for (size_t i = 1; i < c.operand_count(); ++i)
    c.check(same_element(operand, c.tensor(i, kNormElements)), 2, "operand 0 is {} and operand {} is {}",
            operand.to_string(), i, c.tensor(i).to_string());
  return operand.dim(static_cast<int>(axis));
}

void check_feature_vector(const Context& c, size_t i, int64_t features, int constraint) {
  const Type& vector = c.vector(i, kNormElements);
  c.check(agrees(vector.dim(0), features), constraint, "operand {} is {} for {} features", i,
          vector.to_string(), features);
}

}  // namespace

Types batch_norm_inference(const Context& c) {
  const int64_t features = checked_features(c);
  for (size_t i = 1; i < 5; ++i) check_feature_vector(c, i, features, static_cast<int>(i) + 2);
  return {c.tensor(0)};
}

Types batch_norm_training(const Context& c) {
  const int64_t features = checked_features(c);
  check_feature_vector(c, 1, features, 3);
  check_feature_vector(c, 2, features, 4);
  const Type vector = typed(c.tensor(0), {features});
  return {c.tensor(0), vector, vector};
}

Types batch_norm_grad(const Context& c) {
  const int64_t features = checked_features(c);
  const Type& operand = c.tensor(0);
  c.check(shapes_agree(operand.dims(), c.tensor(4).dims()), 3, "operand is {} and grad_output {}",
          operand.to_string(), c.tensor(4).to_string());
  for (const size_t i : {2U, 3U})
    c.check(shapes_agree(c.vector(1).dims(), c.vector(i).dims()), 4, "scale is {} and operand {} is {}",
            c.tensor(1).to_string(), i, c.tensor(i).to_string());
  check_feature_vector(c, 1, features, 5);
  const Type vector = typed(operand, {features});
  return {operand, vector, vector};
}

Types cholesky(const Context& c) {
  const Type& a = c.tensor(0, kMatrixElements);
  c.check(a.rank() >= 2, 2, "{} has rank {}; at least 2 is wanted", a.to_string(), a.rank());
  c.check(agrees(a.dim(a.rank() - 2), a.dim(a.rank() - 1)), 3, "{} is not square", a.to_string());
  return {a};
}

Types triangular_solve(const Context& c) {
  const Type& a = c.tensor(0, kMatrixElements);
  const Type& b = c.tensor(1, kMatrixElements);
  const int rank = a.rank();
  c.check(same_element(a, b), 1, "operands are {} and {}", a.to_string(), b.to_string());
  c.check(rank >= 2 && b.rank() == rank, 2,
          "operands are {} and {}; their ranks must be the same, at least 2", a.to_string(), b.to_string());
  c.check(agrees(a.dim(rank - 2), a.dim(rank - 1)), 3, "{} is not square", a.to_string());
  const int solved = c.op().boolean(Attr::left_side) ? rank - 2 : rank - 1;
  c.check(agrees(a.dim(rank - 1), b.dim(solved)), 3, "{} and {} do not fit", a.to_string(), b.to_string());
  const auto batch = static_cast<size_t>(rank - 2);
  c.check(shapes_agree(a.dims().first(batch), b.dims().first(batch)), 3,
          "leading dimensions of {} and {} differ", a.to_string(), b.to_string());
  const auto transpose = c.op().enumeration(Attr::transpose_a, graph::Transpose::kInvalid);
  if (transpose == graph::Transpose::kInvalid) c.fail("I6", "transpose_a is not valid");
  return {b};
}

Types fft(const Context& c) {
  const Type& operand = c.tensor(0, kFloats | kComplexes);
  const auto lengths = c.integers(Attr::fft_length);
  const auto type = c.op().enumeration(Attr::fft_type, FftType::kFft);
  const ElementType element = operand.element();
  const bool real_in = type == FftType::kRfft;
  c.check(lengths.size() >= 1 && lengths.size() <= 3, 3, "fft_length is {}; 1 to 3 entries are wanted",
          text(lengths));
  c.check(static_cast<int>(lengths.size()) <= operand.rank(), 1, "fft_length is {} for {}", text(lengths),
          operand.to_string());
  c.check(real_in ? element == ElementType::kF32 || element == ElementType::kF64 : is_complex(element), 2,
          "{} does not suit fft_type", operand.to_string());
  Dims dims = operand.dims_vector();
  const auto tail = std::span(dims).last(lengths.size());
  if (real_in) {
    c.check(shapes_agree(tail, lengths), 4, "fft_length is {} for {}", text(lengths), operand.to_string());
    tail.back() = lengths.back() == 0 ? 0 : lengths.back() / 2 + 1;
    return {Type::tensor(element == ElementType::kF32 ? ElementType::kComplexF32 : ElementType::kComplexF64,
                         std::move(dims))};
  }
  if (type != FftType::kIrfft) return {operand};
  c.check(shapes_agree(tail.first(tail.size() - 1), lengths.first(lengths.size() - 1)), 4,
          "fft_length is {} for {}", text(lengths), operand.to_string());
  const int64_t half = lengths.back() == 0 ? 0 : lengths.back() / 2 + 1;
  // Of one frequency, JAX and XLA make a signal of 2 (1 - 1) = 0 elements.
  const bool is_of_one = lengths.back() == 0 && agrees(tail.back(), 1);
  c.check(is_of_one || agrees(tail.back(), half), 5, "fft_length is {} for {}; its last dimension must be {}",
          text(lengths), operand.to_string(), half);
  tail.back() = lengths.back();
  return {Type::tensor(real_part(element), std::move(dims))};
}

Types rng(const Context& c) {
  constexpr uint32_t kAllowed = kBools | kInts | kFloats;
  const Type& a = c.scalar(0, kAllowed);
  const Type& b = c.scalar(1, kAllowed);
  const Type& shape = c.vector(2, kInts);
  c.check(same_element(a, b), 1, "a is {} and b {}", a.to_string(), b.to_string());
  c.check(c.op().enumeration(Attr::rng_distribution, RngDistribution::kInvalid) != RngDistribution::kNormal ||
              is_float(a.element()),
          2, "a normal distribution of {}", a.to_string());
  if (!c.has_stated())
    return {typed(a, Dims(static_cast<size_t>(std::max<int64_t>(shape.dim(0), 0)), kDynamic))};
  const Type& result = c.stated_tensor(0, kAllowed);
  c.check(same_element(a, result), 1, "a is {} and the result {}", a.to_string(), result.to_string());
  c.check(agrees(shape.dim(0), result.rank()), 3, "shape is {} for the result {}", shape.to_string(),
          result.to_string());
  return {result};
}

Types rng_bit_generator(const Context& c) {
  const Type& state = c.vector(0, kInts);
  const auto algorithm = c.op().enumeration(Attr::rng_algorithm, RngAlgorithm::kDefault);
  const int64_t size = state.dim(0);
  const bool fits = is_dynamic(size) || algorithm == RngAlgorithm::kDefault || size == 2 ||
                    (algorithm == RngAlgorithm::kPhilox && size == 3);
  c.check(fits, 2, "the initial state is {}", state.to_string());
  if (c.stated().size() != 2) c.fail("results", "two results are wanted, state and bits; state their types");
  return {state, c.stated_tensor(1, kInts | kFloats)};
}

}  // namespace opentrn::graph::shape
