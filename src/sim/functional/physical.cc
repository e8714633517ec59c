#include "sim/functional/physical.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "base/random.h"
#include "isa/tensor_label.h"
#include "sim/functional/context.h"
#include "sim/functional/race_detector.h"

namespace opentrn::sim {

using isa::Executable;
using isa::InstructionIndex;
using isa::Opcode;
using isa::Program;
using isa::Role;
using isa::TensorId;

namespace {

enum Memory { kSbuf, kPsum, kHbm, kMemories };

Memory memory_of(isa::MemorySpace space) {
  if (space == isa::MemorySpace::kSbuf) return kSbuf;
  return space == isa::MemorySpace::kPsum ? kPsum : kHbm;
}

}  // namespace

class PhysicalMachine {
 public:
  PhysicalMachine(const Executable& executable, const PhysicalOptions& options, ThreadPool* pool)
      : executable_(executable),
        program_(*executable.program),
        options_(options),
        core_(executable.generation, pool, options.checks),
        random_(options.seed) {
    core_.set_stochastic_rounding(options.stochastic_rounding);
    isa::verify(executable);
    place_tensors();
    index_streams();
    if (options.detect_races) start_race_detection();
  }

  PhysicalReport run(std::span<const Binding> bindings) {
    copy_in(bindings);
    while (done_count_ < executable_.schedule.size()) step();
    copy_out(bindings);
    return report_;
  }

 private:
  struct FlatMemory {
    int64_t rows = 0;
    int64_t pitch = 0;
    std::shared_ptr<Buffer> bytes;
  };

  // -- memories

  void place_tensors() {
    if (executable_.placements.size() < program_.tensor_count())
      throw Fault(
          FaultKind::kInternal, "sim.placement",
          fmt::format("{} placements of {} tensors", executable_.placements.size(), program_.tensor_count()));
    std::vector<bool> used(program_.tensor_count());
    for (const isa::Instruction& in : program_.instructions())
      for (const isa::Operand& op : program_.operands(in)) {
        if (op.is_access()) used[op.tensor] = true;
        if (op.is_access() && op.indirect != isa::kNoIndirect && program_.indirect(op).index.is_access())
          used[program_.indirect(op).index.tensor] = true;
      }
    for (TensorId id = 0; id < program_.tensor_count(); ++id) {
      if (!used[id]) continue;
      const isa::Placement& place = executable_.placements[id];
      const isa::Tensor& tensor = program_.tensor(id);
      const bool bad =
          !place.placed || place.address.partition < 0 || place.address.byte_offset < 0 ||
          (isa::is_on_chip(tensor.space) && place.address.partition + tensor.rows > kPartitionsMax);
      if (bad)
        throw Fault(
            FaultKind::kInternal, "sim.placement",
            fmt::format("{} has no place in {}", isa::tensor_label(program_, id), isa::name(tensor.space)));
      FlatMemory& memory = memories_[memory_of(tensor.space)];
      memory.rows = isa::is_on_chip(tensor.space) ? kPartitionsMax : 1;
      const int64_t length = isa::is_on_chip(tensor.space) ? tensor.row_bytes() : tensor.bytes();
      memory.pitch = std::max(memory.pitch, (place.address.byte_offset + length + 63) / 64 * 64);
    }
    const int64_t per_byte = options_.detect_races ? 13 : 1;
    int64_t total = 0;
    for (const FlatMemory& memory : memories_) total += memory.rows * memory.pitch * per_byte;
    if (total > options_.memory_bytes_max)
      throw Fault(
          FaultKind::kCapacity, "sim.physical_memory",
          fmt::format("the memories need {} bytes, the limit is {}", total, options_.memory_bytes_max),
          "turn detect_races off, or raise memory_bytes_max");
    for (FlatMemory& memory : memories_) {
      memory.bytes = Buffer::allocate(memory.rows * memory.pitch);
      std::memset(memory.bytes->data(), 0, static_cast<size_t>(memory.bytes->bytes()));
    }
    for (TensorId id = 0; id < program_.tensor_count(); ++id)
      if (used[id]) core_.bind(id, placed(id));
  }

  int64_t address_of(TensorId id) const {
    const isa::Address& address = executable_.placements[id].address;
    const FlatMemory& memory = memories_[memory_of(program_.tensor(id).space)];
    return address.partition * memory.pitch + address.byte_offset;
  }

