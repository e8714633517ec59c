// LAPACK's calls as JAX writes them for the CPU: what stands for them, by products of the factors.
#include "import/lapack.h"

#include <cmath>
#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/fault.h"
#include "graph/eval/evaluate.h"
#include "import/load.h"

namespace opentrn::import {
namespace {

using graph::ElementType;
using graph::Literal;
using graph::Type;
using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

using Floats = std::vector<float>;

Literal matrix_of(std::vector<int64_t> dims, const Floats& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {Type::tensor(ElementType::kF32, std::move(dims)), {bytes.begin(), bytes.end()}};
}

// The results of @main, whose body is `text`.
std::vector<Literal> results_of(const std::string& text, const std::vector<Literal>& arguments) {
  const graph::Module module = load_text(text, "test");
  std::vector<graph::eval::RuntimeValue> values(arguments.begin(), arguments.end());
  std::vector<Literal> results;
  for (const auto& value : graph::eval::evaluate(module, module.entry(), values))
    results.push_back(value.literal());
  return results;
}

template <typename T = float>
std::vector<T> values_of(const Literal& literal) {
  std::vector<T> values(static_cast<size_t>(literal.type().element_count()));
  std::memcpy(values.data(), literal.dense().data(), values.size() * sizeof(T));
  return values;
}

// Row-major [n, k] times [k, m].
Floats product(const Floats& a, const Floats& b, size_t n, size_t k, size_t m) {
  Floats out(n * m, 0);
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < m; ++j)
      for (size_t l = 0; l < k; ++l) out[i * m + j] += a[i * k + l] * b[l * m + j];
  return out;
}

const Floats kTall{2, -1, 0.5F, 3, -2, 1, 0.25F, 4};      // 4 x 2
const Floats kSquare{4, 1, 0.5F, 1, 3, -1, 0.5F, -1, 5};  // symmetric and positive definite

TEST(Lapack, QrHasTheFactorsOfTheMatrix) {
  const auto made = results_of(R"(
func.func @main(%a: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %0:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%a) {backend_config = "", mhlo.backend_config = {}} : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>)
  %1 = stablehlo.custom_call @lapack_sorgqr_ffi(%0#0, %0#1) {mhlo.backend_config = {}} : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  return %1, %0#0 : tensor<4x2xf32>, tensor<4x2xf32>
})",
                               {matrix_of({4, 2}, kTall)});
  Floats r = values_of(made[1]);
  r.resize(4);
  r[2] = 0;
  EXPECT_THAT(product(values_of(made[0]), r, 4, 2, 2), Pointwise(FloatNear(1e-5F), kTall));
}

TEST(Lapack, LuHasPivotsFromOne) {
  const auto made = results_of(R"(
func.func @main(%a: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<i32>) {
  %0:3 = stablehlo.custom_call @lapack_sgetrf_ffi(%a) {mhlo.backend_config = {}} : (tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2xi32>, tensor<i32>)
  return %0#0, %0#1, %0#2 : tensor<2x2xf32>, tensor<2xi32>, tensor<i32>
})",
                               {matrix_of({2, 2}, {1, 2, 4, 4})});
  EXPECT_THAT(values_of(made[0]), ElementsAre(4, 4, 0.25F, 1));
  EXPECT_THAT(values_of<int32_t>(made[1]), ElementsAre(2, 2));
  EXPECT_THAT(values_of<int32_t>(made[2]), ElementsAre(0));
}

TEST(Lapack, SingularValuesMultiplyToTheMatrix) {
  const auto made = results_of(R"(
func.func @main(%a: tensor<4x2xf32>) -> (tensor<2xf32>, tensor<4x2xf32>, tensor<2x2xf32>, tensor<i32>) {
  %0:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%a) {mhlo.backend_config = {mode = 83 : ui8}} : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<4x2xf32>, tensor<2x2xf32>, tensor<i32>)
  return %0#1, %0#2, %0#3, %0#4 : tensor<2xf32>, tensor<4x2xf32>, tensor<2x2xf32>, tensor<i32>
})",
                               {matrix_of({4, 2}, kTall)});
  const Floats s = values_of(made[0]);
  EXPECT_GT(s[0], s[1]);
  Floats scaled = values_of(made[1]);
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= s[i % 2];
  EXPECT_THAT(product(scaled, values_of(made[2]), 4, 2, 2), Pointwise(FloatNear(1e-5F), kTall));
}

TEST(Lapack, SquareAndFullSizesOfVectors) {
  const auto made = results_of(R"(
func.func @main(%a: tensor<4x2xf32>) -> (tensor<2xf32>, tensor<4x4xf32>) {
  %0:5 = stablehlo.custom_call @lapack_sgesdd_ffi(%a) {mhlo.backend_config = {mode = 65 : ui8}} : (tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>, tensor<4x4xf32>, tensor<2x2xf32>, tensor<i32>)
  return %0#1, %0#2 : tensor<2xf32>, tensor<4x4xf32>
})",
                               {matrix_of({4, 2}, kTall)});
  const Floats u = values_of(made[1]);
  for (size_t i = 0; i < 4; ++i)
    for (size_t j = 0; j < 4; ++j) {
      float dot = 0;
      for (size_t k = 0; k < 4; ++k) dot += u[4 * k + i] * u[4 * k + j];
      EXPECT_NEAR(dot, i == j ? 1 : 0, 1e-5);
    }
}

