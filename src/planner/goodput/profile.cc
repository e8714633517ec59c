#include "planner/goodput/profile.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "arch/closest.h"

namespace opentrn::planner {
namespace {

// Standard deviations from the middle to the ends of what four in five lie between.
constexpr double kEightyPercent = 1.2816;

Reliability with(const UncertainJob& job, double rate, double restart_s, double write_s) {
  Reliability changed = job.nominal;
  for (Cause& cause : changed.causes) {
    cause.per_hour *= rate;
    cause.restart_s = restart_s;
  }
  // A checkpoint written behind the work takes its time there; the stall is the user's own figure.
  if (changed.commit_s > 0)
    changed.commit_s = std::min(changed.interval_s, write_s);
  else
    changed.write_s = write_s;
  return changed;
}

}  // namespace

double Profile::per_chip_hour() const {
  return std::accumulate(counts.begin(), counts.end(), 0.0) / (days * 24 * chips);
}

std::vector<std::string> profiles(const arch::Tables& tables) {
  return tables.facts().items("reliability.profile");
}

Profile profile_of(const arch::Tables& tables, const std::string& name) {
  const std::vector<std::string> names = profiles(tables);
  if (std::ranges::find(names, name) == names.end())
    throw Fault(FaultKind::kInput, "goodput.profile", fmt::format("nobody published failures as '{}'", name),
                arch::did_you_mean(name, names, fmt::format("one of: {}", fmt::join(names, ", "))));
  const auto fact = [&](const char* member) -> const arch::Fact& {
    return tables.facts().at(fmt::format("reliability.profile.{}.{}", name, member));
  };
  const auto known = [&](const char* member) {
    return fact(member).known() ? fact(member).as<double>() : 0.0;
  };
  Profile out;
  out.name = name;
  out.note = fact("counts").note.empty() ? fact("scales_with").note : fact("counts").note;
  out.source = fact("scales_with").source;
  out.with_hosts = fact("scales_with").as<std::string>() == "host";
  if (const arch::Fact* by_hand =
          tables.facts().find(fmt::format("reliability.profile.{}.restarts_by_hand", name)))
    out.restarts_by_hand = by_hand->as<bool>();
  out.chips = known("chips");
  out.chips_per_host = known("chips_per_host");
  out.days = known("days");
  out.causes = fact("causes").as<std::vector<std::string>>();
  out.counts = fact("counts").as<std::vector<double>>();
  out.takes_host = fact("takes_host").as<std::vector<double>>();
  out.failures_seen = known("failures_seen");
  out.parameters = known("parameters");
  out.checkpoint_gb_s = known("checkpoint_gb_s");
  if (out.counts.size() != out.causes.size() || out.takes_host.size() != out.causes.size())
    throw Fault(FaultKind::kInput, "goodput.profile",
                fmt::format("profile {}: {} causes, {} counts, {} shares that take a host", name,
                            out.causes.size(), out.counts.size(), out.takes_host.size()),
                "one of each for every cause");
  for (const arch::Fact* each : tables.facts().under("reliability.profile." + name))
    for (const std::string& row : each->calibrated_on)
      if (std::ranges::find(out.calibrated_on, row) == out.calibrated_on.end())
        out.calibrated_on.push_back(row);
  return out;
}

double checkpoint_bytes(const arch::Tables& tables, double parameters) {
  return parameters * tables.facts().at("reliability.job.bytes_per_parameter").as<double>();
}

UncertainJob reliability_of(const arch::Tables& tables, const GoodputJob& job) {
  const Profile profile = profile_of(tables, job.profile);
  if (!(job.chips >= 1) || !(job.chips_per_host >= 1) || job.chips > 1e8)
    throw Fault(FaultKind::kInput, "goodput.value",
                fmt::format("{} chips, {} of a host", job.chips, job.chips_per_host),
                "--chips 16384, and --chips-per-host where that is not 8");
  UncertainJob out;
  const auto assumed = [&](const char* member) {
    const std::string key = std::string("reliability.job.") + member;
    out.basis.push_back(key);
    return tables.facts().at(key).as<double>();
  };
  // A host of n chips counts as a host, whatever it holds.
  const double hosts = std::ceil(job.chips / job.chips_per_host);
  const double units = profile.with_hosts ? hosts * profile.chips_per_host : job.chips;
  const double seen = std::exp(kEightyPercent / std::sqrt(profile.failures_seen));
  const double spread = job.own_hardware || job.mttf_h > 0 ? 1 : assumed("rate_spread");
  out.rate = {1, 1 / (job.mttf_h > 0 ? 1 : seen * spread), job.mttf_h > 0 ? 1 : seen * spread};
  out.restart_s = {assumed("restart_s"), assumed("restart_low_s"), assumed("restart_high_s")};
  if (job.restart_s > 0)
    out.restart_s = {job.restart_s, job.restart_s, job.restart_s};
  else
    out.assumed.push_back(fmt::format("a restart takes {} s ({} to {})", out.restart_s.value,
                                      out.restart_s.low, out.restart_s.high));
  if (!(job.checkpoint_bytes > 0))
    throw Fault(FaultKind::kInput, "goodput.checkpoint", "nothing says how large a checkpoint is",
                "--model NAME, --parameters 405e9 or --checkpoint-tb 5.7");
  const double per_host = assumed("checkpoint_gb_s_per_host");
  const double gb_s = job.checkpoint_gb_s > 0 ? job.checkpoint_gb_s : per_host * hosts;
  const double seconds = job.checkpoint_bytes / (gb_s * 1e9);
  out.write_s = {seconds, seconds, seconds};
  if (job.checkpoint_gb_s <= 0) {
    out.write_s = {seconds, seconds / assumed("checkpoint_high"), seconds / assumed("checkpoint_low")};
    out.assumed.push_back(
        fmt::format("checkpoints are written at {} GB/s a host, {:.0f} GB/s in all", per_host, gb_s));
  }
  Reliability& nominal = out.nominal;
  nominal.write_s = job.stall_s >= 0 ? job.stall_s : seconds;
  nominal.commit_s = job.stall_s >= 0 ? seconds : 0;
  const double stated = job.mttf_h > 0 ? 1 / job.mttf_h / (profile.per_chip_hour() * units)
                                       : 1;  // the causes keep their shares
  for (size_t i = 0; i < profile.causes.size(); ++i)
    nominal.causes.push_back({profile.causes[i],
                              profile.counts[i] / (profile.days * 24 * profile.chips) * units * stated,
                              profile.takes_host[i], out.restart_s.value});
  if (!job.own_hardware && job.mttf_h <= 0)
    out.assumed.push_back(
        fmt::format("no failure rate of these chips was ever published: {}'s a {}, halved "
                    "to doubled",
                    profile.name, profile.with_hosts ? "host" : "chip"));
  nominal.spares = job.spares;
  nominal.repair_h = job.repair_h > 0 ? job.repair_h : assumed("repair_h");
  if (job.spares && job.repair_h <= 0)
    out.assumed.push_back(fmt::format("a host is repaired in {} h", nominal.repair_h));
  nominal.slow_chance = 1 - std::pow(1 - job.slow_hosts, hosts);
  nominal.slowdown = job.slowdown;
  nominal.interval_s = job.interval_s > 0 ? job.interval_s : best_interval_s(nominal);
  (void)goodput_of(nominal);  // refuses what cannot be
  return out;
}

GoodputInterval goodput_interval(const UncertainJob& job, uint64_t seed, int samples) {
  const auto useful = [&](double rate, double restart_s, double write_s) {
    return goodput_of(with(job, rate, restart_s, write_s)).useful;
  };
  const Between &rate = job.rate, &restart = job.restart_s, &write = job.write_s;
  std::vector<double> all;
  SplitMix64 random(seed);
  for (int i = 0; i < samples; ++i) {
    const double a = sample(rate, random), b = sample(restart, random), c = sample(write, random);
    all.push_back(useful(a, b, c));
  }
  GoodputInterval out;
  out.useful = summary_of(goodput_of(job.nominal).useful, all);
  out.by_rate = useful(rate.low, restart.value, write.value) - useful(rate.high, restart.value, write.value);
  out.by_restart = useful(1, restart.low, write.value) - useful(1, restart.high, write.value);
  out.by_write = useful(1, restart.value, write.low) - useful(1, restart.value, write.high);
  return out;
}

}  // namespace opentrn::planner
