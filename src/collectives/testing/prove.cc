// opentrn_collectives_prove [LAST [FIRST]]: proves every algorithm, operation, root and kind of layout on
// FIRST (1) to LAST (64) ranks, and prints what it took. Status 1 when a plan is not proved.
#include <chrono>
#include <cstdlib>

#include <fmt/format.h>

#include "collectives/testing/cases.h"
#include "collectives/verify.h"

int main(int argc, char** argv) {
  using namespace opentrn::collectives;
  const int last = argc > 1 ? std::atoi(argv[1]) : 64, first = argc > 2 ? std::atoi(argv[2]) : 1;
  const auto start = std::chrono::steady_clock::now();
  int64_t plans = 0, steps = 0, wrong = 0;
  size_t largest = 0;
  for (int ranks = first; ranks <= last; ++ranks)
    for_each_case(ranks, true, [&](const Case& one) {
      check(one.request);
      check(one.layout, ranks);
      const Plan plan = one.algorithm.plan(one.request, one.layout);
      ++plans;
      steps += static_cast<int64_t>(plan.step_count());
      largest = std::max(largest, plan.step_count());
      for (const Finding& finding : verify(plan)) {
        fmt::print("{}: {}: {}\n", one.name, finding.label, finding.text);
        ++wrong;
      }
    });
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  fmt::print("{} plans of {} steps on {} to {} ranks, the largest of {} steps, {:.1f} s: {} findings\n",
             plans, steps, first, last, largest, seconds.count(), wrong);
  return wrong == 0 ? 0 : 1;
}
