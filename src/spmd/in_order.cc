#include "spmd/in_order.h"

#include <algorithm>
#include <map>

#include "base/fault.h"
#include "spmd/schedule.h"

namespace opentrn::spmd {

std::vector<double> stretches(std::span<const OrderedStep> steps) {
  std::vector<Step> scheduled;
  std::vector<ValueNumber> before;               // a collective from here on: what must be there
  std::map<int, ValueNumber> collective_before;  // by stream
  for (size_t i = 0; i < steps.size(); ++i) {
    const OrderedStep& step = steps[i];
    const auto own = static_cast<ValueNumber>(i);  // what it writes
    if (step.stream < 0) {
      Part part{.ns = step.ns, .writes = {{own, step.ns}}};
      before = {own};  // and what it waits for, as a part of no time writes before it waits
      for (const int wait : step.waits) {
        OPENTRN_CHECK(
            wait >= 0 && static_cast<size_t>(wait) < i && steps[static_cast<size_t>(wait)].stream >= 0,
            "step {} waits for step {}, which is no collective before it", i, wait);
        part.reads.push_back({static_cast<ValueNumber>(wait), 0});
        before.push_back(static_cast<ValueNumber>(wait));
      }
      scheduled.emplace_back(std::move(part));
      continue;
    }
    Collective collective{
        .ns = step.ns, .stream = step.stream, .reads = before, .writes = {own}, .links = step.links};
    // Those of a stream keep their order, whoever is needed first.
    if (const auto found = collective_before.find(step.stream); found != collective_before.end())
      collective.reads.push_back(found->second);
    collective_before[step.stream] = own;
    scheduled.emplace_back(std::move(collective));
  }
  const Schedule made = schedule(scheduled);
  std::vector<double> out(steps.size(), 1.0);
  for (size_t i = 0; i < steps.size(); ++i)
    if (steps[i].stream >= 0 && steps[i].ns > 0)
      out[i] = std::max(1.0, (made.steps[i].end_ns - made.steps[i].start_ns) / steps[i].ns);
  return out;
}

}  // namespace opentrn::spmd
