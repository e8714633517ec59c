// dot_general on the Tensor engine.
//
//   for each batch
//     for a panel of result columns N             (all of them, when the right panel fits SBUF)
//       right[k]: [K <= 128, N panel]             contraction over partitions
//       for each 128 result rows M
//         left[k]: [K <= 128, M <= 128]           stationary
//         for each 512 columns: PSUM = sum over k of left[k]^T right[k]
//
// What becomes of the sums is the row-wise group's matter (tile_source.h).
//
// The contraction must lie over partitions. An operand whose memory runs along the contraction is loaded as
// it lies, 128 rows at a time, and transposed by the Tensor engine, which is far cheaper than DMA of single
// elements.
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "arch/core_features.h"
#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/number_sets.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/product_operand.h"
#include "compiler/lowering/tile_source.h"
#include "compiler/lowering/tiling.h"
#include "cost/usual.h"

namespace opentrn::compiler {

namespace {

// Bytes of a partition for keeping the left panels of all rows.
constexpr int64_t kLeftPanelBytes = 32 * 1024;
// Runs of what a narrower panel loads and stores cost descriptors, which the cost model does not count.
constexpr int64_t kLeastRunBytes = 512;

std::vector<isa::Dim> pick(const View& view, std::span<const int64_t> dimensions) {
  std::vector<isa::Dim> dims;
  for (const int64_t d : dimensions) dims.push_back(view.dims[static_cast<size_t>(d)]);
  return dims;
}

std::vector<int64_t> free_dimensions(size_t rank, std::span<const int64_t> a, std::span<const int64_t> b) {
  std::vector<int64_t> result;
  for (int64_t d = 0; d < static_cast<int64_t>(rank); ++d)
    if (std::find(a.begin(), a.end(), d) == a.end() && std::find(b.begin(), b.end(), d) == b.end())
      result.push_back(d);
  return result;
}

// Whether the value is there when the program begins, as it is, in another order or as a part of what is.
bool is_early(const graph::Function& function, graph::ValueId value) {
  constexpr OpKind kViews[] = {OpKind::reshape_, OpKind::transpose_, OpKind::slice_};
  graph::OpId made = function.value(value).op;
  while (made != graph::kNoOp && std::ranges::count(kViews, function.op(made).kind) > 0)
    made = function.value(function.op(made).operands[0]).op;
  return made == graph::kNoOp || function.op(made).kind == OpKind::constant_;
}

// The first panel of a weight is loaded while what makes the other operand runs.
bool waits(const graph::Function& function, const Op& op, size_t moving) {
  return !is_early(function, op.operands[moving]) || is_early(function, op.operands[1 - moving]);
}

bool keeps_left(const ProductSize& size, int64_t panel) {
  const int64_t left_bytes = tiles(size.rows, kPartitions) * tiles(size.contracted, kPartitions) *
                             kPartitions * size.left_element_bytes;
  return panel < size.columns && left_bytes <= kLeftPanelBytes;
}

// Columns of a right panel: of those that find room, the best by the cost model. One block of rows uses a
// panel once: it is smaller then, so that panels of the next products, too, are on their way early.
// `wanted`: not fewer than these, where they find room.
int64_t right_panel(const Choices& choices, Generation generation, const ProductSize& size,
                    int64_t wanted = 0) {
  const int64_t k_tiles = std::max<int64_t>(1, tiles(size.contracted, kPartitions));
  const int64_t bytes = size.rows <= kPartitions ? choices.panel_bytes / 2 : choices.panel_bytes;
  // Fewer columns than this keep the Tensor engine at its least interval.
  const int64_t least = cost::default_costs(generation).instructions.least_product_columns();
  const int64_t room = std::max(bytes / (k_tiles * size.right_element_bytes), least);
  const auto even = [least](int64_t columns) {
    const int64_t unit = columns >= kPsumBankColumns ? kPsumBankColumns : least;
    return columns / unit * unit;
  };
  int64_t best = std::min(size.columns, even(room));
  double best_ns = product_ns(generation, size, best, keeps_left(size, best));
  for (int64_t columns = even(best / 2);
       columns * size.right_element_bytes >= kLeastRunBytes && columns >= wanted;
       columns = even(columns / 2)) {
    const double ns = product_ns(generation, size, columns, keeps_left(size, columns));
    if (ns < best_ns) best = columns, best_ns = ns;
  }
  return best;
}

bool is_matmul_type(graph::ElementType element) {
  switch (device_dtype(element).value_or(DType::kInt64)) {
    case DType::kFloat32:
    case DType::kTFloat32:
    case DType::kBFloat16:
    case DType::kFloat16:
    case DType::kFloat8E4M3:
    case DType::kFloat8E5M2: return true;
    default: return false;
  }
}

bool takes_dot_general(const graph::Function& function, const Op& op) {
  if (op.kind != OpKind::dot_general_ || !graph::is_float(function.type(op.results[0]).element()))
    return false;
  const auto element = [&](size_t i) { return function.type(op.operands[i]).element(); };
  if (element(0) == element(1)) return is_matmul_type(element(0));
  for (const size_t i : {0, 1})
    if (is_matmul_type(element(1 - i)) && is_narrow_operand(function, op.operands[i], element(1 - i)))
      return true;
  return false;
}

// What the Tensor engine gets of an operand that is kept as `kept` and multiplied as `wide`: fp8 as it is,
// beside an operand of 16 bits.
DType tile_dtype(DType kept, DType wide, Generation generation) {
  const bool fp8 = kept == DType::kFloat8E4M3 || kept == DType::kFloat8E5M2 ||
                   (kept == DType::kFloat8E4M3Fn && arch::core_features(generation).matmul_fp8_e4m3fn);
  return fp8 && size_bytes(wide) == 2 ? kept : wide;
}

class Product : public TileSource {
 public:
  Product(Lowering& lowering, const Op& op, const ProductForm& form, const Prologues& prologues)
      : emitter_(lowering.emitter()),
        choices_(lowering.choices()),
        transposed_(form.transposed),
        group_rows_(form.group_rows) {
    const std::vector<int64_t> none;
    const auto dims = [&](Attr attr) {
      return op.has(attr) ? op.integers(attr) : std::span<const int64_t>(none);
    };
    const auto lb = dims(Attr::lhs_batching_dimensions), rb = dims(Attr::rhs_batching_dimensions);
    const auto lc = dims(Attr::lhs_contracting_dimensions), rc = dims(Attr::rhs_contracting_dimensions);
    left_ = operand(lowering, op, 0, prologues, lb, lc);
    find_dtypes(lowering.function(), op);
    right_waits_ = waits(lowering.function(), op, transposed_ ? 0 : 1);
    stationary_waits_ = waits(lowering.function(), op, transposed_ ? 1 : 0);
    const int64_t k = left_.matrix().columns();
    const int64_t n =
        k == 0 || !lb.empty() ? 0 : lowering.function().type(op.operands[1]).element_count() / k;
    const auto panel_of = [&](int64_t rows, int64_t columns) {
      const ProductSize size{rows,     k,           columns, size_bytes(l_dtype_), size_bytes(r_dtype_),
                             batches_, right_waits_};
      return columns == 0
                 ? 0
                 : right_panel(choices_, lowering.emitter().generation(), size, form.transfer_columns);
    };
    panel_ = panel_of(left_.matrix().rows(), n);
    if (panel_ > 0 && !transposed_) panelled_ = panelled(lowering, op, k, n, panel_);
    if (panelled_)
      right_.parts = {
          {{panelled_->view, panelled_->free_dims(n / panel_), panelled_->contracted_dims()}, {}}};
    else
      right_ = operand(lowering, op, 1, prologues, rb, rc);
    for (const isa::Dim& dim : left_.parts[0].batch) batches_ *= dim.count;
    if (transposed_) {
      std::swap(left_, right_);
      std::swap(l_dtype_, r_dtype_);
    }
    doubles_ = arch::core_features(emitter_.generation()).matmul_double_row && size_bytes(l_dtype_) == 1 &&
               size_bytes(r_dtype_) == 1;
    const int64_t rows = left_.matrix().rows(), columns = right_.matrix().rows();
    panel_ = panel_of(rows, columns);
    keep_left_ =
        keeps_left(ProductSize{rows, k, columns, size_bytes(l_dtype_), size_bytes(r_dtype_)}, panel_);
  }

