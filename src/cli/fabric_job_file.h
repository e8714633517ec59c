// Job files of `opentrn fabric job`: YAML with the axes and the steps of a job.
#pragma once

#include <string>

#include "collectives/training.h"

namespace opentrn::cli {

// Fills in axes and blocks. Input faults, with the file and the line: text that is no YAML, keys and values
// that there are not.
void read_training_file(const std::string& path, collectives::TrainingJob& job);

}  // namespace opentrn::cli
