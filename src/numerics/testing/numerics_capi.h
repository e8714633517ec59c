// A C interface to numerics, so that Python tests can compare it with ml_dtypes and torch before and
// without any binding. Tests only; not installed. Enumerations travel as their integer values.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

// -1 when the name is unknown.
int opentrn_dtype(const char* name);
int opentrn_activation(const char* name);

void opentrn_load_f32(int dtype, const void* src, float* dst, size_t n);
// Rounds to nearest even, or stochastically when `stochastic` is not 0.
void opentrn_store_f32(int dtype, const float* src, void* dst, size_t n, int stochastic, uint64_t seed,
                       uint64_t counter);
void opentrn_activate(int function, const float* in, float* out, size_t n, float param);
double opentrn_activation_error_ulp(int function);
void opentrn_power(const float* x, const float* y, float* out, size_t n);
// n counts packed elements; the fp32 row has 4 n.
void opentrn_unpack_x4(int dtype, const void* src, float* dst, size_t n);
void opentrn_pack_x4(int dtype, const float* src, void* dst, size_t n);

// Number of SIMD targets of this machine; forces one when 0 <= index < that, else the best.
int opentrn_force_simd_target(int index);

}  // extern "C"