  // A batch is a part; of a transposed product, what is stationary and held at once.
  std::vector<std::vector<RowBlock>> parts() const override {
    std::vector<std::vector<RowBlock>> result;
    const int64_t m = left_.matrix().rows();
    if (transposed_) {
      const ProductSize size{right_.matrix().rows(), left_.matrix().columns(), m,
                             size_bytes(r_dtype_),   size_bytes(l_dtype_),     batches_,
                             stationary_waits_};
      const int64_t panel = right_panel(choices_, emitter_.generation(), size);
      const int64_t held = std::max(kPartitions, panel / kPartitions * kPartitions);
      for (int64_t begin = 0; begin < m; begin += held) {
        auto& part = result.emplace_back();
        for (int64_t row = begin; row < std::min(m, begin + held); row += kPartitions)
          part.push_back({row, std::min(kPartitions, m - row)});
      }
      return result;
    }
    if (group_rows_ > 0) {
      auto& part = result.emplace_back();
      for (int64_t row = 0; row < m; row += part.back().count)
        part.push_back({row, std::min(kPartitions, group_rows_ - row % group_rows_)});
      return result;
    }
    for (int64_t batch = 0; batch < batches_; ++batch) {
      auto& part = result.emplace_back();
      for (int64_t row = 0; row < m; row += kPartitions)
        part.push_back({batch * m + row, std::min(kPartitions, m - row)});
    }
    return result;
  }
  std::vector<ColumnBlock> panels() const override {
    std::vector<ColumnBlock> result;
    const int64_t n = right_.matrix().rows();
    for (int64_t c = 0; c < n; c += panel_) result.push_back({c, std::min(panel_, n - c)});
    return result;
  }
  std::vector<ColumnBlock> tiles_of(const ColumnBlock& panel) const override {
    std::vector<ColumnBlock> result;
    for (int64_t c = 0; c < panel.count; c += kSumColumns)
      result.push_back({panel.begin + c, std::min(kSumColumns, panel.count - c)});
    return result;
  }
  // Rows of a batch must begin where an instruction can write.
  bool keepable() const override {
    const int64_t m = left_.matrix().rows(), all = kPartitions;
    return transposed_ || batches_ == 1 || m % all == 0 || m == all / 2 || m == all / 4;
  }

