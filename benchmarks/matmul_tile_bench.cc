// Speed of numerics::matmul_tile on one thread, in multiply-accumulates per second: one JSON line per
// shape and SIMD target. Compare with a BLAS in the same run: benchmarks/matmul_tile_vs_numpy.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "base/random.h"
#include "numerics/matmul.h"
#include "numerics/simd_targets.h"

namespace {

using opentrn::numerics::MatmulTile;

struct Shape {
  int K, M, N;
};

// Best of several batches, as the machine may be shared; a batch runs for about 20 ms.
double best_seconds_per_tile(const MatmulTile& tile) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_of = [&tile](int repeats) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) opentrn::numerics::matmul_tile(tile);
    return std::chrono::duration<double>(Clock::now() - start).count() / repeats;
  };
  const int repeats = std::max(1, static_cast<int>(0.02 / seconds_of(3)));
  double best = seconds_of(repeats);
  for (int batch = 0; batch < 15; ++batch) best = std::min(best, seconds_of(repeats));
  return best;
}

void measure(Shape s, const char* target) {
  opentrn::SplitMix64 rng(1);
  std::vector<float> stationary(static_cast<size_t>(s.K) * s.M), moving(static_cast<size_t>(s.K) * s.N);
  std::vector<float> acc(static_cast<size_t>(s.M) * s.N);
  for (float& x : stationary) x = static_cast<float>(rng.uniform() - 0.5);
  for (float& x : moving) x = static_cast<float>(rng.uniform() - 0.5);
  const MatmulTile tile{stationary.data(),
                        moving.data(),
                        acc.data(),
                        s.K,
                        s.M,
                        s.N,
                        static_cast<size_t>(s.M),
                        static_cast<size_t>(s.N),
                        static_cast<size_t>(s.N),
                        true};
  const double seconds = best_seconds_per_tile(tile);
  std::printf("{\"target\": \"%s\", \"K\": %d, \"M\": %d, \"N\": %d, \"gmac_per_s\": %.2f}\n", target, s.K,
              s.M, s.N, 1e-9 * s.K * s.M * s.N / seconds);
}

}  // namespace

int main() {
  for (const std::string& target : opentrn::numerics::simd_targets()) {
    if (target == "SCALAR" || target == "EMU128") continue;
    opentrn::numerics::force_simd_target(target);
    for (const Shape s :
         {Shape{128, 128, 512}, {128, 128, 128}, {512, 128, 512}, {64, 64, 512}, {128, 1, 512}}) {
      measure(s, target.c_str());
    }
  }
}
