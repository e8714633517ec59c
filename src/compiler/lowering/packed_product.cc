// Products with packed weights (analysis/packed_product.h): microscaled, or structured-sparse.
//
// Both instructions contract over more than the partitions: partition p of a tile holds terms f p ... f p + f
// - 1 (f = 4 of an MX element; 2, 3 or 4 of a sparse product). Weights lie so in memory. Activations are
// loaded by rows and transposed by the Tensor engine, every f-th column at a time:
//
//   MX      [128, 4 rows] of 16 bits -> quantize_mx -> [128, rows] packed, stationary; weights move
//   sparse  [128, f, rows] moves; weights and tags are stationary, so the sums come out as [channels, rows]
//   and
//           are transposed once more
#include <algorithm>
#include <map>
#include <memory>
#include <optional>

#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/packed_product.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/tile_source.h"
#include "numerics/mx.h"

namespace opentrn::compiler {

namespace {

// Bytes of a partition for a panel of weights, and for keeping the activations of all rows.
constexpr int64_t kWeightPanelBytes = 64 * 1024;
constexpr int64_t kPanelColumnsMax = 2048;  // enough for long runs of memory
constexpr int64_t kActivationBytes = 32 * 1024;
constexpr int64_t kMxPack = numerics::kMxPack;
constexpr int64_t kQuadrant = 32;         // partitions
constexpr int64_t kScalesOfQuadrant = 4;  // rows of a quadrant that hold scales
constexpr int64_t kTagPack = 4;

Matrix activations(Lowering& lowering, const Op& op) {
  const View view = lowering.view(op.operands[0]);
  const auto contracted = op.integers(Attr::lhs_contracting_dimensions);
  std::vector<isa::Dim> free_dims, contracted_dims;
  for (size_t d = 0; d < view.dims.size(); ++d)
    if (std::find(contracted.begin(), contracted.end(), static_cast<int64_t>(d)) == contracted.end())
      free_dims.push_back(view.dims[d]);
  for (const int64_t d : contracted) contracted_dims.push_back(view.dims[static_cast<size_t>(d)]);
  return {view, free_dims, contracted_dims};
}

// The terms of a contraction as tiles of partitions.
struct Terms {
  int64_t begin, partitions;  // `begin` counts packs of `factor` terms
};

std::vector<Terms> terms_of(int64_t packs) {
  std::vector<Terms> result;
  for (int64_t at = 0; at < packs; at += kPartitions)
    result.push_back({at, std::min(kPartitions, packs - at)});
  return result;
}

// Panels of channels, and whether the activations of all rows are kept between them. Bytes are of a
// partition.
struct PanelSizes {
  int64_t columns;
  bool keeps_rows;
  int64_t weight_bytes, activation_bytes;  // of one column, and one row
};

PanelSizes panel_sizes(int64_t tiles, int64_t rows, int64_t channels, int64_t weight_bytes,
                       int64_t activation_bytes) {
  constexpr int64_t kLeast = kPartitions;
  PanelSizes sizes{0, false, tiles * weight_bytes, tiles * activation_bytes};
  const int64_t columns =
      std::clamp(kWeightPanelBytes / sizes.weight_bytes / kLeast * kLeast, kLeast, kPanelColumnsMax);
  sizes.columns = std::min(columns, channels);
  const int64_t blocks = (rows + kPartitions - 1) / kPartitions;
  sizes.keeps_rows = blocks * kPartitions * sizes.activation_bytes <= kActivationBytes;
  return sizes;
}

// With the scales or tags of each.
PanelSizes mx_sizes(int64_t tiles, int64_t rows, int64_t channels, DType weights) {
  return panel_sizes(tiles, rows, channels, size_bytes(weights) + 1, size_bytes(DType::kFloat8E4M3FnX4) + 1);
}
PanelSizes sparse_sizes(int64_t tiles, int64_t rows, int64_t channels, DType weights, int64_t ratio) {
  return panel_sizes(tiles, rows, channels, size_bytes(weights) + 1, ratio * size_bytes(weights));
}

// What both have in common: one part of all rows, panels of channels, and activations that are transposed
// block by block of rows.
class PackedProduct : public TileSource {
 public:
  PackedProduct(Lowering& lowering, const Op& op, int64_t factor)
      : emitter_(lowering.emitter()),
        x_(activations(lowering, op)),
        weights_(lowering.view(op.operands[1])),
        extra_(lowering.view(op.operands[2])),
        factor_(factor),
        terms_(terms_of(x_.columns() / factor)) {}

