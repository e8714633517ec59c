// Speed of numerics::matmul_tile on one thread, in multiply-accumulates per second: one JSON line per
// shape and SIMD target. Compare with a BLAS in the same run: benchmarks/matmul_tile_vs_numpy.py.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <new>
#include <string>

#include "base/random.h"
#include "numerics/matmul.h"
#include "numerics/simd_targets.h"

namespace {

using opentrn::numerics::MatmulTile;

// Rows of `moving` lie `pitch` elements apart; 0: its columns.
struct Shape {
  int K, M, N;
  opentrn::DType dtype = opentrn::DType::kFloat32;
  int pitch = 0;
};

// Best of many batches, as the machine may be shared; a batch runs for about 2 ms.
double best_seconds_per_tile(const MatmulTile& tile) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_of = [&tile](int repeats) {
    const auto start = Clock::now();
    for (int i = 0; i < repeats; ++i) opentrn::numerics::matmul_tile(tile);
    return std::chrono::duration<double>(Clock::now() - start).count() / repeats;
  };
  const int repeats = std::max(1, static_cast<int>(0.002 / seconds_of(3)));
  double best = seconds_of(repeats);
  for (int batch = 0; batch < 150; ++batch) best = std::min(best, seconds_of(repeats));
  return best;
}

// Words that begin with a cache line, as a core's memory does.
class Words {
 public:
  explicit Words(size_t count) : begin_(new (kLine) uint32_t[count]()), end_(begin_ + count) {}
  ~Words() { ::operator delete[](begin_, kLine); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  uint32_t* begin() { return begin_; }
  uint32_t* end() { return end_; }

 private:
  static constexpr std::align_val_t kLine{64};
  uint32_t* begin_;
  uint32_t* end_;
};

// Random bits of small values: two bf16 or one fp32 in each word.
void fill(Words& words, opentrn::SplitMix64& rng) {
  for (uint32_t& word : words) word = (rng.next32() & 0x007f007fu) | 0x3f003f00u;
}

void measure(const Shape& s, const char* target) {
  opentrn::SplitMix64 rng(1);
  const size_t k = static_cast<size_t>(s.K), m = static_cast<size_t>(s.M), n = static_cast<size_t>(s.N);
  const size_t pitch = s.pitch == 0 ? n : static_cast<size_t>(s.pitch);
  const size_t per_word = 4 / static_cast<size_t>(opentrn::size_bytes(s.dtype));
  Words stationary(k * m / per_word), moving(k * pitch / per_word), acc(m * n);
  fill(stationary, rng);
  fill(moving, rng);
  const MatmulTile tile{{stationary.begin(), m, s.dtype},
                        {moving.begin(), pitch, s.dtype},
                        reinterpret_cast<float*>(acc.begin()),
                        s.K,
                        s.M,
                        s.N,
                        n,
                        true};
  const double seconds = best_seconds_per_tile(tile);
  std::printf(
      "{\"target\": \"%s\", \"K\": %d, \"M\": %d, \"N\": %d, \"dtype\": \"%s\", \"pitch\": %zu, "
      "\"gmac_per_s\": "
      "%.2f}\n",
      target, s.K, s.M, s.N, std::string(opentrn::name(s.dtype)).c_str(), pitch,
      1e-9 * s.K * s.M * s.N / seconds);
}

}  // namespace

int main() {
  for (const std::string& target : opentrn::numerics::simd_targets()) {
    if (target == "SCALAR" || target == "EMU128") continue;
    opentrn::numerics::force_simd_target(target);
    for (const Shape& s : {Shape{128, 128, 512},
                           {128, 128, 128},
                           {512, 128, 512},
                           {64, 64, 512},
                           {128, 128, 49},
                           {128, 128, 196},
                           {128, 128, 280},
                           {128, 128, 504},
                           {64, 64, 504},
                           {128, 1, 512},
                           {128, 128, 512, opentrn::DType::kBFloat16},
                           {128, 128, 512, opentrn::DType::kBFloat16, 8192}}) {
      // Of fp32 it is AVX3.
      if (target == "AVX3_BF16" && s.dtype == opentrn::DType::kFloat32) continue;
      measure(s, target.c_str());
    }
  }
}
