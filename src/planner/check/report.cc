#include "planner/check/report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace opentrn::planner {
namespace {

std::string percent(double value) { return fmt::format("{:.1f}", 100 * value); }

// Of no rows there is no error.
std::string percent_of(int64_t rows, double value) { return rows > 0 ? percent(value) : "-"; }

nlohmann::ordered_json error_of(int64_t rows, double value) {
  return rows > 0 ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
}

nlohmann::ordered_json json_of(const Errors& errors) {
  return {{"rows", errors.rows}, {"mean", errors.mean}, {"median", errors.median}, {"p90", errors.p90}};
}

nlohmann::ordered_json json_of(const Family& family) {
  const auto number = [&](double value) { return error_of(family.time.rows, value); };
  nlohmann::ordered_json out = {
      {"rows", family.time.rows},
      {"mean_error", number(family.time.mean)},
      {"median_error", number(family.time.median)},
      {"p90_error", number(family.time.p90)},
      {"constant_utilisation", number(family.utilisation)},
      {"constant_mean_error", number(family.constant.mean)},
      {"constant_median_error", number(family.constant.median)},
      {"constant_p90_error", number(family.constant.p90)},
      {"interval_coverage", number(family.covered)},
      {"calibration_rows", family.calibration},
      {"calibration_mean_error", error_of(family.calibration, family.calibration_time.mean)}};
  if (family.regret_groups > 0)
    out["regret"] = {
        {"groups", family.regret_groups}, {"median", family.regret}, {"worst", family.worst_regret}};
  if (family.memory.rows > 0) out["memory"] = json_of(family.memory);
  if (family.activation.rows > 0) out["activation_memory"] = json_of(family.activation);
  out["out_of_memory_rows"] = family.out_rows;
  out["out_of_memory_called_fitting"] = family.out_called_fits;
  out["fitting_rows"] = family.fit_rows;
  out["fitting_called_out_of_memory"] = family.fits_called_out;
  return out;
}

std::string line_of(const std::string& name, const Family& family) {
  const auto number = [&](double value) { return percent_of(family.time.rows, value); };
  std::string line = fmt::format(
      "{:<12}{:>5}{:>8}{:>8}{:>8}{:>10}{:>8}{:>8}{:>7}", name, family.time.rows, number(family.time.mean),
      number(family.time.median), number(family.time.p90), number(family.constant.mean),
      number(family.constant.median), number(family.constant.p90), number(family.covered));
  line += family.regret_groups > 0
              ? fmt::format("{:>8}{:>8}", percent(family.regret), percent(family.worst_regret))
              : fmt::format("{:>8}{:>8}", "-", "-");
  line += family.memory.rows > 0
              ? fmt::format("{:>5}{:>7}", family.memory.rows, percent(family.memory.median))
              : fmt::format("{:>5}{:>7}", "-", "-");
  return line + "\n";
}

}  // namespace

std::string check_text(const Check& check, bool every_row) {
  std::string text =
      fmt::format("{} rows, {} predicted. Errors in percent; those of one constant utilisation beside.\n\n",
                  check.rows, check.scored.size());
  text += fmt::format("{:<12}{:>5}{:>8}{:>8}{:>8}{:>10}{:>8}{:>8}{:>7}{:>8}{:>8}{:>5}{:>7}\n", "family",
                      "rows", "mean", "median", "p90", "constant", "median", "p90", "80 %", "regret", "worst",
                      "mem", "median");
  for (const auto& [name, family] : check.families) text += line_of(name, family);
  text += line_of("all", check.all);
  const Family& all = check.all;
  text += fmt::format(
      "\nMemory: {} of {} rows that ran out were called fitting; {} of {} that fit were refused.\n",
      all.out_called_fits, all.out_rows, all.fits_called_out, all.fit_rows);
  if (all.activation.rows > 0)
    text += fmt::format("Activations: {} rows, median error {} %.\n", all.activation.rows,
                        percent(all.activation.median));
  if (all.calibration > 0)
    text += fmt::format("Calibration, no evidence: {} rows, mean error {} %.\n", all.calibration,
                        percent(all.calibration_time.mean));
  for (const Scored& each : check.scored)
    if (each.calibration) text += fmt::format("  {}\n", each.row.id);
  if (!check.reasons.empty()) text += "Not predicted:\n";
  for (const auto& [reason, count] : check.reasons) text += fmt::format("  {:>4}  {}\n", count, reason);
  if (every_row) {
    text += "\nEvery row: predicted over measured, and the layout.\n";
    for (const Scored& each : check.scored)
      text += fmt::format("{:>8.3f} {:>12.5g} {:>12.5g} {} {}  [{}]\n",
                          each.measured > 0 ? each.predicted / each.measured : 0, each.predicted,
                          each.measured, each.calibration ? "C" : " ", each.row.id, each.layout);
  }
  return text;
}

std::string check_json(const Check& check) {
  nlohmann::ordered_json out = {
      {"rows", check.all.time.rows},
      {"mean_error", error_of(check.all.time.rows, check.all.time.mean)},
      {"constant_mean_error", error_of(check.all.time.rows, check.all.constant.mean)}};
  nlohmann::ordered_json families = nlohmann::ordered_json::object();
  for (const auto& [name, family] : check.families) families[name] = json_of(family);
  out["families"] = std::move(families);
  out["all"] = json_of(check.all);
  out["file_rows"] = check.rows;
  out["predicted_rows"] = check.scored.size();
  nlohmann::ordered_json calibration = nlohmann::ordered_json::array();
  for (const Scored& each : check.scored)
    if (each.calibration) calibration.push_back(each.row.id);
  out["calibration"] = std::move(calibration);
  out["not_predicted"] = check.reasons;
  return out.dump();
}

}  // namespace opentrn::planner
