// The model of failures against published rows of them: which a value was read off, and which it only
// predicts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/goodput/profile.h"

namespace opentrn::planner {

enum class Role : uint8_t { kCalibration, kEvidence, kBound, kNotModelled };

struct FailureRow {
  std::string id, what, unit, value;
  Role role = Role::kNotModelled;
  double measured = 0, predicted = 0;
  std::string remark;  // how it was predicted, or why it was not

  double error() const { return measured > 0 ? (predicted - measured) / measured : 0; }
  bool holds() const;  // of a bound
};

struct FailureCheck {
  std::vector<FailureRow> rows;
  // Goodput of the jobs of the rows, in closed form and played through: the largest relative difference.
  double monte_carlo_difference = 0;
};

// `text`: columns id, system, chips, what, value, unit, conditions, source. Input faults: plan.rows.
FailureCheck check_failures(const arch::Tables& tables, std::string_view text, const std::string& origin);

std::string failures_text(const FailureCheck& check);
std::string failures_json(const FailureCheck& check);  // on one line

}  // namespace opentrn::planner
