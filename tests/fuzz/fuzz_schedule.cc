#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "backend/compile.h"
#include "backend/passes/common_subexpressions.h"
#include "backend/passes/psum_evictions.h"
#include "backend/passes/rewrite.h"
#include "backend/passes/vectorise_loops.h"
#include "isa/constraints.h"
#include "isa/file.h"
#include "isa/text.h"
#include "sim/functional/physical.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/kernel_generator.h"

namespace opentrn::fuzz {

namespace {

using Buffers = std::vector<sim::Binding>;

// Inputs filled from `seed`, outputs fresh.
Buffers bindings(const Kernel& kernel, uint64_t seed) {
  SplitMix64 random(seed);
  Buffers all;
  for (isa::TensorId id : kernel.inputs) {
    auto buffer = sim::Buffer::allocate(kernel.program->tensor(id).bytes());
    for (int64_t i = 0; i < buffer->bytes() / 4; ++i) {
      const float value = static_cast<float>(random.uniform() * 4 - 2);
      std::memcpy(buffer->data() + 4 * i, &value, sizeof value);
    }
    buffer->mark_all_initialised();
    all.push_back({id, buffer});
  }
  for (isa::TensorId id : kernel.outputs)
    all.push_back({id, sim::Buffer::allocate(kernel.program->tensor(id).bytes())});
  return all;
}

void compare(const Kernel& kernel, const Buffers& expected, const Buffers& found, const std::string& what) {
  for (size_t i = kernel.inputs.size(); i < expected.size(); ++i) {
    const sim::Buffer &a = *expected[i].buffer, &b = *found[i].buffer;
    if (std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) != 0)
      broken("output {} differs between program order and {}\n{}", i - kernel.inputs.size(), what,
             isa::to_text(*kernel.program));
  }
}

// Everything done a second time on tensors of its own: equal results to be shared, tensors to be spilled.
std::shared_ptr<const isa::Program> twice(const isa::Program& program) {
  backend::Rewrite rewrite(program);
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) rewrite.keep(i);
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id)
    if (isa::is_on_chip(program.tensor(id).space))
      rewrite.rename(id, rewrite.clone(id, program.tensor(id).space));
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) rewrite.keep(i);
  return std::make_shared<const isa::Program>(rewrite.take());
}

// The tables with this many bytes of SBUF in a partition.
std::shared_ptr<const arch::Tables> small_memory(int64_t bytes) {
  std::vector<std::string> settings;
  for (const int generation : {3, 4})
    settings.push_back(fmt::format("neuron_core.v{}.sbuf_bytes_per_partition={}", generation, bytes));
  return arch::load_tables({.files = {}, .settings = settings});
}

// As neuronx-cc would compile it, with little memory; nothing when even so it does not fit.
std::optional<isa::Executable> compile_tight(const Kernel& kernel, backend::Options options,
                                             SplitMix64& random) {
  static const std::array tables = {small_memory(512), small_memory(768), small_memory(1536)};
  options.neuronx_cc = true;
  options.tables = tables[random.below(tables.size())].get();
  const bool again = !backend::has_control_flow(*kernel.program);
  try {
    return backend::compile(again ? twice(*kernel.program) : kernel.program, options);
  } catch (const Fault& fault) {
    if (fault.kind() != FaultKind::kCapacity) throw;
    return std::nullopt;
  }
}

void run(const isa::Program& program, Generation generation, const Buffers& buffers) {
  for (const isa::Instruction& in : program.instructions()) isa::check(program, in, generation);
  sim::Core core(generation);
  for (const sim::Binding& binding : buffers) core.bind(binding.tensor, binding.buffer);
  core.run(program);
}

}  // namespace

void passes_case(uint64_t seed) {
  SplitMix64 random(seed);
  const Kernel kernel = random_kernel(random, false);
  const auto generation = static_cast<Generation>(3 + random.below(2));
  constexpr int64_t kSbufBytes = 196608, kPartitions = 128, kBankBytes = 2048;
  try {
    const uint64_t values = random.next();
    const Buffers expected = bindings(kernel, values);
    run(*kernel.program, generation, expected);
    const auto shared = backend::eliminate_common_subexpressions(kernel.program, kSbufBytes, kPartitions, {});
    for (const auto& program :
         {backend::vectorise_iterations(kernel.program, kBankBytes),
          backend::vectorise_iterations(shared, kBankBytes), backend::hoist_psum_evictions(kernel.program)}) {
      const Buffers found = bindings(kernel, values);
      run(*program, generation, found);
      compare(kernel, expected, found, fmt::format("\n{}", isa::to_text(*program)));
    }
  } catch (const Fault& fault) {
    broken("a legal kernel was refused: {}\n{}", fault.what(), isa::to_text(*kernel.program));
  }
}

void schedule_case(uint64_t seed) {
  SplitMix64 random(seed);
  const bool loops = random.below(2) == 0;
  const Kernel kernel = random_kernel(random, loops);
  const auto generation = static_cast<Generation>(3 + random.below(2));
  try {
    const uint64_t values = random.next();
    const Buffers expected = bindings(kernel, values);
    run(*kernel.program, generation, expected);

    backend::Options options;
    options.generation = generation;
    options.look_ahead = static_cast<int>(random.below(3)) * 8;
    std::vector<isa::Executable> compiled = {backend::compile(kernel.program, options)};
    options.neuronx_cc = true;
    compiled.push_back(backend::compile(kernel.program, options));
    for (const isa::Instruction& in : compiled.back().program->instructions())
      isa::check(*compiled.back().program, in, generation);
    if (auto tight = compile_tight(kernel, options, random)) compiled.push_back(std::move(*tight));
    for (size_t i = 0; i < 2 * compiled.size(); ++i) {
      const isa::Executable executable = isa::decode_executable(isa::encode(compiled[i / 2]));
      const Buffers found = bindings(kernel, values);
      sim::PhysicalOptions physical;
      physical.seed = random.next();
      sim::run_executable(executable, found, physical);
      compare(kernel, expected, found, fmt::format("the schedule, interleaving {}", physical.seed));
    }
  } catch (const Fault& fault) {
    broken("a legal kernel was refused: {}\n{}", fault.what(), isa::to_text(*kernel.program));
  }
}

}  // namespace opentrn::fuzz
