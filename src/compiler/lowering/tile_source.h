// What makes the first value of a row-wise group: a product or a convolution.
//
// Its sums stand in PSUM for the group's element-wise ops and reductions to read, so that bias, activation,
// residual and conversion happen on the way out:
//
//   for each part of the rows                 begin_rows()      (what is stationary, where it does not all
//   fit)
//     for each panel of columns               begin_columns()   (what streams)
//       for each block of rows of the part
//         for each tile of columns            sums()
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "compiler/lowering/emitter.h"
#include "compiler/lowering/lowering.h"

namespace opentrn::compiler {

// Columns of one tile of sums: so many that two of them, and what is being transposed, fit PSUM.
inline constexpr int64_t kSumColumns = 3 * kPsumBankColumns;

struct RowBlock {
  int64_t begin = 0, count = 0;  // at most 128 rows
};

struct ColumnBlock {
  int64_t begin = 0, count = 0;
};

class TileSource {
 public:
  virtual ~TileSource() = default;

  // Blocks of rows by part; together every row once, in order.
  virtual std::vector<std::vector<RowBlock>> parts() const = 0;
  // Columns by panel; every block of rows of a part is asked for a panel before the next.
  virtual std::vector<ColumnBlock> panels() const = 0;
  // The panel as tiles, each of at most kSumColumns.
  virtual std::vector<ColumnBlock> tiles_of(const ColumnBlock& panel) const = 0;
  // True when a value of this group can stay in SBUF block by block (residency.h).
  virtual bool keepable() const = 0;

  virtual void begin_rows(const std::vector<RowBlock>& part) = 0;
  virtual void begin_columns(const ColumnBlock& panel) = 0;
  // fp32 in PSUM.
  virtual Tile sums(const RowBlock& rows, const ColumnBlock& tile) = 0;
};

// Panels of whole blocks of 128 columns, but for the last.
inline bool has_whole_panels(const TileSource& source, int64_t columns) {
  for (const ColumnBlock& panel : source.panels())
    if (panel.begin % kPartitions != 0 ||
        (panel.count % kPartitions != 0 && panel.begin + panel.count != columns))
      return false;
  return true;
}

// Bytes of a partition that the source holds, with those that are loaded ahead.
int64_t product_bytes(const graph::Function& function, const graph::Op& op, const Choices& choices,
                      Generation generation);
int64_t packed_product_bytes(const graph::Function& function, const graph::Op& op);
int64_t convolution_bytes(const graph::Function& function, const graph::Op& op);

// transposed: rows and columns exchanged, one batch only. group_rows: blocks of rows begin anew after so
// many. transfer_columns: so many are loaded and stored together, where panels of as many find room.
struct ProductForm {
  bool transposed = false;
  int64_t group_rows = 0, transfer_columns = 0;
};
using Prologues = std::map<size_t, std::vector<graph::OpId>>;  // Group::prologues
std::unique_ptr<TileSource> product_source(Lowering& lowering, const graph::Op& op,
                                           const ProductForm& form = {}, const Prologues& prologues = {});
std::unique_ptr<TileSource> packed_product_source(Lowering& lowering, const graph::Op& op);
std::unique_ptr<TileSource> convolution_source(Lowering& lowering, const graph::Op& op);

}  // namespace opentrn::compiler
