#include "nki/overlapping_copies.h"

#include <algorithm>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "isa/definitions.h"
#include "isa/memory.h"
#include "isa/roles.h"
#include "nki/machine.h"

namespace opentrn::nki {

namespace {

using isa::Operand;
using isa::Program;

// An access as an engine walks it: partition after partition side by side, in each the same columns.
struct Walk {
  int64_t row_begin = 0, rows = 1;
  std::vector<int64_t> columns;  // bytes from the begin of the row, in the order of the access
};

constexpr int64_t kElementsMax = int64_t{1} << 18;  // more than a partition holds

int64_t row_elements(const Program& program, const Operand& operand) {
  return program.tensor(operand.tensor).row_bytes() / size_bytes(operand.dtype);
}

// Nothing for an access that is not walked like that.
std::optional<Walk> walk_of(const Program& program, const Operand& operand) {
  const isa::Pattern& pattern = program.pattern(operand);
  const int64_t pitch = row_elements(program, operand), size = size_bytes(operand.dtype);
  const auto dims = pattern.view();
  if (pitch == 0 || dims.empty() || pattern.elements_per_partition() > kElementsMax) return std::nullopt;
  if (dims[0].count > 1 && dims[0].step != pitch) return std::nullopt;
  Walk walk{operand.offset / pitch, dims[0].count, {operand.offset % pitch * size}};
  for (const isa::Dim& dim : dims.subspan(1)) {
    std::vector<int64_t> columns;
    columns.reserve(walk.columns.size() * static_cast<size_t>(dim.count));
    for (const int64_t column : walk.columns)
      for (int64_t i = 0; i < dim.count; ++i) columns.push_back(column + i * dim.step * size);
    walk.columns = std::move(columns);
  }
  return walk;
}

// The first place in the order of the walk whose source has been written at an earlier one, or, for
// `any_order`, is written at another one.
std::optional<int64_t> written_before_read(const Program& program, const Operand& destination,
                                           const Operand& source, bool any_order) {
  const auto to = walk_of(program, destination), from = walk_of(program, source);
  if (!to || !from || to->row_begin >= from->row_begin + from->rows ||
      from->row_begin >= to->row_begin + to->rows)
    return std::nullopt;
  const auto [to_low, to_high] = std::ranges::minmax(to->columns);
  const auto [from_low, from_high] = std::ranges::minmax(from->columns);
  if (from_high + size_bytes(source.dtype) <= to_low || to_high + size_bytes(destination.dtype) <= from_low)
    return std::nullopt;
  const bool same_rows = to->row_begin == from->row_begin;
  constexpr int32_t kNever = std::numeric_limits<int32_t>::max();
  std::vector<int32_t> first(static_cast<size_t>(program.tensor(destination.tensor).row_bytes()), kNever);
  const auto bytes_of = [&](const Operand& operand, int64_t column, auto&& visit) {
    for (int64_t byte = column; byte < column + size_bytes(operand.dtype); ++byte)
      if (byte >= 0 && byte < static_cast<int64_t>(first.size())) visit(first[static_cast<size_t>(byte)]);
  };
  for (size_t i = 0; i < to->columns.size(); ++i)
    bytes_of(destination, to->columns[i],
             [&](int32_t& place) { place = std::min(place, static_cast<int32_t>(i)); });
  for (size_t i = 0; i < from->columns.size(); ++i) {
    bool found = false;
    bytes_of(source, from->columns[i], [&](int32_t place) {
      const auto now = static_cast<int32_t>(i);
      found |= place < now || (any_order && place != kNever && (place != now || !same_rows));
    });
    if (found) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

bool is_walked(const Program& program, const Operand& operand) {
  return operand.is_access() && operand.indirect == isa::kNoIndirect &&
         isa::is_on_chip(program.tensor(operand.tensor).space);
}

bool is_in_place(const Operand& a, const Operand& b) {
  return a.pattern == b.pattern && a.offset == b.offset && a.dtype == b.dtype;
}

Fault fault_of(const Program& program, const isa::Instruction& in, int slot, int64_t place) {
  const isa::InstructionDefinition& row = isa::definition(in.opcode);
  const auto name = [&](int at) {
    return row.operands[std::min(static_cast<size_t>(at), row.operands.size() - 1)].name;
  };
  Fault fault(
      FaultKind::kUnspecified, "nki.overlap",
      fmt::format(
          "{}: {} and {} overlap with an offset: element {} of a partition of {} is written before it is "
          "read, if elements are taken one after another. Here every operand is read first, as in AWS's "
          "simulator; no public document says what the hardware does",
          row.name, name(0), name(slot), place, name(slot)),
      "copy through another tile");
  fault.set_location(program.location(in.location));
  return fault;
}

std::optional<Fault> find_in(const Program& program) {
  for (const isa::Instruction& in : program.instructions()) {
    const isa::Traits& traits = isa::definition(in.opcode).traits;
    if (!traits.has(isa::kCopies) && !traits.elementwise()) continue;
    const auto operands = program.operands(in);
    if (operands.empty() || !is_walked(program, operands[0]) ||
        isa::role_of(program, in, 0) == isa::Role::kIn)
      continue;
    for (size_t slot = 1; slot < operands.size(); ++slot) {
      const Operand& source = operands[slot];
      if (!is_walked(program, source) || source.tensor != operands[0].tensor ||
          isa::role_of(program, in, static_cast<int>(slot)) == isa::Role::kOut ||
          is_in_place(operands[0], source))
        continue;
      if (const auto place = written_before_read(program, operands[0], source, isa::is_dma(in.opcode)))
        return fault_of(program, in, static_cast<int>(slot), *place);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Fault> find_overlapping_copy(std::span<const std::shared_ptr<Machine>> machines) {
  for (const auto& machine : machines)
    if (auto found = find_in(*machine->program())) return found;
  return std::nullopt;
}

}  // namespace opentrn::nki