  std::vector<std::vector<RowBlock>> parts() const override {
    std::vector<RowBlock> part;
    for (int64_t row = 0; row < x_.rows(); row += kPartitions)
      part.push_back({row, std::min(kPartitions, x_.rows() - row)});
    return {part};
  }
  std::vector<ColumnBlock> panels() const override {
    std::vector<ColumnBlock> result;
    for (int64_t c = 0; c < channels(); c += panel_columns_)
      result.push_back({c, std::min(panel_columns_, channels() - c)});
    return result;
  }
  std::vector<ColumnBlock> tiles_of(const ColumnBlock& panel) const override {
    std::vector<ColumnBlock> result;
    for (int64_t c = 0; c < panel.count; c += kSumColumns)
      result.push_back({panel.begin + c, std::min(kSumColumns, panel.count - c)});
    return result;
  }
  bool keepable() const override { return true; }

  void begin_rows(const std::vector<RowBlock>&) override { resident_.clear(); }
  void begin_columns(const ColumnBlock& panel) override {
    panel_ = panel;
    if (!keeps_rows_) resident_.clear();
    load_weights();
  }

 protected:
  // One block of rows, transposed, by tile of terms.
  struct Transposed {
    std::vector<Tile> tiles, scales;
  };

  int64_t channels() const { return weights_.dims[1].count; }

  void divide(const PanelSizes& sizes) {
    panel_columns_ = sizes.columns;
    keeps_rows_ = sizes.keeps_rows;
  }

  // One block ahead, as in dot_general.cc.
  const Transposed& transposed_rows(const RowBlock& rows) {
    const int64_t next = rows.begin + rows.count;
    const Transposed& block = block_of(rows.begin, rows.count);
    if (next < x_.rows()) block_of(next, std::min(kPartitions, x_.rows() - next));
    if (!keeps_rows_)
      std::erase_if(resident_,
                    [&](const auto& entry) { return entry.first != rows.begin && entry.first != next; });
    return block;
  }

  // Every factor-th column of the rows, from column `lane` of the tile's terms: [partitions, rows].
  Tile transposed(const Tile& natural, const Terms& terms, int64_t lane) {
    Tile columns = natural.column_range(lane, 1);
    columns.column_step = factor_;
    columns.columns = terms.partitions;
    const Tile result = emitter_.psum_transposed(terms.partitions, natural.rows, natural.dtype, "x_T");
    emitter_.transpose(result, columns);
    return result;
  }
  Tile natural_rows(int64_t row, int64_t count, const Terms& terms) {
    return x_.fetch(emitter_, row, count, terms.begin * factor_, terms.partitions * factor_, "x_rows");
  }

  View rows_of(const View& view, int64_t begin, int64_t count, int64_t column, int64_t columns) const {
    View part = view;
    part.offset += begin * view.dims[0].step + column * view.dims[1].step;
    part.dims[0].count = count;
    part.dims[1].count = columns;
    return part;
  }

  virtual Transposed turn_block(int64_t row, int64_t count) = 0;
  virtual void load_weights() = 0;

  Emitter& emitter_;
  Matrix x_;  // rows by terms
  View weights_, extra_;
  int64_t factor_;
  std::vector<Terms> terms_;
  ColumnBlock panel_;

 private:
  const Transposed& block_of(int64_t row, int64_t count) {
    const auto found = resident_.find(row);
    if (found != resident_.end()) return found->second;
    return resident_.emplace(row, turn_block(row, count)).first->second;
  }

