#include "numerics/xorwow.h"

#include <algorithm>

#include "base/random.h"

namespace opentrn::numerics {
namespace {

constexpr uint32_t kWeyl = 362437;  // Marsaglia 2003

Xorwow::State seeded_state(uint32_t seed, uint32_t lane, uint32_t generator) {
  SplitMix64 mixer((uint64_t{seed} << 32 | lane) + generator * 0x9E3779B97F4A7C15u);
  Xorwow::State state;
  for (uint32_t& word : state) word = mixer.next32();
  if (std::all_of(state.begin(), state.end() - 1, [](uint32_t word) { return word == 0; })) state[0] = 1;
  return state;
}

}  // namespace

Xorwow Xorwow::from_seed(uint32_t seed, uint32_t lane) { return Xorwow(seeded_state(seed, lane, 0)); }

uint32_t Xorwow::next() {
  auto& [x, y, z, w, v, d] = state_;
  const uint32_t t = x ^ (x >> 2);
  x = y;
  y = z;
  z = w;
  w = v;
  v = (v ^ (v << 4)) ^ (t ^ (t << 1));
  d += kWeyl;
  return d + v;
}

void Xorwow::fill(uint32_t* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = next();
}

VectorXorwow::VectorXorwow(const State& state) {
  for (size_t g = 0; g < generators_.size(); ++g) {
    Xorwow::State part;
    std::copy_n(state.begin() + static_cast<long>(g * part.size()), part.size(), part.begin());
    generators_[g] = Xorwow(part);
  }
}

VectorXorwow VectorXorwow::from_seed(uint32_t seed, uint32_t lane) {
  State state;
  for (uint32_t g = 0; g < 4; ++g) {
    const Xorwow::State part = seeded_state(seed, lane, g);
    std::copy(part.begin(), part.end(), state.begin() + g * part.size());
  }
  return VectorXorwow(state);
}

uint32_t VectorXorwow::next() { return generators_[turn_++ % 4].next(); }

void VectorXorwow::fill(uint32_t* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = next();
}

VectorXorwow::State VectorXorwow::state() const {
  State state;
  for (size_t g = 0; g < generators_.size(); ++g) {
    // The generator whose turn is next comes first, so that a saved and restored state goes on alike.
    const Xorwow::State& part = generators_[(g + turn_) % 4].state();
    std::copy(part.begin(), part.end(), state.begin() + static_cast<long>(g * part.size()));
  }
  return state;
}

float unit_uniform(uint32_t random32) { return static_cast<float>(random32 >> 8) * 0x1p-24f; }

void uniform_row(const uint32_t* random, float min, float max, float* out, size_t n) {
  const float width = max - min;
  for (size_t i = 0; i < n; ++i) out[i] = min + unit_uniform(random[i]) * width;
}

void dropout_row(const float* in, const uint32_t* random, float drop_probability, float* out, size_t n) {
  for (size_t i = 0; i < n; ++i) out[i] = unit_uniform(random[i]) >= drop_probability ? in[i] : 0.0f;
}

}  // namespace opentrn::numerics
