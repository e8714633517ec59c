#include "compiler/analysis/host_call.h"

#include "compiler/analysis/graph_names.h"

namespace opentrn::compiler {

bool is_host_call(const Op& op) {
  return op.kind == OpKind::custom_call_ && op.string(Attr::call_target_name) == kHostTarget;
}

std::string host_title(const Op& op) { return *op.extra->at("opentrn.title").get<std::string>(); }

double host_flops(const Op& op) { return *op.extra->at("opentrn.flops").get<double>(); }

}  // namespace opentrn::compiler
