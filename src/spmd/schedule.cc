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
  double at_ns = 0;
  bool writes = false;  // a write is done before a read of the same moment begins
  ValueNumber value = 0;
};

std::vector<Mark> marks_of(const Part& part) {
  std::vector<Mark> marks;
  for (const Touch& touch : part.writes)
    marks.push_back({std::clamp(touch.at_ns, 0.0, part.ns), true, touch.value});
  for (const Touch& touch : part.reads)
    marks.push_back({std::clamp(touch.at_ns, 0.0, part.ns), false, touch.value});
  std::stable_sort(marks.begin(), marks.end(), [](const Mark& a, const Mark& b) {
    return std::tuple(a.at_ns, !a.writes) < std::tuple(b.at_ns, !b.writes);
  });
  return marks;
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
    std::unordered_map<ValueNumber, std::pair<size_t, double>> needed;
    const auto need = [&](ValueNumber value, std::pair<size_t, double> when) {
      const auto [found, fresh] = needed.try_emplace(value, when);
      if (!fresh) found->second = std::min(found->second, when);
    };
    for (size_t i = steps_.size(); i-- > 0;) {
      if (const auto* part = std::get_if<Part>(&steps_[i])) {
        for (const Touch& touch : part->reads) need(touch.value, {i, touch.at_ns});
        continue;
      }
      const auto& collective = std::get<Collective>(steps_[i]);
      std::pair<size_t, double> first{steps_.size(), 0};
      for (const ValueNumber value : collective.writes)
        if (const auto found = needed.find(value); found != needed.end())
          first = std::min(first, found->second);
      for (const ValueNumber value : collective.reads) need(value, first);
      urgency_[i] = first;
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
    const auto [part, at_ns] = urgency_.at(step);
    ready_[std::get<Collective>(steps_[step]).stream].insert({part, at_ns, step});
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
    marks_ = marks_of(part);
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
      if (marks_[mark_].writes) write(marks_[mark_].value);
    if (mark_ < marks_.size() || done_ns_ < std::get<Part>(steps_[part_]).ns) return;
    knot();
    result_.steps[part_].end_ns = now_;
    ++part_;
    next_part();
  }

  bool is_blocked() const {
    return mark_ < marks_.size() && !marks_[mark_].writes && marks_[mark_].at_ns <= done_ns_ &&
           missing_.contains(marks_[mark_].value);
  }

  // Of their own times in a nanosecond.
  struct Rates {
    double part = 0, collectives = 1;
  };
  Rates rates_now() const {
    if (part_ == steps_.size() || is_blocked()) return {};
    const Part& part = std::get<Part>(steps_[part_]);
    const double whole = options_.hbm_bytes_per_ns;
    double wanted = part.ns > 0 ? part.hbm_bytes / part.ns : 0, taken = 0;
    for (const Running& one : running_) taken += one.bytes_per_ns;
    if (whole <= 0 || taken <= 0 || wanted + taken <= whole) return {1, 1};
    // Each alone had its time with what there is, and no more.
    wanted = std::min(wanted, whole);
    taken = std::min(taken, whole);
    const double collectives =
        std::min(1.0, std::max(whole - wanted, whole * options_.of_collectives) / taken);
    return {wanted > 0 ? std::min(1.0, (whole - taken * collectives) / wanted) : 1, collectives};
  }

  double until_mark(double rate) const {
    if (rate <= 0) return kNever;
    const double end = std::get<Part>(steps_[part_]).ns;
    return ((mark_ < marks_.size() ? marks_[mark_].at_ns : end) - done_ns_) / rate;
  }

  double until_collective(double rate) const {
    double least = kNever;
    for (const Running& one : running_) least = std::min(least, one.left_ns / rate);
    return least;
  }

  void advance(double ns, const Rates& rates) {
    const double rate = rates.part;
    const bool reaches_mark = rate > 0 && until_mark(rate) <= ns;
    if (!running_.empty()) {
      result_.collectives_ns += ns;
      if (rate <= 0) result_.exposed_ns += ns;
      result_.held_up_ns += ns * (1 - rates.collectives);
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
      const double left_ns = one.left_ns / rates.collectives;
      const bool ends = left_ns <= ns && left_ns <= least;
      one.left_ns -= ns * rates.collectives;
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
  std::map<size_t, std::pair<size_t, double>> urgency_;
  std::map<int, std::set<std::tuple<size_t, double, size_t>>> ready_;  // by stream
  std::set<int> busy_;
  std::vector<Running> running_;
  // The part that runs or waits.
  size_t part_ = 0, mark_ = 0;
  std::vector<Mark> marks_;
  double done_ns_ = 0;
};

}  // namespace

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
