#include "collectives/structure.h"

#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

namespace opentrn::collectives {

namespace {

constexpr std::string_view kBufferNames[] = {"input", "output", "scratch"};
constexpr size_t kPlanStepsMax = size_t{1} << 30;

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan), ranks_(static_cast<size_t>(plan.request.ranks)) {}

  std::vector<Finding> run() {
    if (plan_.steps.size() != ranks_ || plan_.wait_pool.size() != ranks_ || plan_.place_pool.size() != ranks_)
      return {
          {"bad_reference",
           fmt::format("the plan has steps of {} ranks, its request is of {}", plan_.steps.size(), ranks_),
           {}}};
    if (plan_.step_count() > kPlanStepsMax || plan_.scratch_bytes < 0)
      return {{"bad_reference", "the plan has too many steps, or less than no scratch memory", {}}};
    if (plan_.in_place && !may_be_in_place(plan_.request.kind))
      return {{"bad_request", fmt::format("{} cannot be in place", name_of(plan_.request.kind)), {}}};
    for (size_t rank = 0; rank < ranks_; ++rank)
      for (size_t i = 0; i < plan_.steps[rank].size() && findings_.size() < kFindingsMax; ++i)
        check(StepRef{static_cast<int32_t>(rank), static_cast<int32_t>(i)}, plan_.steps[rank][i]);
    return std::move(findings_);
  }

 private:
  void add(std::string label, StepRef at, const std::string& text) {
    findings_.push_back({std::move(label), describe(plan_, at) + " " + text, {at}});
  }

  // Pools, channels and ranks first: the rest reads through them.
  bool references_exist(StepRef at, const Step& step) {
    const auto rank = static_cast<size_t>(at.rank);
    const auto fits = [](PoolRange range, size_t size) {
      return range.begin <= size && range.count <= size - range.begin;
    };
    if (!fits(step.waits, plan_.wait_pool[rank].size()) ||
        !fits(step.places, plan_.place_pool[rank].size()) ||
        (step.has_second_target && step.places.count == 0)) {
      add("bad_reference", at, "refers beyond the plan's pools");
      return false;
    }
    if (step.channel < 0 || step.channel >= plan_.channels) {
      add("bad_reference", at, fmt::format("is on channel {} of {}", step.channel, plan_.channels));
      return false;
    }
    for (const StepRef& wait : plan_.waits(at.rank, step))
      if (wait.rank < 0 || static_cast<size_t>(wait.rank) >= ranks_ || wait.step < 0 ||
          static_cast<size_t>(wait.step) >= plan_.steps[static_cast<size_t>(wait.rank)].size()) {
        add("bad_reference", at,
            fmt::format("waits for rank {} step {}, which does not exist", wait.rank, wait.step));
        return false;
      }
    return true;
  }

  void check_place(StepRef at, const Step& step, const At& place, bool is_written) {
    if (place.rank < 0 || static_cast<size_t>(place.rank) >= ranks_)
      return add("bad_reference", at, fmt::format("names rank {}; there are {}", place.rank, ranks_));
    if (place.slice.buffer > Buffer::kScratch)
      return add("bad_reference", at, "names a buffer that does not exist");
    const int64_t size = buffer_bytes(plan_, place.rank, place.slice.buffer);
    if (place.slice.offset < 0 || place.slice.offset > size || step.bytes > size - place.slice.offset)
      return add("out_of_range", at,
                 fmt::format("{} {}, which has {} B", is_written ? "writes" : "reads",
                             describe(place, step.bytes), size));
    if (is_written && place.slice.buffer == Buffer::kInput && !plan_.in_place && step.bytes > 0)
      add("writes_input", at,
          fmt::format("writes {}, and the plan is not in place", describe(place, step.bytes)));
  }

  void check_elements(StepRef at, const Step& step) {
    const int element = size_bytes(plan_.request.dtype);
    bool whole =
        step.bytes % element == 0 && step.from.offset % element == 0 && step.to.offset % element == 0;
    for (const At& source : plan_.more_sources(at.rank, step)) whole &= source.slice.offset % element == 0;
    if (const At* second = plan_.second_target(at.rank, step)) whole &= second->slice.offset % element == 0;
    if (!whole) add("misaligned", at, fmt::format("reduces, and cuts elements of {} B", element));
  }

  void check(StepRef at, const Step& step) {
    if (!references_exist(at, step)) return;
    if (step.bytes < 0) return add("out_of_range", at, fmt::format("moves {} B", step.bytes));
    check_place(at, step, {at.rank, step.from}, false);
    check_place(at, step, {step.peer, step.to}, true);
    const auto more = plan_.more_sources(at.rank, step);
    for (const At& source : more) check_place(at, step, source, false);
    if (const At* second = plan_.second_target(at.rank, step)) check_place(at, step, *second, true);
    if (step.reduces || !more.empty()) {
      if (!reduces(plan_.request.kind))
        add("wrong_result", at, fmt::format("reduces, which {} does not", name_of(plan_.request.kind)));
      check_elements(at, step);
    }
  }

