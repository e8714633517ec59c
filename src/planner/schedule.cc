#include "planner/schedule.h"

#include <algorithm>
#include <array>
#include <tuple>

#include <fmt/format.h>

#include "base/fault.h"

namespace opentrn::planner {

bool is_v_shaped(Schedule schedule) {
  return schedule == Schedule::kZbV || schedule == Schedule::kVHalf || schedule == Schedule::kVMin;
}

bool goes_both_ways(Schedule schedule) {
  return schedule == Schedule::k1F1BInTicks || schedule == Schedule::kZbInTicks ||
         schedule == Schedule::kDualInTicks;
}

bool shares_ends(Schedule schedule) { return schedule == Schedule::kGPipe || goes_both_ways(schedule); }

namespace {

// Forward passes of all micro-batches, then their backward passes, the last micro-batch's first.
Order all_forward_all_backward(int stages, int64_t micro_batches) {
  Order order;
  order.micro_batches = {micro_batches};
  order.path.emplace_back();
  for (int stage = 0; stage < stages; ++stage) {
    order.path[0].push_back(stage);
    auto& passes = order.ranks.emplace_back();
    for (int64_t i = 0; i < micro_batches; ++i) passes.push_back({PassKind::kForward, 0, stage, i});
    for (int64_t i = micro_batches; i-- > 0;) passes.push_back({PassKind::kBackward, 0, stage, i});
  }
  return order;
}

// 1F1B, interleaved where there are chunks: forwards until the pipeline is full, then one of each, then the
// backwards left. In ticks, interleaved with one chunk too.
Order one_forward_one_backward(int stages, int chunks, int64_t micro_batches, bool in_ticks) {
  Order order;
  order.passes_per_rank = chunks;
  order.micro_batches = {micro_batches};
  order.path.emplace_back();
  for (int at = 0; at < stages * chunks; ++at) order.path[0].push_back(at % stages);
  const int64_t all = micro_batches * chunks;
  for (int stage = 0; stage < stages; ++stage) {
    const int64_t lead = chunks > 1 || in_ticks
                             ? int64_t{stages - stage - 1} * 2 + int64_t{chunks - 1} * stages
                             : stages - stage - 1;
    const int64_t warm = std::min(all, lead);
    const auto pass = [&](int64_t index, bool backward) {
      const int64_t round = int64_t{stages} * chunks;
      const int chunk = chunks == 1 ? 0 : static_cast<int>(index % round / stages);
      const int64_t micro = chunks == 1 ? index : index / round * stages + index % stages;
      const int at = (backward ? chunks - 1 - chunk : chunk) * stages + stage;
      return Pass{backward ? PassKind::kBackward : PassKind::kForward, 0, at, micro};
    };
    auto& passes = order.ranks.emplace_back();
    for (int64_t i = 0; i < warm; ++i) passes.push_back(pass(i, false));
    for (int64_t i = warm; i < all; ++i) {
      passes.push_back(pass(i, false));
      passes.push_back(pass(i - warm, true));
    }
    for (int64_t i = all - warm; i < all; ++i) passes.push_back(pass(i, true));
  }
  return order;
}

// 1F1B in ticks whose weights' gradients come `stage` ticks after the others of a micro-batch.
Order zero_bubble_in_ticks(int stages, int64_t micro_batches) {
  Order order = one_forward_one_backward(stages, 1, micro_batches, true);
  for (int stage = 0; stage < stages; ++stage) {
    std::vector<Pass> passes;
    int64_t ticks = 0;  // that go back
    const auto add_weights = [&] {
      if (const int64_t micro = ticks++ - stage; micro >= 0 && micro < micro_batches)
        passes.push_back({PassKind::kWeight, 0, stage, micro});
    };
    for (Pass pass : order.ranks[static_cast<size_t>(stage)]) {
      const bool is_back = pass.kind == PassKind::kBackward;
      if (is_back) pass.kind = PassKind::kInput;
      passes.push_back(pass);
      if (is_back) add_weights();
    }
    for (int i = 0; i < stage; ++i) add_weights();
    order.ranks[static_cast<size_t>(stage)] = std::move(passes);
  }
  return order;
}

// Half of the micro-batches from each end, in the ticks of 1F1B.
Order dual_in_ticks(int stages, int64_t micro_batches) {
  Order order;
  const int64_t half = micro_batches / 2, filling = 2L * (stages - 1);
  order.micro_batches = {half, half};
  order.path.resize(2);
  for (int at = 0; at < stages; ++at) {
    order.path[0].push_back(at);
    order.path[1].push_back(stages - 1 - at);
  }
  for (int rank = 0; rank < stages; ++rank) {
    auto& passes = order.ranks.emplace_back();
    for (int64_t tick = 0; tick < half + filling; ++tick)
      for (int stream = 0; stream < 2; ++stream) {
        const int at = stream == 0 ? rank : stages - 1 - rank;
        const int64_t forward = tick - at, backward = tick - filling + at;
        if (forward >= 0 && forward < half) passes.push_back({PassKind::kForward, stream, at, forward});
        if (backward >= 0 && backward < half) passes.push_back({PassKind::kBackward, stream, at, backward});
      }
  }
  return order;
}

// 1F1B whose weights' gradients come `stage` micro-batches after, so that every stage keeps as many.
Order zero_bubble_h1(int stages, int64_t micro_batches) {
  Order order;
  order.micro_batches = {micro_batches};
  order.path.emplace_back();
  for (int stage = 0; stage < stages; ++stage) order.path[0].push_back(stage);
  for (int stage = 0; stage < stages; ++stage) {
    auto& passes = order.ranks.emplace_back();
    int64_t forward = 0, weights = 0;
    const auto add = [&](PassKind kind, int64_t& next) { passes.push_back({kind, 0, stage, next++}); };
    while (forward < std::min<int64_t>(micro_batches, stages - 1 - stage)) add(PassKind::kForward, forward);
    for (int64_t input = 0; input < micro_batches;) {
      if (forward < micro_batches) add(PassKind::kForward, forward);
      add(PassKind::kInput, input);
      if (input - weights > stage) add(PassKind::kWeight, weights);
    }
    while (weights < micro_batches) add(PassKind::kWeight, weights);
  }
  return order;
}

// Stages in a V: rank s has virtual stages s and 2p - 1 - s. Passes are in the order of a building block that
// repeats itself every six units (three kinds of pass, two chunks) and moves from rank to rank by so many
// units forward and backward in each chunk; weights' gradients fill what is left in a run in which every pass
// takes one unit.
class VShape {
 public:
  VShape(Schedule schedule, int stages, int64_t micro_batches)
      : stages_(stages), micro_batches_(micro_batches) {
    switch (schedule) {
      case Schedule::kVMin: moves_ = {1, 1, 1, 1}; break;
      case Schedule::kVHalf: moves_ = {2, 1, 2, 1}; break;
      default: moves_ = {3, 3, 3, 3}; break;
    }
  }

