#include "collectives/values.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>

#include "base/fork.h"
#include "base/interrupt.h"
#include "base/task_graph.h"
#include "collectives/arithmetic.h"
#include "collectives/rules.h"
#include "collectives/step_graph.h"
#include "collectives/structure.h"

namespace opentrn::collectives {

namespace {

ThreadPool& pool() {
  static ThreadPool instance(default_thread_count());
  return instance;
}
ForkSafeMutex pool_turn;  // the pool serves one caller at a time

bool overlap(std::span<const std::byte> a, std::span<const std::byte> b) {
  const std::less<const std::byte*> before;
  return !a.empty() && !b.empty() && before(a.data(), b.data() + b.size()) &&
         before(b.data(), a.data() + a.size());
}

// The memories of all ranks. Inputs that lie where any rank's output does are copied first.
class Memories {
 public:
  Memories(const Plan& plan, std::span<const RankBuffers> buffers) : plan_(plan), buffers_(buffers) {
    const Request& request = plan.request;
    for (int rank = 0; rank < request.ranks; ++rank) {
      auto& bases = bases_.emplace_back();
      const auto scratch = static_cast<size_t>(plan.scratch_bytes);
      bases[static_cast<size_t>(Buffer::kScratch)] = own(scratch);
      const auto input =
          buffers[static_cast<size_t>(rank)].input.first(static_cast<size_t>(input_bytes(request, rank)));
      const auto output =
          buffers[static_cast<size_t>(rank)].output.first(static_cast<size_t>(output_bytes(request, rank)));
      if (plan.in_place) {
        prepare_in_place(rank, input, output);
        continue;
      }
      const bool shared = std::ranges::any_of(
          buffers, [&](const RankBuffers& other) { return overlap(input, other.output); });
      // Steps of a plan that is not in place only read inputs.
      bases[static_cast<size_t>(Buffer::kInput)] =
          shared ? copy_of(input) : const_cast<std::byte*>(input.data());
      bases[static_cast<size_t>(Buffer::kOutput)] = output.data();
    }
  }

  std::byte* at(int rank, const Slice& slice) const {
    const Memory memory = memory_of(plan_, rank, slice);
    return bases_[static_cast<size_t>(rank)][static_cast<size_t>(memory.buffer)] + memory.offset;
  }

  // Results of a plan in place were made in memory of its own.
  void finish() const {
    if (!plan_.in_place) return;
    for (int rank = 0; rank < plan_.request.ranks; ++rank)
      for (const Contribution& part : expected_output(plan_.request, rank))
        std::memcpy(buffers_[static_cast<size_t>(rank)].output.data() + part.offset,
                    at(rank, {Buffer::kOutput, part.offset}), static_cast<size_t>(part.bytes));
  }

 private:
  std::byte* own(size_t bytes) {
    owned_.push_back(std::make_unique<std::byte[]>(std::max<size_t>(bytes, 1)));
    return owned_.back().get();
  }
  std::byte* copy_of(std::span<const std::byte> bytes) {
    std::byte* copy = own(bytes.size());
    std::ranges::copy(bytes, copy);
    return copy;
  }
  void prepare_in_place(int rank, std::span<const std::byte> input, std::span<const std::byte> output) {
    std::byte* both = own(std::max(input.size(), output.size()));
    const Memory place = memory_of(plan_, rank, {Buffer::kInput, 0});
    bases_[static_cast<size_t>(rank)][static_cast<size_t>(place.buffer)] = both;
    std::ranges::copy(input, both + place.offset);
  }

  const Plan& plan_;
  std::span<const RankBuffers> buffers_;
  std::vector<std::array<std::byte*, 3>> bases_;
  std::vector<std::unique_ptr<std::byte[]>> owned_;
};

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

void check_buffers(const Request& request, std::span<const RankBuffers> buffers) {
  if (buffers.size() != static_cast<size_t>(request.ranks))
    refuse(Rule::kBuffers, "{} on {} ranks got buffers of {}", name_of(request.kind), request.ranks,
           buffers.size());
  for (int rank = 0; rank < request.ranks; ++rank) {
    const RankBuffers& one = buffers[static_cast<size_t>(rank)];
    const auto input = static_cast<size_t>(input_bytes(request, rank));
    const auto output = static_cast<size_t>(output_bytes(request, rank));
    if (one.input.size() < input || one.output.size() < output)
      refuse(Rule::kBuffers, "rank {} has {} B of input and {} B of output; {} needs {} and {}", rank,
             one.input.size(), one.output.size(), name_of(request.kind), input, output);
  }
}

void execute_proved(const Plan& plan, std::span<const RankBuffers> buffers) {
  check_buffers(plan.request, buffers);
  Placed placed{&plan, {}};
  const std::vector<std::vector<int>> order(plan.steps.size(), {0});
  for (size_t rank = 0; rank < plan.steps.size(); ++rank) placed.ranks.push_back(static_cast<int>(rank));
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
  const Memories memories(plan, buffers);
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

void execute(const Plan& plan, std::span<const RankBuffers> buffers) {
  const std::vector<Finding> findings = verify(plan);
  if (!findings.empty())
    refuse(Rule::kPlan, "the plan is wrong ({}): {}", findings[0].label, findings[0].text);
  execute_proved(plan, buffers);
}

}  // namespace opentrn::collectives
