// isa::Program: what one NeuronCore executes, in program order over virtual tensors.
//
// A program is a flat list of instructions; loops are begin/end markers in it. Millions of
// instructions are normal, so an instruction is 24 bytes, an operand 24, and what repeats is
// interned: access patterns, attribute blocks, integer lists and source locations are stored once.
//
// Addressing is flat. A tensor is a row-major array of `rows` x `row_elements`: for SBUF and PSUM a
// row is a partition, for HBM there is one row. An access names a tensor, an element offset and up
// to kMaxRank [step, count] dimensions, outermost first, in elements of the access's own dtype
// (which may reinterpret the tensor's). On-chip, dimension 0 walks partitions: its step is a
// multiple of the row length. The same form serves `.ap()`, slices, broadcasts (step 0), every view.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/fault.h"
#include "isa/memory.h"
#include "isa/opcode.h"
#include "numerics/dtype.h"
#include "numerics/ops.h"

namespace opentrn::isa {

using TensorId = uint32_t;
using PatternId = uint32_t;
using RegisterId = uint32_t;
using LocationId = uint32_t;
using InstructionIndex = uint32_t;
using WrittenLoopId = uint32_t;
using IterationId = uint32_t;

inline constexpr int kMaxRank = 8;
inline constexpr uint32_t kNoIndirect = 0;
inline constexpr IterationId kNoIteration = 0;

struct Dim {
  int64_t step = 0;  // elements
  int64_t count = 1;
  bool operator==(const Dim&) const = default;
};

// [step, count] pairs, outermost first; rank 0 is a single element.
struct Pattern {
  uint8_t rank = 0;
  std::array<Dim, kMaxRank> dims{};

  std::span<const Dim> view() const { return {dims.data(), rank}; }
  int64_t element_count() const;
  // Elements of dims[1..]: what one partition holds of an on-chip access.
  int64_t elements_per_partition() const;
  // Smallest and largest element offset touched, relative to the access's offset.
  int64_t min_offset() const;
  int64_t max_offset() const;
  bool operator==(const Pattern&) const = default;
};

enum class OperandKind : uint8_t { kNone, kAccess, kImmediate, kRegister };

struct Operand {
  OperandKind kind = OperandKind::kNone;
  DType dtype = DType::kFloat32;
  uint32_t tensor = 0;  // TensorId, or RegisterId for kRegister
  PatternId pattern = 0;
  uint32_t indirect = kNoIndirect;  // 1 + index into Program::indirects()
  union {
    int64_t offset = 0;  // elements, kAccess
    double immediate;    // kImmediate
  };

  static Operand none() { return {}; }
  static Operand imm(double value) {
    Operand operand;
    operand.kind = OperandKind::kImmediate;
    operand.immediate = value;
    return operand;
  }
  static Operand reg(RegisterId id) {
    Operand operand;
    operand.kind = OperandKind::kRegister;
    operand.tensor = id;
    return operand;
  }
  bool is_access() const { return kind == OperandKind::kAccess; }
  bool present() const { return kind != OperandKind::kNone; }
};

enum class IndirectKind : uint8_t {
  kScalar,  // offset += value * stride; value from a register or a [1,1] tile
  kVector,  // row i of dimension `dim` starts at index[i] * stride instead of i * dims[dim].step
  kTensor,  // NeuronCore-v4 `.indirect()`: free-axis gather or scatter by an index tile
};

struct Indirect {
  IndirectKind kind = IndirectKind::kScalar;
  uint8_t dim = 0;       // the dimension of the access that the index replaces (kVector, kTensor)
  Operand index;         // register or access; never itself indirect
  int64_t stride = 1;    // elements of the access's dtype per unit of index
  int64_t bound = 0;     // valid indices are [0, bound)
  int64_t num_elem = 1;  // kTensor: contiguous elements per index
};

struct Instruction {
  Opcode opcode = Opcode::kDmaCopy;
  Engine engine = Engine::kUnknown;  // as asked for by the program; kUnknown lets the backend choose
  uint8_t operand_count = 0;
  uint8_t flags = 0;
  uint32_t operands = 0;    // index of the first operand
  uint32_t attributes = 0;  // index of the attribute block's first word
  LocationId location = 0;
  uint32_t name = 0;                     // string pool index, 0 = unnamed
  IterationId iteration = kNoIteration;  // of the innermost written-out loop it was recorded in
};
inline constexpr uint8_t kFlagNoReorder = 1;  // must keep its place relative to its neighbours
// Of a kernel on both cores of a logical one (LNC2) whose programs stand in one, in turns from rendezvous to
// rendezvous: which core executes it (none: the first), and the first instruction of such a launch.
inline constexpr uint8_t kFlagCore0 = 2;
inline constexpr uint8_t kFlagCore1 = 4;
inline constexpr uint8_t kFlagLaunch = 8;
inline constexpr uint8_t kFlagsOfPair = kFlagCore0 | kFlagCore1;
inline constexpr uint8_t kFlagsAll = kFlagNoReorder | kFlagsOfPair | kFlagLaunch;

struct Address {
  int32_t partition = 0;
  int64_t byte_offset = 0;  // within the partition; PSUM: bank * bank bytes + offset
  bool operator==(const Address&) const = default;
};

struct Tensor {
  MemorySpace space = MemorySpace::kSbuf;
  DType dtype = DType::kFloat32;
  int64_t rows = 1;          // partitions; 1 for HBM
  int64_t row_elements = 0;  // elements of `dtype` per row
  std::vector<int64_t> shape;
  std::string name;
  std::optional<Address> address;  // set when the program places the tensor itself
  LocationId location = 0;
  bool is_input = false;
  bool is_output = false;
  // Reading what nothing wrote gives NaN (4 for integers), as NKI 0.1 and AWS's simulator have it, and is no
  // fault.
  bool filled = false;
  // The loop_begin or while_begin in whose body the program makes this tensor: every iteration starts with a
  // fresh one, and nothing outside the loop touches it.
  std::optional<InstructionIndex> loop;

