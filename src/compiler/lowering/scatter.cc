// scatter at indices known at run time, one update window after the other, in the order StableHLO's reference
// takes them, so that windows that meet combine as they should.
//
// The operand is copied to a working tensor with room for one more window behind it. A window whose index
// lies outside goes there: no branch is needed, and time does not depend on values. Addresses are computed in
// registers. What costs is the fixed time of three transfers per window; scatters of many small windows are
// slow, as they are on the hardware. Extremes of rows of a table that fits a partition are taken there, one
// instruction for each window.
#include "compiler/analysis/graph_names.h"
#include "compiler/lowering/takes.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/elementwise.h"
#include "compiler/lowering/exact_reduction.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/scatter_sums.h"

namespace opentrn::compiler {

namespace {

// The op with which an update meets what is there; nullopt: the update takes its place.
struct Update {
  std::optional<OpKind> combiner;
};

std::optional<Update> update_of(const Function& function, const Op& op) {
  if (const auto combiner = combiner_of(function, op)) return Update{combiner};
  const graph::Block& body = function.block(op.regions[0]);
  const Op& end = function.op(body.ops[0]);
  if (body.ops.size() == 1 && end.operands.size() == 1 && body.arguments.size() == 2 &&
      end.operands[0] == body.arguments[1])
    return Update{std::nullopt};
  return std::nullopt;
}

using Dimensions = std::vector<int64_t>;

bool holds(const Dimensions& list, int64_t d) { return std::find(list.begin(), list.end(), d) != list.end(); }

// The attributes, and what follows from them.
struct ScatterGeometry {
  Dimensions update_window, inserted, input_batching, index_batching, to_operand;
  int64_t vector_dim = 0;
  Dimensions operand, indices, updates;  // sizes
  Dimensions window;                     // by operand dimension: its extent in a window

  ScatterGeometry(const Function& function, const Op& op) {
    const auto list = [&](Attr attr) { return op.integers_or(attr, 0, 0); };
    const auto sizes = [&](size_t i) {
      const auto dims = function.type(op.operands[i]).dims();
      return Dimensions(dims.begin(), dims.end());
    };
    update_window = list(Attr::update_window_dims);
    inserted = list(Attr::inserted_window_dims);
    input_batching = list(Attr::input_batching_dims);
    index_batching = list(Attr::scatter_indices_batching_dims);
    to_operand = list(Attr::scatter_dims_to_operand_dims);
    vector_dim = op.integer(Attr::index_vector_dim);
    operand = sizes(0);
    indices = sizes(1);
    updates = sizes(2);
    window.assign(operand.size(), 1);
    size_t next = 0;
    for (size_t d = 0; d < operand.size(); ++d)
      if (!holds(inserted, static_cast<int64_t>(d)) && !holds(input_batching, static_cast<int64_t>(d)))
        window[d] = updates[static_cast<size_t>(update_window[next++])];
  }

  // Dimensions of the updates that number the windows.
  Dimensions update_scatter() const {
    Dimensions result;
    for (int64_t d = 0; d < static_cast<int64_t>(updates.size()); ++d)
      if (!holds(update_window, d)) result.push_back(d);
    return result;
  }
  int64_t window_count() const {
    int64_t count = 1;
    for (const int64_t d : update_scatter()) count *= updates[static_cast<size_t>(d)];
    return count;
  }
  int64_t window_elements() const {
    return std::accumulate(window.begin(), window.end(), int64_t{1}, std::multiplies<>());
  }
};

bool takes_scatter(const Function& function, const Op& op) {
  if (op.kind != OpKind::scatter_ || op.results.size() != 1 || op.operands.size() != 3 ||
      !update_of(function, op))
    return false;
  const graph::Type& operand = function.type(op.operands[0]);
  const auto index = device_dtype(function.type(op.operands[1]).element());
  if (operand.quantization() || !device_dtype(operand.element()) || !index || size_bytes(*index) != 4)
    return false;
  const ScatterGeometry g(function, op);
  return g.window_count() <= kScatterWindowsMax && g.window_elements() <= kScatterWindowElementsMax;
}

class Scatter {
 public:
  Scatter(Lowering& lowering, const Op& op)
      : lowering_(lowering),
        emitter_(lowering.emitter()),
        function_(lowering.function()),
        op_(op),
        g_(function_, op),
        element_(function_.type(op.operands[0]).element()) {}