  void begin_rows(const std::vector<RowBlock>& part) override {
    first_row_ = part.front().begin;
    const int64_t batch = first_row_ / left_.matrix().rows();
    if (transposed_) {
      const int64_t count = part.back().begin + part.back().count - first_row_;
      right_side_.emplace(side(right_, 0, r_dtype_, "rhs"));
      stationary_ = side(left_, 0, l_dtype_, "lhs").panels(first_row_, count);
      return;
    }
    left_side_.emplace(side(left_, batch, l_dtype_, "lhs"));
    right_side_.emplace(side(right_, batch, r_dtype_, "rhs"));
    left_side_->set_loaded(loaded_together(left_, batch, l_dtype_, left_loaded_, "lhs"));
    right_side_->set_loaded(loaded_together(right_, batch, r_dtype_, right_loaded_, "rhs"));
    if (panelled_) right_side_->set_panelled(*panelled_);
    if (panel_ < right_.matrix().rows() && !keep_left_) left_side_->keep_transposed();
    resident_.clear();
  }
  void begin_columns(const ColumnBlock& panel) override {
    panel_begin_ = panel.begin;
    moving_ = right_side_->panels(panel.begin, panel.count);
    if (!keep_left_) resident_.clear();
  }

  Tile sums(const RowBlock& rows, const ColumnBlock& tile) override {
    const std::vector<Tile>& stationary = stationary_of(rows);
    const Tile sum = emitter_.psum_banks(rows.count, tile.count, "sum");
    if (moving_.empty()) emitter_.memset(sum, 0.0);  // a contraction over nothing
    for (int64_t c = 0; c < tile.count; c += kPsumBankColumns) {
      const int64_t columns = std::min(kPsumBankColumns, tile.count - c),
                    begin = tile.begin - panel_begin_ + c;
      const Tile place = sum.column_range(c, columns);
      for (size_t i = 0; i < moving_.size(); ++i) {
        const auto two = pair(stationary, i, 0, rows.count), beside = pair(moving_, i, begin, columns);
        if (two && beside) {
          emitter_.matmul_double_row(place, *two, *beside, i > 0);
          ++i;
          continue;
        }
        emitter_.matmul(place, stationary[i], moving_[i].column_range(begin, columns), i > 0);
      }
    }
    return sum;
  }

