// Settings of a server, which go together or do not.
#pragma once

#include <cstdint>
#include <string>

#include "server/program_sizes.h"

namespace opentrn::server {

struct Settings {
  std::string policy = "neuron";  // neuron, neuron-nxdi, vllm
  bool values = true;             // tokens are a model's; else drawn, and steps take what a table says
  bool has_step_times = false;
  std::string quantization = "none", kv_cache_dtype = "auto";
  bool has_adapters = false;
  int64_t ranks = 1;
  int64_t guesses = 0;  // tokens of a step
};

// Input fault serve.settings for those that contradict each other.
void check(const Settings& settings);

// Sizes of programs: those that are stated, and program_sizes() where none are; all of the context is always
// compiled, as AWS's plugin has it. Input fault serve.settings for sizes that fit no request.
ProgramSizes chosen_sizes(const ProgramSizes& stated, int32_t context, int32_t max_num_seqs);

}  // namespace opentrn::server
