// A mixture of experts in place of a layer's feed-forward part.
#pragma once

#include <functional>
#include <vector>

#include "decoder/step_ops.h"

namespace opentrn::decoder {

class ExpertOps : public StepOps {
 public:
  using StepOps::StepOps;

 protected:
  // What the experts make of normed rows [rows, hidden] f32. `taken_are_read`: those weights are gathered
  // that a row takes, in place of reading all.
  ValueId mixture(ValueId normal, bool taken_are_read);

 private:
  // What one choice of experts is: a row's expert as a number [rows] i32 and as ones and zeros, and its
  // weight.
  struct Choice {
    ValueId number{}, one_hot{}, weight{};  // [rows], [rows, experts], [rows] f32
  };

  ValueId shared(ValueId normal);
  // By which experts are compared, [rows, experts]: kMasked for those of groups that are not taken.
  ValueId of_taken_groups(ValueId ranked);
  // The first of the largest ones of the last dimension: what it is, and where, as ones.
  struct Largest {
    ValueId value{}, number{}, is_it{};  // without the last dimension, also as i32; with it, pred
  };
  Largest largest_of(ValueId values);
  // The largest scores first, of equal ones the first.
  std::vector<Choice> choices_of(ValueId scores);
  // What experts read, and what one gives of rows of it by their shares [rows]; `part`: one expert's rows of
  // a weight.
  struct Weighing {
    ValueId in{};
    std::function<ValueId(ValueId in, ValueId share, const WeightOf& part)> expert;
  };
  Weighing weighing_of(ValueId normal);
  // Every expert, with weight 0 for those that a row does not take.
  ValueId all_experts(const Weighing& weighing, const std::vector<Choice>& choices);
  // Each row's own experts, whose weights are gathered by number.
  ValueId taken_experts(const Weighing& weighing, const std::vector<Choice>& choices);
  ValueId through_expert(ValueId in, const WeightOf& part);
  ValueId rows_of_expert(std::string_view name, int64_t expert);
  ValueId gathered(std::string_view name, ValueId expert);
};

}  // namespace opentrn::decoder