 private:
  // Of free by contracted dimensions, and what is added for a batch.
  struct Part {
    Matrix free_by_k;
    std::vector<isa::Dim> batch;

    Matrix of_batch(int64_t number) const {
      int64_t move = 0;
      for (size_t i = batch.size(); i-- > 0; number /= batch[i].count)
        move += number % batch[i].count * batch[i].step;
      return free_by_k.moved(move);
    }
  };
  // As it lies in memory, or what a prologue makes it of.
  struct Operand {
    std::vector<Part> parts;
    std::shared_ptr<Prologue> prologue;
    Lowering* shared_by = nullptr;  // where other products read it too

    const Part& main() const { return parts[prologue ? prologue->main() : 0]; }
    const Matrix& matrix() const { return main().free_by_k; }
  };

  static Operand operand(Lowering& lowering, const Op& op, size_t number, const Prologues& prologues,
                         std::span<const int64_t> batching, std::span<const int64_t> contracted) {
    Operand made;
    const auto add = [&](const View& view) {
      const auto free = free_dimensions(view.dims.size(), batching, contracted);
      made.parts.push_back({{view, pick(view, free), pick(view, contracted)}, pick(view, batching)});
    };
    if (const auto found = prologues.find(number); found != prologues.end()) {
      const graph::OpId id = lowering.function().value(op.results[0]).op;
      made.prologue = std::make_shared<Prologue>(lowering, found->second, id, number);
      for (const View& view : made.prologue->views()) add(view);
    } else {
      add(lowering.view(op.operands[number]));
      if (lowering.products_share(op.operands[number])) made.shared_by = &lowering;
    }
    return made;
  }

  ProductOperand side(const Operand& operand, int64_t batch, DType dtype, const std::string& name) {
    ProductOperand made(emitter_, operand.main().of_batch(batch), dtype, name);
    if (operand.shared_by) made.set_shared(*operand.shared_by);
    if (!operand.prologue) return made;
    std::vector<Matrix> inputs;
    for (const Part& part : operand.parts) inputs.push_back(part.of_batch(batch));
    operand.prologue->forget();
    made.set_prologue(operand.prologue.get(), std::move(inputs));
    return made;
  }

  // Operands of several batches that one transfer brought.
  struct Together {
    int64_t first = 0, count = 0;  // batches
    Tile tile;
  };

  // The operand of a batch out of `together`, which is loaded anew where it does not hold it. Batches as
  // small as the heads of attention are otherwise a transfer each, of runs as short as a head is wide.
  // nullopt where an operand is more than a tile, lies in SBUF, or must be converted.
  std::optional<Tile> loaded_together(const Operand& operand, int64_t batch, DType dtype, Together& together,
                                      const std::string& name) {
    if (!lie_alike(operand)) return std::nullopt;
    const isa::Dim batches = operand.main().batch.back();
    const Matrix one = operand.main().of_batch(batch);
    const bool swaps = ProductOperand::is_transposed(one);
    const int64_t rows = swaps ? one.rows() : one.columns(), width = swaps ? one.columns() : one.rows();
    if (rows > kPartitions || width == 0 || one.dtype() != dtype) return std::nullopt;
    const int64_t most = std::min(batches.count, kTransferBytes / (width * size_bytes(dtype)));
    if (most < 2) return std::nullopt;
    const int64_t place = batch % batches.count, begin = place / most * most, first = batch - place + begin;
    if (together.count == 0 || together.first != first) {
      if (is_at_hand(operand, first, swaps)) return std::nullopt;
      together = {first, std::min(most, batches.count - begin), {}};
      together.tile = emitter_.sbuf(rows, together.count * width, dtype, name + "_batches");
      load_batches(operand, together, swaps);
    }
    return together.tile.column_range((batch - together.first) * width, width);
  }

