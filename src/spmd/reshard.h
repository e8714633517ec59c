// Ops that move an array from one way of lying over devices to another.
#pragma once

#include <map>

#include "graph/builder.h"
#include "graph/module.h"
#include "spmd/cuts.h"

namespace opentrn::spmd {

// For one function of one device.
class Resharder {
 public:
  Resharder(graph::Module& module, graph::Function& function, const AxisGrid& grid)
      : module_(module), function_(function), grid_(grid) {}

  // Appends to `block` what makes of `value`, the part that a device holds of an array of type `whole` under
  // the cuts `from`, its part under `to`. Devices gather what they need and keep their share of it; cuts that
  // go from one dimension to another exchange their parts (all_to_all) where the sizes allow it.
  graph::ValueId reshard(graph::ValueId value, const graph::Type& whole, const Cuts& from, const Cuts& to,
                         graph::BlockId block);
  // Terms of devices that differ along the axes, combined; every device has the result.
  graph::ValueId all_reduce(graph::ValueId value, const Axes& axes, graph::OpKind combiner,
                            graph::BlockId block);
  // The value where index() of the axes is 0, zero elsewhere: terms whose sum it is.
  graph::ValueId first_term(graph::ValueId value, const Axes& axes, graph::BlockId block);
  // Of a dimension of which each device holds a part along the axes: the dimension, zero outside of the part.
  graph::ValueId in_place(graph::ValueId value, const Axes& axes, int64_t dim, graph::BlockId block);
  // The same as all_reduce() where each then keeps its share of a dimension.
  graph::ValueId reduce_scatter(graph::ValueId value, const Axes& axes, graph::OpKind combiner, int64_t dim,
                                graph::BlockId block);
  // What is padding under the cuts becomes the combiner's neutral element.
  graph::ValueId without_padding(graph::ValueId value, const graph::Type& whole, const Cuts& cuts,
                                 graph::OpKind combiner, graph::BlockId block);

  // The s32 scalar AxisGrid::index() of the device; made once, at the front of the function.
  graph::ValueId index(const Axes& axes);

 private:
  graph::ValueId gathered(graph::ValueId value, const Axes& axes, int64_t dim, graph::BlockId block);
  graph::ValueId shared_out(graph::ValueId value, const Axes& axes, int64_t dim, graph::BlockId block);
  graph::ValueId padded(graph::ValueId value, int64_t dim, int64_t size, graph::BlockId block);
  graph::Builder builder(graph::BlockId block) { return {module_, function_, block}; }
  graph::Builder::Attributes groups(const Axes& axes);
  graph::RegionBody combining(graph::OpKind combiner, graph::ElementType element) const;

  graph::Module& module_;
  graph::Function& function_;
  const AxisGrid& grid_;
  std::map<Axes, graph::ValueId> indices_;
  int64_t channels_ = 0;
};

}  // namespace opentrn::spmd
