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
  const Weighing weighing = weighing_of(normal);
  const ValueId sum = taken_are_read ? taken_experts(weighing, choices) : all_experts(weighing, choices);
  return config_.shared_features == 0 ? sum : binary(OpKind::add_, sum, shared(normal));
}

ExpertOps::Weighing ExpertOps::weighing_of(ValueId normal) {
  if (config_.expert_inputs_weighed)  // rounded behind their shares
    return {normal, [this](ValueId in, ValueId share, const WeightOf& part) {
              return through_expert(narrow(weighed(in, share)), part);
            }};
  return {narrow(normal), [this](ValueId in, ValueId share, const WeightOf& part) {
            return weighed(through_expert(in, part), share);
          }};
}

graph::ValueId ExpertOps::shared(ValueId normal) {
  at("shared_expert");
  const ValueId in = narrow(normal);
  if (!config_.shared_gate) return gated(in, matrix("shared_gate_up"), matrix("shared_down"));
  const int64_t rows = builder_.type(normal).dim(0);
  const ValueId score = builder_.reshape(product(normal, {weight("shared_gate")}), {rows});
  const ValueId share = builder_.add(OpKind::logistic_, {score});
  return weighed(gated(in, matrix("shared_gate_up"), matrix("shared_down")), share);
}

ExpertOps::Largest ExpertOps::largest_of(ValueId values) {
  const Dims dims = builder_.type(values).dims_vector();
  const auto last = static_cast<int64_t>(dims.size()) - 1;
  Dims places;
  for (int64_t i = 0; i < last; ++i) places.push_back(i);
  const auto over_last = [&](ValueId of) { return builder_.broadcast_in_dim(of, dims, places); };
  const Type numbers = Type::tensor(kIndex, dims);
  const ValueId own = builder_.add(OpKind::iota_, {}, {{Attr::iota_dimension, Attribute(last)}}, {numbers});
  Largest found;
  found.value = builder_.reduce(OpKind::maximum_, values, {last});
  const ValueId is_best = builder_.compare(graph::ComparisonDirection::kEq, values, over_last(found.value));
  const ValueId none = builder_.splat(numbers, static_cast<double>(dims.back() - 1));
  found.number =
      builder_.reduce(OpKind::minimum_, builder_.add(OpKind::select_, {is_best, own, none}), {last});
  found.is_it = builder_.compare(graph::ComparisonDirection::kEq, own, over_last(found.number));
  return found;
}

graph::ValueId ExpertOps::of_taken_groups(ValueId ranked) {
  const int64_t rows = builder_.type(ranked).dim(0), groups = config_.expert_groups;
  const int64_t in_group = config_.experts / groups;
  const ValueId values = builder_.reshape(ranked, {rows, groups, in_group});
  const Largest first = largest_of(values);
  ValueId left = first.value;
  if (config_.choice_bias) {
    const ValueId masked = builder_.splat(builder_.type(values), kMasked);
    const Largest second = largest_of(builder_.add(OpKind::select_, {first.is_it, masked, values}));
    left = binary(OpKind::add_, first.value, second.value);
  }
  ValueId taken{};
  for (int64_t i = 0; i < config_.groups_taken; ++i) {
    const Largest best = largest_of(left);
    taken = i == 0 ? best.is_it : binary(OpKind::or_, taken, best.is_it);
    left = builder_.add(OpKind::select_, {best.is_it, builder_.splat(builder_.type(left), kMasked), left});
  }
  const ValueId of_experts = builder_.reshape(
      builder_.broadcast_in_dim(taken, {rows, groups, in_group}, {0, 1}), {rows, config_.experts});
  return builder_.add(OpKind::select_, {of_experts, ranked, builder_.splat(builder_.type(ranked), kMasked)});
}

std::vector<ExpertOps::Choice> ExpertOps::choices_of(ValueId scores) {
  const Type all = builder_.type(scores);
  const Dims dims = all.dims_vector();
  const bool is_softmax = config_.expert_scores == ExpertScores::kSoftmax;
  ValueId raised = scores;
  if (config_.expert_scores == ExpertScores::kLogistic) raised = builder_.add(OpKind::logistic_, {scores});
  if (is_softmax) {
    const ValueId largest =
        builder_.broadcast_in_dim(builder_.reduce(OpKind::maximum_, scores, {1}), dims, {0});
    raised = builder_.add(OpKind::exponential_, {binary(OpKind::subtract_, scores, largest)});
  }
  ValueId left = config_.choice_bias ? biased(raised, "router_bias") : raised, total{};
  if (config_.expert_groups > 0) left = of_taken_groups(left);
  std::vector<Choice> choices;
  for (int64_t i = 0; i < config_.experts_taken; ++i) {
    const Largest best = largest_of(left);
    Choice choice{best.number, builder_.convert(best.is_it, kReal), best.value};
    if (config_.choice_bias)
      choice.weight = builder_.reduce(OpKind::add_, binary(OpKind::multiply_, choice.one_hot, raised), {1});
    // Below every score, so that none is taken twice.
    left = builder_.add(OpKind::select_, {best.is_it, builder_.splat(all, kMasked), left});
    total = i == 0 ? choice.weight : binary(OpKind::add_, total, choice.weight);
    choices.push_back(choice);
  }
  const bool is_divided = is_softmax || config_.expert_weights_sum_to_1;
  if (is_softmax && !config_.expert_weights_sum_to_1) total = builder_.reduce(OpKind::add_, raised, {1});
  for (Choice& choice : choices) {
    if (config_.expert_scores == ExpertScores::kLogisticOfTaken)
      choice.weight = builder_.add(OpKind::logistic_, {choice.weight});
    else if (is_divided)
      choice.weight = binary(OpKind::divide_, choice.weight, total);
    if (config_.expert_scale != 1) choice.weight = scaled(choice.weight, config_.expert_scale);
  }
  return choices;
}

graph::ValueId ExpertOps::all_experts(const Weighing& weighing, const std::vector<Choice>& choices) {
  const int64_t rows = builder_.type(weighing.in).dim(0);
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
    const ValueId made = weighing.expert(weighing.in, share,
                                         [&](std::string_view name) { return rows_of_expert(name, expert); });
    sum = expert == 0 ? made : builder_.add(OpKind::add_, {sum, made});
  }
  return sum;
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

graph::ValueId ExpertOps::taken_experts(const Weighing& weighing, const std::vector<Choice>& choices) {
  std::vector<ValueId> rows;
  for (int64_t row = 0; row < builder_.type(weighing.in).dim(0); ++row) {
    const ValueId own = builder_.slice(weighing.in, {row, 0}, {row + 1, config_.hidden});
    ValueId sum{};
    for (const Choice& choice : choices) {
      const ValueId number = builder_.slice(choice.number, {row}, {row + 1});
      const ValueId share = builder_.slice(choice.weight, {row}, {row + 1});
      const ValueId part =
          weighing.expert(own, share, [&](std::string_view name) { return gathered(name, number); });
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
