// opentrn fabric job.
#pragma once

#include <ostream>

#include <CLI/CLI.hpp>

namespace opentrn::cli {

void add_fabric_job(CLI::App& fabric, std::ostream& out);

}  // namespace opentrn::cli
