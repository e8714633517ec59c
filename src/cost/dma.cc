#include "cost/dma.h"

#include <algorithm>

#include <fmt/format.h>

namespace opentrn::cost {

using isa::Opcode;
using isa::Operand;

struct DmaRules::Side {
  bool on_chip = false;
  int64_t run_bytes = 1;  // contiguous
  int64_t bytes = 0;      // in all
  int64_t first_row = 0;  // on chip: partitions touched
  int64_t rows = 1;
};

DmaRules::DmaRules(const arch::TimingTable& table, int64_t partitions)
    : engines_(static_cast<int>(table.constant("dma_engines"))),
      partitions_(partitions),
      generation_(table.generation()),
      ps_per_byte_(kPsPerNs / table.constant("dma_engine_gb_s")),
      descriptor_min_ps_(table.constant("dma_descriptor_min_ns") * kPsPerNs),
      descriptor_extra_ps_(table.constant("dma_descriptor_extra_ns") * kPsPerNs),
      transfer_min_ps_(table.constant("dma_transfer_min_ns") * kPsPerNs),
      transfer_extra_ps_(table.constant("dma_transfer_extra_ns") * kPsPerNs),
      transfer_min_descriptors_(table.constant("dma_transfer_min_descriptors")),
      split_bytes_(static_cast<int64_t>(table.constant("dma_split_bytes"))),
      transpose_hbm_rate_(table.constant("dma_transpose_hbm_rate")),
      transpose_sbuf_rate_(table.constant("dma_transpose_sbuf_rate")),
      read_add_write_rate_(table.constant("dma_read_add_write_rate")) {
  OPENTRN_CHECK(engines_ > 0 && engines_ <= kDmaEnginesMax, "{} DMA engines", engines_);
}

DmaRules::Side DmaRules::side_of(const isa::Program& program, std::span<const isa::Placement> placements,
                                 const Operand& operand, const std::vector<PatternFacts>& patterns) const {
  const isa::Tensor& tensor = program.tensor(operand.tensor);
  const PatternFacts& facts = patterns[operand.pattern];
  const int64_t element = size_bytes(operand.dtype);
  Side side;
  side.on_chip = isa::is_on_chip(tensor.space);
  side.bytes = facts.elements * element;
  side.run_bytes = (side.on_chip ? facts.run_on_chip : facts.run_flat) * element;
  if (side.on_chip) {
    // Divisions only where their result is not plain to see: this runs for every operand of every transfer.
    const int64_t row_elements = std::max<int64_t>(
        1, operand.dtype == tensor.dtype ? tensor.row_elements : tensor.row_bytes() / element);
    const int64_t step = std::abs(facts.row_step);
    const int64_t stride = step == row_elements ? 1 : std::max<int64_t>(1, step / row_elements);
    if (!placements.empty()) side.first_row = placements[operand.tensor].address.partition;
    if (operand.offset != 0) side.first_row += operand.offset / row_elements;
    if (facts.row_step < 0) side.first_row -= stride * (facts.rows - 1);
    side.rows = facts.row_step == 0 ? 1 : (facts.rows - 1) * stride + 1;
  } else if (operand.indirect != isa::kNoIndirect) {
    // Gathered rows are found one by one: a run never continues from one into the next.
    const isa::Indirect& indirect = program.indirect(operand);
    const isa::Pattern& pattern = program.pattern(operand);
    if (indirect.kind == isa::IndirectKind::kVector && indirect.dim < pattern.rank) {
      int64_t inner = 1;
      for (int d = indirect.dim + 1; d < pattern.rank; ++d)
        inner *= pattern.dims[static_cast<size_t>(d)].count;
      side.run_bytes = std::min(side.run_bytes, inner * element);
    }
  }
  return side;
}

// Share of the copy rate that the engines reach.
double DmaRules::rate_of(const isa::Program& program, const isa::Instruction& in) const {
  if (in.opcode == Opcode::kDmaCompute) return read_add_write_rate_;
  if (in.opcode != Opcode::kDmaTranspose) return 1;
  const isa::MemorySpace from =
      program.tensor(program.operand(in, isa::slot::dma_transpose::kSrc).tensor).space;
  const double rate = isa::is_on_chip(from) ? transpose_sbuf_rate_ : transpose_hbm_rate_;
  if (rate <= 0) {
    Fault fault(FaultKind::kNotModelled, "dma_transpose",
                fmt::format("{} DMA engines have no transpose rate in the tables", name(generation_)),
                "load the tile and use nc_transpose");
    fault.set_location(program.location(in.location));
    throw fault;
  }
  return rate;
}

// Rows of HBM that a transfer puts into columns of a tile, or the other way round; 0 when it does not
// transpose: neighbours in memory must go to neighbouring partitions.
int64_t DmaRules::transposed_rows(const isa::Program& program, std::span<const Operand> operands,
                                  int64_t partitions) const {
  for (const Operand& operand : operands) {
    if (isa::is_on_chip(program.tensor(operand.tensor).space)) continue;
    const auto dims = program.pattern(operand).view();
    if (dims.size() < 2 || dims[0].count != partitions || operand.indirect != isa::kNoIndirect) continue;
    const auto runs_along_memory = [&](const isa::Dim& dim) {
      return dim.count == 1 || std::abs(dim.step) > std::abs(dims[0].step);
    };
    if (!std::ranges::all_of(dims.subspan(1), runs_along_memory)) continue;
    const isa::Dim& outer = *std::ranges::max_element(
        dims, {}, [](const isa::Dim& dim) { return dim.count > 1 ? std::abs(dim.step) : 0; });
    if (std::abs(outer.step) > std::abs(dims[0].step) && outer.count > 1) return outer.count;
  }
  return 0;
}

DmaWork DmaRules::work(const isa::Program& program, const isa::Instruction& in,
                       std::span<const isa::Placement> placements,
                       const std::vector<PatternFacts>& patterns) const {
  const auto operands = program.operands(in);
  const Side dst = side_of(program, placements, operands[0], patterns);
  DmaWork work;
  work.bytes = dst.bytes;
  int64_t pieces = 1;
  Side rows_of = dst;  // the side whose partitions decide which engines move the data
  double read_bytes = 0;
  for (size_t i = 1; i < operands.size(); ++i) {
    const Side src = side_of(program, placements, operands[i], patterns);
    // A piece holds as many elements as are contiguous on both sides.
    const int64_t dst_run = dst.run_bytes / size_bytes(operands[0].dtype);
    const int64_t src_run = src.run_bytes / size_bytes(operands[i].dtype);
    const int64_t elements = dst.bytes / size_bytes(operands[0].dtype);
    // A transpose moves whole blocks: its element-wise side is the hardware's business, not a descriptor's.
    const int64_t both =
        in.opcode == Opcode::kDmaTranspose ? std::max(dst_run, src_run) : std::min(dst_run, src_run);
    const int64_t run = std::max<int64_t>(1, both);  // of nothing there is no run
    pieces = std::max(pieces, (elements + run - 1) / run);
    if (!dst.on_chip && src.on_chip) rows_of = src;
    if (!src.on_chip) work.hbm_read += src.bytes;
    read_bytes += static_cast<double>(src.bytes);
  }
  if (!dst.on_chip) work.hbm_written = dst.bytes;
  const double rate = rate_of(program, in);
  double moved = std::max(read_bytes, static_cast<double>(dst.bytes));
  // Read-add-write is stated as a share of the copy rate for one source added to another.
  if (in.opcode == Opcode::kDmaCompute)
    moved = static_cast<double>(dst.bytes) * static_cast<double>(std::max<size_t>(1, operands.size() - 2));

  double per_engine_pieces[3];
  int64_t rows_per_engine = std::max<int64_t>(1, partitions_ / engines_);
  if (const int64_t rows = transposed_rows(program, operands, rows_of.rows)) {
    rows_of.first_row = 0;
    rows_of.rows = rows;
    rows_per_engine = std::max(rows_per_engine, (rows + engines_ - 1) / engines_);
  }
  if (rows_of.on_chip) {
    const int64_t first = rows_of.first_row, last = rows_of.first_row + rows_of.rows - 1;
    work.first_engine = static_cast<int>(std::clamp<int64_t>(first / rows_per_engine, 0, engines_ - 1));
    work.last_engine = static_cast<int>(std::clamp<int64_t>(last / rows_per_engine, 0, engines_ - 1));
    const double per_row = static_cast<double>(pieces) / static_cast<double>(rows_of.rows);
    const auto rows_in = [&](int engine) {
      const int64_t begin = std::max<int64_t>(first, engine * rows_per_engine);
      const int64_t end = std::min<int64_t>(last + 1, (engine + 1) * rows_per_engine);
      return static_cast<double>(end - begin);
    };
    per_engine_pieces[0] = rows_in(work.first_engine) * per_row;
    per_engine_pieces[1] = static_cast<double>(rows_per_engine) * per_row;
    per_engine_pieces[2] = rows_in(work.last_engine) * per_row;
  } else {
    // HBM to HBM: long pieces are split so that every engine has work.
    pieces =
        std::max<int64_t>(pieces, std::min<int64_t>(engines_, (dst.bytes + split_bytes_ - 1) / split_bytes_));
    work.last_engine = static_cast<int>(std::min<int64_t>(engines_, pieces)) - 1;
    const double each = static_cast<double>(pieces) / (work.last_engine + 1);
    per_engine_pieces[0] = per_engine_pieces[1] = per_engine_pieces[2] = each;
  }
  work.descriptors = pieces;
  const double piece_bytes = moved / static_cast<double>(pieces);
  const double piece_ps =
      std::max(descriptor_min_ps_, piece_bytes * ps_per_byte_ / rate + descriptor_extra_ps_);
  const auto busy = [&](double engine_pieces) {  // of one engine
    const double share = std::min(1.0, engine_pieces / transfer_min_descriptors_);
    return static_cast<Ps>(std::max(transfer_min_ps_ * share, engine_pieces * piece_ps + transfer_extra_ps_) +
                           0.5);
  };
  work.first_busy = busy(per_engine_pieces[0]);
  work.middle_busy = busy(per_engine_pieces[1]);
  work.last_busy = busy(per_engine_pieces[2]);
  return work;
}

}  // namespace opentrn::cost
