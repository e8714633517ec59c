// Every instruction has a row of costs in the timing table of every generation that has it, or a reason.
#include <gtest/gtest.h>

#include <map>
#include <string_view>

#include "arch/arch.h"
#include "isa/definitions.h"

namespace opentrn::sim::timing {
namespace {

// What a timed run does with the instructions that have no row.
const std::map<std::string_view, std::string_view>& without_rows() {
  static const std::map<std::string_view, std::string_view> reasons = {
      {"dma_copy", "DMA follows from the rates of engines and memories"},
      {"dma_transpose", "DMA follows from the rates of engines and memories"},
      {"dma_compute", "DMA follows from the rates of engines and memories"},
      {"sendrecv", "the exchange follows from the rates of DMA"},
      {"core_barrier", "the wait follows from the other core; the barrier itself is a constant"},
      {"nc_matmul_sparse", "timed by the row of nc_matmul: columns of moving per cycle"},
      {"custom_op", "its author states its time"},
      {"set_rng_seed", "no source: a timed run fails by its name"},
      {"rand_set_state", "no source: a timed run fails by its name"},
      {"rand_get_state", "no source: a timed run fails by its name"},
  };
  return reasons;
}

TEST(CostRows, EveryInstructionHasOneOnEveryGenerationThatHasIt) {
  // NeuronCore-v1 has those of v2 (arch/stated.h).
  for (const Generation generation : {Generation::kV2, Generation::kV3, Generation::kV4})
    for (const isa::InstructionDefinition& row : isa::definitions()) {
      if (row.engines == 0 || row.first_generation > generation) continue;
      EXPECT_NE(arch::timing(generation).has_cost(row.name), without_rows().contains(row.name))
          << row.name << " on " << opentrn::name(generation);
    }
}

TEST(CostRows, EveryReasonIsOfAnInstruction) {
  for (const auto& [name, reason] : without_rows()) {
    EXPECT_TRUE(isa::opcode_from_name(name)) << name;
    EXPECT_FALSE(reason.empty()) << name;
  }
}

}  // namespace
}  // namespace opentrn::sim::timing
