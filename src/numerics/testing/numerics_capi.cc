#include "numerics/testing/numerics_capi.h"

#include "numerics/activation.h"
#include "numerics/convert.h"
#include "numerics/dtype.h"
#include "numerics/mx.h"
#include "numerics/ops.h"
#include "numerics/power.h"
#include "numerics/simd_targets.h"

using namespace opentrn;
using namespace opentrn::numerics;

extern "C" {

int opentrn_dtype(const char* name) {
  const auto dtype = dtype_from_name(name);
  return dtype ? static_cast<int>(*dtype) : -1;
}
int opentrn_activation(const char* name) {
  const auto function = activation_from_name(name);
  return function ? static_cast<int>(*function) : -1;
}

void opentrn_load_f32(int dtype, const void* src, float* dst, size_t n) {
  load_f32(static_cast<DType>(dtype), src, dst, n);
}
void opentrn_store_f32(int dtype, const float* src, void* dst, size_t n, int stochastic, uint64_t seed,
                       uint64_t counter) {
  const auto mode = stochastic != 0 ? Rounding::Mode::kStochastic : Rounding::Mode::kNearestEven;
  store_f32(static_cast<DType>(dtype), src, dst, n, {mode, seed, counter});
}
void opentrn_activate(int function, const float* in, float* out, size_t n, float param) {
  activate(static_cast<ActivationFunction>(function), in, out, n, param);
}
double opentrn_activation_error_ulp(int function) {
  return activation_error_ulp(static_cast<ActivationFunction>(function));
}
void opentrn_power(const float* x, const float* y, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = power(x[i], y[i]);
}
void opentrn_unpack_x4(int dtype, const void* src, float* dst, size_t n) {
  unpack_x4(static_cast<DType>(dtype), src, dst, n);
}
void opentrn_pack_x4(int dtype, const float* src, void* dst, size_t n) {
  pack_x4(static_cast<DType>(dtype), src, dst, n);
}

int opentrn_force_simd_target(int index) {
  const auto targets = simd_targets();
  const auto count = static_cast<int>(targets.size());
  force_simd_target(index >= 0 && index < count ? targets[static_cast<size_t>(index)] : "");
  return count;
}

}  // extern "C"
