#include "planner/check/score.h"

#include <algorithm>
#include <cmath>
#include <regex>

#include <fmt/format.h>

#include "planner/interval.h"

namespace opentrn::planner {
namespace {

// "foundry.a100*" names many rows.
bool matches(const std::string& pattern, const std::string& id) {
  size_t at = 0, from = 0;
  while (true) {
    const size_t star = pattern.find('*', from);
    const std::string part = pattern.substr(from, star == std::string::npos ? star : star - from);
    if (star == std::string::npos) {
      if (from == 0) return id == part;
      return id.size() >= at + part.size() && id.ends_with(part);
    }
    const size_t found = from == 0 ? (id.starts_with(part) ? 0 : std::string::npos) : id.find(part, at);
    if (found == std::string::npos) return false;
    at = found + part.size();
    from = star + 1;
  }
}

// What a row leaves open is filled in as the planner would: the fastest that fits.
Estimate best_of(const Recipe& recipe) {
  if (recipe.candidates.empty()) return evaluate(recipe.job, recipe.machine, recipe.stack, recipe.layout);
  Estimate best;
  for (const Layout& each : recipe.candidates) {
    const Estimate now = evaluate(recipe.job, recipe.machine, recipe.stack, each);
    const bool better =
        best.step_s == 0 || (now.fits && !best.fits) || (now.fits == best.fits && now.step_s < best.step_s);
    if (better) best = now;
  }
  return best;
}

double hardware_seconds(const Recipe& recipe, const Layout& layout) {
  const double flops =
      recipe.job.model.flops_per_token(recipe.job.seq) * recipe.job.seq * recipe.job.global_batch;
  const double again = layout.recompute == Recompute::kFull ? 4.0 / 3 : 1;
  const int at = recipe.job.precision == Precision::kFp32  ? 2
                 : recipe.job.precision == Precision::kFp8 ? 1
                                                           : 0;
  return flops * again / (recipe.machine.rates.peak[at] * double(recipe.machine.ranks));
}

// Step time on one server with its share of the batch, over the time on all.
double scaling_of(const Recipe& recipe, const Estimate& all) {
  Recipe one = recipe;
  const double servers = double(recipe.machine.servers());
  one.machine.ranks = recipe.machine.ranks_per_server;
  one.job.global_batch = recipe.job.global_batch / servers;
  one.layout = all.layout;
  one.layout.dp = static_cast<int32_t>(all.layout.dp / servers);
  return evaluate(one.job, one.machine, one.stack, one.layout).step_s / all.step_s;
}

// A row of one rank's figure need not say the whole layout: another of the same source and model does.
Row completed(Row row, const std::vector<Row>& rows) {
  if (!row.chips.empty()) return row;
  for (const Row& other : rows) {
    if (other.family() != row.family() || other.model != row.model || other.chips.empty()) continue;
    row.chips = other.chips;
    if (row.global_batch.empty()) row.global_batch = other.global_batch;
    // Its kernels are the row's own.
    row.parallelism +=
        " " + std::regex_replace(other.parallelism, std::regex("[a-z]*-recompute|no-SP|SP"), "");
    break;
  }
  return row;
}

Scored score(const arch::Tables& tables, const Row& row, const Recipe& recipe) {
  const Estimate estimate = best_of(recipe);
  Scored out;
  out.row = row;
  out.metric = recipe.metric;
  out.measured = recipe.measured;
  out.chip = recipe.machine.chip;
  out.assumed = recipe.assumed;
  out.layout = to_string(estimate.layout);
  const Model& model = recipe.job.model;
  out.group = fmt::format("{} L{} h{} a{} on {} {} batch {} seq {}", model.name, model.layers, model.hidden,
                          model.heads, recipe.machine.ranks, recipe.machine.chip, recipe.job.global_batch,
                          recipe.job.seq);
  for (const auto* patterns : {&recipe.stack.calibrated_on, &recipe.machine.calibrated_on})
    for (const std::string& pattern : *patterns)
      if (matches(pattern, row.id)) out.calibration = true;
  switch (recipe.metric) {
    case Metric::kStepTime: {
      out.predicted = estimate.step_s;
      const Interval interval = interval_of(tables, recipe.stack, recipe.machine, estimate.step_s);
      out.low = interval.low;
      out.high = interval.high;
      out.hardware_s = hardware_seconds(recipe, estimate.layout);
      out.utilisation = out.hardware_s / out.measured;
      break;
    }
    case Metric::kPeakMemory: out.predicted = estimate.memory.total(); break;
    case Metric::kActivationMemory: out.predicted = estimate.memory.activations; break;
    case Metric::kFits: out.predicted = estimate.fits ? 1 : 0; break;
    case Metric::kScaling: out.predicted = scaling_of(recipe, estimate); break;
  }
  // A peak that was measured is of a run that fitted.
  if (recipe.metric == Metric::kPeakMemory) out.low = estimate.fits ? 1 : 0;
  return out;
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  const double at = share * double(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const double part = at - double(below);
  return below + 1 < values.size() ? values[below] * (1 - part) + values[below + 1] * part : values.back();
}

// One utilisation for all of them: the median, which no row's error is tuned to more than another's.
void add_constant(Family& family, const std::vector<const Scored*>& times) {
  std::vector<double> utilisations, errors;
  for (const Scored* each : times) utilisations.push_back(each->utilisation);
  family.utilisation = quantile(utilisations, 0.5);
  for (const Scored* each : times)
    errors.push_back(std::abs(each->hardware_s / family.utilisation - each->measured) / each->measured);
  family.constant = errors_of(errors);
  family.constant_errors = std::move(errors);
}

void add_regret(Family& family, const std::vector<const Scored*>& times) {
  std::map<std::string, std::vector<const Scored*>> groups;
  for (const Scored* each : times) groups[each->group].push_back(each);
  std::vector<double> regrets;
  for (const auto& [name, rows] : groups) {
    if (rows.size() < 6) continue;
    const auto by = [](double Scored::*member) {
      return [member](const Scored* a, const Scored* b) { return a->*member < b->*member; };
    };
    const Scored* chosen = *std::ranges::min_element(rows, by(&Scored::predicted));
    const Scored* best = *std::ranges::min_element(rows, by(&Scored::measured));
    regrets.push_back(chosen->measured / best->measured - 1);
  }
  family.regret_groups = static_cast<int>(regrets.size());
  family.regret = quantile(regrets, 0.5);
  family.worst_regret = regrets.empty() ? 0 : std::ranges::max(regrets);
}

Family family_of(const std::vector<const Scored*>& rows) {
  Family family;
  std::vector<const Scored*> times;
  std::vector<double> time, memory, activation, calibration;
  int inside = 0;
  for (const Scored* each : rows) {
    if (each->calibration) {
      ++family.calibration;
      if (each->metric == Metric::kStepTime) calibration.push_back(each->error());
      continue;
    }
    if (each->metric == Metric::kStepTime) {
      times.push_back(each);
      time.push_back(each->error());
      if (each->measured >= each->low && each->measured <= each->high) ++inside;
    }
    if (each->metric == Metric::kScaling) time.push_back(each->error());
    if (each->metric == Metric::kActivationMemory) activation.push_back(each->error());
    if (each->metric == Metric::kPeakMemory) {
      memory.push_back(each->error());
      ++family.fit_rows;
      if (each->low == 0) ++family.fits_called_out;
    }
    if (each->metric == Metric::kFits && each->measured == 0) {
      ++family.out_rows;
      if (each->predicted == 1) ++family.out_called_fits;
    }
    if (each->metric == Metric::kFits && each->measured == 1) {
      ++family.fit_rows;
      if (each->predicted == 0) ++family.fits_called_out;
    }
  }
  family.time = errors_of(time);
  family.memory = errors_of(memory);
  family.activation = errors_of(activation);
  family.calibration_time = errors_of(calibration);
  if (!times.empty()) {
    add_constant(family, times);
    add_regret(family, times);
    family.covered = double(inside) / double(times.size());
  }
  return family;
}

}  // namespace

Errors errors_of(std::vector<double> errors) {
  Errors out;
  out.rows = static_cast<int>(errors.size());
  if (errors.empty()) return out;
  for (const double each : errors) out.mean += each / double(errors.size());
  out.median = quantile(errors, 0.5);
  out.p90 = quantile(errors, 0.9);
  return out;
}

Check check_rows(const arch::Tables& tables, const std::vector<Row>& rows) {
  Check check;
  check.rows = static_cast<int>(rows.size());
  for (const Row& each : rows) {
    const Row row = completed(each, rows);
    const Read read = recipe_of(tables, row);
    if (read.recipe)
      check.scored.push_back(score(tables, row, *read.recipe));
    else
      ++check.reasons[row.family() + ": " + read.reason];
  }
  std::map<std::string, std::vector<const Scored*>> families;
  std::vector<const Scored*> all;
  for (const Scored& each : check.scored) {
    families[each.row.family()].push_back(&each);
    all.push_back(&each);
  }
  for (const auto& [name, members] : families) check.families[name] = family_of(members);
  check.all = family_of(all);
  // One constant for each family, not one for all: the stronger opponent.
  std::vector<double> errors;
  for (const auto& [name, family] : check.families)
    errors.insert(errors.end(), family.constant_errors.begin(), family.constant_errors.end());
  check.all.constant = errors_of(errors);
  return check;
}

}  // namespace opentrn::planner
