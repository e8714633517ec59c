// The cost rules of engine instructions: table rows turned into a few numbers per opcode and engine, and
// the conditions under which each row applies.
//
// A row is named after its condition ("bf16_4x", "fast_psum_sbuf"); the conditions themselves are the
// functions of conditions.cc, one per name, and the rows of the Tensor engine are those of TensorMode. Names
// are looked up when the table is read, never while a program is timed. Of the rows that apply the cheapest
// counts: the fast modes are picked by the hardware. An instruction without any row is kNotModelled, by name.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "arch/timing_table.h"
#include "cost/pattern_facts.h"
#include "isa/definitions.h"
#include "isa/program.h"

namespace opentrn::cost {

// Picoseconds. Integers, so that sums do not depend on the order of adding.
using Ps = int64_t;
inline constexpr double kPsPerNs = 1000;
inline Ps to_ps(double ns) { return static_cast<Ps>(ns * kPsPerNs + 0.5); }
inline double to_ns(Ps ps) { return static_cast<double>(ps) / kPsPerNs; }

// What the conditions look at.
struct OperandFeatures {
  isa::Engine engine = isa::Engine::kUnknown;
  bool all_bf16 = true, all_16bit = true;
  bool all_narrow_floats = true;  // of 16 or 8 bits
  bool any_fp32 = false;
  bool all_fp32 = true;
  bool all_in_sbuf = true;
  bool inputs_in_sbuf = true;
  int access_operands = 0;
  int psum_operands = 0;
  int wide_inputs = 0;  // inputs longer than one element per partition
  int wide_inputs_in_psum = 0;
  bool contiguous = true;    // innermost dimension of every wide operand
  bool far_strides = false;  // some innermost stride at which the interface gives half its rate
  bool dynamic_address = false;
  bool indirect = false;
  bool has_pointer = false;  // an operand that may be a number is one value per partition, read first
  int64_t longest = 1;       // elements per partition of the longest operand
  int64_t rows = 1;
  double bytes = 0;  // of all operands
};

// A row either offers a lower cost (the hardware picks it) or states a higher one that must be paid.
enum class RowKind : uint8_t { kUsual, kFaster, kSlower };
using Predicate = bool (*)(const isa::Program&, const isa::Instruction&, const OperandFeatures&);
struct Condition {
  RowKind kind = RowKind::kUsual;
  Predicate applies = nullptr;  // null: always
};
// kInput when no condition has this name: a table row that the model would never use.
Condition condition_named(const std::string& instruction, const std::string& mode);

struct Rule {
  Condition condition;
  double min_ps = 0, ps_per_element = 0, extra_ps = 0, ps_per_output = 0;
  const arch::CostMode* mode = nullptr;  // for local_gather's own formula
  bool borrows_gpsimd_bus = false;       // a fast mode of Vector
};

// The rows of the Tensor engine's instructions; which one holds follows from types and attributes
// (tensor.cc).
enum class TensorMode : uint8_t { kDefault, kFp32, kDoubleRow, kTransposeFp32, kSparse };
inline constexpr size_t kTensorModeCount = 5;
std::string_view name(TensorMode mode);

class CostRules {
 public:
  explicit CostRules(const arch::TimingTable& table);

  OperandFeatures features(const isa::Program& program, const isa::Instruction& instruction,
                           isa::Engine engine, const std::vector<PatternFacts>& patterns) const;

  // Initiation interval and port use of an instruction on an engine other than Tensor and DMA.
  struct Streaming {
    Ps busy = 0;    // until the next instruction may start
    Ps stream = 0;  // until its last element has gone in; less than `busy` for tiny tiles
    bool fast_mode = false;
  };
  Streaming streaming(const isa::Program& program, const isa::Instruction& instruction,
                      const OperandFeatures& features) const;
  // By the row of a Tensor instruction; kNotModelled where the table has no such row.
  Ps tensor(isa::Opcode opcode, TensorMode mode, int64_t elements) const;
  Ps load_stationary(bool fp32, int64_t columns) const;
  // Of fewer elements a Tensor instruction costs the same.
  int64_t least_tensor_elements(isa::Opcode opcode, TensorMode mode) const;
  bool has_tensor_mode(isa::Opcode opcode, TensorMode mode) const {
    return tensor_rows_[static_cast<size_t>(opcode)][static_cast<size_t>(mode)].has_value();
  }
  double ps_per_cycle(isa::Engine engine) const { return ps_per_cycle_[static_cast<size_t>(engine)]; }

 private:
  struct TensorRow {
    double min_ps = 0, ps_per_element = 0;
    Ps of(int64_t elements) const;
  };
  using TensorRows = std::array<std::optional<TensorRow>, kTensorModeCount>;
  void add_rules(const arch::TimingTable& table, const isa::InstructionDefinition& definition);
  const TensorRow& tensor_row(isa::Opcode opcode, TensorMode mode) const;
  void add_tensor_row(TensorRows& rows, const std::string& instruction, const arch::CostMode& mode) const;
  // What its author says.
  Streaming custom_op(const isa::Program& program, const isa::Instruction& instruction) const;
  struct Cost {
    double busy = 0, stream = 0;
  };
  Cost evaluate(const Rule& rule, const isa::Program& program, const isa::Instruction& instruction,
                const OperandFeatures& features) const;
  int64_t output_count(const isa::Program& program, const isa::Instruction& in) const;

  std::array<std::array<std::vector<Rule>, isa::kEngineCount>, isa::kOpcodeCount> rules_;
  std::array<TensorRows, isa::kOpcodeCount> tensor_rows_;
  TensorRows load_rows_;
  std::array<std::vector<std::string>, isa::kOpcodeCount> unstated_;  // table keys, for the message
  std::array<double, isa::kEngineCount> ps_per_cycle_{};
  // What an instruction keeps its engine beyond its stream, and, where that is not the engine's usual
  // latency, how much later its result is there.
  struct Overhead {
    double issue_ps = 0, latency_ps = 0;
  };
  Overhead overhead(const isa::Instruction& instruction, const OperandFeatures& features) const;

  std::array<double, isa::kEngineCount> issue_ps_{};  // between streams
  double pointer_ps_ = 0;                             // Vector's
  Overhead activation_from_sbuf_, activation_from_psum_;
  int64_t partitions_ = 0;
  double dynamic_min_cycles_ = 0;
  double strided_bytes_ = 0;
  double strided_ps_per_element_ = 0;
};

}  // namespace opentrn::cost
