// Machine: where a kernel's instructions go. One NeuronCore that records a Program and executes it.
//
// A kernel is ordinary Python (or C++) that calls emit(); every call appends an instruction. Values
// are computed in batches: instructions run when enough of them wait, when somebody looks at a value
// (a register, a printed tensor, a result), or one by one in eager mode. On a core of its own, batches
// run on another thread while the kernel goes on; a Fault of theirs is thrown by a later call. Program
// order is the order of calls in every case, so batching changes no bit. A machine that does not execute
// (Execute::kNever) records only, for timing without data.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/generation.h"
#include "base/interrupt.h"
#include "base/thread_pool.h"
#include "isa/program.h"
#include "nki/ranks.h"
#include "nki/tensor_view.h"
#include "numerics/mx.h"
#include "sim/functional/core_group.h"

namespace opentrn::nki {

enum class Execute : uint8_t { kBatched, kEager, kNever };

struct MachineOptions {
  Generation generation = Generation::kV3;
  int core_id = 0;
  Execute execute = Execute::kBatched;
  sim::CheckOptions checks;
  bool check_constraints = true;  // the rules of isa/constraints.h, as instructions are recorded
  int release = 6;                // of NKI, that the kernel is written for: 6 is 0.6
};

class Machine;

// How this thread waits for another one that may need what this one holds: a Python host drops its lock
// around `wait`. Set once, before any Machine exists.
void set_blocking_section(std::function<void(const std::function<void()>& wait)> section);

// What the cores of one logical NeuronCore share (LNC2): HBM tensors and the rendezvous of sendrecv
// and core_barrier. Cores execute one at a time; each instruction may use the whole thread pool.
class Launch {
 public:
  explicit Launch(const MachineOptions& options, int core_count = 1);
  // As one rank of several, which meet at collectives.
  Launch(const MachineOptions& options, int core_count, std::shared_ptr<Ranks> ranks, int rank);

  int core_count() const { return core_count_; }
  // Called by the thread of a core when its kernel has returned or failed, so that a peer that waits
  // for it does not wait for ever.
  void core_done(int core_id, bool failed);
  // Ends the execution of every core, from any thread: what they call next throws Interrupted.
  void stop() { work_.stop(); }
  // When every core has ended well: Fault "sim.core_race" if they leave different values in what they share.
  void check_races();

 private:
  friend class Machine;
  struct SharedTensor {
    std::string name;
    int64_t bytes;
    std::shared_ptr<sim::Buffer> buffer;
  };

  int core_count_;
  std::shared_ptr<Ranks> ranks_;  // null: this is the only one
  int rank_ = 0;
  interrupt::Work work_;
  std::mutex mutex_;
  std::condition_variable progress_;
  int running_;
  sim::CoreGroup group_;
  std::deque<SharedTensor> shared_;  // in creation order
};

class Machine : public std::enable_shared_from_this<Machine> {
 public:
  static std::shared_ptr<Machine> create(const MachineOptions& options, std::shared_ptr<Launch> launch);
  ~Machine();

  Generation generation() const { return options_.generation; }
  int core_id() const { return options_.core_id; }
  // quantize_mx takes the larger scale since NKI 0.5 [release notes of 0.5.0]; kernels of before may rely on
  // the smaller one.
  numerics::MxScaleRule mx_scale_rule() const {
    return options_.release < 5 ? numerics::MxScaleRule::kOcp : numerics::MxScaleRule::kNeuron;
  }
  // As isa::check() takes it: neuronx-cc compiles kernels of NKI 0.1.
  bool moves_rows() const { return options_.release < 2; }
  // neuronx-cc also moves what does not fit to HBM and back.
  bool spills() const { return options_.release < 2; }
  void set_release(int release) { options_.release = release; }
  // Engines round to narrower floats stochastically. Launches of one seed draw apart, and so do the cores of
  // one; see sim::Core.
  void set_stochastic_rounding(uint64_t seed, uint64_t launch);
  // What the core was given; nothing where engines round to nearest.
  std::optional<uint64_t> rounding_seed() const { return rounding_seed_; }
  int core_count() const { return launch_->core_count(); }
  bool executes() const { return options_.execute != Execute::kNever; }
  const std::shared_ptr<isa::Program>& program() const { return program_; }

