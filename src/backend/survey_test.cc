#include "backend/survey.h"

#include <gtest/gtest.h>

#include "backend/allocation.h"
#include "backend/array_places.h"
#include "backend/occupancy.h"
#include "backend/sample_programs.h"

namespace opentrn::backend {
namespace {

// What the one walk finds, by one walk for each question.
void expect_same(const std::shared_ptr<const isa::Program>& program) {
  const Survey survey(program);
  const isa::Kinds kinds(*program);
  ASSERT_EQ(survey.kinds->count(), kinds.count());
  for (isa::InstructionIndex i = 0; i < program->size(); ++i) ASSERT_EQ(survey.kinds->of(i), kinds.of(i));
  const std::vector<Lifetime> lifetimes = find_lifetimes(*program, find_loops(*program));
  ASSERT_EQ(survey.lifetimes.size(), lifetimes.size());
  for (isa::TensorId id = 0; id < lifetimes.size(); ++id) {
    ASSERT_EQ(survey.lifetimes[id].used, lifetimes[id].used) << id;
    ASSERT_EQ(survey.lifetimes[id].first, lifetimes[id].first) << id;
    ASSERT_EQ(survey.lifetimes[id].last, lifetimes[id].last) << id;
  }
  if (survey.products_ask) return;
  // With nothing asked, every tensor may start where it could if there were no products.
  ArrayPlaces asked(*program, false), free(*program, true);
  for (isa::TensorId id = 0; id < lifetimes.size(); ++id) ASSERT_EQ(asked.starts(id), free.starts(id)) << id;
}

TEST(Survey, PropertyOneWalkFindsWhatSeveralFind) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    expect_same(random_program(seed, 120));
    expect_same(random_tiles(seed));
    expect_same(random_tiles(seed, 3));
  }
}

TEST(Survey, ProductsOfWholeTilesAskForNoPlaces) {
  EXPECT_FALSE(Survey(matmul_fully_blocked({512, 2048, 1024, DType::kBFloat16}, 2, 2, 4)).products_ask);
  ProgramBuilder b;
  const auto x = b.sbuf(32, 64, DType::kBFloat16), y = b.sbuf(32, 64, DType::kBFloat16);
  b.matmul(b.all(b.psum(64, 64)), b.all(x), b.all(y), false);
  EXPECT_TRUE(Survey(b.take()).products_ask);
}

TEST(Survey, PropertyPeaksAreCountedWhileTensorsArePlaced) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const auto program = random_tiles(seed, seed % 3 == 0 ? 2 : 0);
    const Survey survey(program);
    const arch::NeuronCore& core = arch::neuron_core(Generation::kV3);
    const auto placed = *allocate(*program, survey.lifetimes, Options{}, core);
    EXPECT_EQ(placed.sbuf_bytes_per_partition_used,
              peak_live_bytes(*program, survey.lifetimes, isa::MemorySpace::kSbuf, core.partitions));
    EXPECT_EQ(placed.psum_banks_used,
              peak_live_banks(*program, survey.lifetimes, placed.placements, isa::MemorySpace::kPsum,
                              core.psum_bank_bytes_per_partition));
  }
}

}  // namespace
}  // namespace opentrn::backend
