#include "collectives/testing/mutate.h"

#include <algorithm>
#include <utility>

namespace opentrn::collectives {

namespace {

struct Pick {
  size_t rank = 0, index = 0;
};

bool pick_step(const Plan& plan, SplitMix64& random, Pick& pick) {
  const auto total = static_cast<uint32_t>(plan.step_count());
  if (total == 0) return false;
  size_t at = random.below(total);
  for (pick.rank = 0; at >= plan.steps[pick.rank].size(); ++pick.rank) at -= plan.steps[pick.rank].size();
  pick.index = at;
  return true;
}

Step& step_of(Plan& plan, const Pick& pick) { return plan.steps[pick.rank][pick.index]; }

int64_t element_of(const Plan& plan) { return size_bytes(plan.request.dtype); }

std::string drop_wait(Plan& plan, SplitMix64& random, const Pick& pick) {
  Step& step = step_of(plan, pick);
  if (step.waits.count == 0) return "";
  auto& pool = plan.wait_pool[pick.rank];
  std::swap(pool[step.waits.begin + random.below(step.waits.count)],
            pool[step.waits.begin + step.waits.count - 1]);
  --step.waits.count;
  return "a wait is lost";
}

std::string other_wait(Plan& plan, SplitMix64& random, const Pick& pick) {
  Step& step = step_of(plan, pick);
  Pick other;
  if (step.waits.count == 0 || !pick_step(plan, random, other)) return "";
  plan.wait_pool[pick.rank][step.waits.begin + random.below(step.waits.count)] = {
      static_cast<int32_t>(other.rank), static_cast<int32_t>(other.index)};
  return "a wait for another step";
}

std::string earlier_wait(Plan& plan, SplitMix64& random, const Pick& pick) {
  Step& step = step_of(plan, pick);
  if (step.waits.count == 0) return "";
  StepRef& wait = plan.wait_pool[pick.rank][step.waits.begin + random.below(step.waits.count)];
  if (wait.step == 0) return "";
  --wait.step;
  return "a wait for the step before";
}

std::string swap_peers(Plan& plan, SplitMix64& random, const Pick& pick) {
  Pick other;
  pick_step(plan, random, other);
  Step &a = step_of(plan, pick), &b = step_of(plan, other);
  if (a.peer == b.peer) return "";
  std::swap(a.peer, b.peer);
  return "two steps with each other's peers";
}

std::string other_peer(Plan& plan, SplitMix64& random, const Pick& pick) {
  step_of(plan, pick).peer = static_cast<int32_t>(random.below(static_cast<uint32_t>(plan.request.ranks)));
  return "another peer";
}

std::string shift_range(Plan& plan, SplitMix64& random, const Pick& pick) {
  Step& step = step_of(plan, pick);
  const int64_t by = (random.below(2) == 0 ? 1 : -1) * (random.below(4) == 0 ? 1 : element_of(plan)) *
                     static_cast<int64_t>(1 + random.below(3));
  (random.below(2) == 0 ? step.from : step.to).offset += by;
  return "a shifted range";
}

std::string cut_range(Plan& plan, SplitMix64& random, const Pick& pick) {
  step_of(plan, pick).bytes += (random.below(3) == 0 ? 1 : -1) * element_of(plan);
  return "a longer or shorter range";
}

std::string other_buffer(Plan& plan, SplitMix64& random, const Pick& pick) {
  Step& step = step_of(plan, pick);
  (random.below(2) == 0 ? step.from : step.to).buffer = static_cast<Buffer>(random.below(3));
  return "another buffer";
}

std::string lose_step(Plan& plan, SplitMix64&, const Pick& pick) {
  Step& step = step_of(plan, pick);
  if (step.bytes == 0) return "";
  step.bytes = 0;
  return "a lost transfer";
}

std::string repeat_step(Plan& plan, SplitMix64& random, const Pick& pick) {
  Step copy = step_of(plan, pick);
  if (random.below(2) == 0)
    copy.channel = static_cast<int32_t>(random.below(static_cast<uint32_t>(plan.channels)));
  plan.steps[pick.rank].push_back(copy);
  return "a repeated step";
}

std::string other_channel(Plan& plan, SplitMix64& random, const Pick& pick) {
  step_of(plan, pick).channel = static_cast<int32_t>(random.below(static_cast<uint32_t>(plan.channels + 1)));
  return "another channel";
}

std::string swap_steps(Plan& plan, SplitMix64& random, const Pick& pick) {
  const auto count = static_cast<uint32_t>(plan.steps[pick.rank].size());
  std::swap(plan.steps[pick.rank][pick.index], plan.steps[pick.rank][random.below(count)]);
  return "two steps in each other's place";
}

std::string toggle_reduces(Plan& plan, SplitMix64&, const Pick& pick) {
  step_of(plan, pick).reduces ^= true;
  return "a copy for a reduction, or a reduction for a copy";
}

std::string drop_source(Plan& plan, SplitMix64&, const Pick& pick) {
  Step& step = step_of(plan, pick);
  if (step.places.count == 0) return "";
  --step.places.count;
  ++step.places.begin;
  if (step.places.count == 0) step.has_second_target = false;
  return "a lost source or second target";
}

std::string other_source(Plan& plan, SplitMix64& random, const Pick& pick) {
  Step& step = step_of(plan, pick);
  if (step.places.count == 0) return "";
  At& place = plan.place_pool[pick.rank][step.places.begin + random.below(step.places.count)];
  switch (random.below(3)) {
    case 0: place.rank = static_cast<int32_t>(random.below(static_cast<uint32_t>(plan.request.ranks))); break;
    case 1: place.slice.offset += element_of(plan) * (random.below(2) == 0 ? 1 : -1); break;
    default: place.slice = step.from;
  }
  return "another source or second target";
}

std::string shrink_scratch(Plan& plan, SplitMix64& random, const Pick&) {
  if (plan.scratch_bytes == 0) return "";
  plan.scratch_bytes -= std::min<int64_t>(plan.scratch_bytes, 1 + random.below(64));
  return "less scratch memory";
}

// Two staging slots become one: the credits of a ring are too many.
std::string alias_scratch(Plan& plan, SplitMix64& random, const Pick&) {
  if (plan.scratch_bytes < 2) return "";
  const auto at = 1 + static_cast<int64_t>(random.below(static_cast<uint32_t>(plan.scratch_bytes)));
  const auto fold = [&](Slice& slice, int64_t bytes) {
    if (slice.buffer == Buffer::kScratch && slice.offset >= at &&
        slice.offset - at + bytes <= plan.scratch_bytes)
      slice.offset -= at;
  };
  for (size_t rank = 0; rank < plan.steps.size(); ++rank)
    for (Step& step : plan.steps[rank]) {
      fold(step.from, step.bytes);
      fold(step.to, step.bytes);
      for (uint32_t i = 0; i < step.places.count; ++i)
        fold(plan.place_pool[rank][step.places.begin + i].slice, step.bytes);
    }
  return "two staging slots in one place";
}

using Mutation = std::string (*)(Plan&, SplitMix64&, const Pick&);
constexpr Mutation kMutations[] = {drop_wait,    drop_wait,      other_wait,   earlier_wait,   swap_peers,
                                   other_peer,   shift_range,    cut_range,    other_buffer,   lose_step,
                                   repeat_step,  other_channel,  swap_steps,   toggle_reduces, drop_source,
                                   other_source, shrink_scratch, alias_scratch};

}  // namespace

std::string mutate(Plan& plan, SplitMix64& random) {
  Pick pick;
  if (!pick_step(plan, random, pick)) return "";
  return kMutations[random.below(std::size(kMutations))](plan, random, pick);
}

}  // namespace opentrn::collectives
