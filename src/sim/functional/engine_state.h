// What stays in the engines between instructions: accumulators and random generators.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <mutex>
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

// Generators by lane, seeded when somebody first asks for them: that takes longer than a small program does,
// and few programs draw. Threads of one instruction may be the first together.
//
// Power-on state [assumed: as after set_rng_seed(0)].
template <typename Generator>
class Generators {
 public:
  std::vector<Generator>& lanes() {
    std::call_once(made_, [&] {
      lanes_.reserve(kPartitionsMax);
      for (uint32_t lane = 0; lane < kPartitionsMax; ++lane) lanes_.push_back(Generator::from_seed(0, lane));
    });
    return lanes_;
  }

 private:
  std::once_flag made_;
  std::vector<Generator> lanes_;
};

struct EngineState {
  Accumulators vector;
  Accumulators scalar;
  Generators<numerics::Xorwow> gpsimd_random;
  Generators<numerics::VectorXorwow> vector_random;
};

}  // namespace opentrn::sim
