#include "collectives/data_flow.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "collectives/structure.h"

namespace opentrn::collectives {

namespace {

std::vector<int> rank_counts(std::span<const Placed> plans) {
  std::vector<int> counts;
  for (const Placed& placed : plans) counts.push_back(placed.plan->request.ranks);
  return counts;
}

}  // namespace

DataFlow::DataFlow(std::span<const Placed> plans, StepGraph& graph)
    : plans_(plans), graph_(graph), sets_(rank_counts(plans)) {}

std::vector<Finding> DataFlow::run() {
  prepare_memory();
  for (const Node node : graph_.order()) {
    interrupt::poll();
    if (is_full()) return std::move(findings_);
    if (graph_.is_step(node)) step(node);
  }
  for (size_t plan = 0; plan < plans_.size(); ++plan) check_outputs(static_cast<int>(plan));
  return std::move(findings_);
}

void DataFlow::prepare_memory() {
  for (size_t p = 0; p < plans_.size(); ++p) {
    const Plan& plan = *plans_[p].plan;
    auto& ranks = memory_.emplace_back(plan.steps.size());
    for (int rank = 0; rank < plan.request.ranks; ++rank) {
      auto& buffers = ranks[static_cast<size_t>(rank)];
      for (const Buffer buffer : {Buffer::kInput, Buffer::kOutput})
        buffers.emplace_back(buffer_bytes(plan, rank, buffer));
      const bool is_shared = plans_[p].communicator >= 0;
      buffers.emplace_back(is_shared ? 0 : plan.scratch_bytes);
      if (is_shared) {
        Map& shared = scratch_[{plans_[p].communicator, plans_[p].ranks[static_cast<size_t>(rank)]}];
        if (shared.size() < plan.scratch_bytes) shared = Map(plan.scratch_bytes);
      }
      const int64_t bytes = input_bytes(plan.request, rank);
      const Memory input = memory_of(plan, rank, {Buffer::kInput, 0});
      buffers[static_cast<size_t>(input.buffer)].assign(
          input.offset, input.offset + bytes,
          {{sets_.of_rank(static_cast<int>(p), rank), -input.offset}, StepGraph::kNone, {}});
    }
  }
}

DataFlow::Map& DataFlow::map_of(int plan, const At& place, int64_t& offset) {
  const Placed& placed = plans_[static_cast<size_t>(plan)];
  const Memory memory = memory_of(*placed.plan, place.rank, place.slice);
  offset = memory.offset;
  if (memory.buffer == Buffer::kScratch && placed.communicator >= 0)
    return scratch_[{placed.communicator, placed.ranks[static_cast<size_t>(place.rank)]}];
  return memory_[static_cast<size_t>(plan)][static_cast<size_t>(place.rank)]
                [static_cast<size_t>(memory.buffer)];
}

std::string DataFlow::plan_prefix(int plan) const {
  return plans_.size() == 1 ? "" : fmt::format("plan {} ", plan);
}

std::string DataFlow::name_of_node(Node node) const {
  const StepGraph::Place place = graph_.place_of(node);
  return plan_prefix(place.plan) + describe(*plans_[static_cast<size_t>(place.plan)].plan, place.step);
}

bool DataFlow::reduces_into_target(Node node) const {
  const StepGraph::Place place = graph_.place_of(node);
  return plans_[static_cast<size_t>(place.plan)]
      .plan->steps[static_cast<size_t>(place.step.rank)][static_cast<size_t>(place.step.step)]
      .reduces;
}

bool DataFlow::ordered(Node earlier, Node node, const At& place, int64_t begin, int64_t end,
                       const char* doing) {
  if (earlier == StepGraph::kNone || earlier == node || graph_.ends_before(earlier, node)) return true;
  if (is_full()) return false;
  const bool both_reduce = reduces_into_target(earlier) && reduces_into_target(node);
  At range = place;
  range.slice.offset = begin;
  findings_.push_back(
      {both_reduce ? "nondeterministic" : "race",
       fmt::format("{} and {} touch {} without an order: the second one {} it", name_of_node(earlier),
                   name_of_node(node), describe(range, end - begin), doing),
       {graph_.place_of(earlier).step, graph_.place_of(node).step}});
  return false;
}

// A transfer that reads what it writes is right only element by element.
void DataFlow::overlaps_itself(int plan, StepRef ref, const Step& step) {
  const Plan& one = *plans_[static_cast<size_t>(plan)].plan;
  std::vector<At> targets = {{step.peer, step.to}};
  if (const At* second = one.second_target(ref.rank, step)) targets.push_back(*second);
  std::vector<At> all = {{ref.rank, step.from}};
  const auto more = one.more_sources(ref.rank, step);
  all.insert(all.end(), more.begin(), more.end());
  const auto conflict = [&](const At& a, const At& b, bool same_is_fine) {
    const Memory x = memory_of(one, a.rank, a.slice), y = memory_of(one, b.rank, b.slice);
    return a.rank == b.rank && x.buffer == y.buffer && x.offset < y.offset + step.bytes &&
           y.offset < x.offset + step.bytes && !(same_is_fine && x.offset == y.offset);
  };
  bool found = targets.size() == 2 && conflict(targets[0], targets[1], false);
  for (const At& target : targets)
    for (const At& source : all) found |= conflict(source, target, true);
  if (found && !is_full())
    findings_.push_back(
        {"race", plan_prefix(plan) + describe(one, ref) + " reads and writes ranges that overlap", {ref}});
}

void DataFlow::read(Node node, int plan, StepRef ref, const At& place, int64_t bytes,
                    IntervalMap<Content>& sum) {
  int64_t base = 0;
  Map& map = map_of(plan, place, base);
  // Inputs that nothing can write need no list of readers.
  const bool may_change =
      memory_of(*plans_[static_cast<size_t>(plan)].plan, place.rank, place.slice).buffer != Buffer::kInput ||
      plans_[static_cast<size_t>(plan)].plan->in_place;
  const auto look = [&](int64_t begin, int64_t end, const Segment& segment) {
    At range = place;
    range.slice.offset += begin - base;
    if (segment.content.set < 0) {
      if (!is_full())
        findings_.push_back({"unwritten",
                             fmt::format("{} reads {}, which nothing has written", name_of_node(node),
                                         describe(range, end - begin)),
                             {ref}});
    } else {
      ordered(segment.writer, node, place, range.slice.offset, range.slice.offset + end - begin, "reads");
    }
  };
  if (may_change)
    map.visit(base, base + bytes, [&](int64_t begin, int64_t end, Segment& segment) {
      look(begin, end, segment);
      if (segment.readers.empty() || segment.readers.back() != node) segment.readers.push_back(node);
    });
  map.look(base, base + bytes, [&](int64_t begin, int64_t end, const Segment& segment) {
    if (!may_change) look(begin, end, segment);
    const Content here{segment.content.set, segment.content.shift + base};
    sum.visit(begin - base, end - base,
              [&](int64_t, int64_t, Content& part) { part = sets_.join(part, here, plan, ref); });
  });
}

void DataFlow::write(Node node, int plan, StepRef, const At& place, int64_t bytes,
                     const IntervalMap<Content>& sum) {
  int64_t base = 0;
  Map& map = map_of(plan, place, base);
  map.look(base, base + bytes, [&](int64_t begin, int64_t end, const Segment& segment) {
    const int64_t offset = place.slice.offset + begin - base;
    if (!ordered(segment.writer, node, place, offset, offset + end - begin, "writes")) return;
    for (const Node reader : segment.readers)
      if (!ordered(reader, node, place, offset, offset + end - begin, "writes")) return;
  });
  sum.look(0, bytes, [&](int64_t begin, int64_t end, const Content& content) {
    map.assign(base + begin, base + end, {{content.set, content.shift - base}, node, {}});
  });
}

void DataFlow::step(Node node) {
  const StepGraph::Place at = graph_.place_of(node);
  const Plan& plan = *plans_[static_cast<size_t>(at.plan)].plan;
  const Step& step = plan.steps[static_cast<size_t>(at.step.rank)][static_cast<size_t>(at.step.step)];
  if (step.bytes == 0) return;
  overlaps_itself(at.plan, at.step, step);
  IntervalMap<Content> sum(step.bytes);
  if (step.reduces) read(node, at.plan, at.step, {step.peer, step.to}, step.bytes, sum);
  read(node, at.plan, at.step, {at.step.rank, step.from}, step.bytes, sum);
  for (const At& source : plan.more_sources(at.step.rank, step))
    read(node, at.plan, at.step, source, step.bytes, sum);
  write(node, at.plan, at.step, {step.peer, step.to}, step.bytes, sum);
  if (const At* second = plan.second_target(at.step.rank, step))
    write(node, at.plan, at.step, *second, step.bytes, sum);
}

void DataFlow::check_outputs(int plan) {
  for (int rank = 0; rank < plans_[static_cast<size_t>(plan)].plan->request.ranks; ++rank)
    if (!is_full()) check_output(plan, rank);
}

void DataFlow::check_output(int plan, int rank) {
  const Plan& one = *plans_[static_cast<size_t>(plan)].plan;
  // Bytes [begin, end) hold bytes of inputs from `origin` on, of the ranks of `set`.
  const auto check = [&](int64_t begin, int64_t end, int32_t set, int64_t origin) {
    int64_t base = 0;
    const Map& map = map_of(plan, {rank, {Buffer::kOutput, begin}}, base);
    const Content wanted{set, origin - base};
    map.look(base, base + end - begin, [&](int64_t from, int64_t to, const Segment& segment) {
      const Content& found = segment.content;
      if (is_full() || (found.set == set && (set < 0 || found.shift == wanted.shift))) return;
      findings_.push_back({"wrong_result",
                           fmt::format("{}{} holds {}; it should hold {}", plan_prefix(plan),
                                       describe(At{rank, {Buffer::kOutput, begin + from - base}}, to - from),
                                       sets_.describe(found, from), sets_.describe(wanted, from)),
                           segment.writer == StepGraph::kNone
                               ? std::vector<StepRef>{}
                               : std::vector{graph_.place_of(segment.writer).step}});
    });
  };
  int64_t checked = 0;
  for (const Contribution& part : expected_output(one.request, rank)) {
    check(checked, part.offset, -1, 0);
    checked = part.offset + part.bytes;
    check(part.offset, checked, part.all_ranks ? sets_.all_of(plan) : sets_.of_rank(plan, part.source),
          part.input_offset);
  }
  // Memory of an in-place input that is no output is not looked at.
  if (!one.in_place) check(checked, output_bytes(one.request, rank), -1, 0);
}

}  // namespace opentrn::collectives
