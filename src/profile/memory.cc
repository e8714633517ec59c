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

std::vector<Lifetime> lifetimes(const trace::Trace& trace, const isa::Executable& executable) {
  const isa::Program& program = *executable.program;
  std::vector<Lifetime> lives(program.tensor_count());
  // The engine that triggers a transfer touches none of its bytes.
  std::vector<bool> moved_by_dma(program.size());
  for (const isa::ScheduledInstruction& entry : executable.schedule)
    moved_by_dma[entry.instruction] = entry.engine == isa::Engine::kDma;
  const auto touch = [&](const isa::Operand& operand, const trace::Event& event) {
    if (!operand.is_access()) return;
    Lifetime& life = lives[operand.tensor];
    life.begin = std::min(life.begin, event.start_ns);
    life.end = std::max(life.end, event.end_ns);
  };
  for (const trace::Event& event : trace.events) {
    const trace::TrackKind track = trace.tracks[event.track].kind;
    if (event.instruction >= program.size() || track == trace::TrackKind::kDmaEngine) continue;
    if (moved_by_dma[event.instruction] && track == trace::TrackKind::kEngine) continue;
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

int64_t shared_bytes(const isa::Executable& executable, isa::TensorId a, isa::TensorId b) {
  const isa::Placement &pa = executable.placements[a], &pb = executable.placements[b];
  if (!pa.placed || !pb.placed) return 0;
  const isa::Tensor &ta = executable.program->tensor(a), &tb = executable.program->tensor(b);
  const auto common = [](int64_t begin_a, int64_t size_a, int64_t begin_b, int64_t size_b) {
    return std::max<int64_t>(0, std::min(begin_a + size_a, begin_b + size_b) - std::max(begin_a, begin_b));
  };
  return common(pa.address.partition, ta.rows, pb.address.partition, tb.rows) *
         common(pa.address.byte_offset, ta.row_bytes(), pb.address.byte_offset, tb.row_bytes());
}

// A tensor that is written part by part begins while what lies in its other parts is still read: bytes of two
// tensors of one on-chip memory count once.
void count_shared_once(isa::MemorySpace space, const isa::Executable& executable,
                       const std::vector<Lifetime>& lives, std::vector<std::pair<double, int64_t>>& changes) {
  std::vector<isa::TensorId> by_begin, live;
  for (isa::TensorId id = 0; id < executable.placements.size(); ++id)
    if (executable.program->tensor(id).space == space && lives[id].end >= 0) by_begin.push_back(id);
  std::ranges::sort(by_begin, {}, [&](isa::TensorId id) { return lives[id].begin; });
  for (const isa::TensorId id : by_begin) {
    std::erase_if(live, [&](isa::TensorId other) { return lives[other].end <= lives[id].begin; });
    for (const isa::TensorId other : live) {
      const int64_t shared = shared_bytes(executable, id, other);
      if (shared == 0) continue;
      changes.emplace_back(lives[id].begin, -shared);
      changes.emplace_back(std::min(lives[id].end, lives[other].end), shared);
    }
    live.push_back(id);
  }
}

MemoryCurve curve(isa::MemorySpace space, const trace::Trace& trace, const isa::Executable& executable,
                  const std::vector<Lifetime>& lives) {
  const isa::Program& program = *executable.program;
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
  if (!isa::is_hbm(space)) count_shared_once(space, executable, lives, changes);
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
  const std::vector<Lifetime> lives = lifetimes(trace, executable);
  const Generation generation = executable.generation;
  const arch::NeuronCore& core = tables.neuron_core(generation);
  std::vector<MemoryCurve> curves;
  for (const isa::MemorySpace space :
       {isa::MemorySpace::kSbuf, isa::MemorySpace::kPsum, isa::MemorySpace::kHbm})
    curves.push_back(curve(space, trace, executable, lives));
  if (core.sbuf_bytes_per_partition.known()) curves[0].capacity_bytes = trace.cores * core.sbuf_bytes();
  if (core.psum_bytes_per_partition.known()) curves[1].capacity_bytes = trace.cores * core.psum_bytes();
  curves[2].capacity_bytes = hbm_bytes_per_core(tables, generation);
  return curves;
}

}  // namespace opentrn::profile
