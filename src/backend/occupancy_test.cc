#include "backend/occupancy.h"

#include <gtest/gtest.h>

#include <set>

#include "backend/sample_programs.h"
#include "backend/space_map.h"
#include "base/random.h"

namespace opentrn::backend {
namespace {

// Instruction by instruction, all tensors asked.
TEST(Occupancy, PropertyPeaksAreThoseOfTheInstructionAtWhichMostIsLive) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    SplitMix64 random(seed);
    const auto program = random_program(seed, 60);
    std::vector<Lifetime> lifetimes(program->tensor_count());
    std::vector<isa::Placement> placements(program->tensor_count());
    for (size_t id = 0; id < lifetimes.size(); ++id) {
      const uint32_t first = random.below(60), last = first + random.below(60 - first);
      lifetimes[id] = {first, last, random.below(5) != 0};
      placements[id].address.byte_offset = 512 * random.below(8);
    }
    for (const isa::MemorySpace space : {isa::MemorySpace::kSbuf, isa::MemorySpace::kPsum}) {
      int64_t most = 0, most_banks = 0;
      for (isa::InstructionIndex i = 0; i < 60; ++i) {
        int64_t quarters = 0;
        std::set<int64_t> banks;
        for (isa::TensorId id = 0; id < lifetimes.size(); ++id) {
          const isa::Tensor& tensor = program->tensor(id);
          const Lifetime& life = lifetimes[id];
          if (tensor.space != space || !life.used || i < life.first || life.last < i) continue;
          quarters += quadrants_taken(tensor.rows, 128) * tensor.row_bytes();
          banks.insert(placements[id].address.byte_offset / 2048);
        }
        most = std::max(most, quarters);
        most_banks = std::max(most_banks, static_cast<int64_t>(banks.size()));
      }
      EXPECT_EQ(peak_live_bytes(*program, lifetimes, space, 128), (most + 3) / 4) << "seed " << seed;
      EXPECT_EQ(peak_live_banks(*program, lifetimes, placements, space, 2048), most_banks) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace opentrn::backend
