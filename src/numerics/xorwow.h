// The pseudo-random generator of the engines, and what is made from it.
//
// nki.isa.rand_set_state and rand2 name the algorithm XORWOW (Marsaglia 2003) with 6 words of state
// per compute lane on GpSimd and 24 on Vector. The order of the words (x, y, z, w, v, d), and that 24
// words are four generators used in turn, are assumed, as is how set_rng_seed spreads one 32-bit seed.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace opentrn::numerics {

class Xorwow {
 public:
  static constexpr size_t kStateWords = 6;
  using State = std::array<uint32_t, kStateWords>;

  explicit Xorwow(const State& state = {123456789, 362436069, 521288629, 88675123, 5783321, 6615241})
      : state_(state) {}
  // One seed and lane to a state [assumed].
  static Xorwow from_seed(uint32_t seed, uint32_t lane);

  uint32_t next();
  void fill(uint32_t* out, size_t n);
  const State& state() const { return state_; }
  friend bool operator==(const Xorwow&, const Xorwow&) = default;

 private:
  State state_;
};

// Four generators used in turn: element i of a row comes from generator i mod 4, counted over the
// life of the state [assumed]. Words 6g..6g+5 belong to generator g.
class VectorXorwow {
 public:
  static constexpr size_t kStateWords = 24;
  using State = std::array<uint32_t, kStateWords>;

  explicit VectorXorwow(const State& state);
  static VectorXorwow from_seed(uint32_t seed, uint32_t lane);

  uint32_t next();
  void fill(uint32_t* out, size_t n);
  State state() const;

 private:
  std::array<Xorwow, 4> generators_;
  uint32_t turn_ = 0;
};

// The top 24 bits as a multiple of 2^-24 in [0, 1) [assumed].
float unit_uniform(uint32_t random32);
// min + u * (max - min), in fp32 [doc: nki.isa.rand2 gives the distribution; the arithmetic is assumed].
void uniform_row(const uint32_t* random, float min, float max, float* out, size_t n);
// Keeps in[i] when unit_uniform(random[i]) >= drop_probability, else +0: probability 1 drops all and 0
// keeps all [doc: nki.isa.dropout; the comparison is assumed]. Kept values are not rescaled.
void dropout_row(const float* in, const uint32_t* random, float drop_probability, float* out, size_t n);

}  // namespace opentrn::numerics