  std::shared_ptr<Buffer> placed(TensorId id) {
    const isa::Tensor& tensor = program_.tensor(id);
    FlatMemory& memory = memories_[memory_of(tensor.space)];
    const bool on_chip = isa::is_on_chip(tensor.space);
    return Buffer::placed(memory.bytes->data() + address_of(id), on_chip ? tensor.rows : 1,
                          on_chip ? tensor.row_bytes() : tensor.bytes(), memory.pitch, memory.bytes);
  }

  void copy_in(std::span<const Binding> bindings) {
    for (const Binding& binding : bindings) {
      const std::shared_ptr<Buffer> to = bound(binding);
      if (to == nullptr) continue;
      std::memcpy(to->data(), binding.buffer->data(), static_cast<size_t>(to->bytes()));
      if (binding.buffer->initialised().all()) to->mark_all_initialised();
    }
  }

  void copy_out(std::span<const Binding> bindings) {
    for (const Binding& binding : bindings) {
      const std::shared_ptr<Buffer> from = bound(binding);
      if (from == nullptr || !binding.buffer->writable()) continue;
      std::memcpy(binding.buffer->data(), from->data(), static_cast<size_t>(from->bytes()));
      if (from->initialised().all()) binding.buffer->mark_all_initialised();
    }
  }

  // The placed buffer of a bound HBM tensor; null when the program never touches it.
  std::shared_ptr<Buffer> bound(const Binding& binding) {
    OPENTRN_CHECK(binding.tensor < program_.tensor_count(), "tensor {} bound", binding.tensor);
    const isa::Tensor& tensor = program_.tensor(binding.tensor);
    if (!isa::is_hbm(tensor.space) || binding.buffer->bytes() != tensor.bytes())
      throw Fault(
          FaultKind::kInput, "sim.bound_size",
          fmt::format("{} is {} bytes in {}, the buffer has {}", isa::tensor_label(program_, binding.tensor),
                      tensor.bytes(), isa::name(tensor.space), binding.buffer->bytes()));
    return core_.buffer(binding.tensor);
  }

  // -- streams

  void index_streams() {
    const size_t n = executable_.schedule.size();
    streams_.resize(executable_.streams.size());
    heads_.resize(executable_.streams.size());
    done_.resize(n);
    entry_of_instruction_.resize(n);
    for (uint32_t entry = 0; entry < n; ++entry) {
      streams_[executable_.schedule[entry].stream].push_back(entry);
      entry_of_instruction_[executable_.schedule[entry].instruction] = entry;
    }
    for (InstructionIndex i = 0; i < program_.size(); ++i)
      if (isa::is_loop_marker(program_.instruction(i).opcode)) markers_.push_back(i);
  }

  bool is_ready(uint32_t entry) const {
    for (uint32_t wait : executable_.waits_of(executable_.schedule[entry]))
      if (!done_[wait]) return false;
    return true;
  }

  void step() {
    ready_.clear();
    for (size_t s = 0; s < streams_.size(); ++s)
      if (heads_[s] < streams_[s].size() && is_ready(streams_[s][heads_[s]]))
        ready_.push_back(static_cast<uint32_t>(s));
    if (ready_.empty())
      throw Fault(FaultKind::kInternal, "sim.schedule_deadlock",
                  fmt::format("no stream can go on after {} instructions", report_.instructions_executed));
    if (ready_.size() > 1) ++report_.choices;
    const uint32_t stream = ready_[random_.below(static_cast<uint32_t>(ready_.size()))];
    const uint32_t entry = streams_[stream][heads_[stream]++];
    ++report_.instructions_executed;
    execute(entry);
    done_[entry] = true;
    ++done_count_;
    if (jump_to_) take_jump();
  }

