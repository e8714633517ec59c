// Chain: consecutive instructions whose work goes row by row, run over a band of rows after another.
//
// Element-wise instructions on large tiles cost what moving their operands costs: a tile of 128 x 2048 fp32
// is 1 MiB, and by the time the next instruction reads it, it has left the cache. The instructions of a chain
// are all set up first, in program order, and then run together over a few rows at a time, so that a row is
// still near when the next instruction wants it. A tile that lives and dies inside a chain has memory for a
// few bands only (Buffer::folded), which never leaves the cache at all; and if it only ever is a copy of
// something that the chain does not write, that is not used: readers read the original (Buffer::alias). Nor
// is it where one element-wise instruction computes the tile and another one, or a scan, is its only reader:
// that one has it computed block by block, as it needs it (producer.h).
//
// Values are those of program order. Row r of a deferred instruction may depend on row r of what the chain
// wrote before it, and on anything that the chain does not write. Small instructions that touch nothing of
// what is deferred run at once, when the set-up reaches them; anything else ends the chain.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "isa/program.h"
#include "sim/functional/access.h"

namespace opentrn::sim {

// When chains pay. [measured: benchmarks/README.md, mamba]
struct ChainLimits {
  int64_t work = int64_t{1} << 19;          // element operations of the deferred instructions together
  int64_t work_per_instruction = 16'384;    // of a deferred instruction, on average
  int64_t immediate_work = 8192;            // of one that runs at once
  int64_t deferred = 192;                   // instructions; each holds a few KiB of stack
  int64_t band_bytes = int64_t{512} << 10;  // of all tiles that live at a time: half a second-level cache
  int64_t band_rows_min = 16;               // as many as a scan computes at a time

  bool operator==(const ChainLimits&) const = default;
};

// A tile with memory for a few bands only. Instructions are counted from the beginning of the chain.
struct FoldedTile {
  isa::TensorId tensor;
  uint32_t first, last;
  int64_t row_bytes;
  bool is_copy;     // of what the chain leaves as it is, from one place
  uint32_t reader;  // the only one, which may compute it itself; kNoReader when there are several
};
inline constexpr uint32_t kNoReader = UINT32_MAX;

struct Chain {
  isa::InstructionIndex begin = 0, end = 0;
  std::vector<bool> deferred;      // by instruction; the others run at once
  std::vector<FoldedTile> folded;  // by first instruction
  int64_t row_end = 0;             // rows of tiles that deferred instructions touch: [0, row_end)
  int64_t band = 0;                // rows, a power of two
};

// Collects the instructions of a chain one by one.
class ChainFinder {
 public:
  // Whether nothing touched the tensor before the chain, and nothing can from instruction `end` on.
  using Foldable = std::function<bool(isa::TensorId, isa::InstructionIndex end)>;

  // `limits` is kept by reference: it may change between chains.
  explicit ChainFinder(const ChainLimits& limits) : limits_(limits) {}

  void start(const isa::Program& program, isa::InstructionIndex begin);
  // Adds the next instruction; false when it cannot be a part.
  bool add(const AccessList& list);
  isa::InstructionIndex begin() const { return chain_.begin; }
  isa::InstructionIndex end() const { return chain_.end; }
  bool empty() const { return begin() == end(); }
  // Whether running the instructions as a chain is faster than one by one.
  bool pays() const;
  Chain finish(const Foldable& foldable);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Operand {
    Access access;
    bool by_row;  // row r is all that row r of the instruction touches
  };
  struct Record {
    Access access;
    uint32_t next;
  };
  // What deferred instructions touch of a tensor: lists of records, [by_row][writes].
  struct Touched {
    uint32_t chain = 0;  // of the lists; older ones are empty
    uint32_t lists[2][2];
    uint32_t first, last;
    bool folds;
    bool written = false;                  // by a deferred instruction
    const isa::Operand* copied = nullptr;  // what all of its writes copy
    // Of deferred instructions:
    uint32_t writes = 0, reads = 0;
    uint32_t written_at = 0;                // the last of the writes
    const isa::Operand* result = nullptr;   // of the element-wise instruction that wrote it first
    uint32_t reader = kNoReader;            // one that may compute it
    uint32_t inputs_begin = 0, inputs = 0;  // what has to be as it is until then, in inputs_
  };
  // A tensor, and the instruction that wants to read it as it was there.
  struct Input {
    isa::TensorId tensor;
    uint32_t at;
  };

  // Fills operands_ for an instruction that is to be deferred; false when it cannot be.
  bool read_operands(const isa::Instruction& in, const AccessList& list);
  bool holds_rows(const isa::Operand& op, const Access& access) const;
  bool same_rows(const isa::Operand& a, const isa::Operand& b) const;
  bool conflicts(const Operand& operand) const;
  Touched& touch(isa::TensorId id, bool folds);
  void remember(const Operand& operand);
  // What the instruction whose operands were read copies, row by row, to whole rows; null if it does not.
  const isa::Operand* copied_by(const isa::Instruction& in) const;
  void note_write(const isa::Instruction& in);
  bool is_copy(const Touched& tensor) const;
  // Notes what the instruction computes, and what it could compute of its sources.
  void note_production(const isa::Instruction& in);
  bool may_be_computed_by_reader(const Touched& tensor, const isa::Operand& read) const;
  void note_inputs(Touched& result);

  const ChainLimits& limits_;
  const isa::Program* program_ = nullptr;
  Chain chain_;
  uint32_t chain_number_ = 0;
  int64_t work_ = 0, deferred_ = 0;
  int64_t widest_ = 0;   // bytes of a row of all operands of an instruction, at most
  bool reuses_ = false;  // a deferred instruction reads what another wrote
  std::vector<Operand> operands_;
  std::vector<const isa::Operand*> sources_;  // of operands_
  int64_t row_end_ = 0;                       // of operands_
  std::vector<Record> records_;
  std::vector<Input> inputs_;
  std::vector<Touched> touched_;  // by TensorId
  std::vector<isa::TensorId> tensors_;
};

}  // namespace opentrn::sim