TEST(Lapack, EigenvectorsAreThoseOfTheMatrix) {
  const auto made = results_of(R"(
func.func @main(%a: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>) {
  %0:3 = stablehlo.custom_call @lapack_ssyevd_ffi(%a) {mhlo.backend_config = {mode = 86 : ui8, uplo = 76 : ui8}} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<3xf32>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xf32>, tensor<3xf32>
})",
                               {matrix_of({3, 3}, kSquare)});
  const Floats v = values_of(made[0]), w = values_of(made[1]);
  EXPECT_TRUE(std::is_sorted(w.begin(), w.end()));
  Floats scaled = v;
  for (size_t i = 0; i < scaled.size(); ++i) scaled[i] *= w[i % 3];
  EXPECT_THAT(product(kSquare, v, 3, 3, 3), Pointwise(FloatNear(2e-5F), scaled));
}

constexpr const char* kCholesky = R"(
func.func @main(%a: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>) {
  %0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 76 : ui8}} : (tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<i32>)
  return %0#0, %0#1 : tensor<3x3xf32>, tensor<i32>
})";

TEST(Lapack, CholeskyKeepsTheOtherTriangleAndTellsAFailure) {
  auto made = results_of(kCholesky, {matrix_of({3, 3}, kSquare)});
  Floats l = values_of(made[0]);
  EXPECT_EQ(l[1], kSquare[1]);
  EXPECT_EQ(l[2], kSquare[2]);
  l[1] = l[2] = l[5] = 0;
  const Floats transposed{l[0], l[3], l[6], l[1], l[4], l[7], l[2], l[5], l[8]};
  EXPECT_THAT(product(l, transposed, 3, 3, 3), Pointwise(FloatNear(1e-5F), kSquare));
  EXPECT_THAT(values_of<int32_t>(made[1]), ElementsAre(0));
  made = results_of(kCholesky, {matrix_of({3, 3}, {1, 2, 0, 2, 1, 0, 0, 0, 1})});
  EXPECT_THAT(values_of<int32_t>(made[1]), ElementsAre(1));
}

TEST(Lapack, TriangularSystemsOfEverySide) {
  const Floats lower{2, 7, 3, 4};  // [[2, 7], [3, 4]]: the 7 is not read
  const std::string text = R"(
func.func @main(%a: tensor<2x2xf32>, %b: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = stablehlo.custom_call @lapack_strsm_ffi(%a, %b) {mhlo.backend_config = {diag = 78 : ui8, side = SIDE : ui8, trans_x = TRANS : ui8, uplo = 76 : ui8}} : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  return %0 : tensor<2x2xf32>
})";
  const Floats b{1, 2, 3, 4}, triangle{2, 0, 3, 4}, upper{2, 3, 0, 4};
  for (const char side : {'L', 'R'})
    for (const char transposed : {'N', 'T', 'C'}) {
      std::string each = text;
      each.replace(each.find("SIDE"), 4, std::to_string(side))
          .replace(each.find("TRANS"), 5, std::to_string(transposed));
      const Floats x = values_of(results_of(each, {matrix_of({2, 2}, lower), matrix_of({2, 2}, b)})[0]);
      const Floats& op = transposed == 'N' ? triangle : upper;
      EXPECT_THAT(side == 'L' ? product(op, x, 2, 2, 2) : product(x, op, 2, 2, 2),
                  Pointwise(FloatNear(1e-5F), b));
    }
}

std::string refusal_of(const std::string& call) {
  try {
    load_text("func.func @main(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {\n" + call +
                  "\nreturn %0#0 : tensor<2x2xf32>\n}",
              "test");
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.label(), "import.lapack");
    return fault.what();
  }
  return "";
}

TEST(Lapack, CallsThatNoKernelHasAreRefused) {
  EXPECT_THAT(refusal_of("%0:2 = stablehlo.custom_call @lapack_sgetrf_ffi(%a) : (tensor<2x2xf32>) -> "
                         "(tensor<2x2xf32>, tensor<2xi32>)"),
              HasSubstr("it has 2 results"));
  EXPECT_THAT(refusal_of("%0:2 = stablehlo.custom_call @lapack_sgeqrf_ffi(%a) : (tensor<2x2xf32>) -> "
                         "(tensor<2x2xf32>, tensor<3xf32>)"),
              HasSubstr("result 1 is tensor<3xf32>, not tensor<2xf32>"));
  EXPECT_THAT(
      refusal_of(
          "%0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) {mhlo.backend_config = {uplo = 1 : ui8}} : "
          "(tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<i32>)"),
      HasSubstr("uplo is"));
  EXPECT_THAT(refusal_of("%0:2 = stablehlo.custom_call @lapack_spotrf_ffi(%a) : (tensor<2x2xf32>) -> "
                         "(tensor<2x2xf32>, tensor<i32>)"),
              HasSubstr("its attribute uplo is missing"));
  EXPECT_EQ(refusal_of("%0:2 = stablehlo.custom_call @lapack_sgehrd_ffi(%a) : (tensor<2x2xf32>) -> "
                       "(tensor<2x2xf32>, tensor<1xf32>)"),
            "");  // stays as it is
}

// HLO holds the attributes as MLIR's text.
TEST(Lapack, AttributesMayBeText) {
  std::string text = kCholesky;
  const std::string from = "mhlo.backend_config = {uplo = 76 : ui8}";
  text.replace(text.find(from), from.size(), "backend_config = \"{uplo = 76 : ui8}\"");
  EXPECT_THAT(values_of<int32_t>(results_of(text, {matrix_of({3, 3}, kSquare)})[1]), ElementsAre(0));
}

}  // namespace
}  // namespace opentrn::import