  void execute(uint32_t entry) {
    const InstructionIndex index = executable_.schedule[entry].instruction;
    const Opcode opcode = program_.instruction(index).opcode;
    check_loop_order(index, opcode);
    if (options_.detect_races) track(entry, index);
    if (isa::has(opcode, isa::kSynchronisesCores))
      throw Fault(FaultKind::kNotModelled, fmt::format("{}.physical", isa::name(opcode)),
                  "physical execution runs one core", "run the program in program order with CoreGroup");
    if (!isa::is_control(opcode)) return core_.execute(program_, index);
    const InstructionIndex next = core_.execute_control(program_, index);
    if (!isa::is_loop_marker(opcode)) return;
    // Everything so far is complete, everything later waits: check_loop_order has seen to that.
    for (Shadow& shadow : shadows_) shadow.barrier(static_cast<ExecutionId>(entry_of_execution_.size()));
    next_marker_ = index + 1;
    if (next != index + 1) jump_to_ = {index, next};
  }

  // -- loops

  struct Jump {
    InstructionIndex from;
    InstructionIndex to;
  };

  InstructionIndex upcoming_marker() const {
    const auto it = std::lower_bound(markers_.begin(), markers_.end(), next_marker_);
    return it == markers_.end() ? UINT32_MAX : *it;
  }

  // No instruction overtakes a loop marker, in either direction.
  void check_loop_order(InstructionIndex index, Opcode opcode) const {
    const InstructionIndex marker = upcoming_marker();
    bool bad = index > marker;
    if (isa::is_loop_marker(opcode) && !bad)
      for (InstructionIndex i = next_marker_; i < index && !bad; ++i) bad = !done_[entry_of_instruction_[i]];
    if (bad)
      located(index, Fault(FaultKind::kInternal, "sim.loop_order",
                           fmt::format("instruction {} crosses loop marker {}", index, marker)));
  }

  // Back to a loop's body, or past its end.
  void take_jump() {
    const auto [from, to] = *jump_to_;
    jump_to_.reset();
    next_marker_ = to;
    const bool back = to <= from;
    for (InstructionIndex i = back ? to : from + 1; i < (back ? from + 1 : to); ++i) set_done(i, !back);
    for (size_t s = 0; s < streams_.size(); ++s) {
      heads_[s] = 0;
      while (heads_[s] < streams_[s].size() && done_[streams_[s][heads_[s]]]) ++heads_[s];
    }
  }

  void set_done(InstructionIndex index, bool done) {
    const uint32_t entry = entry_of_instruction_[index];
    if (done_[entry] == done) return;
    done_[entry] = done;
    done_count_ += done ? 1 : -1;
  }

  // -- races

  void start_race_detection() {
    order_ = std::make_unique<ScheduleOrder>(executable_);
    for (const FlatMemory& memory : memories_)
      shadows_.emplace_back(*order_, entry_of_execution_, memory.rows * memory.pitch);
    shadows_.emplace_back(*order_, entry_of_execution_, program_.register_count());
  }

  void track(uint32_t entry, InstructionIndex index) {
    const ExecutionId now = static_cast<ExecutionId>(entry_of_execution_.size());
    entry_of_execution_.push_back(entry);
    Context cx(core_, program_, index);
    const auto slots = isa::definition(cx.in.opcode).operands;
    const auto role = [&](int slot) {
      return slots[std::min<size_t>(static_cast<size_t>(slot), slots.size() - 1)].role;
    };
    try {
      cx.validate();
      for (int slot = 0; slot < cx.operand_count(); ++slot)
        if (role(slot) != Role::kOut && !overwrites(cx.in, slot)) track_operand(cx, slot, now, false);
      for (int slot = 0; slot < cx.operand_count(); ++slot)
        if (role(slot) != Role::kIn) track_operand(cx, slot, now, true);
    } catch (Fault& fault) {
      cx.locate(fault);
      throw;
    }
  }

  // A matmul that does not accumulate: it may be the first to use a place that was another tensor's.
  bool overwrites(const isa::Instruction& in, int slot) const {
    return in.opcode == isa::Opcode::kNcMatmul && slot == isa::slot::nc_matmul::kDst &&
           program_.attribute_int(in, isa::slot::nc_matmul::kAAccumulate) == 0;
  }