  const Plan& plan_;
  size_t ranks_;
  std::vector<Finding> findings_;
};

// Plans of one communicator must come in one order on all ranks that they share.
void check_communicators(std::span<const Placed> plans, std::span<const std::vector<int>> issue_order,
                         std::vector<Finding>& findings) {
  std::map<std::pair<int, int>, size_t> seen;  // (earlier, later) -> a rank that lists them so
  for (size_t rank = 0; rank < issue_order.size(); ++rank) {
    const std::vector<int>& order = issue_order[rank];
    for (size_t i = 0; i < order.size(); ++i)
      for (size_t j = i + 1; j < order.size(); ++j) {
        const int communicator = plans[static_cast<size_t>(order[i])].communicator;
        if (communicator < 0 || communicator != plans[static_cast<size_t>(order[j])].communicator) continue;
        seen.emplace(std::pair(order[i], order[j]), rank);
        const auto other = seen.find({order[j], order[i]});
        if (other == seen.end() || findings.size() >= kFindingsMax) continue;
        findings.push_back(
            {"issue_order",
             fmt::format("rank {} has plan {} of communicator {} before plan {}, rank {} after it", rank,
                         order[i], communicator, order[j], other->second),
             {}});
        return;
      }
  }
}

}  // namespace

bool may_be_in_place(Kind kind) {
  return kind == Kind::kAllReduce || kind == Kind::kAllGather || kind == Kind::kReduceScatter ||
         kind == Kind::kAllToAll;
}

std::string describe(const Plan& plan, StepRef step) {
  const auto rank = static_cast<size_t>(step.rank);
  if (rank >= plan.steps.size() || static_cast<size_t>(step.step) >= plan.steps[rank].size())
    return fmt::format("rank {} step {}", step.rank, step.step);
  return fmt::format("rank {} step {} ({}, channel {})", step.rank, step.step, plan.algorithm,
                     plan.steps[rank][static_cast<size_t>(step.step)].channel);
}

std::string describe(const At& place, int64_t bytes) {
  return fmt::format("{}[{}, {}) of rank {}", kBufferNames[static_cast<size_t>(place.slice.buffer)],
                     place.slice.offset, place.slice.offset + bytes, place.rank);
}

std::vector<Finding> check_structure(const Plan& plan) { return Checker(plan).run(); }

std::vector<Finding> check_issue_order(std::span<const Placed> plans,
                                       std::span<const std::vector<int>> issue_order) {
  std::vector<std::multiset<int>> wanted(issue_order.size());
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    if (plans[plan].ranks.size() != plans[plan].plan->steps.size())
      return {{"issue_order",
               fmt::format("plan {} has {} ranks, and is placed on {}", plan, plans[plan].plan->steps.size(),
                           plans[plan].ranks.size()),
               {}}};
    for (const int rank : plans[plan].ranks) {
      if (rank < 0 || static_cast<size_t>(rank) >= issue_order.size())
        return {{"issue_order",
                 fmt::format("plan {} is placed on rank {}; there are {}", plan, rank, issue_order.size()),
                 {}}};
      wanted[static_cast<size_t>(rank)].insert(static_cast<int>(plan));
    }
  }
  std::vector<Finding> findings;
  for (size_t rank = 0; rank < issue_order.size(); ++rank) {
    const std::multiset<int> listed(issue_order[rank].begin(), issue_order[rank].end());
    const bool once = std::ranges::adjacent_find(wanted[rank]) == wanted[rank].end();
    if (!once || listed != wanted[rank])
      return {{"issue_order", fmt::format("rank {} does not list each of its plans once", rank), {}}};
  }
  check_communicators(plans, issue_order, findings);
  return findings;
}

int64_t buffer_bytes(const Plan& plan, int rank, Buffer buffer) {
  switch (buffer) {
    case Buffer::kInput: return input_bytes(plan.request, rank);
    case Buffer::kOutput: return output_bytes(plan.request, rank);
    default: return plan.scratch_bytes;
  }
}

Memory memory_of(const Plan& plan, int rank, const Slice& slice) {
  if (!plan.in_place || slice.buffer == Buffer::kScratch) return {slice.buffer, slice.offset};
  const Request& request = plan.request;
  if (request.kind == Kind::kAllGather)
    return {Buffer::kOutput,
            slice.buffer == Buffer::kInput ? slice.offset + request.bytes * rank : slice.offset};
  if (request.kind == Kind::kReduceScatter)
    return {Buffer::kInput, slice.buffer == Buffer::kOutput
                                ? slice.offset + request.bytes / request.ranks * rank
                                : slice.offset};
  return {Buffer::kOutput, slice.offset};
}

}  // namespace opentrn::collectives
