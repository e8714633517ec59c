#include "compiler/analysis/activation_op.h"

#include <string>

#include "compiler/analysis/graph_names.h"

namespace opentrn::compiler {

std::optional<ActivationFunction> activation_of_composite(const Op& op) {
  if (op.kind != OpKind::composite_) return std::nullopt;
  const std::string& name = op.string(Attr::name);
  if (name == kGelu) return ActivationFunction::kGelu;
  if (name == kGeluTanh) return ActivationFunction::kGeluApprxTanh;
  if (name == kSilu) return ActivationFunction::kSilu;
  return std::nullopt;
}

}  // namespace opentrn::compiler
