#include "nki/machine.h"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "base/fork.h"
#include "base/random.h"
#include "isa/constraints.h"
#include "isa/constraints_context.h"
#include "isa/tensor_label.h"

namespace opentrn::nki {

namespace {

// Instructions recorded before they run. Large enough that the hand-over costs nothing, small enough
// that an error is reported near its cause and dead tiles are dropped soon.
constexpr size_t kBatchInstructions = 128;
constexpr int64_t kPartitions = 128;
constexpr int64_t kQuadrant = 32;  // partitions that nc_stream_shuffle moves data between

ThreadPool& pool() {
  static ThreadPool instance(default_thread_count());
  return instance;
}
ForkSafeMutex pool_turn;  // the pool serves one caller at a time

std::function<void(const std::function<void()>&)>& blocking_section() {
  static auto* section = new std::function<void(const std::function<void()>&)>(
      [](const std::function<void()>& wait) { wait(); });
  return *section;
}

}  // namespace

void set_blocking_section(std::function<void(const std::function<void()>& wait)> section) {
  blocking_section() = std::move(section);
}

Launch::Launch(const MachineOptions& options, int core_count) : Launch(options, core_count, nullptr, 0) {}

Launch::Launch(const MachineOptions& options, int core_count, std::shared_ptr<Ranks> ranks, int rank)
    : core_count_(core_count),
      ranks_(std::move(ranks)),
      rank_(rank),
      running_(core_count),
      group_(options.generation, core_count, &pool(), options.checks) {
  if (!ranks_) return;
  OPENTRN_CHECK(rank >= 0 && rank < ranks_->count() && core_count == ranks_->cores(),
                "rank {} with {} cores of {} ranks with {}", rank, core_count, ranks_->count(),
                ranks_->cores());
}

void Launch::core_done(int core_id, bool failed) {
  std::lock_guard lock(mutex_);
  --running_;
  progress_.notify_all();
  if (ranks_) ranks_->core_ended({rank_, core_id}, failed);
}

void Launch::check_races() {
  std::lock_guard lock(mutex_);
  group_.check_races();
}

std::shared_ptr<Machine> Machine::create(const MachineOptions& options, std::shared_ptr<Launch> launch) {
  if (!launch) launch = std::make_shared<Launch>(options, 1);
  if (options.core_id < 0 || options.core_id >= launch->core_count())
    throw Fault(FaultKind::kInput, "launch.core",
                fmt::format("core {} of a launch of {} cores", options.core_id, launch->core_count()));
  return std::shared_ptr<Machine>(new Machine(options, std::move(launch)));
}

Machine::Machine(const MachineOptions& options, std::shared_ptr<Launch> launch)
    : options_(options),
      launch_(std::move(launch)),
      program_(std::make_shared<isa::Program>()),
      core_(&launch_->group_.core(options.core_id)) {}

Machine::~Machine() {
  if (!batch_.thread.joinable()) return;
  if (batch_thread_is_gone()) {
    // A condition variable does not end while it has a waiter, which the thread was.
    static_cast<void>(owned_batch_.release());
    return;
  }
  {
    std::lock_guard lock(batch_.mutex);
    batch_.stop = true;
  }
  batch_.work.stop();
  batch_.changed.notify_all();
  blocking_section()([this] { batch_.thread.join(); });
}

void Machine::set_stochastic_rounding(uint64_t seed, uint64_t launch) {
  // Seeds, launches and cores are small numbers: each is spread before the next is added.
  uint64_t spread = SplitMix64(seed).next();
  for (const uint64_t number : {launch, static_cast<uint64_t>(options_.core_id)})
    spread = SplitMix64(spread + number).next();
  rounding_seed_ = spread;
  core_->set_stochastic_rounding(spread);
}

// -- batches

// Not inside loops, whose markers are patched later, nor where another core may have to be waited for.
bool Machine::runs_batches_by_themselves() const {
  return options_.execute == Execute::kBatched && core_count() == 1 && !has_loops_ && pool().size() > 1 &&
         !batch_thread_is_gone();
}

bool Machine::batch_thread_is_gone() const {
  return batch_.thread.joinable() && batch_.born != fork_generation();
}

void Machine::expect_batch_thread() const {
  if (!batch_thread_is_gone()) return;
  throw Fault(FaultKind::kInput, "machine.fork",
              "this process was forked while a kernel was running; the thread that ran it is not in the copy",
              "start processes before or after a kernel, or with multiprocessing's 'spawn'");
}

void Machine::run_batches() {
  std::unique_lock lock(batch_.mutex);
  while (true) {
    batch_.changed.wait(lock, [this] { return batch_.busy.load() || batch_.stop; });
    if (!batch_.busy.load()) return;
    lock.unlock();
    std::exception_ptr error;
    try {
      const interrupt::Scope launch(launch_->work_), own(batch_.work);
      const auto turn = interrupt::lock(pool_turn);
      core_->run(*program_, static_cast<isa::InstructionIndex>(batch_.begin),
                 static_cast<isa::InstructionIndex>(batch_.end), std::move(batch_.releases));
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    batch_.error = error;
    batch_.busy.store(false);
    batch_.changed.notify_all();
  }
}

void Machine::start_flush() {
  if (!runs_batches_by_themselves()) return flush();
  check_no_open_loop();
  finish_batch();
  release_dead();
  if (executed_ == program_->size()) return;
  program_->set_before_move([this] {
    expect_batch_thread();
    blocking_section()([this] {
      const interrupt::Scope scope(launch_->work_);
      std::unique_lock lock(batch_.mutex);
      interrupt::wait_for_end(batch_.changed, lock, [this] { return !batch_.busy.load(); });
    });
  });
  std::lock_guard lock(batch_.mutex);
  batch_.begin = executed_;
  batch_.end = program_->size();
  batch_.releases = pending_releases();
  batch_.busy.store(true);
  if (!batch_.thread.joinable()) {
    batch_.born = fork_generation();
    batch_.thread = std::thread([this] { run_batches(); });
  }
  batch_.changed.notify_all();
}

void Machine::finish_batch() {
  if (batch_.end <= executed_) return;  // none is out
  expect_batch_thread();
  std::exception_ptr error;
  blocking_section()([&] {
    const interrupt::Scope scope(launch_->work_);
    std::unique_lock lock(batch_.mutex);
    interrupt::wait_for_end(batch_.changed, lock, [this] { return !batch_.busy.load(); });
    error = std::exchange(batch_.error, nullptr);
  });
  program_->set_before_move(nullptr);
  executed_ = batch_.end;
  for (auto& [id, buffer] : to_bind_) core_->bind(id, std::move(buffer));
  to_bind_.clear();
  failed_ = error != nullptr;
  if (error) std::rethrow_exception(error);
}

std::shared_ptr<sim::Buffer> Machine::shared_hbm(const isa::Tensor& tensor) {
  std::unique_lock lock(launch_->mutex_, std::defer_lock);
  blocking_section()([&] { lock.lock(); });
  const size_t index = shared_created_++;
  if (index == launch_->shared_.size()) {
    launch_->shared_.push_back({tensor.name, tensor.bytes(), sim::Buffer::allocate(tensor.bytes())});
    if (core_->checks().fill_fresh_memory) launch_->shared_.back().buffer->fill_fresh(tensor.dtype);
  }
  const Launch::SharedTensor& shared = launch_->shared_[index];
  if (shared.bytes != tensor.bytes())
    throw Fault(FaultKind::kProgram, "ndarray.shared_hbm",
                fmt::format("shared_hbm tensor number {} has {} bytes on core {} and {} on another core",
                            index, tensor.bytes(), options_.core_id, shared.bytes),
                "both programs of a launch must create their shared tensors in the same order");
  return shared.buffer;
}

TensorView Machine::ndarray(std::span<const int64_t> shape, DType dtype, isa::MemorySpace space,
                            std::string name, std::optional<isa::Address> address, isa::LocationId location) {
  const auto fail = [&](const std::string& label, std::string message, std::string hint = {}) {
    Fault fault(FaultKind::kProgram, "ndarray." + label, std::move(message), std::move(hint));
    fault.set_location(program_->location(location));
    throw fault;
  };
  if (shape.empty() || shape.size() > isa::kMaxRank)
    fail("rank", fmt::format("{} dimensions; 1 to {} are possible", shape.size(), isa::kMaxRank));
  for (int64_t size : shape)
    if (size < 1 || size > (int64_t{1} << 40))
      fail("shape", fmt::format("a dimension has size {}; sizes are positive", size));
  isa::Tensor tensor;
  tensor.space = space;
  tensor.dtype = dtype;
  tensor.shape.assign(shape.begin(), shape.end());
  tensor.name = std::move(name);
  tensor.address = address;
  tensor.location = location;
  if (!open_loops_.empty()) tensor.loop = open_loops_.back();
  if (isa::is_on_chip(space)) {
    if (shape.size() < 2)
      fail("rank", fmt::format("a tensor in {} needs a partition dimension and a free one", isa::name(space)),
           "add a free dimension of size 1");
    if (shape[0] > kPartitions)
      fail("partitions",
           fmt::format("dimension 0 has size {}; {} has {} partitions", shape[0], isa::name(space),
                       kPartitions),
           "tile dimension 0 by nl.tile_size.pmax");
    tensor.rows = shape[0];
    const int64_t bank = isa::constraint::limits(options_.generation).psum_bank_bytes_per_partition;
    if (space == isa::MemorySpace::kPsum && address && address->byte_offset % bank != 0 && !moves_rows())
      fail("psum_bank",
           fmt::format("it is placed {} bytes into a partition of PSUM, whose banks have {}",
                       address->byte_offset, bank),
           "place it on a bank's first byte and slice it");
    shape = shape.subspan(1);
  }
  tensor.row_elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  const bool shared = space == isa::MemorySpace::kSharedHbm && core_count() > 1;
  std::shared_ptr<sim::Buffer> buffer = shared ? shared_hbm(tensor) : nullptr;
  const isa::TensorId id = program_->add_tensor(std::move(tensor));
  if (buffer) core_->bind(id, std::move(buffer));
  const isa::Tensor& added = program_->tensor(id);
  return TensorView::whole(std::make_shared<Storage>(shared_from_this(), id, added), added.shape);
}

TensorView Machine::spread_row(const TensorView& row, int64_t count, isa::LocationId location) {
  namespace s = isa::slot::nc_stream_shuffle;
  constexpr std::array<int64_t, kQuadrant> kFirstOfAll{};
  const int64_t groups = (count + kQuadrant - 1) / kQuadrant;
  std::vector<int64_t> shape{groups * kQuadrant};
  for (int dim = 1; dim < row.rank(); ++dim) shape.push_back(row.size(dim));
  const TensorView tile = ndarray(shape, row.dtype, isa::MemorySpace::kSbuf, {}, std::nullopt, location);
  std::array<isa::Operand, 2> operands;
  operands[s::kSrc] = operand(row);
  std::array<isa::AttributeWord, 1> attributes;
  attributes[s::kAShuffleMask].integer = program_->intern_list(kFirstOfAll);
  for (int64_t first = 0; first < groups * kQuadrant; first += kQuadrant) {
    operands[s::kDst] = operand(tile.slice(0, first, first + kQuadrant, 1));
    emit(isa::Opcode::kNcStreamShuffle, isa::Engine::kVector, operands, attributes, location);
  }
  return count == groups * kQuadrant ? tile : tile.slice(0, 0, count, 1);
}

TensorView Machine::host_tensor(std::span<const int64_t> shape, DType dtype, isa::MemorySpace space,
                                std::shared_ptr<sim::Buffer> bytes, std::string name) {
  isa::Tensor tensor;
  tensor.space = space;
  tensor.dtype = dtype;
  tensor.row_elements = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  tensor.name = std::move(name);
  OPENTRN_CHECK(tensor.bytes() == bytes->bytes(), "{} bytes for a tensor of {}", bytes->bytes(),
                tensor.bytes());
  return TensorView::whole(std::make_shared<Storage>(std::move(bytes), tensor), shape);
}

isa::TensorId Machine::tensor_id(const TensorView& view) {
  const Storage& storage = *view.storage;
  if (storage.machine.get() == this) {
    if (program_->tensor(storage.id).loop) check_scope(storage.id);
    return storage.id;
  }
  if (!storage.host_bytes)
    throw Fault(FaultKind::kProgram, "NkiTensor.launch",
                fmt::format("{} belongs to another kernel launch", view.describe()),
                "tensors live only while the kernel that made them runs");
  const auto [it, inserted] = host_tensors_.try_emplace(&storage, 0, view.storage);
  if (inserted) {
    isa::Tensor tensor;
    tensor.space = storage.space;
    tensor.dtype = storage.dtype;
    tensor.row_elements = storage.row_elements;
    tensor.shape = {storage.row_elements};
    tensor.name = storage.name;
    tensor.is_input = true;
    it->second.first = program_->add_tensor(std::move(tensor));
    if (batch_.busy.load())
      to_bind_.emplace_back(it->second.first, storage.host_bytes);
    else
      core_->bind(it->second.first, storage.host_bytes);
  }
  return it->second.first;
}

std::vector<std::pair<isa::TensorId, std::shared_ptr<sim::Buffer>>> Machine::host_buffers() const {
  std::vector<std::pair<isa::TensorId, std::shared_ptr<sim::Buffer>>> buffers;
  for (const auto& [storage, entry] : host_tensors_) buffers.emplace_back(entry.first, storage->host_bytes);
  return buffers;
}

isa::Operand Machine::operand(const TensorView& view) {
  if (view.pattern.element_count() == 0)
    throw Fault(FaultKind::kProgram, "NkiTensor.empty",
                fmt::format("{} has no elements; an instruction needs at least one", view.describe()),
                "leave the instruction out where there is no work");
  if (view.may_leave_storage) view.check_extent("ap");
  isa::Operand operand;
  operand.kind = isa::OperandKind::kAccess;
  operand.dtype = view.dtype;
  operand.tensor = tensor_id(view);
  operand.pattern = program_->intern_pattern(view.pattern);
  operand.offset = view.offset;
  if (view.indirection) {
    const Indirection& from = *view.indirection;
    isa::Indirect indirect;
    indirect.kind = from.kind;
    indirect.dim = static_cast<uint8_t>(std::max(0, from.dim));
    indirect.index = from.index ? this->operand(*from.index) : isa::Operand::reg(from.index_register);
    indirect.stride = from.stride;
    indirect.bound = from.bound;
    indirect.num_elem = from.num_elem;
    operand.indirect = program_->add_indirect(indirect);
  }
  return operand;
}

// -- device loops

isa::RegisterId Machine::begin_loop(isa::Operand lower, isa::Operand upper, int64_t step,
                                    isa::LocationId location) {
  has_loops_ = true;
  const isa::RegisterId counter = new_register();
  const isa::Operand operands[] = {isa::Operand::reg(counter), lower, upper};
  const isa::AttributeWord attributes[] = {{.integer = step}, {.integer = 0}};
  open_loops_.push_back(emit(isa::Opcode::kLoopBegin, isa::Engine::kUnknown, operands, attributes, location));
  return counter;
}

void Machine::begin_while(isa::RegisterId condition, isa::LocationId location) {
  has_loops_ = true;
  const isa::Operand operands[] = {isa::Operand::reg(condition)};
  const isa::AttributeWord attributes[] = {{.integer = 0}};
  open_loops_.push_back(
      emit(isa::Opcode::kWhileBegin, isa::Engine::kUnknown, operands, attributes, location));
}

void Machine::end_loop(isa::LocationId location) {
  OPENTRN_CHECK(!open_loops_.empty(), "no loop is open");
  const isa::InstructionIndex begin = open_loops_.back();
  const isa::Instruction first = program_->instruction(begin);
  const isa::Operand operands[] = {program_->operand(first, 0)};
  const isa::AttributeWord match = {.integer = static_cast<int64_t>(begin)};
  isa::InstructionIndex end;
  if (first.opcode == isa::Opcode::kLoopBegin) {
    namespace s = isa::slot::loop;
    const isa::AttributeWord attributes[] = {{.integer = program_->attribute_int(first, s::kAStep)}, match};
    end = emit(isa::Opcode::kLoopEnd, isa::Engine::kUnknown, operands, attributes, location);
    program_->set_attribute(begin, s::kAMatch, {.integer = static_cast<int64_t>(end)});
  } else {
    namespace s = isa::slot::while_loop;
    check_ends(begin);
    const isa::AttributeWord attributes[] = {match};
    end = emit(isa::Opcode::kWhileEnd, isa::Engine::kUnknown, operands, attributes, location);
    program_->set_attribute(begin, s::kAMatch, {.integer = static_cast<int64_t>(end)});
  }
  open_loops_.pop_back();
  if (open_loops_.empty() && std::exchange(print_in_loop_, false)) prints_end_ = program_->size();
}

// A body that never writes the register that the loop tests leaves it as it was.
void Machine::check_ends(isa::InstructionIndex while_begin) const {
  const isa::Instruction& loop = program_->instruction(while_begin);
  const isa::RegisterId condition = program_->operand(loop, isa::slot::while_loop::kCondition).tensor;
  for (size_t i = while_begin + 1; i < program_->size(); ++i) {
    const isa::Instruction& in = program_->instruction(static_cast<isa::InstructionIndex>(i));
    const auto slots = isa::definition(in.opcode).operands;
    for (int slot = 0; slot < in.operand_count; ++slot) {
      const isa::Operand& operand = program_->operand(in, slot);
      const isa::Role role = slots[std::min<size_t>(static_cast<size_t>(slot), slots.size() - 1)].role;
      if (operand.kind == isa::OperandKind::kRegister && operand.tensor == condition &&
          role != isa::Role::kIn)
        return;
    }
  }
  Fault fault(
      FaultKind::kProgram, "loop.endless",
      "this while loop never ends once it is entered: the register that ends it is not written in the body",
      "write the register of the condition in the body, with nisa.register_load or nisa.register_move");
  fault.set_location(program_->location(loop.location));
  throw fault;
}

void Machine::check_no_open_loop() const {
  if (open_loops_.empty()) return;
  const isa::Instruction& loop = program_->instruction(open_loops_.back());
  Fault fault =
      abandoned_
          ? Fault(FaultKind::kProgram, "loop.left", "a device loop was left by break, return or an exception",
                  "a device loop ends by its bound or its condition only")
          : Fault(FaultKind::kProgram, "loop.value",
                  "a value is looked at inside a device loop, whose body is recorded once, before it runs",
                  "use registers as offsets and tensors as operands; or execute eagerly (OPENTRN_EAGER=1), "
                  "which repeats the body in Python");
  fault.set_location(program_->location(loop.location));
  throw fault;
}

void Machine::check_scope(isa::TensorId id) const {
  const isa::Tensor& tensor = program_->tensor(id);
  for (isa::InstructionIndex loop : open_loops_)
    if (loop == *tensor.loop) return;
  Fault fault(FaultKind::kProgram, "loop.scope",
              fmt::format("{} was made inside a device loop and is used outside of it",
                          isa::tensor_label(*program_, id)),
              "make the tensor before the loop");
  fault.set_location(program_->location(tensor.location));
  throw fault;
}

// -- scheduling edges

namespace {

// Of every instruction: the begin marker of the innermost loop around it, or kNoLoop.
constexpr isa::InstructionIndex kNoLoop = UINT32_MAX;
std::vector<isa::InstructionIndex> loops_around(const isa::Program& program) {
  std::vector<isa::InstructionIndex> around(program.size()), open;
  for (isa::InstructionIndex i = 0; i < program.size(); ++i) {
    const isa::Opcode opcode = program.instruction(i).opcode;
    if (isa::closes_loop(opcode)) open.pop_back();
    around[i] = open.empty() ? kNoLoop : open.back();
    if (isa::opens_loop(opcode)) open.push_back(i);
  }
  return around;
}

bool encloses(isa::InstructionIndex outer, isa::InstructionIndex inner,
              const std::vector<isa::InstructionIndex>& around) {
  while (inner != outer && inner != kNoLoop) inner = around[inner];
  return inner == outer;
}

[[noreturn]] void refuse_edge(FaultKind kind, std::string_view label, std::string message, std::string hint,
                              SourceLocation where = {}) {
  Fault fault(kind, fmt::format("schedule.{}", label), std::move(message), std::move(hint));
  if (where.known()) fault.set_location(std::move(where));
  throw fault;
}

// "a waits for b, which waits for a": the first cycle, or nothing.
class CycleSearch {
 public:
  explicit CycleSearch(std::span<const Machine::NamedEdge> edges) {
    for (const auto& [consumer, producer] : edges) producers_[consumer].push_back(producer);
  }
  std::string find() {
    for (const auto& [name, producers] : producers_)
      if (visit(name)) return text_;
    return {};
  }

 private:
  bool visit(std::string_view name) {
    const auto on_path = std::ranges::find(path_, name);
    if (on_path != path_.end()) {
      text_ = fmt::format("'{}' waits for ", name);
      for (auto step = on_path + 1; step != path_.end(); ++step)
        text_ += fmt::format("'{}', which waits for ", *step);
      text_ += fmt::format("'{}'", name);
      return true;
    }
    const auto found = producers_.find(name);
    if (found == producers_.end() || !done_.insert(name).second) return false;
    path_.push_back(name);
    const bool cycle = std::ranges::any_of(found->second, [&](std::string_view next) { return visit(next); });
    path_.pop_back();
    return cycle;
  }

  std::map<std::string_view, std::vector<std::string_view>> producers_;
  std::set<std::string_view> done_;
  std::vector<std::string_view> path_;
  std::string text_;
};

}  // namespace

void Machine::add_schedule(std::span<const NamedEdge> edges) {
  std::unordered_multimap<std::string_view, isa::InstructionIndex> by_name;
  if (!edges.empty())
    for (isa::InstructionIndex i = 0; i < program_->size(); ++i)
      if (const uint32_t name = program_->instruction(i).name) by_name.emplace(program_->string(name), i);
  if (const std::string cycle = CycleSearch(edges).find(); !cycle.empty())
    refuse_edge(FaultKind::kProgram, "cycle", fmt::format("the scheduling edges form a cycle: {}", cycle),
                "leave one of its edges out: none of these instructions could start");
  for (const auto& [consumer_name, producer_name] : edges) {
    for (const std::string& name : {consumer_name, producer_name})
      if (!by_name.contains(name))
        refuse_edge(FaultKind::kProgram, "name", fmt::format("no instruction is named '{}'", name),
                    "pass name= to the call, and the same name to with_schedule");
    const auto [consumers, consumers_end] = by_name.equal_range(consumer_name);
    const auto [producers, producers_end] = by_name.equal_range(producer_name);
    for (auto consumer = consumers; consumer != consumers_end; ++consumer)
      for (auto producer = producers; producer != producers_end; ++producer) {
        if (producer->second >= consumer->second)
          refuse_edge(FaultKind::kNotModelled, "order",
                      fmt::format("'{}' shall wait for '{}', which the program issues later", consumer_name,
                                  producer_name),
                      "issue the producer first; edges against program order are not modelled");
        program_->add_edge({consumer->second, producer->second});
      }
  }
  if (program_->edges().empty()) return;
  const std::vector<isa::InstructionIndex> around = loops_around(*program_);
  for (const isa::DependencyEdge& edge : program_->edges())
    if (!encloses(around[edge.producer], around[edge.consumer], around))
      refuse_edge(FaultKind::kProgram, "loop",
                  "a scheduling edge leads out of a device loop: its semaphore might never be signalled",
                  "both instructions must be in the same loop, or the producer around it",
                  program_->location(program_->instruction(edge.consumer).location));
}

isa::InstructionIndex Machine::emit(isa::Opcode opcode, isa::Engine engine,
                                    std::span<const isa::Operand> operands,
                                    std::span<const isa::AttributeWord> attributes, isa::LocationId location,
                                    uint32_t name) {
  if (abandoned_) check_no_open_loop();
  launch_->work_.poll();
  const isa::InstructionIndex index = program_->append(opcode, engine, operands, attributes, location, name,
                                                       no_reorder_ ? isa::kFlagNoReorder : uint8_t{0});
  if (options_.check_constraints)
    isa::check(*program_, program_->instruction(index), options_.generation, moves_rows());
  if (opcode == isa::Opcode::kDevicePrint) {
    if (open_loops_.empty())
      prints_end_ = program_->size();
    else
      print_in_loop_ = true;
  }
  if (options_.execute == Execute::kEager) flush();
  return index;
}

const RankLayout& Machine::rank_layout() const {
  static const RankLayout alone;
  return launch_->ranks_ ? launch_->ranks_->layout() : alone;
}

void Machine::meet(Ranks::Visit visit, const std::function<void(std::span<Contribution* const>)>& complete) {
  if (!launch_->ranks_) return complete(std::array{visit.contribution});
  blocking_section()([&] {
    const interrupt::Scope scope(launch_->work_);
    launch_->ranks_->meet({rank(), options_.core_id}, std::move(visit), complete);
  });
}

// A rendezvous is complete for both cores at once, also for the one whose thread still sleeps.
void Machine::tell_who_goes_on() {
  if (!launch_->ranks_) return;
  for (int core = 0; core < core_count(); ++core)
    if (!launch_->group_.waiting_at(core)) launch_->ranks_->goes_on({rank(), core});
}

void Machine::wait_for_peer(std::unique_lock<std::mutex>& lock) {
  Launch& launch = *launch_;
  const auto passed = [&] { return !launch.group_.waiting_at(options_.core_id); };
  const isa::InstructionIndex at = *launch.group_.waiting_at(options_.core_id);
  Ranks* const ranks = launch.ranks_.get();
  if (ranks) {
    const isa::Instruction& in = program_->instruction(at);
    const SourceLocation where = program_->location(in.location);
    ranks->waits_for_core({rank(), options_.core_id},
                          fmt::format("at {}{}", isa::name(in.opcode),
                                      where.known() ? fmt::format(" ({}:{})", where.file, where.line) : ""));
  }
  interrupt::wait(launch.progress_, lock, [&] {
    return passed() || launch.running_ < launch.core_count_ || (ranks && ranks->failed());
  });
  if (passed()) return;
  if (ranks && ranks->failed()) ranks->throw_failure(program_->location(program_->instruction(at).location));
  Fault fault(
      FaultKind::kProgram, "sim.peer_ended",
      fmt::format("core {} waits here, but the other core ended without taking part", options_.core_id),
      "both programs of an LNC2 launch must execute the same sequence of sendrecv and core_barrier");
  fault.set_location(program_->location(program_->instruction(at).location));
  throw fault;
}

void Machine::flush() {
  check_no_open_loop();
  if (options_.execute == Execute::kNever) return;
  finish_batch();
  execute_until(program_->size());
}

void Machine::flush_prints() {
  if (options_.execute == Execute::kNever || failed_ || prints_end_ <= executed_) return;
  finish_batch();
  execute_until(prints_end_);
}

// The host's lock is dropped even before the launch's is taken: the other core may hold that one while what
// it prints waits for the host's.
void Machine::execute_until(size_t end) {
  blocking_section()([&] {
    const interrupt::Scope scope(launch_->work_);
    std::unique_lock lock(launch_->mutex_);
    failed_ = true;
    while (executed_ < end) {
      {
        const auto turn = interrupt::lock(pool_turn);
        executed_ = core_->run(*program_, static_cast<isa::InstructionIndex>(executed_),
                               static_cast<isa::InstructionIndex>(end), pending_releases());
      }
      launch_->progress_.notify_all();
      tell_who_goes_on();
      if (executed_ < end) wait_for_peer(lock);
    }
    failed_ = false;
    release_dead();
  });
}

void Machine::storage_died(isa::TensorId id) {
  std::lock_guard lock(dead_mutex_);
  dead_.push_back({program_->size(), id});
}

std::vector<sim::Core::Release> Machine::pending_releases() {
  std::lock_guard lock(dead_mutex_);
  std::vector<sim::Core::Release> releases;
  for (const Dead& dead : dead_)
    if (dead.after > executed_)
      releases.emplace_back(static_cast<isa::InstructionIndex>(dead.after - 1), dead.tensor);
  return releases;
}

void Machine::release_dead() {
  if (core_->inside_loop()) return;
  std::lock_guard lock(dead_mutex_);
  while (!dead_.empty() && dead_.front().after <= executed_) {
    core_->release(dead_.front().tensor);
    dead_.pop_front();
  }
}

bool Machine::wants_flush() const {
  if (options_.execute != Execute::kBatched || !open_loops_.empty()) return false;
  if (batch_.busy.load(std::memory_order_relaxed)) return false;
  const size_t started = std::max(executed_, batch_.end);
  return program_->size() - started >= kBatchInstructions;
}

std::shared_ptr<sim::Buffer> Machine::value(const TensorView& view) {
  if (view.storage->host_bytes) {
    flush();
    return view.storage->host_bytes;
  }
  if (options_.execute == Execute::kNever)
    throw Fault(FaultKind::kProgram, "launch.no_values",
                "this launch records instructions without executing them; it has no values");
  flush();
  return core_->buffer(*program_, tensor_id(view));
}

int64_t Machine::register_value(isa::RegisterId id) {
  check_no_open_loop();
  if (options_.execute == Execute::kNever)
    throw Fault(FaultKind::kProgram, "launch.no_values",
                "this launch records instructions without executing them; it has no values");
  flush();
  const std::optional<int64_t> value = core_->register_value(id);
  if (!value && core_->checks().uninitialised_reads)
    throw Fault(FaultKind::kProgram, "sim.uninitialised_read", "a register is read that nothing has set",
                "give register_alloc a value, or set it with register_move or register_load first");
  return value.value_or(0);
}

}  // namespace opentrn::nki
