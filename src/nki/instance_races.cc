#include "nki/instance_races.h"

#include <algorithm>
#include <array>
#include <map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "isa/roles.h"
#include "isa/tensor_label.h"
#include "sim/functional/core.h"

namespace opentrn::nki {

namespace {

using isa::InstructionIndex;
using isa::Operand;
using isa::TensorId;

struct Write {
  InstructionIndex instruction;
  Operand operand;
};

// Bytes of one tensor, [begin, end), that a write covers without a gap.
struct Run {
  int64_t begin, end;
  InstructionIndex instruction;
};

std::map<TensorId, std::vector<Write>> writes_of(const isa::Program& program) {
  std::map<TensorId, std::vector<Write>> writes;
  for (InstructionIndex i = 0; i < program.size(); ++i) {
    const isa::Instruction& in = program.instruction(i);
    if (in.opcode == isa::Opcode::kDmaCompute || in.opcode == isa::Opcode::kCoreBarrier) continue;
    int slot = 0;
    for (const Operand& operand : program.operands(in)) {
      const bool writes_it = operand.is_access() && isa::role_of(program, in, slot) != isa::Role::kIn;
      if (writes_it && operand.indirect == isa::kNoIndirect &&
          isa::is_hbm(program.tensor(operand.tensor).space))
        writes[operand.tensor].push_back({i, operand});
      ++slot;
    }
  }
  return writes;
}

void add_runs(const isa::Program& program, const Write& write, std::vector<Run>& runs) {
  const int64_t size = size_bytes(write.operand.dtype);
  // The innermost dimensions that continue one another are one run.
  std::span<const isa::Dim> dims = program.pattern(write.operand).view();
  int64_t length = 1;
  while (!dims.empty() && (dims.back().step == length || dims.back().count == 1)) {
    length *= dims.back().count;
    dims = dims.first(dims.size() - 1);
  }
  std::array<int64_t, isa::kMaxRank> index{};
  int64_t at = write.operand.offset;
  while (true) {
    runs.push_back({at * size, (at + length) * size, write.instruction});
    size_t d = dims.size();
    while (d > 0 && index[d - 1] + 1 == dims[d - 1].count) {
      at -= index[d - 1] * dims[d - 1].step;
      index[--d] = 0;
    }
    if (d == 0) return;
    ++index[d - 1];
    at += dims[d - 1].step;
  }
}

class Instances {
 public:
  explicit Instances(std::span<const InstructionIndex> begins) : begins_(begins) {}
  // An instance may record nothing and begin where the next one does.
  int64_t of(InstructionIndex instruction) const {
    return std::ranges::upper_bound(begins_, instruction) - begins_.begin() - 1;
  }

 private:
  std::span<const InstructionIndex> begins_;
};

// Of the runs begun so far, where the furthest of one instance ends, and where that of all others.
struct Furthest {
  int64_t end = 0;
  int64_t instance = -1;
};

bool overlap(const Instances& instances, std::vector<Run>& runs) {
  std::ranges::sort(runs, {}, &Run::begin);
  std::array<Furthest, 2> furthest;  // of different instances, the further one first
  for (const Run& run : runs) {
    const int64_t instance = instances.of(run.instruction);
    for (const Furthest& other : furthest)
      if (other.instance != instance && other.end > run.begin) return true;
    Furthest& mine = furthest[furthest[0].instance == instance ? 0 : 1];
    if (run.end > mine.end) mine = {run.end, instance};
    if (furthest[1].end > furthest[0].end) std::swap(furthest[0], furthest[1]);
  }
  return false;
}

std::vector<Run> runs_of(const isa::Program& program, std::span<const Write> writes) {
  std::vector<Run> runs;
  for (const Write& write : writes) add_runs(program, write, runs);
  return runs;
}

// Executes the program once more and looks at every write to tensors that several instances write.
class Replay {
 public:
  Replay(Machine& machine, const Instances& instances)
      : program_(*machine.program()), instances_(instances), core_(machine.generation()) {
    core_.checks() = machine.core().checks();
    core_.set_stochastic_rounding(machine.rounding_seed());
    core_.set_print_callback([](auto&&...) {});
    const std::vector<bool> written = isa::written_tensors(program_);
    for (const auto& [id, buffer] : machine.host_buffers())
      core_.bind(id, written[id] ? sim::Buffer::allocate(buffer->bytes()) : buffer);
  }

  void watch(TensorId id, const std::vector<Write>& writes) {
    watched_[id].writes = writes;
    watched_[id].written.resize(static_cast<size_t>(program_.tensor(id).bytes()));
    for (const Write& write : writes) at_[write.instruction].push_back(write);
  }

  void run() {
    std::vector<sim::Core::Release> releases = last_uses();
    ptrdiff_t released = 0;
    InstructionIndex done = 0;
    const auto execute_to = [&](InstructionIndex end) {
      ptrdiff_t until = released;
      while (until < std::ssize(releases) && releases[static_cast<size_t>(until)].first <= end) ++until;
      core_.run(program_, done, end, {releases.begin() + released, releases.begin() + until});
      released = until;
      done = end;
    };
    for (const auto& [index, writes] : at_) {
      execute_to(index);
      for (const Write& write : writes) keep(write);
      execute_to(index + 1);
      for (const Write& write : writes) compare(write);
    }
  }

