// dynamic_slice and dynamic_update_slice: boxes at places that registers hold.
//
// Start indices are clamped so that the box lies inside, as StableHLO has it; constants are clamped here. A
// slice that is small is loaded into SBUF and stays. An update is written where the operand lies if nobody
// reads that any more (a key-value cache, the results of a scan): its cost is then that of the update alone.
#include <algorithm>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/registers.h"
#include "compiler/lowering/transposed_copy.h"

namespace opentrn::compiler {

namespace {

// A box of memory, further on by what a register holds.
struct MovedBox {
  View box;
  std::optional<isa::RegisterId> offset;  // elements, in [0, bound)
  int64_t bound = 1;
};

class BoxFinder {
 public:
  BoxFinder(Lowering& lowering, const View& whole, std::span<const int64_t> sizes)
      : lowering_(lowering), registers_(lowering.registers()), whole_(whole), box_(whole) {
    for (size_t d = 0; d < sizes.size(); ++d) box_.dims[d].count = sizes[d];
  }

  MovedBox at(std::span<const ValueId> indices) {
    std::vector<int64_t> places;
    for (size_t d = 0; d < indices.size(); ++d)
      if (last(d) > 0)
        places.insert(places.end(),
                      {static_cast<int64_t>(index_of(indices[d])), last(d), whole_.dims[d].step});
    const Lowering::Offset& found = lowering_.offset_of(places, [&] { return offset(indices); });
    box_.offset += found.fixed;
    return {box_, found.moved, found.bound};
  }

 private:
  using Scalar = Lowering::Scalar;

  int64_t last(size_t d) const { return whole_.dims[d].count - box_.dims[d].count; }

  Lowering::Offset offset(std::span<const ValueId> indices) {
    Lowering::Offset found;
    for (size_t d = 0; d < indices.size(); ++d) {
      if (last(d) == 0) continue;
      Lowering::Scalar index = lowering_.scalar(indices[d]);
      const auto* number = std::get_if<int64_t>(&index);
      if (!number && graph::is_unsigned_integer(lowering_.function().type(indices[d]).element()))
        index = signed_word(index, last(d));
      add(found, number ? std::clamp<int64_t>(*number, 0, last(d)) : registers_.clamped(index, 0, last(d)),
          last(d), whole_.dims[d].step);
    }
    return found;
  }

  // The registers are signed: unsigned numbers with the highest bit lie above, not below.
  Scalar signed_word(const Scalar& index, int64_t last) {
    const Scalar above = registers_.alu(AluOp::kLess, index, int64_t{0});
    return registers_.alu(AluOp::kMaximum, index, registers_.alu(AluOp::kMultiply, above, last));
  }

  // place: in [0, last].
  void add(Lowering::Offset& found, Scalar place, int64_t last, int64_t step) {
    if (const auto* number = std::get_if<int64_t>(&place)) {
      found.fixed += *number * step;
      return;
    }
    if (step < 0) {  // from the far end, so that the register never goes below 0
      found.fixed += last * step;
      place = registers_.alu(AluOp::kSubtract, last, place);
      step = -step;
    }
    place = registers_.alu(AluOp::kMultiply, place, step);
    if (found.moved) place = registers_.alu(AluOp::kAdd, *found.moved, place);
    found.bound += last * step;
    found.moved = registers_.in_register(place);
  }

