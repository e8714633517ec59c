// sort: a merging network over rows, with any comparator.
//
// The sorted dimension lies along columns, the others over partitions, so that 128 rows are sorted at once.
// The network is Batcher's bitonic one with the first half-step of every merge mirrored: every comparison
// then puts the smaller element at the lower place, and columns beyond the last can simply be left out, as if
// they were larger than everything. For n columns it has log2(n) (log2(n) + 1) / 2 steps; a step is two
// copies and two predicated copies of n/2 columns per operand, and the comparator twice (once where no order
// of equals has to be kept).
//
// Equal elements keep their order: the network alone would not, so the place that an element came from
// decides.
//
// Short rows lie beside each other: a partition has several, of which every step compares all pairs at once.
//
// A row that is too long for a partition, or would have most of them idle, is cut into runs of a power of two
// elements, which lie over partitions and are sorted as rows are. The network then goes on over runs, through
// HBM: comparisons of elements that are a run or more apart compare whole runs, tile by tile; those within a
// run are done for all of them at once, in SBUF. The last run is filled up, and what fills it is larger than
// everything.
#include <algorithm>
#include <functional>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/region.h"
#include "compiler/lowering/tiling.h"

namespace opentrn::compiler {

namespace {

// Columns of all operands together, places included: with what a step needs for itself they fit SBUF.
constexpr int64_t kSortedColumnsMax = 12288;
// Of runs: places are counted in fp32, and a program has thousands of instructions per million elements.
constexpr int64_t kLongElementsMax = int64_t{1} << 24;

int64_t length_of(const Function& function, const Op& op) {
  const graph::Type& type = function.type(op.operands[0]);
  const int64_t d = op.integer_or(Attr::dimension, -1);
  return type.rank() == 0 ? 1 : type.dim(static_cast<int>(d < 0 ? d + type.rank() : d));
}

// Whole numbers compared as they are: equal ones are the same, in whatever order.
bool equals_are_the_same(const Function& function, const Op& op) {
  const graph::Block& body = function.block(op.regions[0]);
  return op.operands.size() == 1 && !graph::is_float(function.type(op.operands[0]).element()) &&
         body.ops.size() == 2 && function.op(body.ops[0]).kind == OpKind::compare_;
}

// A partition holds a row.
bool is_short(const Function& function, const Op& op) {
  return length_of(function, op) * static_cast<int64_t>(op.operands.size() + 1) <= kSortedColumnsMax;
}

bool takes_sort(const Function& function, const Op& op) {
  if (op.kind != OpKind::sort_ || op.operands.empty() || !is_elementwise_region(function, op.regions[0]))
    return false;
  for (const ValueId id : op.operands) {
    const graph::Type& type = function.type(id);
    if (!type.is_tensor() || type.quantization() || !device_dtype(type.element())) return false;
  }
  return is_short(function, op) || function.type(op.operands[0]).element_count() <= kLongElementsMax;
}

// Elements of a run: two of them for every operand fit a partition, and all partitions have one if there are
// so many.
int64_t run_length(int64_t elements, size_t operands) {
  const int64_t most = kSortedColumnsMax / (2 * static_cast<int64_t>(operands + 1));
  int64_t length = 64;
  while (2 * length <= most && length * kPartitions < elements) length *= 2;
  return length;
}

int64_t log2_up(int64_t n) {
  int64_t log = 0;
  while (int64_t{1} << log < n) ++log;
  return log;
}

// Columns of the Vector engine that `steps` steps on rows of a tile take, each pair of elements compared
// once.
int64_t steps_cost(int64_t rows, int64_t pairs, size_t operands, int64_t steps) {
  constexpr int64_t kInstructionColumns = 64;
  const auto instructions = static_cast<int64_t>(4 * operands + 8);
  return (rows + kPartitions - 1) / kPartitions * steps * instructions * (pairs + kInstructionColumns);
}

// Rows of a partition, where there are more than partitions and several fit.
int64_t rows_beside(const Function& function, const Op& op) {
  const int64_t length = std::max<int64_t>(1, length_of(function, op)),
                lines = function.type(op.operands[0]).element_count() / length,
                fitting = kSortedColumnsMax / (length * static_cast<int64_t>(op.operands.size() + 1));
  return std::max<int64_t>(1, std::min(fitting, lines / kPartitions));
}

// A row that a partition would hold is cut into runs all the same where few rows leave most partitions idle.
bool goes_in_runs(const Function& function, const Op& op) {
  if (!is_short(function, op)) return true;
  constexpr int64_t kThroughMemory = 5000;
  const int64_t length = length_of(function, op), elements = function.type(op.operands[0]).element_count();
  if (length < 2 || elements > kLongElementsMax) return false;
  const int64_t lines = elements / length, run = run_length(elements, op.operands.size());
  const size_t operands = op.operands.size() + 1;
  const auto network = [](int64_t n) { return log2_up(n) * (log2_up(n) + 1) / 2; };
  const int64_t beside = rows_beside(function, op);
  const int64_t whole = steps_cost(tiles(lines, beside), length / 2 * beside, operands, network(length));
  const int64_t runs = (length + run - 1) / run, rows = lines * runs, levels = log2_up(runs);
  const int64_t exchanges = levels * (levels + 1) / 2;
  const int64_t in_runs = steps_cost(rows, run / 2, operands, network(run) + levels * log2_up(run)) +
                          steps_cost((rows + 1) / 2, run, operands, exchanges) +
                          kThroughMemory * (exchanges + levels + 2);
  return runs > 1 && in_runs + in_runs / 4 < whole;
}

// How elements of a tile lie: those of a row, and rows beside each other.
struct Beside {
  int64_t element = 1, rows = 1, row = 0;
};

class Sort {
 public:
  Sort(Lowering& lowering, const Op& op)
      : lowering_(lowering),
        emitter_(lowering.emitter()),
        function_(lowering.function()),
        op_(op),
        length_(length_of(function_, op)),
        in_runs_(goes_in_runs(function_, op)),
        by_place_(in_runs_ || !equals_are_the_same(function_, op)) {}

