#include "compiler/analysis/host_call.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Op;
using graph::OpKind;

bool is_host_call(const Op& op) {
  return op.kind == OpKind::custom_call_ && op.string(Attr::call_target_name) == kHostTarget;
}

std::string host_title(const Op& op) { return *op.extra->at("opentrn.title").get<std::string>(); }

double host_flops(const Op& op) { return *op.extra->at("opentrn.flops").get<double>(); }

}  // namespace opentrn::compiler
