// dot_general on the Tensor engine.
//
//   for each batch
//     for a panel of result columns N             (all of them, when the right panel fits SBUF)
//       right[k]: [K <= 128, N panel]             contraction over partitions
//       for each 128 result rows M
//         left[k]: [K <= 128, M <= 128]           stationary
//         for each 512 columns: PSUM = sum over k of left[k]^T right[k]; copy out; store
//
// The contraction must lie over partitions. An operand whose memory runs along the contraction is loaded as
// it lies, 128 rows at a time, and transposed by the Tensor engine, which is far cheaper than DMA of single
// elements.
#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "compiler/lowering/device_type.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Op;
using graph::OpKind;

namespace {

// Bytes of a partition for the right panel, and for keeping the left panels of all rows.
constexpr int64_t kRightPanelBytes = 64 * 1024;
constexpr int64_t kLeftPanelBytes = 32 * 1024;
// Fewer columns than this keep the Tensor engine at its least interval.
constexpr int64_t kLeastPanelColumns = 64;
// Columns of the contraction loaded at once when rows are transposed on chip.
constexpr int64_t kNaturalColumns = 2048;

int64_t tiles(int64_t n, int64_t size) { return (n + size - 1) / size; }

// One side: free dimensions by contraction dimensions.
class Side {
 public:
  Side(Emitter& emitter, Matrix free_by_k, std::string name)
      : emitter_(emitter),
        matrix_(std::move(free_by_k)),
        name_(std::move(name)),
        on_chip_(matrix_.columns_are_runs() && !matrix_.rows_are_runs() && matrix_.columns() > 1) {}

  // Panels will be asked for again: those that cost transposes are kept in HBM as they lie in SBUF, so that
  // the next time is one long transfer.
  void keep_transposed() { keeps_ = on_chip_ && matrix_.columns() % kPartitions == 0; }

  // [K block, free_count] tiles for free indices from free_begin.
  std::vector<Tile> panels(int64_t free_begin, int64_t free_count) {
    if (!on_chip_)
      if (auto tiles = kept_panels(free_begin, free_count)) return *tiles;
    const int64_t blocks = tiles(matrix_.columns(), kPartitions);
    const Tile all =
        emitter_.sbuf(std::min(kPartitions, matrix_.columns()), blocks * free_count, matrix_.dtype(), name_);
    std::vector<Tile> result;
    for (int64_t i = 0; i < blocks; ++i)
      result.push_back(all.column_range(i * free_count, free_count)
                           .row_range(0, std::min(kPartitions, matrix_.columns() - i * kPartitions)));
    if (const auto stored = stored_.find(free_begin); stored != stored_.end()) {
      emitter_.load(all, stored->second);
      return result;
    }
    if (on_chip_)
      transposed(result, free_begin, free_count);
    else
      for (size_t i = 0; i < result.size(); ++i)
        matrix_.transposed().load(emitter_, result[i], static_cast<int64_t>(i) * kPartitions, free_begin);
    if (keeps_) {
      const std::vector<int64_t> shape{all.rows, all.columns};
      const View copy = emitter_.hbm(shape, matrix_.dtype(), name_ + "_panel");
      emitter_.store(copy, all);
      stored_.emplace(free_begin, copy);
    }
    return result;
  }

 private:
  // Where an earlier kernel left the operand in SBUF as it is needed. Both sides of a product must lie on the
  // same partitions: from the first one.
  std::optional<std::vector<Tile>> kept_panels(int64_t free_begin, int64_t free_count) {
    std::vector<Tile> result;
    for (int64_t k = 0; k < matrix_.columns(); k += kPartitions) {
      const auto tile = matrix_.transposed().kept(emitter_, k, std::min(kPartitions, matrix_.columns() - k),
                                                  free_begin, free_count, /*first_partition=*/true);
      if (!tile) return std::nullopt;
      result.push_back(*tile);
    }
    return result;
  }

  void transposed(std::vector<Tile>& panels, int64_t free_begin, int64_t free_count) {
    for (int64_t f = 0; f < free_count; f += kPartitions) {
      const int64_t rows = std::min(kPartitions, free_count - f);
      for (int64_t k = 0; k < matrix_.columns(); k += kNaturalColumns) {
        const int64_t width = std::min(kNaturalColumns, matrix_.columns() - k);
        const Tile natural = matrix_.fetch(emitter_, free_begin + f, rows, k, width, name_ + "_rows");
        for (int64_t part = 0; part < width; part += kPartitions) {
          const Tile& target = panels[static_cast<size_t>((k + part) / kPartitions)];
          const Tile turned = emitter_.psum(target.rows, rows, matrix_.dtype(), name_ + "_T");
          emitter_.transpose(turned, natural.column_range(part, target.rows));
          emitter_.tensor_copy(target.column_range(f, rows), turned);
        }
      }
    }
  }