  void run() {
    if (in_runs_) return run_long();
    for (size_t i = 0; i < op_.operands.size(); ++i) {
      inputs_.push_back(matrix_of(lowering_.view(op_.operands[i])));
      outputs_.push_back(matrix_of(lowering_.allocate(op_.results[i])));
    }
    const int64_t rows = inputs_[0].rows();
    if (rows * length_ == 0) return;
    for (const RunsOfRows& block : blocks()) {
      rows_ = block.runs;
      beside_ = block.count;
      data_.clear();
      for (const Matrix& input : inputs_) data_.push_back(loaded(input, block.begin));
      if (by_place_) data_.push_back(counted_places());
      sort_rows(length_);
      for (size_t i = 0; i < outputs_.size(); ++i) store(outputs_[i], data_[i], block.begin);
    }
  }

 private:
  // Columns of `runs` runs, `step` columns apart.
  struct Columns {
    int64_t begin, runs, step, count, direction;

    Tile of(const Tile& tile, const Beside& by = {}) const {
      if (by.rows == 1) return tile.patch(begin, runs, step, count, direction);
      return tile.patches(begin * by.element, runs, step * by.element, count, direction * by.element, by.rows,
                          by.row);
    }
    // As many columns of a tile of their own.
    Tile packed(const Tile& tile, int64_t beside = 1) const {
      return tile.patch(0, runs, count * beside, count * beside, 1);
    }
  };

  // Rows lie as they do in memory: one after the other where their elements are neighbours.
  bool are_neighbours() const {
    return inputs_[0].column_dims().empty() || inputs_[0].column_dims().back().step == 1;
  }
  Beside lie() const {
    if (beside_ == 1) return {};
    return are_neighbours() ? Beside{1, beside_, length_} : Beside{beside_, beside_, 1};
  }

  // Rows from `row` on as this block has them.
  std::optional<Matrix> beside(const Matrix& m, int64_t row) const {
    const auto rows = Matrix(m.all(), m.row_dims(), {}).runs_of_rows(row, rows_, beside_);
    if (!rows) return std::nullopt;
    std::vector<isa::Dim> columns = rows->column_dims();
    columns.insert(are_neighbours() ? columns.end() : columns.begin(), m.column_dims().begin(),
                   m.column_dims().end());
    return Matrix{rows->all(), rows->row_dims(), std::move(columns)};
  }

