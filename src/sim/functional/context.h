// Context: what the body of one instruction works with. It resolves and checks operands, decodes
// attributes, hands out scratch memory and threads, and turns a broken rule into a located Fault.
//
// A body resolves all sources before its destinations, because resolving a destination marks it written:
//   const View a = cx.source(kData);
//   const View d = cx.destination(kDst);
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "isa/definitions.h"
#include "numerics/alu.h"
#include "sim/functional/core.h"
#include "sim/functional/core_races.h"
#include "sim/functional/producer.h"
#include "sim/functional/scratch.h"
#include "sim/functional/spoilt.h"
#include "sim/functional/view.h"

namespace opentrn::sim {

inline constexpr int64_t kPartitionsMax = 128;
// More than any SBUF partition holds, so only a runaway broadcast exceeds it.
inline constexpr int64_t kElementsPerPartitionMax = int64_t{1} << 20;
// fp32 additions below which an instruction stays on one thread: about 8 microseconds of them, a few times
// what handing a part to another thread costs [measured: benchmarks/functional_bench.cc].
inline constexpr int64_t kParallelWorkMin = 131072;

class ChainRun;

// A "scalar or vector" operand: one fp32 value per partition.
struct PerPartition {
  bool present = false;
  bool is_vector = false;
  float scalar = 0;
  const float* values = nullptr;  // in scratch, for is_vector; of a deferred instruction, filled row by row

  float at(int64_t p) const { return is_vector ? values[p] : scalar; }
  // Of partitions from `p` on.
  numerics::RowScalars from(int64_t p) const {
    return is_vector ? numerics::RowScalars{values + p, 1} : numerics::RowScalars{&scalar, 0};
  }
};

// What a destination does to a PSUM tensor: may a matmul accumulate onto it afterwards?
enum class Writer : uint8_t { kMatmul, kOther };

class Context {
 public:
  Context(Core& core, const isa::Program& program, isa::InstructionIndex index, ChainRun* chain = nullptr)
      : core(core), program(program), in(program.instruction(index)), index(index), chain_(chain) {}

  Core& core;
  const isa::Program& program;
  const isa::Instruction& in;
  const isa::InstructionIndex index;
  ScratchScope scratch;

  std::string_view name() const { return isa::name(in.opcode); }
  isa::Engine engine() const { return in.engine; }
  Generation generation() const { return core.generation_; }
  // Of the cores of a launch, the one that executes this.
  int rank() const {
    return in.flags & isa::kFlagsOfPair ? int{(in.flags & isa::kFlagCore1) != 0} : core.rank_;
  }

  // -- operands
  int operand_count() const { return in.operand_count; }
  const isa::Operand& operand(int slot) const { return program.operand(in, slot); }
  bool has(int slot) const { return slot < in.operand_count && operand(slot).present(); }
  bool in_psum(int slot) const;
  // A v4 `.indirect()` operand.
  bool is_tensor_indirect(const isa::Operand& operand) const;
  // Checks bounds and initialisation. A v4 `.indirect()` source is gathered into scratch.
  View source(int slot) { return source_of(operand(slot), slot); }
  // Checks bounds, marks the elements written. A v4 `.indirect()` destination is scratch, scattered by
  // finish().
  View destination(int slot, Writer writer = Writer::kOther);
  // Read and written.
  View in_out(int slot, Writer writer = Writer::kOther);
  // Bounds only: for bodies that mark by themselves.
  View unchecked(int slot);
  // The same of a destination whose fresh memory is not filled yet (Buffer::fill_when_needed).
  View unchecked_as_it_is(int slot);
  // The bytes of the view are read, or `overwritten` as a whole before anyone reads them.
  void settle_fill(const View& view, bool overwritten) const;
  PerPartition per_partition(int slot, int64_t partitions);
  // A [P, 1] destination.
  View column(int slot, int64_t partitions);
  double immediate(int slot) const;
  int64_t register_or_immediate(int slot) const;
  // Of a register operand, which may be the index of operand `slot`.
  int64_t register_value(int slot, const isa::Operand& op) const;
  isa::RegisterId register_id(int slot) const;

  void check_initialised(const View& view, int slot) const;
  // For bodies that resolve a source with unchecked(): tells the check of races that it is read.
  void note_read(const View& view) const;
  bool checks_reads() const { return core.checks_.uninitialised_reads; }
  // Where in its tensor, in bytes, the first element lies that nothing has written; -1 when there is none or
  // it does not matter.
  int64_t first_unwritten(const View& view) const;
  // For each element of the view, row by row, whether nothing has written it.
  void list_unwritten(const View& view, std::vector<bool>& unwritten) const;
  void mark_written(const View& view, Writer writer = Writer::kOther) const;
  void expect_same_shape(const View& a, const View& b, int slot_a, int slot_b) const;
  void expect_elements(const View& view, int slot, int64_t elements) const;
  void expect_partitions(const View& view, int slot, int64_t partitions) const;
  // Copies sources that overlap `destination` otherwise than element by element.
  template <typename... Views>
  void separate(const View& destination, Views&... sources) {
    (separate_one(destination, sources), ...);
  }
  // A copy of the bytes, dense, in scratch.
  View snapshot(const View& view);
  // Dense scratch of the same shape.
  View scratch_like(const View& view);
  // Row of the first partition within its tensor: the lane of an engine's accumulators.
  int64_t lane(const View& view, int slot) const;