  int64_t row_bytes() const { return row_elements * size_bytes(dtype); }
  int64_t bytes() const { return rows * row_bytes(); }
};

// One execution of a loop that the kernel wrote out, iteration by iteration. Not a device loop: those are
// markers in the program. Compilers that see the kernel's loops (neuronx-cc) work on them.
struct WrittenLoop {
  IterationId outer = kNoIteration;  // of the loop around it
  bool independent = false;  // nl.affine_range: the author says that iterations do not depend on each other
  bool operator==(const WrittenLoop&) const = default;
};

// One word of an attribute block. Which member is live follows from the slot's AttributeKind.
union AttributeWord {
  int64_t integer;
  double real;
};

// An extra scheduling edge: `consumer` starts after `producer` is complete.
struct DependencyEdge {
  InstructionIndex consumer;
  InstructionIndex producer;
};

// A number that another thread may read while it grows.
class SharedCount {
 public:
  SharedCount() = default;
  SharedCount(const SharedCount& other) : value_(other.get()) {}
  SharedCount& operator=(const SharedCount& other) {
    set(other.get());
    return *this;
  }
  size_t get() const { return value_.load(std::memory_order_relaxed); }
  void set(size_t value) { value_.store(value, std::memory_order_relaxed); }

 private:
  std::atomic<size_t> value_ = 0;
};

// One thread may read what was there when it began, loops excepted, while another one builds on: see
// set_before_move.
class Program {
 public:
  Program();

  // -- building
  TensorId add_tensor(Tensor tensor);
  PatternId intern_pattern(const Pattern& pattern);
  LocationId intern_location(std::string_view file, int line, std::string_view function);
  uint32_t intern_string(std::string_view text);
  uint32_t intern_list(std::span<const int64_t> values);
  uint32_t intern_attributes(std::span<const AttributeWord> words);
  uint32_t add_indirect(const Indirect& indirect);  // value for Operand::indirect
  RegisterId add_register() { return register_count_++; }
  InstructionIndex append(Opcode opcode, Engine engine, std::span<const Operand> operands,
                          std::span<const AttributeWord> attributes, LocationId location, uint32_t name = 0,
                          uint8_t flags = 0);
  void add_edge(DependencyEdge edge) { edges_.push_back(edge); }
  // Instructions appended from now on belong to this iteration; kNoIteration after the outermost loop.
  void set_iteration(IterationId iteration) { now_ = iteration; }
  IterationId iteration() const { return now_; }
  IterationId begin_written_loop(WrittenLoop loop);  // its first iteration
  IterationId next_iteration(WrittenLoopId loop);
  // Overwrites one attribute word of an instruction that owns its block (loop markers).
  void set_attribute(InstructionIndex index, int slot, AttributeWord word);
  // For passes that write a new version of a program: its tables and tensors, without instructions and edges;
  Program without_instructions() const;
  // and an instruction of the old version, with other operands.
  InstructionIndex append_like(const Instruction& instruction, std::span<const Operand> operands);
  // `wait` is called before anything moves in memory; it returns when nobody else reads the program. Makes
  // room first, so that this is rare.
  void set_before_move(std::function<void()> wait);