  std::vector<RunsOfRows> blocks() {
    const int64_t rows = inputs_[0].rows();
    const auto lie_so = [&](const RunsOfRows& block) {
      rows_ = block.runs;
      beside_ = block.count;
      const auto can = [&](const Matrix& m) { return beside(m, block.begin).has_value(); };
      return std::ranges::all_of(inputs_, can) && std::ranges::all_of(outputs_, can);
    };
    for (int64_t most = rows_beside(function_, op_); most > 1; --most) {
      const std::vector<RunsOfRows> found = cut_into_runs(rows, most);
      if (std::ranges::all_of(found, lie_so)) return found;
    }
    std::vector<RunsOfRows> found;
    for (int64_t row = 0; row < rows; row += kPartitions)
      found.push_back({row, std::min(kPartitions, rows - row), 1});
    return found;
  }

  // The place of each element in its row.
  Tile counted_places() {
    const Tile once = emitter_.sbuf(rows_, length_, DType::kFloat32, "place");
    Matrix(lowering_.counted(length_), {{0, rows_}}, {{1, length_}}).load(emitter_, once, 0, 0);
    if (beside_ == 1) return once;
    const Tile all = emitter_.sbuf(rows_, length_ * beside_, DType::kFloat32, "places");
    const Columns row{0, 1, 0, length_, 1};
    emitter_.tensor_copy(row.of(all, lie()), row.of(once, {1, beside_, 0}));
    return all;
  }

  // -- rows in runs

  void run_long() {
    for (const ValueId operand : op_.operands) inputs_.push_back(matrix_of(lowering_.view(operand)));
    for (const ValueId result : op_.results) outputs_.push_back(matrix_of(lowering_.allocate(result)));
    lines_ = inputs_[0].rows();
    if (lines_ * length_ == 0) return;
    run_ = run_length(lines_ * length_, op_.operands.size());
    runs_ = (length_ + run_ - 1) / run_;
    fill_work();
    for_runs([this] { sort_rows(run_); });
    for (int64_t half = 1; half < runs_; half *= 2) {
      merge(half, runs_, [this](const Columns& low, const Columns& high) { exchange_runs(low, high); });
      for_runs([this] {
        for (int64_t gap = run_ / 2; gap >= 1; gap /= 2)
          compare_at(gap, run_, [this](const Columns& low, const Columns& high) { exchange(low, high); });
      });
    }
    for (size_t i = 0; i < outputs_.size(); ++i) emitter_.copy(outputs_[i].all(), line(i, 0, length_));
  }

  int64_t padded() const { return runs_ * run_; }

  // Columns of every row of an operand in work.
  View line(size_t operand, int64_t begin, int64_t count) const {
    View part = work_[operand];
    part.offset += begin;
    part.dims = {{padded(), lines_}, {1, count}};
    return part;
  }

  // The operands and the places, in HBM and filled up.
  void fill_work() {
    const std::vector<int64_t> shape{lines_, padded()};
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const graph::ElementType element = function_.type(op_.operands[i]).element();
      work_.push_back(emitter_.hbm(shape, inputs_[i].dtype(), "sorted"));
      emitter_.copy(line(i, 0, length_), inputs_[i].all());
      if (padded() == length_) continue;
      const graph::Type one = graph::Type::tensor(element, {});
      View zero = lowering_.constant(
          graph::Literal(one, std::vector<std::byte>(static_cast<size_t>(graph::storage_bytes(element)))));
      zero.dims = {{0, lines_}, {0, padded() - length_}};
      emitter_.copy(line(i, length_, padded() - length_), zero);
    }
    View places = lowering_.counted(padded());
    places.dims = {{0, lines_}, {1, padded()}};
    work_.push_back(emitter_.hbm(shape, DType::kFloat32, "places"));
    emitter_.copy(line(inputs_.size(), 0, padded()), places);
  }

  // Runs of an operand in work as rows.
  Matrix runs_of(size_t operand, const Columns& runs) const {
    View base = work_[operand];
    base.offset += runs.begin * run_;
    return {base,
            {{padded(), lines_}, {runs.step * run_, runs.runs}, {runs.direction * run_, runs.count}},
            {{1, run_}}};
  }

  // All runs, tile by tile; `change` works on data_.
  void for_runs(const std::function<void()>& change) {
    const Columns all{0, 1, 0, runs_, 1};
    for (int64_t row = 0; row < lines_ * runs_; row += kPartitions) {
      rows_ = std::min(kPartitions, lines_ * runs_ - row);
      data_ = loaded_runs(all, row);
      change();
      for (size_t i = 0; i < work_.size(); ++i) runs_of(i, all).store(emitter_, data_[i], row, 0);
    }
  }

