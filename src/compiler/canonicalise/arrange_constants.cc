// Constants in the order in which kernels read them.
//
// A convolution reads its kernel as [input features, taps, output features], input features over partitions.
// Frameworks keep other orders ([output, input, taps] in PyTorch), in which neighbours on a partition lie
// apart in memory and DMA moves them one by one. A kernel that is a constant gets the order that is read;
// what is an argument stays in the order that the caller has.
#include <algorithm>
#include <vector>

#include "compiler/canonicalise/passes.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Function;
using graph::Op;
using graph::OpId;
using graph::OpKind;
using graph::ValueId;

namespace {

bool is_dense_constant(const Function& function, ValueId value) {
  const OpId id = function.value(value).op;
  if (id == graph::kNoOp) return false;
  const Op& op = function.op(id);
  return op.kind == OpKind::constant_ && !op.literal(Attr::value).is_splat() &&
         !function.type(value).quantization();
}

}  // namespace

int64_t arrange_constants(Function& function) {
  int64_t changed = 0;
  const graph::BlockId body = function.body();
  for (size_t at = 0; at < function.block(body).ops.size(); ++at) {
    const OpId id = function.block(body).ops[at];
    const Op op = function.op(id);
    if (op.kind != OpKind::convolution_ || !is_dense_constant(function, op.operands[1])) continue;
    std::vector<int64_t> order{op.integer(Attr::kernel_input_feature_dimension)};
    for (const int64_t d : op.integers(Attr::kernel_spatial_dimensions)) order.push_back(d);
    order.push_back(op.integer(Attr::kernel_output_feature_dimension));
    if (std::is_sorted(order.begin(), order.end())) continue;
    const graph::Type type = function.type(op.operands[1]);
    std::vector<int64_t> dims, taps;
    for (const int64_t d : order) dims.push_back(type.dim(static_cast<int>(d)));
    for (size_t i = 1; i + 1 < order.size(); ++i) taps.push_back(static_cast<int64_t>(i));
    const OpId turned = function.insert(body, at++, OpKind::transpose_, {op.operands[1]},
                                        {type.with_dims(dims)}, op.location);
    function.op(turned).set(Attr::permutation, order);
    Op& convolution = function.op(id);
    convolution.operands[1] = function.op(turned).results[0];
    convolution.set(Attr::kernel_input_feature_dimension, int64_t{0});
    convolution.set(Attr::kernel_spatial_dimensions, taps);
    convolution.set(Attr::kernel_output_feature_dimension, static_cast<int64_t>(order.size()) - 1);
    ++changed;
  }
  return changed;
}

}  // namespace opentrn::compiler
