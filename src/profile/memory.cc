#include <algorithm>
#include <cmath>
#include <limits>

#include "profile/model.h"

namespace opentrn::profile {

namespace {

constexpr size_t kStepsMax = 512;

struct Lifetime {
  double begin = std::numeric_limits<double>::infinity();
  double end = -1;
};

std::vector<Lifetime> lifetimes(const trace::Trace& trace, const isa::Program& program) {
  std::vector<Lifetime> lives(program.tensor_count());
  const auto touch = [&](const isa::Operand& operand, const trace::Event& event) {
    if (!operand.is_access()) return;
    Lifetime& life = lives[operand.tensor];
    life.begin = std::min(life.begin, event.start_ns);
    life.end = std::max(life.end, event.end_ns);
  };
  for (const trace::Event& event : trace.events) {
    if (event.instruction >= program.size() || trace.tracks[event.track].kind == trace::TrackKind::kDmaEngine)
      continue;
    const isa::Instruction& in = program.instruction(event.instruction);
    for (int i = 0; i < in.operand_count; ++i) {
      const isa::Operand& operand = program.operand(in, i);
      touch(operand, event);
      if (operand.is_access() && operand.indirect != isa::kNoIndirect)
        touch(program.indirect(operand).index, event);
    }
  }
  return lives;
}

// The largest step of every stretch of time, and the last.
std::vector<std::pair<double, int64_t>> thinned(const std::vector<std::pair<double, int64_t>>& steps,
                                                double total_ns) {
  if (steps.size() <= kStepsMax) return steps;
  const double stretch = 2 * total_ns / kStepsMax;
  std::vector<std::pair<double, int64_t>> kept;
  for (size_t i = 0; i < steps.size();) {
    const double until = (std::floor(steps[i].first / stretch) + 1) * stretch;
    size_t end = i, largest = i;
    for (; end < steps.size() && steps[end].first < until; ++end)
      if (steps[end].second > steps[largest].second) largest = end;
    kept.push_back(steps[largest]);
    if (largest + 1 != end) kept.push_back(steps[end - 1]);
    i = end;
  }
  return kept;
}

bool belongs(isa::MemorySpace space, const isa::Tensor& tensor) {
  return isa::is_hbm(space) ? isa::is_hbm(tensor.space) : tensor.space == space;
}

MemoryCurve curve(isa::MemorySpace space, const trace::Trace& trace, const isa::Program& program,
                  const std::vector<Lifetime>& lives) {
  const double total_ns = trace.summary.total_ns;
  std::vector<std::pair<double, int64_t>> changes;
  for (isa::TensorId id = 0; id < program.tensor_count(); ++id) {
    const isa::Tensor& tensor = program.tensor(id);
    if (!belongs(space, tensor)) continue;
    // Inputs, weights and results are there before and after the run.
    const bool stays = tensor.is_input || tensor.is_output;
    const Lifetime life = stays ? Lifetime{0, total_ns} : lives[id];
    if (life.end < 0) continue;
    changes.emplace_back(life.begin, tensor.bytes());
    if (!stays) changes.emplace_back(life.end, -tensor.bytes());
  }
  // At one time, what is freed goes first: the allocator gives the same bytes to the next.
  std::ranges::sort(changes);
  MemoryCurve result;
  result.space = space;
  int64_t now = 0;
  std::vector<std::pair<double, int64_t>> steps;
  for (size_t i = 0; i < changes.size(); ++i) {
    now += changes[i].second;
    if (i + 1 < changes.size() && changes[i + 1].first == changes[i].first) continue;
    steps.emplace_back(changes[i].first, now);
    if (now <= result.peak_bytes) continue;
    result.peak_bytes = now;
    result.peak_ns = changes[i].first;
  }
  result.steps = thinned(steps, total_ns);
  return result;
}

}  // namespace

std::vector<MemoryCurve> memory_over_time(const trace::Trace& trace, const isa::Executable& executable,
                                          const arch::Tables& tables) {
  const isa::Program& program = *executable.program;
  const std::vector<Lifetime> lives = lifetimes(trace, program);
  const Generation generation = executable.generation;
  const arch::NeuronCore& core = tables.neuron_core(generation);
  std::vector<MemoryCurve> curves;
  for (const isa::MemorySpace space :
       {isa::MemorySpace::kSbuf, isa::MemorySpace::kPsum, isa::MemorySpace::kHbm})
    curves.push_back(curve(space, trace, program, lives));
  if (core.sbuf_bytes_per_partition.known()) curves[0].capacity_bytes = trace.cores * core.sbuf_bytes();
  if (core.psum_bytes_per_partition.known()) curves[1].capacity_bytes = trace.cores * core.psum_bytes();
  curves[2].capacity_bytes = hbm_bytes_per_core(tables, generation);
  return curves;
}

}  // namespace opentrn::profile
