// What the cells of published rows say: numbers, units, degrees and chips, in the words that publishers use.
#pragma once

#include <optional>
#include <string>

#include "planner/job.h"

namespace opentrn::planner {

// Whether `pattern`, a regular expression, occurs in `text`; case does not matter.
bool has(const std::string& text, const char* pattern);

// The number that a cell states: "1,024", "~1000", "8k" (of `kilo`), "7.5e9", "8M", "16 (2x8)", "20±1". None
// where it states none, or a range ("1024..2048", "4096-8192"), or a number of something else ("256px").
std::optional<double> number_in(const std::string& text, double kilo = 1000);

// A count of chips: number_in(), of words that count them ("1024 GPUs") or none.
std::optional<double> chips_in(const std::string& text);

// Sequences of a step; a cell may count tokens ("8M tokens").
std::optional<double> batch_in(const std::string& text, double seq);

struct Degrees {
  std::optional<Schedule> schedule;  // other than 1F1B and its interleaved form
  double tp = 0, cp = 0, pp = 0, dp = 0, ep = 0, vpp = 0, zero = -1, micro_batch = 0, local_batch = 0,
         shard = 0;
  double global_batch = 0, accumulated = 0;  // micro-batches that a rank adds up
  bool sp = false, no_sp = false, overlap = false, fsdp = false, interleaved = false;
  std::optional<Recompute> recompute;
  double recompute_layers = 0;  // of a chunk; 0: all, or none stated
  double model_parallel = 0;    // tp x pp, where only their product is stated
};
Degrees degrees_of(const std::string& text);

// A name of the tables for the chip that a row's `system` names; empty where there is none of it.
std::string chip_in(const std::string& system);

// GB/s of one chip's network, where the row says; 0 where it does not.
double network_in(const std::string& system);

// GB/s one way of the links inside a server, of a part that is sold with fewer of them than the tables' (H800
// and A800: 400 GB/s both ways); 0 of the others.
double links_in(const std::string& system);

// Whether a row's type is one that is known, or none is stated; and which it is.
bool is_precision(const std::string& dtype);
Precision precision_in(const std::string& dtype);
// "tp is 4 and 2" where a layout states two values for one of its degrees; empty where it does not.
std::string stated_twice(const std::string& text);

}  // namespace opentrn::planner
