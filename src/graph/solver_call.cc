#include "graph/solver_call.h"

#include <string>

namespace opentrn::graph {

std::optional<Solver> solver_of(const Op& op) {
  if (op.kind != OpKind::custom_call_) return std::nullopt;
  const std::string& target = op.string(Attr::call_target_name);
  if (!target.starts_with("opentrn.")) return std::nullopt;
  const std::string_view name = std::string_view(target).substr(sizeof("opentrn.") - 1);
  if (name == "geqrf") return Solver::kGeqrf;
  if (name == "ormqr") return Solver::kOrmqr;
  if (name == "getrf") return Solver::kGetrf;
  if (name == "eigh") return Solver::kEigh;
  if (name == "svd") return Solver::kSvd;
  return std::nullopt;
}

bool solver_says(const Op& op, std::string_view word) {
  const Attribute* config = op.find(Attr::backend_config);
  const auto* text = config ? config->get<std::string>() : nullptr;
  if (!text) return false;
  for (std::string_view rest = *text; !rest.empty();) {
    const size_t end = rest.find(' ');
    if (rest.substr(0, end) == word) return true;
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return false;
}

}  // namespace opentrn::graph
