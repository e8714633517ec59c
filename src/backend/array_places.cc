#include "backend/array_places.h"

#include <bit>
#include <cstdlib>
#include <string>

#include <fmt/format.h>

#include "isa/definitions.h"

namespace opentrn::backend {

namespace {

using isa::Operand;
using isa::QuadrantMask;
using isa::TensorId;

// The quadrants of the array that the instruction uses, from the attributes `first` and `size`.
QuadrantMask used(const isa::Program& program, const isa::Instruction& in, int first, int size) {
  if (first == isa::ArraySlots::kNone) return isa::kAllQuadrants;
  return isa::array_quadrants(program.attribute_int(in, first), program.attribute_int(in, size));
}

// Where the access can start in the array's quadrants `allowed`.
QuadrantMask wanted(const isa::Program& program, const Operand& operand, QuadrantMask allowed) {
  const isa::Pattern& pattern = program.pattern(operand);
  const int64_t partitions = pattern.rank > 0 ? pattern.dims[0].count : 1;
  return isa::tensor_starts_for(program, operand, isa::starts_within(allowed, partitions));
}

[[noreturn]] void throw_torn(const isa::Program& program, const isa::Instruction& in, int rule, int slot,
                             int other) {
  const auto& definition = isa::definition(in.opcode);
  const auto name = [&](int s) { return definition.operands[static_cast<size_t>(s)].name; };
  Fault fault(
      FaultKind::kProgram, fmt::format("{}.C{}", definition.name, rule),
      other == slot
          ? fmt::format("no place is left for {}: this product uses other rows or columns of the array "
                        "than the products that its tensor is in before",
                        name(slot))
          : fmt::format("no place is left for {} and {} on the same partitions: products before this one "
                        "hold them elsewhere",
                        name(slot), name(other)),
      "give this product a tensor of its own, copied to the partitions that it needs");
  fault.set_location(program.location(in.location));
  throw fault;
}

// The quadrants on which the tensor can start, whatever products ask for.
QuadrantMask own_starts(const isa::Tensor& tensor) {
  if (!tensor.address) return isa::tensor_starts(tensor.rows);
  if (tensor.address->partition % isa::kQuadrant != 0) return 0;  // on no quadrant's beginning: left alone
  return static_cast<QuadrantMask>((1u << (tensor.address->partition / isa::kQuadrant)) & 0xF);
}

}  // namespace

FixedPlaces::FixedPlaces(const isa::Program& program) : row_bytes_(program.tensor_count(), 0) {
  for (TensorId id = 0; id < program.tensor_count(); ++id)
    if (const isa::Tensor& tensor = program.tensor(id); own_starts(tensor) == 1)
      row_bytes_[id] = tensor.row_bytes();
}

bool uses_whole_array(const isa::Program& program, const isa::Instruction& in) {
  const isa::ArraySlots& product = *isa::definition(in.opcode).array;
  return used(program, in, product.row, product.rows) == isa::kAllQuadrants &&
         used(program, in, product.column, product.columns) == isa::kAllQuadrants;
}

ArrayPlaces::ArrayPlaces(const isa::Program& program, bool moves_rows)
    : parents_(program.tensor_count()), possible_(program.tensor_count()) {
  for (TensorId id = 0; id < program.tensor_count(); ++id) {
    parents_[id] = {id, 0};
    possible_[id] = widened(own_starts(program.tensor(id)), 0);
  }
  places_ = possible_;
  if (moves_rows) return;
  const FixedPlaces fixed(program);
  for (const isa::Instruction& in : program.instructions()) {
    const isa::ArraySlots* product = isa::definition(in.opcode).array;
    if (product == nullptr) continue;
    if (uses_whole_array(program, in) && fixed.holds(program.operand(in, product->stationary)) &&
        fixed.holds(program.operand(in, product->moving)))
      continue;
    const auto place = [&](int slot, QuadrantMask allowed, int rule) {
      const Operand& operand = program.operand(in, slot);
      if (allowed == isa::kAllQuadrants || possible_[member(operand.tensor).set] == 0) return;
      if (!limit(operand.tensor, wanted(program, operand, allowed)))
        throw_torn(program, in, rule, slot, slot);
    };
    const QuadrantMask rows = used(program, in, product->row, product->rows);
    place(product->stationary, rows, product->rows_rule);
    place(product->moving, rows, product->rows_rule);
    place(product->dst, used(program, in, product->column, product->columns), product->columns_rule);
    const Operand &a = program.operand(in, product->stationary), &b = program.operand(in, product->moving);
    const auto a_offset = isa::quadrant_offset(program, a), b_offset = isa::quadrant_offset(program, b);
    if (!a_offset || !b_offset) continue;
    if (!tie(a.tensor, *a_offset, b.tensor, *b_offset))
      throw_torn(program, in, product->alike_rule, product->stationary, product->moving);
  }
  places_ = possible_;
}

ArrayPlaces::Places ArrayPlaces::widened(QuadrantMask starts, int shift) {
  return static_cast<Places>(starts << (kOrigin - shift));
}

ArrayPlaces::Member ArrayPlaces::member(TensorId id) {
  Member found{id, 0};
  while (parents_[found.set].set != found.set)
    found = {parents_[found.set].set, found.shift + parents_[found.set].shift};
  // What is on the way points at the first tensor from now on, so that long chains are walked once.
  for (int shift = found.shift; parents_[id].set != found.set && id != found.set;) {
    const Member parent = parents_[id];
    parents_[id] = {found.set, shift};
    shift -= parent.shift;
    id = parent.set;
  }
  return found;
}

bool ArrayPlaces::limit(TensorId id, QuadrantMask starts) {
  const Member m = member(id);
  const auto left = static_cast<Places>(possible_[m.set] & widened(starts, m.shift));
  if (left == 0) return false;
  possible_[m.set] = left;
  return true;
}

bool ArrayPlaces::tie(TensorId a, int64_t a_offset, TensorId b, int64_t b_offset) {
  const Member ma = member(a), mb = member(b);
  // place(b's set) = place(a's set) + shift
  const int shift = ma.shift + static_cast<int>(a_offset - b_offset) - mb.shift;
  if (ma.set == mb.set) return shift == 0;
  const Places of_a = possible_[ma.set], of_b = possible_[mb.set];
  if (of_a == 0 || of_b == 0) return true;  // left alone
  if (std::abs(shift) > kOrigin) return false;
  const auto left = static_cast<Places>(of_a & (shift >= 0 ? of_b >> shift : of_b << -shift));
  if (left == 0) return false;
  if (std::has_single_bit(of_a) && std::has_single_bit(of_b)) return true;  // there is nothing left to tie
  possible_[ma.set] = left;
  parents_[mb.set] = {ma.set, shift};
  return true;
}

QuadrantMask ArrayPlaces::starts(TensorId id) {
  const Member m = member(id);
  return static_cast<QuadrantMask>((places_[m.set] >> (kOrigin - m.shift)) & isa::kAllQuadrants);
}

void ArrayPlaces::choose(TensorId id, int quadrant) {
  const Member m = member(id);
  places_[m.set] &= widened(static_cast<QuadrantMask>(1u << quadrant), m.shift);
}

}  // namespace opentrn::backend
