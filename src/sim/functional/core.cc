#include "sim/functional/core.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <mutex>

#include <fmt/format.h>

#include "base/activity.h"
#include "base/floating_point.h"
#include "base/interrupt.h"
#include "isa/tensor_label.h"
#include "numerics/alu.h"
#include "numerics/convert.h"
#include "sim/functional/chain_run.h"
#include "sim/functional/context.h"
#include "sim/functional/core_group.h"
#include "sim/functional/core_races.h"
#include "sim/functional/engine_state.h"
#include "sim/functional/instructions/body.h"
#include "sim/functional/nan_origin.h"
#include "sim/functional/run_memory.h"

namespace opentrn::sim {

using isa::InstructionIndex;
using isa::Opcode;
using isa::Operand;
using isa::OperandKind;
using isa::Program;
using isa::TensorId;

namespace {

constexpr isa::RegisterId kRegistersMax = 1u << 20;

int64_t wrap_int32(int64_t value) { return static_cast<int32_t>(static_cast<uint32_t>(value)); }

}  // namespace

Core::Core(Generation generation, ThreadPool* pool, CheckOptions checks)
    : generation_(generation),
      pool_(pool),
      checks_(checks),
      block_(sharing_.chains),
      engines_(std::make_unique<EngineState>()) {}

// What is in HBM, too, is memory for the next run.
Core::~Core() {
  for (TensorId id = 0; id < tensors_.size(); ++id) release(id);
}

// -- tensors

void Core::bind(TensorId id, std::shared_ptr<Buffer> buffer) {
  OPENTRN_CHECK(buffer != nullptr, "tensor {} bound to nothing", id);
  release(id);
  if (group_ != nullptr) group_->watch(buffer);
  if (id >= tensors_.size()) tensors_.resize(std::max<size_t>(id + size_t{1}, 2 * tensors_.size()));
  tensors_[id] = {};
  tensors_[id].buffer = std::move(buffer);
  tensors_[id].bound = true;
  bound_.push_back(id);
  bound_changed_ = true;
}

std::shared_ptr<Buffer> Core::buffer(TensorId id) const {
  if (id >= tensors_.size()) return nullptr;
  const std::shared_ptr<Buffer>& buffer = tensors_[id].buffer;
  if (buffer != nullptr && buffer->awaits_fill()) buffer->settle_fill(false);
  return buffer;
}

std::shared_ptr<Buffer> Core::buffer(const Program& program, TensorId id) {
  OPENTRN_CHECK(id < program.tensor_count(), "tensor {} of {}", id, program.tensor_count());
  touch(program, id);
  return buffer(id);
}

void Core::release(TensorId id) {
  if (id >= tensors_.size()) return;
  std::lock_guard guard(memory_lock_);
  if (tensors_[id].buffer == nullptr) return;
  TensorSlot slot = std::move(tensors_[id]);
  tensors_[id] = {};
  const bool placed = remembers_ && memory_->is_placed(id);
  if (placed) memory_->set_placed(id, false);
  if (!slot.bound && !placed && slot.buffer->fold_rows() == 0) buffers_.recycle(std::move(slot.buffer));
}

namespace {

// A tile's rows in the memory of another tensor; null where that has none that lasts.
std::shared_ptr<Buffer> buffer_in(const std::shared_ptr<Buffer>& home, const Placement& place,
                                  const isa::Tensor& tile) {
  if (home == nullptr || home->fold_rows() > 0) return nullptr;
  const int64_t pitch = place.pitch > 0 ? place.pitch : home->row_pitch();
  return Buffer::placed(home->data() + place.row * home->row_pitch() + place.byte, tile.rows,
                        tile.row_bytes(), pitch, home);
}

}  // namespace

// What a tensor reads as before anything writes it, where that is no fault.
void Core::fill_fresh(const isa::Tensor& tensor, Buffer& buffer) const {
  if (!tensor.filled && !checks_.fill_fresh_memory) return;
  if (isa::is_on_chip(tensor.space))
    buffer.fill_when_needed(tensor.dtype);
  else
    buffer.fill_fresh(tensor.dtype);
  // The mask of HBM tells which outputs were written. Nobody asks that of a tile here, and rows of one
  // element would be marked one by one.
  const bool asked = checks_.uninitialised_reads || checks_.nan_origin || isa::is_hbm(tensor.space);
  if (tensor.filled || !asked) buffer.mark_all_initialised();
}

Core::TensorSlot& Core::touch_slow(const Program& program, TensorId id) {
  const isa::Tensor& tensor = program.tensor(id);
  const Placement* const place = remembers_ && !checks_.fill_fresh_memory ? memory_->placement(id) : nullptr;
  if (place != nullptr) touch(program, place->home);
  std::lock_guard guard(memory_lock_);
  if (id >= tensors_.size()) tensors_.resize(std::max(program.tensor_count(), 2 * tensors_.size()));
  TensorSlot& slot = tensors_[id];
  if (slot.ready != nullptr) return slot;  // another thread was faster
  int64_t bytes;
  const bool bad = tensor.rows < 0 || tensor.row_elements < 0 ||
                   static_cast<int>(tensor.dtype) >= kDTypeCount ||
                   __builtin_mul_overflow(tensor.row_elements, int64_t{size_bytes(tensor.dtype)}, &bytes) ||
                   __builtin_mul_overflow(bytes, tensor.rows, &bytes) || bytes > checks_.tensor_bytes_max;
  if (bad)
    throw Fault(FaultKind::kCapacity, "sim.tensor_bytes",
                fmt::format("{} has {} rows of {} elements; a tensor may have {} bytes",
                            isa::tensor_label(program, id), tensor.rows, tensor.row_elements,
                            checks_.tensor_bytes_max));
  if (slot.buffer == nullptr && place != nullptr) {
    slot.buffer = buffer_in(tensors_[place->home].buffer, *place, tensor);
    if (slot.buffer != nullptr) memory_->set_placed(id, true);
  }
  if (slot.buffer == nullptr) {
    slot.buffer = buffers_.allocate(bytes);
    fill_fresh(tensor, *slot.buffer);
  } else if (slot.buffer->bytes() != bytes) {
    throw Fault(FaultKind::kInput, "sim.bound_size",
                fmt::format("{} has {} bytes, the buffer bound to it {}", isa::tensor_label(program, id),
                            bytes, slot.buffer->bytes()));
  }
  slot.space = tensor.space;
  slot.row_bytes = tensor.row_bytes();
  slot.rows = tensor.rows;
  slot.buffer->set_row_bytes(slot.row_bytes);
  if (launch_races_ && id < raced_.size() && raced_[id]) launch_races_->watch(slot.buffer);
  std::atomic_ref(slot.ready).store(slot.buffer.get(), std::memory_order_release);
  return slot;
}

// -- registers

std::optional<int64_t> Core::register_value(isa::RegisterId id) const {
  return id < registers_.size() ? registers_[id] : std::nullopt;
}

void Core::set_register(isa::RegisterId id, int64_t value) {
  if (id >= registers_.size()) {
    if (id >= kRegistersMax)
      throw Fault(FaultKind::kCapacity, "sim.registers",
                  fmt::format("register {}; at most {} exist", id, kRegistersMax));
    registers_.resize(std::max<size_t>(id + size_t{1}, 2 * registers_.size()));
  }
  registers_[id] = wrap_int32(value);
}

// -- execution

InstructionIndex Core::run(const Program& program, InstructionIndex begin, InstructionIndex end,
                           std::vector<Release> releases) {
  OPENTRN_CHECK(begin <= end && end <= program.size(), "range [{}, {}) of {} instructions", begin, end,
                program.size());
  if (begin != resume_at_) loops_.clear();
  releases_ = std::move(releases);
  next_release_ = 0;
  remembers_ = false;
  hasten_releases(program, begin, end);
  return run_range(program, begin, end);
}

InstructionIndex Core::run(const Program& program) {
  const InstructionIndex end = static_cast<InstructionIndex>(program.size());
  InstructionIndex begin = resume_at_;
  const bool resumes = waiting_ && begin < end;
  if (!resumes) {
    begin = 0;
    loops_.clear();
    begin_remembering(program);
    plan_releases(program);
    watch_launches(program);
  }
  const InstructionIndex next = run_range(program, begin, end);
  if (next == end && launch_races_) launch_races_->meet();
  return next;
}

void Core::watch_launches(const Program& program) {
  launch_races_.reset();
  raced_.clear();
  if (group_ == nullptr && checks_.core_races) raced_ = tensors_of_both(program);
  if (std::ranges::find(raced_, true) == raced_.end()) return;
  launch_races_ = std::make_unique<CoreRaces>();
  for (TensorId id = 0; id < std::min(raced_.size(), tensors_.size()); ++id)
    if (raced_[id] && tensors_[id].buffer) launch_races_->watch(tensors_[id].buffer);
}

InstructionIndex Core::run_range(const Program& program, InstructionIndex begin, InstructionIndex end) {
  InstructionIndex pc = begin;
  try {
    return run_from(program, pc, end);
  } catch (Interrupted& stop) {
    const isa::Instruction& in = program.instruction(std::min(pc, end - 1));
    if (in.location < program.location_count()) stop.set_location(program.location(in.location));
    throw;
  }
}

// `pc` is where it stands.
InstructionIndex Core::run_from(const Program& program, InstructionIndex& pc, InstructionIndex end) {
  const StandardFloatingPoint standard;
  int64_t executed = 0;
  if (rounding_seed_ && times_executed_.size() < program.size()) times_executed_.resize(program.size());
  waiting_ = false;
  resume_at_ = UINT32_MAX;  // should a Fault leave this function
  // Not for what is defined by program order itself.
  const bool may_share = pool_ != nullptr && !checks_.nan_origin && checks_.instructions_max == 0;
  if (may_share) {
    released_at_.assign(program.tensor_count(), UINT32_MAX);
    for (const Release& release : releases_)
      if (release.second < released_at_.size()) released_at_[release.second] = release.first;
  }
  InstructionIndex look_from = pc;  // nothing before it is worth sharing
  not_shared_.clear();
  while (pc < end) {
    interrupt::poll();
    if (may_share && pc >= look_from) {
      const InstructionIndex next = run_block(program, pc, end);
      look_from = std::max(block_end_, pc + 1);
      if (next != pc) {
        pc = next;
        Activity::at(pc);
        continue;
      }
    }
    const isa::Instruction& in = program.instruction(pc);
    if (static_cast<int>(in.opcode) >= isa::kOpcodeCount)
      throw Fault(FaultKind::kInput, "sim.opcode",
                  fmt::format("instruction {} has opcode {}", pc, static_cast<int>(in.opcode)));
    ++executed_;
    if (launch_races_ && in.flags & isa::kFlagLaunch) launch_races_->meet();
    if (checks_.instructions_max > 0 && ++executed > checks_.instructions_max)
      throw Fault(FaultKind::kProgram, "sim.instruction_limit",
                  fmt::format("{} instructions executed", checks_.instructions_max),
                  "raise CheckOptions::instructions_max");
    if (isa::is_control(in.opcode)) {
      pc = execute_control(program, pc);
      look_from = not_shared_.contains(pc) ? end : pc;
      continue;
    }
    if (isa::has(in.opcode, isa::kSynchronisesCores)) {
      if (!rendezvous(program, pc)) {
        waiting_ = true;
        resume_at_ = pc;
        return pc;
      }
    } else {
      execute(program, pc);
    }
    if (next_release_ < releases_.size()) release_after(pc);
    ++pc;
  }
  resume_at_ = pc;
  return pc;
}

// Bound buffers may be views of one array of the host's.
void Core::find_shared_memory() {
  if (!bound_changed_) return;
  bound_changed_ = false;
  std::sort(bound_.begin(), bound_.end());
  bound_.erase(std::unique(bound_.begin(), bound_.end()), bound_.end());
  std::erase_if(bound_, [&](TensorId id) { return tensors_[id].buffer == nullptr || !tensors_[id].bound; });
  std::vector<std::pair<const std::byte*, int64_t>> ranges;
  for (const TensorId id : bound_)
    ranges.emplace_back(tensors_[id].buffer->data(), tensors_[id].buffer->bytes());
  std::sort(ranges.begin(), ranges.end());
  bool overlap = false;
  for (size_t i = 1; i < ranges.size(); ++i)
    overlap |= ranges[i].first < ranges[i - 1].first + ranges[i - 1].second;
  block_.merge(overlap ? bound_ : std::vector<TensorId>{});
}

BasicBlock::Foldable Core::foldable(const Program& program) const {
  return [this, &program, loops = inside_loop()](TensorId id, InstructionIndex end) {
    if (loops || released_at_[id] >= end) return false;
    const isa::Tensor& tensor = program.tensor(id);
    return tensors_[id].buffer == nullptr && !tensor.filled && !tensor.is_output;
  };
}

void Core::begin_remembering(const Program& program) {
  remembers_ = memory_ != nullptr && pool_ != nullptr;
  if (!remembers_) return;
  find_shared_memory();
  memory_->begin({.program = &program,
                  .instructions = program.size(),
                  .bound = bound_,
                  .merged = block_.merged(),
                  .chains = !checks_.fill_fresh_memory,
                  .threads = pool_->size(),
                  .sharing = sharing_});
}

bool Core::pays(const BasicBlockPlan& plan) const {
  return plan.has_chains() || (pool_->size() > 1 && plan.worth_sharing(sharing_));
}

const BasicBlockPlan& Core::plan_of(const Program& program, InstructionIndex begin, InstructionIndex end) {
  const BasicBlock::Foldable foldable =
      checks_.fill_fresh_memory ? BasicBlock::Foldable{} : this->foldable(program);
  if (remembers_)
    if (const BasicBlockPlan* known = memory_->find(begin, foldable)) return *known;
  block_.read(program, begin, end, foldable);
  BasicBlockPlan& plan = block_.plan();
  plan.graph().set_highest_first(sharing_.highest_first);
  if (remembers_)
    if (const BasicBlockPlan* kept = memory_->keep(plan, pays(plan))) return *kept;
  return plan;
}

InstructionIndex Core::run_block(const Program& program, InstructionIndex begin, InstructionIndex end) {
  find_shared_memory();
  if (tensors_.size() < program.tensor_count()) tensors_.resize(program.tensor_count());
  const BasicBlockPlan& plan = plan_of(program, begin, end);
  block_end_ = plan.end();
  if (!pays(plan)) {
    not_shared_.insert(begin);
    return begin;
  }
  executed_ += plan.end() - begin;
  plan.graph().run(
      *pool_,
      [&](TaskGraph::Task task) {
        interrupt::poll();
        if (const Chain* chain = plan.chain(task))
          ChainRun(*this, program, *chain).run();
        else
          execute(program, plan.first_of(task));
      },
      [&](TaskGraph::Task task) {
        if (next_release_ < releases_.size()) release_after(plan.last_of(task));
      });
  return plan.end();
}

void Core::execute(const Program& program, InstructionIndex index, ChainRun* chain) {
  Context context(*this, program, index, chain);
  if (rounding_seed_) [[unlikely]] {
    if (times_executed_.size() < program.size()) times_executed_.resize(program.size());
    context.round_stochastically(*rounding_seed_, times_executed_[index]++);
  }
  try {
    context.validate();
    if (checks_.nan_origin) [[unlikely]] {
      execute_tracing_nan(context, body(context.in.opcode));
    } else {
      body(context.in.opcode)(context);
      context.finish();
    }
  } catch (Fault& fault) {
    context.locate(fault);
    throw;
  }
}

// A rendezvous of two cores whose programs stand in one: where both have come, first core 0's instruction,
// then core 1's. The first does it for both, while what they read is there.
bool Core::meet_within(Context& context) {
  if (context.in.opcode == Opcode::kCoreBarrier) return true;
  const bool first = context.in.flags & isa::kFlagCore0;
  const Program& program = context.program;
  const InstructionIndex peer = first ? context.index + 1 : context.index - 1;
  const uint8_t flag = first ? isa::kFlagCore1 : isa::kFlagCore0;
  if (peer >= program.size() || program.instruction(peer).opcode != Opcode::kSendRecv ||
      (program.instruction(peer).flags & isa::kFlagsOfPair) != flag)
    context.fail(FaultKind::kProgram, "sendrecv.pair", "the other core's sendrecv does not stand beside it");
  if (!first) return true;
  Context other(*this, program, peer);
  other.validate();
  exchange(context, other);
  return true;
}

bool Core::rendezvous(const Program& program, InstructionIndex index) {
  const bool passed = arrive(program, index);
  if (passed && group_ != nullptr) group_->order_what_is_shared();
  if (passed && launch_races_ && program.instruction(index).flags & isa::kFlagCore0) launch_races_->meet();
  return passed;
}

bool Core::arrive(const Program& program, InstructionIndex index) {
  Context context(*this, program, index);
  try {
    context.validate();
    if (context.in.flags & isa::kFlagsOfPair) return meet_within(context);
    if (group_ == nullptr)
      context.fail(FaultKind::kProgram, fmt::format("{}.lnc", context.name()),
                   "one core alone has nobody to meet", "launch the kernel on two cores: kernel[2](...)");
    return group_->arrive(rank_, program, index);
  } catch (Fault& fault) {
    context.locate(fault);
    throw;
  }
}

// -- registers and loops

namespace {

// An element as an integer; floats are rounded to nearest even and must fit. [assumed: only integer
// dtypes are shown in the public examples of register_load]
int64_t load_integer(const Context& cx, const View& view) {
  if (is_integer(view.dtype) || view.dtype == DType::kBool) {
    int64_t value;
    numerics::load_i64(view.dtype, view.base, 1, &value, 1);
    return value;
  }
  float value;
  numerics::load_f32(view.dtype, view.base, &value, 1);
  const double rounded = std::nearbyint(static_cast<double>(value));
  if (!(rounded >= -0x1p31 && rounded < 0x1p31))
    cx.broken("value", fmt::format("{} does not fit a 32-bit register", value));
  return static_cast<int64_t>(rounded);
}

void expect_one_element(const Context& cx, const View& view) {
  if (view.total() != 1) cx.broken("shape", fmt::format("{} elements; a register holds one", view.total()));
}

void register_load(Context& cx) {
  using namespace isa::slot::register_load;
  const View src = cx.source(kSrc);
  expect_one_element(cx, src);
  cx.core.set_register(cx.register_id(kDst), load_integer(cx, src));
}

void register_store(Context& cx) {
  using namespace isa::slot::register_store;
  const int64_t value = cx.register_value(kSrc, cx.operand(kSrc));
  const View dst = cx.destination(kDst);
  expect_one_element(cx, dst);
  if (is_integer(dst.dtype) || dst.dtype == DType::kBool) {
    numerics::store_i64(dst.dtype, &value, dst.base, 1, 1);
  } else {
    const float real = static_cast<float>(value);
    numerics::store_f32(dst.dtype, &real, dst.base, 1);
  }
}

void register_alu(Context& cx) {
  using namespace isa::slot::register_alu;
  const int64_t a = cx.register_or_immediate(kA);
  const int64_t b = cx.register_or_immediate(kB);
  cx.core.set_register(cx.register_id(kDst),
                       numerics::alu_int(cx.alu(kAOp), DType::kInt32, wrap_int32(a), wrap_int32(b)));
}

void register_move(Context& cx) {
  using namespace isa::slot::register_move;
  cx.core.set_register(cx.register_id(kDst), cx.register_or_immediate(kSrc));
}

// What executes the instructions on registers; null for every other instruction.
constexpr auto kRegisterBodies = [] {
  std::array<Body, isa::kOpcodeCount> bodies{};
#define OPENTRN_PLACE(opcode, name, number) bodies.at(number) = name;
  OPENTRN_REGISTERS_INSTRUCTIONS(OPENTRN_PLACE)
#undef OPENTRN_PLACE
  return bodies;
}();

// The other end of a loop; `opcode` is what must stand there.
InstructionIndex match_of(const Context& cx, int slot, Opcode opcode, bool forward) {
  const int64_t match = cx.integer(slot);
  const bool exists = match >= 0 && match < static_cast<int64_t>(cx.program.size());
  const bool right_side = forward ? match > cx.index : match < cx.index;
  if (!exists || !right_side || cx.program.instruction(static_cast<InstructionIndex>(match)).opcode != opcode)
    cx.broken("match", fmt::format("instruction {} is not the other end of this loop", match));
  return static_cast<InstructionIndex>(match);
}

}  // namespace

InstructionIndex Core::execute_control(const Program& program, InstructionIndex index) {
  // What executes the ends of loops; each returns the next instruction.
  static constexpr auto kLoopSteps = [] {
    std::array<InstructionIndex (Core::*)(const Context&), isa::kOpcodeCount> steps{};
#define OPENTRN_PLACE(opcode, name, number) steps.at(number) = &Core::name;
    OPENTRN_CONTROL_INSTRUCTIONS(OPENTRN_PLACE)
#undef OPENTRN_PLACE
    return steps;
  }();
  Context cx(*this, program, index);
  const auto opcode = static_cast<size_t>(cx.in.opcode);
  try {
    cx.validate();
    if (const auto step = kLoopSteps[opcode]) return (this->*step)(cx);
    OPENTRN_CHECK(kRegisterBodies[opcode] != nullptr, "not a control instruction");
    kRegisterBodies[opcode](cx);
    cx.finish();
  } catch (Fault& fault) {
    cx.locate(fault);
    throw;
  }
  if (next_release_ < releases_.size()) release_after(index);
  return index + 1;
}

// Jumps past the end of a loop whose body does not run, releasing what that end would have released.
InstructionIndex Core::leave_loop(InstructionIndex end_marker) {
  if (next_release_ < releases_.size()) release_after(end_marker);
  return end_marker + 1;
}

// An iteration begins: tensors made in the body are new.
void Core::renew_tensors(const Program& program, InstructionIndex begin) {
  for (TensorId id : program.made_in_loop(begin)) {
    if (id >= tensors_.size() || tensors_[id].ready == nullptr || tensors_[id].bound) continue;
    tensors_[id].ready->reset_masks();
    fill_fresh(program.tensor(id), *tensors_[id].ready);
  }
}

InstructionIndex Core::loop_begin(const Context& cx) {
  using namespace isa::slot::loop;
  const int64_t lower = wrap_int32(cx.register_or_immediate(kLower));
  const int64_t upper = wrap_int32(cx.register_or_immediate(kUpper));
  const int64_t step = cx.integer(kAStep);
  if (step <= 0) cx.broken("step", fmt::format("loop step {}; it must be positive", step));
  const bool known =
      cx.operand(kLower).kind != OperandKind::kRegister && cx.operand(kUpper).kind != OperandKind::kRegister;
  if (const int64_t limit = checks_.counted_iterations_max;
      limit > 0 && !known && lower < upper && (upper - lower - 1) / step + 1 > limit)
    cx.fail(
        FaultKind::kProgram, "sim.loop_iterations",
        fmt::format("a loop whose bounds are registers is to run {} times; the limit is {}",
                    (upper - lower - 1) / step + 1, limit),
        "if it is to run so often, raise the limit: --loop-limit N, loop_limit=N or OPENTRN_LOOP_LIMIT=N");
  trip_counts_[cx.index].add(lower < upper ? (upper - lower - 1) / step + 1 : 0);  // any step fits
  if (lower >= upper) return leave_loop(match_of(cx, kAMatch, Opcode::kLoopEnd, true));
  renew_tensors(cx.program, cx.index);
  set_register(cx.register_id(kRegister), lower);
  loops_.push_back({cx.index, lower, upper, step, 0});
  return cx.index + 1;
}

InstructionIndex Core::loop_end(const Context& cx) {
  using namespace isa::slot::loop;
  const InstructionIndex begin = match_of(cx, kAMatch, Opcode::kLoopBegin, false);
  if (loops_.empty() || loops_.back().begin != begin)
    cx.broken("nesting", "the loop that ends here was not entered");
  LoopFrame& frame = loops_.back();
  if (frame.upper - frame.value <= frame.step) {
    loops_.pop_back();
    return leave_loop(cx.index);
  }
  frame.value += frame.step;
  renew_tensors(cx.program, begin);
  set_register(cx.register_id(kRegister), frame.value);
  return begin + 1;
}

InstructionIndex Core::while_begin(const Context& cx) {
  using namespace isa::slot::while_loop;
  const bool entered = !loops_.empty() && loops_.back().begin == cx.index;
  if (cx.register_value(kCondition, cx.operand(kCondition)) == 0) {
    trip_counts_[cx.index].add(entered ? loops_.back().iterations : 0);
    if (entered) loops_.pop_back();
    return leave_loop(match_of(cx, kAMatch, Opcode::kWhileEnd, true));
  }
  if (!entered) loops_.push_back({cx.index, 0, 0, 1, 0});
  if (++loops_.back().iterations > checks_.while_iterations_max)
    cx.fail(FaultKind::kProgram, "sim.while_iterations",
            fmt::format("a while loop ran {} times", checks_.while_iterations_max),
            "does the body ever clear the condition? If it does, raise the limit: --loop-limit N, "
            "loop_limit=N or "
            "OPENTRN_LOOP_LIMIT=N");
  renew_tensors(cx.program, cx.index);
  return cx.index + 1;
}

InstructionIndex Core::while_end(const Context& cx) {
  const InstructionIndex begin = match_of(cx, isa::slot::while_loop::kAMatch, Opcode::kWhileBegin, false);
  if (loops_.empty() || loops_.back().begin != begin)
    cx.broken("nesting", "the loop that ends here was not entered");
  return begin;
}

// -- releasing after the last use
//
// A tensor used inside a loop lives until the outermost loop around its last use ends.

namespace {

// use(id) for every tensor that an instruction names.
template <typename Use>
void for_tensors(const Program& program, const isa::Instruction& in, Use&& use) {
  for (const Operand& op : program.operands(in)) {
    if (op.kind != OperandKind::kAccess) continue;
    use(op.tensor);
    if (op.indirect == isa::kNoIndirect || op.indirect > program.indirect_count()) continue;
    const Operand& index = program.indirect(op).index;
    if (index.kind == OperandKind::kAccess) use(index.tensor);
  }
}

}  // namespace

// The caller says from where on nobody can name a tensor; its last use is earlier, often by a whole iteration
// of the kernel's Python. Memory that comes free early is still in the cache for the next tile.
void Core::hasten_releases(const Program& program, InstructionIndex begin, InstructionIndex end) {
  if (releases_.empty()) return;
  last_use_.assign(program.tensor_count(), begin);
  for (InstructionIndex i = begin; i < end; ++i)
    for_tensors(program, program.instruction(i), [&](TensorId id) {
      if (id < last_use_.size()) last_use_[id] = i;
    });
  for (Release& release : releases_)
    if (release.second < last_use_.size()) release.first = std::min(release.first, last_use_[release.second]);
  std::sort(releases_.begin(), releases_.end());
}

void Core::plan_releases(const Program& program) {
  next_release_ = 0;
  if (remembers_ && memory_->releases) {
    releases_ = *memory_->releases;
    return;
  }
  releases_.clear();
  constexpr InstructionIndex kNever = UINT32_MAX;
  std::vector<InstructionIndex> last_use(program.tensor_count(), kNever);
  InstructionIndex loop_end = 0;  // of the outermost loop around `i`
  for (InstructionIndex i = 0; i < program.size(); ++i) {
    const isa::Instruction& in = program.instruction(i);
    if (static_cast<int>(in.opcode) >= isa::kOpcodeCount) continue;
    const bool begins = isa::opens_loop(in.opcode);
    if (begins && i >= loop_end) {
      const int slot = in.opcode == Opcode::kLoopBegin ? static_cast<int>(isa::slot::loop::kAMatch)
                                                       : static_cast<int>(isa::slot::while_loop::kAMatch);
      if (in.attributes + static_cast<size_t>(slot) < program.attribute_word_count()) {
        const int64_t match = program.attribute_int(in, slot);
        if (match > i && match < static_cast<int64_t>(program.size()))
          loop_end = static_cast<InstructionIndex>(match);
      }
    }
    const InstructionIndex at = std::max(i, loop_end);
    for_tensors(program, in, [&](TensorId id) {
      if (id < last_use.size()) last_use[id] = at;
    });
  }
  for (TensorId id = 0; id < last_use.size(); ++id) {
    const isa::Tensor& tensor = program.tensor(id);
    const bool bound = id < tensors_.size() && tensors_[id].bound;
    if (last_use[id] != kNever && !bound && !tensor.is_output) releases_.emplace_back(last_use[id], id);
  }
  std::sort(releases_.begin(), releases_.end());
  if (remembers_) memory_->releases = releases_;
}

void Core::release_after(InstructionIndex index) {
  if (inside_loop()) return;  // the next iteration may use the tensor again
  while (next_release_ < releases_.size() && releases_[next_release_].first <= index)
    release(releases_[next_release_++].second);
}

}  // namespace opentrn::sim
