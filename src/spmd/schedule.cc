#include "spmd/schedule.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/fault.h"

namespace opentrn::spmd {

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Something that happens at a moment of a part's own time.
struct Mark {
  // In the order of one moment: a write is done before a read of the same moment begins.
  enum class What : uint8_t { kWrite, kTrigger, kRead };
  double at_ns = 0;
  What what = What::kRead;
  ValueNumber value = 0;
  size_t collective = 0;  // that is triggered
};
using Triggers = std::vector<std::pair<double, size_t>>;  // when, and which collective

std::vector<Mark> marks_of(const Part& part, const Triggers& triggers) {
  std::vector<Mark> marks;
  const auto within = [&](double at_ns) { return std::clamp(at_ns, 0.0, part.ns); };
  for (const Touch& touch : part.writes)
    marks.push_back({within(touch.at_ns), Mark::What::kWrite, touch.value});
  for (const auto& [at_ns, step] : triggers) marks.push_back({within(at_ns), Mark::What::kTrigger, 0, step});
  for (const Touch& touch : part.reads)
    marks.push_back({within(touch.at_ns), Mark::What::kRead, touch.value});
  std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
    return std::tuple(a.at_ns, a.what) < std::tuple(b.at_ns, b.what);
  });
  return marks;
}

// A part of something that several want, and whose turns are as long as their packets.
struct Claim {
  double wanted = 0;
  double weight = 1;
  double granted = 0;
};

// Those that want less than their turns give have what they want; what they leave is for the others.
void share_out(std::vector<Claim*> claims, double whole) {
  for (bool settled = true; settled && !claims.empty();) {
    double weights = 0;
    for (const Claim* claim : claims) weights += claim->weight;
    const double turn = std::max(whole, 0.0) / weights;
    settled = false;
    std::erase_if(claims, [&](Claim* claim) {
      claim->granted = turn * claim->weight;
      if (claim->wanted > claim->granted) return false;
      claim->granted = claim->wanted;
      whole -= claim->wanted;
      return settled = true;
    });
  }
}

// The rates of collectives that share links, of their own ones: each is held back by its fullest link.
std::vector<double> rates_on_links(std::span<const Collective* const> running,
                                   std::span<const double> weights) {
  std::vector<double> rates(running.size(), 1.0);
  size_t links = 0;
  for (const Collective* one : running) links = std::max(links, one->links ? one->links->size() : 0);
  // Level by level, as max-min sharing is: of all links the fullest first, whose collectives stop there.
  std::vector<bool> stopped(running.size(), false);
  const auto load = [&](size_t i, size_t link) {
    const auto& own = running[i]->links;
    return own && link < own->size() ? static_cast<double>((*own)[link]) : 0.0;
  };
  for (;;) {
    double least = kNever;
    size_t fullest = 0;
    for (size_t link = 0; link < links; ++link) {
      double left = 1, growing = 0, wanted = 0;
      for (size_t i = 0; i < running.size(); ++i) {
        wanted += load(i, link) * (stopped[i] ? rates[i] : 1);
        if (stopped[i])
          left -= load(i, link) * rates[i];
        else if (load(i, link) > 0)
          growing += weights[i];
      }
      if (wanted <= 1 || growing == 0) continue;
      // Per unit of weight; those that the level would give all they want do not stop here.
      const double level = std::max(left, 0.0) / growing;
      if (level < least) {
        least = level;
        fullest = link;
      }
    }
    if (least == kNever) return rates;
    std::vector<Claim> claims(running.size());
    std::vector<Claim*> open;
    double left = 1;
    for (size_t i = 0; i < running.size(); ++i) {
      claims[i] = {load(i, fullest), weights[i]};
      if (stopped[i])
        left -= load(i, fullest) * rates[i];
      else if (claims[i].wanted > 0)
        open.push_back(&claims[i]);
    }
    share_out(open, left);
    for (size_t i = 0; i < running.size(); ++i)
      if (!stopped[i] && claims[i].granted < claims[i].wanted) {
        rates[i] = claims[i].granted / claims[i].wanted;
        stopped[i] = true;
      }
  }
}

