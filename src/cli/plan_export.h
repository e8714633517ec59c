// opentrn plan --export: a plan as the configuration of a training program.
#pragma once

#include <string>

#include "cli/plan_options.h"

namespace opentrn::cli {

// Writes a file into `folder`, made where it is missing, and gives its path. `format`: jax (train.py, which
// runs), torchtitan (TOML), nxdt (YAML of NxD Training) or megatron (arguments). Input fault "plan.export"
// for what the program has no words for.
std::string export_plan(const planner::Job& job, const Line& line, const std::string& format,
                        const std::string& folder);

}  // namespace opentrn::cli