  // Whether what makes the operand is one step apart from batch to batch.
  static bool lie_alike(const Operand& operand) {
    if (operand.main().batch.empty() || (operand.prologue && !operand.prologue->all_full())) return false;
    return std::ranges::all_of(operand.parts, [&](const Part& part) {
      return !part.batch.empty() && part.batch.back().count == operand.main().batch.back().count &&
             part.batch.back().step != 0;
    });
  }

  // Whether a batch of something that makes the operand lies in SBUF as it is needed.
  bool is_at_hand(const Operand& operand, int64_t batch, bool transposed) const {
    return std::ranges::any_of(operand.parts, [&](const Part& part) {
      const Matrix one = part.of_batch(batch), as_needed = transposed ? one : one.transposed();
      const bool first_partition = !transposed && !operand.prologue;
      return as_needed.kept(emitter_, 0, as_needed.rows(), 0, as_needed.columns(), first_partition) ||
             one.transposed().kept(emitter_, 0, one.columns(), 0, one.rows(), true);
    });
  }

  void load_batches(const Operand& operand, const Together& together, bool transposed) {
    std::vector<Matrix> inputs;
    for (const Part& part : operand.parts) {
      const Matrix start = part.of_batch(together.first);
      inputs.push_back(
          (transposed ? start : start.transposed()).beside({part.batch.back().step, together.count}));
    }
    const Tile& tile = together.tile;
    if (!operand.prologue) return inputs[0].load(emitter_, tile, 0, 0);
    operand.prologue->forget();
    operand.prologue->compute(inputs, {0, tile.rows, 0, tile.columns}, tile);
  }

  // Columns of two blocks of the contraction, where the Tensor engine takes both at once: fp8 on both sides,
  // from NeuronCore-v3 on.
  std::optional<Tile> pair(const std::vector<Tile>& blocks, size_t first, int64_t begin,
                           int64_t columns) const {
    if (!doubles_ || first + 1 >= blocks.size()) return std::nullopt;
    const Tile &one = blocks[first], &other = blocks[first + 1];
    const int64_t step = other.offset - one.offset;
    const bool regular = one.tensor == other.tensor && one.rows == kPartitions && other.rows == kPartitions &&
                         step > 0 && step + columns <= one.row_elements && one.runs == 1 &&
                         one.column_step == 1;
    if (!regular) return std::nullopt;
    return one.patch(begin, 2, step, columns, 1);
  }

  void find_dtypes(const graph::Function& function, const Op& op) {
    const auto l_element = function.type(op.operands[0]).element(),
               r_element = function.type(op.operands[1]).element();
    const DType left = *device_dtype(l_element), right = *device_dtype(r_element);
    l_dtype_ = left, r_dtype_ = right;
    if (l_element == r_element) return;
    if (is_narrow_operand_type(l_element, r_element))
      l_dtype_ = tile_dtype(left, right, emitter_.generation());
    else
      r_dtype_ = tile_dtype(right, left, emitter_.generation());
  }

  // What the next block of rows needs is made before this one is used, so that the Tensor engine does not
  // wait for its transposes.
  const std::vector<Tile>& stationary_of(const RowBlock& rows) {
    const int64_t row = rows.begin - first_row_, next = row + rows.count;
    if (transposed_) {
      slices_.clear();
      for (const Tile& panel : stationary_) slices_.push_back(panel.column_range(row, rows.count));
      return slices_;
    }
    const auto& block = block_of(row, rows.count);
    const int64_t all = left_.matrix().rows(), run = group_rows_ > 0 ? group_rows_ : all;
    if (next < all) block_of(next, std::min(kPartitions, run - next % run));
    if (!keep_left_)
      std::erase_if(resident_, [&](const auto& entry) { return entry.first != row && entry.first != next; });
    return block;
  }

