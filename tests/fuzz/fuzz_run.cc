#include "isa/constraints.h"
#include "isa/text_random.h"
#include "sim/functional/core.h"
#include "tests/fuzz/fuzz.h"

namespace opentrn::fuzz {

void run_case(uint64_t seed) {
  SplitMix64 random(seed);
  const isa::Program program = isa::random_program(random, 12);
  const auto generation = static_cast<Generation>(2 + random.below(3));
  for (const isa::Instruction& in : program.instructions()) try {
      isa::check(program, in, generation);
    } catch (const Fault& fault) {
      if (fault.kind() == FaultKind::kInternal) broken("a constraint failed: {}", fault.what());
    }
  // One instruction after the other: the first refusal must not hide what comes later.
  sim::CheckOptions checks;
  checks.uninitialised_reads = false;
  checks.instructions_max = 200;
  checks.while_iterations_max = 50;
  checks.tensor_bytes_max = 1 << 24;
  sim::Core core(generation, nullptr, checks);
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) try {
      core.run(program, i, i + 1);
    } catch (const Fault& fault) {
      if (fault.kind() == FaultKind::kInternal) broken("instruction {}: {}", i, fault.what());
    }
}

}  // namespace opentrn::fuzz
