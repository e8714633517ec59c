// Gather and scatter.
#include <algorithm>

#include "import/onnx/ops.h"

namespace opentrn::import::onnx {

namespace {

std::optional<OpKind> reduction_of(const Node& n) {
  const std::string reduction = n.string("reduction", "none");
  if (reduction == "add") return OpKind::add_;
  if (reduction == "mul") return OpKind::multiply_;
  if (reduction == "max") return OpKind::maximum_;
  if (reduction == "min") return OpKind::minimum_;
  n.check(reduction == "none", "reduction is '{}'", reduction);
  return std::nullopt;
}

}  // namespace

void import_gather(Node& n) {
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  n.set(0, n.emit.take_along(n.in(0), n.in(1), axis));
}

void import_gather_elements(Node& n) {
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  n.check(n.rank(0) == n.rank(1), "data of rank {} and indices of rank {}", n.rank(0), n.rank(1));
  n.set(0, n.emit.gather_elements(n.in(0), n.in(1), axis));
}

void import_gather_nd(Node& n) {
  const int64_t batch = n.integer("batch_dims", 0);
  n.check(n.rank(1) >= 1 && 0 <= batch && batch < std::min(n.rank(0), n.rank(1)), "batch_dims is {}", batch);
  n.check(n.emit.dim(n.in(1), n.rank(1) - 1) <= n.rank(0) - batch, "index vectors are too long");
  n.set(0, n.emit.gather_nd(n.in(0), n.in(1), batch));
}

void import_scatter_elements(Node& n) {
  const Emit& e = n.emit;
  const int64_t axis = n.axis(n.integer("axis", 0), n.rank(0));
  n.check(n.rank(0) == n.rank(1), "data of rank {} and indices of rank {}", n.rank(0), n.rank(1));
  const ValueId indices = e.wrap_indices(n.in(1), e.dim(n.in(0), axis));
  n.set(0, e.scatter_nd(n.in(0), e.element_indices(indices, axis), n.in(2), reduction_of(n)));
}

void import_scatter_nd(Node& n) {
  n.check(n.rank(1) >= 1, "indices are a scalar");
  n.check(n.emit.dim(n.in(1), n.rank(1) - 1) <= n.rank(0), "index vectors are too long");
  n.set(0, n.emit.scatter_nd(n.in(0), n.in(1), n.in(2), reduction_of(n)));
}

// A key-value cache gets new rows at each sequence's write position: past_cache [batch, .., length, ..],
// update of a shorter length.
void import_tensor_scatter(Node& n) {
  const Emit& e = n.emit;
  const ValueId cache = n.in(0);
  const ValueId update = n.in(1);
  const int64_t axis = n.axis(n.integer("axis", -2), n.rank(0));
  n.check(axis > 0, "axis is the batch dimension");
  const std::string mode = n.string("mode", "linear");
  n.check(mode == "linear" || mode == "circular", "mode is '{}'", mode);
  const ValueId start = n.has(2) ? n.in(2) : e.full(ElementType::kI64, {e.dim(cache, 0)}, 0);
  const Dims dims = e.dims(update);
  const ValueId step = e.iota(ElementType::kI64, dims, axis);
  Dims batch(dims.size(), 1);
  batch[0] = dims[0];
  ValueId place = e.add(step, e.broadcast_to(e.reshape(start, batch), dims));
  if (mode == "circular")
    place = e.binary(OpKind::remainder_, place, e.like(place, static_cast<double>(e.dim(cache, axis))));
  n.set(0, e.scatter_nd(cache, e.element_indices(place, axis), update, std::nullopt));
}

}  // namespace opentrn::import::onnx
