// The check as text and as JSON.
#pragma once

#include <string>

#include "planner/check/score.h"

namespace opentrn::planner {

std::string check_text(const Check& check, bool every_row);
// {"rows", "mean_error", "constant_mean_error", "families": {...}, ...} on one line.
std::string check_json(const Check& check);

}  // namespace opentrn::planner
