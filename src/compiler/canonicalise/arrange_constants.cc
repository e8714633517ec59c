// Constants in the order in which kernels read them.
//
// A convolution reads its kernel as [input features, taps, output features], input features over partitions.
// Frameworks keep other orders ([output, input, taps] in PyTorch), in which neighbours on a partition lie
// apart in memory and DMA moves them one by one. A kernel that is a constant, or a slice of one (kernels that
// are too large are computed in parts), gets the order that is read; what is an argument stays in the order
// that the caller has, and is turned on the chip. Of a depthwise convolution channels go over partitions,
// each with its taps: the order is [channels, taps].
//
// A product with few rows by a constant whose rows are contracted, as PyTorch's Linear keeps its weights,
// would turn it in each run, which takes the Tensor engine longer than the product: it is transposed once,
// here.
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compiler/analysis/graph_names.h"
#include "compiler/canonicalise/passes.h"
#include "numerics/transpose.h"

namespace opentrn::compiler {

namespace {

bool is_dense_constant(const Function& function, ValueId value) {
  const OpId id = function.value(value).op;
  if (id == graph::kNoOp) return false;
  const Op& op = function.op(id);
  return op.kind == OpKind::constant_ && !op.literal(Attr::value).is_splat() &&
         !function.type(value).quantization();
}

}  // namespace

namespace {

// More rows than these are worth a transposed operand of their own.
constexpr int64_t kFewRows = 32;

// What slices and reshapes that add or drop dimensions of one show of a constant.
struct Shown {
  OpId constant;
  int64_t first = 0;                                   // element
  std::vector<std::pair<int64_t, int64_t>> dims = {};  // step in elements, count
};

std::optional<Shown> shown_by(const Function& function, ValueId value) {
  const OpId id = function.value(value).op;
  if (id == graph::kNoOp) return std::nullopt;
  const Op& op = function.op(id);
  const graph::Type& type = function.type(value);
  if (is_dense_constant(function, value)) {
    Shown shown{.constant = id};
    int64_t step = 1;
    for (int d = type.rank(); d-- > 0; step *= type.dim(d))
      shown.dims.insert(shown.dims.begin(), {step, type.dim(d)});
    return shown;
  }
  if (op.kind != OpKind::slice_ && op.kind != OpKind::reshape_) return std::nullopt;
  std::optional<Shown> shown = shown_by(function, op.operands[0]);
  if (!shown) return std::nullopt;
  if (op.kind == OpKind::slice_) {
    const auto starts = op.integers(Attr::start_indices), strides = op.integers(Attr::strides);
    for (size_t d = 0; d < shown->dims.size(); ++d) {
      shown->first += starts[d] * shown->dims[d].first;
      shown->dims[d] = {shown->dims[d].first * strides[d], type.dim(static_cast<int>(d))};
    }
    return shown;
  }
  std::erase_if(shown->dims, [](const auto& dim) { return dim.second == 1; });
  std::vector<std::pair<int64_t, int64_t>> dims;
  size_t at = 0;
  for (const int64_t count : type.dims()) {
    if (count != 1 && (at == shown->dims.size() || shown->dims[at].second != count)) return std::nullopt;
    dims.emplace_back(count == 1 ? 0 : shown->dims[at++].first, count);
  }
  shown->dims = std::move(dims);
  return shown;
}

// Whether it is a product with few rows by [free, contracted].
bool turns_right_operand(const Function& function, const Op& op) {
  if (op.kind != OpKind::dot_general_ || !op.has(Attr::rhs_contracting_dimensions)) return false;
  const graph::Type &right = function.type(op.operands[1]), &result = function.type(op.results[0]);
  const auto contracted = op.integers(Attr::rhs_contracting_dimensions);
  const bool batched =
      op.has(Attr::rhs_batching_dimensions) && !op.integers(Attr::rhs_batching_dimensions).empty();
  return right.is_tensor() && right.is_static() && !right.quantization() &&
         graph::is_float(right.element()) && graph::bit_width(right.element()) >= 16 && result.is_static() &&
         !batched && right.rank() == 2 && contracted.size() == 1 && contracted[0] == 1 &&
         right.element_count() > 0 && result.element_count() / right.dim(0) <= kFewRows;
}

graph::Literal transposed(const Function& function, const Shown& shown, const graph::Type& type) {
  const auto bytes = function.op(shown.constant).literal(Attr::value).dense();
  const int64_t size = graph::storage_bytes(type.element());
  const auto [row_step, rows] = shown.dims[0];
  const auto [step, columns] = shown.dims[1];
  std::vector<std::byte> made(static_cast<size_t>(type.element_count() * size));
  const std::byte* const from = bytes.data() + shown.first * size;
  if (step == 1 || columns == 1) {
    numerics::transpose(static_cast<int>(size), from, static_cast<size_t>(row_step),
                        static_cast<size_t>(rows), static_cast<size_t>(columns), made.data(),
                        static_cast<size_t>(rows));
    return graph::Literal(type, std::move(made));
  }
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(made.data() + (column * rows + row) * size, from + (row * row_step + column * step) * size,
                  static_cast<size_t>(size));
  return graph::Literal(type, std::move(made));
}

int64_t turn_operands_of_few_rows(Function& function) {
  std::map<ValueId, std::vector<OpId>> readers;
  graph::walk(function, function.body(), [&](OpId id) {
    if (turns_right_operand(function, function.op(id))) readers[function.op(id).operands[1]].push_back(id);
  });
  int64_t changed = 0;
  for (const auto& [right, products] : readers) {
    const auto shown = shown_by(function, right);
    if (!shown) continue;
    const graph::Type given = function.type(right), type = given.with_dims({given.dim(1), given.dim(0)});
    const graph::Literal literal = transposed(function, *shown, type);
    const OpId made =
        function.insert(function.body(), 0, OpKind::constant_, {}, {type}, function.op(products[0]).location);
    function.op(made).set(Attr::value, literal);
    for (const OpId product : products) {
      function.op(product).operands[1] = function.op(made).results[0];
      function.op(product).set(Attr::rhs_contracting_dimensions, std::vector<int64_t>{0});
    }
    changed += static_cast<int64_t>(products.size());
  }
  return changed;
}

// The slice of a constant that the value is, nothing for others.
std::optional<OpId> slice_of_constant(const Function& function, ValueId value) {
  const OpId id = function.value(value).op;
  if (id == graph::kNoOp) return std::nullopt;
  const Op& op = function.op(id);
  if (op.kind != OpKind::slice_ || !is_dense_constant(function, op.operands[0])) return std::nullopt;
  return id;
}

std::vector<int64_t> permuted(std::span<const int64_t> values, const std::vector<int64_t>& order) {
  std::vector<int64_t> made;
  for (const int64_t d : order) made.push_back(values[static_cast<size_t>(d)]);
  return made;
}

// The constant with its dimensions in this order, in front of op `at` of the body.
ValueId in_order(Function& function, size_t& at, ValueId constant, const std::vector<int64_t>& order,
                 graph::LocationId location) {
  const graph::Type type = function.type(constant);
  const OpId made = function.insert(function.body(), at++, OpKind::transpose_, {constant},
                                    {type.with_dims(permuted(type.dims(), order))}, location);
  function.op(made).set(Attr::permutation, order);
  return function.op(made).results[0];
}

// Slices of one constant take parts of one transposed one.
using Transposed = std::map<std::pair<ValueId, std::vector<int64_t>>, ValueId>;

ValueId slice_in_order(Function& function, size_t& at, OpId slice, const std::vector<int64_t>& order,
                       Transposed& transposed) {
  const Op op = function.op(slice);
  const auto [found, is_new] = transposed.try_emplace({op.operands[0], order});
  if (is_new) found->second = in_order(function, at, op.operands[0], order, op.location);
  const graph::Type type = function.type(op.results[0]);
  const OpId made = function.insert(function.body(), at++, OpKind::slice_, {found->second},
                                    {type.with_dims(permuted(type.dims(), order))}, op.location);
  for (const Attr name : {Attr::start_indices, Attr::limit_indices, Attr::strides})
    function.op(made).set(name, permuted(op.integers(name), order));
  return function.op(made).results[0];
}

// The kernel's dimensions as they are read.
std::vector<int64_t> kernel_order(const Function& function, const Op& op) {
  const int64_t in = op.integer(Attr::kernel_input_feature_dimension),
                out = op.integer(Attr::kernel_output_feature_dimension),
                groups = op.integer(Attr::feature_group_count);
  const graph::Type& kernel = function.type(op.operands[1]);
  const bool is_depthwise =
      groups > 1 && kernel.dim(static_cast<int>(in)) == 1 && kernel.dim(static_cast<int>(out)) == groups;
  std::vector<int64_t> order{is_depthwise ? out : in};
  for (const int64_t d : op.integers(Attr::kernel_spatial_dimensions)) order.push_back(d);
  order.push_back(is_depthwise ? in : out);
  return order;
}

}  // namespace

int64_t arrange_constants(Function& function) {
  int64_t changed = turn_operands_of_few_rows(function);
  const graph::BlockId body = function.body();
  Transposed whole;
  for (size_t at = 0; at < function.block(body).ops.size(); ++at) {
    const OpId id = function.block(body).ops[at];
    const Op op = function.op(id);
    if (op.kind != OpKind::convolution_) continue;
    const auto slice = slice_of_constant(function, op.operands[1]);
    if (!slice && !is_dense_constant(function, op.operands[1])) continue;
    const std::vector<int64_t> order = kernel_order(function, op);
    if (std::is_sorted(order.begin(), order.end())) continue;
    std::vector<int64_t> taps;
    for (size_t i = 1; i + 1 < order.size(); ++i) taps.push_back(static_cast<int64_t>(i));
    const ValueId kernel = slice ? slice_in_order(function, at, *slice, order, whole)
                                 : in_order(function, at, op.operands[1], order, op.location);
    Op& convolution = function.op(id);
    convolution.operands[1] = kernel;
    const auto now = [&](Attr dimension) {
      return static_cast<int64_t>(std::ranges::find(order, op.integer(dimension)) - order.begin());
    };
    for (const Attr dimension : {Attr::kernel_input_feature_dimension, Attr::kernel_output_feature_dimension})
      convolution.set(dimension, now(dimension));
    convolution.set(Attr::kernel_spatial_dimensions, taps);
    ++changed;
  }
  return changed;
}

}  // namespace opentrn::compiler
