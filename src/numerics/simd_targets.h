// Which Highway targets OpenTrn compiles, and a way for tests to run each of them. Include this
// before any Highway header.
//
// Compiled: AVX3 (AVX-512), AVX2, NEON, and the portable fallback for every other processor. Left out:
// x86 targets without fused multiply-add, where the fallback serves (results need std::fma there);
// finer AVX-512 levels, which would double compile time for nothing used here; and targets whose
// vectors have no compile-time size (SVE, RVV), which cannot be held in the arrays that kernels use:
// SVE machines run NEON. Bits are those of hwy/detect_targets.h, stable over 1.x.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#define HWY_DISABLED_TARGETS (0x7CFFLL | 0x0FFF8000LL | (0x1FFLL << 30))

namespace opentrn::numerics {

// Targets that this build contains and this processor runs, best first: "AVX3", "AVX2", "EMU128"; "AVX3_BF16"
// is AVX3 with products of pairs of bf16 (pair_products.h).
std::vector<std::string> simd_targets();
// The one in use.
std::string simd_target();
// Whether products of bf16 go by pairs: where that is faster, or the named target says so.
bool uses_pair_products();
// Tests and benchmarks only: every kernel uses the named target from now on; empty restores the best. Not
// thread-safe.
void force_simd_target(const std::string& name);

}  // namespace opentrn::numerics
