// Core: the exact functional model of one NeuronCore. It executes the instructions of an isa::Program
// for values, in program order, and knows nothing of time.
//
// Use:
//   Core core(Generation::kV3, &pool);
//   core.bind(input_id, Buffer::wrap_read_only(array.data(), array.nbytes()));
//   core.bind(output_id, Buffer::wrap(out.data(), out.nbytes(), nullptr, /*initialised=*/false));
//   core.run(program, 0, program.size());
// A tensor that was not bound gets memory at its first touch; release() gives it back. An eager front end
// appends an instruction and runs it: run(program, i, i + 1) costs well under a microsecond plus the work.
//
// Rules that hold for every instruction [doc: nki/api/nki/isa/__init__.py, NKI 0.6]:
// - arithmetic reads its operands as fp32, computes in fp32, rounds once to the destination's type;
//   bit-vector operators keep bits; a copy between equal types keeps bits;
// - element counts of operands must match: same partitions, same elements per partition (DMA: same total);
//   elements are visited row-major over the access's dimensions, partition first;
// - a [P, 1] operand is broadcast along the free dimensions;
// - all operands are read before the destination is written, also where they overlap [assumed];
// - the 128 accumulators of the Vector and of the Scalar Engine are indexed by the row of `dst` within its
//   tensor, and hold nothing defined until reset or loaded;
// - registers are 32-bit two's complement: every write wraps to int32;
// - a tensor keeps its value, and the memory of what was written, across the iterations of a loop, unless it
//   is made in that loop (isa::Tensor::loop): then each iteration begins with an unwritten one. An automatic
//   accumulate (-1) onto a tile made before the loop therefore overwrites in the first iteration only.
//
// A Fault carries the rule's label, the instruction and operand, the user's source line and the operands'
// shapes. A malformed Program is a Fault too, never undefined behaviour.
//
// Not thread-safe; one Core is driven by one thread at a time. With a ThreadPool, instructions that do not
// depend on each other run at the same time (basic_block.h), and long ones are split. Values, prints and
// Faults are those of program order, whatever the pool's size.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "base/generation.h"
#include "base/spin_lock.h"
#include "base/thread_pool.h"
#include "isa/program.h"
#include "sim/functional/basic_block.h"
#include "sim/functional/buffer.h"

namespace opentrn::sim {

// Bounds of memory and of malformed programs are always checked; these can be switched.
struct CheckOptions {
  bool uninitialised_reads = true;  // "sim.uninitialised_read"
  // Fresh memory reads as NaN, integers as 4, as in AWS's simulator [doc: nki/guides/nki_simulator.rst].
  // For kernels that compute with unwritten lanes and drop the results; goes with uninitialised_reads =
  // false.
  bool fill_fresh_memory = false;
  bool accumulators = true;       // "sim.undefined_accumulator": reduce without reset or load
  bool psum_accumulation = true;  // "nc_matmul.accumulate_uninitialised"
  bool core_races = true;         // "sim.core_race"
  bool nan_origin = false;        // "sim.nan_origin": NaN out of an instruction whose inputs had none; slow
  int64_t while_iterations_max = int64_t{1} << 24;  // "sim.while_iterations"
  int64_t counted_iterations_max =
      0;  // "sim.loop_iterations": of loops whose bounds are registers; 0 = no limit
  // Both at once, where there is a limit.
  void limit_loops(std::optional<int64_t> iterations) {
    if (iterations) while_iterations_max = counted_iterations_max = *iterations;
  }
  int64_t instructions_max = 0;  // "sim.instruction_limit"; executed by one run(), 0 = no limit
  int64_t tensor_bytes_max = int64_t{1} << 38;  // "sim.tensor_bytes"
};

// What nl.device_print shows.
struct PrintEvent {
  std::string_view text;
  std::string_view tensor_name;
  DType dtype;
  std::vector<int64_t> shape;     // counts of the access's dimensions
  std::vector<std::byte> values;  // row-major copy, elements of `dtype`
  std::string formatted;          // text, then the values, long arrays abridged
  SourceLocation location;
};
using PrintCallback = std::function<void(const PrintEvent&)>;

// Iterations of one loop, by entry; equal neighbours are one run.
struct TripCounts {
  struct Run {
    int64_t iterations;
    int64_t entries;
  };
  std::vector<Run> runs;
  void add(int64_t iterations) {
    if (runs.empty() || runs.back().iterations != iterations) runs.push_back({iterations, 0});
    ++runs.back().entries;
  }
};

class CoreGroup;
class CoreRaces;
class ChainRun;
class RunMemory;
class Context;
struct EngineState;

class Core {
 public:
  // `pool` may be null: everything runs on the calling thread.
  explicit Core(Generation generation, ThreadPool* pool = nullptr, CheckOptions checks = {});
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  Generation generation() const { return generation_; }
  CheckOptions& checks() { return checks_; }
  SharingLimits& sharing() { return sharing_; }
  // Whole runs of a program leave there what the next ones need not find again; null: nowhere. It has to
  // outlive them.
  void remember_in(RunMemory* memory) { memory_ = memory; }

