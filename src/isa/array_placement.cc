#include "isa/array_placement.h"

namespace opentrn::isa {

std::optional<int64_t> quadrant_offset(const Program& program, const Operand& operand) {
  const Tensor& tensor = program.tensor(operand.tensor);
  const int64_t row =
      operand.dtype == tensor.dtype ? tensor.row_elements : tensor.row_bytes() / size_bytes(operand.dtype);
  if (operand.indirect != kNoIndirect || row <= 0) return std::nullopt;
  if (0 <= operand.offset && operand.offset < row) return 0;  // nearly always; the rest divides twice
  const int64_t partition = operand.offset / row;
  if (partition % kQuadrant != 0) return std::nullopt;
  return partition / kQuadrant;
}

QuadrantMask array_quadrants(int64_t first, int64_t size) {
  if (size <= 0) return kAllQuadrants;
  QuadrantMask quadrants = 0;
  for (int q = 0; q < kQuadrants; ++q)
    if (first <= q * kQuadrant && (q + 1) * kQuadrant <= first + size)
      quadrants |= static_cast<QuadrantMask>(1u << q);
  return quadrants;
}

QuadrantMask starts_within(QuadrantMask allowed, int64_t partitions) {
  const auto wide = (partitions + kQuadrant - 1) / kQuadrant;
  QuadrantMask starts = 0;
  for (int q = 0; q + wide <= kQuadrants; ++q) {
    const auto taken = static_cast<QuadrantMask>(((1u << wide) - 1) << q);
    if ((taken & ~allowed) == 0) starts |= static_cast<QuadrantMask>(1u << q);
  }
  return starts;
}

QuadrantMask tensor_starts(int64_t rows) {
  if (rows <= kQuadrant) return kAllQuadrants;
  return rows <= 2 * kQuadrant ? 0b0101 : 0b0001;
}

QuadrantMask possible_starts(const Program& program, const Operand& operand, bool moves_rows) {
  const Tensor& tensor = program.tensor(operand.tensor);
  if (!tensor.address && moves_rows) return kAllQuadrants;
  const std::optional<int64_t> offset = quadrant_offset(program, operand);
  if (!offset) return kAllQuadrants;
  if (!tensor.address)
    return static_cast<QuadrantMask>((tensor_starts(tensor.rows) << *offset) & kAllQuadrants);
  const int64_t start = tensor.address->partition + *offset * kQuadrant;
  if (start % kQuadrant != 0) return kAllQuadrants;
  return static_cast<QuadrantMask>((1u << (start / kQuadrant)) & kAllQuadrants);
}

QuadrantMask tensor_starts_for(const Program& program, const Operand& operand, QuadrantMask starts) {
  const std::optional<int64_t> offset = quadrant_offset(program, operand);
  return offset ? static_cast<QuadrantMask>(starts >> *offset) : kAllQuadrants;
}

}  // namespace opentrn::isa
