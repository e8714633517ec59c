// dropout, rng, set_rng_seed, rand_set_state, rand_get_state, rand2.
//
// Lane i of an engine's generator serves row i of the tensor that is written. Which generator instructions
// use before NeuronCore-v4, and in which order a lane's elements draw, is not public: element order.
// [assumed]
#include <cstring>

#include <fmt/format.h>

#include "numerics/xorwow.h"
#include "sim/functional/access.h"
#include "sim/functional/engine_state.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/rows.h"

namespace opentrn::sim::bodies {

namespace {

EngineState& random_state(const Context& cx) {
  OPENTRN_CHECK((engine_state_used(cx.program, cx.in) & kRandomState) != 0, "{} draws unannounced",
                cx.name());
  return cx.engines();
}

bool on_gpsimd(const Context& cx) { return cx.engine() == isa::Engine::kGpSimd; }

}  // namespace

void dropout(Context& cx) {
  using namespace isa::slot::dropout;
  View data = cx.source(kData);
  const PerPartition probability = cx.per_partition(kProb, data.partitions);
  const View dst = cx.destination(kDst);
  cx.expect_same_shape(dst, data, kDst, kData);
  if (dst.dtype != data.dtype)
    cx.broken("dtype", fmt::format("dst is {}, data is {}", name(dst.dtype), name(data.dtype)));
  cx.separate(dst, data);
  const int64_t lane = cx.lane(dst, kDst);
  const int bytes = dst.element_bytes;
  const int64_t n = dst.elements;
  cx.parallel(dst.partitions, dst.repeats() ? 0 : dst.total(), [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    uint32_t* random = scope.array<uint32_t>(n);
    std::byte* row = scope.bytes(n * bytes);
    for (int64_t p = begin; p < end; ++p) {
      random_state(cx).vector_random.lanes()[static_cast<size_t>(lane + p)].fill(random,
                                                                                 static_cast<size_t>(n));
      std::byte* to = row;
      for_runs_of_partition(data, p, [&](std::byte* at, int64_t count, int64_t stride) {
        numerics::copy_bits(bytes, at, stride / bytes, to, 1, static_cast<size_t>(count));
        to += count * bytes;
      });
      for (int64_t i = 0; i < n; ++i)
        if (!(numerics::unit_uniform(random[i]) >= probability.at(p)))
          std::memset(row + i * bytes, 0, static_cast<size_t>(bytes));
      const std::byte* from = row;
      for_runs_of_partition(dst, p, [&](std::byte* at, int64_t count, int64_t stride) {
        numerics::copy_bits(bytes, from, 1, at, stride / bytes, static_cast<size_t>(count));
        from += count * bytes;
      });
    }
  });
}

// 32 random bits per element, of which the low ones are kept.
void rng(Context& cx) {
  using namespace isa::slot::rng;
  const View dst = cx.destination(kDst);
  if (!is_integer(dst.dtype))
    cx.broken("dtype", fmt::format("dst is {}", name(dst.dtype)), "use an integer type");
  const int64_t lane = cx.lane(dst, kDst);
  const int64_t n = dst.elements;
  cx.parallel(dst.partitions, dst.repeats() ? 0 : dst.total() * 4, [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    uint32_t* random = scope.array<uint32_t>(n);
    int64_t* wide = scope.array<int64_t>(n);
    for (int64_t p = begin; p < end; ++p) {
      const size_t at = static_cast<size_t>(lane + p);
      if (on_gpsimd(cx))
        random_state(cx).gpsimd_random.lanes()[at].fill(random, static_cast<size_t>(n));
      else
        random_state(cx).vector_random.lanes()[at].fill(random, static_cast<size_t>(n));
      std::copy_n(random, n, wide);
      store_row_i64(dst, p, wide);
    }
  });
}

// Seeds the Vector Engine only. [doc: nki.isa.set_rng_seed]
void set_rng_seed(Context& cx) {
  using namespace isa::slot::set_rng_seed;
  const View seed = cx.source(kSrcSeeds);
  if (seed.total() != 1 || seed.element_bytes != 4)
    cx.broken("shape", fmt::format("the seed is {} elements of {}", seed.total(), name(seed.dtype)),
              "use a [1, 1] tile of 32 bits");
  uint32_t value;
  std::memcpy(&value, seed.base, sizeof value);
  auto& lanes = random_state(cx).vector_random.lanes();
  for (uint32_t lane = 0; lane < lanes.size(); ++lane)
    lanes[lane] = numerics::VectorXorwow::from_seed(value, lane);
}

namespace {

// Words of state per lane of the instruction's engine.
int64_t state_words(const Context& cx) {
  return static_cast<int64_t>(cx.engine() == isa::Engine::kVector ? numerics::VectorXorwow::kStateWords
                                                                  : numerics::Xorwow::kStateWords);
}

}  // namespace

void rand_set_state(Context& cx) {
  using namespace isa::slot::rand_set_state;
  const View seeds = cx.source(kSrcSeeds);
  const int64_t words = state_words(cx);
  cx.expect_elements(seeds, kSrcSeeds, words);
  if (seeds.element_bytes != 4)
    cx.broken("dtype", fmt::format("the state is {}", name(seeds.dtype)), "use uint32");
  const int64_t lane = cx.lane(seeds, kSrcSeeds);
  std::array<int64_t, numerics::VectorXorwow::kStateWords> row;
  for (int64_t p = 0; p < seeds.partitions; ++p) {
    load_row_i64(seeds, p, row.data());
    const size_t at = static_cast<size_t>(lane + p);
    if (words == static_cast<int64_t>(numerics::Xorwow::kStateWords)) {
      numerics::Xorwow::State state;
      for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<uint32_t>(row[i]);
      random_state(cx).gpsimd_random.lanes()[at] = numerics::Xorwow(state);
    } else {
      numerics::VectorXorwow::State state;
      for (size_t i = 0; i < state.size(); ++i) state[i] = static_cast<uint32_t>(row[i]);
      random_state(cx).vector_random.lanes()[at] = numerics::VectorXorwow(state);
    }
  }
}

void rand_get_state(Context& cx) {
  using namespace isa::slot::rand_get_state;
  const View dst = cx.destination(kDst);
  const int64_t words = state_words(cx);
  cx.expect_elements(dst, kDst, words);
  if (dst.element_bytes != 4) cx.broken("dtype", fmt::format("dst is {}", name(dst.dtype)), "use uint32");
  const int64_t lane = cx.lane(dst, kDst);
  std::array<int64_t, numerics::VectorXorwow::kStateWords> row;
  for (int64_t p = 0; p < dst.partitions; ++p) {
    const size_t at = static_cast<size_t>(lane + p);
    if (words == static_cast<int64_t>(numerics::Xorwow::kStateWords)) {
      std::copy_n(random_state(cx).gpsimd_random.lanes()[at].state().begin(), words, row.begin());
    } else {
      const auto state = random_state(cx).vector_random.lanes()[at].state();
      std::copy(state.begin(), state.end(), row.begin());
    }
    store_row_i64(dst, p, row.data());
  }
}

void rand2(Context& cx) {
  using namespace isa::slot::rand2;
  const int64_t partitions = cx.unchecked(kDst).partitions;
  const PerPartition low = cx.per_partition(kMin, partitions);
  const PerPartition high = cx.per_partition(kMax, partitions);
  const View dst = cx.destination(kDst);
  const int64_t lane = cx.lane(dst, kDst);
  const int64_t n = dst.elements;
  cx.parallel(dst.partitions, dst.repeats() ? 0 : dst.total() * 4, [&](int64_t begin, int64_t end) {
    ScratchScope scope;
    uint32_t* random = scope.array<uint32_t>(n);
    float* row = scope.floats(n);
    for (int64_t p = begin; p < end; ++p) {
      random_state(cx).vector_random.lanes()[static_cast<size_t>(lane + p)].fill(random,
                                                                                 static_cast<size_t>(n));
      numerics::uniform_row(random, low.at(p), high.at(p), row, static_cast<size_t>(n));
      store_row(dst, p, row);
    }
  });
}

}  // namespace opentrn::sim::bodies