  Order order() {
    for (int rank = 0; rank < stages_; ++rank) block_order(rank);
    order_.ranks.resize(stages_);
    order_.micro_batches = {micro_batches_};
    order_.passes_per_rank = 2;
    order_.path.emplace_back();
    for (int at = 0; at < 2 * stages_; ++at)
      order_.path[0].push_back(at < stages_ ? at : 2 * stages_ - 1 - at);
    fill();
    return std::move(order_);
  }

 private:
  void block_order(int rank) {
    const int p = stages_;
    const int64_t last = int64_t{moves_[0]} * (p - 1) + 1;
    const int64_t turned = last + int64_t{moves_[1]} * (p - 1) + 1;
    const int64_t second = turned + int64_t{moves_[2]} * (p - 1) + 1;
    const std::tuple<int64_t, PassKind, int> block[] = {
        {moves_[0] * rank, PassKind::kForward, rank},
        {last + moves_[1] * (p - 1 - rank), PassKind::kForward, 2 * p - 1 - rank},
        {turned + moves_[2] * rank, PassKind::kInput, 2 * p - 1 - rank},
        {second + moves_[3] * (p - 1 - rank), PassKind::kInput, rank}};
    std::vector<std::tuple<int64_t, bool, int, int64_t>>
        at;  // when, not backward, virtual stage, micro-batch
    for (int64_t micro = 0; micro < micro_batches_; ++micro)
      for (const auto& [when, kind, stage] : block)
        at.emplace_back(when + 6 * micro, kind == PassKind::kForward, stage, micro);
    std::ranges::sort(at);
    auto& passes = blocks_.emplace_back();
    for (const auto& [when, forward, stage, micro] : at)
      passes.push_back({forward ? PassKind::kForward : PassKind::kInput, 0, stage, micro});
  }

