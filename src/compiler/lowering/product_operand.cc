#include "compiler/lowering/product_operand.h"

#include <algorithm>
#include <cstring>

#include "base/fault.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/tiling.h"

namespace opentrn::compiler {

namespace {

bool has_one_reader(const graph::Function& function, graph::ValueId value) {
  int64_t readers = 0;
  graph::walk(function, function.body(), [&](graph::OpId id) {
    const auto& operands = function.op(id).operands;
    readers += std::count(operands.begin(), operands.end(), value);
  });
  return readers == 1;
}

// A constant [K, N] of one byte an element, as Panelled has it.
graph::Literal in_panels(const graph::Literal& literal, int64_t k, int64_t n, int64_t columns) {
  const int64_t blocks = k / kPartitions;
  std::vector<std::byte> bytes(static_cast<size_t>(k * n));
  std::byte* to = bytes.data();
  for (int64_t panel = 0; panel < n; panel += columns)
    for (int64_t p = 0; p < kPartitions; ++p)
      for (int64_t block = 0; block < blocks; ++block, to += columns)
        std::memcpy(to, literal.bytes().data() + (block * kPartitions + p) * n + panel,
                    static_cast<size_t>(columns));
  const auto dims = {n / columns, kPartitions, blocks * columns};
  return graph::Literal(graph::Type::tensor(literal.type().element(), dims), std::move(bytes));
}

}  // namespace

std::vector<Tile> ProductOperand::panels(int64_t free_begin, int64_t free_count) {
  if (loaded_ && !on_chip_) return {loaded_->column_range(free_begin, free_count)};
  if (!prologue_ && !loaded_)
    if (auto tiles = resident_panels(free_begin, free_count)) return *tiles;
  const bool shared = shared_by_ && !prologue_ && !loaded_ && !panelled_;
  return blocks_of(shared ? panels_once(free_begin, free_count) : make_panels(free_begin, free_count),
                   free_count);
}

std::vector<Tile> ProductOperand::blocks_of(const Tile& all, int64_t free_count) const {
  std::vector<Tile> blocks;
  for (int64_t k = 0; k < matrix_.columns(); k += kPartitions)
    blocks.push_back(all.column_range(k / kPartitions * free_count, free_count)
                         .row_range(0, std::min(kPartitions, matrix_.columns() - k)));
  return blocks;
}

Tile ProductOperand::panels_once(int64_t free_begin, int64_t free_count) {
  const View whole = matrix_.all();
  constexpr int64_t kOfPanels = -1;  // no offset, with which the keys of other tiles begin
  std::vector<int64_t> key{
      kOfPanels,  whole.offset, static_cast<int64_t>(dtype_), static_cast<int64_t>(matrix_.row_dims().size()),
      free_begin, free_count};
  for (const isa::Dim& dim : whole.dims) key.insert(key.end(), {dim.step, dim.count});
  const int64_t bytes = tiles(matrix_.columns(), kPartitions) * free_count * size_bytes(dtype_);
  return shared_by_->small_once({whole.tensor, std::move(key)}, bytes,
                                [&] { return make_panels(free_begin, free_count); });
}

Tile ProductOperand::make_panels(int64_t free_begin, int64_t free_count) {
  const int64_t columns = tiles(matrix_.columns(), kPartitions) * free_count;
  const Tile all = emitter_.sbuf(std::min(kPartitions, matrix_.columns()), columns, dtype_, name_);
  if (const auto stored = stored_.find(free_begin); stored != stored_.end()) {
    emitter_.load(all, stored->second);
    return all;
  }
  std::vector<Tile> blocks = blocks_of(all, free_count);
  if (panelled_)
    load_panel(all, free_begin);
  else if (loaded_)
    turn(blocks, 0, loaded_->row_range(free_begin, free_count), 0);
  else if (on_chip_)
    transposed(blocks, free_begin, free_count);
  else if (prologue_)
    compute_all(all, blocks, free_begin, free_count);
  else
    load_all(all, blocks, free_begin, free_count);
  if (keeps_) {
    const std::vector<int64_t> shape{all.rows, all.columns};
    const View copy = emitter_.hbm(shape, dtype_, name_ + "_panel");
    emitter_.store(copy, all);
    stored_.emplace(free_begin, copy);
  }
  return all;
}

std::optional<std::vector<Tile>> ProductOperand::resident_panels(int64_t free_begin, int64_t free_count) {
  std::vector<Tile> result;
  for (int64_t k = 0; k < matrix_.columns(); k += kPartitions) {
    const auto tile = matrix_.transposed().kept(emitter_, k, std::min(kPartitions, matrix_.columns() - k),
                                                free_begin, free_count, /*first_partition=*/true);
    if (!tile) return std::nullopt;
    result.push_back(*tile);
  }
  return result;
}

void ProductOperand::transposed(std::vector<Tile>& panels, int64_t free_begin, int64_t free_count) {
  for (int64_t f = 0; f < free_count;) {
    const std::vector<Tile> blocks = blocks_of_rows(free_begin + f, free_count - f);
    for (const Tile& natural : blocks) {
      turn(panels, f, natural, 0);
      f += natural.rows;
    }
    if (!blocks.empty()) continue;
    const int64_t rows = std::min(kPartitions, free_count - f);
    for (int64_t k = 0; k < matrix_.columns(); k += kNaturalColumns) {
      const int64_t width = std::min(kNaturalColumns, matrix_.columns() - k);
      turn(panels, f, rows_of(free_begin + f, rows, k, width), k);
    }
    f += rows;
  }
}

void ProductOperand::turn(std::vector<Tile>& panels, int64_t free_column, const Tile& natural, int64_t k) {
  for (int64_t part = 0; part < natural.columns; part += kPartitions) {
    const Tile& target = panels[static_cast<size_t>((k + part) / kPartitions)];
    const Tile transposed = emitter_.psum_transposed(target.rows, natural.rows, dtype_, name_ + "_T");
    emitter_.transpose(transposed, natural.column_range(part, target.rows));
    emitter_.tensor_copy(target.column_range(free_column, natural.rows), transposed);
  }
}

std::vector<Tile> ProductOperand::blocks_of_rows(int64_t row, int64_t count) {
  const int64_t width = matrix_.columns();
  const int64_t blocks = std::min(tiles(kTransferBytes, width * size_bytes(dtype_)), count / kPartitions);
  if (prologue_ || matrix_.dtype() != dtype_ || width > kNaturalColumns || blocks < 2 ||
      matrix_.kept(emitter_, row, kPartitions, 0, width, /*first_partition=*/false))
    return {};
  const Tile all = emitter_.sbuf(kPartitions, blocks * width, dtype_, name_ + "_rows");
  if (!matrix_.load_blocks(emitter_, all, row, 0, width)) return {};
  std::vector<Tile> result;
  for (int64_t i = 0; i < blocks; ++i) result.push_back(all.column_range(i * width, width));
  return result;
}

void ProductOperand::compute_all(const Tile& all, const std::vector<Tile>& panels, int64_t free_begin,
                                 int64_t free_count) {
  const auto whole = static_cast<size_t>(matrix_.columns() / kPartitions);
  const auto together = static_cast<size_t>(std::max<int64_t>(1, kNaturalColumns / free_count));
  for (size_t i = 0; i < panels.size();) {
    const size_t count = i < whole ? std::min(together, whole - i) : 1;
    const int64_t k = static_cast<int64_t>(i) * kPartitions,
                  columns = static_cast<int64_t>(count) * free_count;
    const Tile place = all.column_range(static_cast<int64_t>(i) * free_count, columns);
    if (count > 1 && compute_blocks(place, k, free_begin, free_count)) {
      i += count;
      continue;
    }
    prologue_->compute(transposed_inputs_, {k, panels[i].rows, free_begin, free_count}, panels[i]);
    ++i;
  }
}

bool ProductOperand::compute_blocks(const Tile& place, int64_t k, int64_t free_begin, int64_t free_count) {
  if (!prologue_->all_full()) return false;
  std::vector<Tile> loaded;
  for (const Matrix& input : transposed_inputs_) {
    loaded.push_back(emitter_.sbuf(place.rows, place.columns, input.dtype(), name_ + "_load"));
    if (!input.load_blocks(emitter_, loaded.back(), k, free_begin, free_count)) {
      OPENTRN_CHECK(loaded.size() == 1, "inputs of a prologue of which only some lie in blocks");
      return false;
    }
  }
  prologue_->compute(loaded, place);
  return true;
}

void ProductOperand::load_all(const Tile& all, const std::vector<Tile>& panels, int64_t free_begin,
                              int64_t free_count) {
  const int64_t row_bytes = free_count * size_bytes(dtype_);
  const auto together = static_cast<size_t>(std::max<int64_t>(1, tiles(kTransferBytes, row_bytes)));
  const auto whole = static_cast<size_t>(matrix_.columns() / kPartitions);  // blocks of kPartitions rows
  for (size_t i = 0; i < panels.size();) {
    const size_t count = i < whole && matrix_.dtype() == dtype_ ? std::min(together, whole - i) : 1;
    const int64_t k = static_cast<int64_t>(i) * kPartitions;
    const Tile place =
        all.column_range(static_cast<int64_t>(i) * free_count, static_cast<int64_t>(count) * free_count);
    if (count > 1 && matrix_.transposed().load_blocks(emitter_, place, k, free_begin, free_count)) {
      i += count;
      continue;
    }
    load(panels[i], k, free_begin);
    ++i;
  }
}

void ProductOperand::load(const Tile& panel, int64_t k_begin, int64_t free_begin) {
  if (matrix_.dtype() == dtype_) return matrix_.transposed().load(emitter_, panel, k_begin, free_begin);
  const Tile kept = emitter_.sbuf(panel.rows, panel.columns, matrix_.dtype(), name_ + "_resident");
  matrix_.transposed().load(emitter_, kept, k_begin, free_begin);
  widen(panel, kept);
}

void ProductOperand::widen(const Tile& wide, const Tile& kept) {
  if (std::exchange(scalar_is_next_, !scalar_is_next_))
    emitter_.activation(ActivationFunction::kCopy, wide, kept);
  else
    emitter_.tensor_copy(wide, kept, isa::Engine::kVector);
}

void ProductOperand::load_panel(const Tile& all, int64_t free_begin) {
  const int64_t columns = panelled_->columns;
  const int64_t blocks = std::max<int64_t>(1, kPanelRunBytes / columns);
  for (int64_t block = 0; block < panelled_->blocks; block += blocks) {
    const int64_t count = std::min(blocks, panelled_->blocks - block);
    const View part = panelled_->part(free_begin, block, count);
    const Tile place = all.column_range(block * columns, count * columns);
    if (matrix_.dtype() == dtype_) {
      emitter_.load(place, part);
      continue;
    }
    const Tile kept = emitter_.sbuf(kPartitions, count * columns, matrix_.dtype(), name_ + "_resident");
    emitter_.load(kept, part);
    widen(place, kept);
  }
}

Tile ProductOperand::rows_of(int64_t row, int64_t row_count, int64_t column, int64_t column_count) {
  if (prologue_) return prologue_->compute(inputs_, {row, row_count, column, column_count});
  if (matrix_.dtype() == dtype_)
    return matrix_.fetch(emitter_, row, row_count, column, column_count, name_ + "_rows");
  const Tile tile = emitter_.sbuf(row_count, column_count, dtype_, name_ + "_rows");
  matrix_.load(emitter_, tile, row, column);
  return tile;
}

std::optional<Panelled> panelled(Lowering& lowering, const Op& op, int64_t k, int64_t n, int64_t columns) {
  const graph::Function& function = lowering.function();
  // Blocks of loops may be lowered more than once.
  if (lowering.plan().block() != function.body()) return std::nullopt;
  const graph::ValueId value = op.operands[1];
  const graph::OpId made = function.value(value).op;
  const graph::Type& type = function.type(value);
  if (type.element() == function.type(op.operands[0]).element() || made == graph::kNoOp ||
      function.op(made).kind != OpKind::constant_ || graph::storage_bytes(type.element()) != 1 ||
      k % kPartitions != 0 || n % columns != 0)
    return std::nullopt;
  const auto contracted = op.integers(Attr::rhs_contracting_dimensions);
  for (size_t i = 0; i < contracted.size(); ++i)
    if (contracted[i] != static_cast<int64_t>(i)) return std::nullopt;
  if (type.element_count() != k * n || !has_one_reader(function, value)) return std::nullopt;
  const graph::Literal& literal = function.op(made).literal(Attr::value);
  if (literal.is_splat()) return std::nullopt;
  return Panelled{lowering.constant(in_panels(literal, k, n, columns)), k / kPartitions, columns};
}

}  // namespace opentrn::compiler
