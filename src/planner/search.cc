#include "planner/search.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include <fmt/format.h>

#include "base/interrupt.h"
#include "planner/memory.h"
#include "planner/recompute.h"
#include "planner/schedule.h"

namespace opentrn::planner {
namespace {

std::vector<int> divisors(int64_t of, int64_t most) {
  std::vector<int> out;
  for (int64_t each = 1; each <= std::min(of, most); ++each)
    if (of % each == 0) out.push_back(static_cast<int>(each));
  return out;
}

std::vector<int> either(const std::optional<int>& fixed, std::vector<int> all) {
  return fixed ? std::vector<int>{*fixed} : std::move(all);
}

auto order(const Layout& a) {
  return std::tuple(a.tp, a.cp, a.pp, a.vpp, a.ep, a.dp, a.zero, a.sp, a.recompute, a.recompute_layers,
                    a.micro_batch, a.schedule);
}

bool before(const Estimate& a, const Estimate& b) {
  const double memory_a = a.memory.total(), memory_b = b.memory.total();
  return std::tuple(a.step_s, memory_a, order(a.layout)) < std::tuple(b.step_s, memory_b, order(b.layout));
}

// The fastest plans, and the front of time against memory, both kept sorted.
class Kept {
 public:
  Kept(size_t top, double room) : top_(top), room_(room) {}

  // Whether a plan with at least this time and memory could change anything.
  bool may_matter(double step_s, double memory) const {
    if (memory > room_) return false;
    return best_.size() < top_ || step_s <= best_.back().step_s || !dominated(step_s, memory);
  }
  void take(const Estimate& plan) {
    const auto at = std::ranges::upper_bound(best_, plan, before);
    if (best_.size() < top_ || at != best_.end()) {
      best_.insert(at, plan);
      if (best_.size() > top_) best_.pop_back();
    }
    const double memory = plan.memory.total();
    const auto same_or_better = [&](const Estimate& other) {
      return other.step_s <= plan.step_s && other.memory.total() <= memory && before(other, plan);
    };
    if (std::ranges::any_of(front_, same_or_better)) return;
    std::erase_if(front_, [&](const Estimate& other) {
      return plan.step_s <= other.step_s && memory <= other.memory.total();
    });
    front_.insert(std::ranges::upper_bound(front_, plan, before), plan);
  }
  const std::vector<Estimate>& best() const { return best_; }
  const std::vector<Estimate>& front() const { return front_; }

