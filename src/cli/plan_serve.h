// opentrn plan --serve: what it takes to serve a model.
#pragma once

#include <ostream>

#include "cli/plan_options.h"

namespace opentrn::cli {

void add_serve_options(CLI::App& command, PlanOptions& options);
// Input fault "plan.serve" for options of training with --serve, and the other way round.
void check_serve_options(const PlanOptions& options);
void print_serve_plans(const PlanOptions& options, const arch::Tables& tables, std::ostream& out);

}  // namespace opentrn::cli
