#include "cost/tensor.h"

namespace opentrn::cost {

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
    work.multiply =
        rules.tensor(in.opcode, fp32 ? TensorMode::kFp32 : TensorMode::kDefault, first_facts.rows);
    work.load = rules.load_stationary(fp32, first_facts.per_partition);
    work.flops = 2.0 * static_cast<double>(first_facts.rows * first_facts.rows * first_facts.per_partition);
    return work;
  }
  const Operand& moving = program.operand(in, 2);
  const PatternFacts& moving_facts = patterns[moving.pattern];
  const int64_t columns = patterns[dst.pattern].per_partition;
  const bool fp32 = first.dtype == DType::kFloat32 || moving.dtype == DType::kFloat32;
  TensorMode mode = fp32 ? TensorMode::kFp32 : TensorMode::kDefault;
  double depth = static_cast<double>(moving_facts.rows);
  if (in.opcode == Opcode::kNcMatmul) {
    namespace mm = isa::slot::nc_matmul;
    const auto perf = static_cast<isa::MatmulPerfMode>(program.attribute_int(in, mm::kAPerfMode));
    const bool transpose = program.attribute_bool(in, mm::kAIsTranspose);
    if (perf == isa::MatmulPerfMode::kDoubleRow) mode = TensorMode::kDoubleRow, depth *= 2;
    if (transpose && fp32 && rules.has_tensor_mode(in.opcode, TensorMode::kTransposeFp32))
      mode = TensorMode::kTransposeFp32;
    work.kind = transpose             ? trace::FlopKind::kTranspose
                : fp32                ? trace::FlopKind::kFp32
                : is_fp8(first.dtype) ? trace::FlopKind::kFp8
                                      : trace::FlopKind::kBf16;
  } else if (in.opcode == Opcode::kNcMatmulMx) {
    work.kind = trace::FlopKind::kMx;
    depth *= 4;
  } else {
    work.kind = trace::FlopKind::kSparse;
    mode = TensorMode::kSparse;
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

}  // namespace opentrn::cost
