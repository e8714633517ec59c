#include "sim/timing/tensor_engine.h"

#include <algorithm>

namespace opentrn::sim::timing {

namespace {

using isa::Opcode;
using isa::Operand;

// Row or column range of a tile position as two bits per quarter of the array.
uint8_t quarters(int64_t first, int64_t size) {
  if (size <= 0) return 0xF;
  uint8_t bits = 0;
  for (int q = 0; q < 4; ++q)
    if (first < (q + 1) * 32 && q * 32 < first + size) bits |= static_cast<uint8_t>(1u << q);
  return bits == 0 ? 0xF : bits;
}

uint16_t tiles_of(const isa::Program& program, const isa::Instruction& in) {
  if (in.opcode != Opcode::kNcMatmul && in.opcode != Opcode::kNcMatmulMx) return 0xFFFF;
  namespace mm = isa::slot::nc_matmul;
  namespace mx = isa::slot::nc_matmul_mx;
  const bool is_mx = in.opcode == Opcode::kNcMatmulMx;
  const auto value = [&](int slot, int mx_slot) { return program.attribute_int(in, is_mx ? mx_slot : slot); };
  const int64_t rows = value(mm::kATileRows, mx::kATileRows),
                columns = value(mm::kATileColumns, mx::kATileColumns);
  if (rows <= 0 || columns <= 0) return 0xFFFF;
  const uint8_t row_bits = quarters(value(mm::kATileRow, mx::kATileRow), rows);
  const uint8_t column_bits = quarters(value(mm::kATileColumn, mx::kATileColumn), columns);
  uint16_t tiles = 0;
  for (int r = 0; r < 4; ++r)
    if ((row_bits >> r & 1) != 0) tiles |= static_cast<uint16_t>(column_bits << (4 * r));
  return tiles;
}

}  // namespace

TensorWork tensor_work(const isa::Program& program, const isa::Instruction& in, const CostRules& rules,
                       const std::vector<PatternFacts>& patterns) {
  TensorWork work;
  work.tiles = tiles_of(program, in);
  const Operand& dst = program.operand(in, 0);
  const Operand& first = program.operand(in, 1);
  const PatternFacts& first_facts = patterns[first.pattern];
  if (in.opcode == Opcode::kNcTranspose) {
    // Data is the stationary matrix, an identity of P columns moves through it.
    const bool fp32 = size_bytes(first.dtype) == 4;
    work.kind = trace::FlopKind::kTranspose;
    work.multiply = rules.tensor(in.opcode, fp32 ? "fp32" : "default", first_facts.rows);
    work.load = rules.load_stationary(fp32, first_facts.per_partition);
    work.flops = 2.0 * static_cast<double>(first_facts.rows * first_facts.rows * first_facts.per_partition);
    return work;
  }
  const Operand& moving = program.operand(in, 2);
  const PatternFacts& moving_facts = patterns[moving.pattern];
  const int64_t columns = patterns[dst.pattern].per_partition;
  const bool fp32 = first.dtype == DType::kFloat32 || moving.dtype == DType::kFloat32;
  const char* mode = fp32 ? "fp32" : "default";
  double depth = static_cast<double>(moving_facts.rows);
  if (in.opcode == Opcode::kNcMatmul) {
    namespace mm = isa::slot::nc_matmul;
    const auto perf = static_cast<isa::MatmulPerfMode>(program.attribute_int(in, mm::kAPerfMode));
    const bool transpose = program.attribute_bool(in, mm::kAIsTranspose);
    if (perf == isa::MatmulPerfMode::kDoubleRow) mode = "double_row", depth *= 2;
    if (transpose && fp32 && rules.has_tensor_mode(in.opcode, "transpose_fp32")) mode = "transpose_fp32";
    work.kind = transpose             ? trace::FlopKind::kTranspose
                : fp32                ? trace::FlopKind::kFp32
                : is_fp8(first.dtype) ? trace::FlopKind::kFp8
                                      : trace::FlopKind::kBf16;
  } else if (in.opcode == Opcode::kNcMatmulMx) {
    work.kind = trace::FlopKind::kMx;
    depth *= 4;
  } else {
    work.kind = trace::FlopKind::kSparse;
    mode = "sparse";
  }
  const Opcode row = in.opcode == Opcode::kNcMatmulSparse ? Opcode::kNcMatmul : in.opcode;
  work.multiply = rules.tensor(row, mode, columns);
  const int64_t stationary_columns = patterns[dst.pattern].rows;
  work.load = rules.load_stationary(fp32, stationary_columns);
  work.flops = 2.0 * depth * static_cast<double>(stationary_columns) * static_cast<double>(columns);
  if (work.kind == trace::FlopKind::kSparse && moving_facts.per_partition > columns)
    work.flops *= static_cast<double>(moving_facts.per_partition) / static_cast<double>(columns);
  return work;
}

TensorArray::TensorArray(const arch::TimingTable& table)
    : load_min_(to_ps(table.constant("tensor_load_exposed_ns"))),
      tile_issue_(to_ps(table.constant("tensor_tile_issue_cycles") / table.clock_ghz("tensor") /
                        table.constant("tensor_sustained_rate"))),
      start_rate_(table.constant("tensor_ramp_start_rate")),
      utilisation_min_(table.constant("tensor_ramp_utilisation")),
      ramp_(to_ps(table.constant("tensor_ramp_ns"))),
      window_(to_ps(table.constant("tensor_ramp_window_ns"))) {}

Ps TensorArray::free_at(uint16_t tiles) const {
  Ps free = 0;
  if (tiles == 0xFFFF && last_tiles_ == 0xFFFF) return tile_free_[0];  // the usual case: all move together
  for (size_t i = 0; i < tile_free_.size(); ++i)
    if ((tiles >> i & 1) != 0) free = std::max(free, tile_free_[i]);
  return tiles == 0xFFFF ? free : std::max(free, last_issue_);
}

// The share of the full clock at which work starting now runs. After a window of low use the clock starts
// again from `start_rate_` and rises in a straight line.
double TensorArray::rate_at(Ps time) {
  if (ramp_ == 0 || start_rate_ >= 1) return 1;
  if (!issued_before_) {
    ramp_begin_ = window_begin_ = time;
    issued_before_ = true;
  } else if (time - window_begin_ >= window_) {
    const double use = static_cast<double>(window_busy_) / static_cast<double>(time - window_begin_);
    if (use < utilisation_min_) ramp_begin_ = time;
    window_begin_ = time;
    window_busy_ = 0;
  }
  const double risen = static_cast<double>(time - ramp_begin_) / static_cast<double>(ramp_);
  return start_rate_ + (1 - start_rate_) * std::min(1.0, risen);
}

TensorArray::Issue TensorArray::issue(Ps ready, const TensorWork& work) {
  const Ps free = free_at(work.tiles);
  // The next stationary matrix loads while the previous multiply runs: it can begin when that one began.
  const Ps load_done = std::max(ready, last_multiply_start_) + std::max(work.load, load_min_);
  Issue issue;
  issue.start = std::max(ready, free);
  issue.multiply_start = std::max(load_done, free);
  Ps busy = work.multiply;
  const double rate = rate_at(issue.multiply_start);
  if (rate < 1) busy = static_cast<Ps>(static_cast<double>(busy) / rate + 0.5);
  issue.end = issue.multiply_start + busy;
  window_busy_ += busy;
  for (size_t i = 0; i < tile_free_.size(); ++i)
    if ((work.tiles >> i & 1) != 0) tile_free_[i] = issue.end;
  last_multiply_start_ = issue.multiply_start;
  last_issue_ = issue.multiply_start + tile_issue_;
  last_tiles_ = work.tiles == 0xFFFF ? 0xFFFF : 0;
  return issue;
}

void TensorArray::shift(Ps by) {
  for (Ps& free : tile_free_) free += by;
  last_multiply_start_ += by;
  last_issue_ += by;
  ramp_begin_ += by;
  window_begin_ += by;
}

}  // namespace opentrn::sim::timing
