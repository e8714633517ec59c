#include "decoder/experts.h"

#include <vector>

#include "graph/builder.h"

namespace opentrn::decoder {

using graph::Attr;
using graph::Attribute;
using graph::OpKind;
using graph::Type;

graph::ValueId ExpertOps::mixture(ValueId normal, bool taken_are_read) {
  at("router");
  ValueId scores = product(normal, {weight("router")});
  if (config_.expert_biases()) scores = biased(scores, "router_bias");
  const std::vector<Choice> choices = choices_of(scores);
  at("experts");
  // What experts read is rounded behind its weight where that meets it.
  const ValueId in = config_.experts_of_inputs ? normal : narrow(normal);
  const ValueId sum = taken_are_read ? taken_experts(in, choices) : all_experts(in, choices);
  return config_.shared_features == 0 ? sum : binary(OpKind::add_, sum, shared(normal));
}

graph::ValueId ExpertOps::shared(ValueId normal) {
  at("shared_expert");
  const ValueId in = narrow(normal);
  if (config_.experts_of_inputs) return gated(in, matrix("shared_gate_up"), matrix("shared_down"));
  const int64_t rows = builder_.type(normal).dim(0);
  const ValueId score = builder_.reshape(product(normal, {weight("shared_gate")}), {rows});
  const ValueId share = builder_.add(OpKind::logistic_, {score});
  return weighed(gated(in, matrix("shared_gate_up"), matrix("shared_down")), share);
}

std::vector<ExpertOps::Choice> ExpertOps::choices_of(ValueId scores) {
  const int64_t n = config_.experts;
  const Dims dims{builder_.type(scores).dim(0), n};
  const Type all = Type::tensor(kReal, dims), numbers = Type::tensor(kIndex, dims);
  const auto over_experts = [&](ValueId column) { return builder_.broadcast_in_dim(column, dims, {0}); };
  const ValueId largest = over_experts(builder_.reduce(OpKind::maximum_, scores, {1}));
  const ValueId raised =
      config_.experts_of_inputs
          ? scores
          : builder_.add(OpKind::exponential_, {builder_.add(OpKind::subtract_, {scores, largest})});
  const ValueId own =
      builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{1})}}, {numbers});
  ValueId left = raised, total{};
  std::vector<Choice> choices;
  for (int64_t i = 0; i < config_.experts_taken; ++i) {
    Choice choice;
    const ValueId best = builder_.reduce(OpKind::maximum_, left, {1});
    const ValueId is_best = builder_.compare(graph::ComparisonDirection::kEq, left, over_experts(best));
    choice.number = builder_.reduce(
        OpKind::minimum_,
        builder_.add(OpKind::select_, {is_best, own, builder_.splat(numbers, static_cast<double>(n - 1))}),
        {1});
    const ValueId is_taken =
        builder_.compare(graph::ComparisonDirection::kEq, own, over_experts(choice.number));
    choice.one_hot = builder_.convert(is_taken, kReal);
    choice.weight = best;
    // Below every score, so that none is taken twice.
    left = builder_.add(OpKind::select_, {is_taken, builder_.splat(all, kMasked), left});
    total = i == 0 ? best : builder_.add(OpKind::add_, {total, best});
    choices.push_back(choice);
  }
  if (config_.experts_of_inputs) {
    for (Choice& choice : choices) choice.weight = builder_.add(OpKind::logistic_, {choice.weight});
    return choices;
  }
  if (!config_.expert_weights_sum_to_1) total = builder_.reduce(OpKind::add_, raised, {1});
  for (Choice& choice : choices) choice.weight = builder_.add(OpKind::divide_, {choice.weight, total});
  return choices;
}

graph::ValueId ExpertOps::all_experts(ValueId in, const std::vector<Choice>& choices) {
  const int64_t rows = builder_.type(in).dim(0);
  const Dims dims{rows, config_.experts};
  ValueId shares{};
  for (const Choice& choice : choices) {
    const ValueId share = builder_.add(OpKind::multiply_,
                                       {choice.one_hot, builder_.broadcast_in_dim(choice.weight, dims, {0})});
    shares = &choice == &choices.front() ? share : builder_.add(OpKind::add_, {shares, share});
  }
  ValueId sum{};
  for (int64_t expert = 0; expert < config_.experts; ++expert) {
    const ValueId share = builder_.reshape(builder_.slice(shares, {0, expert}, {rows, expert + 1}), {rows});
    const ValueId made =
        weighed_expert(in, share, [&](std::string_view name) { return rows_of_expert(name, expert); });
    sum = expert == 0 ? made : builder_.add(OpKind::add_, {sum, made});
  }
  return sum;
}
graph::ValueId ExpertOps::weighed_expert(ValueId in, ValueId share, const WeightOf& part) {
  if (config_.experts_of_inputs) return through_expert(narrow(weighed(in, share)), part);
  return weighed(through_expert(in, part), share);
}
graph::ValueId ExpertOps::through_expert(ValueId in, const WeightOf& part) {
  const auto matrix = [&](const std::string& name) { return matrix_of(name, part); };
  if (!config_.expert_biases()) return gated(in, matrix("experts_gate_up"), matrix("experts_down"));
  return gated_within(in, matrix("experts_gate_up"), part("experts_gate_up_bias"), matrix("experts_down"),
                      part("experts_down_bias"));
}
graph::ValueId ExpertOps::rows_of_expert(std::string_view name, int64_t expert) {
  const ValueId all = weight(name);
  const int64_t rows = builder_.type(all).dim(0) / config_.experts, columns = builder_.type(all).dim(1);
  return builder_.slice(all, {expert * rows, 0}, {(expert + 1) * rows, columns});
}

graph::ValueId ExpertOps::taken_experts(ValueId in, const std::vector<Choice>& choices) {
  std::vector<ValueId> rows;
  for (int64_t row = 0; row < builder_.type(in).dim(0); ++row) {
    const ValueId own = builder_.slice(in, {row, 0}, {row + 1, config_.hidden});
    ValueId sum{};
    for (const Choice& choice : choices) {
      const ValueId number = builder_.slice(choice.number, {row}, {row + 1});
      const ValueId share = builder_.slice(choice.weight, {row}, {row + 1});
      const ValueId part =
          weighed_expert(own, share, [&](std::string_view name) { return gathered(name, number); });
      sum = &choice == &choices.front() ? part : builder_.add(OpKind::add_, {sum, part});
    }
    rows.push_back(sum);
  }
  if (rows.size() == 1) return rows[0];
  return builder_.concatenate(rows, 0);
}
graph::ValueId ExpertOps::gathered(std::string_view name, ValueId expert) {
  const ValueId all = weight(name);
  const int64_t rows = builder_.type(all).dim(0) / config_.experts;
  const Type numbers = Type::tensor(kIndex, {rows});
  const ValueId own =
      builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(int64_t{0})}}, {numbers});
  const ValueId first = builder_.add(OpKind::multiply_, {builder_.broadcast_in_dim(expert, {rows}, {0}),
                                                         builder_.splat(numbers, static_cast<double>(rows))});
  return rows_of(all, builder_.add(OpKind::add_, {first, own}));
}

}  // namespace opentrn::decoder