  const std::vector<Tile>& block_of(int64_t row, int64_t count) {
    auto& kept = resident_[row];
    if (kept.empty()) kept = left_side_->panels(row, count);
    return kept;
  }

  Emitter& emitter_;
  const Choices& choices_;
  Operand left_, right_;
  DType l_dtype_{}, r_dtype_{};  // of the tiles
  int64_t batches_ = 1, panel_ = 0;
  std::optional<Panelled> panelled_;
  bool transposed_;     // sides exchanged: the result with columns over partitions
  int64_t group_rows_;  // after which blocks of rows begin anew; 0: never
  bool right_waits_ = true, stationary_waits_ = true;  // ProductSize::right_waits of either side
  bool doubles_ = false;                               // two blocks of the contraction at once
  bool keep_left_ = false;  // the left panels of all rows, while columns come in several panels

  std::optional<ProductOperand> left_side_, right_side_;
  Together left_loaded_, right_loaded_;
  int64_t first_row_ = 0, panel_begin_ = 0;
  std::vector<Tile> moving_, stationary_, slices_;
  std::map<int64_t, std::vector<Tile>> resident_;  // stationary, by row
};

}  // namespace

std::optional<int> dot_general_row_rank(const graph::Function& function, const Op& op) {
  if (!takes_dot_general(function, op)) return std::nullopt;
  const auto contracted = op.has(Attr::lhs_contracting_dimensions)
                              ? op.integers(Attr::lhs_contracting_dimensions).size()
                              : size_t{0};
  return function.type(op.operands[0]).rank() - static_cast<int>(contracted);
}

int64_t product_bytes(const graph::Function& function, const Op& op, const Choices& choices,
                      Generation generation) {
  const graph::Type& left = function.type(op.operands[0]);
  const auto element =
      static_cast<int64_t>(std::max(size_bytes(*device_dtype(left.element())),
                                    size_bytes(*device_dtype(function.type(op.operands[1]).element()))));
  int64_t k = 1, batches = 1;
  if (op.has(Attr::lhs_contracting_dimensions))
    for (const int64_t d : op.integers(Attr::lhs_contracting_dimensions)) k *= left.dim(static_cast<int>(d));
  if (op.has(Attr::lhs_batching_dimensions))
    for (const int64_t d : op.integers(Attr::lhs_batching_dimensions))
      batches *= left.dim(static_cast<int>(d));
  if (k * batches == 0) return 0;
  const int64_t right = function.type(op.operands[1]).element_count() / (k * batches),
                rows = left.element_count() / (k * batches);
  if (right * rows == 0) return 0;
  const ProductSize size{rows, k, right, element, element, batches, waits(function, op, 1)};
  const int64_t panel = right_panel(choices, generation, size), k_tiles = tiles(k, kPartitions);
  const int64_t left_rows = keeps_left(size, panel) ? tiles(rows, kPartitions) : 3;
  const int64_t left_tiles = left_rows * k_tiles * kPartitions * element;
  // What is widened lies beside its panel, block by block of the contraction.
  const bool widens = function.type(op.operands[0]).element() != function.type(op.operands[1]).element();
  const int64_t kept = widens ? 4 * std::max(panel, kPanelRunBytes) : 0;
  const int64_t together = batches > 1 ? 4 * kTransferBytes : 0;  // of two operands, and the next of each
  return 2 * panel * k_tiles * element + kept + left_tiles + together +
         2 * std::min(k, kNaturalColumns) * element;
}

std::unique_ptr<TileSource> product_source(Lowering& lowering, const Op& op, const ProductForm& form,
                                           const Prologues& prologues) {
  return std::make_unique<Product>(lowering, op, form, prologues);
}

}  // namespace opentrn::compiler
