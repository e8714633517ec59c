#include "planner/interval.h"

#include <fmt/format.h>

namespace opentrn::planner {

Interval interval_of(const arch::Tables& tables, const Stack& stack, const Machine& machine, double step_s) {
  const auto number = [&](const char* member) {
    return tables.facts().at(fmt::format("planner.stack.{}.{}", stack.name, member)).as<double>();
  };
  double low = number("measured_to_predicted_low"), high = number("measured_to_predicted_high");
  // Nothing was ever published of training on these: the program's residuals on Trn1, doubled.
  const bool measured = machine.kind != Kind::kNeuron || machine.chip == "Trainium";
  if (!measured) {
    low *= low;
    high *= high;
  }
  return {step_s * low, step_s * high, measured};
}

}  // namespace opentrn::planner
