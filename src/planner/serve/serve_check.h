// Published times to the first token and per token after it, beside what the planner says of the same model
// on the same machine.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planner/check/score.h"
#include "planner/serve/serve.h"

namespace opentrn::planner {

struct ServeScored {
  std::string id, group, what;  // group: first two words of the id, and the metric; what: the plan in words
  bool decode = false;          // else prefill
  double measured_s = 0, predicted_s = 0;
  bool compiled = false, calibration = false;
  bool inside = false;  // the 80 % interval

  double error() const { return std::abs(predicted_s - measured_s) / measured_s; }
};

struct ServeCheck {
  std::vector<ServeScored> scored;
  std::map<std::string, Errors> groups;
  std::map<std::string, int> reasons;  // of rows of these categories without a prediction
  int rows = 0;                        // of these categories
};

// Rows with the columns id,category,workload,metric,value,unit, of category llm_prefill or llm_decode; others
// are left out. `source`: of layers, or null for curves. Input faults as read_columns().
ServeCheck check_serving(const arch::Tables& tables, std::string_view text, const std::string& origin,
                         LayerSource* source);
std::string serve_check_text(const ServeCheck& check, bool every_row);
// One line: {"rows", "scored", "groups": {...}}.
std::string serve_check_json(const ServeCheck& check);

}  // namespace opentrn::planner