  // -- tensors
  // HBM inputs, outputs and tensors shared between cores. Replaces what was bound before. The buffer must
  // be as large as the tensor, which is checked when an instruction touches it.
  void bind(isa::TensorId id, std::shared_ptr<Buffer> buffer);
  // The buffer of a tensor, or null when nothing has touched it yet.
  std::shared_ptr<Buffer> buffer(isa::TensorId id) const;
  // The buffer of a tensor, made (uninitialised) if needed.
  std::shared_ptr<Buffer> buffer(const isa::Program& program, isa::TensorId id);
  // The value is no longer needed. A later touch starts from uninitialised memory again.
  void release(isa::TensorId id);

  // -- execution
  // A tensor to release once an instruction, and the loop around it, is over.
  using Release = std::pair<isa::InstructionIndex, isa::TensorId>;
  // Executes [begin, end) in program order. Returns `end`, or the index of a sendrecv or core_barrier whose
  // partner has not arrived: call run() again from there after the partner ran. A range may end inside a
  // loop when the next one continues there: loop_end jumps back across ranges. `releases` are given back on
  // the way, after the last use before the instruction that they name.
  isa::InstructionIndex run(const isa::Program& program, isa::InstructionIndex begin,
                            isa::InstructionIndex end, std::vector<Release> releases = {});
  // The whole program; unbound tensors that are not outputs are released after their last use.
  // Returns program.size() or the index where it waits, as above.
  isa::InstructionIndex run(const isa::Program& program);

  bool inside_loop() const { return !loops_.empty(); }

  // -- registers
  // Nothing has set a register that has no value.
  std::optional<int64_t> register_value(isa::RegisterId id) const;
  void set_register(isa::RegisterId id, int64_t value);  // wraps to int32

  // Engines round fp32 to narrower floats stochastically, from this seed; to nearest even without one. What
  // an element draws depends on the seed, the instruction, how often it ran before, and the element's place.
  // DMA rounds to nearest even [assumed].
  void set_stochastic_rounding(std::optional<uint64_t> seed) { rounding_seed_ = seed; }

  void set_print_callback(PrintCallback callback) { print_ = std::move(callback); }

  // How often each loop ran, by its begin marker and in the order in which it was entered.
  const std::map<isa::InstructionIndex, TripCounts>& trip_counts() const { return trip_counts_; }

  int64_t tensor_bytes_in_use() const { return buffers_.bytes_in_use(); }
  int64_t tensor_bytes_peak() const { return buffers_.bytes_peak(); }
  uint64_t instructions_executed() const { return executed_; }

 private:
  friend class ChainRun;
  friend class Context;
  friend class CoreGroup;
  friend class PhysicalMachine;

  struct LoopFrame {
    isa::InstructionIndex begin;
    int64_t value;
    int64_t upper;
    int64_t step;
    int64_t iterations;
  };

  // What resolving an access needs of a tensor; `ready` is null until its first touch.
  struct TensorSlot {
    Buffer* ready = nullptr;
    std::shared_ptr<Buffer> buffer;
    int64_t row_bytes = 0;
    int64_t rows = 0;
    isa::MemorySpace space = isa::MemorySpace::kSbuf;
    bool bound = false;
  };