  Lowering& lowering_;
  Registers& registers_;
  View whole_, box_;
};

int64_t columns_of(const View& view) { return view.dims.empty() ? 1 : view.dims.back().count; }
int row_rank_of(const View& view) { return view.dims.empty() ? 0 : static_cast<int>(view.dims.size()) - 1; }

MovedBox box_of_slice(Lowering& lowering, const Op& op) {
  return BoxFinder(lowering, lowering.view(op.operands[0]), op.integers(Attr::slice_sizes))
      .at(std::span(op.operands).subspan(1));
}

void load(Lowering& lowering, const Op& op) {
  Emitter& emitter = lowering.emitter();
  const MovedBox from = box_of_slice(lowering, op);
  const View out = lowering.allocate(op.results[0]);
  if (out.element_count() == 0) return;
  lowering.keep(out);
  if (!emitter.residency().holds(out.tensor)) {
    if (from.offset) return emitter.copy_from(out, from.box, *from.offset, from.bound);
    return emitter.copy(out, from.box);
  }
  const Matrix box(from.box, row_rank_of(from.box));
  const int64_t columns = columns_of(out), rows = out.element_count() / columns;
  for (int64_t row = 0; row < rows; row += kPartitions) {
    const Tile tile = *emitter.residency().place(out.tensor, row, std::min(kPartitions, rows - row));
    if (from.offset)
      box.load_at(emitter, tile, row, 0, *from.offset, from.bound);
    else
      box.load(emitter, tile, row, 0);
  }
  emitter.residency().changed(out.tensor);
}

}  // namespace

View slice_in_place(Lowering& lowering, const Op& op) {
  const MovedBox from = box_of_slice(lowering, op);
  return from.offset ? lowering.emitter().moved(from.box, *from.offset, from.bound) : from.box;
}

namespace {

bool stays_in_sbuf(Lowering& lowering, ValueId value) {
  const Residency& residency = lowering.emitter().residency();
  const isa::TensorId tensor = lowering.view(value).tensor;
  return residency.holds(tensor) && residency.is_fixed(tensor);
}

}  // namespace

View place_of_update(Lowering& lowering, const Op& op) {
  Residency& residency = lowering.emitter().residency();
  const ValueId operand = op.operands[0];
  const View source = lowering.view(operand);
  if (!stays_in_sbuf(lowering, operand) &&
      lowering.plan().may_overwrite(lowering.function().value(op.results[0]).op, 0)) {
    residency.flush(source.tensor);
    residency.drop(source.tensor);
    return lowering.take_over(operand, op.results[0]);
  }
  const View out = lowering.allocate(op.results[0]);
  if (out.element_count() > 0) lowering.emitter().copy(out, source);
  return out;
}

namespace {

MovedBox box_of_update(Lowering& lowering, const Op& op, const View& out) {
  return BoxFinder(lowering, out, lowering.function().type(op.operands[1]).dims())
      .at(std::span(op.operands).subspan(2));
}

}  // namespace

std::optional<View> place_in_update(Lowering& lowering, const Op& op, std::span<const int64_t> dims) {
  if (stays_in_sbuf(lowering, op.operands[0])) return std::nullopt;
  const MovedBox to = box_of_update(lowering, op, place_of_update(lowering, op));
  const View place = to.offset ? lowering.emitter().moved(to.box, *to.offset, to.bound) : to.box;
  const auto shaped = reshaped(place, dims);
  OPENTRN_CHECK(shaped.has_value(), "a run of a tensor has no form of {} dimensions", dims.size());
  return shaped;
}

namespace {

void update(Lowering& lowering, const Op& op) {
  if (lowering.is_placed(op.results[0])) return;  // what it puts there was made there
  Emitter& emitter = lowering.emitter();
  const View fresh = lowering.view(op.operands[1]);
  const View out = place_of_update(lowering, op);
  if (fresh.element_count() == 0) return;
  std::vector<int64_t> sizes;
  for (const isa::Dim& dim : fresh.dims) sizes.push_back(dim.count);
  const MovedBox to = box_of_update(lowering, op, out);
  const int64_t columns = columns_of(fresh), rows = fresh.element_count() / columns;
  const Matrix from(fresh, row_rank_of(fresh)), box(to.box, row_rank_of(to.box));
  std::vector<Tile> tiles;
  for (int64_t row = 0; row < rows; row += kPartitions)
    if (const auto tile = from.kept(emitter, row, std::min(kPartitions, rows - row), 0, columns, false))
      tiles.push_back(*tile);
  if (static_cast<int64_t>(tiles.size()) * kPartitions < rows) {
    if (!to.offset) return emitter.copy(to.box, fresh);
    if (!is_transposed(to.box, fresh)) return emitter.copy_to(to.box, *to.offset, to.bound, fresh);
    const View transposed = emitter.hbm(sizes, fresh.dtype, "transposed");
    emitter.copy(transposed, fresh);
    return emitter.copy_to(to.box, *to.offset, to.bound, transposed);
  }
  int64_t row = 0;
  for (const Tile& tile : tiles) {
    if (to.offset)
      box.store_at(emitter, tile, row, 0, *to.offset, to.bound);
    else
      box.store(emitter, tile, row, 0);
    row += kPartitions;
  }
}

}  // namespace

bool has_dynamic_slices(const Function& function, const Op& op) {
  if (op.kind != OpKind::dynamic_slice_ && op.kind != OpKind::dynamic_update_slice_) return false;
  return std::all_of(op.operands.begin(), op.operands.end(), [&](ValueId id) {
    const graph::Type& type = function.type(id);
    return type.is_tensor() && type.is_static() && !type.quantization() && device_dtype(type.element());
  });
}

bool lower_dynamic_slices(Lowering& lowering, const Op& op) {
  if (!has_dynamic_slices(lowering.function(), op)) return false;
  if (op.kind == OpKind::dynamic_slice_)
    load(lowering, op);
  else
    update(lowering, op);
  return true;
}

}  // namespace opentrn::compiler
