#include "collectives/values.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/fork.h"
#include "base/interrupt.h"
#include "base/task_graph.h"
#include "collectives/arithmetic.h"
#include "collectives/memories.h"
#include "collectives/rules.h"
#include "collectives/step_graph.h"

namespace opentrn::collectives {

namespace {

ThreadPool& pool() {
  static ThreadPool instance(default_thread_count());
  return instance;
}
ForkSafeMutex pool_turn;  // the pool serves one caller at a time

void run_step(const Plan& plan, const Memories& memories, int rank, const Step& step) {
  if (step.bytes == 0) return;
  const auto bytes = static_cast<size_t>(step.bytes);
  std::byte* to = memories.at(step.peer, step.to);
  const auto more = plan.more_sources(rank, step);
  const std::byte* from = memories.at(rank, step.from);
  if (!step.reduces && more.empty()) {
    std::memmove(to, from, bytes);
  } else {
    std::vector<const std::byte*> sources;
    if (step.reduces) sources.push_back(to);
    sources.push_back(from);
    for (const At& source : more) sources.push_back(memories.at(source.rank, source.slice));
    reduce_elements(plan.request.reduction, plan.request.dtype, sources, to, bytes);
  }
  if (const At* second = plan.second_target(rank, step))
    std::memmove(memories.at(second->rank, second->slice), to, bytes);
}

}  // namespace

void check_buffers(const Request& request, std::span<const RankBuffers> buffers, std::span<const int> ranks) {
  if (buffers.size() != static_cast<size_t>(request.ranks))
    refuse(Rule::kBuffers, "{} on {} ranks got buffers of {}", name_of(request.kind), request.ranks,
           buffers.size());
  for (const int rank : ranks) {
    const RankBuffers& one = buffers[static_cast<size_t>(rank)];
    const auto input = static_cast<size_t>(input_bytes(request, rank));
    const auto output = static_cast<size_t>(output_bytes(request, rank));
    if (one.input.size() < input || one.output.size() < output)
      refuse(Rule::kBuffers, "rank {} has {} B of input and {} B of output; {} needs {} and {}", rank,
             one.input.size(), one.output.size(), name_of(request.kind), input, output);
  }
}

void execute_proved(const Plan& plan, std::span<const RankBuffers> buffers) {
  Placed placed{&plan, std::vector<int>(plan.steps.size())};
  std::iota(placed.ranks.begin(), placed.ranks.end(), 0);
  check_buffers(plan.request, buffers, placed.ranks);
  const std::vector<std::vector<int>> order(plan.steps.size(), {0});
  const StepGraph graph({&placed, 1}, order);
  OPENTRN_CHECK(!graph.has_circle(), "a plan that was said to be proved has steps that wait for each other");

  // Tasks are numbered along an order that the waits allow.
  std::vector<TaskGraph::Task> task_of(static_cast<size_t>(graph.size()));
  TaskGraph tasks;
  tasks.reset(static_cast<TaskGraph::Task>(graph.size()));
  for (size_t i = 0; i < graph.order().size(); ++i) {
    const StepGraph::Node node = graph.order()[i];
    task_of[static_cast<size_t>(node)] = static_cast<TaskGraph::Task>(i);
    for (const StepGraph::Node before : graph.predecessors(node))
      tasks.add_edge(task_of[static_cast<size_t>(before)], static_cast<TaskGraph::Task>(i));
  }
  const Memories memories(plan, buffers, placed.ranks);
  const auto turn = interrupt::lock(pool_turn);
  tasks.run(
      pool(),
      [&](TaskGraph::Task task) {
        interrupt::poll();
        const StepRef ref = graph.place_of(graph.order()[task]).step;
        run_step(plan, memories, ref.rank,
                 plan.steps[static_cast<size_t>(ref.rank)][static_cast<size_t>(ref.step)]);
      },
      [](TaskGraph::Task) {});
  memories.finish();
}

void prove(const Plan& plan) {
  const std::vector<Finding> findings = verify(plan);
  if (!findings.empty())
    refuse(Rule::kPlan, "the plan is wrong ({}): {}", findings[0].label, findings[0].text);
}

void execute(const Plan& plan, std::span<const RankBuffers> buffers) {
  prove(plan);
  execute_proved(plan, buffers);
}

}  // namespace opentrn::collectives
