// Job files of `opentrn plan`: YAML with the words of its options.
#pragma once

#include <string>

#include "cli/plan_options.h"

namespace opentrn::cli {

// Fills in what the file states. Input faults, with the file, the line and the key: text that is no YAML; a
// key that there is not, with those there are; a value that its key does not take; what the command line
// states too. A relative path of a model is beside the file.
void read_job_file(const std::string& path, PlanOptions& options);

}  // namespace opentrn::cli
