#include "sim/functional/placement.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "isa/definitions.h"
#include "sim/functional/access.h"
#include "sim/functional/merged_dims.h"

namespace opentrn::sim {

using isa::InstructionIndex;
using isa::Opcode;
using isa::Operand;
using isa::Program;
using isa::Tensor;
using isa::TensorId;

namespace {

// Looking for what touches a place goes through all that touches its tensor.
constexpr size_t kUsesMax = 4096;
constexpr size_t kPlacedInstructionsMax = size_t{1} << 18;
// Smaller tiles are not worth it.
constexpr int64_t kTileBytesMin = 4096;
constexpr TensorId kNowhere = std::numeric_limits<TensorId>::max();

// How far apart the rows of an access to `rows` rows of `columns` elements lie, each without gaps, in
// elements.
std::optional<int64_t> row_step(const isa::Pattern& pattern, int64_t rows, int64_t columns) {
  const std::vector<isa::Dim> dims = merged_dims(pattern);
  if (dims.size() == 1 && dims[0].step == 1 && dims[0].count == rows * columns) return columns;
  const bool apart =
      dims.size() == 2 && dims[0].count == rows && dims[1].step == 1 && dims[1].count == columns;
  return apart && dims[0].step >= columns ? std::optional(dims[0].step) : std::nullopt;
}

class PlacementFinder {
 public:
  PlacementFinder(const Program& program, const std::function<bool(TensorId)>& alone)
      : program_(program), alone_(alone), home_of_(program.tensor_count(), kNowhere) {}

  std::vector<Placement> find() {
    if (!read_program()) return {};
    for (InstructionIndex index = 0; index < program_.size(); ++index) {
      const isa::Instruction& in = program_.instruction(index);
      if (!is_copy(in)) continue;
      // Both instructions name the destination first.
      const Operand &to = program_.operand(in, 0), &from = program_.operand(in, 1);
      if (!place_source(index, from, to)) place_destination(index, from, to);
    }
    std::ranges::sort(placements_, {}, &Placement::tile);
    return std::move(placements_);
  }

 private:
  struct Use {
    InstructionIndex index;
    Access access;
  };

  bool read_program() {
    if (program_.size() > kPlacedInstructionsMax) return false;
    AccessList list;
    for (InstructionIndex index = 0; index < program_.size(); ++index) {
      const isa::Instruction& in = program_.instruction(index);
      read_accesses(program_, in, list);
      if (list.alone || isa::is_control(in.opcode)) return false;
      for (const Access& access : list.accesses) uses_.push_back({index, access});
    }
    std::ranges::stable_sort(uses_, {}, [](const Use& use) { return use.access.tensor; });
    return true;
  }

  std::span<const Use> uses_of(TensorId id) const {
    const auto range =
        std::ranges::equal_range(uses_, id, {}, [](const Use& use) { return use.access.tensor; });
    return {range.begin(), range.end()};
  }

  bool is_copy(const isa::Instruction& in) const {
    if ((in.opcode != Opcode::kDmaCopy && in.opcode != Opcode::kTensorCopy) || in.operand_count != 2)
      return false;
    const Operand &to = program_.operand(in, 0), &from = program_.operand(in, 1);
    if (!to.is_access() || !from.is_access() || to.indirect != isa::kNoIndirect ||
        from.indirect != isa::kNoIndirect || to.tensor == from.tensor)
      return false;
    return to.dtype == from.dtype && program_.tensor(to.tensor).dtype == to.dtype &&
           program_.tensor(from.tensor).dtype == to.dtype;
  }

  // The tile `from` lies in what it is copied to.
  bool place_source(InstructionIndex copy, const Operand& from, const Operand& to) {
    if (!may_be_placed(from) || alone_(to.tensor)) return false;
    const std::optional<Placement> place = place_of(from.tensor, to);
    if (!place || uses_of(to.tensor).size() > kUsesMax) return false;
    for (const Use& use : uses_of(from.tensor))
      if (use.access.writes && use.index > copy) return false;
    const Access region = access_of(copy, to.tensor);
    for (const Use& use : uses_of(to.tensor))
      if (use.index != copy && use.access.overlaps(region) && (use.access.writes || use.index < copy))
        return false;
    return add(*place);
  }

  // The tile `to` lies in what it is copied from.
  bool place_destination(InstructionIndex copy, const Operand& from, const Operand& to) {
    if (!may_be_placed(to) || alone_(from.tensor)) return false;
    const std::optional<Placement> place = place_of(to.tensor, from);
    if (!place || uses_of(from.tensor).size() > kUsesMax) return false;
    for (const Use& use : uses_of(to.tensor))
      if (use.index < copy || (use.access.writes && use.index != copy)) return false;
    const Access region = access_of(copy, from.tensor);
    for (const Use& use : uses_of(from.tensor))
      if (use.access.writes && use.index > copy && use.access.overlaps(region)) return false;
    return add(*place);
  }

  // Of the only operand of the instruction that is in that tensor.
  Access access_of(InstructionIndex index, TensorId id) const {
    const std::span<const Use> uses = uses_of(id);
    return std::ranges::find(uses, index, &Use::index)->access;
  }

  bool may_be_placed(const Operand& op) const {
    const Tensor& tile = program_.tensor(op.tensor);
    if (!isa::is_on_chip(tile.space) || tile.is_input || tile.is_output || tile.filled || alone_(op.tensor) ||
        home_of_[op.tensor] != kNowhere || tile.bytes() < kTileBytesMin)
      return false;
    return op.offset == 0 &&
           row_step(program_.pattern(op), tile.rows, tile.row_elements) == tile.row_elements;
  }

  // The place of an access to as many elements as the tile has, if rows of the tile are rows there.
  std::optional<Placement> place_of(TensorId tile_id, const Operand& op) const {
    const Tensor &tile = program_.tensor(tile_id), &home = program_.tensor(op.tensor);
    const isa::Pattern& pattern = program_.pattern(op);
    const int64_t columns = tile.row_elements, bytes = size_bytes(op.dtype);
    const std::optional<int64_t> step = row_step(pattern, tile.rows, columns);
    if (!step) return std::nullopt;
    const int64_t pitch = *step;
    const int64_t last = op.offset + (tile.rows - 1) * pitch + columns;
    if (op.offset < 0 || last > home.rows * home.row_elements) return std::nullopt;
    if (!isa::is_on_chip(home.space))
      return Placement{tile_id, op.tensor, 0, op.offset * bytes, pitch * bytes};
    const int64_t column = op.offset % home.row_elements;
    if ((tile.rows > 1 && pitch != home.row_elements) || column + columns > home.row_elements)
      return std::nullopt;
    return Placement{tile_id, op.tensor, op.offset / home.row_elements, column * bytes, 0};
  }

  // Homes may lie in others, but no tile in itself.
  bool add(const Placement& place) {
    for (TensorId at = place.home; at != kNowhere; at = home_of_[at])
      if (at == place.tile) return false;
    home_of_[place.tile] = place.home;
    placements_.push_back(place);
    return true;
  }

  const Program& program_;
  const std::function<bool(TensorId)>& alone_;
  std::vector<Use> uses_;  // by tensor, then by instruction
  std::vector<TensorId> home_of_;
  std::vector<Placement> placements_;
};

}  // namespace

std::vector<Placement> find_placements(const Program& program, const std::function<bool(TensorId)>& alone) {
  return PlacementFinder(program, alone).find();
}

}  // namespace opentrn::sim
