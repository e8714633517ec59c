// Values that stay in SBUF from the kernel that makes them to those that read them.
//
// A value of R rows and C columns (its dimensions flattened, as its HBM tensor is laid out) is kept as one
// tile per 128 rows; where all that read it are products that contract its columns, as one tile per 128
// columns, which is what they need (arrangements.cc). Its HBM tensor exists, but is written only when
// somebody needs it there: a reader whose access is no rectangle of one tile, or a result of the model. What
// is kept at once is bounded by what the running kernel leaves; where there is no more room, the value that
// is read last goes to HBM (Belady's rule).
//
// Code of a region (a loop's body, a branch) may run never or many times, so nothing that is recorded there
// about values made outside is true afterwards: these stay where they are while a region is open, and count
// as not stored again when it ends.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "compiler/lowering/emitter.h"

namespace opentrn::compiler {

// Which elements of a value of rows and columns lie in which tile.
struct Arrangement {
  bool by_columns = false;  // columns go over partitions, rows along them
  int64_t group_rows = 0;   // by rows: blocks begin anew after so many; 0: only at the first row
};

class Residency {
 public:
  // room: bytes of a partition while no kernel says otherwise.
  Residency(Emitter& emitter, int64_t room) : emitter_(emitter), usual_room_(room), room_(room) {}

  // The kernel at this place of the order begins and leaves `room` bytes of a partition for kept values.
  void begin_kernel(size_t place, int64_t room);
  // Places at which the tensor is read, in order. What nobody has spoken of is read soon.
  void expect(isa::TensorId tensor, std::vector<size_t> reads) { reads_[tensor] = std::move(reads); }
  // The running kernel reads what it makes itself, as a loop what it carries: kept though nobody reads it
  // later.
  void expect_now(isa::TensorId tensor);

  // Room for the value in `whole` (contiguous). False: what is there is read earlier, or nobody reads the
  // value, and its maker stores it.
  bool reserve(const View& whole, int64_t rows, int64_t columns, Arrangement arrangement = {});
  bool crowded() const { return crowded_; }  // a value was refused or sent away for lack of room
  bool holds(isa::TensorId tensor) const { return values_.contains(tensor); }
  // Rows [row, row + count) as a tile to write; nullopt when no instruction can write there, or the value is
  // not kept.
  std::optional<Tile> place(isa::TensorId tensor, int64_t row, int64_t count);
  bool is_by_columns(isa::TensorId tensor) const;
  // Columns [column, column + count) by rows [row, row + rows) of a value that is kept by columns, to write;
  // `column` is a multiple of 128 and the columns end with the value or are 128.
  Tile place_transposed(isa::TensorId tensor, int64_t column, int64_t count, int64_t row, int64_t rows);
  // The tile is rows [row, row + tile.rows), columns from `column`, of a value that is kept by columns:
  // transposed by the Tensor engine.
  void turn_in(isa::TensorId tensor, int64_t row, int64_t column, const Tile& tile);
  // As find, of a value that is kept by columns: `columns` partitions of `rows` elements.
  std::optional<Tile> find_transposed(isa::TensorId tensor, int64_t element, int64_t columns,
                                      int64_t rows) const;
  // Every tile of a value that is written later, perhaps in a region; it cannot leave until changed() says
  // so.
  void make_tiles(isa::TensorId tensor);
  // The tile is rows [row, row + tile.rows) of a kept value, all columns; row is a multiple of 128. False:
  // the tile cannot stand for them.
  bool adopt(isa::TensorId tensor, int64_t row, const Tile& tile);

  // `rows` x `columns` elements of which the first is `element` of the tensor, rows one tensor row apart.
  std::optional<Tile> find(isa::TensorId tensor, int64_t element, int64_t rows, int64_t columns) const;
  // What the view shows of a kept value, as tiles of rows that follow each other, for DMA, which may begin at
  // any partition; none where the value is not kept by rows, or the view is no rectangle of rows and columns.
  std::vector<Tile> parts(const View& view) const;
  // Columns of the tensor; 0 when it is not kept.
  int64_t columns(isa::TensorId tensor) const;

  // Somebody reads the tensor in HBM; `purpose` is why that costs a store.
  void flush(isa::TensorId tensor, isa::Purpose purpose = isa::Purpose::kWriteBack);
  // Everything that may leave goes to HBM: the next kernel needs SBUF for itself.
  void make_room();
  // Nobody reads the value any more.
  void drop(isa::TensorId tensor);
  // The tile of rows [row, row + count) has been written again.
  void changed(isa::TensorId tensor);
  // Its tiles hold what its HBM tensor holds.
  void loaded(isa::TensorId tensor);
  int64_t rows(isa::TensorId tensor) const;

  // Sends values that are not `wanted` to HBM until a region has half of the room, and begins it.
  void enter_region(const std::set<isa::TensorId>& wanted);
  void leave_region();
  // Made before the innermost open region.
  bool is_fixed(isa::TensorId tensor) const { return !regions_.empty() && regions_.back().contains(tensor); }

 private:
  struct Value {
    View whole;
    int64_t rows, columns;
    std::vector<std::optional<Tile>> blocks;
    bool stored = false;
    bool unwritten = false;
    Arrangement arrangement;

    // Of one run of blocks: all rows, or the rows of a group.
    int64_t run_rows() const { return arrangement.group_rows > 0 ? arrangement.group_rows : rows; }
    int64_t run_blocks() const { return (run_rows() + kPartitions - 1) / kPartitions; }
    size_t block_of(int64_t row) const {
      return static_cast<size_t>(row / run_rows() * run_blocks() + row % run_rows() / kPartitions);
    }
    int64_t partition_of(int64_t row) const { return row % run_rows() % kPartitions; }
    int64_t block_rows(int64_t row) const {  // of the block with this row
      const int64_t first = row % run_rows() / kPartitions * kPartitions;
      return std::min(kPartitions, run_rows() - first);
    }
    int64_t partition_bytes() const;
    bool complete() const;
  };

  void flush_transposed(const Value& value);
  bool evict_one(const std::set<isa::TensorId>& but, std::optional<size_t> read_after = {});
  // Where the tensor is read next; kNever when nobody does.
  static constexpr size_t kNever = SIZE_MAX;
  size_t next_read(isa::TensorId tensor) const;

  Emitter& emitter_;
  std::map<isa::TensorId, Value> values_;
  std::vector<std::map<isa::TensorId, bool>> regions_;  // what was kept when each began, and whether stored
  std::deque<isa::TensorId> oldest_;
  std::map<isa::TensorId, std::vector<size_t>> reads_;
  size_t place_ = 0;
  bool crowded_ = false;
  int64_t usual_room_, room_;
  int64_t partition_bytes_ = 0;
};

}  // namespace opentrn::compiler
