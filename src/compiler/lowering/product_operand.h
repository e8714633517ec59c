// An operand of a product as the Tensor engine takes it: panels, with the contraction over partitions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/emitter.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/prologue.h"

namespace opentrn::compiler {

class Lowering;

// Columns of the contraction loaded at once when rows are transposed on chip.
inline constexpr int64_t kNaturalColumns = 2048;

// Bytes of a partition that one transfer brings of an operand that lies as it is needed, where a block of the
// contraction has fewer: a transfer takes an engine 600 ns at least (dma_transfer_min_ns of the tables), in
// which it moves 1.3 KiB for each of its eight partitions.
inline constexpr int64_t kTransferBytes = 4 * 1024;

// Bytes of a partition that one transfer of a constant in panels brings: longer runs save no more
// descriptors.
inline constexpr int64_t kPanelRunBytes = 8 * 1024;

// A constant that lies in memory as its panels lie in SBUF: [panels, 128, K blocks, columns of a panel]. A
// narrow one would otherwise be read in short runs.
struct Panelled {
  View view;  // contiguous
  int64_t blocks, columns;

  // Blocks of the contraction from `block` on, of the panel that begins at this column.
  View part(int64_t column, int64_t block, int64_t count) const {
    View part = view;
    part.offset += (column / columns * kPartitions * blocks + block) * columns;
    part.dims = {{blocks * columns, kPartitions}, {1, count * columns}};
    return part;
  }
  std::vector<isa::Dim> free_dims(int64_t panels) const {
    return {{kPartitions * blocks * columns, panels}, {1, columns}};
  }
  std::vector<isa::Dim> contracted_dims() const {
    return {{columns, blocks}, {blocks * columns, kPartitions}};
  }
};

// One side of a product: free dimensions by contraction dimensions.
class ProductOperand {
 public:
  // `dtype`: of the tiles, to which DMA converts what is kept in another.
  ProductOperand(Emitter& emitter, Matrix free_by_k, DType dtype, std::string name)
      : emitter_(emitter),
        matrix_(std::move(free_by_k)),
        dtype_(dtype),
        name_(std::move(name)),
        on_chip_(is_transposed(matrix_)) {}

  // Whether the operand is loaded by rows, which the Tensor engine transposes.
  static bool is_transposed(const Matrix& free_by_k) {
    return free_by_k.columns_are_runs() && !free_by_k.rows_are_runs() && free_by_k.columns() > 1;
  }

  // The whole operand as it lies, if it was loaded together with those of other batches: all rows where it is
  // transposed, else the contraction over partitions.
  void set_loaded(const std::optional<Tile>& loaded) { loaded_ = loaded; }

  // Other products read the same matrix: small panels of it are made once for all of them.
  void set_shared(Lowering& lowering) { shared_by_ = &lowering; }
  void set_panelled(const Panelled& panelled) { panelled_ = panelled; }
  // What the matrix shows is one of `inputs`; the operand is what the prologue makes of all of them.
  void set_prologue(Prologue* prologue, std::vector<Matrix> inputs) {
    prologue_ = prologue;
    inputs_ = std::move(inputs);
    for (const Matrix& input : inputs_) transposed_inputs_.push_back(input.transposed());
  }

  // Panels will be asked for again: those that cost transposes or a prologue are kept in HBM as they lie in
  // SBUF, so that the next time is one long transfer.
  void keep_transposed() { keeps_ = (on_chip_ || prologue_) && matrix_.columns() % kPartitions == 0; }

  // [K block, free_count] tiles for free indices from free_begin.
  std::vector<Tile> panels(int64_t free_begin, int64_t free_count);

 private:
  Tile make_panels(int64_t free_begin, int64_t free_count);
  // The blocks of the contraction in a tile that holds them side by side.
  std::vector<Tile> blocks_of(const Tile& all, int64_t free_count) const;
  Tile panels_once(int64_t free_begin, int64_t free_count);
  // Where an earlier kernel left the operand in SBUF as it is needed. Both sides of a product must lie on the
  // same partitions: from the first one.
  std::optional<std::vector<Tile>> resident_panels(int64_t free_begin, int64_t free_count);
  void transposed(std::vector<Tile>& panels, int64_t free_begin, int64_t free_count);

  // Columns of the contraction from k on become partitions of its blocks.
  void turn(std::vector<Tile>& panels, int64_t free_column, const Tile& natural, int64_t k);

  // As many whole blocks of 128 rows as one transfer brings, each with the whole contraction; none where one
  // block is long enough, or lies in SBUF already.
  std::vector<Tile> blocks_of_rows(int64_t row, int64_t count);

  // Several blocks of the contraction are one instruction where the inputs are as regular as that.
  void compute_all(const Tile& all, const std::vector<Tile>& panels, int64_t free_begin, int64_t free_count);
  bool compute_blocks(const Tile& place, int64_t k, int64_t free_begin, int64_t free_count);
  void load_all(const Tile& all, const std::vector<Tile>& panels, int64_t free_begin, int64_t free_count);

  // What is kept in another type moves as it is kept, and is converted on chip: DMA engines take as long for
  // an element as the wider side has bytes, and DMA that converts costs descriptors of software.
  void load(const Tile& panel, int64_t k_begin, int64_t free_begin);
  void widen(const Tile& wide, const Tile& kept);
  void load_panel(const Tile& all, int64_t free_begin);
  Tile rows_of(int64_t row, int64_t row_count, int64_t column, int64_t column_count);

  Emitter& emitter_;
  Matrix matrix_;
  DType dtype_;
  std::string name_;
  bool on_chip_;  // transposed by the Tensor engine
  bool keeps_ = false;
  bool scalar_is_next_ = true;
  std::optional<Panelled> panelled_;
  std::optional<Tile> loaded_;
  Prologue* prologue_ = nullptr;
  Lowering* shared_by_ = nullptr;
  std::vector<Matrix> inputs_, transposed_inputs_;
  std::map<int64_t, View> stored_;  // by free_begin
};

// The right operand in panels of `columns`, where it is a narrow constant [K, N] of the product alone, and
// both divide evenly.
std::optional<Panelled> panelled(Lowering& lowering, const Op& op, int64_t k, int64_t n, int64_t columns);

}  // namespace opentrn::compiler