 private:
  struct Watched {
    std::vector<Write> writes;
    std::vector<bool> written;    // by byte: by an instance
    std::vector<std::byte> kept;  // what the access held before the write, run by run
  };

  std::vector<sim::Core::Release> last_uses() const {
    std::map<TensorId, InstructionIndex> last;
    for (InstructionIndex i = 0; i < program_.size(); ++i)
      for (const Operand& operand : program_.operands(program_.instruction(i))) {
        if (!operand.is_access()) continue;
        last[operand.tensor] = i;
        if (operand.indirect != isa::kNoIndirect && program_.indirect(operand).index.is_access())
          last[program_.indirect(operand).index.tensor] = i;
      }
    std::vector<sim::Core::Release> releases;
    for (const auto& [id, index] : last)
      if (isa::is_on_chip(program_.tensor(id).space)) releases.push_back({index + 1, id});
    std::ranges::sort(releases);
    return releases;
  }

  std::byte* data(TensorId id) { return core_.buffer(program_, id)->data(); }

  void keep(const Write& write) {
    Watched& watched = watched_[write.operand.tensor];
    watched.kept.clear();
    const std::byte* from = data(write.operand.tensor);
    for (const Run& run : runs_of(program_, {&write, 1}))
      watched.kept.insert(watched.kept.end(), from + run.begin, from + run.end);
  }

  void compare(const Write& write) {
    Watched& watched = watched_[write.operand.tensor];
    const std::byte* now = data(write.operand.tensor);
    size_t at = 0;
    for (const Run& run : runs_of(program_, {&write, 1}))
      for (int64_t byte = run.begin; byte < run.end; ++byte, ++at) {
        if (watched.written[static_cast<size_t>(byte)] && now[byte] != watched.kept[at]) check(write, byte);
        watched.written[static_cast<size_t>(byte)] = true;
      }
  }

  // The byte was written before, and is changed: by another instance?
  void check(const Write& write, int64_t byte) {
    for (const Write& other : watched_[write.operand.tensor].writes) {
      if (other.instruction >= write.instruction) return;
      if (instances_.of(other.instruction) == instances_.of(write.instruction)) continue;
      for (const Run& run : runs_of(program_, {&other, 1}))
        if (run.begin <= byte && byte < run.end)
          fail(other.instruction, write.instruction, write.operand.tensor, byte);
    }
  }

  [[noreturn]] void fail(InstructionIndex first, InstructionIndex second, TensorId id, int64_t byte) const {
    const SourceLocation earlier = program_.location(program_.instruction(first).location);
    Fault fault(
        FaultKind::kProgram, "grid.race",
        fmt::format("instance {} of the launch grid changes element {} of {}, which instance {} has "
                    "written{}: instances have no order, so which value is left is not defined "
                    "(err_unexpected_output_dependencies)",
                    instances_.of(second), byte / size_bytes(program_.tensor(id).dtype),
                    isa::tensor_label(program_, id), instances_.of(first),
                    earlier.known() ? fmt::format(" at {}:{}", earlier.file, earlier.line) : ""),
        "let every instance write a part of its own, chosen by nl.program_id, or launch one instance");
    fault.set_location(program_.location(program_.instruction(second).location));
    throw fault;
  }

  const isa::Program& program_;
  const Instances& instances_;
  sim::Core core_;
  std::map<TensorId, Watched> watched_;
  std::map<InstructionIndex, std::vector<Write>> at_;
};

bool has_loops(const isa::Program& program) {
  return std::ranges::any_of(program.instructions(), [](const isa::Instruction& in) {
    return in.opcode == isa::Opcode::kLoopBegin || in.opcode == isa::Opcode::kWhileBegin;
  });
}

}  // namespace

std::vector<TensorId> tensors_of_several(const isa::Program& program,
                                         std::span<const InstructionIndex> begins) {
  const Instances instances(begins);
  std::vector<TensorId> found;
  for (const auto& [id, writes] : writes_of(program)) {
    if (instances.of(writes.front().instruction) == instances.of(writes.back().instruction)) continue;
    std::vector<Run> runs = runs_of(program, writes);
    if (overlap(instances, runs)) found.push_back(id);
  }
  return found;
}

void check_instances(Machine& machine, std::span<const InstructionIndex> begins) {
  const isa::Program& program = *machine.program();
  const std::vector<TensorId> shared = tensors_of_several(program, begins);
  if (shared.empty() || has_loops(program)) return;
  machine.flush();
  const Instances instances(begins);
  Replay replay(machine, instances);
  const auto writes = writes_of(program);
  for (const TensorId id : shared) replay.watch(id, writes.at(id));
  try {
    replay.run();
  } catch (const Fault& fault) {
    // An input that the kernel overwrites is not there any more: the question stays open.
    if (fault.label() != "sim.uninitialised_read") throw;
  }
}

}  // namespace opentrn::nki
