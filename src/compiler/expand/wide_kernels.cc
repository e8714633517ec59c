// Convolutions whose kernel SBUF cannot hold, as sums over parts of its taps. Most of them give the gradient
// of weights: their kernel is the gradient of a result, with a tap for every place. (A product per place,
// contracting over channels and taps, was tried: 2 to 10 times the time on the timing model, for loads that
// turn the images.)
#include <algorithm>
#include <optional>

#include "compiler/analysis/dims.h"
#include "compiler/analysis/graph_names.h"
#include "compiler/expand/expand.h"
#include "compiler/lowering/takes.h"

namespace opentrn::compiler {

namespace {

// Bytes of a partition that one part of a kernel may take: twice that of lowering/convolution.cc's, which
// holds at least a tile of features.
constexpr int64_t kKernelBytesMax = 80 * 1024;

bool is_plain(const Function& function, const Op& op) {
  for (const ValueId id : {op.operands[0], op.operands[1], op.results[0]}) {
    const graph::Type& type = function.type(id);
    if (!type.is_tensor() || !type.is_static() || type.quantization() || !graph::is_float(type.element()) ||
        type.element_count() == 0)
      return false;
  }
  const size_t rank = op.integers(Attr::kernel_spatial_dimensions).size();
  const auto reversal = op.integers_or(Attr::window_reversal, rank, 0);
  return std::ranges::all_of(reversal, [](int64_t reversed) { return reversed == 0; });
}

graph::IntMatrix padding_of(const Op& op, size_t rank) {
  if (op.has(Attr::padding)) return op.matrix(Attr::padding);
  return {static_cast<int64_t>(rank), 2, Dims(2 * rank, 0)};
}

bool has_large_kernel(const Function& function, const Op& op) {
  return is_plain(function, op) && op.integer(Attr::batch_group_count) == 1 &&
         count_of(function.type(op.operands[1]), dims_of(op, Attr::kernel_spatial_dimensions)) > 1 &&
         convolution_kernel_bytes(function, op) > kKernelBytesMax;
}

// Taps [begin, end) along spatial dimension i.
ValueId taps_of(Builder& builder, const Op& op, std::span<const ValueId> operands, const graph::Type& type,
                size_t i, int64_t begin, int64_t end) {
  const Dims taps = dims_of(op, Attr::kernel_spatial_dimensions);
  const int64_t dilation = op.integers_or(Attr::rhs_dilation, taps.size(), 1)[i],
                count = builder.type(operands[1]).dim(static_cast<int>(taps[i]));
  graph::IntMatrix padding = padding_of(op, taps.size());
  padding.values[2 * i] -= begin * dilation;
  padding.values[2 * i + 1] -= (count - end) * dilation;
  Builder::Attributes attributes;
  for (const auto& [attr, value] : op.attributes)
    if (attr != Attr::padding) attributes.emplace_back(attr, value);
  attributes.emplace_back(Attr::padding, graph::Attribute(std::move(padding)));
  return builder.add(OpKind::convolution_, {operands[0], part_of(builder, operands[1], taps[i], begin, end)},
                     std::move(attributes), {type.with_element(ElementType::kF32)});
}

std::vector<ValueId> in_parts(Builder& builder, const Function& function, const Op& op,
                              std::span<const ValueId> operands) {
  const Dims taps = dims_of(op, Attr::kernel_spatial_dimensions);
  const graph::Type &kernel = function.type(op.operands[1]), &type = function.type(op.results[0]);
  size_t longest = 0;
  for (size_t i = 1; i < taps.size(); ++i)
    if (kernel.dim(static_cast<int>(taps[i])) > kernel.dim(static_cast<int>(taps[longest]))) longest = i;
  const int64_t count = kernel.dim(static_cast<int>(taps[longest])),
                parts = std::min(
                    count, (convolution_kernel_bytes(function, op) + kKernelBytesMax - 1) / kKernelBytesMax),
                step = (count + parts - 1) / parts;
  std::optional<Expr> sum;
  for (int64_t begin = 0; begin < count; begin += step) {
    const Expr part(builder,
                    taps_of(builder, op, operands, type, longest, begin, std::min(count, begin + step)));
    sum = sum ? *sum + part : part;
  }
  return {sum->as(type.element()).id()};
}

constexpr Expansion kWideKernelExpansions[] = {{OpKind::convolution_, has_large_kernel, in_parts}};

}  // namespace

std::span<const Expansion> wide_kernel_expansions() { return kWideKernelExpansions; }

}  // namespace opentrn::compiler
