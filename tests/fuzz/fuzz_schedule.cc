#include <cstring>

#include "backend/compile.h"
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

void compare(const Kernel& kernel, const Buffers& expected, const Buffers& found, uint64_t interleaving) {
  for (size_t i = kernel.inputs.size(); i < expected.size(); ++i) {
    const sim::Buffer &a = *expected[i].buffer, &b = *found[i].buffer;
    if (std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) != 0)
      broken("output {} differs between program order and schedule (interleaving {})\n{}",
             i - kernel.inputs.size(), interleaving, isa::to_text(*kernel.program));
  }
}

}  // namespace

void schedule_case(uint64_t seed) {
  SplitMix64 random(seed);
  const Kernel kernel = random_kernel(random);
  const int generation = static_cast<int>(3 + random.below(2));
  try {
    for (const isa::Instruction& in : kernel.program->instructions())
      isa::check(*kernel.program, in, generation);
    const uint64_t values = random.next();
    const Buffers expected = bindings(kernel, values);
    sim::Core core(generation);
    for (const sim::Binding& binding : expected) core.bind(binding.tensor, binding.buffer);
    core.run(*kernel.program);

    backend::Options options;
    options.generation = static_cast<arch::Generation>(generation);
    options.look_ahead = static_cast<int>(random.below(3)) * 8;
    const isa::Executable compiled = backend::compile(kernel.program, options);
    const isa::Executable executable = isa::decode_executable(isa::encode(compiled));
    for (int i = 0; i < 2; ++i) {
      const Buffers found = bindings(kernel, values);
      sim::PhysicalOptions physical;
      physical.seed = random.next();
      sim::run_executable(executable, found, physical);
      compare(kernel, expected, found, physical.seed);
    }
  } catch (const Fault& fault) {
    broken("a legal kernel was refused: {}\n{}", fault.what(), isa::to_text(*kernel.program));
  }
}

}  // namespace opentrn::fuzz