  // -- reading
  size_t size() const { return instructions_.count.get(); }
  const Instruction& instruction(InstructionIndex index) const { return instructions_[index]; }
  std::span<const Instruction> instructions() const { return instructions_; }
  std::span<const Operand> operands(const Instruction& in) const {
    return {operands_.data() + in.operands, in.operand_count};
  }
  const Operand& operand(const Instruction& in, int slot) const { return operands_[in.operands + slot]; }
  const Pattern& pattern(const Operand& operand) const { return patterns_[operand.pattern]; }
  const Pattern& pattern(PatternId id) const { return patterns_[id]; }
  size_t pattern_count() const { return patterns_.count.get(); }
  size_t attribute_word_count() const { return attributes_.count.get(); }
  size_t list_count() const { return lists_.count.get(); }
  size_t string_count() const { return strings_.count.get(); }
  size_t location_count() const { return locations_.count.get(); }
  size_t indirect_count() const { return indirects_.count.get(); }
  const Indirect& indirect(const Operand& operand) const { return indirects_[operand.indirect - 1]; }
  int64_t attribute_int(const Instruction& in, int slot) const {
    return attributes_[in.attributes + slot].integer;
  }
  double attribute_real(const Instruction& in, int slot) const {
    return attributes_[in.attributes + slot].real;
  }
  bool attribute_bool(const Instruction& in, int slot) const { return attribute_int(in, slot) != 0; }
  AluOp attribute_alu(const Instruction& in, int slot) const {
    return static_cast<AluOp>(attribute_int(in, slot));
  }
  ActivationFunction attribute_activation(const Instruction& in, int slot) const {
    return static_cast<ActivationFunction>(attribute_int(in, slot));
  }
  std::span<const int64_t> attribute_list(const Instruction& in, int slot) const;
  const std::string& string(uint32_t id) const { return strings_[id]; }
  const Tensor& tensor(TensorId id) const { return tensors_[id]; }
  Tensor& tensor(TensorId id) { return tensors_[id]; }
  size_t tensor_count() const { return tensors_.count.get(); }
  // Tensors that each iteration of the loop beginning here makes afresh.
  std::span<const TensorId> made_in_loop(InstructionIndex begin) const;
  uint32_t register_count() const { return register_count_; }
  SourceLocation location(LocationId id) const;
  size_t written_loop_count() const { return written_loops_.count.get(); }
  const WrittenLoop& written_loop(WrittenLoopId id) const { return written_loops_[id]; }
  size_t iteration_count() const { return iterations_.count.get(); }  // kNoIteration included
  WrittenLoopId loop_of(IterationId iteration) const { return iterations_[iteration]; }
  std::span<const DependencyEdge> edges() const { return edges_; }

  // Bytes held by the program itself, for progress reports and limits.
  size_t memory_bytes() const;

  std::string name = "kernel";

 private:
  struct Location {
    uint32_t file;
    int line;
    uint32_t function;
  };
  // A vector whose size another thread may read, and whose elements move only after before_move_.
  template <typename T>
  struct Table : std::vector<T> {
    SharedCount count;
  };
  template <typename T>
  void add(Table<T>& table, T value) {
    make_room(table, 1);
    table.push_back(std::move(value));
    table.count.set(table.size());
  }
  template <typename T>
  void add_all(Table<T>& table, std::span<const T> values) {
    make_room(table, values.size());
    table.insert(table.end(), values.begin(), values.end());
    table.count.set(table.size());
  }
  template <typename T>
  void make_room(Table<T>& table, size_t more) {
    if (table.size() + more <= table.capacity()) return;
    if (before_move_) before_move_();
    table.reserve(std::max(table.size() + more, 2 * table.capacity()));
  }

  Table<Instruction> instructions_;
  Table<Operand> operands_;
  Table<Pattern> patterns_;
  Table<Indirect> indirects_;
  Table<AttributeWord> attributes_;
  Table<int64_t> list_words_;
  Table<std::pair<uint32_t, uint32_t>> lists_;  // begin, length
  Table<std::string> strings_;
  Table<Location> locations_;
  Table<Tensor> tensors_;
  Table<WrittenLoop> written_loops_;
  Table<WrittenLoopId> iterations_;  // by IterationId: its loop
  IterationId now_ = kNoIteration;
  std::function<void()> before_move_;
  std::map<InstructionIndex, std::vector<TensorId>> made_in_loop_;
  std::vector<DependencyEdge> edges_;
  uint32_t register_count_ = 0;

  std::unordered_multimap<uint64_t, uint32_t> pattern_index_, attribute_index_, list_index_, location_index_;
  std::unordered_map<std::string, uint32_t> string_index_;
  PatternId last_pattern_ = 0;
};

}  // namespace opentrn::isa