class Scheduler {
 public:
  Scheduler(std::span<const Step> steps, const ScheduleOptions& options) : steps_(steps), options_(options) {
    result_.steps.resize(steps.size());
    number_waits();
  }

  Schedule run() {
    next_part();
    start_collectives();
    while (part_ < steps_.size() || !running_.empty()) {
      const Rates rates = rates_now();
      const double next = std::min(until_mark(rates.part), until_collective(rates.collectives));
      OPENTRN_CHECK(next < kNever, "steps of a program wait for each other");
      advance(next, rates);
    }
    for (const StepTime& step : result_.steps) result_.end_ns = std::max(result_.end_ns, step.end_ns);
    return std::move(result_);
  }

 private:
  struct Running {
    size_t step;
    double left_ns;
    double bytes_per_ns;
  };

  // What each collective still waits for, and how urgent it is.
  void number_waits() {
    for (const Step& step : steps_)
      for (const ValueNumber value : written_by(step)) missing_.insert(value);
    waits_.resize(steps_.size());
    urgency_ = first_needs(steps_);
    for (size_t i = steps_.size(); i-- > 0;) {
      if (std::holds_alternative<Part>(steps_[i])) continue;
      const auto& collective = std::get<Collective>(steps_[i]);
      if (const auto& moment = collective.not_before; moment && *moment <= urgency_[i] &&
                                                      moment->step < steps_.size() &&
                                                      std::holds_alternative<Part>(steps_[moment->step])) {
        ++waits_[i];
        triggers_[moment->step].emplace_back(moment->at_ns, i);
      }
      std::set<ValueNumber> reads(collective.reads.begin(), collective.reads.end());
      for (const ValueNumber value : reads) {
        if (!missing_.contains(value)) continue;
        ++waits_[i];
        readers_[value].push_back(i);
      }
      if (waits_[i] == 0) make_ready(i);
    }
  }

  static std::vector<ValueNumber> written_by(const Step& step) {
    if (const auto* collective = std::get_if<Collective>(&step)) return collective->writes;
    std::vector<ValueNumber> values;
    for (const Touch& touch : std::get<Part>(step).writes) values.push_back(touch.value);
    return values;
  }

  void make_ready(size_t step) {
    const Moment& need = urgency_[step];
    ready_[std::get<Collective>(steps_[step]).stream].insert({need.step, need.at_ns, step});
  }

  void start_collectives() {
    for (auto& [stream, ready] : ready_) {
      if (ready.empty() || busy_.contains(stream)) continue;
      const size_t step = std::get<2>(*ready.begin());
      ready.erase(ready.begin());
      const auto& collective = std::get<Collective>(steps_[step]);
      busy_.insert(stream);
      running_.push_back({step, collective.ns, collective.ns > 0 ? collective.hbm_bytes / collective.ns : 0});
      result_.steps[step].start_ns = now_;
    }
  }

  void write(ValueNumber value) {
    if (missing_.erase(value) == 0) return;
    if (const auto found = readers_.find(value); found != readers_.end())
      for (const size_t step : found->second)
        if (--waits_[step] == 0) make_ready(step);
  }

  // The next part from `part_` on; the number of steps where there is none.
  void next_part() {
    while (part_ < steps_.size() && !std::holds_alternative<Part>(steps_[part_])) ++part_;
    if (part_ == steps_.size()) return;
    const Part& part = std::get<Part>(steps_[part_]);
    marks_ = marks_of(part, triggers_[part_]);
    mark_ = 0;
    done_ns_ = 0;
    result_.parts_ns += part.ns;
    result_.steps[part_].start_ns = now_;
    knot();
    pass_marks();
  }

  void knot() { result_.steps[part_].knots.push_back({done_ns_, now_}); }

  // Passes what happens now, up to a read that has to wait.
  void pass_marks() {
    for (; mark_ < marks_.size() && marks_[mark_].at_ns <= done_ns_ && !is_blocked(); ++mark_)
      if (const Mark& mark = marks_[mark_]; mark.what == Mark::What::kWrite)
        write(mark.value);
      else if (mark.what == Mark::What::kTrigger && --waits_[mark.collective] == 0)
        make_ready(mark.collective);
    if (mark_ < marks_.size() || done_ns_ < std::get<Part>(steps_[part_]).ns) return;
    knot();
    result_.steps[part_].end_ns = now_;
    ++part_;
    next_part();
  }

