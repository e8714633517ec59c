#include "compiler/analysis/attention_op.h"

#include "compiler/analysis/graph_names.h"

namespace opentrn::compiler {

using graph::Dictionary;

std::optional<AttentionOp> attention_of(const Op& op) {
  if (op.kind != OpKind::composite_ || op.string(Attr::name) != kAttentionName) return std::nullopt;
  const Dictionary& attributes = *op.find(Attr::composite_attributes)->as_dictionary();
  AttentionOp made;
  made.scale = *attributes.find("scale")->second.get<double>();
  if (const auto found = attributes.find("cap"); found != attributes.end())
    made.cap = *found->second.get<double>();
  const graph::AttributeList& masks = *attributes.find("masks")->second.as_list();
  for (size_t i = 0; i < masks.size(); i += 2)
    made.masks.push_back({op.operands[3 + i / 2], *masks[i].get<bool>(), *masks[i + 1].get<double>()});
  if (attributes.contains("has_sink")) made.sink = op.operands[3 + made.masks.size()];
  if (const auto found = attributes.find("diagonal"); found != attributes.end()) {
    made.diagonal = *found->second.get<int64_t>();
    made.corner = op.operands.back();
  }
  return made;
}

bool are_few_queries(int64_t queries, int64_t keys, bool diagonal) {
  constexpr int64_t kPartitions = 128;
  return !diagonal && queries <= kFewQueriesMax && keys >= kFewQueriesKeysMin && keys % kPartitions == 0 &&
         keys / kPartitions * queries * static_cast<int64_t>(sizeof(float)) <= kFewQueriesScoreBytes;
}

bool takes_few_queries(const graph::Function& function, const Op& op) {
  const auto attention = attention_of(op);
  if (!attention) return false;
  const graph::Type &queries = function.type(op.operands[0]), &keys = function.type(op.operands[1]);
  return are_few_queries(queries.dim(queries.rank() - 2), keys.dim(keys.rank() - 2),
                         attention->diagonal.has_value());
}

}  // namespace opentrn::compiler
