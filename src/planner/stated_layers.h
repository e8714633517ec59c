// Layer times that the user states: measured, or another tool's.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <tuple>

#include "planner/layer_times.h"

namespace opentrn::planner {

class StatedLayers final : public LayerSource {
 public:
  // CSV with the columns tp,cp,sp,micro_batch,forward_us,backward_us,output_us: microseconds of one block's
  // micro-batch on a rank, and of the output layer with the loss. sp: 0 or 1. `origin` names the text in
  // errors. Input faults "plan.rows": with the line.
  StatedLayers(std::string_view text, const std::string& origin);

  std::string_view name() const override { return "stated"; }
  std::optional<LayerTimes> layers(const Job& job, const Machine& machine, const Layout& layout,
                                   std::string& why) override;
  std::optional<ServeTimes> serve(const Model& model, Precision precision, const Machine& machine, int tp,
                                  const ServeStep& step, std::string& why) override;

 private:
  std::map<std::tuple<int, int, bool, int>, LayerTimes> rows_;
};

}  // namespace opentrn::planner