  bool is_blocked() const {
    return mark_ < marks_.size() && marks_[mark_].what == Mark::What::kRead &&
           marks_[mark_].at_ns <= done_ns_ && missing_.contains(marks_[mark_].value);
  }

  // Of their own times in a nanosecond.
  struct Rates {
    double part = 0;
    std::vector<double> collectives;  // in the order of running_
  };
  Rates rates_now() {
    Rates rates{0, shared_links()};
    const bool goes_on = part_ < steps_.size() && !is_blocked();
    if (goes_on) rates.part = 1;
    const double whole = options_.hbm_bytes_per_ns;
    // Each alone had its time with what memory there is, and no more.
    std::vector<Claim> claims;
    double wanted = 0;
    for (size_t i = 0; i < running_.size(); ++i)
      claims.push_back({std::min(running_[i].bytes_per_ns, whole) * rates.collectives[i],
                        weight_of(std::get<Collective>(steps_[running_[i].step]).stream)});
    const Part* part = goes_on ? &std::get<Part>(steps_[part_]) : nullptr;
    claims.push_back({part && part->ns > 0 ? std::min(part->hbm_bytes / part->ns, whole) : 0, 1});
    std::vector<Claim*> open;
    for (Claim& claim : claims) {
      wanted += claim.wanted;
      if (claim.wanted > 0) open.push_back(&claim);
    }
    if (whole <= 0 || wanted <= whole) return rates;
    share_out(open, whole);
    const auto of = [](const Claim& claim) {
      return claim.wanted > 0 ? std::min(1.0, claim.granted / claim.wanted) : 1.0;
    };
    for (size_t i = 0; i < running_.size(); ++i) rates.collectives[i] *= of(claims[i]);
    if (goes_on) rates.part = of(claims.back());
    return rates;
  }

  // Against a part's 1, where the part has what is left of the share.
  double weight_of(int stream) const {
    constexpr double kAllOfIt = 1e12;
    const auto at = static_cast<size_t>(stream);
    const double share = at < options_.of_stream.size() ? options_.of_stream[at] : options_.of_collectives;
    return share < 1 ? std::min(kAllOfIt, share / (1 - share)) : kAllOfIt;
  }

  // Of the collectives under way, by what they share with each other. The same few are together again and
  // again.
  std::vector<double> shared_links() {
    if (running_.size() < 2) return std::vector<double>(running_.size(), 1.0);
    std::vector<const Collective*> running;
    std::vector<double> weights;
    std::vector<std::pair<const void*, int>> key;
    for (const Running& one : running_) {
      const auto& collective = std::get<Collective>(steps_[one.step]);
      running.push_back(&collective);
      weights.push_back(weight_of(collective.stream));
      key.emplace_back(collective.links.get(), collective.stream);
    }
    const auto [found, is_new] = on_links_.try_emplace(std::move(key));
    if (is_new) found->second = rates_on_links(running, weights);
    return found->second;
  }

  double until_mark(double rate) const {
    if (rate <= 0) return kNever;
    const double end = std::get<Part>(steps_[part_]).ns;
    return ((mark_ < marks_.size() ? marks_[mark_].at_ns : end) - done_ns_) / rate;
  }

  double until_collective(const std::vector<double>& rates) const {
    double least = kNever;
    for (size_t i = 0; i < running_.size(); ++i) least = std::min(least, running_[i].left_ns / rates[i]);
    return least;
  }