  Emitter& emitter_;
  Matrix matrix_;
  std::string name_;
  bool on_chip_;  // transposed by the Tensor engine
  bool keeps_ = false;
  std::map<int64_t, View> stored_;  // by free_begin
};

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

// Columns of a right panel.
int64_t right_panel(const Matrix& left) {
  const int64_t k_tiles = std::max<int64_t>(1, tiles(left.columns(), kPartitions));
  const int64_t columns = kRightPanelBytes / (k_tiles * size_bytes(left.dtype()));
  if (columns >= kPsumBankColumns) return columns / kPsumBankColumns * kPsumBankColumns;
  return std::max(kLeastPanelColumns, columns / kLeastPanelColumns * kLeastPanelColumns);
}

// The products of one batch.
// `out_row`: of the first row among the rows of all batches.
void multiply(Emitter& emitter, const Matrix& left_m_by_k, const Matrix& right_n_by_k, const Matrix& out,
              isa::TensorId out_tensor, int64_t out_row) {
  const int64_t m = left_m_by_k.rows(), k = left_m_by_k.columns(), n = right_n_by_k.rows();
  const int64_t element = size_bytes(left_m_by_k.dtype());
  const int64_t k_tiles = std::max<int64_t>(1, tiles(k, kPartitions));
  const int64_t panel = right_panel(left_m_by_k);
  const bool keep_left =
      panel < n && tiles(m, kPartitions) * k_tiles * kPartitions * element <= kLeftPanelBytes;
  Side left(emitter, left_m_by_k, "lhs"), right(emitter, right_n_by_k, "rhs");
  if (panel < n && !keep_left) left.keep_transposed();
  std::vector<std::vector<Tile>> kept(static_cast<size_t>(tiles(m, kPartitions)));
  for (int64_t n0 = 0; n0 < n; n0 += panel) {
    const int64_t panel_columns = std::min(panel, n - n0);
    const std::vector<Tile> moving = right.panels(n0, panel_columns);
    for (int64_t m0 = 0; m0 < m; m0 += kPartitions) {
      const int64_t rows = std::min(kPartitions, m - m0);
      auto& stationary = kept[static_cast<size_t>(m0 / kPartitions)];
      if (stationary.empty()) stationary = left.panels(m0, rows);
      const auto place =
          panel_columns == n ? emitter.residency().place(out_tensor, out_row + m0, rows) : std::nullopt;
      const Tile result = place ? *place : emitter.sbuf(rows, panel_columns, out.dtype(), "dot");
      for (int64_t c = 0; c < panel_columns; c += kPsumBankColumns) {
        const int64_t columns = std::min(kPsumBankColumns, panel_columns - c);
        const Tile sum = emitter.psum(rows, columns, DType::kFloat32, "sum");
        for (size_t i = 0; i < moving.size(); ++i)
          emitter.matmul(sum, stationary[i], moving[i].column_range(c, columns), i > 0);
        emitter.tensor_copy(result.column_range(c, columns), sum);
      }
      if (!place) out.store(emitter, result, m0, n0);
      if (!keep_left) stationary.clear();
    }
  }
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

// Zeros, for a contraction over nothing.
void fill_zero(Emitter& emitter, const View& out) {
  const Matrix all(View{out.tensor, out.dtype, out.offset, {}}, {{0, 1}}, out.dims);
  for (int64_t c = 0; c < all.columns(); c += kNaturalColumns) {
    const Tile zero = emitter.sbuf(1, std::min(kNaturalColumns, all.columns() - c), out.dtype, "zero");
    emitter.memset(zero, 0.0);
    all.store(emitter, zero, 0, c);
  }
}

bool takes(const graph::Function& function, const Op& op) {
  return op.kind == OpKind::dot_general_ && is_matmul_type(function.type(op.operands[0]).element()) &&
         function.type(op.operands[0]).element() == function.type(op.operands[1]).element() &&
         graph::is_float(function.type(op.results[0]).element());
}

}  // namespace

bool has_dot_general(const graph::Function& function, const Op& op) { return takes(function, op); }

bool lower_dot_general(Lowering& lowering, const Op& op) {
  if (!takes(lowering.function(), op)) return false;
  const std::vector<int64_t> none;
  const auto dims = [&](Attr attr) {
    return op.has(attr) ? op.integers(attr) : std::span<const int64_t>(none);
  };
  const auto lb = dims(Attr::lhs_batching_dimensions), rb = dims(Attr::rhs_batching_dimensions);
  const auto lc = dims(Attr::lhs_contracting_dimensions), rc = dims(Attr::rhs_contracting_dimensions);
  const View l = lowering.view(op.operands[0]), r = lowering.view(op.operands[1]);
  const auto lf = free_dimensions(l.dims.size(), lb, lc), rf = free_dimensions(r.dims.size(), rb, rc);
  const View out = lowering.allocate(op.results[0]);
  if (out.element_count() == 0) return true;
  const Matrix left(l, pick(l, lf), pick(l, lc)), right(r, pick(r, rf), pick(r, rc));
  if (left.columns() == 0) {
    fill_zero(lowering.emitter(), out);
    return true;
  }
  const auto batch = static_cast<std::ptrdiff_t>(lb.size());
  const auto split = batch + static_cast<std::ptrdiff_t>(lf.size());
  const Matrix result(out, {out.dims.begin() + batch, out.dims.begin() + split},
                      {out.dims.begin() + split, out.dims.end()});
  const std::vector<isa::Dim> l_batch = pick(l, lb), r_batch = pick(r, rb);
  std::vector<int64_t> at(lb.size());
  int64_t batches = 1, row = 0;
  for (const isa::Dim& dim : l_batch) batches *= dim.count;
  // Rows of a batch must begin where an instruction can write.
  const int64_t m = left.rows();
  const bool placeable = batches == 1 || m % kPartitions == 0 || m == 64 || m == 32;
  if (placeable && right_panel(left) >= right.rows())
    lowering.emitter().residency().reserve(out, batches * m, right.rows());
  for (;;) {
    int64_t l_move = 0, r_move = 0, o_move = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      l_move += at[i] * l_batch[i].step;
      r_move += at[i] * r_batch[i].step;
      o_move += at[i] * out.dims[i].step;
    }
    multiply(lowering.emitter(), left.moved(l_move), right.moved(r_move), result.moved(o_move), out.tensor,
             row);
    row += left.rows();
    size_t i = at.size();
    while (i-- > 0) {
      if (++at[i] < l_batch[i].count) break;
      at[i] = 0;
    }
    if (i == static_cast<size_t>(-1)) return true;
  }
}

}  // namespace opentrn::compiler
