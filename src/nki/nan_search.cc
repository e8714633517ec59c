#include "nki/nan_search.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "isa/roles.h"
#include "numerics/convert.h"
#include "sim/functional/core_group.h"

namespace opentrn::nki {

namespace {

using isa::TensorId;

bool holds_nan(const sim::Buffer& buffer, DType dtype) {
  if (!is_float(dtype) || !buffer.contiguous()) return false;
  constexpr int64_t kChunk = 1024;  // elements
  std::array<float, kChunk> values;
  const int64_t element_bytes = size_bytes(dtype);
  const int64_t elements = buffer.bytes() / element_bytes;
  for (int64_t begin = 0; begin < elements; begin += kChunk) {
    const int64_t n = std::min(kChunk, elements - begin);
    if (!buffer.initialised().test_all(begin * element_bytes, n * element_bytes))
      continue;  // not all a result
    numerics::load_f32(dtype, buffer.data() + begin * element_bytes, values.data(), static_cast<size_t>(n));
    for (int64_t i = 0; i < n; ++i)
      if (std::isnan(values[static_cast<size_t>(i)])) return true;
  }
  return false;
}

bool results_hold_nan(Machine& machine) {
  const isa::Program& program = *machine.program();
  const std::vector<bool> written = isa::written_tensors(program);
  for (TensorId id = 0; id < program.tensor_count(); ++id) {
    const isa::Tensor& tensor = program.tensor(id);
    if (!written[id] || !isa::is_hbm(tensor.space)) continue;
    const auto buffer = machine.core().buffer(id);
    if (buffer && holds_nan(*buffer, tensor.dtype)) return true;
  }
  return false;
}

// Gives `core` the memory that the second run starts from; false when that is not to be had.
bool bind_again(Machine& machine, sim::Core& core, std::vector<std::shared_ptr<sim::Buffer>>& shared) {
  const isa::Program& program = *machine.program();
  const std::vector<bool> written = isa::written_tensors(program);
  for (const auto& [id, buffer] : machine.host_buffers()) {
    const DType dtype = program.tensor(id).dtype;
    if (written[id]) {
      core.bind(id, sim::Buffer::allocate(buffer->bytes()));
    } else {
      if (holds_nan(*buffer, dtype)) return false;
      core.bind(id, buffer);
    }
  }
  if (machine.core_count() == 1) return true;
  size_t next = 0;  // shared_hbm tensors pair up by the order in which the cores made them
  for (TensorId id = 0; id < program.tensor_count(); ++id) {
    const isa::Tensor& tensor = program.tensor(id);
    if (tensor.space != isa::MemorySpace::kSharedHbm || tensor.is_input) continue;
    if (next == shared.size()) shared.push_back(sim::Buffer::allocate(tensor.bytes()));
    core.bind(id, shared[next++]);
  }
  return true;
}

}  // namespace

std::optional<Fault> find_nan_origin(std::span<const std::shared_ptr<Machine>> machines) {
  if (std::ranges::none_of(machines, [](const auto& machine) { return results_hold_nan(*machine); }))
    return std::nullopt;
  sim::CheckOptions checks = machines.front()->core().checks();
  checks.nan_origin = true;
  checks.core_races = false;  // the first run had none; this one begins with other values in what is written
  sim::CoreGroup group(machines.front()->generation(), static_cast<int>(machines.size()), nullptr, checks);
  std::vector<std::shared_ptr<sim::Buffer>> shared;
  std::vector<const isa::Program*> programs;
  for (size_t rank = 0; rank < machines.size(); ++rank) {
    sim::Core& core = group.core(static_cast<int>(rank));
    if (!bind_again(*machines[rank], core, shared)) return std::nullopt;
    core.set_print_callback([](auto&&...) {});
    core.set_stochastic_rounding(machines[rank]->rounding_seed());
    programs.push_back(machines[rank]->program().get());
  }
  try {
    group.run(programs);
  } catch (const Fault& fault) {
    if (fault.label() == "sim.nan_origin") return fault;
    // An input that the kernel overwrites is not there any more: the question stays open.
    if (fault.label() != "sim.uninitialised_read") throw;
  }
  return std::nullopt;
}

}  // namespace opentrn::nki