  bool is_ready(const Pass& pass, int64_t now) const {
    const auto done = [&](const std::vector<std::vector<int64_t>>& ends, int at) {
      return ends[pass.micro][at] > 0 && ends[pass.micro][at] <= now;
    };
    if (pass.kind == PassKind::kForward) return pass.at == 0 || done(forward_, pass.at - 1);
    return pass.at + 1 == 2 * stages_ ? done(forward_, pass.at) : done(input_, pass.at + 1);
  }

  void fill() {
    const std::vector<int64_t> none(2 * stages_, 0);
    forward_.assign(micro_batches_, none);
    input_ = forward_;
    std::vector<size_t> next(stages_, 0);
    std::vector<std::vector<Pass>> waiting(stages_);
    int64_t left = 6 * stages_ * micro_batches_;
    for (int64_t now = 0; left > 0; ++now)
      for (int rank = 0; rank < stages_; ++rank) {
        auto& weights = waiting[rank];
        if (next[rank] < blocks_[rank].size() && is_ready(blocks_[rank][next[rank]], now)) {
          Pass pass = blocks_[rank][next[rank]++];
          order_.ranks[rank].push_back(pass);
          (pass.kind == PassKind::kForward ? forward_ : input_)[pass.micro][pass.at] = now + 1;
          if (pass.kind == PassKind::kInput) {
            pass.kind = PassKind::kWeight;
            weights.push_back(pass);
          }
        } else if (!weights.empty()) {
          order_.ranks[rank].push_back(weights.front());
          weights.erase(weights.begin());
        } else {
          continue;
        }
        --left;
      }
  }

  int stages_;
  int64_t micro_batches_;
  std::array<int, 4> moves_{};
  std::vector<std::vector<Pass>> blocks_;
  std::vector<std::vector<int64_t>> forward_, input_;  // when a pass ended, in units; 0: it has not
  Order order_;
};

// Micro-batches from both ends: each rank has a stage of either direction.
class DualPipe {
 public:
  DualPipe(int stages, int64_t micro_batches) : stages_(stages), each_(micro_batches / 2) {}

  Order order() {
    Order order;
    order.micro_batches = {each_, each_};
    order.path.resize(2);
    for (int at = 0; at < stages_; ++at) {
      order.path[0].push_back(at);
      order.path[1].push_back(stages_ - 1 - at);
    }
    for (int rank = 0; rank < stages_; ++rank) order.ranks.push_back(of_rank(rank));
    return order;
  }

 private:
  // `phase` 0: the direction that begins nearer to the rank.
  std::vector<Pass> of_rank(int rank) {
    passes_.clear();
    waiting_.clear();
    forwards_ = backwards_ = {0, 0};
    rank_ = rank;
    const int half = stages_ / 2, inner = std::min(rank, stages_ - 1 - rank), outer = half - inner - 1;
    for (int i = 0; i < 2 * outer; ++i) passes_.push_back(forward(0));
    for (int i = 0; i <= inner; ++i) {
      passes_.push_back(forward(0));
      passes_.push_back(forward(1));
    }
    for (int i = 0; i < outer; ++i) {
      split_backward(1);
      weights();
      passes_.push_back(forward(1));
    }
    for (int64_t i = 0; i < each_ - stages_ + inner + 1; ++i) {
      pair(0, 1);
      pair(1, 0);
    }
    for (int i = 0; i < outer; ++i) {
      passes_.push_back(backward(1));
      pair(1, 0);
    }
    bool split = false;
    for (int i = 0; i <= inner; ++i) {
      if (i == (inner + 1) / 2 && inner % 2 == 1) split = true;
      split ? split_backward(1) : passes_.push_back(backward(1));
      if (i == (inner + 1) / 2 && inner % 2 == 0) split = true;
      split ? split_backward(0) : passes_.push_back(backward(0));
    }
    for (int i = 0; i < outer; ++i) {
      weights();
      split_backward(0);
    }
    while (!waiting_.empty()) weights();
    return passes_;
  }

  Pass pass(PassKind kind, int phase, int64_t micro) const {
    const int stream = phase ^ (rank_ >= stages_ / 2 ? 1 : 0);
    return {kind, stream, stream == 0 ? rank_ : stages_ - 1 - rank_, micro};
  }
  Pass forward(int phase) { return pass(PassKind::kForward, phase, forwards_[phase]++); }
  Pass backward(int phase) { return pass(PassKind::kBackward, phase, backwards_[phase]++); }
  void split_backward(int phase) {
    Pass input = backward(phase);
    input.kind = PassKind::kInput;
    passes_.push_back(input);
    input.kind = PassKind::kWeight;
    waiting_.push_back(input);
  }
  void weights() {
    passes_.push_back(waiting_.front());
    waiting_.erase(waiting_.begin());
  }
  void pair(int forward_phase, int backward_phase) {
    Pass both = forward(forward_phase);
    const Pass back = backward(backward_phase);
    both.kind = PassKind::kPair;
    both.stream2 = back.stream;
    both.at2 = back.at;
    both.micro2 = back.micro;
    passes_.push_back(both);
  }

