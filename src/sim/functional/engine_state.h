// What stays in the engines between instructions: accumulators and random generators.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <vector>

#include "numerics/xorwow.h"
#include "sim/functional/context.h"

namespace opentrn::sim {

// One fp32 register per lane. The Vector Engine's are shared by all its accumulating instructions, the
// Scalar Engine's by activation, activation_reduce and activate2. [doc: nki.isa.activation, exponential]
struct Accumulators {
  std::array<float, kPartitionsMax> value{};
  std::bitset<kPartitionsMax> defined;
};

struct EngineState {
  Accumulators vector;
  Accumulators scalar;
  std::vector<numerics::Xorwow> gpsimd_random;        // by lane
  std::vector<numerics::VectorXorwow> vector_random;  // by lane

  EngineState() { seed(0); }
  // Power-on state [assumed: as after set_rng_seed(0)].
  void seed(uint32_t value) {
    gpsimd_random.clear();
    vector_random.clear();
    for (uint32_t lane = 0; lane < kPartitionsMax; ++lane) {
      gpsimd_random.push_back(numerics::Xorwow::from_seed(value, lane));
      vector_random.push_back(numerics::VectorXorwow::from_seed(value, lane));
    }
  }
};

}  // namespace opentrn::sim