 private:
  bool dominated(double step_s, double memory) const {
    return std::ranges::any_of(front_, [&](const Estimate& other) {
      return other.step_s < step_s && other.memory.total() < memory;
    });
  }
  size_t top_;
  double room_;
  std::vector<Estimate> best_, front_;
};

std::vector<int> micro_batches(const Job& job, int64_t dp, const Fixed& fixed) {
  const double local = job.global_batch / double(dp);
  if (local < 1 || local != std::floor(local)) return {};
  std::vector<int> out;
  for (const int each : either(fixed.micro_batch, divisors(static_cast<int64_t>(local), 64)))
    if (each > 0 && std::fmod(local, each) == 0) out.push_back(each);
  return out;
}

void modes_of(const Job& job, const Machine& machine, const Stack& stack, const Fixed& fixed, Layout layout,
              const std::function<void(const Layout&)>& take) {
  layout.offload = fixed.offload;
  // Of one rank ZeRO 1 and 2 cut nothing: each would be a row that says what ZeRO 0's says.
  const bool cuts = layout.dp * layout.cp > 1;
  std::vector<int> some{0};
  if (cuts) some.push_back(1);
  if (cuts && layout.pp == 1) some.push_back(2);
  if (layout.pp == 1) some.push_back(3);
  const std::vector<int> zeros = either(fixed.zero, some);
  std::vector<bool> sps{false};
  if (layout.tp > 1) sps = {true, false};
  if (fixed.sp) sps = {*fixed.sp};
  std::vector<std::pair<Schedule, bool>> ways;
  for (const Schedule schedule :
       fixed.schedules.empty() || layout.pp == 1 ? std::vector<Schedule>{Schedule::k1F1B} : fixed.schedules)
    for (const bool sp : sps) ways.emplace_back(schedule, sp);
  std::vector<Recompute> modes = searched(stack, job.model.experts > 0);
  if (fixed.recompute_layers) modes = {Recompute::kFull};
  if (fixed.recompute) modes = {*fixed.recompute};
  const bool some_blocks = !fixed.recompute && !fixed.recompute_layers && recomputes_some(stack);
  const int longest = layout.pp > 1 ? blocks_per_stage(job.model, layout) : 1;
  const bool is_even = job.model.layers % layout.pp == 0 || ends_count_as_blocks(job.model, layout);
  for (const int vpp : either(fixed.vpp, is_even ? divisors(longest, 16) : std::vector<int>{1}))
    for (const int micro : micro_batches(job, layout.dp, fixed)) {
      layout.vpp = static_cast<int16_t>(vpp);
      layout.micro_batch = micro;
      for (const auto& [schedule, sp] : ways) {
        if (schedule != Schedule::k1F1B && schedule != Schedule::k1F1BInTicks && vpp != 1) continue;
        layout.schedule = schedule;
        layout.sp = sp;
        layout.recompute = shares_ends(schedule) ? Recompute::kFull : Recompute::kNone;
        layout.recompute_layers = 0;
        if (!illegal_because(job, machine, layout).empty()) continue;
        for (const int zero : zeros)
          for (const Recompute mode : modes) {
            if (shares_ends(schedule) && mode != Recompute::kFull) continue;
            interrupt::poll();
            layout.zero = static_cast<int8_t>(zero);
            layout.recompute = mode;
            layout.recompute_layers = static_cast<int16_t>(fixed.recompute_layers.value_or(0));
            if (fixed.recompute_layers && !no_recomputation_because(job.model, layout).empty()) continue;
            take(layout);
            const int some = some_blocks && mode == Recompute::kFull && !shares_ends(schedule)
                                 ? fewest_again(job, machine, stack, layout)
                                 : 0;
            if (some == 0) continue;
            layout.recompute_layers = static_cast<int16_t>(some);
            take(layout);
          }
      }
    }
}

// Divisors of the layers or of two more, and powers of two, whose stages are of unequal length.
std::vector<int> stages_of(int layers, int64_t ranks) {
  std::vector<int> out = divisors(layers, ranks);
  for (const int each : divisors(layers + 2, std::min<int64_t>(layers, ranks)))
    if (each > 2) out.push_back(each);
  for (int each = 2; each <= std::min<int64_t>(layers, ranks); each *= 2) out.push_back(each);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

}  // namespace

void for_each_layout(const Job& job, const Machine& machine, const Stack& stack, const Fixed& fixed,
                     const std::function<void(const Layout&)>& take) {
  const Model& model = job.model;
  const int64_t ranks = machine.ranks;
  const auto experts = [&](int64_t sharing) {
    if (model.experts == 0 && fixed.ep.value_or(1) == 1) return std::vector<int>{1};
    return either(fixed.ep, divisors(model.experts, sharing));
  };
  for (const int pp : either(fixed.pp, stages_of(model.layers, ranks)))
    for (const int tp : either(fixed.tp, divisors(model.heads, machine.domain)))
      for (const int cp :
           either(fixed.cp, job.seq >= 16384 ? std::vector<int>{1, 2, 4, 8, 16} : std::vector<int>{1})) {
        const int64_t inner = int64_t{tp} * cp * pp;
        if (inner < 1 || ranks % inner != 0) continue;
        const int64_t dp = ranks / inner;
        if (fixed.dp && *fixed.dp != dp) continue;
        for (const int ep : experts(dp * cp)) {
          Layout layout;
          layout.pp = static_cast<int16_t>(pp);
          layout.tp = static_cast<int16_t>(tp);
          layout.cp = static_cast<int16_t>(cp);
          layout.ep = static_cast<int16_t>(ep);
          layout.dp = static_cast<int32_t>(dp);
          modes_of(job, machine, stack, fixed, layout, take);
        }
      }
}

std::string unused_because(const Fixed& fixed) {
  if (fixed.pp != 1) return {};
  if (!fixed.schedules.empty())
    return fmt::format("pp is 1, and {} is an order of the passes of several stages",
                       to_string(fixed.schedules.front()));
  if (fixed.vpp.value_or(1) > 1)
    return fmt::format("pp is 1, and vpp {} is of the chunks of several stages", *fixed.vpp);
  return {};
}

std::string none_legal_because(const Job& job, const Machine& machine, const Fixed& fixed) {
  const auto has_chunks = [](Schedule each) {
    return each == Schedule::k1F1B || each == Schedule::k1F1BInTicks;
  };
  if (fixed.vpp.value_or(1) > 1 && !fixed.schedules.empty() &&
      std::ranges::none_of(fixed.schedules, has_chunks))
    return fmt::format("vpp {} is of the interleaved 1F1B, and {} is asked for", *fixed.vpp,
                       to_string(fixed.schedules.front()));
  Layout layout;
  layout.tp = static_cast<int16_t>(std::min(fixed.tp.value_or(1), 32767));
  layout.cp = static_cast<int16_t>(std::min(fixed.cp.value_or(1), 32767));
  layout.pp = static_cast<int16_t>(std::min(fixed.pp.value_or(1), 32767));
  layout.ep = static_cast<int16_t>(std::min(fixed.ep.value_or(1), 32767));
  layout.vpp = static_cast<int16_t>(std::min(fixed.vpp.value_or(1), 32767));
  layout.micro_batch = fixed.micro_batch.value_or(1);
  layout.sp = fixed.sp.value_or(false);
  const int64_t inner = int64_t{layout.tp} * layout.cp * layout.pp;
  if (machine.ranks % inner != 0)
    return fmt::format("tp x cp x pp = {} does not divide {} ranks", inner, machine.ranks);
  layout.dp = static_cast<int32_t>(machine.ranks / inner);
  if (fixed.dp) {
    if (machine.ranks % (inner * *fixed.dp) != 0)
      return fmt::format("the fixed degrees multiply to {}, which does not divide {} ranks",
                         inner * *fixed.dp, machine.ranks);
    layout.dp = *fixed.dp;
    // What is not fixed may take up the rest: the first degree that is free.
    const auto rest = static_cast<int16_t>(std::min<int64_t>(32767, machine.ranks / (inner * *fixed.dp)));
    if (rest > 1 && !fixed.pp)
      layout.pp = rest;
    else if (rest > 1 && !fixed.tp)
      layout.tp = rest;
  }
  if (!fixed.schedules.empty() && layout.pp > 1) layout.schedule = fixed.schedules.front();
  const bool is_full = shares_ends(layout.schedule) || fixed.recompute_layers.value_or(0) > 0;
  layout.recompute = fixed.recompute.value_or(is_full ? Recompute::kFull : Recompute::kNone);
  layout.recompute_layers = static_cast<int16_t>(std::min(fixed.recompute_layers.value_or(0), 32767));
  return illegal_because(job, machine, layout);
}

double least_step_s(const Job& job, const Machine& machine, const Stack& stack, const Layout& layout) {
  const Model& model = job.model;
  // Of a block's products alone: attention and everything bound by memory come on top.
  const double dense = model.active_parameters() - model.embedding_parameters() - model.output_parameters();
  const double biases = model.streams * model.layers *
                            (model.norm_parameters() + (model.biases ? 8.0 * model.hidden + model.ffn : 0)) +
                        model.input_parameters + model.class_parameters();
  const double tokens = job.seq * job.global_batch / (double(layout.dp) * layout.cp * layout.tp * layout.pp);
  // Of what runs forward again the last product may be left out, which is at most half of a block's.
  const double full = stack.skips_last_product ? 1 : 2, blocks = blocks_per_stage(model, layout);
  const double again =
      6 + (layout.recompute == Recompute::kFull ? full * blocks_again(layout, blocks) / blocks : 0);
  const double compute = again * std::max(0.0, dense - biases - 2 * model.hidden) * tokens /
                         machine.rates.matmul[static_cast<int>(job.precision)] / stack.compute_efficiency;
  const double m = job.global_batch / (double(layout.dp) * layout.micro_batch);
  const bool waits = layout.schedule == Schedule::k1F1B ||
                     (shares_ends(layout.schedule) && layout.schedule != Schedule::kZbInTicks);
  return 0.999 * compute * (1 + (waits ? double(layout.pp - 1) / (m * layout.vpp) : 0));
}

SearchResult search(const Job& job, const Machine& machine, const Stack& stack,
                    const SearchOptions& options) {
  SearchResult result;
  Kept kept(options.top, machine.memory_bytes);
  for_each_layout(job, machine, stack, options.fixed, [&](const Layout& layout) {
    ++result.legal;
    // Without room for any plan yet, the one that misses by least is wanted, so nothing is left out.
    if (options.cut && result.evaluated > 0) {
      const double memory = memory_of(job, machine, stack, layout).total();
      const bool nearer =
          result.nearest && memory > machine.memory_bytes && memory >= result.nearest->memory.total();
      if (memory > machine.memory_bytes ? nearer
                                        : !kept.may_matter(least_step_s(job, machine, stack, layout), memory))
        return;
    }
    const Estimate plan = evaluate(job, machine, stack, layout);
    ++result.evaluated;
    if (plan.fits)
      kept.take(plan);
    else if (!result.nearest || plan.memory.total() < result.nearest->memory.total())
      result.nearest = plan;
  });
  result.front = kept.front();
  result.best = kept.best();
  return result;
}

}  // namespace opentrn::planner