  // -- ranks
  int rank() const { return launch_->rank_; }
  int rank_count() const { return launch_->ranks_ ? launch_->ranks_->count() : 1; }
  const RankLayout& rank_layout() const;
  // Where several ranks meet; of a launch of one rank the core is alone. See Ranks::meet().
  void meet(Ranks::Visit visit, const std::function<void(std::span<Contribution* const>)>& complete);
  // Null in a launch of one rank.
  Ranks* ranks() const { return launch_->ranks_.get(); }
  // Where in the program a collective lies: [begin, met) copies what this rank sends, [met, end) what it got.
  struct CollectiveMark {
    size_t record;  // in Ranks::records()
    size_t begin, met, end;
  };
  void add_collective(CollectiveMark mark) { collectives_.push_back(mark); }
  const std::vector<CollectiveMark>& collectives() const { return collectives_; }

  // Fresh memory. Errors: Fault{kProgram} "ndarray.*" for shapes that no memory has.
  TensorView ndarray(std::span<const int64_t> shape, DType dtype, isa::MemorySpace space, std::string name,
                     std::optional<isa::Address> address, isa::LocationId location);
  // `row`, of one partition, copied to `count` partitions of a new SBUF tile: an nc_stream_shuffle for every
  // 32 of them. What nki.language does over and over, in one call.
  TensorView spread_row(const TensorView& row, int64_t count, isa::LocationId location);
  // A tensor in HBM whose bytes the host owns; usable on any machine.
  static TensorView host_tensor(std::span<const int64_t> shape, DType dtype, isa::MemorySpace space,
                                std::shared_ptr<sim::Buffer> bytes, std::string name);
  // -- device loops
  // Between begin and end the body is recorded once, and runs as often as the loop does when it is executed.
  // Until the outermost loop ends nothing executes, so no value can be looked at. A machine that executes
  // every instruction at once records no loops: its caller repeats the body.
  bool records_loops() const { return options_.execute != Execute::kEager; }
  size_t open_loops() const { return open_loops_.size(); }
  // The loop's register, which counts from `lower` to below `upper`.
  isa::RegisterId begin_loop(isa::Operand lower, isa::Operand upper, int64_t step, isa::LocationId location);
  // While the register is not 0; the body writes it.
  void begin_while(isa::RegisterId condition, isa::LocationId location);
  void end_loop(isa::LocationId location);  // of the innermost one, of either kind
  // The body was left by break, return or an exception: whatever comes next is a fault.
  void abandon_loop() { abandoned_ = true; }

  // The location of a place in the host's code, known by its address after `intern` has made it once.
  template <typename Intern>
  isa::LocationId location_of(const void* place, Intern&& intern) {
    const auto [found, added] = place_locations_.try_emplace(place, 0);
    if (added) found->second = intern();
    return found->second;
  }

  isa::RegisterId new_register() { return program_->add_register(); }

  isa::Operand operand(const TensorView& view);
  isa::InstructionIndex emit(isa::Opcode opcode, isa::Engine engine, std::span<const isa::Operand> operands,
                             std::span<const isa::AttributeWord> attributes, isa::LocationId location,
                             uint32_t name = 0);

  // True when a batch is full: the caller should flush(), if it can (a Python host drops its lock first).
  bool fills_fresh_memory() const { return core_->checks().fill_fresh_memory; }
  bool wants_flush() const;
  // Starts executing what is recorded, where a batch may run by itself; else as flush().
  void start_flush();
  // Executes everything recorded so far. On an LNC2 core this may wait for the other core.
  void flush();
  // For a kernel that ends by an exception: executes what is recorded as far as the last instruction, or
  // device loop, that prints.
  void flush_prints();
  // flush(), then the bytes of the tensor.
  std::shared_ptr<sim::Buffer> value(const TensorView& view);
  int64_t register_value(isa::RegisterId id);

