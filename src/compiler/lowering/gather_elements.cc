// gather with any attributes: an address for every run of elements that lie together, then indirect
// transfers.
//
// A row of the transfer is what is contiguous of a slice: the trailing dimensions that are taken whole and
// the one in front of them. 128 rows go at a time: their start indices are loaded, clamped so that the slice
// lies inside, times the operand's strides, plus where in the slice the row lies, which the compiler knows. A
// gather of single elements has as many rows as elements, and costs a descriptor for each. Where short rows
// follow each other in memory, as do their indices, a partition holds several: they are loaded, made into
// addresses and stored together, and only the indirect transfers go 128 at a time.
#include <algorithm>
#include <cstring>
#include <numeric>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"

namespace opentrn::compiler {

namespace {

using Dims = std::vector<int64_t>;

// Rows of all slices, which are written out 128 at a time, and columns of one transfer.
constexpr int64_t kRowsMax = int64_t{1} << 20;
constexpr int64_t kGatheredColumnsMax = 8192;
// Rows of a partition whose addresses are made together: at most, and by what they gather.
constexpr int64_t kRowsAtOnce = 64, kColumnsTogether = 512;

bool contains(const Dims& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); }

int64_t product(const Dims& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

// The attributes, and what follows from them.
struct GatherGeometry {
  Dims offset, collapsed, operand_batching, index_batching, start_map, slice;
  int64_t vector_dim;
  Dims operand, indices, result;  // sizes
  Dims steps;                     // of the operand, row-major
  Dims window;                    // operand dimensions that the slice keeps, in order
  size_t inner = 0;               // of these, how many at the end make one run

  GatherGeometry(const Function& function, const Op& op) {
    const auto list = [&](Attr attr) { return op.integers_or(attr, 0, 0); };
    const auto sizes = [](const graph::Type& type) { return Dims(type.dims().begin(), type.dims().end()); };
    offset = list(Attr::offset_dims);
    collapsed = list(Attr::collapsed_slice_dims);
    operand_batching = list(Attr::operand_batching_dims);
    index_batching = list(Attr::start_indices_batching_dims);
    start_map = list(Attr::start_index_map);
    const auto given = op.integers(Attr::slice_sizes);
    slice.assign(given.begin(), given.end());
    vector_dim = op.integer_or(Attr::index_vector_dim, 0);
    operand = sizes(function.type(op.operands[0]));
    indices = sizes(function.type(op.operands[1]));
    result = sizes(function.type(op.results[0]));
    steps.assign(operand.size(), 1);
    for (size_t d = operand.size(); d-- > 1;) steps[d - 1] = steps[d] * operand[d];
    for (int64_t d = 0; d < static_cast<int64_t>(operand.size()); ++d)
      if (!contains(collapsed, d) && !contains(operand_batching, d)) window.push_back(d);
    int64_t run = 1;
    while (inner < window.size()) {
      const auto d = static_cast<size_t>(window[window.size() - 1 - inner]);
      if (steps[d] != run || run * slice[d] > kGatheredColumnsMax) break;
      run *= slice[d];
      ++inner;
      if (slice[d] != operand[d]) break;
    }
  }

  Dims batch() const {
    Dims dims;
    for (int64_t d = 0; d < static_cast<int64_t>(result.size()); ++d)
      if (!contains(offset, d)) dims.push_back(d);
    return dims;
  }
  int64_t columns() const {
    int64_t count = 1;
    for (size_t i = 0; i < inner; ++i) count *= slice[static_cast<size_t>(window[window.size() - 1 - i])];
    return count;
  }
  // Which dimension of the indices a batch dimension of the result walks.
  int64_t index_dim(size_t batch_dim) const {
    const auto d = static_cast<int64_t>(batch_dim);
    return d < vector_dim ? d : d + 1;
  }
};

bool takes_gather_elements(const Function& function, const Op& op) {
  if (op.kind != OpKind::gather_) return false;
  const graph::Type& table = function.type(op.operands[0]);
  const graph::Type& indices = function.type(op.operands[1]);
  const auto index = device_dtype(indices.element());
  if (table.quantization() || !table.is_static() || !indices.is_static() || !device_dtype(table.element()) ||
      !index || graph::is_float(indices.element()) || table.element_count() > INT32_MAX)
    return false;
  const GatherGeometry g(function, op);
  return product(g.result) / std::max<int64_t>(1, g.columns()) <= kRowsMax;
}

class Gather {
 public:
  Gather(Lowering& lowering, const Op& op)
      : lowering_(lowering),
        emitter_(lowering.emitter()),
        function_(lowering.function()),
        op_(op),
        g_(function_, op) {}

  void run() {
    const View out = lowering_.allocate(op_.results[0]);
    if (out.element_count() == 0) return;
    const View table = lowering_.reshaped_or_copied(lowering_.view(op_.operands[0]), {{product(g_.operand)}});
    const View flat = contiguous(table);
    columns_ = g_.columns();
    describe_rows(out);
    const Matrix places = offsets_of_rows();
    const int64_t most = find_lists(places) ? std::min(kRowsAtOnce, kColumnsTogether / columns_) : 1;
    for (int64_t row = 0; row < row_count_;) {
      Block block{row, std::min(kPartitions, row_count_ - row), 1};
      block.each = std::clamp<int64_t>((row_count_ - row) / kPartitions, 1, std::max<int64_t>(most, 1));
      gather(flat, places, block, out);
      row += block.rows * block.each;
    }
  }

 private:
  // Rows of the transfer from `row` on: `each` of them in a partition.
  struct Block {
    int64_t row, rows, each;
  };

  void gather(const View& table, const Matrix& places, const Block& block, const View& out) {
    View rows_of_table = table;
    rows_of_table.dims = {{1, product(g_.operand) - columns_ + 1}, {1, columns_}};
    const Tile tile = emitter_.sbuf(block.rows, block.each * columns_, out.dtype, "gathered"),
               index = addresses(places, block);
    for (int64_t i = 0; i < block.each; ++i)
      emitter_.gather_rows(tile.column_range(i * columns_, columns_), rows_of_table,
                           index.column_range(i, 1));
    if (block.each == 1) return result_.store(emitter_, tile, block.row, 0);
    const int64_t width = block.each * columns_;
    View to = result_.all();
    to.offset += block.row * columns_;
    to.dims = {{width, block.rows}, {1, width}};
    emitter_.store(to, tile);
  }

  // Whether rows lie one after another in the result, and their numbers in lists.
  bool find_lists(const Matrix& places) {
    if (!outer_.empty() || !result_.all().contiguous()) return false;
    const std::vector<int64_t> list{row_count_};
    lists_.clear();
    for (size_t j = 0; j < g_.start_map.size(); ++j) {
      const auto flat = Lowering::reshaped(indices_of(static_cast<int64_t>(j)).all(), list);
      if (!flat || flat->dims.size() != 1) return false;
      lists_.push_back(*flat);
    }
    return places.all().contiguous();
  }

  void load_numbers(const Tile& tile, const Matrix& numbers, const View* list, const Block& block) {
    if (block.each == 1) return numbers.load(emitter_, tile, block.row, 0);
    View part = list != nullptr ? *list : numbers.all();
    const int64_t step = list != nullptr ? list->dims[0].step : 1;
    part.offset += block.row * step;
    part.dims = {{block.each * step, block.rows}, {step, block.each}};
    emitter_.load(tile, part);
  }

  View contiguous(const View& view) {
    if (view.contiguous()) return view;
    View copy = emitter_.hbm({{view.element_count()}}, view.dtype, "table");
    emitter_.copy(copy, view);
    return copy;
  }

  // Rows: the batch dimensions, then those of the slice that are outside of a run.
  void describe_rows(const View& out) {
    batch_ = g_.batch();
    outer_.assign(g_.window.begin(), g_.window.end() - static_cast<std::ptrdiff_t>(g_.inner));
    std::vector<isa::Dim> rows, columns;
    for (const int64_t d : batch_) rows.push_back(out.dims[static_cast<size_t>(d)]);
    for (size_t i = 0; i < g_.window.size(); ++i)
      (i < outer_.size() ? rows : columns).push_back(out.dims[static_cast<size_t>(g_.offset[i])]);
    result_ = Matrix(out, rows, columns);
    row_count_ = result_.rows();
  }

  // What the compiler knows of every row's address: its place in the slice and in the batch.
  Matrix offsets_of_rows() {
    Dims counts;
    for (const int64_t d : batch_) counts.push_back(g_.result[static_cast<size_t>(d)]);
    for (const int64_t d : outer_) counts.push_back(g_.slice[static_cast<size_t>(d)]);
    std::vector<std::byte> bytes(static_cast<size_t>(row_count_) * sizeof(int32_t));
    for (int64_t row = 0; row < row_count_; ++row) {
      int64_t rest = row, sum = 0;
      for (size_t i = counts.size(); i-- > 0;) {
        sum += rest % counts[i] * step_of(i);
        rest /= counts[i];
      }
      const auto number = static_cast<int32_t>(sum);
      std::memcpy(bytes.data() + static_cast<size_t>(row) * sizeof(number), &number, sizeof(number));
    }
    const View whole = lowering_.constant(
        graph::Literal(graph::Type::tensor(graph::ElementType::kI32, {row_count_}), std::move(bytes)));
    return {whole, 1};
  }

  // Elements of the operand per unit of the rows' dimension `i`.
  int64_t step_of(size_t i) const {
    if (i >= batch_.size()) return g_.steps[static_cast<size_t>(outer_[i - batch_.size()])];
    for (size_t k = 0; k < g_.index_batching.size(); ++k)
      if (g_.index_batching[k] == g_.index_dim(i))
        return g_.steps[static_cast<size_t>(g_.operand_batching[k])];
    return 0;
  }

  Tile addresses(const Matrix& places, const Block& block) {
    Tile sum = fresh(block);
    load_numbers(sum, places, nullptr, block);
    for (size_t j = 0; j < g_.start_map.size(); ++j) {
      const auto d = static_cast<size_t>(g_.start_map[j]);
      const int64_t last = g_.operand[d] - g_.slice[d];
      if (last == 0) continue;
      const Tile moved = fresh(block), total = fresh(block);
      emitter_.tensor_tensor(AluOp::kMultiply, moved, clamped(j, last, block), number(g_.steps[d], block));
      emitter_.tensor_tensor(AluOp::kAdd, total, sum, moved);
      sum = total;
    }
    return sum;
  }

  // Component `component` of the start indices of all rows.
  Matrix indices_of(int64_t component) {
    const View all = lowering_.view(op_.operands[1]);
    View first{all.tensor, all.dtype, all.offset, {}};
    if (g_.vector_dim < static_cast<int64_t>(all.dims.size()))
      first.offset += component * all.dims[static_cast<size_t>(g_.vector_dim)].step;
    std::vector<isa::Dim> dims;
    for (size_t i = 0; i < batch_.size(); ++i) dims.push_back(all.dims[static_cast<size_t>(g_.index_dim(i))]);
    for (const int64_t d : outer_) dims.push_back({0, g_.slice[static_cast<size_t>(d)]});
    return {first, dims, {}};
  }

  // The component of these rows, in [0, last].
  Tile clamped(size_t component, int64_t last, const Block& block) {
    const Matrix indices = indices_of(static_cast<int64_t>(component));
    // Unsigned numbers of 32 bits are compared as such.
    const bool is_wide = indices.dtype() == DType::kUint32;
    Tile asked = emitter_.sbuf(block.rows, block.each, indices.dtype(), "index");
    load_numbers(asked, indices, block.each == 1 ? nullptr : &lists_[component], block);
    if (size_bytes(indices.dtype()) != 4) {
      const Tile wide = fresh(block);
      emitter_.tensor_copy(wide, asked);
      asked = wide;
    }
    const Tile limit = number(last, block), below = fresh(block);
    if (is_wide) {
      emitter_.tensor_tensor(AluOp::kMinimum, below.as(DType::kUint32), asked, limit.as(DType::kUint32));
      return below;
    }
    const Tile above = fresh(block);
    emitter_.tensor_tensor(AluOp::kMaximum, above, asked, number(0, block));
    emitter_.tensor_tensor(AluOp::kMinimum, below, above, limit);
    return below;
  }

  Tile fresh(const Block& block) { return emitter_.sbuf(block.rows, block.each, DType::kInt32, "address"); }
  Tile number(int64_t value, const Block& block) {
    const Tile tile = emitter_.sbuf(block.rows, 1, DType::kInt32, "address");
    emitter_.memset(tile, static_cast<double>(value));
    return block.each == 1 ? tile : tile.repeated(block.each);
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const Function& function_;
  const Op& op_;
  GatherGeometry g_;
  Dims batch_, outer_;       // dimensions of the result, of the operand
  Matrix result_;            // rows by runs
  std::vector<View> lists_;  // of the components of the start indices, where find_lists() says so
  int64_t row_count_ = 0, columns_ = 1;
};

}  // namespace

bool has_gather_elements(const Function& function, const Op& op) {
  return takes_gather_elements(function, op);
}

bool lower_gather_elements(Lowering& lowering, const Op& op) {
  if (!takes_gather_elements(lowering.function(), op)) return false;
  Gather(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