  int stages_, rank_ = 0;
  int64_t each_;
  std::vector<Pass> passes_, waiting_;
  std::array<int64_t, 2> forwards_{}, backwards_{};
};

}  // namespace

std::string no_order_because(Schedule schedule, int stages, int chunks, int64_t micro_batches) {
  const bool in_ticks = schedule == Schedule::k1F1BInTicks;
  if (stages < 2 && schedule != Schedule::k1F1B)
    return fmt::format("{} is of pipelines", to_string(schedule));
  if (schedule == Schedule::k1F1B || in_ticks) {
    if (chunks > 1 && (stages == 1 || micro_batches % stages != 0))
      return fmt::format("the interleaved schedule needs micro-batches ({}) in multiples of pp ({})",
                         micro_batches, stages);
    return {};
  }
  if (chunks != 1) return fmt::format("{} has no vpp", to_string(schedule));
  if (schedule == Schedule::kDualPipe && (stages % 2 != 0 || micro_batches % 2 != 0))
    return fmt::format("{} needs even numbers of stages ({}) and micro-batches ({})", to_string(schedule),
                       stages, micro_batches);
  if (schedule == Schedule::kDualInTicks && micro_batches % 2 != 0)
    return fmt::format("{} needs an even number of micro-batches, and there are {}", to_string(schedule),
                       micro_batches);
  const int64_t least = schedule == Schedule::kDualPipe ? 2 * stages : shares_ends(schedule) ? 1 : stages;
  if (micro_batches < least)
    return fmt::format("{} needs {} micro-batches, and there are {}", to_string(schedule), least,
                       micro_batches);
  return {};
}

Order order_of(Schedule schedule, int stages, int chunks, int64_t micro_batches) {
  const std::string why = no_order_because(schedule, stages, chunks, micro_batches);
  OPENTRN_CHECK(why.empty(), "{}", why);
  if (is_v_shaped(schedule)) return VShape(schedule, stages, micro_batches).order();
  if (schedule == Schedule::kZbH1) return zero_bubble_h1(stages, micro_batches);
  if (schedule == Schedule::kZbInTicks) return zero_bubble_in_ticks(stages, micro_batches);
  if (schedule == Schedule::kDualPipe) return DualPipe(stages, micro_batches).order();
  if (schedule == Schedule::kDualInTicks) return dual_in_ticks(stages, micro_batches);
  if (schedule == Schedule::kGPipe) return all_forward_all_backward(stages, micro_batches);
  return one_forward_one_backward(stages, chunks, micro_batches, schedule == Schedule::k1F1BInTicks);
}

namespace {

constexpr std::tuple<Schedule, std::string_view, std::string_view> kNames[] = {
    {Schedule::k1F1B, "1f1b", "1F1B"},
    {Schedule::kZbH1, "zb-h1", "ZB-H1"},
    {Schedule::kZbV, "zb-v", "ZB-V"},
    {Schedule::kVHalf, "v-half", "V-Half"},
    {Schedule::kVMin, "v-min", "V-Min"},
    {Schedule::kDualPipe, "dualpipe", "DualPipe"},
    {Schedule::kGPipe, "gpipe", "GPipe"},
    {Schedule::k1F1BInTicks, "1f1b-ticks", "1F1B in ticks"},
    {Schedule::kZbInTicks, "zb-ticks", "ZB in ticks"},
    {Schedule::kDualInTicks, "dualpipe-ticks", "DualPipe in ticks"}};

}  // namespace

std::string_view to_string(Schedule schedule) {
  for (const auto& [each, name, text] : kNames)
    if (each == schedule) return text;
  OPENTRN_CHECK(false, "a schedule without a name");
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const auto& [each, word, text] : kNames) names.emplace_back(word);
  return names;
}

std::optional<Schedule> schedule_named(std::string_view name) {
  for (const auto& [each, word, text] : kNames)
    if (word == name) return each;
  return std::nullopt;
}

}  // namespace opentrn::planner
