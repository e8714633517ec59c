// The page of `opentrn plan --html`: plan_page.html with the plans' JSON and the fastest plan's schedule in
// it.
#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "cli/embedded_page.h"
#include "cli/plan_options.h"
#include "planner/pipeline_events.h"

namespace opentrn::cli {
namespace {

// More cannot be told apart on a page; a schedule repeats itself after as many micro-batches as it has
// stages.
constexpr int kStagesMax = 64;
constexpr int64_t kMicroBatchesMax = 48, kEventsMax = 4000;

// One cycle of the pipeline: as many micro-batches as fill it and drain it, not all of a step's.
nlohmann::ordered_json schedule_json(const planner::Job& job, const Line& line) {
  const planner::Layout& layout = line.plan->layout;
  if (layout.pp > kStagesMax) return nullptr;
  const planner::MicroBatch each = planner::micro_batch_of(job, line.on->machine, line.on->stack, layout);
  int64_t shown = std::min({each.count, int64_t{2} * layout.pp + 2, kMicroBatchesMax});
  if (layout.vpp > 1) {  // whole rounds of the stages, which this schedule takes
    shown = std::max<int64_t>(layout.pp, shown / layout.pp * layout.pp);
    if (shown * layout.pp * layout.vpp * 2 > kEventsMax) shown = layout.pp;
  }
  if (layout.schedule != planner::Schedule::k1F1B) shown = std::min(each.count, int64_t{2} * layout.pp);
  std::vector<planner::StageTime> stages(layout.pp, {each.forward_s, each.backward_s, each.weight_s});
  const std::pair<planner::StageTime&, double> ends[] = {{stages.front(), each.first_share},
                                                         {stages.back(), each.last_share}};
  if (layout.pp > 1)
    for (const auto& [end, share] : ends)
      end = {share * each.forward_s, share * each.backward_s, share * each.weight_s};
  // A third of what the ends do is forward.
  stages.front().forward += each.first_s / 3;
  stages.front().backward += each.first_s * 2 / 3;
  stages.back().forward += each.last_s / 3;
  stages.back().backward += each.last_s * 2 / 3;
  std::vector<planner::PipelineEvent> events;
  const double total =
      planner::run_pipeline(layout.schedule, stages, layout.vpp, shown, each.send_s, &events).end_s;
  if (static_cast<int64_t>(events.size()) > kEventsMax) return nullptr;
  auto out = nlohmann::ordered_json::array();
  for (const planner::PipelineEvent& event : events)
    out.push_back({event.stage, event.micro_batch, event.kind == planner::PassKind::kForward ? 0 : 1,
                   event.chunk, event.start_s, event.end_s});
  return {{"stages", layout.pp},
          {"shown", shown},
          {"of", each.count},
          {"total_s", total},
          {"events", std::move(out)}};
}

}  // namespace

std::string plan_page(const arch::Tables& tables, const planner::Job& job, const PlanOptions& options,
                      const std::vector<Planned>& machines, const std::vector<Line>& lines) {
  auto data = nlohmann::ordered_json::parse(plan_json(tables, job, options, machines, lines));
  data["schedule"] = schedule_json(job, lines.front());
  return plan_page(data.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string plan_page(const std::string& json) {
  std::string escaped;  // `<` would end the script that holds the data
  for (const char c : json) c == '<' ? escaped += "\\u003c" : escaped += c;
  std::string page(embedded_plan_page());
  constexpr std::string_view kPlace = "{{data}}";
  return page.replace(page.find(kPlace), kPlace.size(), escaped);
}

}  // namespace opentrn::cli
