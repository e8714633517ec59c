#include "planner/goodput/failures_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "planner/check/csv.h"
#include "planner/goodput/monte_carlo.h"

namespace opentrn::planner {
namespace {

constexpr const char* kRoles[] = {"calibration", "evidence", "bound", "not modelled"};

bool bound_below(const std::string& unit) {
  return unit.find("more than") != std::string::npos || unit.find("over") != std::string::npos;
}
bool bound_above(const std::string& unit) {
  return unit.find("less than") != std::string::npos || unit.find("within") != std::string::npos;
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// One row's prediction, by the profile that its id names.
class Predictor {
 public:
  Predictor(const arch::Tables& tables, FailureCheck& check) : tables_(tables), check_(check) {}

  void predict(FailureRow& row, double chips) {
    const std::string name = row.id.substr(0, row.id.find('.'));
    const std::vector<std::string> names = profiles(tables_);
    if (std::ranges::find(names, name) == names.end())
      return (void)(row.remark = "no failure rate of this job was published");
    const Profile profile = profile_of(tables_, name);
    const auto found = [&](double value, std::string how) {
      row.predicted = value;
      row.remark = std::move(how);
      row.role = bound_below(row.unit) || bound_above(row.unit) ? Role::kBound : Role::kEvidence;
    };
    if (std::ranges::find(profile.calibrated_on, row.id) != profile.calibrated_on.end() ||
        of_the_job(row.id)) {
      row.role = Role::kCalibration;
      row.remark = "a value of reliability.toml was read off this row";
    } else if (has(row.what, "MTTF") || has(row.what, "mean time to interrupt")) {
      found(1 / (profile.per_chip_hour() * chips), "one over the rate at this size");
    } else if (has(row.what, "effective training time") || has(row.what, "uptime")) {
      goodput(row, profile, chips, found);
    } else if (has(row.what, "checkpoint size") && profile.parameters > 0) {
      found(checkpoint_bytes(tables_, profile.parameters) / 1e12, "14 bytes a parameter");
    } else {
      row.remark = "nothing here follows from rates, restarts and checkpoints";
    }
  }

 private:
  bool of_the_job(const std::string& id) const {
    for (const arch::Fact* fact : tables_.facts().under("reliability.job"))
      if (std::ranges::find(fact->calibrated_on, id) != fact->calibrated_on.end()) return true;
    return false;
  }

  template <typename Found>
  void goodput(FailureRow& row, const Profile& profile, double chips, const Found& found) {
    if (profile.parameters <= 0) {
      row.remark = "nobody published the size of its model";
      return;
    }
    if (profile.restarts_by_hand) {
      row.remark = "restarted by hand: nobody published how long that took";
      return;
    }
    GoodputJob job;
    job.profile = profile.name;
    job.chips = chips;
    job.chips_per_host = profile.chips_per_host;
    job.checkpoint_gb_s = profile.checkpoint_gb_s;
    job.checkpoint_bytes = checkpoint_bytes(tables_, profile.parameters);
    const UncertainJob of = reliability_of(tables_, job);
    const double exact = goodput_of(of.nominal).useful;
    const double played = simulate_goodput(of.nominal, {.days = 54, .runs = 400}).useful;
    check_.monte_carlo_difference = std::max(check_.monte_carlo_difference, std::abs(played - exact) / exact);
    found(100 * exact, fmt::format("restarts of {} s, checkpoints of {:.1f} TB every {:.0f} s of work",
                                   of.restart_s.value, job.checkpoint_bytes / 1e12, of.nominal.interval_s));
  }

  const arch::Tables& tables_;
  FailureCheck& check_;
};

}  // namespace

bool FailureRow::holds() const { return bound_below(unit) ? predicted > measured : predicted <= measured; }

FailureCheck check_failures(const arch::Tables& tables, std::string_view text, const std::string& origin) {
  FailureCheck check;
  Predictor predictor(tables, check);
  for (const Record& record : read_columns(
           text, origin, {"id", "system", "chips", "what", "value", "unit", "conditions", "source"})) {
    FailureRow row;
    row.id = record.cells[0];
    row.what = record.cells[3];
    row.value = record.cells[4];
    row.unit = record.cells[5];
    const char* start = row.value.c_str();
    char* end = nullptr;
    row.measured = std::strtod(start, &end);
    if (end == start || *end != 0 || !std::isfinite(row.measured))
      throw Fault(FaultKind::kInput, "plan.rows",
                  fmt::format("{}, line {}: the value is '{}'", origin, record.line, row.value), "a number");
    predictor.predict(row, std::strtod(record.cells[2].c_str(), nullptr));
    check.rows.push_back(std::move(row));
  }
  return check;
}

std::string failures_text(const FailureCheck& check) {
  std::string text;
  for (const Role role : {Role::kEvidence, Role::kBound, Role::kCalibration, Role::kNotModelled}) {
    const auto is = [&](const FailureRow& row) { return row.role == role; };
    text +=
        fmt::format("{}: {} rows\n", kRoles[static_cast<int>(role)], std::ranges::count_if(check.rows, is));
    for (const FailureRow& row : check.rows) {
      if (!is(row)) continue;
      text += fmt::format("  {:<20} {} {}", row.id, row.value, row.unit);
      if (role == Role::kEvidence)
        text += fmt::format(": {:.4g} here, {:+.1f} %", row.predicted, 100 * row.error());
      if (role == Role::kBound)
        text += fmt::format(": {:.4g} here, {}", row.predicted, row.holds() ? "holds" : "does not hold");
      text += fmt::format("; {}\n", row.remark);
    }
  }
  return text + fmt::format("Played through and in closed form: at most {:.2f} % apart\n",
                            100 * check.monte_carlo_difference);
}

std::string failures_json(const FailureCheck& check) {
  auto rows = nlohmann::ordered_json::array();
  for (const FailureRow& row : check.rows) {
    nlohmann::ordered_json each = {{"id", row.id},
                                   {"role", kRoles[static_cast<int>(row.role)]},
                                   {"measured", row.measured},
                                   {"unit", row.unit},
                                   {"remark", row.remark}};
    if (row.role == Role::kEvidence || row.role == Role::kBound) {
      each["predicted"] = row.predicted;
      each["error"] = row.error();
    }
    if (row.role == Role::kBound) each["holds"] = row.holds();
    rows.push_back(std::move(each));
  }
  return nlohmann::ordered_json{{"rows", std::move(rows)},
                                {"monte_carlo_difference", check.monte_carlo_difference}}
      .dump();
}

}  // namespace opentrn::planner