  std::vector<Tile> loaded_runs(const Columns& runs, int64_t row) {
    std::vector<Tile> tiles;
    for (size_t i = 0; i < work_.size(); ++i) {
      tiles.push_back(emitter_.sbuf(rows_, run_, work_[i].dtype, "run"));
      runs_of(i, runs).load(emitter_, tiles.back(), row, 0);
    }
    return tiles;
  }

  Tile reversed(const Tile& tile) {
    const Tile copy = emitter_.sbuf(rows_, run_, tile.dtype, "transposed");
    emitter_.tensor_copy(copy, tile.patch(run_ - 1, 1, 0, run_, -1));
    return copy;
  }

  // Pairs of runs; those that come in opposite order are also compared so.
  void exchange_runs(const Columns& low, const Columns& high) {
    const bool mirrored = high.direction < 0;
    const int64_t pairs = lines_ * low.runs * low.count;
    for (int64_t row = 0; row < pairs; row += kPartitions) {
      rows_ = std::min(kPartitions, pairs - row);
      std::vector<Tile> lows = loaded_runs(low, row), highs = loaded_runs(high, row), before;
      if (mirrored)
        for (Tile& tile : highs) tile = reversed(tile);
      const Tile swap = must_swap(lows, highs);
      for (size_t i = 0; i < work_.size(); ++i) {
        before.push_back(emitter_.sbuf(rows_, run_, lows[i].dtype, "pair"));
        emitter_.tensor_copy(before[i], lows[i]);
        emitter_.copy_where(lows[i], highs[i], swap);
        emitter_.copy_where(highs[i], before[i], swap);
        runs_of(i, low).store(emitter_, lows[i], row, 0);
        runs_of(i, high).store(emitter_, mirrored ? reversed(highs[i]) : highs[i], row, 0);
      }
    }
  }

  // -- rows in tiles

  void sort_rows(int64_t length) {
    for (int64_t half = 1; half < length; half *= 2)
      merge(half, length, [this](const Columns& low, const Columns& high) { exchange(low, high); });
  }

  Matrix matrix_of(const View& view) const {
    if (view.dims.empty()) return {view, {}, {}};
    const int64_t d = op_.integer_or(Attr::dimension, -1);
    const auto at = static_cast<size_t>(d < 0 ? d + static_cast<int64_t>(view.dims.size()) : d);
    std::vector<isa::Dim> rows;
    for (size_t i = 0; i < view.dims.size(); ++i)
      if (i != at) rows.push_back(view.dims[i]);
    return {view, rows, {view.dims[at]}};
  }

  // A tile of our own, as it is written to.
  Tile loaded(const Matrix& input, int64_t row) {
    const Tile tile = emitter_.sbuf(rows_, length_ * beside_, input.dtype(), "sort");
    const auto kept = input.kept(emitter_, row, rows_, 0, length_, false);
    if (beside_ > 1)
      beside(input, row)->load(emitter_, tile, 0, 0);
    else if (kept)
      emitter_.tensor_copy(tile, *kept);
    else
      input.load(emitter_, tile, row, 0);
    return tile;
  }

  void store(const Matrix& output, const Tile& tile, int64_t row) {
    beside_ > 1 ? beside(output, row)->store(emitter_, tile, 0, 0) : output.store(emitter_, tile, row, 0);
  }

  // Sorted runs of `half` of `length` columns become sorted runs of twice as many. What a last, shorter run
  // lacks would be larger than everything.
  using Exchange = std::function<void(const Columns& low, const Columns& high)>;
  static void merge(int64_t half, int64_t length, const Exchange& exchange) {
    const int64_t width = 2 * half, whole = length / width, rest = length % width, last = whole * width;
    if (whole > 0) exchange({0, whole, width, half, 1}, {width - 1, whole, width, half, -1});
    if (rest > half)
      exchange({last + width - rest, 1, 0, rest - half, 1}, {last + rest - 1, 1, 0, rest - half, -1});
    for (int64_t gap = half / 2; gap >= 1; gap /= 2) compare_at(gap, length, exchange);
  }

