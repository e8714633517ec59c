// Weights that many products read, as those of layers that share them do (ALBERT, Perceiver): they are loaded
// as a whole before the first and stay in SBUF while there is room (residency.h), where each product would
// load them again.
#include <algorithm>
#include <optional>
#include <vector>

#include "compiler/lowering/lowering.h"

namespace opentrn::compiler {

using graph::Attr;
using graph::Function;
using graph::Op;
using graph::OpKind;
using graph::ValueId;

namespace {

// A pass forward and a pass backward read a weight twice, and everything else lies between.
constexpr size_t kReadsMin = 3;

// The weight of a product as it lies in memory: an argument of rows that are contracted.
std::optional<ValueId> weight_of(const Function& function, const Op& op) {
  if (op.kind != OpKind::dot_general_) return std::nullopt;
  const ValueId weight = op.operands[1];
  const std::vector<int64_t> contracted = op.integers_or(Attr::rhs_contracting_dimensions, 0, 0);
  const graph::Type& type = function.type(weight);
  if (type.rank() != 2 || contracted.size() != 1 || contracted[0] != 0) return std::nullopt;
  const auto arguments = function.arguments();
  return std::ranges::find(arguments, weight) == arguments.end() ? std::nullopt : std::optional(weight);
}

}  // namespace

void Lowering::find_shared_weights() {
  const Scope& scope = *scopes_.back();
  for (size_t place = 0; place < scope.order.size(); ++place)
    for (const graph::OpId id : scope.plan.groups()[static_cast<size_t>(scope.order[place])].all_ops())
      if (const auto weight = weight_of(function_, function_.op(id)))
        shared_weights_[*weight].push_back(place);
  std::erase_if(shared_weights_, [](const auto& entry) { return entry.second.size() < kReadsMin; });
}

void Lowering::keep_shared_weights(size_t place) {
  if (shared_weights_.empty()) return;
  const Scope& scope = *scopes_.back();
  for (const graph::OpId id : scope.plan.groups()[static_cast<size_t>(scope.order[place])].all_ops()) {
    const auto weight = weight_of(function_, function_.op(id));
    const auto found = weight ? shared_weights_.find(*weight) : shared_weights_.end();
    if (found == shared_weights_.end() || found->second.back() == place) continue;
    const View whole = view(*weight);
    if (!is_argument_that_stays(whole.tensor) || residency_.holds(whole.tensor)) continue;
    const int64_t rows = function_.type(*weight).dim(0), columns = function_.type(*weight).dim(1);
    residency_.expect(whole.tensor, found->second);
    if (!residency_.reserve(whole, rows, columns)) continue;
    residency_.loaded(whole.tensor);  // nothing of it is ever to be stored
    begin_op(id);
    for (int64_t row = 0; row < rows; row += kPartitions) {
      const Tile tile =
          emitter_.sbuf(std::min(kPartitions, rows - row), columns, whole.dtype, "shared_weight");
      emitter_.load(
          tile,
          {whole.tensor, whole.dtype, whole.offset + row * columns, {{columns, tile.rows}, {1, columns}}});
      OPENTRN_CHECK(residency_.adopt(whole.tensor, row, tile), "whole rows of a weight are a tile of it");
    }
  }
}

}  // namespace opentrn::compiler
