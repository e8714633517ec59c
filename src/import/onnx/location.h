// Where a node comes from, as exporters say it beside the graph.
#pragma once

#include "graph/module.h"
#include "import/onnx/proto.h"

namespace opentrn::import::onnx {

// The node's name. PyTorch's exporter (torch.onnx.export(dynamo=True)) keeps in the node's metadata the
// modules around it, which become the path of the name ("model/encoder/layer.0/linear_3"), and the stack of
// the user's Python, whose innermost frame becomes file and line. Both are read leniently: what is not as
// expected is left out, a location is never a reason to refuse a model.
graph::Location location_of(const NodeProto& node);

}  // namespace opentrn::import::onnx