  static void compare_at(int64_t gap, int64_t length, const Exchange& exchange) {
    const int64_t runs = length / (2 * gap), left = length % (2 * gap), begin = runs * 2 * gap;
    if (runs > 0) exchange({0, runs, 2 * gap, gap, 1}, {gap, runs, 2 * gap, gap, 1});
    if (left > gap) exchange({begin, 1, 0, left - gap, 1}, {begin + gap, 1, 0, left - gap, 1});
  }

  // Puts the smaller of each pair at the lower place.
  void exchange(const Columns& low, const Columns& high) {
    std::vector<Tile> lows, highs;
    for (const Tile& tile : data_) {
      lows.push_back(copied(tile, low));
      highs.push_back(copied(tile, high));
    }
    const Tile swap = must_swap(lows, highs);
    for (size_t i = 0; i < data_.size(); ++i) {
      const Tile swapped = low.packed(swap, beside_);
      emitter_.copy_where(low.of(data_[i], lie()), low.packed(highs[i], beside_), swapped);
      emitter_.copy_where(high.of(data_[i], lie()), low.packed(lows[i], beside_), swapped);
    }
  }

  Tile copied(const Tile& tile, const Columns& columns) {
    const Tile copy = emitter_.sbuf(rows_, columns.runs * columns.count * beside_, tile.dtype, "pair");
    emitter_.tensor_copy(columns.packed(copy, beside_), columns.of(tile, lie()));
    return copy;
  }

  // high before low; or equal, and high came first.
  Tile must_swap(std::span<const Tile> lows, std::span<const Tile> highs) {
    const Tile before = less(highs, lows);
    if (!by_place_) return before;
    const auto fresh = [&] { return emitter_.sbuf(rows_, before.columns, DType::kUint8, "swap"); };
    const Tile after = less(lows, highs), came_first = fresh(), equal_and_first = fresh(), swap = fresh();
    emitter_.tensor_tensor(AluOp::kLess, came_first, highs.back(), lows.back());
    emitter_.tensor_tensor(AluOp::kGreater, equal_and_first, came_first, after);
    emitter_.tensor_tensor(AluOp::kBitwiseOr, swap, before, equal_and_first);
    if (runs_ == 0 || padded() == length_) return swap;
    // What fills the last run goes up, and never down.
    const Tile fills_low = fresh(), fills_high = fresh(), up = fresh(), up_only = fresh();
    const auto end = static_cast<double>(length_);
    emitter_.tensor_scalar(AluOp::kGreaterEqual, fills_low, lows.back(), end);
    emitter_.tensor_scalar(AluOp::kGreaterEqual, fills_high, highs.back(), end);
    emitter_.tensor_tensor(AluOp::kBitwiseOr, up, swap, fills_low);
    emitter_.tensor_tensor(AluOp::kGreater, up_only, up, fills_high);
    return up_only;
  }

  // The comparator's truth for each pair.
  Tile less(std::span<const Tile> a, std::span<const Tile> b) {
    std::vector<Term> arguments;
    for (size_t i = 0; i < op_.operands.size(); ++i)
      for (const Tile& tile : {a[i], b[i]})
        arguments.push_back({.element = function_.type(op_.operands[i]).element(),
                             .splat = {},
                             .tile = tile,
                             .column = false});
    const Term answer =
        emit_region(emitter_, function_, op_.regions[0], arguments, a[0].rows, a[0].columns)[0];
    if (!answer.splat) return answer.tile;
    const Tile tile = emitter_.sbuf(rows_, a[0].columns, DType::kUint8, "swap");
    emitter_.memset(tile, *answer.splat);
    return tile;
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const Function& function_;
  const Op& op_;
  int64_t length_, rows_ = 0, beside_ = 1;  // of a tile: partitions, and rows in each of them
  int64_t lines_ = 0, run_ = 0,
          runs_ = 0;        // of rows in runs: how many rows; elements of a run, runs of a row
  std::vector<View> work_;  // by operand; then the places
  bool in_runs_, by_place_;
  std::vector<Matrix> inputs_, outputs_;
  std::vector<Tile> data_;  // by operand; then the places
};

}  // namespace

bool has_sort(const Function& function, const Op& op) { return takes_sort(function, op); }

bool lower_sort(Lowering& lowering, const Op& op) {
  if (!takes_sort(lowering.function(), op)) return false;
  Sort(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