  // Scheduling edges by the names of instructions, once the kernel is recorded: `consumer` starts after
  // `producer` is complete. Fault{kProgram} "schedule.*" for a name that no instruction has and for an edge
  // out of a device loop, Fault{kNotModelled} for one against the order of the program.
  struct NamedEdge {
    std::string consumer, producer;
  };
  void add_schedule(std::span<const NamedEdge> edges);

  void set_no_reorder(bool on) { no_reorder_ = on; }
  size_t executed() const { return executed_; }
  sim::Core& core() { return *core_; }
  // The tensors of the host that the kernel has touched.
  std::vector<std::pair<isa::TensorId, std::shared_ptr<sim::Buffer>>> host_buffers() const;

  // Called by ~Storage: nobody can name this tensor any more.
  void storage_died(isa::TensorId id);

 private:
  Machine(const MachineOptions& options, std::shared_ptr<Launch> launch);
  bool runs_batches_by_themselves() const;
  // Waits for the batch that is running, and takes over what it left: its progress or its Fault.
  void finish_batch();
  void run_batches();  // what the other thread does
  void execute_until(size_t end);
  void wait_for_peer(std::unique_lock<std::mutex>& lock);
  void tell_who_goes_on();
  // Dead tensors whose last use is still to be executed: released on the way.
  std::vector<sim::Core::Release> pending_releases();
  void release_dead();
  void check_no_open_loop() const;
  void check_ends(isa::InstructionIndex while_begin) const;
  void check_scope(isa::TensorId id) const;
  isa::TensorId tensor_id(const TensorView& view);
  std::shared_ptr<sim::Buffer> shared_hbm(const isa::Tensor& tensor);

  MachineOptions options_;
  std::shared_ptr<Launch> launch_;
  std::shared_ptr<isa::Program> program_;
  sim::Core* core_;  // owned by the launch's group
  size_t executed_ = 0;
  size_t shared_created_ = 0;
  std::vector<CollectiveMark> collectives_;
  bool no_reorder_ = false;
  std::optional<uint64_t> rounding_seed_;
  std::vector<isa::InstructionIndex> open_loops_;  // their begin markers, outermost first
  bool has_loops_ = false;
  std::unordered_map<const void*, isa::LocationId> place_locations_;
  bool abandoned_ = false;
  size_t prints_end_ = 0;  // behind the last device_print, or the outermost loop around it
  bool print_in_loop_ = false;
  bool failed_ = false;  // a Fault stopped the execution
  // Host storages met so far. They are kept: an address may otherwise come again as another array.
  std::unordered_map<const Storage*, std::pair<isa::TensorId, std::shared_ptr<Storage>>> host_tensors_;
  struct Dead {
    size_t after;  // instructions that may still use it
    isa::TensorId tensor;
  };
  std::mutex dead_mutex_;
  std::deque<Dead> dead_;
  std::vector<std::pair<isa::TensorId, std::shared_ptr<sim::Buffer>>> to_bind_;  // met while a batch ran

  // The thread that runs batches; made when first needed. While `busy`, the core is its own.
  struct Batch {
    uint64_t born = 0;     // in this process: elsewhere nobody runs them
    interrupt::Work work;  // stops with the machine: nobody can look at what it computes any more
    std::thread thread;
    std::mutex mutex;
    std::condition_variable changed;
    std::atomic<bool> busy = false;
    bool stop = false;
    size_t begin = 0, end = 0;
    std::vector<sim::Core::Release> releases;
    std::exception_ptr error;
  };
  // True in the child of a fork: the thread is not there.
  bool batch_thread_is_gone() const;
  void expect_batch_thread() const;
  std::unique_ptr<Batch> owned_batch_ = std::make_unique<Batch>();
  Batch& batch_ = *owned_batch_;
};

}  // namespace opentrn::nki
