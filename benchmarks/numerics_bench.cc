// Speed of the row kernels of numerics on one thread, in elements per second: one JSON line each, for
// rows of 2048 fp32 elements that stay in the first-level cache.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "base/random.h"
#include "numerics/activation.h"
#include "numerics/alu.h"
#include "numerics/convert.h"
#include "numerics/simd_targets.h"
#include "numerics/transpose.h"

namespace {

using namespace opentrn;
using namespace opentrn::numerics;

constexpr size_t kElements = 2048;

template <typename Body>
void measure(const std::string& what, size_t elements, Body body) {
  using Clock = std::chrono::steady_clock;
  double best = 1e9;
  for (int batch = 0; batch < 10; ++batch) {
    constexpr int kRepeats = 200;
    const auto start = Clock::now();
    for (int i = 0; i < kRepeats; ++i) body();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count() / kRepeats);
  }
  std::printf("{\"target\": \"%s\", \"kernel\": \"%s\", \"gelem_per_s\": %.3f}\n", simd_target().c_str(),
              what.c_str(), 1e-9 * static_cast<double>(elements) / best);
}

void measure_all() {
  SplitMix64 rng(1);
  std::vector<float> a(kElements), b(kElements), out(kElements);
  for (float& x : a) x = static_cast<float>(rng.uniform() * 8 - 4);
  for (float& x : b) x = static_cast<float>(rng.uniform() * 8 - 4);
  std::vector<uint64_t> codes(kElements);
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (is_packed_x4(dtype)) continue;
    measure("store " + std::string(name(dtype)), kElements,
            [&] { store_f32(dtype, a.data(), codes.data(), kElements); });
    measure("load " + std::string(name(dtype)), kElements,
            [&] { load_f32(dtype, codes.data(), out.data(), kElements); });
  }
  const Rounding stochastic{Rounding::Mode::kStochastic, 1, 0};
  measure("store bfloat16 stochastic", kElements,
          [&] { store_f32(DType::kBFloat16, a.data(), codes.data(), kElements, stochastic); });
  for (const AluOp op : {AluOp::kAdd, AluOp::kMaximum, AluOp::kDivide, AluOp::kEqual, AluOp::kPower}) {
    measure("tensor_tensor " + std::string(name(op)), kElements,
            [&] { alu_tensor_tensor(op, a.data(), b.data(), out.data(), kElements); });
  }
  measure("reduce add", kElements, [&] { out[0] = alu_reduce(AluOp::kAdd, 0.0f, a.data(), kElements); });
  measure("reduce maximum", kElements,
          [&] { out[0] = alu_reduce(AluOp::kMaximum, 0.0f, a.data(), kElements); });
  measure("scan multiply add", kElements,
          [&] { alu_scan(AluOp::kMultiply, AluOp::kAdd, a.data(), b.data(), 0.0f, out.data(), kElements); });
  constexpr size_t kRows = 16, kPitch = kElements / kRows;
  const std::vector<float> initial(kRows);
  measure("scan multiply add, 16 rows", kElements, [&] {
    alu_scan_rows(AluOp::kMultiply, AluOp::kAdd,
                  {kRows, kPitch, a.data(), kPitch, b.data(), kPitch, initial.data(), out.data(), kPitch});
  });
  for (int i = 0; i < kActivationFunctionCount; ++i) {
    const auto f = static_cast<ActivationFunction>(i);
    measure("activate " + std::string(name(f)), kElements,
            [&] { activate(f, a.data(), out.data(), kElements); });
  }
  std::vector<uint64_t> tile(128 * 128), turned(128 * 128);
  for (const int bytes : {1, 2, 4, 8}) {
    measure("transpose 128x128 of " + std::to_string(bytes) + " bytes", tile.size(),
            [&] { transpose(bytes, tile.data(), 128, 128, 128, turned.data(), 128); });
  }
}

}  // namespace

int main() {
  for (const std::string& target : simd_targets()) {
    if (target == "SCALAR" || target == "EMU128") continue;
    force_simd_target(target);
    measure_all();
  }
}