  TensorSlot& touch(const isa::Program& program, isa::TensorId id) {
    if (id < tensors_.size() &&
        std::atomic_ref(tensors_[id].ready).load(std::memory_order_acquire) != nullptr)
      return tensors_[id];
    return touch_slow(program, id);
  }
  void fill_fresh(const isa::Tensor& tensor, Buffer& buffer) const;
  TensorSlot& touch_slow(const isa::Program& program, isa::TensorId id);
  // Of an instruction of a chain, sets up and defers the work.
  void execute(const isa::Program& program, isa::InstructionIndex index, ChainRun* chain = nullptr);
  // Executes a register or loop instruction; returns the next instruction.
  isa::InstructionIndex execute_control(const isa::Program& program, isa::InstructionIndex index);
  isa::InstructionIndex run_range(const isa::Program& program, isa::InstructionIndex begin,
                                  isa::InstructionIndex end);
  isa::InstructionIndex run_from(const isa::Program& program, isa::InstructionIndex& pc,
                                 isa::InstructionIndex end);
  // Runs instructions of [begin, end) on several threads, if that pays; returns the next one.
  isa::InstructionIndex run_block(const isa::Program& program, isa::InstructionIndex begin,
                                  isa::InstructionIndex end);
  BasicBlock::Foldable foldable(const isa::Program& program) const;
  // The plan of the block that begins there, known from an earlier run or read now.
  const BasicBlockPlan& plan_of(const isa::Program& program, isa::InstructionIndex begin,
                                isa::InstructionIndex end);
  bool pays(const BasicBlockPlan& plan) const;
  void begin_remembering(const isa::Program& program);
  void find_shared_memory();
  isa::InstructionIndex loop_begin(const Context& cx);
  isa::InstructionIndex loop_end(const Context& cx);
  isa::InstructionIndex while_begin(const Context& cx);
  isa::InstructionIndex while_end(const Context& cx);
  void renew_tensors(const isa::Program& program, isa::InstructionIndex begin);
  void plan_releases(const isa::Program& program);
  void hasten_releases(const isa::Program& program, isa::InstructionIndex begin, isa::InstructionIndex end);
  void release_after(isa::InstructionIndex index);
  isa::InstructionIndex leave_loop(isa::InstructionIndex end_marker);
  bool rendezvous(const isa::Program& program, isa::InstructionIndex index);
  bool arrive(const isa::Program& program, isa::InstructionIndex index);
  bool meet_within(Context& context);
  void watch_launches(const isa::Program& program);

  Generation generation_;
  ThreadPool* pool_;
  CheckOptions checks_;
  SpinLock memory_lock_;  // guards buffers_ and what touch() and release() change in tensors_
  BufferPool buffers_;
  std::vector<TensorSlot> tensors_;  // by TensorId
  std::vector<isa::TensorId> bound_;
  bool bound_changed_ = false;
  SharingLimits sharing_;
  BasicBlock block_;
  std::unordered_set<isa::InstructionIndex> not_shared_;  // where blocks not worth it begin, in this run
  std::vector<std::optional<int64_t>> registers_;
  std::vector<LoopFrame> loops_;
  std::map<isa::InstructionIndex, TripCounts> trip_counts_;
  isa::InstructionIndex resume_at_ = UINT32_MAX;  // where the last run() stopped
  bool waiting_ = false;                          // it stopped at a rendezvous
  uint64_t executed_ = 0;
  std::vector<Release> releases_;  // of this run, sorted
  size_t next_release_ = 0;
  std::vector<isa::InstructionIndex> released_at_;  // by TensorId, from releases_
  std::vector<isa::InstructionIndex> last_use_;     // by TensorId, in the range that runs
  PrintCallback print_;
  std::optional<uint64_t> rounding_seed_;
  std::vector<uint32_t> times_executed_;  // by instruction, while rounding is stochastic
  CoreGroup* group_ = nullptr;
  int rank_ = 0;
  std::unique_ptr<CoreRaces> launch_races_;  // of launches on two cores inside the program; mostly null
  std::vector<bool> raced_;                  // by TensorId: what launch_races_ watches
  std::unique_ptr<EngineState> engines_;
  RunMemory* memory_ = nullptr;
  bool remembers_ = false;               // this run does
  isa::InstructionIndex block_end_ = 0;  // of the last block that was looked at
};

}  // namespace opentrn::sim