  void advance(double ns, const Rates& rates) {
    const double rate = rates.part;
    const bool reaches_mark = rate > 0 && until_mark(rate) <= ns;
    if (!running_.empty()) {
      result_.collectives_ns += ns;
      if (rate <= 0) result_.exposed_ns += ns;
      for (const double of_one : rates.collectives) result_.held_up_ns += ns * (1 - of_one);
    }
    now_ += ns;
    if (rate > 0) {
      result_.slowed_ns += ns * (1 - rate);
      const double end = std::get<Part>(steps_[part_]).ns;
      const double mark = mark_ < marks_.size() ? marks_[mark_].at_ns : end;
      done_ns_ = reaches_mark ? mark : std::min(mark, done_ns_ + ns * rate);
    }
    if (part_ < steps_.size()) knot();
    // The last bit of a difference must not keep a collective alive.
    const double least = until_collective(rates.collectives);
    std::vector<size_t> ended;
    std::erase_if(running_, [&](Running& one) {
      const double own_rate = rates.collectives[static_cast<size_t>(&one - running_.data())];
      const double left_ns = one.left_ns / own_rate;
      const bool ends = left_ns <= ns && left_ns <= least;
      one.left_ns -= ns * own_rate;
      if (ends) ended.push_back(one.step);
      return ends;
    });
    for (const size_t step : ended) {
      const auto& collective = std::get<Collective>(steps_[step]);
      result_.steps[step].end_ns = now_;
      busy_.erase(collective.stream);
      for (const ValueNumber value : collective.writes) write(value);
    }
    if (part_ < steps_.size()) pass_marks();
    start_collectives();
  }

  const std::span<const Step> steps_;
  const ScheduleOptions options_;
  Schedule result_;
  double now_ = 0;
  // Values that a step will write.
  std::set<ValueNumber> missing_;
  // Of collectives: how many of its values are missing, who waits for a value, and the first part and moment
  // that need what it gives.
  std::vector<int> waits_;
  std::unordered_map<ValueNumber, std::vector<size_t>> readers_;
  std::vector<Moment> urgency_;
  std::map<size_t, Triggers> triggers_;  // by part
  std::map<std::vector<std::pair<const void*, int>>, std::vector<double>> on_links_;
  std::map<int, std::set<std::tuple<size_t, double, size_t>>> ready_;  // by stream
  std::set<int> busy_;
  std::vector<Running> running_;
  // The part that runs or waits.
  size_t part_ = 0, mark_ = 0;
  std::vector<Mark> marks_;
  double done_ns_ = 0;
};

}  // namespace

std::vector<Moment> first_needs(std::span<const Step> steps) {
  std::vector<Moment> first(steps.size(), Moment{steps.size(), 0});
  std::unordered_map<ValueNumber, Moment> needed;
  const auto need = [&](ValueNumber value, const Moment& when) {
    const auto [found, fresh] = needed.try_emplace(value, when);
    if (!fresh) found->second = std::min(found->second, when);
  };
  for (size_t i = steps.size(); i-- > 0;) {
    const auto see = [&](ValueNumber value) {
      if (const auto found = needed.find(value); found != needed.end())
        first[i] = std::min(first[i], found->second);
    };
    if (const auto* part = std::get_if<Part>(&steps[i])) {
      for (const Touch& touch : part->writes) see(touch.value);
      for (const Touch& touch : part->reads) need(touch.value, {i, touch.at_ns});
      continue;
    }
    const auto& collective = std::get<Collective>(steps[i]);
    for (const ValueNumber value : collective.writes) see(value);
    for (const ValueNumber value : collective.reads) need(value, first[i]);
  }
  return first;
}

Schedule schedule(std::span<const Step> steps, const ScheduleOptions& options) {
  return Scheduler(steps, options).run();
}

double time_of(const StepTime& part, double part_ns) {
  const auto& knots = part.knots;
  if (knots.empty()) return part.start_ns + part_ns;
  // Where it waited at this moment, the first of the two knots: what was done before the wait.
  const auto at = std::lower_bound(knots.begin(), knots.end(), part_ns,
                                   [](const Knot& knot, double wanted) { return knot.part_ns < wanted; });
  if (at == knots.begin()) return at->ns;
  if (at == knots.end()) return knots.back().ns + (part_ns - knots.back().part_ns);
  const Knot &before = at[-1], &after = *at;
  return before.ns + (after.ns - before.ns) * (part_ns - before.part_ns) / (after.part_ns - before.part_ns);
}

}  // namespace opentrn::spmd