  // -- attributes, by slot
  int64_t integer(int slot) const { return program.attribute_int(in, slot); }
  double real(int slot) const { return program.attribute_real(in, slot); }
  bool boolean(int slot) const { return integer(slot) != 0; }
  AluOp alu(int slot) const;
  std::optional<AluOp> optional_alu(int slot) const;
  ActivationFunction activation(int slot) const;
  isa::ReduceCmd reduce_cmd(int slot) const;
  bool skip_out_of_bounds(int slot) const {
    return integer(slot) == static_cast<int64_t>(isa::OobMode::kSkip);
  }
  std::span<const int64_t> list(int slot) const;

  // How DMA bodies treat an index out of bounds; set before resolving operands.
  bool skip_indices_out_of_bounds = false;
  // Set before resolving by bodies that permute dimensions: views keep every dimension of the access.
  bool keep_dimensions = false;

  // -- work
  // body(begin, end) over a partition of [0, n), on several threads when `work` element operations pay for
  // it.
  template <typename Body>
  void parallel(int64_t n, int64_t work, Body&& body) const {
    if (core.pool_ == nullptr || work < kParallelWorkMin || n < 2) {
      if (n > 0) body(int64_t{0}, n);
      return;
    }
    auto part = [&](size_t begin, size_t end, int) {
      body(static_cast<int64_t>(begin), static_cast<int64_t>(end));
    };
    core.pool_->parallel_for(static_cast<size_t>(n), std::ref(part));
  }
  // How many threads may share a parallel().
  int threads() const { return core.pool_ == nullptr ? 1 : core.pool_->size(); }
  // Whether the work has to wait, for defer().
  bool defers() const { return chain_ != nullptr; }
  // rows(begin, end) computes partitions of `tile`, on any thread. Bodies that chain.h knows of call it once,
  // instead of working, when everything is checked; they read and write views by View::part() inside it.
  // A `producer` computes the same as `rows`, for a later reader that asks for it.
  void defer(const View& tile, const std::function<void(int64_t begin, int64_t end)>& rows,
             const Producer* producer = nullptr) const;
  // What computes a source of a deferred instruction, which then must not read it; null when it is in memory.
  const Producer* producer(const View& source) const;
  // The same for a copy: true when whoever reads `to` will read `from` itself, and nothing is left to do.
  bool defer_copy(const View& to, const View& from) const;
  // Destinations from now on round so; DMA's do not.
  void round_stochastically(uint64_t seed, uint32_t times_before);
  EngineState& engines() const { return *core.engines_; }
  const PrintCallback& print_callback() const { return core.print_; }

  // Scatters indirect destinations, and checks what is written to shared HBM; called once after the body.
  void finish();

  // -- faults
  [[noreturn]] void fail(FaultKind kind, std::string label, std::string message, std::string hint = {}) const;
  // "<instruction>.<rule>"
  [[noreturn]] void broken(std::string_view rule, std::string message, std::string hint = {}) const;
  std::string describe(int slot) const;
  std::string operand_name(int slot) const;
  // Adds operand shapes and the source line.
  void locate(Fault& fault) const;
  void validate() const;  // slot and attribute counts

 private:
  // A v4 `.indirect()` operand: position i of dimension `dim` lies at offsets[group][i].
  struct IndirectTile {
    View first;              // the elements at offset 0 of the indirect dimension, uncollapsed
    int dim;                 // 1-based, as in the access
    int rank;                // of the access
    int64_t positions;       // along `dim`
    int64_t group;           // partitions that share a list of offsets
    const int64_t* offsets;  // bytes, [groups][positions]
    View values;             // dense scratch of the gathered or to be scattered elements
  };

  View resolve(const isa::Operand& operand, int slot);
  View resolve_as_it_is(const isa::Operand& operand, int slot);
  int64_t largest_operand_bytes() const;
  View source_of(const isa::Operand& operand, int slot);
  // Takes note of unwritten elements that spoil results only; fails for others.
  void check_or_spoil(const View& source, int slot);
  // Marks a destination as written, but for what is spoilt.
  void write(const View& destination, Writer writer);
  IndirectTile resolve_tensor_indirect(const isa::Operand& operand, int slot);
  View gather(const IndirectTile& tile, int slot);
  template <typename Element>
  void for_indirect_elements(const IndirectTile& tile, Element&& element) const;
  // The value of a scalar index; nullopt when it is out of bounds and may be skipped.
  std::optional<int64_t> scalar_index(const isa::Indirect& indirect, int slot);
  std::span<const int64_t> vector_index(const isa::Indirect& indirect, int64_t count, int slot);
  void check_operand(const isa::Operand& operand, int slot) const;
  void separate_one(const View& destination, View& source);

  View rounding(View view, int slot) const;
  SharedAccesses* watched(const View& view) const;
  void note_write(const View& view);

  // A vector operand whose values are loaded with the rows that use them.
  struct LateOperand {
    View view;
    float* values;
  };
  static constexpr int kLateOperandsMax = 3;
  void load_late(int64_t begin, int64_t end) const;

  std::vector<IndirectTile> scatters_;
  std::vector<SharedWrite> shared_writes_;
  numerics::Rounding rounding_{};
  ChainRun* chain_;
  LateOperand* late_ = nullptr;  // in scratch
  int late_count_ = 0;
  std::unique_ptr<Spoilt> spoilt_;
  bool has_destination_ = false;
};

}  // namespace opentrn::sim