  void run() {
    const View source = lowering_.view(op_.operands[0]);
    const View out = lowering_.allocate(op_.results[0]);
    elements_ = out.element_count();
    if (elements_ == 0) return;
    if (g_.window_count() == 0 || g_.window_elements() == 0) return emitter_.copy(out, source);
    make_working_tensor(out, source);
    indices_ = lowering_.view(op_.operands[1]);
    updates_ = lowering_.view(op_.operands[2]);
    const Dimensions scatter = g_.update_scatter();
    Dimensions at(scatter.size());
    for (int64_t n = 0; n < g_.window_count(); ++n) {
      int64_t rest = n;
      for (size_t i = scatter.size(); i-- > 0;) {
        const int64_t size = g_.updates[static_cast<size_t>(scatter[i])];
        at[i] = rest % size;
        rest /= size;
      }
      combine(at, scatter);
    }
    View done = work_;
    done.dims = out.dims;
    emitter_.copy(out, done);
  }

 private:
  void make_working_tensor(const View& out, const View& source) {
    steps_.clear();
    int64_t span = 1;
    for (size_t d = 0; d < g_.operand.size(); ++d) {
      steps_.push_back(out.dims[d].step);
      span += (g_.window[d] - 1) * out.dims[d].step;
    }
    const std::vector<int64_t> shape{elements_ + span};
    work_ = emitter_.hbm(shape, out.dtype, "scatter");
    View body = work_, tail = work_;
    body.dims = out.dims;
    emitter_.copy(body, source);
    tail.offset = elements_;
    tail.dims = {{1, span}};
    const Tile zero = emitter_.sbuf(1, 1, out.dtype, "zero");
    emitter_.memset(zero, 0.0);
    emitter_.store(tail, zero.repeated(span));
  }

  // The element of the window's first place in a register; beyond the operand where the window does not fit.
  isa::RegisterId address(const Dimensions& at) {
    const isa::RegisterId total = emitter_.new_register(), inside = emitter_.new_register();
    int64_t fixed = 0;
    for (size_t i = 0; i < g_.input_batching.size(); ++i)
      fixed += at[static_cast<size_t>(place_in_scatter(g_.index_batching[i]))] *
               steps_[static_cast<size_t>(g_.input_batching[i])];
    emitter_.register_alu(AluOp::kAdd, total, fixed, int64_t{0});
    emitter_.register_alu(AluOp::kAdd, inside, int64_t{1}, int64_t{0});
    const isa::RegisterId index = emitter_.new_register(), test = emitter_.new_register();
    for (size_t j = 0; j < g_.to_operand.size(); ++j) {
      const auto d = static_cast<size_t>(g_.to_operand[j]);
      emitter_.register_load(index, index_element(at, static_cast<int64_t>(j)));
      emitter_.register_alu(AluOp::kGreaterEqual, test, index, int64_t{0});
      emitter_.register_alu(AluOp::kBitwiseAnd, inside, inside, test);
      emitter_.register_alu(AluOp::kLessEqual, test, index, g_.operand[d] - g_.window[d]);
      emitter_.register_alu(AluOp::kBitwiseAnd, inside, inside, test);
      emitter_.register_alu(AluOp::kMultiply, index, index, steps_[d]);
      emitter_.register_alu(AluOp::kAdd, total, total, index);
    }
    // inside * (total - elements) + elements
    emitter_.register_alu(AluOp::kSubtract, total, total, elements_);
    emitter_.register_alu(AluOp::kMultiply, total, total, inside);
    emitter_.register_alu(AluOp::kAdd, total, total, elements_);
    return total;
  }

  // Which scatter dimension of the updates belongs to dimension `d` of the indices.
  int64_t place_in_scatter(int64_t d) const { return d < g_.vector_dim ? d : d - 1; }

  View index_element(const Dimensions& at, int64_t component) const {
    View element{indices_.tensor, indices_.dtype, indices_.offset, {}};
    for (int64_t d = 0; d < static_cast<int64_t>(indices_.dims.size()); ++d)
      element.offset += indices_.dims[static_cast<size_t>(d)].step *
                        (d == g_.vector_dim ? component : at[static_cast<size_t>(place_in_scatter(d))]);
    return element;
  }