  void track_operand(Context& cx, int slot, ExecutionId now, bool writes) {
    if (!cx.has(slot)) return;
    const isa::Operand& op = cx.operand(slot);
    if (op.kind == isa::OperandKind::kRegister)
      return touch(cx, slot, now, writes, kMemories, 0, op.tensor, 1);
    if (!op.is_access()) return;
    if (op.indirect != isa::kNoIndirect && !writes) {
      const isa::Operand& index = program_.indirect(op).index;
      if (index.kind == isa::OperandKind::kRegister)
        touch(cx, slot, now, false, kMemories, 0, index.tensor, 1);
    }
    cx.skip_indices_out_of_bounds = true;  // the body reports them
    const View view = cx.unchecked(slot);
    if (view.skipped) return;
    const Memory memory = memory_of(view.space);
    const std::byte* origin = memories_[memory].bytes->data();
    if (cx.is_tensor_indirect(op)) {  // anywhere in its rows
      const int64_t row_bytes = view.buffer->row_bytes();
      for (int64_t row = view.row_begin; row < view.row_end; ++row)
        touch(cx, slot, now, writes, memory, view.tensor,
              view.buffer->data() + row * view.buffer->row_pitch() - origin, row_bytes);
      return;
    }
    for_runs(view, [&](std::byte* at, int64_t count, int64_t stride) {
      if (stride == view.element_bytes || stride == 0)
        return touch(cx, slot, now, writes, memory, view.tensor, at - origin,
                     stride == 0 ? view.element_bytes : count * stride);
      for (int64_t i = 0; i < count; ++i)
        touch(cx, slot, now, writes, memory, view.tensor, at + i * stride - origin, view.element_bytes);
    });
  }

  void touch(const Context& cx, int slot, ExecutionId now, bool writes, int memory, TensorId tensor,
             int64_t begin, int64_t length) {
    Shadow& shadow = shadows_[static_cast<size_t>(memory)];
    Conflict conflict{};
    const bool fine = writes ? shadow.write(now, tensor, begin, length, &conflict)
                             : shadow.read(now, begin, length, &conflict);
    if (!fine) report_race(cx, slot, writes, conflict);
    if (writes || memory == kMemories) return;
    const int64_t foreign = shadow.foreign_byte(tensor, begin, length);
    if (foreign >= 0)
      cx.fail(FaultKind::kInternal, "sim.clobbered",
              fmt::format("{} reads a byte of {} that was last written through {}", cx.operand_name(slot),
                          isa::tensor_label(program_, tensor),
                          isa::tensor_label(program_, shadow.owner(foreign))),
              "two tensors that live at the same time share a place");
  }

  [[noreturn]] void report_race(const Context& cx, int slot, bool writes, const Conflict& conflict) const {
    const InstructionIndex other = executable_.schedule[conflict.earlier_entry].instruction;
    const isa::Instruction& in = program_.instruction(other);
    const SourceLocation at =
        in.location < program_.location_count() ? program_.location(in.location) : SourceLocation{};
    cx.fail(FaultKind::kInternal, "sim.race",
            fmt::format("{} {} what {} (instruction {}{}) {}, and nothing orders the two",
                        cx.operand_name(slot), writes ? "writes" : "reads", isa::name(in.opcode), other,
                        at.known() ? fmt::format(", {}:{}", at.file, at.line) : "",
                        conflict.earlier_wrote ? "writes" : "reads"),
            "the schedule lacks a wait");
  }

  [[noreturn]] void located(InstructionIndex index, Fault fault) const {
    const isa::Instruction& in = program_.instruction(index);
    if (in.location < program_.location_count()) fault.set_location(program_.location(in.location));
    throw fault;
  }

  const Executable& executable_;
  const Program& program_;
  const PhysicalOptions& options_;
  Core core_;
  SplitMix64 random_;
  std::array<FlatMemory, kMemories> memories_;
  std::vector<std::vector<uint32_t>> streams_;  // entries in issue order
  std::vector<size_t> heads_;
  std::vector<uint32_t> ready_;
  std::vector<bool> done_;
  size_t done_count_ = 0;
  std::vector<uint32_t> entry_of_instruction_;
  std::vector<InstructionIndex> markers_;
  InstructionIndex next_marker_ = 0;  // markers before it have run
  std::optional<Jump> jump_to_;
  std::unique_ptr<ScheduleOrder> order_;
  std::vector<uint32_t> entry_of_execution_;
  std::vector<Shadow> shadows_;
  PhysicalReport report_;
};

PhysicalReport run_executable(const Executable& executable, std::span<const Binding> bindings,
                              const PhysicalOptions& options, ThreadPool* pool) {
  return PhysicalMachine(executable, options, pool).run(bindings);
}

}  // namespace opentrn::sim