  int64_t panel_columns_ = 0;
  bool keeps_rows_ = false;
  std::map<int64_t, Transposed> resident_;  // by row
};

class MxProduct : public PackedProduct {
 public:
  MxProduct(Lowering& lowering, const Op& op) : PackedProduct(lowering, op, kMxPack) {
    divide(mx_sizes(static_cast<int64_t>(terms_.size()), x_.rows(), channels(), weights_.dtype));
  }

  Tile sums(const RowBlock& rows, const ColumnBlock& tile) override {
    const Transposed& x = transposed_rows(rows);
    const int64_t even = x.tiles[0].columns;
    const Tile sum = emitter_.psum_banks(even, tile.count, "sum");
    for (int64_t c = 0; c < tile.count; c += kPsumBankColumns) {
      const int64_t columns = std::min(kPsumBankColumns, tile.count - c),
                    from = tile.begin - panel_.begin + c;
      for (size_t i = 0; i < terms_.size(); ++i)
        emitter_.matmul_mx(sum.column_range(c, columns), x.tiles[i], moving_[i].column_range(from, columns),
                           x.scales[i], moving_scales_[i].column_range(from, columns), i > 0);
    }
    return sum.row_range(0, rows.count);
  }

 private:
  // A stationary operand has an even number of columns: one more row of zeros.
  Transposed turn_block(int64_t row, int64_t count) override {
    Transposed result;
    const int64_t even = count + count % 2;
    for (const Terms& terms : terms_) {
      const Tile natural = natural_rows(row, count, terms);
      const Tile wide = emitter_.sbuf(terms.partitions, even * kMxPack, x_.dtype(), "x_wide");
      if (even != count) emitter_.memset(wide.column_range(count * kMxPack, kMxPack), 0.0);
      for (int64_t lane = 0; lane < kMxPack; ++lane) {
        Tile place = wide.column_range(lane, 1);
        place.column_step = kMxPack;
        place.columns = count;
        emitter_.tensor_copy(place, transposed(natural, terms, lane));
      }
      result.tiles.push_back(emitter_.sbuf(terms.partitions, even, DType::kFloat8E4M3FnX4, "x_mx"));
      result.scales.push_back(emitter_.sbuf(terms.partitions, even, DType::kUint8, "x_scale"));
      emitter_.quantize_mx(result.tiles.back(), result.scales.back(), wide);
    }
    return result;
  }

  void load_weights() override {
    const DType packed = weights_.dtype == DType::kUint32 ? DType::kFloat8E4M3FnX4 : DType::kFloat4E2M1FnX4;
    moving_.clear();
    moving_scales_.clear();
    for (const Terms& terms : terms_) {
      const Tile tile = emitter_.sbuf(terms.partitions, panel_.count, weights_.dtype, "w_mx");
      emitter_.load(tile, rows_of(weights_, terms.begin, terms.partitions, panel_.begin, panel_.count));
      moving_.push_back(tile.as(packed));
      // The scales of a quadrant lie in its first partitions.
      const Tile scales = emitter_.sbuf(terms.partitions, panel_.count, DType::kUint8, "w_scale");
      for (int64_t quadrant = 0; quadrant < terms.partitions / kQuadrant; ++quadrant)
        emitter_.load(scales.row_range(quadrant * kQuadrant, kScalesOfQuadrant),
                      rows_of(extra_, (terms.begin / kQuadrant + quadrant) * kScalesOfQuadrant,
                              kScalesOfQuadrant, panel_.begin, panel_.count));
      moving_scales_.push_back(scales);
    }
  }

  std::vector<Tile> moving_, moving_scales_;
};

class SparseProduct : public PackedProduct {
 public:
  SparseProduct(Lowering& lowering, const Op& op, int64_t ratio) : PackedProduct(lowering, op, ratio) {
    divide(sparse_sizes(static_cast<int64_t>(terms_.size()), x_.rows(), channels(), weights_.dtype, ratio));
  }

