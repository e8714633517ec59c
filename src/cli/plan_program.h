// `opentrn plan` of a program of the user's: StableHLO, HLO, ONNX, or an exported program of PyTorch or JAX.
#pragma once

#include <ostream>

#include "cli/plan_options.h"

namespace opentrn::cli {

void add_program_options(CLI::App& command, PlanOptions& options);
// Input faults "plan.program": options that a program has no use for, or that are of programs and there is
// none.
void check_program_options(const CLI::App& command, const PlanOptions& options);

void print_program_plans(const PlanOptions& options, const arch::Tables& tables, std::ostream& out);

}  // namespace opentrn::cli