  void combine(const Dimensions& at, const Dimensions& scatter) {
    const isa::RegisterId offset = address(at);
    View update{updates_.tensor, updates_.dtype, updates_.offset, {}},
        window{work_.tensor, work_.dtype, 0, {}};
    for (size_t i = 0; i < scatter.size(); ++i)
      update.offset += at[i] * updates_.dims[static_cast<size_t>(scatter[i])].step;
    for (const int64_t d : g_.update_window) update.dims.push_back(updates_.dims[static_cast<size_t>(d)]);
    for (size_t d = 0; d < g_.operand.size(); ++d) window.dims.push_back({steps_[d], g_.window[d]});
    const int64_t count = g_.window_elements();
    const Tile fresh = emitter_.sbuf(1, count, work_.dtype, "update");
    emitter_.load(fresh, update);
    const auto combiner = update_of(function_, op_)->combiner;
    if (!combiner) return emitter_.store_at(window, offset, elements_ + 1, fresh);
    const Tile there = emitter_.sbuf(1, count, work_.dtype, "there");
    emitter_.load_at(there, window, offset, elements_ + 1);
    const Op& body = function_.op(function_.block(op_.regions[0]).ops[0]);
    const std::vector<Term> operands{{.element = element_, .splat = {}, .tile = there, .column = false},
                                     {.element = element_, .splat = {}, .tile = fresh, .column = false}};
    const Term sum = emit_elementwise(emitter_, function_, body, operands, 1, count);
    emitter_.store_at(window, offset, elements_ + 1, sum.tile);
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const Function& function_;
  const Op& op_;
  ScatterGeometry g_;
  graph::ElementType element_;
  int64_t elements_ = 0;
  View work_, indices_, updates_;
  Dimensions steps_;  // of the operand's dimensions in the working tensor
};

// Elements of a partition: the table, and the updates that are loaded together.
constexpr int64_t kTableElements = 33'000, kUpdateElements = 4096;
// Fewer windows are through before the table has come and gone.
constexpr int64_t kTableWindowsMin = 4;

// The table in one partition with a row behind it, to which windows outside go.
class RowsInSbuf {
 public:
  RowsInSbuf(Lowering& lowering, const Op& op, const RowSums& rows)
      : lowering_(lowering), emitter_(lowering.emitter()), op_(op), rows_(rows) {}

  static bool fits(const RowSums& rows) {
    return (rows.table_rows + 1) * rows.width <= kTableElements && rows.width <= kUpdateElements &&
           rows.count >= kTableWindowsMin;
  }

  void run() {
    const int64_t elements = rows_.table_rows * rows_.width;
    const auto number = splat_of(lowering_.function(), op_.operands[0]);
    const View out = lowering_.allocate(op_.results[0]);
    const Tile table = emitter_.sbuf(1, elements + rows_.width, DType::kFloat32, "table");
    emitter_.memset(table.column_range(elements, rows_.width), 0.0);
    // One number, as a segment's least, would be moved into the partition element by element.
    if (number)
      emitter_.memset(table.column_range(0, elements), *number);
    else
      as_row(op_.operands[0], elements).load(emitter_, table.column_range(0, elements), 0, 0);
    const Matrix indices = as_row(op_.operands[1], rows_.count),
                 updates = as_row(op_.operands[2], rows_.count * rows_.width);
    const int64_t together = std::max<int64_t>(1, kUpdateElements / rows_.width);
    for (int64_t first = 0; first < rows_.count; first += together)
      update(table, indices, updates, first, std::min(together, rows_.count - first));
    Matrix(*Lowering::reshaped(out, std::vector<int64_t>{1, elements}), 1)
        .store(emitter_, table.column_range(0, elements), 0, 0);
  }

 private:
  Matrix as_row(graph::ValueId value, int64_t elements) {
    return {lowering_.reshaped_or_copied(lowering_.view(value), std::vector<int64_t>{1, elements}), 1};
  }

  void update(const Tile& table, const Matrix& indices, const Matrix& updates, int64_t first, int64_t count) {
    const AluOp alu = alu_of(*combiner_of(lowering_.function(), op_));
    const int64_t width = rows_.width;
    const Tile rows = emitter_.sbuf(1, count * width, DType::kFloat32, "updates"),
               given = emitter_.sbuf(1, count, DType::kInt32, "indices"),
               inside = emitter_.sbuf(1, count, DType::kUint32, "indices"),
               most = emitter_.sbuf(1, 1, DType::kUint32, "rows");
    updates.load(emitter_, rows, 0, first * width);
    indices.load(emitter_, given, 0, first);
    // Negative ones are large as numbers without a sign.
    emitter_.memset(most, static_cast<double>(rows_.table_rows));
    emitter_.tensor_tensor(AluOp::kMinimum, inside, given.as(DType::kUint32),
                           count > 1 ? most.repeated(count) : most);
    for (int64_t i = 0; i < count; ++i) {
      const isa::RegisterId row = emitter_.new_register();
      emitter_.register_load(row, inside.as(DType::kInt32).column_range(i, 1));
      emitter_.update_at(alu, table.column_range(0, width), row, width, rows_.table_rows + 1,
                         rows.column_range(i * width, width));
    }
  }

  Lowering& lowering_;
  Emitter& emitter_;
  const Op& op_;
  RowSums rows_;
};

}  // namespace

bool has_scatter(const Function& function, const Op& op) { return takes_scatter(function, op); }

bool lower_scatter(Lowering& lowering, const Op& op) {
  if (!takes_scatter(lowering.function(), op)) return false;
  if (const auto rows = row_extremes_of(lowering.function(), op); rows && RowsInSbuf::fits(*rows)) {
    RowsInSbuf(lowering, op, *rows).run();
    return true;
  }
  Scatter(lowering, op).run();
  return true;
}

}  // namespace opentrn::compiler