  Tile sums(const RowBlock& rows, const ColumnBlock& tile) override {
    const Transposed& x = transposed_rows(rows);
    const Tile sum = emitter_.psum_banks(rows.count, tile.count, "sum");
    for (int64_t c = 0; c < tile.count; c += kPartitions) {
      const int64_t columns = std::min(kPartitions, tile.count - c), from = tile.begin - panel_.begin + c;
      const Tile by_channel = emitter_.psum_transposed(columns, rows.count, DType::kFloat32, "sum_T");
      for (size_t i = 0; i < terms_.size(); ++i)
        emitter_.matmul_sparse(by_channel, stationary_[i].column_range(from, columns), x.tiles[i],
                               tags_[i].column_range(from / kTagPack, columns / kTagPack), factor_, i > 0);
      const Tile out = emitter_.sbuf(columns, rows.count, DType::kFloat32, "sum_T");
      emitter_.tensor_copy(out, by_channel);
      emitter_.transpose(sum.column_range(c, columns), out);
    }
    return sum;
  }

 private:
  Transposed turn_block(int64_t row, int64_t count) override {
    Transposed result;
    for (const Terms& terms : terms_) {
      const Tile natural = natural_rows(row, count, terms);
      const Tile wide = emitter_.sbuf(terms.partitions, factor_ * count, x_.dtype(), "x_wide");
      for (int64_t lane = 0; lane < factor_; ++lane)
        emitter_.tensor_copy(wide.column_range(lane * count, count), transposed(natural, terms, lane));
      result.tiles.push_back(wide);
    }
    return result;
  }

  void load_weights() override {
    stationary_.clear();
    tags_.clear();
    for (const Terms& terms : terms_) {
      stationary_.push_back(emitter_.sbuf(terms.partitions, panel_.count, weights_.dtype, "w_sparse"));
      emitter_.load(stationary_.back(),
                    rows_of(weights_, terms.begin, terms.partitions, panel_.begin, panel_.count));
      tags_.push_back(emitter_.sbuf(terms.partitions, panel_.count / kTagPack, DType::kUint16, "w_tags"));
      emitter_.load(tags_.back(), rows_of(extra_, terms.begin, terms.partitions, panel_.begin / kTagPack,
                                          panel_.count / kTagPack));
    }
  }

  std::vector<Tile> stationary_, tags_;
};

}  // namespace

std::optional<int> packed_product_row_rank(const graph::Function& function, const Op& op) {
  if (!is_packed_product(op)) return std::nullopt;
  return function.type(op.operands[0]).rank() -
         static_cast<int>(op.integers(Attr::lhs_contracting_dimensions).size());
}

namespace {

int64_t contracted_terms(const graph::Function& function, const Op& op) {
  int64_t terms = 1;
  for (const int64_t d : op.integers(Attr::lhs_contracting_dimensions))
    terms *= function.type(op.operands[0]).dim(static_cast<int>(d));
  return terms;
}

}  // namespace

int64_t packed_product_bytes(const graph::Function& function, const Op& op) {
  const graph::Type &x = function.type(op.operands[0]), &weights = function.type(op.operands[1]);
  const int64_t terms = contracted_terms(function, op), packs = weights.dim(0), channels = weights.dim(1);
  const int64_t tiles = (packs + kPartitions - 1) / kPartitions, rows = x.element_count() / terms;
  const DType dtype = *graph::to_dtype(weights.element());
  const PanelSizes sizes = is_mx_product(op) ? mx_sizes(tiles, rows, channels, dtype)
                                             : sparse_sizes(tiles, rows, channels, dtype, terms / packs);
  const int64_t blocks = sizes.keeps_rows ? (rows + kPartitions - 1) / kPartitions : 3;
  const int64_t natural = 2 * std::min(terms, kPartitions * kMxPack) * 2;  // rows of 16 bits, two at a time
  return 2 * sizes.columns * sizes.weight_bytes + blocks * kPartitions * (sizes.activation_bytes + 8) +
         natural;
}

std::unique_ptr<TileSource> packed_product_source(Lowering& lowering, const Op& op) {
  if (is_mx_product(op)) return std::make_unique<MxProduct>(lowering, op);
  const graph::Function& function = lowering.function();
  const int64_t ratio = contracted_terms(function, op) / function.type(op.operands[1]).dim(0);
  return std::make_unique<SparseProduct>(lowering, op, ratio);
}

}  // namespace opentrn::compiler
