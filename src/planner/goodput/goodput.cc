#include "planner/goodput/goodput.h"

#include <algorithm>
#include <cmath>

#include "base/fault.h"

namespace opentrn::planner {
namespace {

void check(const Reliability& job) {
  const auto refuse = [](const std::string& what, const char* hint) {
    throw Fault(FaultKind::kInput, "goodput.value", what, hint);
  };
  for (const Cause& cause : job.causes) {
    if (!(cause.per_hour >= 0) || !std::isfinite(cause.per_hour) || !(cause.restart_s >= 0))
      refuse(fmt::format("cause '{}': {} failures an hour, {} s to restart", cause.name, cause.per_hour,
                         cause.restart_s),
             "rates and times of zero or more");
    if (!(cause.takes_host >= 0 && cause.takes_host <= 1))
      refuse(fmt::format("cause '{}' takes a host in {} of its failures", cause.name, cause.takes_host),
             "a share between 0 and 1");
  }
  if (!(job.interval_s > 0) || !std::isfinite(job.interval_s))
    refuse(fmt::format("an interval of {} s between checkpoints", job.interval_s), "seconds of work above 0");
  if (!(job.write_s >= 0) || !(job.commit_s >= 0))
    refuse(fmt::format("a checkpoint that takes {} s and {} s", job.write_s, job.commit_s),
           "seconds of zero or more");
  if (job.commit_s > job.interval_s)
    refuse(fmt::format("a checkpoint is whole after {} s, and the next one starts after {} s of work",
                       job.commit_s, job.interval_s),
           "a longer interval, or a faster store: --checkpoint-gb-s");
  if (job.spares && (*job.spares < 0 || !(job.repair_h > 0)))
    refuse(fmt::format("{} spare hosts and {} h of repair", *job.spares, job.repair_h),
           "no spare or more, and a repair time above 0");
  if (!(job.slow_chance >= 0 && job.slow_chance <= 1) || !(job.slowdown >= 0))
    refuse(fmt::format("slow hosts with chance {} by {}", job.slow_chance, job.slowdown),
           "a chance between 0 and 1, and a slowdown of zero or more");
}

// That at most `limit` hosts are in repair, of which there are `mean` on average: hosts fail independently
// and are repaired independently, so their number is Poisson's whatever the distribution of the repair.
double at_most(int limit, double mean) {
  double sum = 0;
  for (int k = 0; k <= limit; ++k) sum += std::exp(k * std::log(mean) - mean - std::lgamma(k + 1.0));
  return std::min(1.0, sum);
}

}  // namespace

double Reliability::per_hour() const {
  double sum = 0;
  for (const Cause& cause : causes) sum += cause.per_hour;
  return sum;
}

Goodput goodput_of(const Reliability& job) {
  check(job);
  Goodput out;
  const double rate = job.per_hour() / 3600, segment = job.interval_s + job.write_s;
  const double slow = job.slow_chance * job.slowdown / (1 + job.slowdown);
  if (rate <= 0) {
    out.mttf_h = INFINITY;
    out.checkpoints = job.write_s / segment;
    out.slow = (1 - out.checkpoints) * slow;
    out.useful = 1 - out.checkpoints - out.slow;
    return out;
  }
  out.mttf_h = 1 / job.per_hour();
  // Chance that a restart is not interrupted; the share of time that the job is up where it never waits.
  double up = 0, hosts_per_hour = 0;
  for (const Cause& cause : job.causes) {
    up += cause.per_hour / job.per_hour() * std::exp(-rate * cause.restart_s);
    hosts_per_hour += cause.per_hour * cause.takes_host;
  }
  // Mean time for one more checkpoint that is whole.
  const double each = std::exp(rate * job.commit_s) * std::expm1(rate * segment) / (rate * up);
  // With spares: hosts fail and are repaired whether the job runs or not, so the time with too few of them is
  // independent of the job, and what is left of the clock has failures at the same rate.
  const double staffed =
      job.spares && hosts_per_hour > 0 ? at_most(*job.spares, hosts_per_hour * job.repair_h) : 1.0;
  out.waiting = 1 - staffed;
  out.restarts = staffed * (1 - up);
  out.checkpoints = staffed * job.write_s / each;
  const double worked = staffed * job.interval_s / each;
  out.slow = worked * slow;
  out.useful = worked - out.slow;
  out.lost = std::max(0.0, 1 - out.useful - out.slow - out.checkpoints - out.restarts - out.waiting);
  return out;
}

double best_interval_s(Reliability job) {
  const auto loss = [&](double log_interval) {
    job.interval_s = std::exp(log_interval);
    return -goodput_of(job).useful;
  };
  // One interval is best: loss falls with it while checkpoints cost most and rises when lost work does.
  double low = std::log(std::max(1e-3, job.commit_s)), high = std::log(1e9);
  job.interval_s = std::exp(low);
  if (const double rate = job.per_hour(); rate > 0) high = std::max(low + 1e-3, std::log(20 * 3600 / rate));
  const double ratio = (std::sqrt(5.0) - 1) / 2;
  while (high - low > 1e-4) {
    const double left = high - ratio * (high - low), right = low + ratio * (high - low);
    if (loss(left) <= loss(right))
      high = right;
    else
      low = left;
  }
  return std::exp((low + high) / 2);
}

}  // namespace opentrn::planner
