#include "graph/op_kind.h"

#include <array>
#include <unordered_map>

namespace opentrn::graph {

namespace {

constexpr std::array<std::string_view, kOpKindCount> kOpNames{
#define X(name) "stablehlo." #name,
    OPENTRN_GRAPH_STABLEHLO_OPS(X)
#undef X
#define X(name) "chlo." #name,
        OPENTRN_GRAPH_CHLO_OPS(X)
#undef X
            "func.call",
};

}  // namespace

std::string_view name(OpKind kind) { return kOpNames[static_cast<size_t>(kind)]; }

std::optional<OpKind> op_kind_from_name(std::string_view name) {
  static const auto index = [] {
    std::unordered_map<std::string_view, OpKind> kinds;
    for (int i = 0; i < kOpKindCount; ++i) kinds.emplace(kOpNames[i], static_cast<OpKind>(i));
    kinds.emplace("call", OpKind::call_);
    kinds.emplace("return", OpKind::return_);
    kinds.emplace("func.return", OpKind::return_);
    return kinds;
  }();
  const auto found = index.find(name);
  if (found == index.end()) return std::nullopt;
  return found->second;
}

}  // namespace opentrn::graph
