// Running sums, products and extremes: a reduce_window whose windows begin (or end) at the first (or last)
// element. Rows lie over partitions; the Vector engine's scan does one in a pass over its columns.
#include <algorithm>
#include <limits>

#include "compiler/analysis/device_type.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/analysis/values.h"
#include "compiler/lowering/lowering.h"
#include "compiler/lowering/matrix.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

std::optional<AluOp> alu_of_scan(const Function& function, const Op& op) {
  const auto combiner = combiner_of(function, op);
  if (!combiner) return std::nullopt;
  switch (*combiner) {
    case OpKind::add_: return AluOp::kAdd;
    case OpKind::multiply_: return AluOp::kMultiply;
    case OpKind::maximum_: return AluOp::kMaximum;
    case OpKind::minimum_: return AluOp::kMinimum;
    default: return std::nullopt;
  }
}

// A number that changes nothing: the padding is met as often as windows are long.
bool begins_with_neutral(const Function& function, const Op& op) {
  const auto start = splat_of(function, op.operands[1]);
  if (!start) return false;
  switch (*combiner_of(function, op)) {
    case OpKind::add_: return *start == 0;
    case OpKind::multiply_: return *start == 1;
    case OpKind::maximum_: return *start == -std::numeric_limits<double>::infinity();
    default: return *start == std::numeric_limits<double>::infinity();
  }
}

}  // namespace

std::optional<RunningForm> running_form_of(const Function& function, const Op& op) {
  if (op.kind != OpKind::reduce_window_ || op.results.size() != 1 || !alu_of_scan(function, op))
    return std::nullopt;
  const graph::Type& type = function.type(op.operands[0]);
  if (!type.is_tensor() || !type.is_static() || type.quantization() || !graph::is_float(type.element()) ||
      !device_dtype(type.element()) || type != function.type(op.results[0]))
    return std::nullopt;
  if (!op.has(Attr::padding) || !begins_with_neutral(function, op)) return std::nullopt;
  const auto rank = static_cast<size_t>(type.rank());
  for (const Attr attr : {Attr::window_strides, Attr::base_dilations, Attr::window_dilations})
    if (!std::ranges::all_of(op.integers_or(attr, rank, 1), [](int64_t step) { return step == 1; }))
      return std::nullopt;
  const std::vector<int64_t> sizes = op.integers_or(Attr::window_dimensions, rank, 1);
  std::optional<RunningForm> form;
  for (int64_t d = 0; d < type.rank(); ++d) {
    const int64_t length = type.dim(static_cast<int>(d)), low = op.matrix(Attr::padding).at(d, 0),
                  high = op.matrix(Attr::padding).at(d, 1);
    if (sizes[static_cast<size_t>(d)] == 1 && low == 0 && high == 0) continue;
    const bool forward = low == length - 1 && high == 0, backward = low == 0 && high == length - 1;
    if (form || sizes[static_cast<size_t>(d)] != length || length < 2 || !(forward || backward))
      return std::nullopt;
    form = RunningForm{.dimension = d, .length = length, .is_backward = backward};
  }
  return form;
}

bool has_scan(const Function& function, const Op& op) {
  const auto form = running_form_of(function, op);
  return form && form->length <= kScanColumns;
}

bool lower_scan(Lowering& lowering, const Op& op) {
  const Function& function = lowering.function();
  if (!has_scan(function, op)) return false;
  const RunningForm form = *running_form_of(function, op);
  Emitter& emitter = lowering.emitter();
  const AluOp alu = *alu_of_scan(function, op);
  const double start = *splat_of(function, op.operands[1]);
  const View source = lowering.view(op.operands[0]), whole = lowering.allocate(op.results[0]);
  if (whole.element_count() == 0) return true;
  const auto matrix = [&](const View& view) {
    std::vector<isa::Dim> rows;
    for (size_t d = 0; d < view.dims.size(); ++d)
      if (static_cast<int64_t>(d) != form.dimension) rows.push_back(view.dims[d]);
    return Matrix(view, rows, {view.dims[static_cast<size_t>(form.dimension)]});
  };
  const Matrix in = matrix(source), out = matrix(whole);
  // result = (1 * result) op element
  const Tile ones = emitter.sbuf(kPartitions, 1, DType::kFloat32, "ones");
  emitter.memset(ones, 1.0);
  for (int64_t row = 0; row < in.rows(); row += kPartitions) {
    const int64_t rows = std::min(kPartitions, in.rows() - row), columns = form.length;
    const Tile data = in.fetch(emitter, row, rows, 0, columns, "data");
    const Tile made = emitter.sbuf(rows, columns, whole.dtype, "running");
    const auto walked = [&](const Tile& tile) {
      return form.is_backward ? tile.patch(columns - 1, 1, 0, columns, -1) : tile;
    };
    emitter.scan(AluOp::kMultiply, alu, walked(made), ones.row_range(0, rows).repeated(columns), walked(data),
                 start);
    out.store(emitter, made, row, 0);
  }
  return true;
}

}  // namespace opentrn::compiler
