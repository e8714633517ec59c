#include "planner/goodput/monte_carlo.h"

#include <algorithm>
#include <cmath>
#include <queue>

#include "base/fault.h"
#include "base/interrupt.h"
#include "base/random.h"

namespace opentrn::planner {
namespace {

double exponential(SplitMix64& random, double mean) { return -mean * std::log1p(-random.uniform()); }

// Hosts in repair: the times at which they are back.
class Repairs {
 public:
  Repairs(double mean_s, double in_repair, SplitMix64& random) : mean_s_(mean_s) {
    // As a job that has run for long finds them: a Poisson number, by counting arrivals in a unit of time.
    for (double at = exponential(random, 1); at < in_repair; at += exponential(random, 1)) add(0, random);
  }
  void add(double now, SplitMix64& random) { back_.push(now + exponential(random, mean_s_)); }
  size_t at(double now) {
    while (!back_.empty() && back_.top() <= now) back_.pop();
    return back_.size();
  }
  double next() const { return back_.top(); }

 private:
  double mean_s_;
  std::priority_queue<double, std::vector<double>, std::greater<>> back_;
};

class Run {
 public:
  Run(const Reliability& job, uint64_t seed) : job_(job), random_(seed), mean_s_(3600 / job.per_hour()) {}

  double useful_share(double end_s) {
    const double slow = random_.uniform() < job_.slow_chance ? 1 / (1 + job_.slowdown) : 1;
    double hosts_per_hour = 0;
    for (const Cause& cause : job_.causes) hosts_per_hour += cause.per_hour * cause.takes_host;
    Repairs repairs(job_.repair_h * 3600, job_.spares ? hosts_per_hour * job_.repair_h : 0, random_);
    double now = 0, worked = 0, failure = exponential(random_, mean_s_);
    if (job_.spares) failure = staffed(repairs, now, failure);
    while (now < end_s) {
      if (failures_ % 4096 == 0) interrupt::poll();
      const double stop = std::min(failure, end_s);
      worked += stop == failure ? whole(stop - now) : partial(stop - now);
      if (failure >= end_s) break;
      now = failure;
      ++failures_;
      double restart_s = take(repairs, now);
      failure = now + exponential(random_, mean_s_);
      // A restart that is interrupted begins anew, with the later cause.
      while (true) {
        if (job_.spares) failure = staffed(repairs, now, failure);
        if (failure >= now + restart_s || now >= end_s) break;
        now = failure;
        ++failures_;
        restart_s = take(repairs, now);
        failure = now + exponential(random_, mean_s_);
      }
      now += restart_s;
    }
    return worked * slow / end_s;
  }
  int64_t failures() const { return failures_; }

 private:
  // Work of the checkpoints that are whole after so much time.
  double whole(double up_s) const {
    const double segment = job_.interval_s + job_.write_s;
    return std::max(0.0, std::floor((up_s - job_.commit_s) / segment)) * job_.interval_s;
  }
  // The same and what is under way, for the end of the clock.
  double partial(double up_s) const {
    const double segment = job_.interval_s + job_.write_s, done = std::floor(up_s / segment);
    return done * job_.interval_s + std::min(job_.interval_s, up_s - done * segment);
  }
  // A failure's cause: the restart that it needs; a host may go to repair.
  double take(Repairs& repairs, double now) {
    double at = random_.uniform() * job_.per_hour();
    size_t i = 0;
    while (i + 1 < job_.causes.size() && at >= job_.causes[i].per_hour) at -= job_.causes[i++].per_hour;
    const Cause& cause = job_.causes[i];
    if (job_.spares && random_.uniform() < cause.takes_host) repairs.add(now, random_);
    return cause.restart_s;
  }
  // Until hosts enough are there: `now` moves on; the next failure after that. Hosts fail meanwhile, too.
  double staffed(Repairs& repairs, double& now, double failure) {
    const auto spares = static_cast<size_t>(*job_.spares);
    while (repairs.at(now) > spares) {
      if (failure < repairs.next()) {
        now = failure;
        take(repairs, now);
        failure = now + exponential(random_, mean_s_);
      } else {
        now = repairs.next();
      }
    }
    return failure;
  }

  const Reliability& job_;
  SplitMix64 random_;
  double mean_s_;
  int64_t failures_ = 0;
};

}  // namespace

MonteCarlo simulate_goodput(const Reliability& job, const MonteCarloOptions& options) {
  const Goodput exact = goodput_of(job);  // checks the values, too
  if (options.runs < 1 || !(options.days > 0))
    throw Fault(FaultKind::kInput, "goodput.value",
                fmt::format("{} runs of {} days", options.runs, options.days),
                "at least one run, above 0 days");
  MonteCarlo out;
  if (job.per_hour() <= 0) {
    out.useful = out.low = out.high = exact.useful;
    return out;
  }
  constexpr double kFailuresMax = 2e8;  // of all runs: some ten seconds
  if (const double failures = options.runs * options.days * 24 * job.per_hour(); failures > kFailuresMax)
    throw Fault(
        FaultKind::kInput, "goodput.value",
        fmt::format("{} runs of {} days would have {:.3g} failures", options.runs, options.days, failures),
        fmt::format("at most {:.3g}: --runs, --days, or a longer time between failures", kFailuresMax));
  std::vector<double> shares;
  SplitMix64 seeds(options.seed);
  for (int i = 0; i < options.runs; ++i) {
    interrupt::poll();
    Run run(job, seeds.next());
    shares.push_back(run.useful_share(options.days * 86400));
    out.useful += shares.back() / options.runs;
    out.failures += double(run.failures()) / options.runs;
  }
  double squares = 0;
  for (const double share : shares) squares += (share - out.useful) * (share - out.useful);
  out.standard_error = options.runs > 1 ? std::sqrt(squares / (options.runs - 1.0) / options.runs) : 0;
  std::ranges::sort(shares);
  const auto at = [&](double share) { return shares[static_cast<size_t>(share * (shares.size() - 1))]; };
  out.low = at(0.1);
  out.high = at(0.9);
  return out;
}

}  // namespace opentrn::planner
